"""Moves by request 45 and request 46, under any controller: nothing has to live after the request.

Shunter's controller (the feature `shunter`) also gets tagged fields: strategy, stop, pause, force. Apache's controller
would take a stop or a pause for a plain cancel and revert silently, so it never gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from shunter.app.client_configuration import configuration_of
from shunter.core.reassignment import no_longer_fits
from shunter.core.under_way import told_copy
from shunter.core.verification import NOT_LIVE, PlanDifference, differences, replicas_to_place
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.admin.reassignments import AlterOptions, PartitionReassignment
from shunter.errors import RequestRejected
from shunter.formats.reassignment_json import encode_plan
from shunter.model.execution import MoveOrder
from shunter.model.log_dirs import LogDirCopy, ReplicaDirs
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Strategy

BETWEEN_LOG_DIRS = "between_log_dirs"
"""The phase in the row of a copy from one log dir of a broker to another."""


class MoveUnderWay(NamedTuple):
    """A move under way. `original` and `phase` are empty if the controller is not Shunter's.

    A copy between log dirs has a row too: its phase is `BETWEEN_LOG_DIRS`, its target is where the partition is.
    """

    tp: TopicPartition
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    target: Replicas
    original: Replicas
    phase: str
    waiting: str


class CopiesUnderWay(NamedTuple):
    """Copies between log dirs, the replicas of their partitions, and brokers that do not tell theirs, and why."""

    copies: tuple[LogDirCopy, ...]
    replicas: Mapping[TopicPartition, Replicas]
    failed: Mapping[BrokerId, str]

    def rows(self) -> tuple[MoveUnderWay, ...]:
        """Each copy as a row beside those of moves between brokers."""
        places = ((copy, self.replicas[copy.tp]) for copy in self.copies)
        return tuple(
            MoveUnderWay(copy.tp, replicas, (), (), replicas, (), BETWEEN_LOG_DIRS, f"it is copied {told_copy(copy)}")
            for copy, replicas in places
        )

    def as_plan(self, moves: Sequence[MoveUnderWay]) -> str:
        """These copies and moves between brokers as the JSON of a plan; `{}` if there are none."""
        targets = {copy.tp: self.replicas[copy.tp] for copy in self.copies} | {row.tp: row.target for row in moves}
        log_dirs: dict[TopicPartition, list[tuple[BrokerId, str]]] = {}
        for copy in self.copies:
            if copy.broker in targets[copy.tp]:
                log_dirs.setdefault(copy.tp, []).append((copy.broker, copy.destination))
        orders = [MoveOrder(tp, target, log_dirs=tuple(log_dirs.get(tp, ()))) for tp, target in sorted(targets.items())]
        return encode_plan(orders) if orders else "{}"

    def untold(self) -> list[str]:
        """A sentence about each broker that does not tell its copies."""
        known = "what it copies between its log dirs is not known"
        return [
            f"broker {broker} does not tell its log dirs, so {known}: {why}"
            for broker, why in sorted(self.failed.items())
        ]


class Progress(NamedTuple):
    """The progress of moves, in bytes of the replicas that are being fetched, and the bytes of a rollback."""

    moves: int
    fetched_bytes: int
    wanted_bytes: int
    rollback_bytes: int


class ReassignSession:
    """A connection of a command to a cluster. A context manager."""

    def __init__(self, bootstrap: str, properties_file: Path | None = None) -> None:
        """Connect.

        Raises:
            DriverError, SettingsError, FormatError: the connection is not possible, and why.
        """
        self.cluster = BlockingAdmin(configuration_of(bootstrap, properties_file))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections. It may be called more than once."""
        self.cluster.close()

    def is_shunters(self) -> bool:
        """Whether the controller is Shunter's."""
        return self.cluster.is_shunter()

    # ---- reading

    def rows(self, partitions: Collection[TopicPartition] | None = None) -> tuple[MoveUnderWay, ...]:
        """Moves under way, by partition; None: all."""
        return tuple(_row(tp, move) for tp, move in sorted(self.cluster.list_moves(partitions).items()))

    def copies(self) -> CopiesUnderWay:
        """Copies between log dirs that are under way, whoever began them. Cost: one request per live broker."""
        seen = self.cluster.log_dir_copies()
        replicas = self._replicas({copy.tp for copy in seen.copies})
        # A replica that its broker has no more is being deleted there.
        there = tuple(copy for copy in seen.copies if copy.broker in replicas.get(copy.tp, ()))
        return CopiesUnderWay(there, replicas, seen.failed)

    def rollback_bytes(self, rows: Sequence[MoveUnderWay]) -> int:
        """The bytes of original replicas that were dropped: a rollback copies them. One request per broker concerned."""
        return self.progress(rows).rollback_bytes

    def progress(self, rows: Sequence[MoveUnderWay]) -> Progress:
        """Ask live brokers how much of new replicas they have. Cost: one request per broker concerned."""
        sizes = self._replica_sizes(rows)
        whole = _whole(rows, sizes)
        fetched = sum(min(sizes.get((broker, row.tp), 0), whole[row.tp]) for row in rows for broker in row.adding)
        total = sum(whole[row.tp] * len(row.adding) for row in rows)
        back = sum(whole[row.tp] * sum(broker not in row.replicas for broker in row.original) for row in rows)
        return Progress(len(rows), fetched, total, back)

    def _replica_sizes(self, rows: Sequence[MoveUnderWay]) -> dict[tuple[BrokerId, TopicPartition], int]:
        """Sizes in bytes, by (broker, partition); brokers that don't answer are left out."""
        if not rows:
            return {}
        live = {node.id for node in self.cluster.nodes()}
        wanted = {(broker, row.tp) for row in rows for broker in (*row.replicas, *row.adding) if broker in live}
        return {key: place.size for key, place in self.cluster.log_dirs(wanted).found.items()}

    def differences(
        self, orders: Sequence[MoveOrder], told: Callable[[MoveUnderWay], str]
    ) -> tuple[PlanDifference, ...]:
        """The partitions of a plan that are not where it says; `told` makes a sentence of a move under way."""
        moving = {row.tp: told(row) for row in self.rows()}
        replicas = self._replicas([order.tp for order in orders])
        return tuple(differences(orders, moving, replicas, self._places(replicas_to_place(orders, moving, replicas))))

    def _replicas(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Replicas]:
        return {tp: info.replicas for tp, info in self.cluster.partitions(partitions).items()}

    def _places(self, wanted: Sequence[tuple[BrokerId, TopicPartition]]) -> ReplicaDirs:
        """Log dirs of replicas. A broker that is not live is not asked: that would only take its time."""
        live = {node.id for node in self.cluster.nodes()} if wanted else set[BrokerId]()
        seen = self.cluster.log_dirs([each for each in wanted if each[0] in live])
        return seen._replace(failed=seen.failed | {broker: NOT_LIVE for broker, _tp in wanted if broker not in live})

    # ---- moving

    def fitting(self, orders: Sequence[MoveOrder]) -> tuple[list[MoveOrder], dict[TopicPartition, str]]:
        """Split a plan: orders that may be submitted, and partitions that changed since the plan was made, and how.

        A partition that is being moved is not judged, because a new target in flight replaces any former target.
        """
        told = [order for order in orders if order.planned_from]
        known = self.cluster.partitions([order.tp for order in told])
        moving = {row.tp for row in self.rows()} if told else set[TopicPartition]()
        refused: dict[TopicPartition, str] = {}
        for order in told:
            now = known.get(order.tp)
            # The controller itself refuses partitions that don't exist.
            if now is None or order.tp in moving:
                continue
            misfit = no_longer_fits(order.planned_from, order.target, now.replicas, place=order.tp)
            if misfit is not None:
                refused[order.tp] = misfit
        return [order for order in orders if order.tp not in refused], refused

    def submit(
        self, orders: Iterable[MoveOrder], strategy: Strategy | None, *, forced: bool
    ) -> dict[TopicPartition, str]:
        """Submit a plan; empty replicas roll a partition back. Returns the refused partitions, and why."""
        shunters = self.is_shunters()
        by_strategy: dict[Strategy | None, dict[TopicPartition, Replicas | None]] = {}
        for order in orders:
            asked = (order.strategy or strategy) if shunters else None
            by_strategy.setdefault(asked, {})[order.tp] = order.target or None
        refused: dict[TopicPartition, str] = {}
        for chosen, moves in by_strategy.items():
            options = AlterOptions(strategy=chosen, intervention=Intervention.ROLL_BACK, forced=forced)
            found = self.cluster.alter_moves(moves, options if shunters else AlterOptions())
            refused |= {tp: _told(error) for tp, error in found.items() if error is not None}
        return refused

    def turn(
        self, mode: Intervention, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, str | None]:
        """Stop, roll back, pause or resume partitions, or (None: Shunter's controller alone) everything.

        Another controller than Shunter's cancels: the former replicas come back, and all new ones go.

        Returns:
            By partition: None, or why it was refused.
        """
        if partitions is None:
            found = self.cluster.cancel_whole(None, AlterOptions(intervention=mode))
        else:
            options = AlterOptions(intervention=mode) if self.is_shunters() else AlterOptions()
            found = self.cluster.alter_moves(dict.fromkeys(partitions), options)
        return {tp: _maybe_told(error) for tp, error in found.items()}

    def relax(self, rows: Iterable[MoveUnderWay]) -> dict[TopicPartition, str | None]:
        """Ask again for the target of moves, with force: that relaxes their floor. Shunter's controller alone."""
        rows = list(rows)
        moving = {row.tp: row for row in rows if row.phase == "moving"}
        refused = self.submit([MoveOrder(tp, row.target) for tp, row in moving.items()], None, forced=True)
        return {row.tp: refused.get(row.tp) if row.tp in moving else _unrelaxed(row) for row in rows}


def _unrelaxed(row: MoveUnderWay) -> str:
    return f"it is {row.phase.replace('_', ' ')}: only a move in the phase moving can be relaxed"


def _row(tp: TopicPartition, move: PartitionReassignment) -> MoveUnderWay:
    detail = move.detail
    told = (detail.original, detail.phase, detail.waiting) if detail is not None else ((), "", "")
    return MoveUnderWay(tp, move.assigned, move.adding, move.removing, move.target, *told)


def _whole(
    rows: Sequence[MoveUnderWay], sizes: Mapping[tuple[BrokerId, TopicPartition], int]
) -> dict[TopicPartition, int]:
    """Bytes of one replica of each partition: the greatest of its brokers' sizes."""
    return {row.tp: max((sizes.get((broker, row.tp), 0) for broker in row.replicas), default=0) for row in rows}


def _told(error: BaseException) -> str:
    return f"{error.message} ({error.error_code.name})" if isinstance(error, RequestRejected) else str(error)


def _maybe_told(error: BaseException | None) -> str | None:
    return None if error is None else _told(error)
