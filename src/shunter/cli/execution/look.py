"""`shunter status`, `watch`, `list`: which moves are under way, and how they stand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from shunter.app.executor.orders import holder_of, standing_of
from shunter.app.executor.session import (
    Target,
    nothing_journalled,
    only_journal,
    read_journal,
    read_view,
)
from shunter.app.executor.status import read_status, read_without_cluster, surroundings_of
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.display import say_json, told_view
from shunter.cli.execution.named_moves import NOWHERE, Elsewhere, Wanted, look_elsewhere, meant, missing_of, narrowed
from shunter.cli.execution.options import cluster_options, journal_options, session_options, wanted_options
from shunter.cli.leaving import leave_with
from shunter.cli.outlet import output_lost
from shunter.cli.profiles import fleet_option, for_each_cluster, is_on_command_line
from shunter.cli.tables import output_options, show_rows
from shunter.core.wording import counted
from shunter.errors import DriverError, SettingsError
from shunter.views.execution import OPEN_STATES, ExecutionView, view_to_json

if TYPE_CHECKING:
    from shunter.app.executor.journals import JournalPlace
    from shunter.app.executor.status import Status
    from shunter.app.reassign.session import ReassignSession

WATCH_EVERY_S = 1.0


@click.command()
@wanted_options
@journal_options
@fleet_option
@click.option(
    "--offline",
    is_flag=True,
    help="Read the journal alone (--journal, or the only one on this host) and don't ask the cluster.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(target: Target, wanted: Wanted, *, fleet: bool, offline: bool, as_json: bool) -> None:
    """Show how moves stand: what they wait for, how much is copied, what a rollback would copy.

    The executor's moves are read from its journal and compared with the cluster. The moves of Shunter's controller are
    read from the controller.

    \b
    Examples:
      shunter status --bootstrap-server kafka1:9092
      shunter status orders-3 --bootstrap-server kafka1:9092
      shunter status --all
      shunter status --offline --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def ask(at: Target) -> int:
        place, _holder = asyncio.run(holder_of(at))
        at = replace(at, journal=place.path)
        if not is_on_command_line("journal") and asyncio.run(nothing_journalled(at)):
            return _others(at, wanted, as_json=as_json)
        return _show(at, asyncio.run(read_status(at, check=True)), wanted, as_json=as_json)

    def look(at: Target) -> int:
        try:
            return ask(at)
        except DriverError as error:
            return _show(at, asyncio.run(read_without_cluster(at, error)), wanted, as_json=as_json)

    if fleet:
        leave_with(lambda: for_each_cluster(target, look, as_json=as_json))
    if offline or not target.bootstrap:
        leave_with(lambda: _offline(target, wanted, offline=offline, as_json=as_json))
    leave_with(lambda: look(target))


def _others(target: Target, wanted: Wanted, *, as_json: bool) -> int:
    """Show the cluster's moves, also between log dirs, where this host has no journal: another tool began all of them."""
    from shunter.cli.execution import rows as moves_of_others  # noqa: PLC0415 - brings the client library with it

    with _session(target) as session:
        copies = session.copies()
        between = copies.rows()
        meant_copies = set(wanted.of([row.tp for row in between]))
        rows = moves_of_others.chosen_rows(session, wanted)
        rows += [row for row in between if row.tp in meant_copies]
        missing = missing_of(wanted, {str(row.tp) for row in rows})
        elsewhere = look_elsewhere(missing, None, session, moves_of_others.told_row)
    around = asyncio.run(surroundings_of(target))
    code = elsewhere.exit_code(shown=bool(rows))
    for line in copies.untold():
        click.echo(line, err=True)
    if as_json:
        shown = [moves_of_others.row_to_json(row) for row in rows]
        say_json({"journal": None, "others": shown, **around.to_json(), "unknown": elsewhere.unknown})
        return int(code)
    for line in (*map(moves_of_others.told_row, rows), *elsewhere.lines, *around.lines):
        click.echo(line)
    told = counted(len(rows), "move of others is", "moves of others are") if rows else "no moves of others are"
    click.echo(f"nothing was executed from here; {told} under way")
    return int(code)


def _offline(target: Target, wanted: Wanted, *, offline: bool, as_json: bool) -> int:
    if not target.bootstrap:
        if not offline or target.journal_topic is not None:
            raise SettingsError(
                "Missing option '--bootstrap-server' (or --cluster); only --offline works without it, on a journal file"
            )
        target = replace(target, journal=target.journal or only_journal())
    found = asyncio.run(read_status(target, check=False))
    return _show(replace(target, bootstrap=""), found, wanted, as_json=as_json)


def _show(target: Target, found: Status, wanted: Wanted, *, as_json: bool) -> int:
    """Show an execution, or those of its moves that were named; returns the exit status."""
    is_meant = meant(wanted)
    rows = {row.partition for row in found.view.moves if is_meant(row.partition)}
    elsewhere = _elsewhere(target, found, missing_of(wanted, rows))
    code = elsewhere.exit_code(shown=bool(rows))
    if found.unasked:
        code = ExitCode.CLUSTER
    if as_json:
        shown = found.to_json(lambda view: narrowed(view, wanted))
        say_json({**shown, "known": elsewhere.known, "unknown": elsewhere.unknown})
        return int(code)
    _show_driver(found)
    if not found.view.counts:
        click.echo(f"nothing was executed under it yet{_under_way(target, found)}")
    else:
        _show_moves(found, wanted)
    for line in elsewhere.lines:
        click.echo(f"  {line}")
    for difference in found.differences:
        if is_meant(difference.split(" ")[0]):
            click.echo(f"  the cluster differs: {difference}")
    for told in found.surroundings.lines:
        click.echo(told)
    if found.debts:
        click.echo(f"throttles are owed to {found.view.owed}: {found.debts}")
    if found.view.running and found.holder is None and found.standing is None:
        click.echo("`shunter resume` goes on, `shunter rollback` restores, `shunter stop` ends it here")
    return int(code)


def _elsewhere(target: Target, found: Status, missing: Wanted) -> Elsewhere:
    """Sentences about named partitions and topics that this execution does not move."""
    if missing.everything:
        return NOWHERE
    from shunter.cli.execution.rows import told_row  # noqa: PLC0415 - brings the client library with it

    if found.unasked or not target.bootstrap:
        return look_elsewhere(missing, found.place, None, told_row)
    with _session(target) as session:
        return look_elsewhere(missing, found.place, session, told_row)


def _under_way(target: Target, found: Status) -> str:
    """Mention moves that others have begun: a journal without executions does not mean that nothing moves."""
    if found.unasked or not target.bootstrap:
        return ""
    with _session(target) as session:
        count = len(session.rows()) + len(session.copies().copies)
    if not count:
        return ""
    told = counted(count, "move is", "moves are")
    return f", but {told} under way in the cluster: `shunter list` shows {'it' if count == 1 else 'them'}"


def _show_driver(found: Status) -> None:
    click.echo(f"journal {found.place}")
    if found.unasked:
        told = f"shunter: {found.unasked}\nthe cluster did not answer: everything below is from the journal alone"
        click.echo(told, err=True)
    if found.standing is not None:
        click.echo(f"{found.standing}; {found.standing.way_out}")
    else:
        click.echo(f"driven by {found.holder}" if found.holder is not None else "driven by no executor")
    if found.claimant:
        click.echo(f"{found.claimant} drives the cluster under another journal: ask there")


def _show_moves(found: Status, wanted: Wanted) -> None:
    """Show the execution in a line, then open moves. A named move is shown even if it has ended."""
    shown = () if found.live is None else found.live.moves
    waits = {row.partition: row.waits for row in shown}
    stuck = {row.partition: row.stuck for row in shown}
    is_meant = meant(wanted)
    rows = [row for row in found.view.moves if is_meant(row.partition)]
    rows = [row for row in rows if row.state in OPEN_STATES or not wanted.everything]
    view = found.live or found.view
    for why in {stuck.get(row.partition, "") for row in rows} - {""}:
        view = replace(view, held=view.held.replace(f": {why}", ""))  # It stands below, with its move.
    click.echo(told_view(view))
    for row in rows:
        told = f"  {row.partition} {list(row.current)} → {list(row.target)} ({row.direction}, {row.state})"
        waiting = waits.get(row.partition) if row.state in OPEN_STATES else row.waits
        click.echo(f"{told}: {waiting}" if waiting else told)
        if stuck.get(row.partition):
            click.echo(f"    {stuck[row.partition]}")


@click.command()
@wanted_options
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def watch(target: Target, wanted: Wanted, *, as_json: bool) -> None:
    """Follow moves until all have ended; ctrl-C ends the watching, not the moves.

    \b
    Examples:
      shunter watch --bootstrap-server kafka1:9092
      shunter watch --bootstrap-server kafka1:9092 --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def follow(session: ReassignSession) -> int:
        from shunter.cli.execution import rows  # noqa: PLC0415 - brings the client library with it

        missing = missing_of(wanted, {str(row.tp) for row in rows.chosen_rows(session, wanted)})
        elsewhere = look_elsewhere(missing, None, session, rows.told_row)
        for line in elsewhere.lines:
            click.echo(line, err=True)
        code = elsewhere.exit_code(shown=missing != wanted or wanted.everything)
        if code is not ExitCode.REFUSED:
            rows.watch(session, wanted, as_json=as_json)
        return int(code)

    def work() -> int:
        place, _holder = asyncio.run(holder_of(target))
        at = replace(target, journal=place.path)
        if not is_on_command_line("journal") and asyncio.run(nothing_journalled(at)):
            with _session(at) as session:
                return follow(session)
        return _watch_executor(at, wanted, as_json=as_json)

    leave_with(work)


def _watch_executor(target: Target, wanted: Wanted, *, as_json: bool) -> int:
    """Follow an executor's moves, or those that were named."""
    if wanted.everything:
        return asyncio.run(_watch(target, wanted, as_json=as_json))
    found = asyncio.run(read_status(target, check=False))
    rows = {row.partition for row in found.view.moves if meant(wanted)(row.partition)}
    elsewhere = _elsewhere(target, found, missing_of(wanted, rows))
    for line in elsewhere.lines:
        click.echo(line, err=True)
    if not rows:
        return int(elsewhere.exit_code(shown=False))
    code = asyncio.run(_watch(replace(target, journal=found.place.path), wanted, as_json=as_json))
    return code or int(elsewhere.exit_code(shown=True))


async def _watch(target: Target, wanted: Wanted, *, as_json: bool) -> int:
    last = -1
    place, holder = await holder_of(target)
    while holder is not None:
        view = read_view(place)
        if view is None and last < 0:
            last = 0
            click.echo(f"{holder} shows nothing on this host yet; if it runs elsewhere, use `shunter status`", err=True)
        if view is not None and view.at_ms != last:
            last = view.at_ms
            shown = narrowed(view, wanted)
            _show_view(shown, as_json=as_json)
            # A view lists a bounded number of moves, so the journal is asked whether one of these is still open.
            if not wanted.everything and not shown.running and not await _open_moves(place, wanted):
                click.echo("all moves that were named have ended", err=True)
                return int(ExitCode.DONE)
            if output_lost():
                return int(ExitCode.DONE)
        await asyncio.sleep(WATCH_EVERY_S)
        place, holder = await holder_of(target)
    left = await _open_moves(place, wanted)
    standing = await standing_of(place)
    opened = f"{counted(left, 'move is', 'moves are')} open"
    if standing is not None:
        click.echo(f"{standing}, and {opened}; {standing.way_out}", err=True)
    else:
        told = f", and {opened}: `shunter resume` goes on" if left else ""
        click.echo(f"no executor drives it{told}", err=True)
    return int(ExitCode.LEFT if left else ExitCode.DONE)


def _show_view(view: ExecutionView, *, as_json: bool) -> None:
    if as_json:
        say_json({"event": "progress", **view_to_json(view)})
    else:
        click.echo(told_view(view) if view.counts else "idle")


async def _open_moves(place: JournalPlace, wanted: Wanted) -> int:
    state, _holder = await asyncio.to_thread(read_journal, place)
    return len(wanted.of([move.tp for move in state.open_moves()]))


# ---- under any controller, whichever tool began the moves


@click.command("list")
@session_options
@output_options
def list_command(target: Target, *, output: str) -> None:
    """List all moves of the cluster, pending ones too, under any controller and from any tool.

    Copies from one log dir of a broker to another are moves too; each has a line with how much is copied.

    With --json it prints one object, a plan that `shunter execute` takes.

    \b
    Example:
      shunter list --bootstrap-server kafka1:9092 --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def work() -> int:
        from shunter.cli.execution.rows import row_to_json, told_row  # noqa: PLC0415 - brings the client library with it

        with _session(target) as session:
            moves, copies = session.rows(), session.copies()
        for line in copies.untold():
            click.echo(line, err=True)
        if output == "json":
            click.echo(copies.as_plan(moves))
            return int(ExitCode.DONE)
        rows = (*moves, *copies.rows())
        told = iter([told_row(row) for row in rows])  # Two brokers may copy the same partition, so no name tells a row.
        show_rows(output, map(row_to_json, rows), lambda _row: next(told))
        if not rows and not copies.failed:
            click.echo("nothing moves", err=True)
        return int(ExitCode.DONE)

    leave_with(work)


def _session(target: Target) -> ReassignSession:
    from shunter.app.reassign.session import ReassignSession  # noqa: PLC0415 - brings the client library with it

    return ReassignSession(target.bootstrap, target.properties)


__all__ = ["list_command", "status", "watch"]
