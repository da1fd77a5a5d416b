"""`shunter history` and `shunter undo`: past executions of a journal, and the way back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import localtime, strftime
from typing import Any

import click

from shunter.app.executor.history import (
    counts_of,
    execution_to_json,
    past_executions,
    past_without_cluster,
    undoing,
)
from shunter.app.executor.session import Target
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.display import say_json
from shunter.cli.execution.execute import Carrying, carry_out, require_consent
from shunter.cli.execution.options import carrying_options, cluster_options, driver_options, execution_options
from shunter.cli.leaving import leave_with, run
from shunter.cli.tables import output_options, show_rows
from shunter.core.executor.history import Execution
from shunter.core.wording import told_bytes, told_ms
from shunter.errors import DriverError
from shunter.model.execution import ExecutionOptions, Outcome


@click.command()
@cluster_options
@click.option("--moves", "show_moves", is_flag=True, help="Name every move and how it ended (in text output).")
@output_options
def history(target: Target, *, show_moves: bool, output: str) -> None:
    """List past executions of the cluster's journal, and how they ended.

    The bytes are those of steps that ended; what was copied by a step that was cancelled or is under way is not in them.

    \b
    `shunter undo` takes the number of an execution:
        shunter history --bootstrap-server kafka1:9092
        shunter undo 3 --bootstrap-server kafka1:9092 --dry-run
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    run(_history(target, output, show_moves=show_moves))


async def _history(target: Target, output: str, *, show_moves: bool) -> int:
    code = ExitCode.DONE
    try:
        place, found = await past_executions(target)
    except DriverError as error:
        place, found = await past_without_cluster(target, error)
        code = ExitCode.CLUSTER
        click.echo(
            f"the cluster did not answer, so this is the last journal that was known, {place}: {error}", err=True
        )
    if output == "json":
        for execution in found:
            say_json(execution_to_json(execution))
        return int(code)
    if output != "text":
        show_rows(output, map(_row, found), str)
        return int(code)
    click.echo(f"journal {place}")
    for execution in found:
        click.echo(told_execution(execution))
        for move in execution.every_move if show_moves else ():
            came = "goes on" if move.outcome is None else f"{move.outcome.told}: {move.reason}"
            click.echo(f"    {move.tp} {list(move.original)} → {list(move.target)}, at {list(move.current)}: {came}")
    if not found:
        click.echo("nothing was executed under it yet")
    return int(code)


def _row(execution: Execution) -> dict[str, Any]:
    """An execution in columns."""
    ended = execution.ended_at_ms
    return {
        "number": execution.number,
        "began": _clock(execution.began_at_ms),
        "ended": None if ended is None else _clock(ended),
        "outcome": [f"{count} {name}" for name, count in sorted(counts_of(execution).items())],
        "refused": execution.refused,
        "copied_bytes": execution.copied_bytes,
        "throttle": ["none" if rate is None else rate for rate in execution.throttles if execution.throttles != [None]],
    }


def _clock(at_ms: int) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", localtime(at_ms / 1000))


def told_execution(execution: Execution, *, copied: bool = True) -> str:
    """One line: the execution's number, when it ran, how its moves ended, and how much they copied."""
    began = _clock(execution.began_at_ms)
    ended = execution.ended_at_ms
    took = "goes on" if ended is None else f"took {told_ms(max(0, ended - execution.began_at_ms))}"
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(counts_of(execution).items()))
    if execution.refused:
        counts += f", {execution.refused} not taken on"
    whole = all(move.outcome is Outcome.DONE for move in execution.every_move)
    by = "copied" if whole else "copied by steps that ended"
    parts = [f"{began}, {took}", counts, *([f"{told_bytes(execution.copied_bytes)} {by}"] if copied else [])]
    if len(execution.plans) > 1:
        parts.append(f"{len(execution.plans)} plans that joined: `undo` takes all of them back")
    if execution.throttles != [None]:
        rates = ["none" if rate is None else f"{told_bytes(rate)}/s" for rate in execution.throttles]
        parts.append(f"throttle {', then '.join(rates)}")
    parts += list(dict.fromkeys(f"{order.kind.value.replace('_', ' ')} was asked for" for order in execution.turned))
    return f"{execution.number:>3}  {' · '.join(parts)}"


@click.command()
@click.argument("execution", type=click.IntRange(1), required=False)
@driver_options
@execution_options
@carrying_options
def undo(execution: int | None, target: Target, options: ExecutionOptions, **carrying: Any) -> None:
    """Move back the partitions that an ended execution moved: the last execution, or the one with this number.

    Its partitions get their original replicas back, in their order. Dropped replicas are copied again; `undo` first
    says how many bytes that is, and asks. A partition that was moved again since then stays where it is. An undo is an
    execution of its own, and can be undone too.

    \b
    List past executions, see what an undo would copy, and do it:
        shunter history --bootstrap-server kafka1:9092
        shunter undo --bootstrap-server kafka1:9092 --dry-run
        shunter undo --bootstrap-server kafka1:9092 --throttle 50M
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: _undo(execution, target, options, Carrying(**carrying)))


def _undo(number: int | None, target: Target, options: ExecutionOptions, how: Carrying) -> int:
    execution, wanted = asyncio.run(undoing(target, number))
    laid_out = bool(wanted.moves) and (how.dry_run or require_consent(how, options))
    if how.as_json:
        then = {} if laid_out else {"copied_bytes": wanted.copied_bytes}
        say_json({"event": "undo", "execution": execution.number, "told": list(wanted.told), **then})
    else:
        click.echo(f"undoes execution {told_execution(execution, copied=False).lstrip()}", err=True)
        if not laid_out:  # Else the dry run says it, by the sizes of today.
            click.echo(f"  {told_bytes(wanted.copied_bytes)} are copied again, by the sizes of that time", err=True)
        for told in wanted.told:
            click.echo(f"  {told}", err=True)
    if not wanted.moves:
        click.echo("there is nothing to move back", err=True)
        return int(ExitCode.DONE)
    cordons = tuple(sorted(execution.cordons.items()))
    return carry_out(wanted.moves, target, replace(options, cordons=cordons), how)
