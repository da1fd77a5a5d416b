"""The executor's commands for orders to the service."""

from __future__ import annotations

from shunter.model.execution import BOUNDS, Command, CommandKind
from shunter.model.limits import bound_trouble, rate_trouble
from shunter.model.partition import TopicPartition
from shunter.model.service import OrderKind, OrderRefused, Refusal, ServiceOrder, Signature

TURNS = {
    OrderKind.STOP: CommandKind.STOP,
    OrderKind.PAUSE: CommandKind.PAUSE,
    OrderKind.RESUME: CommandKind.RESUME,
    OrderKind.ROLL_BACK: CommandKind.ROLL_BACK,
}
_BOUNDS = {name.replace("_", "-"): name for name in BOUNDS}
"""Bounds as orders name them, and as the executor does."""


def command_for(order: ServiceOrder, signature: Signature) -> Command:
    """The executor's command for an order to the service.

    Raises:
        OrderRefused: a name is not a partition's, the limit is below 1, or a bound makes no sense.
    """
    if order.kind is OrderKind.LIMIT:
        if order.value is not None and (trouble := rate_trouble(order.value)):
            raise OrderRefused(Refusal.INVALID, f"limit: {trouble}, or no value to lift the limit")
        return Command(CommandKind.LIMIT, bytes_per_s=order.value, given_by=signature.who, key=signature.key)
    if order.kind is OrderKind.BOUND:
        bounds = tuple(map(_bound, order.about))
        if not bounds:
            raise OrderRefused(
                Refusal.INVALID, f"bound: a bound is wanted, as max-in=4; there are {', '.join(_BOUNDS)}"
            )
        return Command(CommandKind.BOUND, bounds=bounds, given_by=signature.who, key=signature.key)
    named = []
    for name in order.about:
        topic, dash, number = name.rpartition("-")
        if not topic or not dash or not number.isdecimal():
            raise OrderRefused(Refusal.INVALID, f"{order.kind.value} {name!r}: a partition is wanted, as orders-3")
        named.append(TopicPartition(topic, int(number)))
    return Command(TURNS[order.kind], tuple(named), given_by=signature.who, key=signature.key)


def _bound(item: str) -> tuple[str, int]:
    """The field of the executor's options, and its new value, for a bound as `max-in=4`."""
    name, _, value = item.partition("=")
    if name not in _BOUNDS:
        raise OrderRefused(Refusal.INVALID, f"bound {item!r}: there are {', '.join(_BOUNDS)}, as max-in=4")
    whole = int(value[:10]) if value.isdecimal() and value.isascii() else -1
    if trouble := bound_trouble(whole):
        raise OrderRefused(Refusal.INVALID, f"bound {item!r}: {trouble}")
    return _BOUNDS[name], whole
