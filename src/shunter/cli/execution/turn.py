"""`shunter stop`, `rollback`, `pause`, `resume`, `limit`, `relax`: turn or slow down moves under way."""

from __future__ import annotations

import asyncio

import click

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.order_costs import bytes_again
from shunter.app.executor.orders import (
    HolderGone,
    StandsStill,
    giver,
    holder_of,
    order_command,
    standing_of,
    told_others,
)
from shunter.app.executor.session import SessionStart, Target, claimed_by, no_journal, read_journal
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.choosing import NOTHING_OF_IT, Doing, by_option, found_out, journalled_moves, wanted_options
from shunter.cli.execution.consent import agreed
from shunter.cli.execution.execute import run_session, told_order
from shunter.cli.execution.options import LIMIT, bound_options, cluster_options, driver_options, yes_option
from shunter.cli.leaving import leave_with
from shunter.cli.profiles import is_on_command_line
from shunter.core.doers import Doer, Wanted
from shunter.core.wording import told_bytes
from shunter.errors import SettingsError, ShunterError
from shunter.model.execution import Command, CommandKind

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
force_option = click.option(
    "--force",
    is_flag=True,
    help="Executor only: cancel steps although fewer replicas than min.insync.replicas are then in sync, but at least one."
    " Says so, and asks first.",
)
_FORCED = (
    "--force cancels the steps under way as soon as one of the former replicas is live and in sync: if fewer than "
    "min.insync.replicas are, producers with acks=all are refused until more of them are. New replicas in sync are given up"
)


class NobodyDrives(ShunterError):
    """The order is for the executor that drives a journal, but no executor drives it."""


@click.command()
@wanted_options
@driver_options
@by_option
@yes_option
@json_option
def resume(target: Target, wanted: Wanted, by: Doer | None, *, yes: bool, as_json: bool) -> None:
    """Let paused moves go on; after a crash, go on from the executor's journal.

    With partitions, topics or a plan, only these moves go on; other paused moves stay paused.

    \b
    Examples:
      shunter resume --bootstrap-server kafka1:9092
      shunter resume orders-3 --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn("resume", CommandKind.RESUME, target, wanted, by, yes=yes, as_json=as_json)


@click.command()
@wanted_options
@driver_options
@by_option
@force_option
@yes_option
@json_option
def rollback(target: Target, wanted: Wanted, by: Doer | None, *, force: bool, yes: bool, as_json: bool) -> None:
    """Bring the original replicas back, in their order; asks first if any of them has to be copied again.

    Originals that were dropped are gone from disk, so they are fetched over the network. New replicas stay until enough
    originals are in sync: as many as min.insync.replicas asks for, or one with --force.

    \b
    Examples:
      shunter rollback --bootstrap-server kafka1:9092
      shunter rollback orders-3 orders-4 --bootstrap-server kafka1:9092 --yes
      shunter rollback --topic orders --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn("rollback", CommandKind.ROLL_BACK, target, wanted, by, force=force, yes=yes, as_json=as_json)


@click.command()
@wanted_options
@driver_options
@by_option
@click.option(
    "--leave", is_flag=True, help="Executor only: end the moves at once, and leave the step under way to the cluster."
)
@force_option
@yes_option
@json_option
def stop(
    target: Target, wanted: Wanted, by: Doer | None, *, leave: bool, force: bool, yes: bool, as_json: bool
) -> None:
    """End moves where they stand: new replicas that are in sync stay, the others are removed; nothing is copied.

    Copies between log dirs are given up.

    With --leave the executor's moves end at once, even if a dead broker keeps them from ending. The cluster then goes on
    with the last step that the executor asked for, without its throttle, and Shunter no longer watches it. If such a step
    needs a dead broker, it stays in the cluster, and the exit status is 1. With --force such a step is cancelled instead;
    new replicas that are in sync go with it.

    \b
    Examples:
      shunter stop --bootstrap-server kafka1:9092
      shunter stop orders-3 --bootstrap-server kafka1:9092 --leave
      shunter stop --plan plan.json --bootstrap-server kafka1:9092 --by controller
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if leave and force:
        raise click.UsageError(
            "--leave leaves the step under way to the cluster, and --force cancels it: name one of them"
        )
    kind = CommandKind.LEAVE if leave else CommandKind.STOP
    _turn("stop", kind, target, wanted, by, force=force, yes=yes, as_json=as_json)


@click.command()
@wanted_options
@cluster_options
@by_option
@yes_option
@json_option
def pause(target: Target, wanted: Wanted, by: Doer | None, *, yes: bool, as_json: bool) -> None:
    """Let moves stand still: no step begins, and what was copied so far is kept.

    The controller stops running copies; the executor slows them down to almost nothing. With partitions, topics or a
    plan, the other moves go on. The executor can't slow a copy down alone if other copies share its throttles: it
    cancels such a copy, and begins it again at `shunter resume`. It says first how much is copied again, and asks.

    \b
    Examples:
      shunter pause --bootstrap-server kafka1:9092
      shunter pause orders-3 --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn("pause", CommandKind.PAUSE, target, wanted, by, yes=yes, as_json=as_json)


@click.command()
@wanted_options
@cluster_options
@by_option
@yes_option
@json_option
def relax(target: Target, wanted: Wanted, by: Doer | None, *, yes: bool, as_json: bool) -> None:
    """Let moves go on now without replicas that are out of sync (relax the floor).

    A move waits as long as its next drop would leave fewer replicas in sync than its target has. Once relaxed, it goes on
    with as few as min.insync.replicas, but not with fewer than the healthy original replicas. A move that waits is relaxed
    without this verb after `--relax-after` (executor) or `reassignment_relax_after_ms` (controller).

    \b
    Example:
      shunter relax orders-3 --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn("relax", CommandKind.RELAX, target, wanted, by, yes=yes, as_json=as_json)


@click.command()
@click.argument("rate", type=LIMIT, required=False)
@cluster_options
@bound_options
@by_option
@yes_option
@json_option
def limit(
    rate: int | None, target: Target, bounds: dict[str, int | None], by: Doer | None, *, yes: bool, as_json: bool
) -> None:
    """Change the throttle to RATE bytes per second and broker (50M, 1G; none lifts it), or the bounds on copies.

    The throttle counts at once for all moves under way. Only the executor has the bounds (--max-…). Copies that run go
    on; a bound counts when the next copies begin.

    \b
    Examples:
      shunter limit 20M --bootstrap-server kafka1:9092
      shunter limit none --bootstrap-server kafka1:9092
      shunter limit --max-in 4 --max-concurrent 0 --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    asked = tuple((name, value) for name, value in bounds.items() if value is not None and is_on_command_line(name))
    if rate is None and not asked:
        raise click.UsageError("say what to limit: a RATE, or a bound such as --max-in 4")

    def work() -> int:
        with found_out(target, by, wanted=Wanted(), as_json=as_json) as doing:
            if doing.session is not None and doing.choice.doer is Doer.CONTROLLER:
                from shunter.cli.execution import by_controller  # noqa: PLC0415 - brings the client library with it

                return by_controller.limit(doing.session, rate or 0, as_json=as_json)
        commands = (
            [] if rate is None else [Command(CommandKind.LIMIT, bytes_per_s=rate or None, given_by=giver("limit"))]
        )
        commands += [Command(CommandKind.BOUND, given_by=giver("limit"), bounds=asked)] if asked else []
        codes = [asyncio.run(_order(doing.target, command, yes=yes, as_json=as_json)) for command in commands]
        return max(codes)

    leave_with(work)


def _turn(
    verb: str,
    kind: CommandKind,
    target: Target,
    wanted: Wanted,
    by: Doer | None,
    *,
    force: bool = False,
    yes: bool,
    as_json: bool,
) -> None:
    """Turn moves by the controller or the executor, and leave with the exit status."""

    def work() -> int:
        with found_out(target, by, wanted=wanted, as_json=as_json) as doing:
            if doing.session is not None and doing.ground is not None and doing.choice.doer is Doer.CONTROLLER:
                from shunter.cli.execution import by_controller  # noqa: PLC0415 - brings the client library with it

                if force:
                    raise SettingsError(
                        "--force cancels steps of the executor; Shunter's controller needs none: leave it out"
                    )
                return by_controller.turn(doing.session, doing.ground, verb, wanted, yes=yes, as_json=as_json)
            if force and not agreed(_FORCED, "Do it?", yes=yes, as_json=as_json):
                return int(ExitCode.REFUSED)
        return asyncio.run(_by_executor(verb, kind, doing, wanted, force=force, yes=yes, as_json=as_json))

    leave_with(work)


async def _by_executor(
    verb: str, kind: CommandKind, doing: Doing, wanted: Wanted, *, force: bool = False, yes: bool, as_json: bool
) -> int:
    partitions = wanted.partitions
    if not (wanted.everything or partitions):
        place, _holder = await holder_of(doing.target)
        partitions = await asyncio.to_thread(journalled_moves, place, wanted)
        if not partitions:
            return told_order({"accepted": False, "text": NOTHING_OF_IT}, as_json=as_json)
    command = Command(kind, partitions, given_by=giver(verb), force=force)
    if kind in (CommandKind.PAUSE, CommandKind.RELAX):
        return await _order(doing.target, command, yes=yes, as_json=as_json)
    return await _go_on(doing.target, command, yes=yes, as_json=as_json)


async def _go_on(target: Target, command: Command, *, yes: bool = False, as_json: bool) -> int:
    """Give a command to the executor that drives the journal, or drive the journal here if none does."""
    place, holder = await holder_of(target)
    if not await _cost_agreed(target, place, command, yes=yes, as_json=as_json):
        return int(ExitCode.REFUSED)
    if holder is not None and holder.takes_orders:
        try:
            return told_order(await order_command(place, command), as_json=as_json)
        except (HolderGone, StandsStill) as gone:
            if isinstance(gone, StandsStill) and not target.take_over_cluster:
                raise
            click.echo(f"shunter: {gone}: the order is carried out here", err=True)
    if not place.exists():
        raise await no_journal(target, place)
    if command.partitions and (others := await told_others(place, command.partitions)):
        click.echo(others, err=True)
    unpause = command.kind is CommandKind.RESUME and not command.partitions
    work = SessionStart(unpause=True) if unpause else SessionStart(command=command)
    return await run_session(target, work, as_json=as_json)


async def _order(target: Target, command: Command, *, yes: bool = False, as_json: bool) -> int:
    """Give a command to the executor that drives the journal.

    Raises:
        NobodyDrives: no executor does.
        StandsStill: an executor of this host would, but stands still.
    """
    place, holder = await holder_of(target)
    if holder is None and not place.exists():
        raise await no_journal(target, place)
    if (standing := None if holder is not None else await standing_of(place)) is not None:
        raise StandsStill(standing)
    if holder is None:
        claimant = await claimed_by(target, place)
        if claimant:
            raise NobodyDrives(
                f"{place}: no executor drives this journal; {claimant} drives the cluster under another journal"
            )
        state, _holder = await asyncio.to_thread(read_journal, place)
        if not state.running:
            raise NobodyDrives(f"{place}: nothing is under way: there is nothing to {command.kind.value}")
        raise NobodyDrives(f"{place}: no executor drives this journal; `shunter resume` starts one")
    if not holder.takes_orders:
        raise NobodyDrives(f"{place}: {holder} holds it for the throttles of the controller's moves: --by controller")
    if not await _cost_agreed(target, place, command, yes=yes, as_json=as_json):
        return int(ExitCode.REFUSED)
    try:
        return told_order(await order_command(place, command), as_json=as_json)
    except HolderGone as gone:
        raise NobodyDrives(f"{gone}; `shunter resume` drives what is left") from gone


async def _cost_agreed(target: Target, place: JournalPlace, command: Command, *, yes: bool, as_json: bool) -> bool:
    """Before an order is given, say how many bytes are copied again because of it; ask if that is more than nothing."""
    cost, why, at_most = await bytes_again(target, place, command)
    told = f"{'at most ' if at_most else ''}{told_bytes(cost)} are copied again: {why}"
    return not cost or agreed(told, "Do it?", yes=yes, as_json=as_json)


__all__ = ["NobodyDrives", "limit", "pause", "relax", "resume", "rollback", "stop"]
