"""What if: more brokers, another replication factor or retention, a lost rack; and the fewest brokers that fit.

A change turns the cluster into another one. The planner plans that one, and the answer is how full each broker ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from shunter.core.planning.balance import plan
from shunter.core.planning.cluster import (
    ABSENT,
    ROUNDING,
    ClusterLoad,
    Flags,
    Floats,
    Indexes,
    Ints,
    ProcessorCosts,
    Resource,
    broker_loads,
    weights,
)
from shunter.core.planning.facts import spare
from shunter.core.planning.moves import BalancedPlan, Undone, difference, widened
from shunter.core.planning.request import PlanRefused, PlanRequest, Scope
from shunter.model.inventory import NOTHING_KNOWN

MOST_BROKERS = 1_000
"""More new brokers than this are not tried."""
_TOPICS_TOLD = 5
_LIMITED = (Resource.DISK, Resource.BYTES_IN, Resource.BYTES_OUT, Resource.PROCESSORS)


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """The change that is asked about. Bytes, bytes per second, factors; topics are named by patterns (`payments.*`)."""

    added: int = 0
    """Brokers that do not exist yet."""
    disk: float | None = None
    """Capacity of a new broker's disks, and of a broker whose capacity is not known. None: the median of the others."""
    network: float | None = None
    """Capacity of a new broker's network each way; None: the median of the others."""
    racks: tuple[str, ...] = ()
    """Racks that the new brokers get in turn; none named: each goes to the rack with the fewest brokers."""
    lost_racks: tuple[str, ...] = ()
    replication: int = 0
    """The new replication factor of `topics`; 0: no change."""
    topics: tuple[str, ...] = ()
    """Topics whose replication factor changes; none named: all."""
    retention: tuple[tuple[str, float], ...] = ()
    """Topics' sizes as a factor of their present sizes; the first pattern that fits a topic counts."""
    traffic: float = 1.0
    """Bytes written and read, as a factor of the present ones."""


class Survival(NamedTuple):
    """The cluster right after racks were lost, before anything is copied."""

    unavailable: tuple[str, ...]
    """Partitions without any replica left."""
    below_min_isr: tuple[str, ...]
    """Partitions with a leader and fewer replicas than min.insync.replicas: producers with acks=all are refused."""
    loads: Floats
    """(B, K) each broker's load after leadership has moved to the remaining replicas."""


class BrokerFill(NamedTuple):
    """How much of a capacity a broker's load takes: 1 is all of it. `stood_in` is None if no rack is lost."""

    broker: int
    rack: str
    resource: str
    capacity: float
    before: float
    stood_in: float | None
    """After the loss and before anything is copied."""
    after: float


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """The outcome of a change."""

    plan: BalancedPlan
    """The plan in the changed cluster, from the present replicas to the wanted ones."""
    added: tuple[int, ...]
    lost: tuple[int, ...]
    survival: Survival | None
    reached: bool
    """Whether no replica stays on a lost broker, and every topic has the replication factor that was asked for."""

    def fills(self) -> Iterator[BrokerFill]:
        """Each broker and each resource whose capacity is known."""
        cluster, resources = self.plan.cluster, self.plan.targets.resources
        for resource in _LIMITED:
            capacity = cluster.capacity(resource)
            if capacity is None or resource not in resources:
                continue
            column = resources.index(resource)
            for at, broker in enumerate(cluster.brokers):
                room = float(capacity[at])
                if not np.isfinite(room) or room <= 0:
                    continue
                stood_in = None if self.survival is None else float(self.survival.loads[at, column]) / room
                before, after = (float(loads[at, column]) / room for loads in (self.plan.before, self.plan.after))
                rack = cluster.racks[int(cluster.rack_of[at])]
                yield BrokerFill(broker, rack, resource.label, room, before, stood_in, after)

    @property
    def fits(self) -> bool:
        """Whether `reached`, and every broker that is not lost keeps the headroom of each of its known capacities."""
        most = 1 - self.plan.request.headroom + ROUNDING
        return self.reached and all(one.after <= most for one in self.fills() if one.broker not in self.lost)

    def least_seconds(self, rate: float) -> float:
        """The least seconds that copying takes if each broker copies at a rate (bytes/s) each way.

        Schedules of Shunter come within a few percent of this bound (docs/scheduling.md).
        """
        moves, brokers = self.plan.moves, len(self.plan.cluster.brokers)
        if not len(moves):
            return 0.0
        left = _without(self.plan.cluster.replicas, self.plan.cluster, self.lost)
        source = left[moves.partition, 0]
        known = source != ABSENT
        sent = np.bincount(source[known], weights=moves.size[known], minlength=brokers)
        received = np.bincount(moves.target, weights=moves.size, minlength=brokers)
        return float(max(sent.max(), received.max())) / rate


def answer(cluster: ClusterLoad, change: ClusterChange, request: PlanRequest) -> ChangeAnswer:
    """Plan the cluster as it would be after a change.

    Args:
        request: Headroom, band, aims and exclusions; the scope follows from the change.

    Raises:
        PlanRefused: The change names a rack or topic that the cluster doesn't have, or can't be planned at all.
    """
    start = changed(cluster, change)
    lost = _lost(start, change)
    steps = list(_steps(start, change, request, lost))
    at, undone = start, tuple[Undone, ...]()
    made = None
    for step in steps:
        made = plan(at, step)
        undone += made.undone
        at = replace(at, replicas=made.replicas)
    assert made is not None, "there is always a step"
    whole = _from_start(start, at, replace(made, undone=undone))
    survival = _survival(start, whole, lost) if lost else None
    return ChangeAnswer(whole, start.brokers[len(cluster.brokers) :], lost, survival, _reached(at, start, change, lost))


def fewest_brokers(
    cluster: ClusterLoad, change: ClusterChange, request: PlanRequest, most: int = MOST_BROKERS
) -> ChangeAnswer:
    """Find the least number of new brokers with which the change fits; `fits` is False if `most` are too few.

    One broker fewer was planned too and does not fit, or can't fit by the sum of all loads. (This assumes that a change
    never fits worse with more brokers.)

    Args:
        change: Its `added` is ignored.
        request: Every broker must keep its `headroom`.

    Raises:
        PlanRefused: as `answer`, or no capacity is known.
    """
    tried: dict[int, ChangeAnswer | None] = {}

    def found(count: int) -> ChangeAnswer | None:
        if count not in tried:
            try:
                tried[count] = answer(cluster, replace(change, added=count), request)
            except PlanRefused:
                # There may be too few brokers for the replication factor, which more brokers would mend.
                if count == most:
                    raise
                tried[count] = None
        return tried[count]

    def fits(count: int) -> bool:
        one = found(count)
        return one is not None and one.fits

    count = min(_fewest_by_sum(cluster, change, request), most)
    failed, step = count - 1, 1
    while not fits(count) and count < most:
        failed, count, step = count, min(count + step, most), step * 2
    while count - failed > 1 and fits(count):
        middle = (count + failed) // 2
        failed, count = (failed, middle) if fits(middle) else (middle, count)
    reached = found(count)
    assert reached is not None, "what can't be planned with the most brokers was raised"
    return reached


def changed(cluster: ClusterLoad, change: ClusterChange) -> ClusterLoad:
    """The cluster with other retention and traffic, and with brokers that do not exist yet, which hold no replica.

    Raises:
        PlanRefused: A factor or a number of brokers is below 0, or a pattern names no topic, or every rack is lost.
    """
    if change.added < 0 or change.traffic < 0 or any(factor < 0 for _, factor in change.retention):
        raise PlanRefused("what if: a number of brokers, a traffic or a retention is below 0")
    kept = np.ones(len(cluster.topics))
    for pattern, factor in reversed(change.retention):
        kept[_named(cluster, (pattern,), "retention")] = factor
    scaled = replace(
        cluster,
        sizes=cluster.sizes * kept[cluster.topic_of],
        bytes_in=None if cluster.bytes_in is None else cluster.bytes_in * change.traffic,
        bytes_out=None if cluster.bytes_out is None else cluster.bytes_out * change.traffic,
    )
    racks = [*cluster.racks]
    placed = [racks[at] for at in cluster.rack_of.tolist()]
    for number in range(change.added):
        placed.append(_rack_of_next(placed, change, number))
    racks = sorted(set(placed) | set(racks))
    last = max(cluster.brokers, default=0)
    return replace(
        scaled,
        brokers=(*cluster.brokers, *range(last + 1, last + 1 + change.added)),
        racks=tuple(racks),
        rack_of=np.array([racks.index(rack) for rack in placed], dtype=np.int32),
        disk_capacity=_grown(_for_replicas(cluster), len(cluster.brokers), change.added, change.disk),
        bytes_in_capacity=_grown(cluster.bytes_in_capacity, len(cluster.brokers), change.added, change.network),
        bytes_out_capacity=_grown(cluster.bytes_out_capacity, len(cluster.brokers), change.added, change.network),
        processor_capacity=_grown(cluster.processor_capacity, len(cluster.brokers), change.added, None),
        # Who is dead stays dead. Replicas that are late today are taken for caught up by then.
        facts=tuple(each.without_room() for each in cluster.facts)
        + (NOTHING_KNOWN,) * (change.added if cluster.facts else 0),
        isr=None,
        offline=None,
        leader=None,
    )


def _for_replicas(cluster: ClusterLoad) -> Floats | None:
    """(B,) the capacity of disks without what is there beside replicas, as far as brokers tell it."""
    held = broker_loads(cluster.replicas, len(cluster.brokers), *weights(cluster, (Resource.DISK,)))[:, 0]
    found = held + spare(cluster, 0.0)
    known = cluster.disk_capacity
    return known if known is None or np.isnan(found).all() else np.fmin(known, found)


def _rack_of_next(placed: list[str], change: ClusterChange, number: int) -> str:
    if change.racks:
        return change.racks[number % len(change.racks)]
    standing = sorted(set(placed) - set(change.lost_racks))
    if not standing:
        raise PlanRefused("what if: every rack is lost; say with --rack where new brokers stand")
    return min(standing, key=lambda rack: (placed.count(rack), rack))


def _grown(known: Floats | None, brokers: int, added: int, given: float | None) -> Floats | None:
    """(B + added,) capacities with those of new brokers; `given` is also taken for brokers of unknown capacity."""
    there = np.full(brokers, np.nan) if known is None else np.where(np.isfinite(known), known, np.nan)
    if given is None and np.isnan(there).all():
        return None
    usual = float(np.nanmedian(there)) if given is None else given
    return np.append(np.where(np.isnan(there), usual, there), np.full(added, usual))


def _named(cluster: ClusterLoad, patterns: tuple[str, ...], what: str) -> Flags:
    """(topics,) whether one of the patterns names the topic.

    Raises:
        PlanRefused: A pattern names no topic.
    """
    found = np.zeros(len(cluster.topics), dtype=np.bool_)
    for pattern in patterns:
        fit = np.array([fnmatchcase(topic, pattern) for topic in cluster.topics], dtype=np.bool_)
        if not fit.any():
            some = ", ".join(cluster.topics[:_TOPICS_TOLD]) + (", …" if len(cluster.topics) > _TOPICS_TOLD else "")
            raise PlanRefused(
                f"{what}: no topic of this cluster fits {pattern!r}; it has {some} ('*' means all topics)"
            )
        found |= fit
    return found


def _lost(cluster: ClusterLoad, change: ClusterChange) -> tuple[int, ...]:
    unknown = sorted(set(change.lost_racks) - set(cluster.racks))
    if unknown:
        raise PlanRefused(f"lost racks: the cluster has no rack {unknown[0]!r}; it has {', '.join(cluster.racks)}")
    return tuple(
        broker
        for broker, rack in zip(cluster.brokers, cluster.rack_of.tolist(), strict=True)
        if cluster.racks[rack] in change.lost_racks
    )


def _steps(
    cluster: ClusterLoad, change: ClusterChange, request: PlanRequest, lost: tuple[int, ...]
) -> Iterator[PlanRequest]:
    """The requests of the plan's steps: leave the lost brokers, change the replication factor, rebalance."""
    bare = replace(request, brokers=(), replacements=(), replication=0, topics=(), disk_limit=None)
    if lost:
        yield replace(bare, scope=Scope.DRAIN, brokers=lost)
    rest = replace(bare, excluded_brokers=tuple(sorted({*request.excluded_brokers, *lost})))
    if change.replication:
        chosen = _named(cluster, change.topics, "replication") if change.topics else None
        names = () if chosen is None else tuple(np.array(cluster.topics, dtype=object)[chosen].tolist())
        yield replace(rest, scope=Scope.CHANGE_REPLICATION, replication=change.replication, topics=names)
    yield replace(rest, scope=Scope.REBALANCE)


def _from_start(start: ClusterLoad, end: ClusterLoad, last: BalancedPlan) -> BalancedPlan:
    """One plan instead of several steps: a replica that the steps would copy twice is copied once."""
    resources = last.targets.resources
    wide = replace(start, replicas=widened(start.replicas, end.replicas.shape[1]))
    nothing = np.zeros(wide.replicas.shape, dtype=np.int8)
    moves, dropped = difference(wide.replicas, end.replicas, start.sizes, nothing, nothing - 1)
    brokers = len(start.brokers)
    return replace(
        last,
        cluster=wide,
        replicas=end.replicas,
        changed=np.flatnonzero((end.replicas != wide.replicas).any(axis=1)),
        elected=np.zeros(0, np.int64),
        moves=moves,
        dropped=dropped,
        before=broker_loads(wide.replicas, brokers, *weights(wide, resources)),
        after=broker_loads(end.replicas, brokers, *weights(end, resources)),
    )


def _survival(start: ClusterLoad, whole: BalancedPlan, lost: tuple[int, ...]) -> Survival:
    left = _without(start.replicas, start, lost)
    count = (left != ABSENT).sum(axis=1)
    least = np.ones(len(count), dtype=np.int32) if start.min_isr is None else start.min_isr
    hit = count < start.replication
    gone, short = np.flatnonzero(count == 0), np.flatnonzero((count > 0) & (count < least) & hit)
    standing = replace(start, replicas=left)
    every, leading = weights(standing, whole.targets.resources)
    loads = broker_loads(left, len(start.brokers), every, leading)
    return Survival(
        tuple(start.partition_name(int(one)) for one in gone),
        tuple(start.partition_name(int(one)) for one in short),
        loads,
    )


def _without(replicas: Indexes, cluster: ClusterLoad, lost: tuple[int, ...]) -> Indexes:
    """(P, W) the replicas that are not on lost brokers, in their order; a row without any is all ABSENT."""
    indexes = np.flatnonzero(np.isin(np.array(cluster.brokers), lost))
    left = np.where(np.isin(replicas, indexes), ABSENT, replicas)
    order = np.argsort(left == ABSENT, axis=1, kind="stable")
    return np.take_along_axis(left, order, axis=1)


def _reached(end: ClusterLoad, start: ClusterLoad, change: ClusterChange, lost: tuple[int, ...]) -> bool:
    indexes = np.flatnonzero(np.isin(np.array(end.brokers), lost))
    if np.isin(end.replicas, indexes).any():
        return False
    if not change.replication:
        return True
    chosen = _named(start, change.topics or ("*",), "replication")[start.topic_of]
    return bool((end.replication[chosen] == change.replication).all())


def _fewest_by_sum(cluster: ClusterLoad, change: ClusterChange, request: PlanRequest) -> int:
    """How many new brokers the sum of all loads takes, however the loads are spread.

    Raises:
        PlanRefused: no capacity is known.
    """
    one = changed(cluster, replace(change, added=1))
    lost = np.isin(np.array(one.brokers), _lost(one, change))
    factors: Ints = one.replication.astype(np.int64)
    if change.replication:
        factors[_named(one, change.topics or ("*",), "replication")[one.topic_of]] = change.replication
    rate_in = np.zeros(len(factors)) if one.bytes_in is None else one.bytes_in
    rate_out = np.zeros(len(factors)) if one.bytes_out is None else one.bytes_out
    received, sent = float((rate_in * factors).sum()), float((rate_out + rate_in * (factors - 1)).sum())
    costs = one.processor_costs or ProcessorCosts(0.0, 0.0, 0.0)
    totals = {
        Resource.DISK: float((one.sizes * factors).sum()),
        Resource.BYTES_IN: received,
        Resource.BYTES_OUT: sent,
        Resource.PROCESSORS: costs.received * received + costs.led * float(rate_in.sum()) + costs.sent * sent,
    }
    known = {resource: capacity for resource in _LIMITED if (capacity := one.capacity(resource)) is not None}
    if not known:
        raise PlanRefused(
            "how many brokers it takes: no capacity is known; give the disks of new brokers (snapshots tell those of the others "
            "from Kafka 3.3 on), or the capacity of the network"
        )
    counts = [0]
    for resource, capacity in known.items():
        each = float(capacity[-1]) * (1 - request.headroom)
        there = float(capacity[:-1][~lost[:-1]].sum()) * (1 - request.headroom)
        missing = totals[resource] * (1 - ROUNDING) - there
        if missing > 0 and each <= 0:
            raise PlanRefused(f"how many brokers it takes: new ones have no {resource.label} to give")
        counts.append(int(np.ceil(missing / each)) if missing > 0 else 0)
    standing = int((~lost[:-1]).sum())
    counts.append(int(factors.max(initial=0)) - standing)
    return max(counts)
