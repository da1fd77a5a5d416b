"""`shunter submit`, and orders for moves that no journal has: one request 45 to the cluster's controller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shunter.app.executor.session import Target, claimed_by, journal_place, read_journal
from shunter.app.executor.under_way import Moves
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.consent import agreed
from shunter.cli.execution.display import say_json
from shunter.cli.execution.execute import Carrying, require_consent
from shunter.cli.execution.options import PLAN, RATE, carrying_options, cluster_options, plan_of
from shunter.cli.execution.plan import show_dry_run
from shunter.cli.leaving import leave_with
from shunter.cli.profiles import is_on_command_line
from shunter.core.wording import counted, named, told_bytes
from shunter.errors import ShunterError
from shunter.model.execution import ExecutionOptions, MoveOrder
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Intervention, Strategy

if TYPE_CHECKING:
    from shunter.app.executor.reassign_session import ReassignSession

ALL_CAN = ("stop", "rollback")
"""Orders that any controller carries out; all others are for Shunter's alone."""


class SubmitRefused(ShunterError):
    """The cluster's controller can't do what was asked; the message names the way out."""


@click.command()
@click.argument("plan", type=PLAN)
@cluster_options
@click.option(
    "--incremental/--all-at-once",
    "incremental",
    default=None,
    help="Shunter's controller: one new replica at a time, or all together. Without it: as it is configured. Another"
    " controller adds all together.",
)
@click.option("--throttle", type=RATE, hidden=True)
@click.option(
    "--force", is_flag=True, help="Shunter's controller: accept targets with fewer replicas than min.insync.replicas."
)
@carrying_options
def submit(
    plan: Path, target: Target, *, incremental: bool | None, throttle: int | None, force: bool, **carrying: Any
) -> None:
    """Hand PLAN to the cluster's controller by one request, and end; the controller carries it out by itself.

    No process has to live afterwards, and none watches, throttles or journals the moves: `shunter execute` does. Under
    Shunter's own controller the moves go by steps and survive its failover. A partition whose replicas are null or empty
    in the plan is rolled back. `shunter status`, `stop` and `rollback` find the moves in the cluster. PLAN `-` is standard
    input.

    \b
    Examples:
      shunter submit plan.json --bootstrap-server kafka1:9092 --dry-run
      shunter submit plan.json --bootstrap-server kafka1:9092 --yes
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if throttle is not None and is_on_command_line("throttle"):
        raise click.UsageError(
            "--throttle: after `submit` no process is left to take a throttle away; `shunter execute` sets one, and does"
        )
    if throttle is not None:
        click.echo("the throttle of the settings does not hold for these moves: `shunter execute` sets it", err=True)
    strategy = None if incremental is None else Strategy.INCREMENTAL if incremental else Strategy.ALL_AT_ONCE

    def work() -> int:
        moves = plan_of(plan)
        if not moves:
            click.echo("the plan names no partition: nothing to do", err=True)
            return int(ExitCode.DONE)
        how = Carrying(**carrying)
        asks = require_consent(how)
        with session_of(target) as session:
            return _submit(session, target, moves, strategy, how, force=force, asks=asks)

    leave_with(work)


def session_of(target: Target) -> ReassignSession:
    """A session with the cluster; it brings the client library with it."""
    from shunter.app.executor.reassign_session import ReassignSession  # noqa: PLC0415 - imported by those who ask the cluster

    return ReassignSession(target.bootstrap, target.properties)


def _submit(
    session: ReassignSession,
    target: Target,
    moves: Sequence[MoveOrder],
    strategy: Strategy | None,
    how: Carrying,
    *,
    force: bool,
    asks: bool,
) -> int:
    shunters = session.is_shunters()
    _require_possible(moves, strategy, shunters=shunters)
    orders, refused = session.fitting(moves)
    refused |= _driven(session, target, orders)
    orders = [order for order in orders if order.tp not in refused]
    for tp, move in session.moves([order.tp for order in orders]).items():
        click.echo(f"{tp} moves already, to {list(move.target)}: this replaces its target", err=True)
    if orders and (how.dry_run or asks):
        options = ExecutionOptions(
            strategy=(strategy or Strategy.INCREMENTAL) if shunters else Strategy.ALL_AT_ONCE,
            force=force,
            take_over=True,
        )
        shown = show_dry_run(target, orders, options, as_json=how.as_json, submitted=True, goes_around=shunters)
        possible = asyncio.run(shown) and not refused
        if how.dry_run:
            _say_refused(refused)
            return int(ExitCode.DONE if possible else ExitCode.REFUSED)
        if not click.confirm("Submit?" if possible else "Submit what can be taken on?"):
            return int(ExitCode.REFUSED)
    refused |= session.submit(orders, strategy, forced=force)
    text = f"{len(moves) - len(refused):,} of {counted(len(moves), 'partition')} taken on by the controller"
    taken = [order.tp for order in orders if order.tp not in refused and order.target]
    held = session.held_up(taken) if taken else ""
    return say_order(text, refused, accepted=len(refused) < len(moves), as_json=how.as_json, held_up=held)


def _require_possible(moves: Sequence[MoveOrder], strategy: Strategy | None, *, shunters: bool) -> None:
    """Refuse what a request 45 does not have, before anything is sent."""
    way_out = "`shunter execute` does"
    if any(move.log_dirs for move in moves):
        raise SubmitRefused(f"the plan names log dirs, and no controller moves replicas to them: {way_out}")
    if any(move.elect for move in moves):
        raise SubmitRefused(f"the plan elects leaders at the end, which no controller does by itself: {way_out}")
    stepwise = any((move.strategy or strategy) is Strategy.INCREMENTAL for move in moves)
    if stepwise and not shunters:
        raise SubmitRefused(
            f"the controller is not Shunter's, so it adds no replica at a time: {way_out}, or submit it with --all-at-once"
        )


def _driven(session: ReassignSession, target: Target, orders: Sequence[MoveOrder]) -> dict[TopicPartition, str]:
    """The partitions that an executor moves, or may move, and why they are not submitted."""
    place = session.cluster.run(lambda admin: journal_place(target, admin))
    opened = {move.tp for move in read_journal(place)[0].open_moves()} if place.exists() else set[TopicPartition]()
    told = "the executor moves it, under its journal: `shunter execute` changes its target"
    found = {order.tp: told for order in orders if order.tp in opened}
    others = session.moves([order.tp for order in orders if order.tp not in opened])
    if others and (claimant := asyncio.run(claimed_by(target, place))):
        found |= dict.fromkeys(others, f"it moves, and {claimant} drives this cluster under another journal: ask there")
    return found


# ---- turning


def turn_others(
    session: ReassignSession, verb: str, partitions: Sequence[TopicPartition], *, yes: bool, as_json: bool
) -> int | None:
    """Turn moves of the cluster that the journal does not have; asks first. Returns the exit status; None: not agreed.

    Raises:
        SubmitRefused: only Shunter's controller could do it, and another one leads.
        SettingsError: no question can be asked, and `yes` was not given.
    """
    shunters = session.is_shunters()
    if not shunters and verb not in ALL_CAN:
        way_out = session.held_up(partitions) or "`shunter rollback` cancels such a move"
        raise SubmitRefused(
            f"{named(partitions)}: not in the journal, and the controller is not Shunter's: it knows no {verb}. {way_out};"
            " `shunter execute --take-over` with a plan of it adopts it"
        )
    meant = session.moves(partitions)
    told = f"{named(partitions)}: not in the journal, so another tool or `shunter submit` began this"
    if not agreed(f"{told}; {_effect(session, verb, meant)}", "Do it?", yes=yes, as_json=as_json):
        return None
    if verb == "relax":
        results = dict.fromkeys(partitions, "it is not under way") | session.relax(meant)
    else:
        results = session.turn(_MODES[verb], partitions)
    refused = {tp: why for tp, why in results.items() if why is not None}
    text = f"{len(results) - len(refused):,} of {counted(len(results), 'partition')}: {verb} taken on by the controller"
    held = session.held_up(list(refused)) if refused and not shunters else ""
    return say_order(text, refused, accepted=len(refused) < len(results), as_json=as_json, held_up=held)


_MODES = {
    "stop": Intervention.STOP,
    "rollback": Intervention.ROLL_BACK,
    "pause": Intervention.PAUSE,
    "resume": Intervention.RESUME,
}


def _effect(session: ReassignSession, verb: str, moves: Moves) -> str:
    if not session.is_shunters():
        return "the controller cancels: all new replicas go, also those in sync"
    if verb != "rollback":
        return f"{verb} is for Shunter's controller"
    cost = session.rollback_bytes(moves)
    if not cost:
        return "a rollback is instant"
    return (
        f"{told_bytes(cost)} are copied again, because original replicas that were dropped are deleted from disk;"
        " `pause` and `stop` reduce the load at once"
    )


def _say_refused(refused: Mapping[TopicPartition, str]) -> None:
    for tp, why in sorted(refused.items()):
        click.echo(f"not taken on: {tp}: {why}", err=True)


def say_order(
    text: str, refused: Mapping[TopicPartition, str], *, accepted: bool, as_json: bool, held_up: str = ""
) -> int:
    """Print the controller's answer, and what holds up the moves that it took on; returns the exit status."""
    if as_json:
        told = [f"{tp}: {why}" for tp, why in sorted(refused.items())]
        say_json(
            {
                "event": "order",
                "by": "controller",
                "accepted": accepted,
                "text": text,
                "refused": told,
                "held_up": held_up,
            }
        )
    else:
        _say_refused(refused)
        click.echo(text)
        if held_up:
            click.echo(held_up)
    return int(ExitCode.REFUSED if not accepted else ExitCode.PARTLY if refused else ExitCode.DONE)


__all__ = ["ALL_CAN", "session_of", "submit", "turn_others"]
