"""Moves by request 45 and request 46, under any controller: nothing has to live after the request.

Shunter's controller (the feature `shunter`) also gets tagged fields: strategy, stop, pause, force. Apache's controller
would take a stop or a pause for a plain cancel and revert silently, so it never gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from shunter.app.client_configuration import configuration_of
from shunter.app.executor.under_way import Moves, list_under_way, move_row, sizes_of
from shunter.core.reassignment import no_longer_fits
from shunter.core.verification import NOT_LIVE, PlanDifference, differences, replicas_to_place
from shunter.drivers.admin.blocking import BlockingAdmin, Connected
from shunter.drivers.admin.reassignments import AlterOptions, PartitionReassignment
from shunter.errors import DriverError, RequestRejected
from shunter.model.execution import MoveOrder
from shunter.model.log_dirs import ReplicaDirs
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Strategy
from shunter.views.execution import MoveRow


class ReassignSession(Connected):
    """A connection of a command to a cluster. A context manager."""

    def __init__(self, bootstrap: str, properties_file: Path | None = None) -> None:
        """Connect.

        Raises:
            DriverError, SettingsError, FormatError: the connection is not possible, and why.
        """
        self.cluster = BlockingAdmin(configuration_of(bootstrap, properties_file))

    def close(self) -> None:
        """End all connections. It may be called more than once."""
        self.cluster.close()

    def is_shunters(self) -> bool:
        """Whether the controller is Shunter's."""
        return self.cluster.is_shunter()

    # ---- reading

    def moves(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Moves under way, by partition; None: all."""
        return dict(sorted(self.cluster.list_moves(partitions).items()))

    def held_up(self, partitions: Collection[TopicPartition]) -> str:
        """A sentence about moves under way that can't end, or may not; "": nothing that was seen holds them up."""
        try:
            return self.cluster.run(lambda admin: list_under_way(admin, copies=False, only=partitions)).held_up()
        except DriverError as error:  # The moves were begun all the same.
            return f"whether something holds the moves up is not known: {error}"

    def rollback_bytes(self, moves: Moves) -> int:
        """The bytes of original replicas that were dropped: a rollback copies them. One request per broker concerned."""
        sizes = self.cluster.run(lambda admin: sizes_of(admin, moves))
        return sum(move_row(tp, move, sizes).rollback_bytes for tp, move in moves.items())

    def differences(self, orders: Sequence[MoveOrder], told: Callable[[MoveRow], str]) -> tuple[PlanDifference, ...]:
        """The partitions of a plan that are not where it says; `told` makes a sentence of a move under way."""
        moving = {tp: told(move_row(tp, move, {})) for tp, move in self.moves().items()}
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
        moving = self.moves() if told else {}
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

    def relax(self, moves: Moves) -> dict[TopicPartition, str | None]:
        """Ask again for the target of moves, with force: that relaxes their floor. Shunter's controller alone."""
        phases = {tp: "" if move.detail is None else move.detail.phase for tp, move in moves.items()}
        orders = [MoveOrder(tp, move.target) for tp, move in moves.items() if phases[tp] == "moving"]
        refused = self.submit(orders, None, forced=True)
        return {tp: refused.get(tp) if phase == "moving" else _unrelaxed(phase) for tp, phase in phases.items()}


def _unrelaxed(phase: str) -> str:
    return f"it is {phase.replace('_', ' ')}: only a move in the phase moving can be relaxed"


def _told(error: BaseException) -> str:
    if not isinstance(error, RequestRejected) or error.message == error.error_code.name:
        return str(error)
    return f"{error.message} ({error.error_code.name})"


def _maybe_told(error: BaseException | None) -> str | None:
    return None if error is None else _told(error)
