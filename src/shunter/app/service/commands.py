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


def commands_for(order: ServiceOrder, signature: Signature) -> tuple[Command, ...]:
    """The executor's commands for an order to the service. The last one has its key: a lookup finds it if all are done.

    Raises:
        OrderRefused: a name is not a partition's, or a limit makes no sense.
    """
    if order.kind is not OrderKind.LIMIT:
        return (command_for(order, signature),)
    bounds = tuple((name, most) for name in BOUNDS if (most := getattr(order, name)) is not None)
    rate, who = order.bytes_per_s, signature.who
    troubles = [*([rate_trouble(rate)] if rate else []), *(bound_trouble(most) for _name, most in bounds)]
    if trouble := next(filter(None, troubles), ""):
        raise OrderRefused(Refusal.INVALID, f"limit: {trouble}")
    limit = [] if rate is None else [Command(CommandKind.LIMIT, bytes_per_s=rate or None, given_by=who)]
    found = [*limit, *([Command(CommandKind.BOUND, bounds=bounds, given_by=who)] if bounds else [])]
    if not found:
        wanted = ", ".join(("bytes_per_s", *BOUNDS))
        raise OrderRefused(Refusal.INVALID, f"limit: say what to limit by one of {wanted}; 0: no limit")
    return (*found[:-1], found[-1]._replace(key=signature.key))


def command_for(order: ServiceOrder, signature: Signature) -> Command:
    """The executor's command for an order that turns moves.

    Raises:
        OrderRefused: a name is not a partition's.
    """
    named = []
    for name in order.partitions:
        topic, dash, number = name.rpartition("-")
        if not topic or not dash or not number.isdecimal():
            raise OrderRefused(Refusal.INVALID, f"{order.kind.value} {name!r}: a partition is wanted, as orders-3")
        named.append(TopicPartition(topic, int(number)))
    return Command(TURNS[order.kind], tuple(named), given_by=signature.who, key=signature.key)
