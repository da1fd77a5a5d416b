"""Orders to the service as the executor's commands; a value that makes no sense names the rule and a way out."""

from __future__ import annotations

import pytest

from shunter.app.service.commands import command_for
from shunter.model.execution import CommandKind
from shunter.model.service import OrderKind, OrderRefused, Refusal, ServiceOrder, Signature

ANNA = Signature("anna", key="k")


def test_bounds_change_by_their_names_on_the_command_line() -> None:
    asked = ServiceOrder(OrderKind.BOUND, "lab", ("max-in=4", "max-concurrent=0"))
    command = command_for(asked, ANNA)
    assert (command.kind, command.bounds) == (CommandKind.BOUND, (("max_in", 4), ("max_concurrent", 0)))
    assert (command.given_by, command.key) == ("anna", "k")


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ((), "a bound is wanted, as max-in=4"),
        (("most-in=4",), "there are max-concurrent, max-in"),
        (("max-in",), "a number from 0"),
        (("max-in=many",), "a number from 0"),
        (("max-in=-1",), "a number from 0"),
        (("max-in=99999999999999999999",), "a number from 0"),
        (("max-in=٤",), "a number from 0"),
    ],
)
def test_a_bound_that_makes_no_sense_is_refused(about: tuple[str, ...], why: str) -> None:
    with pytest.raises(OrderRefused, match=why) as refused:
        command_for(ServiceOrder(OrderKind.BOUND, "lab", about), ANNA)
    assert refused.value.refusal is Refusal.INVALID
