"""`shunter reassign`: moves that Shunter's controller carries out, asked for and turned through the Admin API.

Everything but `list`, `verify` and `throttles` is said with tagged fields, and therefore only to a controller that names
the feature `shunter`: Apache's would take a stop, or a pause, for a plain cancel, and revert in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from shunter.app.client_configuration import configuration_of
from shunter.app.drop_in import throttles as reassign_throttles
from shunter.app.drop_in.throttles import Leftover
from shunter.core.reassignment import no_longer_fits
from shunter.drivers.admin.reassign_cluster import RATE_SETTINGS, REPLICA_SETTINGS, ReassignCluster
from shunter.drivers.admin.reassignments import (
    AlterPartitionReassignmentsOptions,
    NewPartitionReassignment,
    PartitionReassignment,
    ReassignmentAdmin,
)
from shunter.errors import DriverError, RequestRejected, ShunterError
from shunter.formats.reassignment_json import decode_plan
from shunter.model.execution import MoveOrder
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import CancelMode, Strategy

TURNS = {
    "stop": CancelMode.STOP,
    "rollback": CancelMode.ROLL_BACK,
    "pause": CancelMode.PAUSE,
    "resume": CancelMode.RESUME,
}


class ReassignRefused(ShunterError):
    """The command can't be carried out as asked."""


class MoveRow(NamedTuple):
    """A move under way. `original` and `phase` are empty where the controller is not Shunter's."""

    tp: TopicPartition
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    target: Replicas
    original: Replicas
    phase: str
    waiting: str


class Progress(NamedTuple):
    """How far moves are, in bytes of the replicas that are being fetched; what a rollback from here would copy."""

    moves: int
    fetched_bytes: int
    wanted_bytes: int
    rollback_bytes: int


class Throttled(NamedTuple):
    """Throttles of ours, and what stood there before (None: nothing)."""

    before: Mapping[tuple[str, str], Mapping[str, str | None]]
    failed: Mapping[str, str]


class ReassignSession:
    """A connected command. A context manager."""

    def __init__(self, bootstrap: str, properties_file: Path | None = None) -> None:
        """Connect.

        Raises:
            DriverError, SettingsError, FormatError: it can't be, and why.
        """
        self.bootstrap, self.properties_file = bootstrap, properties_file
        self.cluster = ReassignCluster(configuration_of(bootstrap, properties_file))
        self.admin = ReassignmentAdmin(self.cluster.client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End both connections; again is in order."""
        self.admin.close()
        self.cluster.close()

    def is_shunters(self) -> bool:
        """Whether the controller is one of ours."""
        return self.admin.is_shunter()

    def require_shunter(self) -> None:
        """Go on only with Shunter's controller.

        Raises:
            ReassignRefused: it is somebody else's.
        """
        if not self.is_shunters():
            raise ReassignRefused(
                "the controller is not Shunter's: it knows no stop, no pause and no steps. `shunter execute` moves"
                " partitions under any controller, and `shunter kafka-reassign-partitions` does what Apache's tool does"
            )

    # ---- what there is

    def rows(self, partitions: Collection[TopicPartition] | None = None) -> tuple[MoveRow, ...]:
        """Moves under way, by partition; None: all."""
        listed = self.admin.list_partition_reassignments
        found = (listed() if partitions is None else listed(partitions)).reassignments.result()
        return tuple(_row(tp, move) for tp, move in sorted(found.items()))

    def progress(self, rows: Sequence[MoveRow]) -> Progress:
        """Ask live brokers how much they have of what they fetch. Cost: one request per broker concerned."""
        sizes = self._replica_sizes(rows)
        whole = _whole(rows, sizes)
        fetched = sum(min(sizes.get((broker, row.tp), 0), whole[row.tp]) for row in rows for broker in row.adding)
        total = sum(whole[row.tp] * len(row.adding) for row in rows)
        back = sum(whole[row.tp] * sum(broker not in row.replicas for broker in row.original) for row in rows)
        return Progress(len(rows), fetched, total, back)

    def sizes(self, rows: Sequence[MoveRow]) -> dict[TopicPartition, int]:
        """Bytes of one replica of each partition: the greatest that a live broker tells."""
        return _whole(rows, self._replica_sizes(rows))

    def _replica_sizes(self, rows: Sequence[MoveRow]) -> dict[tuple[BrokerId, TopicPartition], int]:
        """By (broker, partition); brokers that don't answer are left out."""
        if not rows:
            return {}
        live = {node.id for node in self.cluster.nodes()}
        wanted = {(broker, row.tp) for row in rows for broker in (*row.replicas, *row.adding) if broker in live}
        sizes: dict[tuple[BrokerId, TopicPartition], int] = {}
        for broker in sorted({broker for broker, _ in wanted}):
            try:
                found = self.cluster.log_dirs(key for key in wanted if key[0] == broker)
            except DriverError:
                continue
            sizes.update({key: place.size for key, place in found.items()})
        return sizes

    # ---- what is done

    def fitting(self, orders: Sequence[MoveOrder]) -> tuple[list[MoveOrder], dict[TopicPartition, str]]:
        """Split a plan: what may be submitted, and which partitions are elsewhere than it was planned from, and where.

        A partition that is being moved is not judged: another target in flight takes over from whatever stands there.
        """
        told = [order for order in orders if order.planned_from]
        known = self.cluster.partitions([order.tp for order in told])
        moving = {row.tp for row in self.rows()} if told else set[TopicPartition]()
        refused: dict[TopicPartition, str] = {}
        for order in told:
            now = known.get(order.tp)
            # The controller has its own words for what does not exist.
            if now is None or order.tp in moving:
                continue
            misfit = no_longer_fits(order.planned_from, order.target, now.replicas, place=order.tp)
            if misfit is not None:
                refused[order.tp] = misfit
        return [order for order in orders if order.tp not in refused], refused

    def execute(
        self, orders: Iterable[MoveOrder], strategy: Strategy | None, *, forced: bool
    ) -> dict[TopicPartition, str]:
        """Submit a plan; empty replicas roll a partition back. Returns what was refused, and why."""
        by_strategy: dict[Strategy | None, dict[TopicPartition, NewPartitionReassignment | None]] = {}
        for order in orders:
            new = NewPartitionReassignment(order.target) if order.target else None
            by_strategy.setdefault(order.strategy or strategy, {})[order.tp] = new
        refused: dict[TopicPartition, str] = {}
        for chosen, moves in by_strategy.items():
            options = AlterPartitionReassignmentsOptions(
                strategy=chosen, cancel_mode=CancelMode.ROLL_BACK, forced=forced
            )
            for tp, future in self.admin.alter_partition_reassignments(moves, options).futures.items():
                error = future.exception()
                if error is not None:
                    refused[tp] = _told(error)
        return refused

    def turn(
        self, mode: CancelMode, partitions: Collection[TopicPartition] | None, topics: Collection[str] | None
    ) -> dict[TopicPartition, str | None]:
        """Stop, roll back, pause or resume partitions, whole topics, or (both None) everything.

        Returns:
            What became of each partition: None, or why it was refused.
        """
        options = AlterPartitionReassignmentsOptions(cancel_mode=mode)
        if partitions:
            futures = self.admin.alter_partition_reassignments(dict.fromkeys(partitions), options).futures
            return {tp: _maybe_told(future.exception()) for tp, future in futures.items()}
        found = self.admin.cancel_whole(topics or None, options)
        return {tp: _maybe_told(error) for tp, error in found.items()}

    # ---- throttles

    def throttle(self, orders: Sequence[MoveOrder], rate: int) -> Throttled:
        """Throttle what a plan moves, and remember what stood there."""
        names = {order.tp.topic for order in orders}
        known = self.cluster.topics(names)
        current = {
            TopicPartition(name, number): info.replicas
            for name, partitions in known.items()
            for number, info in (partitions or {}).items()
        }
        proposed = {order.tp: order.target for order in orders if order.target and order.tp in current}
        under_way = self.admin.list_partition_reassignments(list(proposed)).reassignments.result() if proposed else {}
        traffic = reassign_throttles.traffic_of(under_way, proposed, current)
        brokers = sorted({broker for one in traffic.values() for broker in one.sources | one.destinations})
        live = {node.id for node in self.cluster.nodes()}
        before: dict[tuple[str, str], Mapping[str, str | None]] = {}
        for kind, named, keys in (
            ("broker", [str(broker) for broker in brokers if broker in live], RATE_SETTINGS[:2]),
            ("topic", sorted(names & known.keys()), REPLICA_SETTINGS),
        ):
            found = self.cluster.settings(kind, named, keys)
            before.update({(kind, name): {key: found.get(name, {}).get(key) for key in keys} for name in named})
        failed = reassign_throttles.throttle_moves(self.cluster, traffic, rate, _silently)
        return Throttled(before, failed)

    def restore(self, throttled: Throttled) -> dict[str, str]:
        """Put throttles back exactly as they were; tells which could not be."""
        failed: dict[str, str] = {}
        for kind in ("broker", "topic"):
            changes = {name: settings for (known, name), settings in throttled.before.items() if known == kind}
            if changes:
                failed |= self.cluster.alter_settings(kind, changes)
        return failed

    def leftovers(self) -> tuple[Leftover, ...]:
        """Throttles that are set anywhere."""
        return reassign_throttles.leftovers(self.cluster)

    def remove(self, leftovers: Iterable[Leftover]) -> dict[str, str]:
        """Remove throttles; tells which could not be."""
        changes: dict[str, dict[str, dict[str, str | None]]] = {"broker": {}, "topic": {}}
        for kind, name, setting, _ in leftovers:
            changes[kind].setdefault(name, {})[setting] = None
        failed: dict[str, str] = {}
        for kind, by_name in changes.items():
            failed |= self.cluster.alter_settings(kind, by_name)
        return failed


def read_orders(path: Path) -> tuple[MoveOrder, ...]:
    """Read a plan file.

    Raises:
        FormatError: it can't be read.
    """
    return decode_plan(path.read_bytes(), str(path))


def named_partitions(rows: Iterable[MoveRow], orders: Iterable[MoveOrder]) -> list[TopicPartition]:
    """Partitions of a plan that are under way."""
    moving = {row.tp for row in rows}
    return [order.tp for order in orders if order.tp in moving]


def _row(tp: TopicPartition, move: PartitionReassignment) -> MoveRow:
    detail = move.detail
    told = (detail.original, detail.phase, detail.waiting) if detail is not None else ((), "", "")
    return MoveRow(tp, move.assigned, move.adding, move.removing, move.target, *told)


def _whole(rows: Sequence[MoveRow], sizes: Mapping[tuple[BrokerId, TopicPartition], int]) -> dict[TopicPartition, int]:
    """Bytes of one replica of each partition: the greatest that a broker tells."""
    return {row.tp: max((sizes.get((broker, row.tp), 0) for broker in row.replicas), default=0) for row in rows}


def _told(error: BaseException) -> str:
    return f"{error.message} ({error.error_code.name})" if isinstance(error, RequestRejected) else str(error)


def _maybe_told(error: BaseException | None) -> str | None:
    return None if error is None else _told(error)


def _silently(_: str) -> None:
    """The command says it in its own words."""


Echo = Callable[[str], None]
