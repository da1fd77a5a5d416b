"""`shunter status`, `watch`, `list`, `verify`: what moves, by whom, and whether it is where a plan says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shunter.app.executor import (
    Target,
    nothing_journalled,
    only_journal,
    read_journal,
    read_plan,
    read_status,
    read_view,
)
from shunter.app.executor_orders import holder_of
from shunter.app.exit_codes import ExitCode
from shunter.cli.choosing import by_option, found_out, wanted_options
from shunter.cli.execution_display import say_json, told_view
from shunter.cli.execution_options import PLAN, cluster_options, journal_options, session_options
from shunter.cli.leaving import leave_with
from shunter.cli.profiles import fleet_option, for_each_cluster
from shunter.cli.tables import output_options, show_rows
from shunter.core.doers import Doer, Wanted
from shunter.errors import SettingsError
from shunter.views.execution import ExecutionView, view_to_json

if TYPE_CHECKING:
    from shunter.app.executor import Status
    from shunter.app.reassign.session import ReassignSession

WATCH_EVERY_S = 1.0
_OPEN = ("pending", "moving", "paused")


@click.command()
@wanted_options
@journal_options
@by_option
@fleet_option
@click.option(
    "--offline",
    is_flag=True,
    help="Read the journal and don't ask the cluster: --journal, or the only one on this host.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(target: Target, wanted: Wanted, by: Doer | None, *, fleet: bool, offline: bool, as_json: bool) -> None:
    """Tell how moves stand: what they wait for, how much is copied, what a rollback would copy.

    The executor's moves are told from its journal, checked against the cluster; the controller's as it tells them.

    \b
    Examples:
      shunter status --bootstrap-server kafka1:9092
      shunter status orders-3 --bootstrap-server kafka1:9092
      shunter status --all
      shunter status --offline --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def look(at: Target) -> int:
        with found_out(at, by, wanted=wanted, as_json=as_json) as doing:
            if doing.session is not None and doing.choice.doer is Doer.CONTROLLER:
                from shunter.cli import by_controller  # noqa: PLC0415 - brings the client library with it

                return by_controller.status(doing.session, wanted, as_json=as_json)
        if doing.ground is not None and asyncio.run(nothing_journalled(doing.target)):
            return _others(at, wanted, as_json=as_json)
        return asyncio.run(_status(doing.target, wanted, check=True, as_json=as_json))

    if fleet:
        leave_with(lambda: for_each_cluster(target, look, as_json=as_json))
    if offline or not target.bootstrap:
        leave_with(lambda: asyncio.run(_offline(target, wanted, offline=offline, as_json=as_json)))
    leave_with(lambda: look(target))


def _others(target: Target, wanted: Wanted, *, as_json: bool) -> int:
    """Nothing was ever executed from here: what moves is somebody else's."""
    from shunter.cli import by_controller  # noqa: PLC0415 - brings the client library with it

    with _session(target) as session:
        rows = by_controller.chosen_rows(session, wanted)
    if as_json:
        say_json({"by": "executor", "journal": None, "others": [by_controller.row_to_json(row) for row in rows]})
        return int(ExitCode.DONE)
    for row in rows:
        click.echo(by_controller.told_row(row))
    click.echo(f"nothing was executed from here; {len(rows) or 'no'} moves of others are under way")
    return int(ExitCode.DONE)


async def _offline(target: Target, wanted: Wanted, *, offline: bool, as_json: bool) -> int:
    if not target.bootstrap:
        if not offline or target.journal_topic is not None:
            raise SettingsError(
                "Missing option '--bootstrap-server' (or --cluster): only with --offline a journal file can be read alone"
            )
        target = replace(target, journal=target.journal or only_journal())
    return await _status(target, wanted, check=False, as_json=as_json)


async def _status(target: Target, wanted: Wanted, *, check: bool, as_json: bool) -> int:
    found = await read_status(target, check=check)
    if as_json:
        say_json({"by": "executor", **found.to_json()})
        return int(ExitCode.DONE)
    click.echo(f"journal {found.place}")
    click.echo(f"driven by {found.holder}" if found.holder is not None else "driven by nobody")
    if found.claimant:
        click.echo(f"under another journal the cluster is driven by {found.claimant}: ask there")
    if not found.view.counts:
        click.echo("nothing was executed under it yet")
        return int(ExitCode.DONE)
    click.echo(told_view(found.live or found.view))
    _show_moves(found, wanted)
    for difference in found.differences:
        click.echo(f"  the cluster differs: {difference}")
    if found.debts:
        click.echo(f"throttles are owed to {found.view.owed}: {found.debts}")
    if found.view.running and found.holder is None:
        click.echo("`shunter resume` goes on, `shunter rollback` restores, `shunter stop` ends it here")
    return int(ExitCode.DONE)


def _show_moves(found: Status, wanted: Wanted) -> None:
    shown = () if found.live is None else found.live.moves
    waits = {row.partition: row.waits for row in shown}
    stuck = {row.partition: row.stuck for row in shown}
    meant = _meant(found.view, wanted)
    for row in found.view.moves:
        if row.state in _OPEN and row.partition in meant:
            told = f"  {row.partition} {list(row.current)} → {list(row.target)} ({row.direction}, {row.state})"
            click.echo(f"{told}: {waits[row.partition]}" if waits.get(row.partition) else told)
            if stuck.get(row.partition):
                click.echo(f"    {stuck[row.partition]}")


def _meant(view: ExecutionView, wanted: Wanted) -> set[str]:
    named = {str(tp) for tp in (*wanted.partitions, *wanted.planned)}
    return {
        row.partition
        for row in view.moves
        if wanted.everything or row.partition in named or row.partition.rpartition("-")[0] in wanted.topics
    }


@click.command()
@wanted_options
@cluster_options
@by_option
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what is seen of the controller's moves here; `shunter pipeline account` reads it.",
)
@click.option("--plan-id", help="What the record calls the plan: the id that `shunter pipeline plan` gave.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def watch(
    target: Target, wanted: Wanted, by: Doer | None, *, record: Path | None, plan_id: str | None, as_json: bool
) -> None:
    """Follow moves until nothing moves any more; ctrl-C ends only the watching.

    \b
    Examples:
      shunter watch --bootstrap-server kafka1:9092
      shunter watch --bootstrap-server kafka1:9092 --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def follow(session: ReassignSession) -> int:
        from shunter.cli import by_controller  # noqa: PLC0415 - brings the client library with it

        watching = by_controller.Watching(session, record=record, plan_id=plan_id, as_json=as_json)
        watching.follow(lambda row: bool(wanted.of([row.tp])))
        return int(ExitCode.DONE)

    def work() -> int:
        with found_out(target, by, wanted=wanted, as_json=as_json) as doing:
            if doing.session is not None and doing.choice.doer is Doer.CONTROLLER:
                return follow(doing.session)
        if doing.ground is not None and asyncio.run(nothing_journalled(doing.target)):
            with _session(target) as session:
                return follow(session)
        if record is not None:
            raise SettingsError(
                "--record: the executor's own journal tells all: give that to `shunter pipeline account`"
            )
        return asyncio.run(_watch(doing.target, as_json=as_json))

    leave_with(work)


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


# ---- under any controller, whoever moves


@click.command("list")
@session_options
@output_options
def list_command(target: Target, *, output: str) -> None:
    """List all moves of the cluster, pending ones too, under any controller and whoever began them.

    JSON is one object: the plan that `shunter execute` takes.

    \b
    Example:
      shunter list --bootstrap-server kafka1:9092 --json
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def work() -> int:
        from shunter.cli.by_controller import row_to_json, told_row  # noqa: PLC0415 - brings the client library with it

        with _session(target) as session:
            rows = session.rows()
        if output == "json":
            entries = [{"topic": row.tp.topic, "partition": row.tp.partition, "replicas": row.target} for row in rows]
            say_json({"version": 1, "partitions": entries} if rows else {})
            return int(ExitCode.DONE)
        told = {str(row.tp): told_row(row) for row in rows}
        show_rows(output, map(row_to_json, rows), lambda row: told[row["partition"]])
        if not rows:
            click.echo("nothing moves", err=True)
        return int(ExitCode.DONE)

    leave_with(work)


def _session(target: Target) -> ReassignSession:
    from shunter.app.reassign.session import ReassignSession  # noqa: PLC0415 - brings the client library with it

    return ReassignSession(target.bootstrap, target.properties)


@click.command()
@click.argument("plan", type=PLAN)
@session_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each partition that differs, then the end.")
def verify(plan: Path, target: Target, *, as_json: bool) -> None:
    """Compare PLAN with the cluster. Exit status 0: all is where the plan says; 1: not, or not yet.

    \b
    Example:
      shunter verify plan.json --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: _verify(plan, target, as_json=as_json))


def _verify(plan: Path, target: Target, *, as_json: bool) -> int:
    from shunter.cli.by_controller import told_row  # noqa: PLC0415 - brings the client library with it

    orders = read_plan(plan)
    with _session(target) as session:
        moving = {row.tp: row for row in session.rows()}
        partitions = session.cluster.partitions([order.tp for order in orders])
    differing = 0
    for order in orders:
        known = partitions.get(order.tp)
        if order.tp in moving:
            told = f"is still being moved: {told_row(moving[order.tp])}"
        elif known is None:
            told = "does not exist"
        elif known.replicas != order.target:
            told = f"is on {list(known.replicas)}, not on {list(order.target)}, and nothing moves it"
        else:
            continue
        differing += 1
        if as_json:
            say_json({"event": "differs", "partition": str(order.tp), "text": told})
        else:
            click.echo(f"{order.tp} {told}")
    code = ExitCode.PARTLY if differing else ExitCode.DONE
    text = f"{len(orders) - differing} of {len(orders)} partitions are where the plan says"
    if as_json:
        say_json({"event": "end", "exit": int(code), "text": text})
    else:
        click.echo(text)
    return int(code)


__all__ = ["list_command", "status", "verify", "watch"]
