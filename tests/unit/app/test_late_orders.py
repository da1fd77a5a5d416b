"""Orders that the executor does not answer in time: nothing is promised that nobody keeps."""

import asyncio
from pathlib import Path

import pytest
from service_orders import order
from service_world import Clock, Life, MortalStore, Yard, policy

from shunter.app.service import orders
from shunter.model.keeper import Mode
from shunter.model.service import UNANSWERED, OrderKind, OrderRefused, ServiceOrder, Signature

ANNA = Signature("anna", key="k-1")


@pytest.mark.parametrize("taken", [True, False])
async def test_the_history_says_what_became_of_an_order_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    """An SRE's find: a limit was "done once it does", another service took over, and nobody said that it was lost."""
    monkeypatch.setattr(orders, "ANSWER_WITHIN_S", 0.05)
    yard = Yard(Clock())
    async with Life(yard, MortalStore(tmp_path / "s"), policy(Mode.ACT)) as life:
        await life.first_look()
        before = len(yard.orders)
        yard.journals = asyncio.Event()
        done = await life.desk.carry_out(order(OrderKind.PAUSE, "t-0"), ANNA)
        assert "the history says what becomes of it" in done.text
        assert "done once it does, unless another service drives it then" in done.text
        yard.dies = "" if taken else "order"
        yard.journals.set()
        kind, told = ("pause", "anna: pause t-0: pause 1")
        if not taken:
            why = "not carried out, as far as is known: yard: the executor ended before it could answer: ask again with the"
            kind, told = UNANSWERED, f"the pause of anna (t-0) is {why} same key"
        await life.until(lambda: any(event.text == told for event in life.events))
        (event,) = [each for each in life.events if each.text == told]
        assert (event.kind, event.who, event.subject) == (kind, "anna", "t-0")
        yard.dies = ""
        again = await life.desk.carry_out(order(OrderKind.PAUSE, "t-0"), ANNA)
        assert again.text == "pause 1", "the same key: it was taken, or is carried out now"
        assert len(yard.orders) == before + 1


async def test_a_pause_by_who_may_not_drive_any_more_is_not_said_to_hold_everywhere(tmp_path: Path) -> None:
    """An SRE's find: a service that was cut off said "the fleet is paused", and another one went on."""
    yard = Yard(Clock())
    async with Life(yard, MortalStore(tmp_path / "s"), policy(Mode.ACT)) as life:
        await life.first_look()
        yard.unheard_ms = 60_000
        done = await life.desk.carry_out(ServiceOrder(OrderKind.PAUSE), Signature("anna"))
        assert done.text.startswith("this service moves nothing in yard any more, and its claim is not confirmed since")
        assert "is paused: nothing begins" not in done.text
        assert done.undone
        assert life.keeper.switch is not None


async def test_a_pause_that_was_lifted_is_not_called_one_by_name(tmp_path: Path) -> None:
    """An SRE's find: a second resume in an outage said that moves "were paused by name"."""
    yard = Yard(Clock())
    async with Life(yard, MortalStore(tmp_path / "s"), policy(Mode.ACT)) as life:
        await life.first_look()
        await life.desk.carry_out(ServiceOrder(OrderKind.PAUSE), Signature("anna"))
        yard.journals = asyncio.Event()
        await life.desk.carry_out(ServiceOrder(OrderKind.RESUME), Signature("ben"))
        with pytest.raises(
            OrderRefused, match="the pause of yard was lifted already, by ben: its moves go on as soon as"
        ):
            await life.desk.carry_out(ServiceOrder(OrderKind.RESUME), Signature("ben"))
        yard.journals.set()
        await life.until(lambda: life.keeper.switch is None)
