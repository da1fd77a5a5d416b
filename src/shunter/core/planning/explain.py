"""Explains a plan: each move's reason, brokers before and after, the distance to the bound, and what was not done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from shunter.core.planning.board import Why
from shunter.core.planning.bounds import Bound
from shunter.core.planning.cluster import ABSENT, Resource
from shunter.core.planning.moves import BalancedPlan, percent_of


class ResourceChange(NamedTuple):
    """One resource over all brokers that take part, as shares of their mean."""

    name: str
    least_before: float
    most_before: float
    least_after: float
    most_after: float


class MoveReason(NamedTuple):
    """One replica that is copied. `source` is None for one that is added."""

    partition: str
    source: int | None
    target: int
    size: float
    reason: str


class BrokerChange(NamedTuple):
    """One broker's loads in the resources' own units, (name, before, after) each."""

    broker: int
    rack: str
    loads: tuple[tuple[str, float, float], ...]


class Summary(NamedTuple):
    """The figures of a plan. Sizes are in the unit of the cluster's sizes, percents are of all replicas' bytes."""

    resources: tuple[ResourceChange, ...]
    moves: int
    replicas: int
    bytes_moved: float
    bytes_percent: float
    leader_changes: int
    order_only: int
    dropped: int
    bound_percent: float | None
    bound_rests_on: str
    joint_percent: float | None
    """The linear programme's bound; infinite if no plan reaches all bands together, None if it was not asked for."""
    reasons: tuple[tuple[str, int], ...]
    undone: tuple[tuple[str, str], ...]


_REASONS = {
    Why.DRAINED: "leaves a drained broker",
    Why.OFFLINE: "was offline",
    Why.WANTED: "its topic is wanted elsewhere",
    Why.RACKS: "its partition shared a rack without need",
    Why.REPLICATION: "one more replica",
    Why.OVER: "its broker had too much: {}",
    Why.UNDER: "the broker it goes to had too little: {}",
    Why.SWAPPED: "exchanged for another replica: {}",
    Why.TOPIC: "spreads its topic",
    Why.REPLACED: "leaves a replaced broker",
    Why.UNCHANGED: "makes room for another replica of its partition",
}


def summarise(plan: BalancedPlan, bound: Bound | None, joint: Bound | None = None) -> Summary:
    """Sum a plan up; `bound` and `joint` are the least that any plan must copy, None if they were not asked for."""
    resources: list[ResourceChange] = []
    members = plan.targets.members
    for resource in plan.targets.resources:
        before, after = plan.share(plan.before, resource)[members], plan.share(plan.after, resource)[members]
        resources.append(
            ResourceChange(
                resource.label, float(before.min()), float(before.max()), float(after.min()), float(after.max())
            )
        )
    reasons = Counter(map(_reason, plan.moves.why.tolist(), plan.moves.resource.tolist()))
    return Summary(
        resources=tuple(resources),
        moves=len(plan.moves),
        replicas=int(plan.cluster.replication.sum()),
        bytes_moved=plan.bytes_moved,
        bytes_percent=percent_of(plan.bytes_moved, plan.total_bytes),
        leader_changes=plan.leader_changes,
        order_only=plan.order_only,
        dropped=plan.dropped,
        bound_percent=None if bound is None else percent_of(bound.size, plan.total_bytes),
        bound_rests_on="" if bound is None else bound.rests_on,
        # The joint bound is a relaxation: it takes parts of replicas, while the simple bound counts whole replicas.
        joint_percent=None
        if joint is None
        else percent_of(max(joint.size, bound.size if bound else 0.0), plan.total_bytes),
        reasons=tuple(reasons.most_common()),
        undone=tuple((left.what, left.why) for left in plan.undone),
    )


def _reason(why: int, resource: int) -> str:
    return _REASONS[Why(why)].format(Resource(resource).label if resource >= 0 else "several")


def move_reasons(plan: BalancedPlan) -> Iterator[MoveReason]:
    """Each copied replica with its reason and the figures behind it, in the plan's order."""
    cluster, moves = plan.cluster, plan.moves
    columns = {int(resource): column for column, resource in enumerate(plan.targets.resources)}
    shares = plan.before / plan.targets.scale
    for partition, source, target, size, why, resource in zip(
        moves.partition.tolist(),
        moves.source.tolist(),
        moves.target.tolist(),
        moves.size.tolist(),
        moves.why.tolist(),
        moves.resource.tolist(),
        strict=True,
    ):
        reason = _reason(why, resource)
        if resource in columns and source != ABSENT:
            here, there = shares[source, columns[resource]], shares[target, columns[resource]]
            reason += f" ({here:.2f} of the mean where it was, {there:.2f} where it goes)"
        yield MoveReason(
            partition=cluster.partition_name(partition),
            source=None if source == ABSENT else cluster.brokers[source],
            target=cluster.brokers[target],
            size=size,
            reason=reason,
        )


def broker_changes(plan: BalancedPlan) -> Iterator[BrokerChange]:
    """Each broker's loads before and after."""
    names = [resource.label for resource in plan.targets.resources]
    for at, broker in enumerate(plan.cluster.brokers):
        before, after = plan.before[at].tolist(), plan.after[at].tolist()
        rack = plan.cluster.racks[int(plan.cluster.rack_of[at])]
        yield BrokerChange(broker, rack, tuple(zip(names, before, after, strict=True)))
