"""The verbs that only a service has: proposals are planned and decided, and intents are given and withdrawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from shunter.app.exit_codes import ExitCode
from shunter.app.service.client import ServiceClient
from shunter.cli.broker_ids import BrokerIds
from shunter.cli.execution.display import say_json
from shunter.cli.leaving import leave_with
from shunter.cli.service.looks import told_proposal
from shunter.cli.service.place import Signed, give_about, order_options, the_cluster
from shunter.core.wording import counted, told_bytes
from shunter.model.service import IntentKind, OrderKind, ServiceOrder

# ---- proposals


@click.command()
@click.argument("proposal")
@order_options
def approve(service: ServiceClient, cluster: str, proposal: str, signed: Signed) -> None:
    """Approve a proposal: it begins once nothing holds it back.

    \b
    Example:
      shunter approve rebalance-3f9a2c01de --comment "ticket 4711"
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: give_about(service, OrderKind.APPROVE, cluster, signed, proposal=proposal))


@click.command()
@click.argument("proposal")
@order_options
def decline(service: ServiceClient, cluster: str, proposal: str, signed: Signed) -> None:
    """Decline a proposal: its scope is not proposed again for the policy's declined-minutes.

    \b
    Example:
      shunter decline rebalance-3f9a2c01de --comment "not on a Friday"
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: give_about(service, OrderKind.DECLINE, cluster, signed, proposal=proposal))


_replicas = click.option("--replicas", type=click.IntRange(1), help="How many replicas each of the topics shall have.")
_RULES = (
    click.option("--to", type=BrokerIds(), default="", help="With move: the brokers that may hold what is moved."),
    click.option("--band-percent", type=click.FloatRange(0, 100, True, True), help="A narrower band."),
    click.option("--most-moves", type=click.IntRange(1, 2**31 - 1), help="Copy at most this many replicas."),
    click.option("--most-gigabytes", type=click.FloatRange(0, 1e9, True), help="Copy at most this many gigabytes."),
    click.option(
        "--without-brokers", type=BrokerIds(), default="", help="Nothing comes to these brokers or leaves them."
    ),
    click.option(
        "--without-topics", default="", help="These topics stay: names, or patterns with * and ?, with commas."
    ),
)


def _rules(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_RULES):
        command = option(command)
    return command


@click.command()
@click.argument("scope")
@click.argument("items", nargs=-1)
@_replicas
@_rules
@click.option("--dry-run", is_flag=True, help="Say what the plan would move, and keep no proposal.")
@order_options
def propose(
    service: ServiceClient,
    cluster: str,
    scope: str,
    items: tuple[str, ...],
    signed: Signed,
    *,
    dry_run: bool,
    **rules: Any,
) -> None:
    """Let the service plan by its last observation, within its policy, and keep the plan as a proposal.

    SCOPE is rebalance, offline, leaders or fix-racks; fill, drain, demote or disks (none: all) with brokers; replace
    with OLD=NEW; topics with topics and --replicas; move with partitions or topics and --to. Rules narrow the policy.
    Exit status of --dry-run: 1 if the plan leaves something undone.

    \b
    Examples:
      shunter propose rebalance --most-moves 50 --without-topics 'logs-*' --dry-run
      shunter propose replace 3=7 --comment "new disks"
      shunter propose topics orders --replicas 3
      shunter propose move orders-3 orders-4 --to 4,5,6
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    topics = tuple(filter(None, rules.pop("without_topics").split(",")))
    what = {"move": "partitions", "topics": "topics", "replace": "replacements"}.get(scope, "brokers")
    body = {"scope": scope, **_named(what, items), **rules, "without_topics": topics}
    if not dry_run:
        leave_with(lambda: give_about(service, OrderKind.PROPOSE, cluster, signed, **body))

    def work() -> int:
        order = ServiceOrder(OrderKind.PROPOSE, the_cluster(service, cluster), **body)
        proposal = service.sketch(order, changes=signed.as_json)["proposal"]
        status = ExitCode.PARTLY if proposal["undone"] else ExitCode.DONE
        if signed.as_json:
            say_json({"event": "sketch", **proposal})
            return int(status)
        click.echo(told_proposal({**proposal, "state": "is not kept", "outcome": ""}))
        for each in proposal["brokers"]:
            before, after = (
                f"{told_bytes(side[0])}, {counted(side[1], 'replica')}" for side in (each["before"], each["after"])
            )
            click.echo(f"  broker {each['broker']}: {before} → {after}")
        return int(status)

    leave_with(work)


def _named(what: str, items: tuple[str, ...]) -> dict[str, Any]:
    """The field of an order with what the command line names."""
    if what in ("topics", "partitions"):
        return {what: items}
    words = [word for item in items for word in item.split(",") if word]
    form, told = (r"\d{1,10}", "brokers are wanted, as 3 or 3,7")
    if what == "replacements":
        form, told = (r"\d{1,10}=\d{1,10}", "pairs OLD=NEW are wanted, as 3=7")
    wrong = next((word for word in words if not re.fullmatch(form, word, re.ASCII)), None)
    if wrong is not None:
        raise click.UsageError(f"{wrong!r}: {told}")
    pairs = [tuple(map(int, word.split("="))) for word in words]
    return {what: tuple(pairs) if what == "replacements" else tuple(first for first, *_rest in pairs)}


# ---- intents

_kind = click.argument("kind", type=click.Choice([each.value for each in IntentKind]))
_items = click.argument("items", nargs=-1, required=True)


@click.command()
@_kind
@_items
@_replicas
@order_options
def intend(
    service: ServiceClient, cluster: str, kind: str, items: tuple[str, ...], replicas: int | None, signed: Signed
) -> None:
    """Give the service an intent: it holds from now on, until it is withdrawn.

    \b
    drain          BROKERS hold no replica; the service says when they are safe to remove
    demote         BROKERS lead no partition
    replace        OLD=NEW: all replicas of OLD, which may be dead, go to NEW, which may still have to join
    add            BROKERS get their share of bytes and replicas once they are up
    freeze-broker  nothing comes to BROKERS or leaves them
    freeze-topic   nothing of TOPICS (names, or patterns with * and ?) changes
    replication    TOPICS have exactly --replicas replicas
    hold           nothing of a SCOPE begins by itself; plans that people ask for may begin

    \b
    Examples:
      shunter intend drain 3 --cluster prod
      shunter intend replace 3=7 --comment "new disks"
      shunter intend replication orders --replicas 3
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    body = {**_intent(kind, items, gives=True), "replicas": replicas}
    leave_with(lambda: give_about(service, OrderKind.INTEND, cluster, signed, **body))


@click.command()
@_kind
@_items
@order_options
def withdraw(service: ServiceClient, cluster: str, kind: str, items: tuple[str, ...], signed: Signed) -> None:
    """Take an intent back; a hold also if it followed from a stop, a rollback or a declined proposal.

    Replicas that were moved for it stay where they are.

    \b
    Examples:
      shunter withdraw drain 3 --cluster prod
      shunter withdraw replace 3
      shunter withdraw hold rebalance
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: give_about(service, OrderKind.WITHDRAW, cluster, signed, **_intent(kind, items, gives=False)))


def _intent(kind: str, items: tuple[str, ...], *, gives: bool) -> dict[str, Any]:
    intent = IntentKind(kind)
    if intent is IntentKind.HOLD:
        if len(items) != 1:
            raise click.UsageError(f"{' '.join(items)}: one scope is wanted, as rebalance")
        return {"intent": intent, "scope": items[0]}
    what = "topics" if intent in (IntentKind.FREEZE_TOPIC, IntentKind.REPLICATION) else "brokers"
    what = "replacements" if intent is IntentKind.REPLACE and gives else what
    return {"intent": intent, **_named(what, items)}


__all__ = ["approve", "decline", "intend", "propose", "withdraw"]
