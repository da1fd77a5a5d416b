"""`shunter undrain`: take back the cordons that drains left."""

from __future__ import annotations

import asyncio

import click

from shunter.app.executor.session import Target
from shunter.app.exit_codes import ExitCode
from shunter.app.planning.cordons import end_cordons
from shunter.cli.broker_ids import BrokerIds
from shunter.cli.execution.options import cluster_options
from shunter.cli.leaving import leave_with


@click.command()
@click.argument("brokers", type=BrokerIds())
@cluster_options
def undrain(target: Target, brokers: tuple[int, ...]) -> None:
    """Let BROKERS (3, or 3,7) get replicas again: take back the cordon of `shunter drain --cordon`; nothing moves.

    Each broker gets the value of `cordoned.log.dirs` back that it had before, unless another tool changed it since.
    `shunter undo` does that too, and brings the replicas back.

    \b
    Example:
      shunter undrain 3 --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: _undrain(target, brokers))


def _undrain(target: Target, brokers: tuple[int, ...]) -> int:
    done, told = asyncio.run(end_cordons(target, brokers))
    click.echo(told)
    return int(ExitCode.DONE if done else ExitCode.REFUSED)
