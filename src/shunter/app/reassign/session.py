"""Moves that Shunter's controller carries out, requested and turned through the Admin API.

All requests but lists and comparisons have tagged fields, and are therefore sent only to a controller that has the
feature `shunter`. Apache's controller would take a stop or a pause for a plain cancel, and revert silently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from shunter.app.client_configuration import configuration_of
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import Target, journal_place, read_journal
from shunter.app.executor.throttle_loan import JournalInHand, LoanTaken, give_back, set_throttles
from shunter.core.doers import Ground
from shunter.core.reassignment import no_longer_fits
from shunter.core.throttles import limited, traffic_of
from shunter.core.under_way import told_copy
from shunter.core.verification import NOT_LIVE, PlanDifference, differences, replicas_to_place
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.admin.cluster import KafkaPythonAdmin
from shunter.drivers.admin.reassignments import AlterOptions, PartitionReassignment
from shunter.errors import RequestRejected
from shunter.formats.reassignment_json import encode_plan
from shunter.model.execution import MoveOrder, ThrottleKey
from shunter.model.log_dirs import LogDirCopy, ReplicaDirs
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Strategy

TURNS = {
    "stop": Intervention.STOP,
    "rollback": Intervention.ROLL_BACK,
    "pause": Intervention.PAUSE,
    "resume": Intervention.RESUME,
}


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


class ThrottleLoan:
    """Throttles that this process sets, in the cluster's journal, whose lease it holds."""

    def __init__(self, admin: BlockingAdmin, journal: JournalInHand) -> None:
        self._admin, self._journal = admin, journal
        self._keys: list[ThrottleKey] = []

    def take(self, wanted: Mapping[ThrottleKey, str]) -> LoanTaken:
        """Journal settings and set them.

        Raises:
            DriverError: the cluster does not answer, or a permission is missing.
        """
        self._keys = list(wanted)
        return self._admin.run(lambda admin: set_throttles(self._journal, admin, wanted))

    def renew(self) -> None:
        """Keep the lease; has to be called every few seconds.

        Raises:
            JournalFenced: another process drives the journal, and restores the throttles.
        """
        self._journal.renew()

    def give_back(self) -> dict[ThrottleKey, str]:
        """Restore settings exactly; returns those that could not be restored, and why. They stay in the journal."""
        return self._admin.run(lambda admin: give_back(self._journal, admin, self._keys))

    def give_back_all(self) -> dict[ThrottleKey, str]:
        """Restore all settings that the journal owes and that no open move needs."""
        self._keys = sorted(self._journal.state.owed())
        return self.give_back()

    def leave(self) -> None:
        """Give the lease back; the next process that takes it restores journalled settings."""
        self._journal.close()


class ReassignSession:
    """A connection of a command to a cluster. A context manager."""

    def __init__(self, bootstrap: str, properties_file: Path | None = None) -> None:
        """Connect.

        Raises:
            DriverError, SettingsError, FormatError: the connection is not possible, and why.
        """
        self.bootstrap, self.properties_file = bootstrap, properties_file
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

    def ground(self) -> tuple[Ground, JournalPlace]:
        """The facts by which the doer of a verb is chosen, and the cluster's journal.

        Raises:
            DriverError: the cluster does not answer.
            FormatError: the journal can't be read.
        """
        place = self._place()
        if not self.is_shunters():
            return Ground(shunters=False), place
        if not place.exists():
            return Ground(shunters=True, controlled=frozenset(row.tp for row in self.rows())), place
        state, holder = read_journal(place)
        journalled = frozenset(move.tp for move in state.open_moves())
        driver = str(holder) if holder is not None and holder.takes_orders else ""
        controlled = frozenset(row.tp for row in self.rows()) - journalled
        return Ground(shunters=True, driver=driver, journalled=journalled, controlled=controlled), place

    def _place(self) -> JournalPlace:
        target = Target(self.bootstrap, self.properties_file)

        async def place(admin: KafkaPythonAdmin) -> JournalPlace:
            return await journal_place(target, admin)

        return self.cluster.run(place)

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

    def progress(self, rows: Sequence[MoveUnderWay]) -> Progress:
        """Ask live brokers how much of new replicas they have. Cost: one request per broker concerned."""
        sizes = self._replica_sizes(rows)
        whole = _whole(rows, sizes)
        fetched = sum(min(sizes.get((broker, row.tp), 0), whole[row.tp]) for row in rows for broker in row.adding)
        total = sum(whole[row.tp] * len(row.adding) for row in rows)
        back = sum(whole[row.tp] * sum(broker not in row.replicas for broker in row.original) for row in rows)
        return Progress(len(rows), fetched, total, back)

    def sizes(self, rows: Sequence[MoveUnderWay]) -> dict[TopicPartition, int]:
        """Bytes of one replica of each partition: the greatest size that a live broker reports."""
        return _whole(rows, self._replica_sizes(rows))

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

    def execute(
        self, orders: Iterable[MoveOrder], strategy: Strategy | None, *, forced: bool
    ) -> dict[TopicPartition, str]:
        """Submit a plan; empty replicas roll a partition back. Returns the refused partitions, and why."""
        by_strategy: dict[Strategy | None, dict[TopicPartition, Replicas | None]] = {}
        for order in orders:
            by_strategy.setdefault(order.strategy or strategy, {})[order.tp] = order.target or None
        refused: dict[TopicPartition, str] = {}
        for chosen, moves in by_strategy.items():
            options = AlterOptions(strategy=chosen, intervention=Intervention.ROLL_BACK, forced=forced)
            for tp, error in self.cluster.alter_moves(moves, options).items():
                if error is not None:
                    refused[tp] = _told(error)
        return refused

    def turn(
        self, mode: Intervention, partitions: Collection[TopicPartition] | None, topics: Collection[str] | None
    ) -> dict[TopicPartition, str | None]:
        """Stop, roll back, pause or resume partitions, whole topics, or (both None) everything.

        Returns:
            By partition: None, or why it was refused.
        """
        options = AlterOptions(intervention=mode)
        if partitions:
            found = self.cluster.alter_moves(dict.fromkeys(partitions), options)
        else:
            found = self.cluster.cancel_whole(topics or None, options)
        return {tp: _maybe_told(error) for tp, error in found.items()}

    # ---- throttles

    def wanted_throttles(self, orders: Sequence[MoveOrder], rate: int) -> dict[ThrottleKey, str]:
        """The settings of live brokers that throttle a plan's moves (without orders: all moves) to a rate."""
        known = self.cluster.topics({order.tp.topic for order in orders})
        current = {
            TopicPartition(name, number): info.replicas
            for name, partitions in known.items()
            for number, info in (partitions or {}).items()
        }
        proposed = {order.tp: order.target for order in orders if order.target and order.tp in current}
        moving = {tp: move.traffic for tp, move in self.cluster.list_moves(list(proposed) if orders else None).items()}
        live = {str(node.id) for node in self.cluster.nodes()}
        wanted = limited(traffic_of(moving, proposed, current), rate)
        return {key: value for key, value in wanted.items() if key.kind == "topic" or key.name in live}

    def throttle_loan(self, cause: str) -> ThrottleLoan:
        """Take the lease of the cluster's journal, to set throttles under it.

        Raises:
            JournalHeld: an executor drives the journal, and has throttles of its own.
            FormatError: the journal is damaged, or can't be made.
        """
        return ThrottleLoan(self.cluster, JournalInHand(self._place(), cause))


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
