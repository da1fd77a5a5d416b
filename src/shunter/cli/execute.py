"""`shunter execute` and its kin: run a plan under a journal, and turn, slow down or watch one that runs."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click

from shunter.app.executor import (
    ClusterClaimed,
    Ended,
    JournalDamaged,
    JournalFenced,
    JournalHeld,
    JournalUnusable,
    SeatTaken,
    Session,
    SessionStart,
    Target,
    claimed_by,
    drive,
    no_journal,
    only_journal,
    open_session,
    read_journal,
    read_plan,
    read_status,
    read_view,
    salvage,
)
from shunter.app.executor_orders import HolderGone, holder_of, order_command, order_plan
from shunter.app.executor_outcome import exit_code, told_end
from shunter.app.exit_codes import ExitCode
from shunter.app.journals import JournalPlace
from shunter.app.order_costs import bytes_again, bytes_again_by_plan
from shunter.cli.consent import agreed, can_be_asked
from shunter.cli.execution_display import Display, make_display, say_json, told_bytes, told_view
from shunter.cli.execution_options import (
    LIMIT,
    cluster_options,
    driver_options,
    execution_options,
    journal_options,
    partition_option,
    yes_option,
)
from shunter.cli.execution_plan import show_dry_run
from shunter.errors import DriverError, FormatError, SettingsError, ShunterError
from shunter.model.execution import Command, CommandKind, ExecutionOptions, MoveOrder
from shunter.model.partition import TopicPartition
from shunter.views.execution import view_to_json

WATCH_EVERY_S = 1.0


class NobodyDrives(ShunterError):
    """An order that whoever drives a journal carries out, and nobody does."""


def run(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a command's coroutine and leave with its exit code; what goes wrong is said in one sentence."""
    try:
        code = asyncio.run(work)
    except (ClusterClaimed, JournalHeld, SeatTaken) as error:
        code = _complain(error, ExitCode.HELD)
    except JournalFenced as error:
        code = _complain(error, ExitCode.HELD)
    except JournalUnusable as error:
        code = _complain(error, ExitCode.JOURNAL)
    except DriverError as error:
        code = _complain(error, ExitCode.CLUSTER)
    except JournalDamaged as error:
        code = _complain(error, ExitCode.JOURNAL)
        for told in salvage(error):
            click.echo(f"  {told}", err=True)
    except FormatError as error:
        code = _complain(error, ExitCode.JOURNAL)
    except SettingsError as error:
        code = _complain(error, ExitCode.USAGE)
    except ShunterError as error:
        code = _complain(error, ExitCode.REFUSED)
    sys.exit(code)


def _complain(error: Exception, code: ExitCode) -> int:
    click.echo(f"shunter: {error}", err=True)
    return int(code)


@click.command()
@click.argument("plan", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@driver_options
@execution_options
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@yes_option
def execute(plan: Path, target: Target, options: ExecutionOptions, *, dry_run: bool, as_json: bool, yes: bool) -> None:
    """Carry out PLAN (as Apache's tool takes it) on any cluster, under a journal.

    If an executor already drives the cluster's journal (`shunter executor`), the plan is handed to it.

    \b
    Examples:
      shunter execute plan.json --bootstrap-server kafka1:9092 --dry-run
      shunter execute plan.json --bootstrap-server kafka1:9092 --throttle 50M --max-in 2
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    run(carry_out_file(plan, target, options, dry_run=dry_run, as_json=as_json, yes=yes))


async def carry_out_file(
    plan: Path, target: Target, options: ExecutionOptions, *, dry_run: bool, as_json: bool, yes: bool
) -> int:
    """Carry a plan file out, or hand it to who drives the journal; returns the exit code."""
    moves = read_plan(plan)
    if not moves:
        click.echo("the plan names no partition: nothing to do", err=True)
        return int(ExitCode.DONE)
    return await carry_out(moves, target, options, dry_run=dry_run, as_json=as_json, yes=yes)


async def carry_out(
    moves: Sequence[MoveOrder], target: Target, options: ExecutionOptions, *, dry_run: bool, as_json: bool, yes: bool
) -> int:
    """Carry moves out, or hand them to who drives the journal; returns the exit code."""
    asks = not yes and can_be_asked(as_json=as_json)
    if not (dry_run or yes or asks):
        adopts = (
            "it adopts moves whose original order nobody knows" if options.take_over else "this changes the cluster"
        )
        raise SettingsError(f"{adopts}, and nobody can be asked here: look at it with --dry-run, then say --yes")
    if dry_run or asks:
        possible = await show_dry_run(target, moves, options, as_json=as_json)
        if dry_run:
            return int(ExitCode.DONE if possible else ExitCode.REFUSED)
        if not click.confirm("Begin?" if possible else "Begin with what can be taken on?"):
            return int(ExitCode.REFUSED)
    place, holder = await holder_of(target)
    if holder is not None:
        cost, why = await bytes_again_by_plan(target, place, moves, options)
        if cost and not agreed(
            f"{told_bytes(cost)} are copied again: {why}", "Begin all the same?", yes=yes, as_json=as_json
        ):
            return int(ExitCode.REFUSED)
        try:
            answer = await order_plan(place, moves, options)
        except HolderGone as gone:
            click.echo(f"shunter: {gone}: it is carried out here", err=True)
        else:
            code = _told_order({**answer, "text": f"handed to {holder}: {answer['text']}"}, as_json=as_json)
            return int(ExitCode.PARTLY) if code == ExitCode.DONE and answer["refused"] else code
    return await run_session(target, SessionStart(tuple(moves), options), as_json=as_json)


async def run_session(target: Target, work: SessionStart, *, as_json: bool, forever: bool = False) -> int:
    """Drive an execution in the foreground: show it, ask at the first ctrl-C, leave at the second."""
    leave = asyncio.Event()
    with make_display(as_json=as_json) as display:
        async with open_session(target, display.notice) as session:
            interruption = Interruption(
                session, display, leave, asks=not forever and not as_json and sys.stdin.isatty()
            )
            interruption.install()
            try:
                ended = await drive(session, work, on_view=display.view, leave=leave, forever=forever)
            finally:
                interruption.remove()
        display.quiet()
    return _told(ended, as_json=as_json)


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
        """Take SIGINT and SIGTERM."""
        self._loop.add_signal_handler(signal.SIGINT, self._interrupted)
        self._loop.add_signal_handler(signal.SIGTERM, self._leave.set)

    def remove(self) -> None:
        """Give them back."""
        self._loop.remove_signal_handler(signal.SIGINT)
        self._loop.remove_signal_handler(signal.SIGTERM)

    def _interrupted(self) -> None:
        if not self._asks or (self._asking is not None and not self._asking.done()):
            self._leave.set()
            return
        self._asking = self._loop.create_task(self._ask())

    async def _ask(self) -> None:
        with self._display.quieted():
            view = self._session.view()
            click.echo(f"\n{told_view(view)}")
            click.echo(f"a rollback would copy {told_bytes(view.rollback_bytes)}; ctrl-C again leaves")
            click.echo("[s]top, [r]oll back, [p]ause, [l]eave running, [c]ontinue? ", nl=False)
            answer = await self._line()
        kind = {"s": CommandKind.STOP, "r": CommandKind.ROLL_BACK, "p": CommandKind.PAUSE}.get(answer[:1].lower())
        if kind is not None:
            reply = await self._session.command(Command(kind, given_by="ctrl-C"))
            click.echo(reply.text)
        elif answer[:1].lower() == "l":
            self._leave.set()

    async def _line(self) -> str:
        """A line from the terminal, read without a thread that nobody could end."""
        answered: asyncio.Future[str] = self._loop.create_future()

        def readable() -> None:
            if not answered.done():
                answered.set_result(sys.stdin.readline())

        self._loop.add_reader(sys.stdin.fileno(), readable)
        try:
            return (await answered).strip()
        finally:
            self._loop.remove_reader(sys.stdin.fileno())


@click.command()
@driver_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def executor(target: Target, *, as_json: bool) -> None:
    """Drive the cluster's journal as a daemon: plans and orders come from other shells.

    \b
    Example:
      shunter executor --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    run(run_session(target, SessionStart(), as_json=as_json, forever=True))


@click.command()
@driver_options
@partition_option
@yes_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def resume(target: Target, partitions: tuple[TopicPartition, ...], *, yes: bool, as_json: bool) -> None:
    """Go on: after a crash from the journal, or after a pause at whoever drives it.

    With --partition these moves go on, and what else is paused stays so.

    \b
    Examples:
      shunter resume --bootstrap-server kafka1:9092
      shunter resume --bootstrap-server kafka1:9092 --partition orders-3
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    command = Command(CommandKind.RESUME, partitions, given_by="resume")
    run(_go_on(target, command, yes=yes, as_json=as_json))


@click.command()
@driver_options
@partition_option
@yes_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def rollback(target: Target, partitions: tuple[TopicPartition, ...], *, yes: bool, as_json: bool) -> None:
    """Bring the original replicas back, in their order; asks first where they have to be copied.

    \b
    Examples:
      shunter rollback --bootstrap-server kafka1:9092
      shunter rollback --bootstrap-server kafka1:9092 --partition orders-3 --yes
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    command = Command(CommandKind.ROLL_BACK, partitions, given_by="rollback")
    run(_go_on(target, command, yes=yes, as_json=as_json))


@click.command()
@driver_options
@partition_option
@click.option("--leave", is_flag=True, help="Wait for nothing: leave to the cluster what it was told last.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def stop(target: Target, partitions: tuple[TopicPartition, ...], *, leave: bool, as_json: bool) -> None:
    """End moves where they stand: what is in sync stays, what is not goes.

    With --leave they end at once, also where a dead broker keeps them from ending: the cluster goes on with the step
    that it was told last, without our throttle, and nobody looks after it any more.

    \b
    Examples:
      shunter stop --bootstrap-server kafka1:9092
      shunter stop --bootstrap-server kafka1:9092 --partition orders-3 --leave
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    kind = CommandKind.LEAVE if leave else CommandKind.STOP
    run(_go_on(target, Command(kind, partitions, given_by="stop"), as_json=as_json))


async def _go_on(target: Target, command: Command, *, yes: bool = False, as_json: bool) -> int:
    """Give a command to whoever drives the journal, or drive it here if nobody does."""
    place, holder = await holder_of(target)
    if not await _cost_agreed(target, place, command, yes=yes, as_json=as_json):
        return int(ExitCode.REFUSED)
    if holder is not None:
        try:
            return _told_order(await order_command(place, command), as_json=as_json)
        except HolderGone as gone:
            click.echo(f"shunter: {gone}: it is done here", err=True)
    if not place.exists():
        raise await no_journal(target, place)
    unpause = command.kind is CommandKind.RESUME and not command.partitions
    work = SessionStart(unpause=True) if unpause else SessionStart(command=command)
    return await run_session(target, work, as_json=as_json)


async def _cost_agreed(target: Target, place: JournalPlace, command: Command, *, yes: bool, as_json: bool) -> bool:
    """Say what an order makes be copied again before it is given; ask where that is not nothing."""
    cost, why, at_most = await bytes_again(target, place, command)
    told = f"{'at most ' if at_most else ''}{told_bytes(cost)} are copied again: {why}"
    return not cost or agreed(told, "Do it?", yes=yes, as_json=as_json)


def _told_order(answer: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        say_json({"event": "order", **answer})
    else:
        click.echo(answer["text"])
        for told in answer.get("instead", ()):
            click.echo(told)
        for told in answer.get("refused", ()):
            click.echo(f"not taken on: {told}")
    return int(ExitCode.DONE if answer["accepted"] else ExitCode.REFUSED)


async def _order(target: Target, command: Command, *, yes: bool = False, as_json: bool) -> int:
    place, holder = await holder_of(target)
    if holder is None and not place.exists():
        raise await no_journal(target, place)
    if holder is None:
        claimant = await claimed_by(target, place)
        other = f"; under another journal the cluster is driven by {claimant}" if claimant else ""
        raise NobodyDrives(f"{place}: nobody drives it{other or '; `shunter resume` does'}")
    if not await _cost_agreed(target, place, command, yes=yes, as_json=as_json):
        return int(ExitCode.REFUSED)
    try:
        return _told_order(await order_command(place, command), as_json=as_json)
    except HolderGone as gone:
        raise NobodyDrives(f"{gone}; `shunter resume` drives what is left") from gone


@click.command()
@cluster_options
@partition_option
@yes_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def pause(target: Target, partitions: tuple[TopicPartition, ...], *, yes: bool, as_json: bool) -> None:
    """Begin no step, and let running copies trickle: what is copied stays.

    With --partition the others go on. A copy that no throttle can hold without them is cancelled, and begun again at
    `shunter resume`: how much is copied again is said first, and asked.

    \b
    Example:
      shunter pause --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    command = Command(CommandKind.PAUSE, partitions, given_by="pause")
    run(_order(target, command, yes=yes, as_json=as_json))


@click.command()
@click.argument("rate", type=LIMIT)
@cluster_options
@yes_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def limit(rate: int, target: Target, *, yes: bool, as_json: bool) -> None:
    """Set the rate in force to RATE bytes per second and broker (50M, 1G; none lifts it).

    \b
    Examples:
      shunter limit 20M --bootstrap-server kafka1:9092
      shunter limit none --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    command = Command(CommandKind.LIMIT, bytes_per_s=rate or None, given_by="limit")
    run(_order(target, command, yes=yes, as_json=as_json))


@click.command()
@cluster_options
@partition_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def relax(target: Target, partitions: tuple[TopicPartition, ...], *, as_json: bool) -> None:
    """Relax the floor now: let moves go on without replicas that are out of sync.

    \b
    Example:
      shunter relax --bootstrap-server kafka1:9092 --partition orders-3
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    command = Command(CommandKind.RELAX, partitions, given_by="relax")
    run(_order(target, command, as_json=as_json))


@click.command()
@journal_options
@click.option("--offline", is_flag=True, help="Read the journal alone: that of --journal, or the only one here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(target: Target, *, offline: bool, as_json: bool) -> None:
    """Tell how an execution stands: its journal, checked against the cluster.

    \b
    Examples:
      shunter status --bootstrap-server kafka1:9092
      shunter status --offline --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    run(_status(target, offline=offline, as_json=as_json))


async def _status(target: Target, *, offline: bool, as_json: bool) -> int:
    if not target.bootstrap:
        if not offline or target.journal_topic is not None:
            raise SettingsError(
                "Missing option '--bootstrap-server': only with --offline a journal file can be read alone"
            )
        target = replace(target, journal=target.journal or only_journal())
    found = await read_status(target, check=not offline)
    if as_json:
        say_json(found.to_json())
        return int(ExitCode.DONE)
    click.echo(f"journal {found.place}")
    click.echo(f"driven by {found.holder}" if found.holder is not None else "driven by nobody")
    if found.claimant:
        click.echo(f"under another journal the cluster is driven by {found.claimant}: ask there")
    if not found.view.counts:
        click.echo("nothing was executed under it yet")
        return int(ExitCode.DONE)
    click.echo(told_view(found.live or found.view))
    shown = () if found.live is None else found.live.moves
    waits = {row.partition: row.waits for row in shown}
    stuck = {row.partition: row.stuck for row in shown}
    for row in found.view.moves:
        if row.state in ("pending", "moving", "paused"):
            told = f"  {row.partition} {list(row.current)} → {list(row.target)} ({row.direction}, {row.state})"
            click.echo(f"{told}: {waits[row.partition]}" if waits.get(row.partition) else told)
            if stuck.get(row.partition):
                click.echo(f"    {stuck[row.partition]}")
    for difference in found.differences:
        click.echo(f"  the cluster differs: {difference}")
    if found.debts:
        click.echo(f"throttles are owed to {found.view.owed}: {found.debts}")
    if found.view.running and found.holder is None:
        click.echo("`shunter resume` goes on, `shunter rollback` restores, `shunter stop` ends it here")
    return int(ExitCode.DONE)


@click.command()
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def watch(target: Target, *, as_json: bool) -> None:
    """Watch an execution that another process drives, until it ends.

    \b
    Example:
      shunter watch --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    run(_watch(target, as_json=as_json))


async def _watch(target: Target, *, as_json: bool) -> int:
    last = -1
    place, holder = await holder_of(target)
    while holder is not None:
        view = read_view(place)
        if view is None and last < 0:
            last = 0
            click.echo(f"{holder} shows nothing here yet; from another host `shunter status` tells", err=True)
        if view is not None and view.at_ms != last:
            last = view.at_ms
            if as_json:
                say_json({"event": "progress", **view_to_json(view)})
            else:
                click.echo(told_view(view) if view.counts else "idle")
        await asyncio.sleep(WATCH_EVERY_S)
        place, holder = await holder_of(target)
    state, _holder = await asyncio.to_thread(read_journal, place)
    left = len(state.open_moves())
    told = f"nobody drives it, and {left} moves are open: `shunter resume` goes on" if left else "nobody drives it"
    click.echo(told, err=True)
    return int(ExitCode.LEFT if left else ExitCode.DONE)
