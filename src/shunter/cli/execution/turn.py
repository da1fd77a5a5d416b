"""`shunter stop`, `rollback`, `pause`, `resume`, `limit`, `relax`: turn or slow down moves under way."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from shunter.app.executor.driving import SessionStart
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.order_costs import bytes_again
from shunter.app.executor.orders import (
    HolderGone,
    StandsStill,
    giver,
    hand_over,
    holder_of,
    order_command,
    standing_of,
    told_others,
)
from shunter.app.executor.session import Target, claimed_by, no_journal, read_journal
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.consent import agreed
from shunter.cli.execution.execute import echo_gone, run_session, told_order
from shunter.cli.execution.named_moves import Wanted
from shunter.cli.execution.options import (
    LIMIT,
    NOTHING_OF_IT,
    bound_options,
    cluster_options,
    driver_options,
    require_named_journal,
    wanted_options,
    yes_option,
)
from shunter.cli.execution.submit import ALL_CAN, session_of, turn_others
from shunter.cli.leaving import leave_with
from shunter.cli.profiles import is_on_command_line, worst_of
from shunter.cli.service.turning import limits, or_service, turns
from shunter.core.wording import counted, named, told_bytes
from shunter.errors import SettingsError, ShunterError
from shunter.model.execution import Command, CommandKind
from shunter.model.partition import TopicPartition
from shunter.model.service import OrderKind

if TYPE_CHECKING:
    from shunter.app.executor.reassign_session import ReassignSession

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
@or_service(turns(OrderKind.RESUME))
@wanted_options
@driver_options
@yes_option
@json_option
def resume(target: Target, wanted: Wanted, *, yes: bool, as_json: bool) -> None:
    """Let paused moves go on; after a crash, go on from the executor's journal.

    With partitions, topics or a plan, only these moves go on; other paused moves stay paused. Without them a service
    lifts its kill switch, of --cluster or of the whole fleet, and moves that were paused by name stay paused; without a
    kill switch those go on.

    \b
    Examples:
      shunter resume --bootstrap-server kafka1:9092
      shunter resume orders-3 --bootstrap-server kafka1:9092
      shunter resume --service http://127.0.0.1:8080
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn("resume", CommandKind.RESUME, target, wanted, yes=yes, as_json=as_json)


@click.command()
@or_service(turns(OrderKind.ROLL_BACK))
@wanted_options
@driver_options
@force_option
@yes_option
@json_option
def rollback(target: Target, wanted: Wanted, *, force: bool, yes: bool, as_json: bool) -> None:
    """Bring the original replicas back, in their order; asks first if any of them has to be copied again.

    Originals that were dropped are gone from disk, so they are fetched over the network. New replicas stay until enough
    originals are in sync: as many as min.insync.replicas asks for, or one with --force. They don't wait for an original
    whose broker is dead: `shunter stop` is what keeps new replicas that are in sync.

    A service does not begin a plan again by itself that was rolled back or stopped: the order withdraws the intent that
    asked for it, or holds its scope back until `shunter withdraw hold SCOPE`.

    \b
    Examples:
      shunter rollback --bootstrap-server kafka1:9092
      shunter rollback orders-3 orders-4 --bootstrap-server kafka1:9092 --yes
      shunter rollback --topic orders --bootstrap-server kafka1:9092
      shunter rollback --service http://127.0.0.1:8080 --cluster prod
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn("rollback", CommandKind.ROLL_BACK, target, wanted, force=force, yes=yes, as_json=as_json)


@click.command()
@or_service(turns(OrderKind.STOP))
@wanted_options
@driver_options
@click.option(
    "--leave", is_flag=True, help="Executor only: end the moves at once, and leave the step under way to the cluster."
)
@force_option
@yes_option
@json_option
def stop(target: Target, wanted: Wanted, *, leave: bool, force: bool, yes: bool, as_json: bool) -> None:
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
      shunter stop --plan plan.json --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if leave and force:
        raise click.UsageError(
            "--leave leaves the step under way to the cluster, and --force cancels it: name one of them"
        )
    kind = CommandKind.LEAVE if leave else CommandKind.STOP
    _turn("stop", kind, target, wanted, force=force, yes=yes, as_json=as_json)


@click.command()
@or_service(turns(OrderKind.PAUSE))
@wanted_options
@cluster_options
@yes_option
@json_option
def pause(target: Target, wanted: Wanted, *, yes: bool, as_json: bool) -> None:
    """Let moves stand still: no step begins, and what was copied so far is kept.

    The executor slows running copies down to almost nothing. With partitions, topics or a plan, the other moves go on.
    Moves that Shunter's controller carries out by itself stop copying; another controller has no pause. The executor
    can't slow a copy down alone if other copies share its throttles: it cancels such a copy, and begins it again at
    `shunter resume`. It says first how much is copied again, and asks.

    Without partitions, topics or a plan a service throws its kill switch, of --cluster or of the whole fleet: every move
    is paused, and nothing begins until `shunter resume`, also after a restart. The kill switch never asks.

    \b
    Examples:
      shunter pause --bootstrap-server kafka1:9092
      shunter pause orders-3 --bootstrap-server kafka1:9092
      shunter pause --service http://127.0.0.1:8080 --comment "incident 12"
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn("pause", CommandKind.PAUSE, target, wanted, yes=yes, as_json=as_json)


@click.command()
@wanted_options
@cluster_options
@yes_option
@json_option
def relax(target: Target, wanted: Wanted, *, yes: bool, as_json: bool) -> None:
    """Let moves go on now without replicas that are out of sync (relax the floor).

    A move waits as long as its next drop would leave fewer replicas in sync than its target has. Once relaxed, it goes on
    with as few as min.insync.replicas, but not with fewer than the healthy original replicas. A move that waits is relaxed
    without this verb after `--relax-after` (executor) or `reassignment_relax_after_ms` (controller).

    \b
    Example:
      shunter relax orders-3 --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn("relax", CommandKind.RELAX, target, wanted, yes=yes, as_json=as_json)


@click.command()
@or_service(limits)
@click.argument("rate", type=LIMIT, required=False)
@cluster_options
@bound_options
@yes_option
@json_option
def limit(rate: int | None, target: Target, bounds: dict[str, int | None], *, yes: bool, as_json: bool) -> None:
    """Change the throttle to RATE bytes per second and broker (50M, 1G; none lifts it), or the bounds on copies.

    The throttle counts at once for all moves of the journal. Copies that run go on; a bound (--max-…) counts when the
    next copies begin.

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
        commands = (
            [] if rate is None else [Command(CommandKind.LIMIT, bytes_per_s=rate or None, given_by=giver("limit"))]
        )
        commands += [Command(CommandKind.BOUND, given_by=giver("limit"), bounds=asked)] if asked else []
        codes = [asyncio.run(_order(target, command, yes=yes, as_json=as_json)) for command in commands]
        return max(codes)

    leave_with(work)


def _turn(
    verb: str,
    kind: CommandKind,
    target: Target,
    wanted: Wanted,
    *,
    force: bool = False,
    yes: bool,
    as_json: bool,
) -> None:
    """Turn moves, and leave with the exit status.

    Moves that the journal has open are turned by an order to their executor, other moves of the cluster by the
    controller. Partitions that are named are turned each by its way. Whatever stands for many (nothing named, a topic,
    a plan) means the journal's moves if it has any of them, else the cluster's.
    """

    def work() -> int:
        place, opened = asyncio.run(_journalled(target))
        mine = wanted.of(opened)
        others: list[TopicPartition] = []
        codes: list[int] = []
        if (not mine or not opened.issuperset(wanted.partitions)) and not asyncio.run(claimed_by(target, place)):
            # An executor that drives the cluster under another journal may have asked for the others' steps.
            with session_of(target) as session:
                others = _others(session, verb, wanted, opened, alone=not mine)
                if others and (force or kind is CommandKind.LEAVE):
                    option = "--force" if force else "--leave"
                    told = f"{option} is an order to the executor, and its journal does not have {named(others)}"
                    raise SettingsError(f"{told}: leave it out")
                if others:
                    code = turn_others(session, verb, others, yes=yes, as_json=as_json)
                    if code is None:
                        return int(ExitCode.REFUSED)
                    codes.append(code)
            if not (mine or others or wanted.everything or place.exists()):
                return told_order({"accepted": False, "text": NOTHING_OF_IT}, as_json=as_json)
        if mine or not others:
            if force and not agreed(_FORCED, "Do it?", yes=yes, as_json=as_json):
                return int(ExitCode.REFUSED)
            rest = wanted._replace(partitions=tuple(tp for tp in wanted.partitions if tp not in others))
            here = replace(target, journal=place.path)
            by_executor = _by_executor(verb, kind, here, rest, mine, force=force, yes=yes, as_json=as_json)
            codes.append(asyncio.run(by_executor))
        return int(worst_of(codes))

    leave_with(work)


async def _journalled(target: Target) -> tuple[JournalPlace, frozenset[TopicPartition]]:
    """The journal, and the moves that are open in it.

    Raises:
        FormatError: the command line names a journal that does not exist.
    """
    place, _holder = await holder_of(target)
    await require_named_journal(target, place)
    if not place.exists():
        return place, frozenset()
    state, _holder = await asyncio.to_thread(read_journal, place)
    return place, frozenset(move.tp for move in state.open_moves())


def _others(
    session: ReassignSession, verb: str, wanted: Wanted, opened: Collection[TopicPartition], *, alone: bool
) -> list[TopicPartition]:
    """The partitions that the controller is asked to turn; `alone`: the journal has none of what is meant."""
    found = wanted.of([tp for tp in session.moves() if tp not in opened])
    if found and wanted.everything and verb not in ALL_CAN and not session.is_shunters():
        told = f"{counted(len(found), 'move is', 'moves are')} under way that the journal does not have"
        click.echo(f"{told}: only `shunter stop` and `rollback` turn such a move under this controller", err=True)
        return []
    if found and alone and wanted.partitions:
        return list(wanted.partitions)  # The controller says of the rest that it does not move.
    return found


async def _by_executor(
    verb: str,
    kind: CommandKind,
    target: Target,
    wanted: Wanted,
    mine: Sequence[TopicPartition],
    *,
    force: bool,
    yes: bool,
    as_json: bool,
) -> int:
    if not (mine or wanted.everything or wanted.partitions):
        return told_order({"accepted": False, "text": NOTHING_OF_IT}, as_json=as_json)
    partitions = () if wanted.everything else wanted.partitions or tuple(mine)
    command = Command(kind, partitions, given_by=giver(verb), force=force)
    if kind in (CommandKind.PAUSE, CommandKind.RELAX):
        return await _order(target, command, yes=yes, as_json=as_json)
    return await _go_on(target, command, yes=yes, as_json=as_json)


async def _go_on(target: Target, command: Command, *, yes: bool = False, as_json: bool) -> int:
    """Give a command to the executor that drives the journal, or drive the journal here if none does."""
    place, holder = await holder_of(target)
    if not await _cost_agreed(target, place, command, yes=yes, as_json=as_json):
        return int(ExitCode.REFUSED)
    here = partial(echo_gone, "the order is carried out here")
    give = partial(order_command, place, command)
    if (answer := await hand_over(holder, give, here, take_over=target.take_over_cluster)) is not None:
        return told_order(answer, as_json=as_json)
    if not place.exists():
        raise await no_journal(target, place)
    if command.partitions and (others := await told_others(place, command.partitions, ordered=True)):
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
        raise NobodyDrives(f"{place}: {holder} restores throttles under it at this moment: repeat this")
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
