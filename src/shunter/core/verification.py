"""Whether a plan has been reached: the difference between each of its partitions and the cluster, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from shunter.core.wording import told_bytes
from shunter.model.execution import MoveOrder
from shunter.model.log_dirs import ReplicaDir, ReplicaDirs
from shunter.model.partition import BrokerId, Replicas, TopicPartition

NOT_LIVE = "it is not live"
_NOWHERE = ReplicaDir(None, None, 0)


class MisplacedReplica(NamedTuple):
    """A replica that is not, or not known to be, in the log dir that a plan names: `wanted`.

    `now`: its log dir (None: not known). `coming`: the log dir that it is being copied to (None: it is not copied).
    `copied_bytes` of `bytes` are there. `text`: all of it as a sentence.
    """

    broker: BrokerId
    wanted: str
    now: str | None
    coming: str | None
    copied_bytes: int
    bytes: int
    text: str


class PlanDifference(NamedTuple):
    """A partition that is not where a plan says, in sentences. `log_dirs`: replicas in other log dirs than planned."""

    tp: TopicPartition
    texts: tuple[str, ...]
    log_dirs: tuple[MisplacedReplica, ...] = ()


def replicas_to_place(
    orders: Sequence[MoveOrder], moving: Collection[TopicPartition], replicas: Mapping[TopicPartition, Replicas]
) -> list[tuple[BrokerId, TopicPartition]]:
    """The replicas whose log dirs decide whether a plan has been reached: their partitions have arrived."""
    return [
        (broker, order.tp)
        for order in orders
        if order.tp not in moving and replicas.get(order.tp) == order.target
        for broker, _path in order.log_dirs
    ]


def differences(
    orders: Sequence[MoveOrder],
    moving: Mapping[TopicPartition, str],
    replicas: Mapping[TopicPartition, Replicas],
    places: ReplicaDirs,
) -> Iterator[PlanDifference]:
    """The partitions of a plan that are not where it says, in the plan's order.

    Args:
        orders: The plan. An order without a target cancels a move, so it is reached when nothing moves the partition.
        moving: Partitions that are being moved between brokers, and how, in words.
        replicas: Partitions that exist, and their replicas.
        places: Log dirs, at least of `replicas_to_place`.
    """
    for order in orders:
        known = replicas.get(order.tp)
        if order.tp in moving:
            yield PlanDifference(order.tp, (f"is still being moved: {moving[order.tp]}",))
        elif known is None:
            yield PlanDifference(order.tp, ("does not exist",))
        elif order.target and known != order.target:
            yield PlanDifference(order.tp, (f"is on {list(known)}, not on {list(order.target)}, and nothing moves it",))
        elif misplaced := tuple(_misplaced(order, places)):
            yield PlanDifference(order.tp, tuple(each.text for each in misplaced), misplaced)


def _misplaced(order: MoveOrder, places: ReplicaDirs) -> Iterator[MisplacedReplica]:
    for broker, wanted in order.log_dirs:
        place = places.found.get((broker, order.tp), _NOWHERE)
        if place.current == wanted and place.future is None:
            continue
        why = places.failed.get(broker, "")
        text = _told(broker, wanted, place, why)
        yield MisplacedReplica(broker, wanted, place.current, place.future, place.copied, place.size, text)


def _told(broker: BrokerId, wanted: str, place: ReplicaDir, why: str) -> str:
    at = f"on broker {broker}"
    if why:
        return f"{at}: its log dir is not known, the plan says {wanted}; the broker does not tell it: {why}"
    if place.current is None:
        return f"{at}: its log dir is not known, the plan says {wanted}; no log dir that the broker shows has it"
    if place.future is None:
        return f"{at} is in {place.current}, the plan says {wanted}, and nothing moves it there"
    told = f"{told_bytes(place.copied)} of {told_bytes(place.size)}"
    if place.future == wanted:
        return f"{at} is still being copied from {place.current} to {wanted}: {told}"
    return f"{at} is being copied from {place.current} to {place.future}, the plan says {wanted}: {told}"


__all__ = ["NOT_LIVE", "MisplacedReplica", "PlanDifference", "differences", "replicas_to_place"]
