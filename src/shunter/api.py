"""Shunter for Python programs: look at a cluster, plan, dry-run, execute, and turn moves, as the verbs do.

    cluster = Cluster("kafka1:9092")
    plan = cluster.plan(PlanOptions(scope="drain", brokers=(3,)))
    outcome = cluster.execute(plan.moves, ExecutionOptions(throttle=50_000_000))

`__all__` is the promise: what it names, and the fields and parameters of that, stays within a major version. A call
blocks until it is done, and asks no question: to call it is to agree. Each error is a `ShunterError` whose text says
what to do. A program with an event loop calls from a thread (`asyncio.to_thread`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from shunter.app.client_configuration import configuration_of
from shunter.app.executor.driving import SessionStart, drive
from shunter.app.executor.dry_run import DryRun
from shunter.app.executor.following import follow
from shunter.app.executor.history import past_executions, undoing
from shunter.app.executor.orders import giver, hand_over, holder_of, order_command, order_plan
from shunter.app.executor.outcome import exit_code, told_end
from shunter.app.executor.session import (
    Target,
    decode_plan,
    lay_out,
    no_journal,
    open_session,
    read_plan,
)
from shunter.app.executor.status import Status, read_status
from shunter.app.exit_codes import ExitCode
from shunter.app.planning.live import open_goals, plan_cluster
from shunter.app.planning.plan import PlanOptions, see_options_fit
from shunter.core.executor.history import Execution
from shunter.core.planning.explain import MoveReason, Summary, move_reasons
from shunter.drivers.admin.inventory import take_inventory
from shunter.errors import SettingsError, ShunterError
from shunter.model.execution import Command, CommandKind, ExecutionOptions, MoveOrder
from shunter.model.inventory import Inventory
from shunter.model.partition import TopicPartition
from shunter.views.execution import ExecutionView

__all__ = [
    "Cluster",
    "DryRun",
    "Execution",
    "ExecutionOptions",
    "ExecutionView",
    "ExitCode",
    "Inventory",
    "MoveOrder",
    "OrderOutcome",
    "Plan",
    "PlanOptions",
    "ShunterError",
    "Status",
    "TopicPartition",
    "read_plan",
]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. `document`: the JSON that `shunter execute` and Apache's tool take. Sizes of reasons are KiB."""

    moves: tuple[MoveOrder, ...]
    summary: Summary
    reasons: tuple[MoveReason, ...]
    notes: tuple[str, ...]
    document: bytes


@dataclass(frozen=True, slots=True)
class OrderOutcome:
    """How an order ended, by the exit status of its verb, in sentences.

    `view`: how the moves stand; None: another executor drives the journal. It took the order, and `Cluster.status`
    shows how it goes on.
    """

    status: ExitCode
    told: tuple[str, ...]
    view: ExecutionView | None = None


class Cluster:
    """A cluster, a login and a journal, as of `--bootstrap-server`, `--command-config` and `--journal`."""

    def __init__(
        self,
        bootstrap: str,
        *,
        properties: Path | None = None,
        journal: Path | None = None,
        journal_topic: str | None = None,
    ) -> None:
        """Name the cluster; nothing is asked yet."""
        if journal is not None and journal_topic is not None:
            raise SettingsError("a journal is a file or a topic: name only one of them")
        self._target = Target(bootstrap, properties, journal, journal_topic)

    def inventory(self) -> Inventory:
        """The cluster's brokers, log dirs and partitions, with what is known of each."""
        return take_inventory(configuration_of(self._target.bootstrap, self._target.properties))

    def plan(self, options: PlanOptions | None = None) -> Plan:
        """Plan from where the journal's open moves end, as `shunter plan`; nothing is moved."""
        asked = options or PlanOptions()
        see_options_fit(asked)
        opened = asyncio.run(open_goals(self._target))
        made, _cluster_id, notes = plan_cluster(self._target.bootstrap, self._target.properties, asked, None, opened)
        moves, reasons = decode_plan(made.reassignment, "the plan"), tuple(move_reasons(made.plan))
        return Plan(moves, made.summary, reasons, (*made.plan.notes, *notes), made.reassignment)

    def dry_run(self, moves: Sequence[MoveOrder], options: ExecutionOptions | None = None) -> DryRun:
        """Moves on paper: steps, bytes, the least time, and what a rollback would copy at each point."""
        return asyncio.run(lay_out(self._target, moves, options or ExecutionOptions()))

    def execute(
        self,
        moves: Sequence[MoveOrder],
        options: ExecutionOptions | None = None,
        *,
        on_view: Callable[[ExecutionView], None] | None = None,
    ) -> OrderOutcome:
        """Carry moves out to their end, as `shunter execute`; `on_view` is called each second, and must not block.

        If another executor drives the journal, it gets the moves: `shunter serve` at once, and a command's or another
        program's is followed to their end.
        """
        asked = options or ExecutionOptions()
        if not moves:
            return OrderOutcome(ExitCode.DONE, ("nothing is to be moved",))
        give = partial(order_plan, moves=moves, options=asked)
        return asyncio.run(self._do(give, SessionStart(tuple(moves), asked), on_view))

    def status(self) -> Status:
        """How the moves stand: the journal's, beside the executor that drives it, and the cluster's others."""
        return asyncio.run(read_status(self._target, check=True))

    def stop(self, partitions: Sequence[TopicPartition] = ()) -> OrderOutcome:
        """End moves of the journal where they stand, all or these; see `shunter stop`."""
        return self._turn("stop", CommandKind.STOP, partitions)

    def rollback(self, partitions: Sequence[TopicPartition] = ()) -> OrderOutcome:
        """Bring the original replicas back. `Status.view.rollback_bytes` is what that copies."""
        return self._turn("rollback", CommandKind.ROLL_BACK, partitions)

    def resume(self) -> OrderOutcome:
        """Go on with the journal's moves to their end: after a crash, or a pause."""
        return self._turn("resume", CommandKind.RESUME, ())

    def history(self) -> tuple[Execution, ...]:
        """Past executions, the first one first."""
        return asyncio.run(past_executions(self._target))[1]

    def undo(self, number: int | None = None, options: ExecutionOptions | None = None) -> OrderOutcome:
        """Move back what an ended execution moved: the last one, or the one with this number."""
        execution, wanted = asyncio.run(undoing(self._target, number))
        cordons = tuple(sorted(execution.cordons.items()))
        outcome = self.execute(wanted.moves, replace(options or ExecutionOptions(), cordons=cordons))
        return replace(outcome, told=(*wanted.told, *outcome.told))

    def _turn(self, verb: str, kind: CommandKind, partitions: Sequence[TopicPartition]) -> OrderOutcome:
        command = Command(kind, tuple(partitions), given_by=giver(verb))
        unpause = kind is CommandKind.RESUME
        work = SessionStart(unpause=True) if unpause else SessionStart(command=command)
        return asyncio.run(self._do(partial(order_command, command=command), work))

    async def _do(
        self,
        give: Callable[..., Coroutine[Any, Any, dict[str, Any]]],
        work: SessionStart,
        on_view: Callable[[ExecutionView], None] | None = None,
    ) -> OrderOutcome:
        """Give an order to the executor that drives the journal; if none does, drive it here."""
        place, holder = await holder_of(self._target)
        told: list[str] = []
        answer = await hand_over(holder, lambda: give(place), told.append)
        if answer is not None:
            partly = answer.get("partly") or answer.get("refused")
            status = ExitCode.REFUSED if not answer["accepted"] else ExitCode.PARTLY if partly else ExitCode.DONE
            said = (answer["text"], *answer.get("refused", ()))
            if status is ExitCode.REFUSED or "plan_id" not in answer:
                return OrderOutcome(status, said)
            ended = await follow(place, answer["plan_id"], on_view or (lambda _view: None))
            code = exit_code(ended)
            code = ExitCode.PARTLY if partly and code in (ExitCode.DONE, ExitCode.TURNED) else code
            return OrderOutcome(code, (*said, *told_end(ended)), ended.view)
        if not work.moves and not place.exists():
            raise await no_journal(self._target, place)
        listener = lambda notice: told.append(notice.text)  # noqa: E731 - a name for one word
        async with open_session(self._target, listener, urgent=work.command is not None) as session:
            ended = await drive(session, work, on_view=on_view)
        return OrderOutcome(exit_code(ended), (*told, *told_end(ended)), ended.view)
