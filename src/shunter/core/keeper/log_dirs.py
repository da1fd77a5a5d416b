"""Log dirs within brokers: which brokers are out of the band, what a plan moves, and what it leaves.

A broker with one large replica is always uneven. So a condition needs a way out: a replica that would fit better.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from shunter.core.planning.cluster import ROUNDING
from shunter.core.planning.disks import DiskMove, disk_fill, plan_disks
from shunter.core.planning.request import PlanRequest
from shunter.model.inventory import BrokerDisks, Disk, DiskReplica
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.room import open_log_dirs
from shunter.model.service import LogDirChange, PlannedChange

LogDir = tuple[BrokerId, str]


def uneven(
    disks: Sequence[BrokerDisks], out: Collection[BrokerId], fixed: Collection[str]
) -> Iterator[tuple[BrokerId, float, float]]:
    """How the log dirs of brokers are filled, in shares of their mean: (broker, the emptiest, the fullest).

    Args:
        disks: The disks of brokers with several log dirs.
        out: Brokers that are left out.
        fixed: Topics that do not move. A broker that no move of other topics would improve is left out.
    """
    for each in disks:
        fill = None if each.broker in out else disk_fill(each, fixed)
        if fill is not None and fill.mendable:
            yield each.broker, fill.least, fill.most


def outside(least: float, most: float, band: float) -> bool:
    """Whether the emptiest or the fullest log dir is outside the band around their mean."""
    return least < 1 - band - ROUNDING or most > 1 + band + ROUNDING


def planned_log_dirs(
    request: PlanRequest,
    disks: Sequence[BrokerDisks],
    replicas: Mapping[TopicPartition, Replicas],
    most_moves: int | None,
    most_bytes: int | None,
) -> tuple[tuple[PlannedChange, ...], tuple[str, ...]]:
    """The changes within brokers, and a sentence about everything that is left undone.

    Args:
        request: A request of the scope `disks`; brokers that it excludes are left as they are.
        disks: The disks of brokers with several log dirs.
        replicas: The replicas of every partition, in order.
        most_moves: The most replicas that may be copied; None: no bound.
        most_bytes: The most bytes that may be copied; None: no bound.
    """
    known, out = {each.broker for each in disks}, set(request.excluded_brokers)
    left = [f"broker {broker} takes no part in balancing now" for broker in request.brokers if broker in out]
    left += [
        f"broker {broker} has no other log dir that works" for broker in request.brokers if broker not in known | out
    ]
    chosen = [broker for broker in request.brokers if broker in known - out]
    if not chosen:
        return (), tuple(left)
    made = plan_disks(
        disks,
        chosen=chosen,
        band=request.band,
        headroom=request.headroom,
        excluded_topics=request.excluded_topics,
        max_moves=most_moves,
        max_bytes=most_bytes,
    )
    undone = (f"{what}: {why}" for what, why in made.undone)
    return tuple(_changes(made.moves, replicas)), (*left, *undone, *made.notes)


def _changes(moves: Iterable[DiskMove], replicas: Mapping[TopicPartition, Replicas]) -> Iterator[PlannedChange]:
    """One change for each partition, in order."""
    found: dict[TopicPartition, list[LogDirChange]] = {}
    for move in moves:
        each = move.replica
        change = LogDirChange(move.broker, each.log_dir, move.target, each.size_bytes)
        found.setdefault(TopicPartition(each.topic, each.partition), []).append(change)
    for tp, log_dirs in sorted(found.items()):
        yield PlannedChange(tp.topic, tp.partition, replicas[tp], replicas[tp], tuple(sorted(log_dirs)))


def elsewhere(changes: Sequence[PlannedChange], disks: Sequence[BrokerDisks]) -> str:
    """Name the first replica that is not in the log dir that a plan takes it from; "": all are there, and can be moved."""
    asked = {(each.broker, change.topic, change.partition): each for change in changes for each in change.log_dirs}
    if not asked:
        return ""
    paths = {(each.broker, disk.path) for each in disks for disk in each.disks if not disk.failed}
    now = {
        key: replica.log_dir
        for each in disks
        for replica in each.replicas
        if (key := (each.broker, replica.topic, replica.partition)) in asked
    }
    for (broker, topic, partition), change in asked.items():
        what = f"{topic}-{partition} of broker {broker}"
        at = now.get((broker, topic, partition))
        if at is None:
            return f"{what} can't be moved: the broker is not up, its log dirs are not known, or it does not hold that any more"
        if at != change.original:
            return f"{what} is in log dir {at}, and was planned from {change.original}"
        if (broker, change.target) not in paths:
            return f"{what} can't go to log dir {change.target}: the broker does not have it any more, or it failed"
    return ""


def restacked(
    disks: Sequence[BrokerDisks], changes: Mapping[TopicPartition, PlannedChange], sizes: Mapping[TopicPartition, int]
) -> tuple[tuple[BrokerDisks, ...], dict[LogDir, int]]:
    """Log dirs as they would be after a plan, and the bytes that each would hold more.

    A replica that comes is put into the log dir with the fewest replicas, as Kafka does.
    """
    grown: dict[LogDir, int] = {}
    touched = {broker for change in changes.values() for broker in set(change.replicas) ^ set(change.original)}
    touched |= {each.broker for change in changes.values() for each in change.log_dirs}
    return tuple(_after(each, changes, sizes, grown) if each.broker in touched else each for each in disks), grown


def _after(
    found: BrokerDisks,
    changes: Mapping[TopicPartition, PlannedChange],
    sizes: Mapping[TopicPartition, int],
    grown: dict[LogDir, int],
) -> BrokerDisks:
    broker, held, before = found.broker, list[DiskReplica](), set[TopicPartition]()
    for each in found.replicas:
        tp = TopicPartition(each.topic, each.partition)
        before.add(tp)
        change = changes.get(tp)
        target = each.log_dir if change is None else _target(change, each, broker)
        if target != each.log_dir:
            grown[broker, each.log_dir] = grown.get((broker, each.log_dir), 0) - each.size_bytes
        if target is not None:
            held.append(each._replace(log_dir=target))
        if target is not None and target != each.log_dir:
            grown[broker, target] = grown.get((broker, target), 0) + each.size_bytes
    able = open_log_dirs(found.disks) or found.disks
    count = {disk.path: sum(each.log_dir == disk.path for each in held) for disk in able}
    for tp in sorted(tp for tp, change in changes.items() if broker in change.replicas and tp not in before):
        path = min(count, key=lambda each: (count[each], each))
        held.append(DiskReplica(tp.topic, tp.partition, path, sizes[tp]))
        count[path] += 1
        grown[broker, path] = grown.get((broker, path), 0) + sizes[tp]
    shelves = tuple(_refilled(disk, grown.get((broker, disk.path), 0)) for disk in found.disks)
    return found._replace(disks=shelves, replicas=tuple(held))


def _target(change: PlannedChange, replica: DiskReplica, broker: BrokerId) -> str | None:
    """The log dir of a replica after a change; None: the replica is gone."""
    if broker not in change.replicas:
        return None
    return next((each.target for each in change.log_dirs if each.broker == broker), replica.log_dir)


def _refilled(disk: Disk, grown: int) -> Disk:
    return disk if disk.usable_bytes is None else disk._replace(usable_bytes=disk.usable_bytes - grown)
