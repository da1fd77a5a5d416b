"""`shunter throttles`: find what was left behind, and take it away."""

from __future__ import annotations

import click

from shunter.app.executor import Target
from shunter.app.exit_codes import ExitCode
from shunter.app.throttles import clear_throttles, forget_throttles, list_throttles, owed_settings
from shunter.cli.consent import agreed
from shunter.cli.execution_options import cluster_options, yes_option
from shunter.cli.leaving import run
from shunter.cli.sections import Sections
from shunter.cli.tables import output_options, show_rows
from shunter.model.execution import ThrottleKey


@click.group(cls=Sections)
def throttles() -> None:
    """Replication throttles that are set in a cluster, whoever set them."""


@throttles.command("list")
@cluster_options
@output_options
def list_(target: Target, *, output: str) -> None:
    """List throttles of brokers and topics, and which of them an execution will restore.

    \b
    Example:
      shunter throttles list --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    run(_list(target, output))


async def _list(target: Target, output: str) -> int:
    found = await list_throttles(target)
    rows = ({**each.key._asdict(), "value": each.value, "journaled": each.journaled} for each in found)
    told = {each.key: str(each) for each in found}
    show_rows(output, rows, lambda row: told[ThrottleKey(row["kind"], row["name"], row["setting"])])
    if not found and output == "text":
        click.echo("no throttle is set")
    return int(ExitCode.DONE)


@throttles.command()
@cluster_options
@yes_option
def clear(target: Target, *, yes: bool) -> None:
    """Remove all throttles that no execution will restore by itself.

    \b
    Example:
      shunter throttles clear --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    run(_clear(target, yes=yes))


async def _clear(target: Target, *, yes: bool) -> int:
    found = await list_throttles(target)
    for throttle in found:
        click.echo(str(throttle))
    if not found:
        click.echo("no throttle is set")
        return int(ExitCode.DONE)
    loose = sum(not throttle.journaled for throttle in found)
    if loose and not agreed(f"{loose} are taken away", "Take them away?", yes=yes, as_json=False):
        return int(ExitCode.REFUSED)
    await clear_throttles(target, found)
    stay = f"; {len(found) - loose} stay: their execution will restore them" if loose < len(found) else ""
    click.echo(f"{loose} taken away{stay}")
    return int(ExitCode.DONE)


@throttles.command()
@cluster_options
@click.option("--broker", "brokers", type=click.IntRange(0), multiple=True, required=True, help="Repeat for several.")
@yes_option
def forget(target: Target, brokers: tuple[int, ...], *, yes: bool) -> None:
    """Strike off what the journal owes to brokers that don't come back.

    When an execution ends, its journal keeps the former throttles of a dead broker, to restore them when the broker is
    back. A broker that comes back after `forget` still has the throttle: `shunter throttles list` finds it.

    \b
    Example:
      shunter throttles forget --broker 5 --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    run(_forget(target, brokers, yes=yes))


async def _forget(target: Target, brokers: tuple[int, ...], *, yes: bool) -> int:
    named = ", ".join(str(broker) for broker in brokers)
    owed = await owed_settings(target, brokers)
    if not owed:
        click.echo(f"no throttle is owed to broker {named}")
        return int(ExitCode.REFUSED)
    told = f"{owed} throttle settings that are owed to broker {named} would be struck off"
    if not agreed(told, "Forget them?", yes=yes, as_json=False):
        return int(ExitCode.REFUSED)
    done, told = await forget_throttles(target, brokers)
    click.echo(told)
    return int(ExitCode.DONE if done else ExitCode.REFUSED)
