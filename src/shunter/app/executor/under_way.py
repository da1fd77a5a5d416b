"""What a cluster is moving, whoever began it, as rows of the same form as a journal's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from shunter.core.under_way import told_copy
from shunter.formats.reassignment_json import encode_plan
from shunter.model.execution import Direction, MoveOrder
from shunter.model.log_dirs import LogDirCopies, LogDirCopy
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.views.execution import MoveRow

if TYPE_CHECKING:
    from shunter.drivers.admin.cluster import KafkaPythonAdmin
    from shunter.drivers.admin.reassignments import PartitionReassignment

Moves: TypeAlias = "Mapping[TopicPartition, PartitionReassignment]"
_DIRECTIONS = {"rolling_back": Direction.BACK, "stopping": Direction.STOP}


class Listed(NamedTuple):
    """Moves between brokers and copies between log dirs, with sizes in bytes by broker and partition.

    `replicas` are those of the copies' partitions, `failed` the brokers that do not tell their copies, and why.
    """

    moves: Moves
    copies: tuple[LogDirCopy, ...] = ()
    replicas: Mapping[TopicPartition, Replicas] = {}
    failed: Mapping[BrokerId, str] = {}
    sizes: Mapping[tuple[BrokerId, TopicPartition], int] = {}

    def rows(self) -> tuple[MoveRow, ...]:
        """Moves by partition, then copies."""
        moves = (move_row(tp, move, self.sizes) for tp, move in sorted(self.moves.items()))
        return (*moves, *(_copy_row(copy, self.replicas[copy.tp]) for copy in self.copies))

    def untold(self) -> list[str]:
        """A sentence about each broker that does not tell its copies."""
        known = "what it copies between its log dirs is not known"
        return [
            f"broker {broker} does not tell its log dirs, so {known}: {why}"
            for broker, why in sorted(self.failed.items())
        ]

    def as_plan(self) -> str:
        """All of it as the JSON of a plan; `{}` if there is nothing."""
        targets = {copy.tp: self.replicas[copy.tp] for copy in self.copies}
        targets |= {tp: move.target for tp, move in self.moves.items()}
        log_dirs: dict[TopicPartition, list[tuple[BrokerId, str]]] = {}
        for copy in self.copies:
            if copy.broker in targets[copy.tp]:
                log_dirs.setdefault(copy.tp, []).append((copy.broker, copy.destination))
        orders = [MoveOrder(tp, target, log_dirs=tuple(log_dirs.get(tp, ()))) for tp, target in sorted(targets.items())]
        return encode_plan(orders) if orders else "{}"


async def list_under_way(
    admin: KafkaPythonAdmin, *, copies: bool = True, sparing: Collection[TopicPartition] = ()
) -> Listed:
    """Ask the cluster. Cost: one request to each broker concerned; with `copies` two to each live broker.

    Args:
        admin: Connected.
        copies: Ask for copies between log dirs, too.
        sparing: Partitions that are left out: a journal has their moves.
    """
    moves = {tp: move for tp, move in (await admin.list_moves(None)).items() if tp not in sparing}
    seen = await admin.log_dir_copies() if copies else LogDirCopies((), {})
    names = sorted({copy.tp.topic for copy in seen.copies})
    topics = (await admin.observe_topics(names)).topics if names else {}
    replicas = {
        TopicPartition(name, number): partition.replicas
        for name, topic in topics.items()
        for number, partition in (topic.partitions.items() if topic is not None else ())
    }
    # A replica that its broker has no more is being deleted there.
    there = tuple(copy for copy in seen.copies if copy.tp not in sparing and copy.broker in replicas.get(copy.tp, ()))
    return Listed(moves, there, replicas, seen.failed, await sizes_of(admin, moves))


async def sizes_of(
    admin: KafkaPythonAdmin, moves: Mapping[TopicPartition, PartitionReassignment]
) -> dict[tuple[BrokerId, TopicPartition], int]:
    """Bytes of the replicas that moves have; brokers that don't answer are left out."""
    live = await admin.brokers() if moves else {}
    asked: dict[BrokerId, list[TopicPartition]] = {}
    for tp, move in moves.items():
        for broker in {*move.replicas, *move.adding} & live.keys():
            asked.setdefault(broker, []).append(tp)
    return {key: size.bytes for key, size in (await admin.observe_log_dirs(asked)).sizes.items()} if asked else {}


def move_row(
    tp: TopicPartition, move: PartitionReassignment, sizes: Mapping[tuple[BrokerId, TopicPartition], int]
) -> MoveRow:
    """A move of the cluster's list. Only Shunter's controller tells its original replicas, and what it waits for."""
    detail, assigned = move.detail, move.assigned
    current = tuple(broker for broker in assigned if broker not in move.adding)
    original = detail.original if detail is not None else ()
    whole = max((sizes.get((broker, tp), 0) for broker in assigned), default=0)
    phase = detail.phase if detail is not None else "moving"
    return MoveRow(
        partition=str(tp),
        state=phase,
        direction=_DIRECTIONS.get(phase, Direction.FORWARD).value,
        original=original,
        current=current,
        target=move.target,
        step=None if assigned == current else assigned,
        steps=0,
        waits=detail.waiting if detail is not None else "",
        stuck="",
        total_bytes=whole * len(move.adding),
        copied_bytes=sum(min(sizes.get((broker, tp), 0), whole) for broker in move.adding),
        rollback_bytes=whole * sum(broker not in assigned for broker in original),
    )


def _copy_row(copy: LogDirCopy, replicas: Replicas) -> MoveRow:
    told = f"it is copied {told_copy(copy)}"
    forward = Direction.FORWARD.value
    return MoveRow(
        str(copy.tp), "moving", forward, replicas, replicas, replicas, None, 0, told, "", copy.size, copy.copied, 0
    )


__all__ = ["Listed", "Moves", "list_under_way", "move_row", "sizes_of"]
