"""The effects of a plan that was not carried out yet, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

import click

from shunter.app.executor.dry_run import DryRun, PlannedMove, PlannedStep
from shunter.app.executor.session import Target, lay_out
from shunter.cli.execution.display import say_json
from shunter.core.executor.capacity import told_unknown
from shunter.core.executor.foresight.hold_ups import told_held_up
from shunter.core.spare_replicas import told_thin
from shunter.core.wording import counted, told_brokers, told_bytes, told_ms
from shunter.model.execution import ExecutionOptions, MoveOrder

SHOWN = 40


async def show_dry_run(
    target: Target,
    moves: Sequence[MoveOrder],
    options: ExecutionOptions,
    *,
    as_json: bool,
    submitted: bool = False,
    goes_around: bool = False,
) -> bool:
    """Lay a plan out (see `lay_out`) and show it: steps, bytes, the least time, and a rollback's cost at each point.

    Returns:
        Whether every move can be taken on.
    """
    found = await lay_out(target, moves, options, submitted=submitted, goes_around=goes_around)
    possible = all(move.taken for move in found.moves)
    if as_json:
        cordons = {str(broker): value for broker, value in options.cordons}
        say_json({"event": "dry-run", **found.to_json(), "cordons": cordons})
        return possible
    shown = SHOWN if len(found.moves) > SHOWN + 1 else len(found.moves)  # One more move takes no more than that line.
    for move in found.moves[:shown]:
        _show_move(move)
    if shown < len(found.moves):
        click.echo(f"… and {len(found.moves) - shown} more moves")
    show_sum(found)
    return possible


def _show_move(move: PlannedMove) -> None:
    if not move.taken:
        click.echo(f"{move.partition}  → {list(move.target)}\n  ! not taken on: {move.problem}")
        return
    size = "" if set(move.target) <= set(move.original) and not move.log_dirs else f"  {told_bytes(move.size_bytes)}"
    click.echo(f"{move.partition}  {list(move.original)} → {list(move.target)}{size}")
    for number, step in enumerate(move.steps, start=1):
        back = "instant" if step.rollback_bytes == 0 and not step.needs else f"copies {told_bytes(step.rollback_bytes)}"
        copied = f"{'under way, ' if step.under_way else ''}copies {told_bytes(step.copied_bytes)}"
        click.echo(f"  {number}. {list(step.replicas)}  {copied}; rollback {back}{_told_needs([step])}")
    for broker, path in move.log_dirs:
        size = told_bytes(move.size_bytes)
        copied = f", copies {size} from another log dir; rollback copies {size} at the most"
        click.echo(f"  broker {broker} puts it into {path}{copied if broker in move.placing else ''}")
    if move.elects is not None:
        click.echo(f"  broker {move.elects} is elected at the end, if another one leads then")
    if move.problem:
        click.echo(f"  ! {move.problem}")
    if move.held_up:
        click.echo("  ! held up, as told below")  # Most moves that are held up share one reason.


def _told_needs(steps: Iterable[PlannedStep]) -> str:
    """The brokers without which a rollback can't end, or may not, to be put behind its price; "": none."""
    found = list(steps)
    down = sorted({broker for step in found for broker in step.needs})
    which = f"{told_brokers(down)}, which {'is' if len(down) == 1 else 'are'}"
    doubts = sorted({broker for step in found for broker in step.doubts}.difference(down))
    whose = f"{told_brokers(doubts)} may take no replica before a restart, because a log dir there failed"
    told = [f"needs {which} down"] if down else []
    return "".join(f", and {each}" for each in (*told, *([whose] if doubts else [])))


def show_sum(found: DryRun) -> None:
    """Show how much a plan copies, how long that takes at least, and how much a rollback copies."""
    for broker in found.unknown_room:
        click.echo(f"! {told_unknown(broker)}")
    if told := told_held_up((move.partition, move.held_up) for move in found.moves if move.held_up):
        click.echo(f"! {told}")
    for told in told_thin((move.partition, move.thin) for move in found.moves):
        click.echo(f"! {told}")
    for told in filter(None, (found.lower, found.bursts)):
        click.echo(f"! {told}")
    if found.makes:
        click.echo(f"! the cluster makes topic {found.makes}: an executor claims the cluster by a consumer group")
    forecast = found.forecast
    guess = " (a guess: no copy without a throttle has lasted half a minute here)" if forecast.guessed else ""
    guess += (
        ", and at a lower rate where somebody else's throttle holds" if "throttle holds broker" in found.lower else ""
    )
    taken = [move for move in found.moves if move.taken]
    opened = f", {told_bytes(found.open_bytes)} of it by moves that are open already" if found.open_bytes else ""
    refused = f" ({len(found.moves) - len(taken)} more not taken on)" if len(taken) < len(found.moves) else ""
    click.echo(
        f"{counted(len(taken), 'move')}{refused}, {told_bytes(forecast.total_bytes)} to copy{opened}, at least "
        f"{told_ms(ceil(forecast.seconds) * 1000)} at {told_bytes(forecast.bandwidth)}/s and broker{guess}; "
        f"a rollback copies {told_bytes(found.most_rollback_bytes)} at the most"
        f"{_told_needs(step for move in taken for step in move.steps)}"
    )
