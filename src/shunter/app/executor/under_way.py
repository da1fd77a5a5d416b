"""What a cluster is moving, whoever began it, as rows of the same form as a journal's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from shunter.core.executor.foresight.hold_ups import HoldUp, hold_up_of_others, told_held_up
from shunter.core.executor.state import ExecutorState, ObservedCluster
from shunter.core.under_way import told_copy
from shunter.drivers.admin.protocol import AdminClient
from shunter.drivers.host.clock import SystemClock
from shunter.formats.reassignment_json import encode_plan
from shunter.model.execution import Direction, MoveOrder, OngoingReassignment
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

    `replicas` are those of the copies' partitions, `failed` the brokers that do not tell their copies, and why;
    `hold_ups`: what keeps moves from ending.
    """

    moves: Moves
    copies: tuple[LogDirCopy, ...] = ()
    replicas: Mapping[TopicPartition, Replicas] = {}
    failed: Mapping[BrokerId, str] = {}
    sizes: Mapping[tuple[BrokerId, TopicPartition], int] = {}
    hold_ups: Mapping[TopicPartition, HoldUp] = {}

    def rows(self) -> tuple[MoveRow, ...]:
        """Moves by partition, then copies."""
        moves = (move_row(tp, move, self.sizes, self.hold_ups.get(tp)) for tp, move in sorted(self.moves.items()))
        return (*moves, *(_copy_row(copy, self.replicas[copy.tp]) for copy in self.copies))

    def of(self, partitions: Collection[str]) -> Listed:
        """The moves of these partitions alone."""
        return self._replace(moves={tp: move for tp, move in self.moves.items() if str(tp) in partitions})

    def held_up(self) -> str:
        """A sentence about the moves that can't end, or may not; "": nothing that was seen holds them up."""
        found = ((tp, each.stuck or each.doubt) for tp, each in self.hold_ups.items() if tp in self.moves)
        return told_held_up((tp, why) for tp, why in found if why)

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
    admin: KafkaPythonAdmin,
    *,
    copies: bool = True,
    sparing: Collection[TopicPartition] = (),
    only: Collection[TopicPartition] | None = None,
) -> Listed:
    """Ask the cluster. Cost: one request to each broker concerned; with `copies` two to each live broker.

    Args:
        admin: Connected.
        copies: Ask for copies between log dirs, too.
        sparing: Partitions that are left out: a journal has their moves.
        only: The partitions whose moves are wanted; None: all.
    """
    moves = {tp: move for tp, move in (await admin.list_moves(only)).items() if tp not in sparing}
    seen = await admin.log_dir_copies() if copies else LogDirCopies((), {})
    state = ExecutorState()
    asked = {tp: {*move.replicas, *move.adding} for tp, move in moves.items()}
    await look_at(admin, state.cluster, asked, beside={copy.tp.topic for copy in seen.copies})
    replicas = {
        TopicPartition(name, number): partition.replicas
        for name, topic in state.cluster.topics.items()
        for number, partition in (topic.partitions.items() if topic is not None else ())
    }
    # A replica that its broker has no more is being deleted there.
    there = tuple(copy for copy in seen.copies if copy.tp not in sparing and copy.broker in replicas.get(copy.tp, ()))
    sizes = {key: size.bytes for key, size in state.cluster.sizes.items()}
    return Listed(moves, there, replicas, seen.failed, sizes, dict(_hold_ups(state, moves)))


async def look_at(
    admin: AdminClient,
    cluster: ObservedCluster,
    asked: Mapping[TopicPartition, Collection[BrokerId]],
    *,
    beside: Collection[str] = (),
) -> None:
    """Take in how partitions stand, and what these of their brokers tell of log dirs; `beside`: more topics."""
    if not asked and not beside:
        return
    seen = await admin.observe_topics(sorted({*beside, *(tp.topic for tp in asked)}))
    cluster.topics, cluster.brokers, cluster.needs_all = dict(seen.topics), dict(seen.brokers), seen.needs_all
    by_broker: dict[BrokerId, list[TopicPartition]] = {}
    for tp, brokers in asked.items():
        for broker in cluster.brokers.keys() & brokers:
            by_broker.setdefault(broker, []).append(tp)
    if by_broker:
        told = await admin.observe_log_dirs(by_broker)
        cluster.sizes.update(told.sizes)
        now_ms = SystemClock().now_ms()
        cluster.sizes_at_ms.update(dict.fromkeys(told.sizes, now_ms))
        cluster.see_spaces(told.brokers, told.spaces)
        cluster.spaces_at_ms.update(dict.fromkeys(told.brokers, now_ms))
        cluster.broken.update(told.broken)


def _hold_ups(state: ExecutorState, moves: Moves) -> Iterator[tuple[TopicPartition, HoldUp]]:
    """What keeps moves of Apache's controller from ending. Shunter's goes around dead brokers, and tells what it waits for."""
    for tp, move in moves.items():
        if move.detail is None:
            state.cluster.ongoing[tp] = OngoingReassignment(move.replicas, move.adding, move.removing)
            yield tp, hold_up_of_others(state, tp)


async def sizes_of(admin: KafkaPythonAdmin, moves: Moves) -> dict[tuple[BrokerId, TopicPartition], int]:
    """Bytes of the replicas that moves have; brokers that don't answer are left out."""
    cluster = ObservedCluster()
    await look_at(admin, cluster, {tp: {*move.replicas, *move.adding} for tp, move in moves.items()})
    return {key: size.bytes for key, size in cluster.sizes.items()}


def move_row(
    tp: TopicPartition,
    move: PartitionReassignment,
    sizes: Mapping[tuple[BrokerId, TopicPartition], int],
    found: HoldUp | None = None,
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
        waits=detail.waiting if detail is not None else found.doubt if found is not None else "",
        stuck=found.stuck if found is not None else "",
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


__all__ = ["Listed", "Moves", "list_under_way", "look_at", "move_row", "sizes_of"]
