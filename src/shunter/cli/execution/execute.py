"""`shunter execute`: carry out a plan, with an executor in the foreground."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from shunter.app.executor.driving import Ended, SessionStart, drive
from shunter.app.executor.following import follow
from shunter.app.executor.order_costs import bytes_again_by_plan
from shunter.app.executor.orders import giver, hand_over, holder_of, order_plan, told_others
from shunter.app.executor.outcome import exit_code, told_end
from shunter.app.executor.session import Session, Target, open_session
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.consent import agreed, can_be_asked
from shunter.cli.execution.display import Display, say_json, told_view
from shunter.cli.execution.displays import make_display
from shunter.cli.execution.options import LATER, PLAN, carrying_options, driver_options, execution_options, plan_of
from shunter.cli.execution.plan import show_dry_run
from shunter.cli.leaving import leave_with
from shunter.cli.outlet import goes_on_without_output
from shunter.cli.sections import ManyOptions
from shunter.core.executor.foresight.hold_ups import told_held_up
from shunter.core.spare_replicas import told_thin
from shunter.core.throttles import told_bursts, told_cordon
from shunter.core.wording import told_bytes
from shunter.errors import SettingsError
from shunter.model.execution import Command, CommandKind, ExecutionOptions, MoveOrder
from shunter.model.notice import Notice

if TYPE_CHECKING:
    from shunter.app.executor.journals import JournalPlace
    from shunter.core.executor.ready import PlanReply


class Carrying(NamedTuple):
    """How moves are carried out, beside their options: really or on paper, with or without a question, for whom."""

    dry_run: bool = False
    yes: bool = False
    as_json: bool = False


@click.command(cls=ManyOptions, sections=LATER)
@click.argument("plan", type=PLAN)
@driver_options
@execution_options
@carrying_options
def execute(plan: Path, target: Target, options: ExecutionOptions, **carrying: Any) -> None:
    """Carry out PLAN (Kafka's reassignment JSON) on any cluster, under a journal.

    The executor does it from here, step by step, under whatever controller the cluster has. If a process drives the
    cluster's journal already, it gets the plan: `shunter serve` at once, and another shell's is followed until the moves
    of PLAN have ended; ctrl-C ends the watching, not the moves. A partition whose replicas are null or empty in the
    plan is rolled back. `shunter submit` hands a plan to the controller instead, and ends. PLAN `-` is standard input
    (`shunter plan … | shunter execute - …`): the question is then asked at the terminal; without one, --yes is needed.

    \b
    Examples:
      shunter execute plan.json --bootstrap-server kafka1:9092 --dry-run
      shunter execute plan.json --bootstrap-server kafka1:9092 --throttle 50M --max-in 2 --yes
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def work() -> int:
        moves = plan_of(plan)
        if not moves:
            click.echo("the plan names no partition: nothing to do", err=True)
            return int(ExitCode.DONE)
        return carry_out(moves, target, options, Carrying(**carrying))

    leave_with(work)


def carry_out(moves: Sequence[MoveOrder], target: Target, options: ExecutionOptions, how: Carrying) -> int:
    """Have the executor carry moves out; returns the exit status.

    Raises:
        SettingsError: there is no terminal to ask on, and `--yes` was not given.
        ShunterError: the cluster does not answer, or the moves are refused.
    """
    asks = require_consent(how, options)
    for broker, value in () if how.as_json else options.cordons:
        click.echo(told_cordon(broker, value), err=True)
    if how.dry_run or asks:
        possible = asyncio.run(show_dry_run(target, moves, options, as_json=how.as_json))
        if how.dry_run:
            return int(ExitCode.DONE if possible else ExitCode.REFUSED)
        if not click.confirm("Begin?" if possible else "Begin with what can be taken on?"):
            return int(ExitCode.REFUSED)
    return asyncio.run(_execute(target, moves, options, how))


def require_consent(how: Carrying, options: ExecutionOptions | None = None) -> bool:
    """Whether the operator is to be asked before moves begin.

    Raises:
        SettingsError: there is no terminal to ask on, and `--yes` was not given.
    """
    asks = not how.yes and can_be_asked(as_json=how.as_json)
    if not (how.dry_run or how.yes or asks):
        adopts = options is not None and options.take_over
        told = "this adopts moves whose original order is unknown" if adopts else "this changes the cluster"
        raise SettingsError(
            f"{told}, and no question can be asked here (no terminal, or --json): try --dry-run, then add --yes"
        )
    return asks


async def _execute(target: Target, moves: Sequence[MoveOrder], options: ExecutionOptions, how: Carrying) -> int:
    place, holder = await holder_of(target)
    if holder is not None and holder.takes_orders:
        cost, why = await bytes_again_by_plan(target, place, moves, options)
        told = f"{told_bytes(cost)} are copied again: {why}"
        if cost and not agreed(told, "Begin all the same?", yes=how.yes, as_json=how.as_json):
            return int(ExitCode.REFUSED)
    here = partial(echo_gone, "the plan is carried out here")
    give = partial(order_plan, place, moves, options)
    if (answer := await hand_over(holder, give, here, take_over=target.take_over_cluster)) is not None:
        stays = answer["accepted"] and "plan_id" not in answer
        told = f"handed to {holder}: {answer['text']}{'; `shunter watch` follows them' if stays else ''}"
        code = told_order({**answer, "text": told}, as_json=how.as_json)
        if "plan_id" in answer and code == ExitCode.DONE:
            code = await _follow(place, answer["plan_id"], as_json=how.as_json)
        return int(ExitCode.PARTLY) if code in (ExitCode.DONE, ExitCode.TURNED) and answer["refused"] else code
    if others := await told_others(place, [move.tp for move in moves]):
        click.echo(others, err=True)
    return await run_session(target, SessionStart(tuple(moves), options), as_json=how.as_json)


def echo_gone(then: str, told: str) -> None:
    """Say why no executor took an order, and what happens now."""
    click.echo(f"shunter: {told}: {then}", err=True)


async def _follow(place: JournalPlace, plan_id: str, *, as_json: bool) -> int:
    """Show a plan that another process carries out, until its moves have ended; returns the exit status."""
    goes_on_without_output()
    try:
        with make_display(as_json=as_json) as display:
            ended = await follow(place, plan_id, display.view)
            display.quiet()
    except asyncio.CancelledError:
        click.echo("the moves go on: `shunter watch` follows them", err=True)
        raise
    return _told(ended, as_json=as_json)


async def run_session(
    target: Target,
    work: SessionStart,
    *,
    as_json: bool,
) -> int:
    """Drive an execution in the foreground: show it, ask at the first ctrl-C, leave at the second."""
    goes_on_without_output()
    leave = asyncio.Event()
    with make_display(as_json=as_json) as display:
        async with open_session(target, display.notice, urgent=work.command is not None) as session:
            interruption = Interruption(session, display, leave, asks=not as_json and sys.stdin.isatty())
            interruption.install()
            if work.moves and (bursts := told_bursts(work.options.throttle)):
                display.notice(Notice("throttle-bursts", "", bursts))
            try:
                taken = partial(show_taken, display)
                ended = await drive(session, work, on_view=display.view, on_plan=taken, leave=leave)
            finally:
                interruption.remove()
        display.quiet()
    return _told(ended, as_json=as_json)


def show_taken(display: Display, plan: PlanReply) -> None:
    """Tell, before the first step, what of a plan was not taken on, and what may not go well of the rest."""
    for move in plan.moves if plan.error is None else ():  # A plan that is refused as a whole ends the session.
        if move.refused is not None:
            display.notice(Notice("not-taken", str(move.tp), f"{move.tp} was not taken on: {move.refused}"))
    if plan.kept:
        display.notice(Notice("kept", "the plan", plan.kept))
    if told := told_held_up((move.tp, move.held_up) for move in plan.moves if move.held_up):
        display.notice(Notice("held-up", "the plan", told))
    for told in told_thin((move.tp, move.thin) for move in plan.moves):
        display.notice(Notice("thin", "the plan", told))


def _told(ended: Ended, *, as_json: bool) -> int:
    code = exit_code(ended)
    lines = told_end(ended)
    if as_json:
        say_json({"event": "end", "exit": int(code), "counts": ended.view.counts, "told": lines})
    else:
        for line in lines:
            click.echo(line)
    return int(code)


class Interruption:
    """Ctrl-C: the first asks what to do, the second leaves everything running under the journal."""

    def __init__(self, session: Session, display: Display, leave: asyncio.Event, *, asks: bool) -> None:
        self._session = session
        self._display = display
        self._leave = leave
        self._asks = asks
        self._asking: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def install(self) -> None:
        """Take SIGINT, SIGTERM, and SIGHUP unless it is ignored (`nohup`)."""
        self._loop.add_signal_handler(signal.SIGINT, self._interrupted)
        self._loop.add_signal_handler(signal.SIGTERM, self._leave.set)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            self._loop.add_signal_handler(signal.SIGHUP, self._leave.set)

    def remove(self) -> None:
        """Stop handling these signals."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.remove_signal_handler(number)

    def _interrupted(self) -> None:
        if not self._asks or (self._asking is not None and not self._asking.done()):
            self._leave.set()
            return
        self._asking = self._loop.create_task(self._ask())

    async def _ask(self) -> None:
        with self._display.quieted():
            view = self._session.view()
            click.echo(f"\n{told_view(view) if self._session.core.worked else 'nothing of the plan was begun'}")
            click.echo(f"a rollback would copy {told_bytes(view.rollback_bytes)}; ctrl-C again leaves")
            click.echo("[s]top, [r]oll back, [p]ause, [l]eave running, [c]ontinue? ", nl=False)
            answer = await self._line()
        kind = {"s": CommandKind.STOP, "r": CommandKind.ROLL_BACK, "p": CommandKind.PAUSE}.get(answer[:1].lower())
        if kind is not None:
            reply = await self._session.command(Command(kind, given_by=giver("execute, Ctrl-C")))
            click.echo(reply.text)
        elif answer[:1].lower() == "l":
            self._leave.set()

    async def _line(self) -> str:
        """A line from the terminal, read without a thread, because a thread that waits for input could not be ended."""
        answered: asyncio.Future[str] = self._loop.create_future()

        def readable() -> None:
            if not answered.done():
                answered.set_result(sys.stdin.readline())

        self._loop.add_reader(sys.stdin.fileno(), readable)
        try:
            return (await answered).strip()
        finally:
            self._loop.remove_reader(sys.stdin.fileno())


def told_order(answer: dict[str, Any], *, as_json: bool) -> int:
    """Print the answer of the executor that drives the journal; returns the exit status."""
    if as_json:
        say_json({"event": "order", "by": "executor", **answer})
    else:
        click.echo(answer["text"])
        for told in answer.get("instead", ()):
            click.echo(told)
        for told in answer.get("refused", ()):
            click.echo(f"not taken on: {told}")
        if never := told_held_up(
            (name, why) for name, _colon, why in (each.partition(": ") for each in answer.get("held_up", ()))
        ):
            click.echo(never)
        for told in answer.get("thin", ()):
            click.echo(told)
    if answer["accepted"]:
        return int(ExitCode.PARTLY if answer.get("partly") else ExitCode.DONE)
    return int(ExitCode.REFUSED)


__all__ = [
    "Interruption",
    "carry_out",
    "echo_gone",
    "execute",
    "require_consent",
    "run_session",
    "show_taken",
    "told_order",
]
