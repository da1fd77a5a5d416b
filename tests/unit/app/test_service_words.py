"""People's words count: what was stopped or rolled back is not begun again, whoever looks, and across restarts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from service_orders import order
from service_world import Clock, Killed, Life, MortalStore, Yard

from shunter.model.execution import Command, CommandKind
from shunter.model.keeper import DEFAULTS, Condition, Intents, KeeperPolicy, Mode
from shunter.model.service import (
    IntentKind,
    KeptProposal,
    OrderKind,
    OrderRefused,
    ProposalState,
    Signature,
)

ANNA, BEN = Signature("anna"), Signature("ben")
OFF = {each: replace(watch, mode=Mode.OFF) for each, watch in DEFAULTS.items()}
ACTING = KeeperPolicy({**OFF, Condition.DRAIN: replace(DEFAULTS[Condition.DRAIN], mode=Mode.ACT)})
"""A broker that is to be drained is drained, and nothing else is done."""
DRAINED = replace(ACTING, intents=Intents(drain=(2,)))
UNBALANCED: list[tuple[int, ...]] = [(1, 2), (1, 3), (1, 2), (3, 2), (1, 3), (3, 2)]


async def running(life: Life) -> KeptProposal:
    """Look until a proposal runs."""
    await life.driven()
    for _ in range(4):
        await life.look()
    return next(each for each in life.keeper.proposals.values() if each.state is ProposalState.RUNNING)


async def looks(life: Life, hours: int = 3) -> None:
    for _ in range(hours):
        life.yard.clock.ms += 3_600_000
        await life.look()


@pytest.mark.parametrize("kind", [OrderKind.ROLL_BACK, OrderKind.STOP])
async def test_a_drain_of_the_policy_file_is_not_begun_again_until_somebody_lifts_the_hold(
    tmp_path: Path, kind: OrderKind
) -> None:
    yard = Yard(Clock(), rows=[*UNBALANCED])
    async with Life(yard, MortalStore(tmp_path / "s"), DRAINED) as life:
        drain = await running(life)
        assert drain.scope == "drain"
        assert "Nothing of scope drain begins by itself" in life.desk.preview(order(kind), "anna").text, (
            "it is said before"
        )
        done = await life.desk.carry_out(order(kind), ANNA)
        assert (
            "nothing of scope drain begins by itself until `shunter withdraw hold drain` lifts that; plans of"
            in done.text
        )
        await life.until(lambda: not life.keeper.proposals)
        await looks(life)
        assert yard.submitted == [drain.id]
        (condition,) = life.published.page("yard").conditions
        word = "rolled back" if kind is OrderKind.ROLL_BACK else "stopped"
        assert f"held: {word} by anna at 1970-01-01 12:00 UTC" in condition.doing
    async with Life(yard, MortalStore(tmp_path / "s"), DRAINED) as life:
        await life.driven()
        await looks(life)
        assert yard.submitted == [drain.id], "the word outlives the process"
        assert [each.kind for each in life.keeper.intents] == [IntentKind.HOLD]
        assert (
            "hold of drain is withdrawn"
            in (await life.desk.carry_out(order(OrderKind.WITHDRAW, "hold", "drain"), BEN)).text
        )
        await looks(life, 2)
        assert len(yard.submitted) == 2


async def test_a_withdrawal_says_which_moves_go_on(tmp_path: Path) -> None:
    """An SRE's find: a drain was withdrawn in its middle, and emptied the broker all the same, without a word."""
    yard = Yard(Clock(), rows=[*UNBALANCED])
    async with Life(yard, MortalStore(tmp_path / "s"), ACTING) as life:
        await life.driven()
        await life.desk.carry_out(order(IntentKind.DRAIN, "2"), BEN)
        drain = await running(life)
        done = await life.desk.carry_out(order(OrderKind.WITHDRAW, "drain", "2"), ANNA)
        assert done.text.startswith("drain of 2 is withdrawn; ")
        assert f" of {drain.id} under way for it go on: `shunter stop`" in done.text
        await life.desk.carry_out(order(IntentKind.FREEZE_TOPIC, "x"), ANNA)
        done = await life.desk.carry_out(order(OrderKind.WITHDRAW, "freeze-topic", "x"), ANNA)
        assert done.text == "freeze-topic of x is withdrawn"


async def test_an_intent_is_taken_back_by_the_rollback_of_its_plan(tmp_path: Path) -> None:
    yard = Yard(Clock(), rows=[*UNBALANCED])
    async with Life(yard, MortalStore(tmp_path / "s"), ACTING) as life:
        await life.driven()
        await life.desk.carry_out(order(IntentKind.DRAIN, "2"), BEN)
        drain = await running(life)
        told = "it withdraws drain of 2, which ben asked for"
        assert life.desk.preview(order(OrderKind.ROLL_BACK), "anna").text.endswith(f". I{told[1:]}")
        assert "drain of 2" not in life.desk.preview(order(OrderKind.PAUSE), "anna").text
        done = await life.desk.carry_out(order(OrderKind.ROLL_BACK), ANNA)
        assert told in done.text
        assert life.keeper.intents == (), "nothing is held: a later drain is a word of its own"
        await life.until(lambda: not life.keeper.proposals)
        await looks(life)
        assert yard.submitted[0] == drain.id
        assert not any(each.startswith("drain") for each in yard.submitted[1:])
    async with Life(yard, MortalStore(tmp_path / "s"), ACTING) as life:
        assert life.keeper.intents == ()


async def test_a_word_against_a_part_holds_the_rest_of_the_scope_once_the_others_are_done(tmp_path: Path) -> None:
    yard = Yard(Clock(), rows=[*UNBALANCED])
    async with Life(yard, MortalStore(tmp_path / "s"), ACTING) as life:
        await life.driven()
        await life.desk.carry_out(order(IntentKind.DRAIN, "2"), BEN)
        drain = await running(life)
        await life.desk.carry_out(order(OrderKind.STOP, f"t-{yard.open[0]}"), ANNA)
        assert {each.kind for each in life.keeper.intents} == {IntentKind.DRAIN, IntentKind.HOLD}
        yard.copy()
        await life.until(lambda: not life.keeper.proposals)
        await looks(life)
        assert yard.submitted == [drain.id]


async def test_a_rollback_that_the_command_line_gave_to_the_executor_counts_as_well(tmp_path: Path) -> None:
    """`shunter rollback` on the same host goes into the journal, past the service."""
    yard = Yard(Clock(), rows=[*UNBALANCED])
    async with Life(yard, MortalStore(tmp_path / "s"), DRAINED) as life:
        drain = await running(life)
        driving = life.keeper.driving
        assert driving is not None
        await driving.command(Command(CommandKind.ROLL_BACK, given_by="rollback"))
        await life.until(lambda: not life.keeper.proposals)
        await looks(life)
        assert yard.submitted == [drain.id]
        (hold,) = life.keeper.intents
        assert (hold.kind, hold.about, hold.who, hold.comment) == (
            IntentKind.HOLD, "drain", "rollback", "rolled back",
        )  # fmt: skip
        (ended,) = [each for each in life.store.proposals("yard", ended=True) if each.id == drain.id]
        assert ended.state is ProposalState.TURNED
        assert "rolled back by rollback" in ended.outcome


@pytest.mark.parametrize("before", [True, False])
def test_killed_at_any_write_no_word_is_lost(tmp_path: Path, *, before: bool) -> None:
    async def scenario(kill_at: int) -> int:
        yard = Yard(Clock(), rows=[*UNBALANCED])
        path = tmp_path / f"{kill_at}"
        store = MortalStore(path, kill_at, before=before)
        given = False
        try:
            async with Life(yard, store, DRAINED) as life:
                await running(life)
                given = True
                await life.desk.carry_out(order(OrderKind.ROLL_BACK), ANNA)
                await life.until(lambda: not life.keeper.proposals)
                await looks(life)
                writes, store.kill_at = store.writes, 0
        except Killed:
            writes = 0
        # The order may not have reached the executor: then nobody has taken it, and the drain goes on.
        taken = any(each.kind is CommandKind.ROLL_BACK for each in yard.orders)
        submitted = [*yard.submitted]
        async with Life(yard, MortalStore(path), DRAINED) as life:
            await life.driven()
            await looks(life)
            if given and taken:
                assert yard.submitted == submitted, f"killed at write {kill_at}"
                assert [each.kind for each in life.keeper.intents] == [IntentKind.HOLD]
        return writes

    writes = asyncio.run(scenario(0))
    assert writes >= 6
    for kill_at in range(1, writes + 1):
        asyncio.run(scenario(kill_at))


async def test_a_person_holds_a_scope_by_hand(tmp_path: Path) -> None:
    yard = Yard(Clock(), rows=[*UNBALANCED])
    async with Life(yard, MortalStore(tmp_path / "s"), DRAINED) as life:
        await life.driven()
        with pytest.raises(OrderRefused, match="'drian' is no scope"):
            await life.desk.carry_out(order(IntentKind.HOLD, "drian"), ANNA)
        await life.desk.carry_out(order(IntentKind.HOLD, "drain"), Signature("anna", "incident 12"))
        await looks(life)
        assert yard.submitted == []
        (condition,) = life.published.page("yard").conditions
        assert "held by anna at 1970-01-01 12:00 UTC (incident 12)" in condition.doing
        await life.desk.carry_out(order(IntentKind.HOLD, "drain"), BEN)
        (kept,) = life.keeper.intents
        assert (kept.who, kept.comment) == ("anna", "incident 12")
