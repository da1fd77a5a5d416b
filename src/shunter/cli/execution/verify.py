"""`shunter verify`: whether a plan has been reached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from shunter.app.executor.session import Target
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.display import say_json, told_move
from shunter.cli.execution.options import PLAN, plan_of, session_options
from shunter.cli.leaving import leave_with
from shunter.core.verification import PlanDifference
from shunter.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.model.execution import MoveOrder


@click.command()
@click.argument("plan", type=PLAN)
@session_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each partition that differs, then the end.")
def verify(plan: Path, target: Target, *, as_json: bool) -> None:
    """Compare PLAN with the cluster. Exit status 0: all partitions are where the plan says; 1: some are not, or not yet.

    If the plan names log dirs, each replica has to be in its log dir. A log dir that its broker does not tell is not
    known, and that is no success. "any" is every log dir. PLAN `-` is standard input.

    \b
    Example:
      shunter verify plan.json --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: _verify(plan, target, as_json=as_json))


def _verify(plan: Path, target: Target, *, as_json: bool) -> int:
    orders = plan_of(plan)
    if not orders:
        # A planner that finds nothing to move writes such a plan, and `execute` takes it too.
        click.echo("the plan names no partition: nothing to compare", err=True)
    found = _differences(target, orders) if orders else ()
    for difference in found:
        _say(difference, as_json=as_json)
    code = ExitCode.PARTLY if found else ExitCode.DONE
    text = (
        f"{len(orders) - len(found):,} of {counted(len(orders), 'partition is', 'partitions are')} where the plan says"
    )
    if as_json:
        say_json({"event": "end", "exit": int(code), "text": text})
    else:
        click.echo(text)
    return int(code)


def _differences(target: Target, orders: Sequence[MoveOrder]) -> tuple[PlanDifference, ...]:
    from shunter.app.executor.reassign_session import ReassignSession  # noqa: PLC0415 - brings the client library with it

    with ReassignSession(target.bootstrap, target.properties) as session:
        return session.differences(orders, told_move)


def _say(difference: PlanDifference, *, as_json: bool) -> None:
    if not as_json:
        for text in difference.texts:
            click.echo(f"{difference.tp} {text}")
        return
    say_json(
        {
            "event": "differs",
            "partition": str(difference.tp),
            "text": "; ".join(difference.texts),
            "log_dirs": [each._asdict() for each in difference.log_dirs],
        }
    )


__all__ = ["verify"]
