"""The verbs that change the desired state that a running service keeps: drain, replace, add, demote, freeze, replication."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from shunter.cli.service.orders import Place, Signed, give_order, order_options
from shunter.model.service import OrderKind


def _about_one(kind: OrderKind, told: str, example: str, what: str = "broker") -> click.Command:
    """A command whose order is about one broker, or one scope; `told` is its help."""

    @order_options
    def give(place: Place, cluster: str, about: int | str, signed: Signed) -> None:
        give_order(place, kind, cluster, signed, str(about))

    words = f"{told}\n\n\b\nExample:\n  shunter serve {kind.value} {example} --cluster prod"
    wanted = click.IntRange(0) if what == "broker" else click.STRING
    return click.command(kind.value, help=words)(click.argument("about", metavar=what.upper(), type=wanted)(give))


ABOUT_ONE = (
    _about_one(
        OrderKind.DRAIN, "Let a broker hold no replica from now on; the service says when it is safe to remove.", "3"
    ),
    _about_one(
        OrderKind.UNDRAIN,
        "Take `drain` back; replicas that have left the broker stay where they are until a rebalance.",
        "3",
    ),
    _about_one(OrderKind.DEMOTE, "Let a broker lead no partition from now on.", "3"),
    _about_one(OrderKind.PROMOTE, "Take `demote` back.", "3"),
    _about_one(OrderKind.UNREPLACE, "Take `replace` back; replicas that have moved stay where they are.", "3"),
    _about_one(
        OrderKind.ADD,
        "Give a broker its share of bytes and replicas once it is up; it need not have joined yet.",
        "7",
    ),
    _about_one(OrderKind.UNADD, "Take `add` back; replicas that the broker has got stay there.", "7"),
    _about_one(
        OrderKind.HOLD,
        "Let nothing of a scope begin by itself from now on, as after a rollback. Plans that people ask for may begin.",
        "rebalance",
        "scope",
    ),
    _about_one(
        OrderKind.UNHOLD,
        "Lift a hold, also one that followed from a stop, a rollback or a declined proposal.",
        "rebalance",
        "scope",
    ),
)


@click.command("replace")
@click.argument("old", type=click.IntRange(0))
@click.argument("new", type=click.IntRange(0))
@order_options
def replace_broker(place: Place, cluster: str, old: int, new: int, signed: Signed) -> None:
    """Let broker NEW take over all replicas of broker OLD; the service says when OLD is safe to remove.

    OLD may be dead. NEW need not have joined yet; until it has taken over, it gets no other replica.

    \b
    Example:
      shunter serve replace 3 7 --cluster prod
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    give_order(place, OrderKind.REPLACE, cluster, signed, str(old), value=new)


def _frozen_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--broker", type=click.IntRange(0), help="A broker's id.")(command)
    return click.option("--topic", default="", help="A topic's name, or a pattern with * and ?.")(command)


@click.command()
@_frozen_options
@order_options
def freeze(place: Place, cluster: str, topic: str, broker: int | None, signed: Signed) -> None:
    """Keep a topic or a broker as it is, from the next plan on.

    \b
    Example:
      shunter serve freeze --topic payments
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _freeze(place, (OrderKind.FREEZE_TOPIC, OrderKind.FREEZE_BROKER), cluster, topic, broker, signed)


@click.command()
@_frozen_options
@order_options
def unfreeze(place: Place, cluster: str, topic: str, broker: int | None, signed: Signed) -> None:
    """Take `freeze` back.

    \b
    Example:
      shunter serve unfreeze --broker 7
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    _freeze(place, (OrderKind.UNFREEZE_TOPIC, OrderKind.UNFREEZE_BROKER), cluster, topic, broker, signed)


def _freeze(
    place: Place,
    kinds: tuple[OrderKind, OrderKind],
    cluster: str,
    topic: str,
    broker: int | None,
    signed: Signed,
) -> None:
    if bool(topic) == (broker is not None):
        raise click.UsageError("--topic or --broker: name one of them")
    kind, about = (kinds[0], topic) if topic else (kinds[1], str(broker))
    give_order(place, kind, cluster, signed, about)


@click.command("set-replication")
@click.argument("topic")
@click.argument("replicas", type=click.IntRange(1), required=False)
@order_options
def set_replication(place: Place, cluster: str, topic: str, replicas: int | None, signed: Signed) -> None:
    """Keep a topic at exactly REPLICAS replicas from now on; without REPLICAS, take that back.

    \b
    Example:
      shunter serve set-replication orders 3 --cluster prod
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    give_order(place, OrderKind.SET_REPLICATION, cluster, signed, topic, value=replicas)


@click.command("clear-throttles")
@order_options
def clear_throttles(place: Place, cluster: str, signed: Signed) -> None:
    """Remove replication throttles that no journal knows, while nothing is being moved.

    \b
    Example:
      shunter serve clear-throttles --cluster prod
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    give_order(place, OrderKind.CLEAR_THROTTLES, cluster, signed)


COMMANDS = (*ABOUT_ONE, replace_broker, freeze, unfreeze, set_replication, clear_throttles)
