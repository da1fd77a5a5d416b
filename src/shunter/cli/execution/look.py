"""`shunter status`, `watch`, `list`: which moves are under way, and how they stand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from shunter.app.executor.journals import TOPIC_PREFIX
from shunter.app.executor.orders import holder_of, standing_of
from shunter.app.executor.session import Target, connect, only_journal, read_journal, read_view
from shunter.app.executor.status import Status, read_status, read_without_cluster
from shunter.app.executor.under_way import Listed, list_under_way
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.display import clock_time, say_json, told_move, told_others, told_view
from shunter.cli.execution.named_moves import Elsewhere, Wanted, look_elsewhere, meant, missing_of, narrowed
from shunter.cli.execution.options import (
    cluster_options,
    journal_options,
    require_named_journal,
    session_options,
    wanted_options,
)
from shunter.cli.leaving import leave_with, run
from shunter.cli.outlet import output_lost
from shunter.cli.profiles import fleet_option, for_each_cluster, worst_of
from shunter.cli.tables import output_options, show_rows
from shunter.core.wording import counted
from shunter.errors import DriverError, SettingsError
from shunter.views.execution import OPEN_STATES, ExecutionView, MoveRow, row_to_json, view_to_json

if TYPE_CHECKING:
    from shunter.app.executor.journals import JournalPlace

WATCH_EVERY_S = 1.0


def _of_a_service(_context: click.Context, _option: click.Parameter, service: str | None) -> None:
    """Point to the verb that shows a service: other verbs speak to one by `--service`."""
    if service is not None:
        raise click.UsageError(
            f"this shows moves; `shunter serve status --service {service}` shows a service's clusters"
        )


@click.command()
@wanted_options
@journal_options
@fleet_option
@click.option(
    "--offline",
    is_flag=True,
    help="Read the journal alone (--journal, or the only one on this host) and don't ask the cluster.",
)
@click.option("--service", hidden=True, callback=_of_a_service, expose_value=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(target: Target, wanted: Wanted, *, fleet: bool, offline: bool, as_json: bool) -> None:
    """Show how moves stand: what they wait for, how much is copied, what a rollback would copy.

    The executor's moves are read from its journal and compared with the cluster. Below them are all other moves of the
    cluster, whoever began them, and copies between log dirs.

    \b
    Examples:
      shunter status --bootstrap-server kafka1:9092
      shunter status orders-3 --bootstrap-server kafka1:9092
      shunter status --all
      shunter status --offline --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    async def look(at: Target) -> int:
        try:
            found = await read_status(at, check=True, topics=_topics(wanted))
        except DriverError as error:
            found = await read_without_cluster(at, error)
        if not found.exists:
            await require_named_journal(at, found.place)
        return await _show(found, wanted, as_json=as_json)

    if fleet:
        leave_with(lambda: for_each_cluster(target, lambda at: asyncio.run(look(at)), as_json=as_json))
    if offline or not target.bootstrap:
        leave_with(lambda: asyncio.run(_offline(target, wanted, offline=offline, as_json=as_json)))
    run(look(target))


async def _offline(target: Target, wanted: Wanted, *, offline: bool, as_json: bool) -> int:
    if not target.bootstrap:
        if not offline or target.journal_topic is not None:
            raise SettingsError(
                "Missing option '--bootstrap-server' (or --cluster); only --offline works without it, on a journal file"
            )
        target = replace(target, journal=target.journal or only_journal())
    return await _show(await read_status(target, check=False), wanted, as_json=as_json)


def _topics(wanted: Wanted) -> set[str]:
    return {*(tp.topic for tp in wanted.partitions), *wanted.topics}


async def _elsewhere(found: Status, wanted: Wanted) -> tuple[list[MoveRow], Elsewhere]:
    """The other moves that are meant, and sentences about names that nothing moves."""
    is_meant = meant(wanted)
    others = [row for row in found.others if is_meant(row.partition)]
    rows = {row.partition for row in (*found.view.moves, *others) if is_meant(row.partition)}
    return others, await look_elsewhere(missing_of(wanted, rows), found)


async def _show(found: Status, wanted: Wanted, *, as_json: bool) -> int:
    """Show how moves stand, or those of them that were named; returns the exit status."""
    is_meant = meant(wanted)
    others, elsewhere = await _elsewhere(found, wanted)
    shown = bool(others) or any(is_meant(row.partition) for row in found.view.moves)
    code = ExitCode.CLUSTER if found.unasked else elsewhere.exit_code(shown=shown)
    if as_json:
        seen = replace(found, view=narrowed(found.view, wanted), others=tuple(others))
        say_json({**seen.to_json(), "known": elsewhere.known, "unknown": elsewhere.unknown})
        return int(code)
    _show_driver(found)
    if found.view.counts:
        _show_moves(found.view, wanted)
    elif not found.claimant:
        click.echo("nothing was executed under it yet" if found.exists else "nothing was executed from here")
    for line in found.untold:
        click.echo(line, err=True)
    if others:
        click.echo(told_others(others))
    for line in (*map(told_move, others), *elsewhere.lines):
        click.echo(f"  {line}")
    for difference in found.differences:
        if is_meant(difference.split(" ")[0]):
            click.echo(f"  the cluster differs: {difference}")
    for told in (*found.throttles, *([] if found.quorum is None else [f"quorum: {found.quorum.text}"])):
        click.echo(told)
    if found.debts:
        click.echo(f"throttles are owed to {found.view.owed}: {found.debts}")
    for broker, plan_id in found.view.cordons.items():
        click.echo(f"broker {broker} is cordoned by plan {plan_id}: `shunter undrain {broker}` ends that")
    if found.view.running and found.holder is None and found.standing is None:
        click.echo("`shunter resume` goes on, `shunter rollback` restores, `shunter stop` ends it here")
    if wanted.everything and not found.view.running and not found.unasked:
        click.echo("these are moves alone: `shunter doctor` looks at brokers, log dirs and partitions")
    return int(code)


def _show_driver(found: Status) -> None:
    if found.exists:
        click.echo(f"journal {found.place}")
    if found.unasked:
        told = f"shunter: {found.unasked}\nthe cluster did not answer: everything below is from the journal alone"
        click.echo(told, err=True)
    if found.standing is not None:
        click.echo(f"{found.standing}; {found.standing.way_out}")
    elif found.exists:
        click.echo(f"driven by {found.holder}" if found.holder is not None else "driven by no executor")
    if found.claimant:
        topic = found.claimant.partition(f" {TOPIC_PREFIX}")[2].partition(",")[0]
        read = f"`shunter status --journal-topic {topic}` reads it" if topic else "ask there"
        click.echo(f"{found.claimant} drives the cluster; its journal is not read here: {read}")


def _show_moves(view: ExecutionView, wanted: Wanted) -> None:
    """Show the execution in a line, then open moves. A named move is shown even if it has ended."""
    is_meant = meant(wanted)
    rows = [row for row in view.moves if is_meant(row.partition)]
    rows = [row for row in rows if row.state in OPEN_STATES or not wanted.everything]
    if any(row.stuck for row in rows):  # The reasons stand below, with the moves.
        before, stuck, _reason = view.held.partition(" stuck")
        view = replace(view, held=before + stuck)
    click.echo(told_view(view))
    told: set[str] = set()
    for row in rows:  # What holds many moves up is said once.
        why = row.stuck.replace(row.partition, "it")
        again = why != "" and why in told
        told.add(why)
        click.echo(f"  {told_move(replace(row, stuck='as above') if again else row)}")


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
    run(_watch(target, wanted, as_json=as_json))


async def _watch(target: Target, wanted: Wanted, *, as_json: bool) -> int:
    place, holder = await holder_of(target)
    await require_named_journal(target, place)
    opened, target = await _open_moves(place, wanted), replace(target, journal=place.path)
    if wanted.everything and (holder is not None or opened):
        return await _watch_executor(target, wanted, as_json=as_json)
    found = await read_status(target, check=True, topics=_topics(wanted))
    others, elsewhere = await _elsewhere(found, wanted)
    for line in elsewhere.lines:
        click.echo(line, err=True)
    codes = {int(elsewhere.exit_code(shown=bool(opened or others)))}
    if opened:
        codes.add(await _watch_executor(target, wanted, as_json=as_json))
    if others:
        await _watch_others(target, {row.partition for row in others}, found.view, as_json=as_json)
    if not opened and ExitCode.REFUSED not in codes:
        click.echo("all moves have ended", err=as_json)
    return int(worst_of(codes))


async def _watch_others(target: Target, partitions: set[str], view: ExecutionView, *, as_json: bool) -> None:
    """Follow moves that no journal has until none of them is listed; `view`: of the journal."""
    told = ""
    admin = await connect(target)
    try:
        while not output_lost():
            listed = await list_under_way(admin, copies=False)
            listed = listed.of(partitions)
            rows = listed.rows()
            if not rows:
                return
            if as_json:
                _show_view(view, rows, as_json=True)
            elif told != (told := "; ".join(filter(None, (told_others(rows), listed.held_up())))):
                click.echo(f"{clock_time()} {told}")
            await asyncio.sleep(WATCH_EVERY_S)
    finally:
        await admin.close()


async def _watch_executor(target: Target, wanted: Wanted, *, as_json: bool) -> int:
    last, said = -1, False
    place, holder = await holder_of(target)
    while holder is not None:
        view = read_view(place, holder)
        if view is None and last < 0:
            last = 0
            click.echo(f"{holder} shows nothing on this host yet; if it runs elsewhere, use `shunter status`", err=True)
        if view is not None and view.at_ms != last:
            last = view.at_ms
            shown = narrowed(view, wanted)
            if as_json or view.counts:
                _show_view(shown, (), as_json=as_json)
            elif not said:  # It has just begun to read, or has no plan: it does not say which.
                said = True
                click.echo("no move was seen yet", err=True)
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


def _show_view(view: ExecutionView, others: Sequence[MoveRow], *, as_json: bool) -> None:
    if as_json:
        say_json({"event": "progress", **view_to_json(view), "others": [row_to_json(row) for row in others]})
    else:
        click.echo(told_view(view))


async def _open_moves(place: JournalPlace, wanted: Wanted) -> int:
    if not place.exists():
        return 0
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

    async def work() -> int:
        listed = await _listed(target)
        for line in listed.untold():
            click.echo(line, err=True)
        if output == "json":
            click.echo(listed.as_plan())
            return int(ExitCode.DONE)
        rows = listed.rows()
        told = iter(map(told_move, rows))  # Two brokers may copy the same partition, so no name tells a row.
        show_rows(output, map(row_to_json, rows), lambda _row: next(told))
        if not rows and not listed.failed:
            click.echo("nothing moves", err=True)
        return int(ExitCode.DONE)

    run(work())


async def _listed(target: Target) -> Listed:
    admin = await connect(target)
    try:
        return await list_under_way(admin)
    finally:
        await admin.close()


__all__ = ["list_command", "status", "watch"]
