"""Orders to the service as the executor's commands; a value that makes no sense names the rule and a way out."""

from __future__ import annotations

from typing import Any

import pytest

from shunter.app.service.commands import commands_for
from shunter.model.execution import CommandKind
from shunter.model.service import OrderKind, OrderRefused, Refusal, ServiceOrder, Signature

ANNA = Signature("anna", key="k")


def test_limits_are_commands_of_the_throttle_and_of_the_bounds() -> None:
    limit = ServiceOrder(OrderKind.LIMIT, "lab", bytes_per_s=5_000, max_concurrent=0, max_in=4)
    throttle, bounds = commands_for(limit, ANNA)
    assert (throttle.kind, throttle.bytes_per_s, throttle.key) == (CommandKind.LIMIT, 5_000, "")
    assert (bounds.kind, bounds.bounds) == (CommandKind.BOUND, (("max_concurrent", 0), ("max_in", 4)))
    assert (bounds.given_by, bounds.key) == ("anna", "k"), (
        "who finds the last one in the journal knows that all were taken"
    )
    (lifted,) = commands_for(limit._replace(bytes_per_s=0, max_concurrent=None, max_in=None), ANNA)
    assert (lifted.kind, lifted.bytes_per_s, lifted.key) == (CommandKind.LIMIT, None, "k")


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        (OrderKind.LIMIT, {}, "say what to limit by one of bytes_per_s, max_concurrent"),
        (OrderKind.LIMIT, {"max_in": -1}, "a number from 0"),
        (OrderKind.LIMIT, {"max_in": 10**20}, "a number from 0"),
        (OrderKind.LIMIT, {"max_in": 4, "bytes_per_s": 1}, "bytes per second"),
        (OrderKind.STOP, {"partitions": ("orders",)}, "a partition is wanted, as orders-3"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: OrderKind, body: dict[str, Any], why: str) -> None:
    with pytest.raises(OrderRefused, match=why) as refused:
        commands_for(ServiceOrder(kind, "lab", **body), ANNA)
    assert refused.value.refusal is Refusal.INVALID
