"""The targets of every broker: its share of each resource, the band around the share, and the hard limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shunter.core.own_topics import OWN_PREFIX
from shunter.core.planning.cluster import (
    ABSENT,
    COUNTS,
    ROUNDING,
    ClusterLoad,
    Flags,
    Floats,
    Ints,
    Resource,
    broker_loads,
    weights,
)
from shunter.core.planning.facts import (
    HELD,
    OBSTACLES,
    Obstacle,
    barred,
    beside_throttled,
    closed,
    fitness_of,
    ill_ones,
    in_the_way,
    led_by_the_able,
    rooms,
    slow,
    spare,
    without_data,
)
from shunter.core.planning.racks import RackRules
from shunter.core.planning.request import (
    BALANCING,
    EMPTYING,
    MEASURED,
    ORDER_ALONE,
    PlanRefused,
    PlanRequest,
    Scope,
    may_receive_nothing,
)
from shunter.core.wording import counted

_PRIORITY = 4.0
"""How many times as much one aim weighs as the next one."""
_LEVEL_SLACK = 0.8
"""If a rack's forced share is within this part of the band, its brokers keep the band around the mean."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets in shares of the mean: a load of 1.0 is the mean of the brokers that take part.

    Shapes are (B, K) unless said otherwise; K is `resources`. A resource that is not an aim has the band 0 to infinity.
    """

    resources: tuple[Resource, ...]
    scale: Floats
    """(K,) the mean load of a broker that takes part, in the resource's unit; 1 if no broker carries any."""
    every: Floats
    """(P, K) the load that a replica adds."""
    leading: Floats
    """(P, K) the load that leading adds on top."""
    share: Floats
    """The load that a broker should carry: by capacity if every capacity is known, else the same for all."""
    low: Floats
    high: Floats
    hard: Floats
    """No move may exceed it, not even meanwhile, when a disk holds both the leaving and the new replicas."""
    weight: Floats
    """(K,) how much a violation counts; 0 if the resource is not an aim."""
    members: Flags
    """(B,) brokers that take part: not drained, not excluded, and not barred, unless the scope lets them lead or give."""
    receivers: Flags
    """(B,) brokers that may receive replicas; a subset of `members`."""
    slow: Flags
    """(B,) brokers that receive only what no other may take, as a throttle holds them. No broker, if all would be slow."""
    excluded: Flags
    """(B,) brokers that no replica may come to or leave."""
    barred: dict[int, str]
    """Brokers that may receive nothing, by index, and why."""
    largest: Floats
    """(B,) the largest replica that may come to a broker, as `hard` for disks; the log dir that it chooses limits it."""
    movable: Flags
    """(P,) partitions whose topic is not excluded, of which a live replica in sync has the data, and no obstacle."""
    lost: Flags
    """(P,) partitions of which no live replica in sync has the data."""
    closed: Flags
    """(B,) brokers whose log dirs are all cordoned."""
    beside: dict[Obstacle, Flags]
    """(P,) partitions of the other topics, with data, that the scope leaves alone, by the `Obstacle` that they hold."""
    ill: dict[tuple[int, int], int]
    """The `Fitness` of each replica that can't lead now, by partition and broker."""
    group: Ints
    """(B,) the group in which a broker can trade bytes freely: its rack, if most replicas are bound to their rack."""
    rack_level: Floats
    """(R,) the share of the mean that a rack's brokers carry if racks are obeyed; 1 if racks leave it open."""
    rules: RackRules

    def column(self, resource: Resource) -> int | None:
        """Index of a resource among `resources`."""
        return self.resources.index(resource) if resource in self.resources else None

    def aim(self, resource: Resource) -> int | None:
        """Index of a resource among `resources` if it is an aim."""
        column = self.column(resource)
        return column if column is not None and self.weight[column] > 0 else None

    def outside(self, loads: Floats) -> Flags:
        """(B, K) whether a load, in shares of the mean, is outside its band."""
        return np.asarray((loads > self.high + ROUNDING) | (loads < self.low - ROUNDING))


def _stay(cluster: ClusterLoad, request: PlanRequest) -> Flags:
    """(T,) topics that stay where they are."""
    stay = {*request.excluded_topics}
    if request.scope in MEASURED:  # A new leader of these costs the service seconds in which it takes no order.
        stay.update(topic for topic in cluster.topics if topic.startswith(OWN_PREFIX))
    return np.array([topic in stay for topic in cluster.topics], dtype=np.bool_)


def targets(cluster: ClusterLoad, request: PlanRequest) -> Targets:
    """Work out the targets of a request.

    Raises:
        PlanRefused: A broker or topic that the cluster doesn't have, or no broker is left to carry anything.
    """
    shut = barred(cluster)
    members, receivers, late = _who(cluster, request, shut)
    resources = cluster.resources()
    every, leading = weights(cluster, resources)
    fitness = fitness_of(cluster)
    replicas, _ = led_by_the_able(cluster.replicas, fitness)
    loads = broker_loads(replicas, len(cluster.brokers), every, leading)
    # What stays on brokers that take no part is not shared out.
    apart = ~members & ~np.isin(np.array(cluster.brokers), request.leaving)
    if request.scope is Scope.OFFLINE:
        apart[list(shut)] = False
    excluded = np.isin(np.array(cluster.brokers), request.excluded_brokers)
    apart |= excluded
    scale = np.asarray(loads[~apart].sum(axis=0) / max(1, members.sum()))
    scale[scale <= 0] = 1.0
    rules = RackRules(cluster.rack_of, members, len(cluster.racks))
    rack_level, pinned = _rack_levels(cluster, rules, apart)
    share = _shares(cluster, resources, members)
    low, high = _band(request, resources, share, scale, rack_level[cluster.rack_of])
    hard = _hard(cluster, request, resources, scale)
    largest = _limit_to_room(cluster, request, hard[:, 0], loads[:, 0], float(scale[0]))
    _limit_to_scope(cluster, request, resources, scale, loads, low, high)
    high = np.minimum(high, hard)
    low = np.minimum(low, high)
    aims = [resource for resource in request.aims if resource in resources]
    weight = np.array([_PRIORITY ** -aims.index(r) if r in aims else 0.0 for r in resources])
    low[~members], high[~members] = 0.0, np.inf
    low[:, weight == 0], high[:, weight == 0] = 0.0, hard[:, weight == 0]
    lost = without_data(cluster.replicas, fitness)
    excluded_rows = _stay(cluster, request)[cluster.topic_of]
    cordoned = closed(cluster)
    beside = {
        kind: in_the_way(kind, cluster.replicas, fitness, cordoned).any(axis=1)
        & (~lost & ~excluded_rows & (request.scope in kind.left_by))
        for kind in OBSTACLES
    }
    if request.scope in HELD.left_by and late.any():
        beside[HELD] = beside_throttled(cluster, late) & ~lost & ~excluded_rows
    left = [found for kind, found in beside.items() if request.scope not in kind.taken_by]
    return Targets(
        resources=resources,
        scale=scale,
        every=every / scale,
        leading=leading / scale,
        share=share,
        low=low,
        high=high,
        hard=hard,
        weight=weight,
        members=members,
        receivers=receivers,
        slow=late,
        excluded=excluded,
        barred=shut,
        largest=largest,
        movable=~excluded_rows & ~lost & ~np.any(left, axis=0),
        lost=lost,
        closed=cordoned,
        beside=beside,
        ill=ill_ones(cluster.replicas, fitness),
        group=cluster.rack_of.astype(np.int64) if pinned else np.zeros(len(cluster.brokers), dtype=np.int64),
        rack_level=rack_level,
        rules=rules,
    )


def _who(cluster: ClusterLoad, request: PlanRequest, shut: dict[int, str]) -> tuple[Flags, Flags, Flags]:
    known = np.array(cluster.brokers)
    for asked, what in (
        (request.brokers, "brokers"),
        (request.replacements, "replacements"),
        (request.excluded_brokers, "excluded brokers"),
        (tuple(broker for wish in request.wishes for broker in wish.brokers), "brokers of a topic"),
    ):
        unknown = sorted(set(asked) - set(cluster.brokers))
        if unknown:
            raise PlanRefused(
                f"{what}: the cluster has no broker {unknown[0]}; name some of its {counted(len(known), 'broker')}"
            )
    unknown_topics = sorted(
        {*request.excluded_topics, *request.topics, *(wish.topic for wish in request.wishes)} - set(cluster.topics)
    )
    if unknown_topics:
        raise PlanRefused(f"topics: the cluster has no topic {unknown_topics[0]!r}")
    wanted = request.brokers if request.scope is Scope.FILL else request.replacements
    for broker in wanted:
        why = shut.get(cluster.brokers.index(broker))
        if why is not None:
            raise may_receive_nothing(broker, why)
    members = ~np.isin(known, request.excluded_brokers)
    # A broker that may receive nothing can still lead, or give from a full disk, unless it is down.
    gives = request.scope in (*ORDER_ALONE, *EMPTYING)
    members[[at for at in shut if not gives or (cluster.facts and cluster.facts[at].down)]] = False
    if request.leaving:
        members &= ~np.isin(known, request.brokers)
    if not members.any():
        told = "".join(f"; broker {cluster.brokers[at]} {why}" for at, why in sorted(shut.items()))
        raise PlanRefused(f"no broker is left to carry replicas: all are drained or excluded{told}")
    receivers = members.copy()
    if request.scope not in ORDER_ALONE:
        receivers[list(shut)] = False
    late = slow(cluster) & bool((receivers & ~slow(cluster)).any())
    if request.scope is Scope.FILL:
        receivers &= np.isin(known, request.brokers)
    if request.scope in BALANCING:
        receivers &= ~late  # A balance that waits for a throttle is none.
    return members, receivers, late


def _rack_levels(cluster: ClusterLoad, rules: RackRules, apart: Flags) -> tuple[Floats, bool]:
    """Find the share of the mean that racks force upon their brokers, and whether bytes are bound to their rack.

    A replica that stays on a broker `apart` has its rack's place, so that no other broker of the rack needs one.
    """
    level = np.zeros(len(cluster.racks))
    brokers = rules.sizes.sum()
    pinned = total = 0
    for factor, held, count in _kinds(cluster, apart):
        ceiling, shared = rules.ceiling(factor), factor - int(held.sum())
        if shared <= 0:
            continue
        most = np.minimum(rules.sizes, np.maximum(ceiling - held, 0)) / shared
        least = np.minimum(rules.sizes, np.maximum(ceiling - 1 - held, 0)) / shared
        even = rules.sizes / brokers
        part = _clipped_shares(even, least, most) if most.sum() > 0 else even
        pinned += count * shared if most.sum() <= 1 + 1e-9 else 0
        level += count * shared * part
        total += count * shared
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.where(rules.sizes > 0, level / max(total, 1) * brokers / rules.sizes, 1.0)
    return level, len(cluster.racks) > 1 and pinned * 2 > total


def _kinds(cluster: ClusterLoad, apart: Flags) -> Iterator[tuple[int, Ints, int]]:
    """Replication factors, with (R,) how many replicas stay apart in each rack, and how many partitions are so."""
    there = (cluster.replicas != ABSENT) & apart[cluster.replicas]
    some = there.any(axis=1)
    factors, counts = np.unique(cluster.replication[~some], return_counts=True)
    for factor, count in zip(factors.tolist(), counts.tolist(), strict=True):
        yield factor, np.zeros(len(cluster.racks), dtype=np.int64), count
    kinds = np.zeros((int(some.sum()), 1 + len(cluster.racks)), dtype=np.int64)
    kinds[:, 0] = cluster.replication[some]
    rows, slots = np.nonzero(there[some])
    np.add.at(kinds, (rows, 1 + cluster.rack_of[cluster.replicas[some][rows, slots]]), 1)
    for kind, count in zip(*np.unique(kinds, axis=0, return_counts=True), strict=True):
        yield int(kind[0]), kind[1:], int(count)


def _clipped_shares(wanted: Floats, least: Floats, most: Floats) -> Floats:
    """Scale `wanted` so that, clipped to its limits, it adds up to 1 (or to all that the limits allow)."""
    if most.sum() <= 1:
        return np.asarray(most / most.sum())
    below, above = 0.0, float((most / np.maximum(wanted, 1e-12)).max())
    for _ in range(60):
        middle = (below + above) / 2
        if np.clip(middle * wanted, least, most).sum() < 1:
            below = middle
        else:
            above = middle
    return np.asarray(np.clip(above * wanted, least, most))


def _shares(cluster: ClusterLoad, resources: tuple[Resource, ...], members: Flags) -> Floats:
    share = np.ones((len(cluster.brokers), len(resources)))
    for column, resource in enumerate(resources):
        capacity = cluster.capacity(resource)
        if capacity is not None and np.isfinite(capacity[members]).all() and capacity[members].sum() > 0:
            share[:, column] = np.where(members, capacity / capacity[members].mean(), 1.0)
    return share


def _band(
    request: PlanRequest, resources: tuple[Resource, ...], share: Floats, scale: Floats, level: Floats
) -> tuple[Floats, Floats]:
    forced = np.abs(level - 1) > _LEVEL_SLACK * request.band
    low, high = np.empty_like(share), np.empty_like(share)
    for column, resource in enumerate(resources):
        centre = share[:, column]
        if resource in {Resource.DISK, Resource.BYTES_IN, Resource.REPLICAS}:
            centre = np.where(forced, centre * level, centre)
        low[:, column] = centre * (1 - request.band)
        high[:, column] = centre * (1 + request.band)
        if resource in COUNTS:
            # A band narrower than one replica may hold no whole number, so admit both whole numbers around the share.
            low[:, column] = np.minimum(low[:, column], np.floor(centre * scale[column] + 1e-9) / scale[column])
            high[:, column] = np.maximum(high[:, column], np.ceil(centre * scale[column] - 1e-9) / scale[column])
    return low, high


def _hard(cluster: ClusterLoad, request: PlanRequest, resources: tuple[Resource, ...], scale: Floats) -> Floats:
    hard = np.full((len(cluster.brokers), len(resources)), np.inf)
    for column, resource in enumerate(resources):
        capacity = cluster.capacity(resource)
        if capacity is not None:
            hard[:, column] = np.where(np.isnan(capacity), np.inf, capacity * (1 - request.headroom)) / scale[column]
        if resource is Resource.REPLICAS and request.max_replicas is not None:
            hard[:, column] = request.max_replicas / scale[column]
    return hard


def _limit_to_room(cluster: ClusterLoad, request: PlanRequest, hard: Floats, load: Floats, scale: float) -> Floats:
    """Lower the hard limits of disks to the room that there is; returns (B,) the largest replica that may come."""
    largest = np.full(len(hard), np.inf)
    for at, room in enumerate(rooms(cluster, request.headroom)):
        if room is not None:
            # If other data alone fill it too much, nothing comes, and nothing has to leave: that would not help.
            left = load[at] + room.whole
            hard[at] = min(hard[at], (left if left > 0 else load[at]) / scale)
            largest[at] = room.largest / scale
    return largest


def _limit_to_scope(
    cluster: ClusterLoad,
    request: PlanRequest,
    resources: tuple[Resource, ...],
    scale: Floats,
    loads: Floats,
    low: Floats,
    high: Floats,
) -> None:
    """Remove the parts of the band that the scope doesn't ask for."""
    if request.scope in EMPTYING:
        if request.disk_limit is None or request.disk_limit <= 0:
            raise PlanRefused(f"disk limit {request.disk_limit} is not a positive share of a disk; give one")
        disk = resources.index(Resource.DISK)
        capacity = cluster.disk_capacity
        whole = np.ones(len(cluster.brokers)) if capacity is None else capacity / scale[disk]
        low[:] = 0.0
        high[:] = np.inf
        high[:, disk] = np.where(np.isnan(whole), 1.0, whole) * request.disk_limit
        # What is on a disk beside replicas fills it too. If that alone is too much, moving replicas does not help.
        filled = (loads[:, disk] + spare(cluster, 1 - request.disk_limit)) / scale[disk]
        high[:, disk] = np.fmin(high[:, disk], np.where(filled > 0, filled, np.inf))
    if request.scope is Scope.FILL:
        others = ~np.isin(np.array(cluster.brokers), request.brokers)
        high[others] = np.inf
