"""Moves between brokers and copies between log dirs that are under way, whoever began them; throttles that hold them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from shunter.core.throttles import LOG_DIR_RATE
from shunter.core.wording import told_brokers, told_bytes
from shunter.model.execution import OngoingReassignment, ReplicaSize, ThrottleKey
from shunter.model.log_dirs import LogDirCopies, LogDirCopy
from shunter.model.partition import BrokerId, TopicPartition


class UnderWay(NamedTuple):
    """Everything that is being copied. A broker that does not tell its copies may have some."""

    moves: Mapping[TopicPartition, OngoingReassignment]
    copies: LogDirCopies


def told_stranded(move: OngoingReassignment) -> str:
    """Why a stranded reassignment never ends. Pre: it is one."""
    both = tuple(broker for broker in move.adding if broker in move.removing)
    are = "are" if len(both) > 1 else "is"
    return f"{told_brokers(both)} {are} being added and removed at once, and Kafka from 4.3 on never ends that"


def copies_among(
    sizes: Mapping[tuple[BrokerId, TopicPartition], ReplicaSize],
    futures: Mapping[tuple[BrokerId, TopicPartition], ReplicaSize],
) -> tuple[LogDirCopy, ...]:
    """The copies between log dirs, by partition, from what brokers tell of replicas and of future replicas."""
    absent = ReplicaSize(0, "")
    return tuple(
        LogDirCopy(tp, broker, here.log_dir, future.log_dir, future.bytes, here.bytes)
        for (broker, tp), future in sorted(futures.items(), key=lambda found: (found[0][1], found[0][0]))
        for here in [sizes.get((broker, tp), absent)]
    )


def told_copy(copy: LogDirCopy) -> str:
    """A copy between log dirs in words, to follow the partition's name."""
    source = copy.source or "a log dir that failed"
    return f"on broker {copy.broker} from {source} to {copy.destination}, {told_bytes(copy.copied)} of {told_bytes(copy.size)}"


def held_by(keys: Collection[ThrottleKey], under_way: UnderWay) -> list[str]:
    """What these throttles may hold, or may hold if it is under way: it would go on without a limit."""
    topics = {key.name for key in keys if key.kind == "topic"}
    limited = {int(key.name) for key in keys if key.kind == "broker" and key.setting == LOG_DIR_RATE}
    replicating = {int(key.name) for key in keys if key.kind == "broker" and key.setting != LOG_DIR_RATE}
    held = [
        f"{tp} to {list(move.target)}"
        for tp, move in sorted(under_way.moves.items())
        if tp.topic in topics or not replicating.isdisjoint(move.replicas)
    ]
    held += [f"{copy.tp} {told_copy(copy)}" for copy in under_way.copies.copies if copy.broker in limited]
    unknown = sorted(limited & under_way.copies.failed.keys())
    return held + [f"copies of broker {broker}, which does not tell its log dirs" for broker in unknown]


__all__ = ["UnderWay", "copies_among", "held_by", "told_copy"]
