"""The verbs that ask a running service for its state, or give it orders.

They go through the socket in its state folder, or over HTTP.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from shunter.app.exit_codes import ExitCode
from shunter.app.service.local import ServiceServer, ask_service, order_service
from shunter.app.state_folder import service_folder
from shunter.cli.execution.consent import agreed
from shunter.cli.execution.display import say_json
from shunter.cli.execution.options import LIMIT, bound_options, yes_option
from shunter.cli.leaving import leave_with
from shunter.cli.tables import output_options, show_rows
from shunter.core.wording import counted, told_bytes, told_time
from shunter.errors import SettingsError
from shunter.model.service import OrderKind, ServiceOrder

Place = Path | ServiceServer


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options that say where the service is; hands the command `place`."""
    file = click.Path(path_type=Path)

    @click.option(
        "--state-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="The folder that the service serves from.  [default: service in $SHUNTER_STATE]",
    )
    @click.option(
        "--server",
        metavar="URL",
        help="Ask over HTTP instead: http://HOST:PORT, the address of the service's --listen.",
    )
    @click.option("--token-file", type=file, help="With --server: a file with the token.")
    @click.option(
        "--ca-file", type=file, help="With --server: a PEM file with the authorities to trust.  [default: the system's]"
    )
    @click.option(
        "--plain-http", is_flag=True, help="With --server: send the token unencrypted, because the network is trusted."
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        state_dir: Path | None,
        server: str | None,
        token_file: Path | None,
        ca_file: Path | None,
        plain_http: bool,
        **rest: Any,
    ) -> Any:
        if server is None and (token_file or ca_file or plain_http):
            raise click.UsageError("--token-file, --ca-file and --plain-http are for --server")
        if server is not None and state_dir is not None:
            raise click.UsageError("--state-dir and --server: name one of them")
        folder = service_folder() if state_dir is None else state_dir
        place: Place = folder if server is None else ServiceServer(server, token_file, ca_file, plain_http)
        return command(*args, place=place, **rest)

    return wrapped


_cluster_option = click.option(
    "--cluster", default="", help="The cluster's name in the policy file.  [default: the only one]"
)


def order_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every order; hands the command `place`, `cluster`, and `signed`, a comment and a key."""

    @place_options
    @_cluster_option
    @click.option("--comment", default="", help="Why the order is given; the comment is kept beside it.")
    @click.option("--key", default="", help="An order with the same key is carried out once.  [default: a new one]")
    @click.option("--json", "as_json", is_flag=True, help="One JSON object.")
    @functools.wraps(command)
    def wrapped(*args: Any, comment: str, key: str, as_json: bool, **rest: Any) -> Any:
        return command(*args, signed=Signed(comment, key or uuid.uuid4().hex, as_json), **rest)

    return wrapped


class Signed:
    """The parts of an order that every kind has: a comment, a key, and the form of the answer."""

    def __init__(self, comment: str, key: str, as_json: bool) -> None:
        self.comment = comment
        self.key = key
        self.as_json = as_json


def _ask(place: Place, ask: str, **parts: object) -> Any:
    return asyncio.run(ask_service(place, ask, **parts))


def _the_cluster(place: Place, named: str) -> str:
    """The cluster that is meant.

    Raises:
        SettingsError: there are several, and none was named.
    """
    if named:
        return named
    names = [row["name"] for row in _ask(place, "fleet")["clusters"]]
    if len(names) != 1:
        raise SettingsError(f"which cluster? There are {', '.join(names)}: name one by --cluster")
    return str(names[0])


def _give(place: Place, order: ServiceOrder, signed: Signed) -> int:
    done = asyncio.run(order_service(place, order, signed.comment, signed.key))
    if signed.as_json:
        say_json({"event": "order", "by": "service", "key": signed.key, **done._asdict()})
    else:
        click.echo(done.text)
    return int(ExitCode.PARTLY if done.undone else ExitCode.DONE)


def give_order(
    place: Place, kind: OrderKind, cluster: str, signed: Signed, *about: str, value: int | None = None
) -> None:
    """Give an order to the service, print its answer, and leave with its exit status."""
    leave_with(lambda: _give(place, ServiceOrder(kind, _the_cluster(place, cluster), about, value), signed))


# ---- looking


@click.command()
@place_options
@output_options
def status(place: Place, *, output: str) -> None:
    """Show how the clusters of a running service stand: what is wrong, what is being done, by whom.

    Exit status: 0 nothing is wrong; 1 something is wrong with a cluster; 2 the changed policy file is refused; 3 a
    cluster or the service does not answer; 5 the service's store can't be used.

    \b
    Example:
      shunter serve status --output table
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: _status(place, output))


def _status(place: Place, output: str) -> int:
    fleet = _ask(place, "fleet")
    rows = [_status_row(row) for row in fleet["clusters"]]
    show_rows(output, rows, lambda row: _told_cluster(row, fleet["at_ms"]))
    for trouble in (fleet["store_trouble"], fleet["policy_trouble"]):
        if trouble:
            click.echo(f"shunter: {trouble}", err=True)
    found = (
        (any(row["state"] in ("unreachable", "starting") for row in rows), ExitCode.CLUSTER),
        (bool(fleet["store_trouble"]), ExitCode.JOURNAL),
        (bool(fleet["policy_trouble"]), ExitCode.USAGE),
        (any(row["severity"] in ("critical", "warning") for row in rows), ExitCode.PARTLY),
    )
    return int(next((code for holds, code in found if holds), ExitCode.DONE))


def _status_row(row: Any) -> dict[str, Any]:
    stands = row["situation"]
    told = ("severity", "headline", "doing", "state", "driver", "figures", "observed_at_ms")
    figures = ("brokers", "offline", "under_replicated", "conditions", "moves_open", "proposals_waiting")
    return {
        "cluster": row["name"],
        **{key: stands[key] for key in told},
        **{key: row[key] for key in figures},
        "paused": row["paused"]["who"] if row["paused"] else "",
        "notes": stands["notes"],
    }


def _told_cluster(row: Any, now_ms: int) -> str:
    """A cluster as the page shows it: its situation, then figures, with their age unless they are current."""
    lines = [f"{row['cluster']}: {row['severity']}: {row['headline']}", f"  {row['doing']}"]
    lines += [f"  {note}" for note in row["notes"]]
    if row["observed_at_ms"] is None:
        return "\n".join([*lines, "  its figures are not known"])
    age_s = max(0, now_ms - row["observed_at_ms"]) // 1000
    when = f"{age_s} s ago" if row["figures"] == "current" else f"old, of {age_s} s ago"
    figures = (
        f"{counted(row['brokers'], 'broker')}, {counted(row['offline'], 'partition')} offline, "
        f"{row['under_replicated']:,} under-replicated, {counted(row['conditions'], 'condition')}"
    )
    return "\n".join([*lines, f"  {figures} ({when})"])


@click.command()
@place_options
@_cluster_option
@click.option("--all", "ended", is_flag=True, help="List proposals that are over, too.")
@output_options
def proposals(place: Place, cluster: str, *, ended: bool, output: str) -> None:
    """List proposals: what each would move, and how far it has got.

    \b
    Example:
      shunter serve proposals --cluster prod
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def work() -> int:
        found = _ask(place, "proposals", cluster=_the_cluster(place, cluster), ended=ended)
        figures = ("id", "state", "scope", "moves", "bytes", "least_bytes", "leader_changes", "rollback_bytes")
        keys = (*figures, "reasons", "held_back")
        rows = [
            {**{key: view["proposal"][key] for key in keys}, "outcome": view["proposal"]["outcome"]} for view in found
        ]
        show_rows(output, rows, _told_proposal)
        if not rows and output == "text":
            click.echo("no proposal waits or runs")
        return int(ExitCode.DONE)

    leave_with(work)


def _bound(row: Any) -> str:
    """The least that any plan can copy, in brackets; "" if it is not known."""
    least = row["least_bytes"]
    return "" if least is None else f" (any plan that reaches all of it copies at least {told_bytes(least)})"


def _told_proposal(row: Any) -> str:
    size = f"{counted(row['moves'], 'replica')} to copy, {told_bytes(row['bytes'])}{_bound(row)}; a rollback copies {told_bytes(row['rollback_bytes'])}"
    lines = [f"{row['id']} {row['state']}: {size} at the most", *(f"  {each}" for each in row["reasons"])]
    lines += [f"  waits: {each}" for each in row["held_back"]]
    return "\n".join([*lines, *([f"  {row['outcome']}"] if row["outcome"] else [])])


@click.command()
@place_options
@click.option("--cluster", default="", help="The cluster's name in the policy file.  [default: all]")
@click.option("--most", type=click.IntRange(1, 10_000), default=50, help="How many of the latest events are listed.")
@output_options
def events(place: Place, cluster: str, most: int, *, output: str) -> None:
    """List what happened: conditions, proposals, and orders with their givers, the oldest first.

    \b
    Example:
      shunter serve events --cluster prod --most 200
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def work() -> int:
        view = _ask(place, "timeline", cluster=cluster, most=most)
        keys = ("at_ms", "until_ms", "cluster", "kind", "subject", "who", "cause", "text")
        show_rows(output, [{key: each[key] for key in keys} for each in view["events"]], _told_event)
        since = "" if view["host_since_ms"] is None else f" since {told_time(view['host_since_ms'])}"
        told = f"the history of host {view['host']}{since}; of other hosts it has what they left in the cluster"
        click.echo(f"shunter: {told}", err=True)
        return int(ExitCode.DONE)

    leave_with(work)


def _told_event(row: Any) -> str:
    at = datetime.fromtimestamp((row["until_ms"] or row["at_ms"]) / 1000, UTC)
    cause = f" ({row['cause']})" if row["cause"] else ""
    return f"{at:%Y-%m-%d %H:%M:%S}Z {row['cluster'] or 'fleet'} {row['kind']}: {row['text']}{cause}"


# ---- proposals and moves


@click.command()
@click.argument("proposal")
@order_options
def approve(place: Place, cluster: str, proposal: str, signed: Signed) -> None:
    """Approve a proposal: it begins once nothing holds it back.

    \b
    Example:
      shunter serve approve rebalance-3f9a2c01de --comment "ticket 4711"
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    give_order(place, OrderKind.APPROVE, cluster, signed, proposal)


@click.command()
@click.argument("proposal")
@order_options
def decline(place: Place, cluster: str, proposal: str, signed: Signed) -> None:
    """Decline a proposal: its scope is not proposed again for the policy's declined-minutes.

    \b
    Example:
      shunter serve decline rebalance-3f9a2c01de --comment "not on a Friday"
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    give_order(place, OrderKind.DECLINE, cluster, signed, proposal)


@click.command()
@click.argument("scope")
@click.argument("items", nargs=-1)
@click.option(
    "--replicas", type=click.IntRange(1), help="With the scope topics: how many replicas each topic shall have."
)
@click.option("--dry-run", is_flag=True, help="Say what the plan would move, and keep no proposal.")
@order_options
def propose(
    place: Place,
    cluster: str,
    scope: str,
    items: tuple[str, ...],
    replicas: int | None,
    signed: Signed,
    *,
    dry_run: bool,
) -> None:
    """Plan by the last observation, within the policy, and keep the plan as a proposal that waits for approval.

    SCOPE is rebalance, leaders or fix-racks; fill, drain or demote with brokers; disks, which balances log dirs, with
    brokers or for all; replace with OLD=NEW; topics with topics and --replicas; move with partitions or topics and the
    brokers that may hold them, as to=4,5,6. Rules among ITEMS narrow the policy:
    band=PERCENT, most-moves=N, most-gigabytes=N, without-brokers=3,7 and without-topics=logs-*.

    \b
    Examples:
      shunter serve propose rebalance --dry-run
      shunter serve propose replace 3=7 --comment "new disks"
      shunter serve propose topics orders --replicas 3
      shunter serve propose move orders-3 orders-4 to=4,5,6
      shunter serve propose rebalance most-moves=50 without-topics=logs-* --dry-run
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    about = (scope, *items)
    if not dry_run:
        give_order(place, OrderKind.PROPOSE, cluster, signed, *about, value=replicas)

    def work() -> int:
        view = _ask(place, "sketch", cluster=_the_cluster(place, cluster), about=about, value=replicas)
        proposal = view["proposal"]
        if signed.as_json:
            say_json({"event": "sketch", **proposal})
            return int(ExitCode.DONE)
        click.echo(_told_proposal({**proposal, "state": "is not kept", "outcome": ""}))
        for each in proposal["brokers"]:
            before, after = (
                f"{told_bytes(side[0])}, {counted(side[1], 'replica')}" for side in (each["before"], each["after"])
            )
            click.echo(f"  broker {each['broker']}: {before} → {after}")
        return int(ExitCode.DONE)

    leave_with(work)


_ALL_HELP = "Pause all moves of the service (with --cluster: of one cluster); nothing begins, even if it was approved."


@click.command()
@click.argument("partitions", nargs=-1)
@click.option("--all", "everything", is_flag=True, help=_ALL_HELP)
@yes_option
@order_options
def pause(
    place: Place, cluster: str, partitions: tuple[str, ...], signed: Signed, *, everything: bool, yes: bool
) -> None:
    """Pause moves of these partitions; --all is the kill switch, which survives restarts.

    If copies have to be cancelled, it says first how much is copied again, and asks. The kill switch never asks.

    \b
    Examples:
      shunter serve pause orders-3
      shunter serve pause --all --comment "incident 12"
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if _is_for_all(partitions, everything=everything):
        leave_with(lambda: _give(place, ServiceOrder(OrderKind.PAUSE_ALL, cluster), signed))
    _turn(place, OrderKind.PAUSE, cluster, partitions, signed, yes=yes)


@click.command()
@click.argument("partitions", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Lift `pause --all`.")
@yes_option
@order_options
def resume(
    place: Place, cluster: str, partitions: tuple[str, ...], signed: Signed, *, everything: bool, yes: bool
) -> None:
    """Resume moves of these partitions; --all lifts the kill switch, but moves that were paused by name stay paused.

    \b
    Example:
      shunter serve resume --all
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if _is_for_all(partitions, everything=everything):
        leave_with(lambda: _give(place, ServiceOrder(OrderKind.RESUME_ALL, cluster), signed))
    _turn(place, OrderKind.RESUME, cluster, partitions, signed, yes=yes)


def _is_for_all(partitions: Sequence[str], *, everything: bool) -> bool:
    if everything == bool(partitions):
        raise click.UsageError("name partitions, or --all: one of them")
    return everything


@click.command()
@click.argument("partitions", nargs=-1)
@yes_option
@order_options
def stop(place: Place, cluster: str, partitions: tuple[str, ...], signed: Signed, *, yes: bool) -> None:
    """Stop moves where they are; without PARTITIONS, all open moves.

    A stopped plan is not begun again by itself: the order takes back the intent that asked for it, or holds its scope
    back until `unhold`.

    \b
    Example:
      shunter serve stop orders-3 --cluster prod
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn(place, OrderKind.STOP, cluster, partitions, signed, yes=yes)


@click.command()
@click.argument("partitions", nargs=-1)
@yes_option
@order_options
def rollback(place: Place, cluster: str, partitions: tuple[str, ...], signed: Signed, *, yes: bool) -> None:
    """Roll moves back to their original replicas; without PARTITIONS, all open moves. It first says what that copies.

    A rolled back plan is not begun again by itself: the order takes back the intent that asked for it, or holds its
    scope back until `unhold`.

    \b
    Example:
      shunter serve rollback --yes
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _turn(place, OrderKind.ROLL_BACK, cluster, partitions, signed, yes=yes)


def _turn(place: Place, kind: OrderKind, named: str, partitions: Sequence[str], signed: Signed, *, yes: bool) -> None:
    """Say what an order to moves would do, ask unless nothing is lost by it, and give it."""

    def work() -> int:
        cluster = _the_cluster(place, named)
        seen = _ask(place, "preview", kind=kind.value, cluster=cluster, about=list(partitions))
        harmless = kind in (OrderKind.PAUSE, OrderKind.RESUME) and not seen["bytes"]
        if not harmless and not agreed(seen["text"], "Do it?", yes=yes, as_json=signed.as_json):
            return int(ExitCode.REFUSED)
        return _give(place, ServiceOrder(kind, cluster, tuple(partitions)), signed)

    leave_with(work)


@click.command()
@click.argument("rate", type=LIMIT, required=False)
@bound_options
@order_options
def limit(place: Place, cluster: str, rate: int | None, bounds: dict[str, int | None], signed: Signed) -> None:
    """Change the throttle of the moves under way, for each broker (`none` lifts it), or the bounds on copies.

    \b
    Examples:
      shunter serve limit 20M --cluster prod
      shunter serve limit --max-in 4 --max-concurrent 0 --cluster prod
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    asked = tuple(f"{name.replace('_', '-')}={value}" for name, value in bounds.items() if value is not None)
    if rate is None and not asked:
        raise click.UsageError("say what to limit: a RATE, or a bound such as --max-in 4")

    def work() -> int:
        name = _the_cluster(place, cluster)
        if rate is not None:
            _give(place, ServiceOrder(OrderKind.LIMIT, name, (), rate or None), signed)
        if not asked:
            return int(ExitCode.DONE)
        # Two orders of one command have two keys.
        own = signed if rate is None else Signed(signed.comment, f"{signed.key} bounds", signed.as_json)
        return _give(place, ServiceOrder(OrderKind.BOUND, name, asked), own)

    leave_with(work)


COMMANDS = (status, proposals, events, propose, approve, decline, pause, resume, stop, rollback, limit)
