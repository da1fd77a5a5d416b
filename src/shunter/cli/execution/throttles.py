"""`shunter throttles`: find throttles that were left behind, and take them away."""

from __future__ import annotations

from collections.abc import Sequence

import click

from shunter.app.executor.orders import holder_of
from shunter.app.executor.session import Target
from shunter.app.executor.throttles import (
    clear_throttles,
    driven_elsewhere,
    forget_throttles,
    held_now,
    list_throttles,
    owed_settings,
    see_nobody_else_drives,
    told_owed,
)
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.consent import agreed
from shunter.cli.execution.options import cluster_options, yes_option
from shunter.cli.leaving import run
from shunter.cli.sections import Sections
from shunter.cli.service.turning import clears, or_service
from shunter.cli.tables import output_options, show_rows
from shunter.core.wording import NAMED, counted


@click.group(cls=Sections)
def throttles() -> None:
    """Find and remove replication throttles that are set in a cluster, whoever set them."""


@throttles.command("list")
@cluster_options
@output_options
def list_(target: Target, *, output: str) -> None:
    """List throttles of brokers and topics, which of them an execution will restore, and which are owed to dead brokers.

    Every broker is asked. A throttle of one that does not answer is listed as the journal knows it, and a throttle that only some of them show is listed with these brokers. In a cluster with
    more than 20,000 topics times brokers, one broker is asked for the throttles of topics.

    \b
    Example:
      shunter throttles list --bootstrap-server kafka1:9092
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    run(_list(target, output))


async def _list(target: Target, output: str) -> int:
    found = await list_throttles(target)
    rows = (
        {
            **each.key._asdict(),
            "value": each.value,
            "journaled": each.journaled,
            "brokers": each.brokers,
            "former": each.former,
            "owed": each.owed,
        }
        for each in found
    )
    told = iter(map(str, found))
    show_rows(output, rows, lambda _row: next(told))
    if any(each.lacking and not each.journaled for each in found):
        click.echo(
            "brokers differ: `shunter throttles clear` sets such a throttle on every broker, and takes it away again",
            err=True,
        )
    if not found and output == "text":
        click.echo("no throttle is set")
    if silent := [each.key for each in found if each.owed]:
        told_debt = told_owed(silent, driven=(await holder_of(target))[1] is not None)
        click.echo(f"{counted(len(silent), 'throttle')} {told_debt}", err=True)
    if any(not each.journaled for each in found) and (claimant := await driven_elsewhere(target)):
        driven = f"{claimant} drives the cluster under another journal: it restores the throttles that it has set"
        click.echo(driven, err=True)
    return int(ExitCode.DONE)


@throttles.command()
@or_service(clears)
@cluster_options
@yes_option
def clear(target: Target, *, yes: bool) -> None:
    """Remove all throttles that no execution will restore by itself, whoever set them; asks before it deletes any.

    A setting that the journal knows is restored as it was before, unless a move that is under way needs it. All other
    throttles are deleted, also those that another tool or person set. If they may hold moves between brokers, or copies
    between log dirs, that are under way, the question says which. A throttle that only some brokers show is set on
    every broker first, because the controller does not know it. A service removes those that no journal knows, while
    nothing is being moved.

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
    loose = [throttle.key for throttle in found if not throttle.journaled]
    if loose:
        await see_nobody_else_drives(target)
        held = await held_now(target, loose)
        driven = bool(held) and (await holder_of(target))[1] is not None
        told = told_loose(len(loose), held, driven=driven)
        if not agreed(told, "Delete them?", yes=yes, as_json=False):
            return int(ExitCode.REFUSED)
    for told in (await clear_throttles(target, found)).told():
        click.echo(told)
    return int(ExitCode.DONE)


def told_loose(count: int, held: Sequence[str], *, driven: bool) -> str:
    """How many throttles would be deleted, and what of that which is under way they may hold.

    `driven`: an executor drives the journal. Where it has a rate of its own, it sets that in place of one that is gone.
    """
    if not held:
        return f"{count} would be deleted"
    more = f"; and {len(held) - NAMED} more" if len(held) > NAMED else ""
    until = " until the executor sets its own, within ten seconds, if it has one" if driven else ""
    return f"{count} would be deleted, and this would go on without a limit{until}: {'; '.join(held[:NAMED])}{more}"


@throttles.command()
@cluster_options
@click.option(
    "--broker",
    "brokers",
    type=click.IntRange(0),
    multiple=True,
    required=True,
    help="A broker that never comes back; repeat for several.",
)
@yes_option
def forget(target: Target, brokers: tuple[int, ...], *, yes: bool) -> None:
    """Delete from the journal the throttles that are owed to brokers that never come back.

    When an execution ends, its journal keeps the former throttles of a dead broker, to restore them when the broker is
    back. A broker that does come back after `forget` still has the execution's throttle: `shunter throttles list`
    finds it.

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
    told = f"{counted(owed, 'throttle setting that is', 'throttle settings that are')} owed to broker {named} would be deleted from the journal"
    if not agreed(told, "Forget them?", yes=yes, as_json=False):
        return int(ExitCode.REFUSED)
    done, told = await forget_throttles(target, brokers)
    click.echo(told)
    return int(ExitCode.DONE if done else ExitCode.REFUSED)
