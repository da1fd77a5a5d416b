"""What a service says of a cluster, and what it takes orders for, in the situations in which that was once wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from service_orders import order
from service_world import MIB, Clock, Life, MortalStore, Yard, policy

from shunter.app.service.driving import Driving, not_driven
from shunter.app.service.orders import OrderDesk
from shunter.app.service.service import sure
from shunter.cli.service.run import _show_proposal
from shunter.core.keeper.cluster_facts import Age
from shunter.core.keeper.sighting import Sighting
from shunter.core.keeper.situation import ClusterSeverity, ClusterSituation, situation, why_refused
from shunter.drivers.admin.bootstrap_probe import NoBrokerAnswers
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.drivers.journal.host_lock import SeatTaken, Sitter, StandsStill, StillDriver
from shunter.drivers.journal.journals import JournalHeld
from shunter.errors import DriverError
from shunter.model.execution import Command, CommandKind, LeaseHolder, OngoingReassignment
from shunter.model.keeper import DEFAULTS, KeeperPolicy, Mode
from shunter.model.notice import Notice
from shunter.model.service import IntentKind, OrderKind, OrderRefused, Refusal, ServiceOrder, Signature

ANNA = Signature("anna")
THEM = "ben on kafka2, process 4711"


def stands(life: Life) -> ClusterSituation:
    return life.published.page("yard").row.situation


def lived(folder: Path, yard: Yard, mode: Mode, story: Callable[[Life], Awaitable[None]]) -> None:
    """Live through a story with a service over a yard."""

    async def scenario() -> None:
        async with Life(yard, MortalStore(folder / "s"), policy(mode)) as life:
            await story(life)

    asyncio.run(scenario())


def test_no_order_is_done_at_a_standby(tmp_path: Path) -> None:
    yard = Yard(Clock(), held_by=THEM)

    async def story(life: Life) -> None:
        await life.until(lambda: life.keeper.known.held_by != "")
        await life.look()
        for kind in OrderKind:
            with pytest.raises(OrderRefused, match=THEM) as refused:
                await life.desk.carry_out(ServiceOrder(kind, "yard"), ANNA)
            assert refused.value.refusal is Refusal.STANDBY
        for kind in (OrderKind.PAUSE, OrderKind.RESUME):
            with pytest.raises(
                OrderRefused, match=f"yard is driven by {THEM}, and this service stands by: give the order there"
            ):
                await life.desk.carry_out(order(kind, cluster=""), ANNA)
        assert life.keeper.switch is None
        assert life.desk.fleet_switch is None
        assert life.desk.fleet_orders() == (
            (),
            f"yard is driven by {THEM}, and this service stands by: give the order there",
        )

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_who_drives_says_so_no_longer_once_its_claim_is_not_confirmed(tmp_path: Path) -> None:
    yard = Yard(Clock())

    async def story(life: Life) -> None:
        await life.first_look()
        for unheard_ms, driver in ((4_000, "this service"), (25_000, ""), (0, "this service")):
            yard.unheard_ms = unheard_ms
            yard.tell()
            assert stands(life).driver == driver

    lived(tmp_path, yard, Mode.PROPOSE, story)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (OngoingReassignment((1, 2, 3), (3,), (2,)), "it waits for broker 3, which is down"),
        (
            OngoingReassignment((1, 3, 2), (2,), (2,)),
            "broker 2 is being added and removed at once, and Kafka from 4.3 on never ends that",
        ),
    ],
    ids=["a dead broker", "stranded"],
)
def test_what_heals_does_not_wait_for_another_tools_move_that_never_ends(
    tmp_path: Path, other: OngoingReassignment, why: str
) -> None:
    """Seen by hand, and by an outsider: a heal had to wait "for the end" of a move, and none came."""
    yard = Yard(Clock(), [(1, 2, 3), (1, 3)], brokers=(1, 2), others={0: other})

    async def story(life: Life) -> None:
        await life.driven()
        await life.look()
        page = life.published.page("yard")
        offline = next(each for each in page.prospects if each.scope == "offline")
        assert (offline.held_back, offline.partitions) == ((), 1), "t-1"
        assert f"t-0 stays: another tool moves it, and {why}: `shunter rollback t-0` cancels it" in offline.undone
        (move,) = life.published.moves("yard").moves
        assert (move.whose, move.stuck) == ("external", f"{why}: `shunter rollback t-0` cancels it")

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_what_a_person_asked_for_is_in_the_headline_while_it_has_to_wait(tmp_path: Path) -> None:
    """An SRE's find: a drain waited for another tool's move, and what was being done named two bands alone."""
    yard = Yard(Clock(), [(1, 2), (2, 3)], others={0: OngoingReassignment((1, 2, 3), (3,), (3,))})

    async def story(life: Life) -> None:
        await life.driven()
        await life.desk.carry_out(order(IntentKind.DRAIN, "1"), ANNA)
        await life.look()
        assert "drain: 1 partition being moved (t-0): a plan has to wait for the end; no end" in stands(life).doing

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_a_plan_that_has_to_wait_is_no_plan_that_the_planner_does_not_find(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen by hand: under "the planner finds no plan" stood that a plan has to wait, and `status` said neither."""
    yard = Yard(Clock(), [(1, 2, 3)], brokers=(1, 2), others={0: OngoingReassignment((1, 2, 3), (), (3,))})

    async def story(life: Life) -> None:
        await life.driven()
        await life.look()
        waits = "1 partition being moved (t-0): a plan has to wait for the end"
        page = life.published.page("yard")
        prospect = next(each for each in page.prospects if each.scope == "offline")
        assert (prospect.partitions, prospect.held_back) == (0, (waits,))
        (dead,) = [each for each in page.conditions if each.condition.condition == "broker-dead"]
        assert dead.doing.startswith(waits)
        assert stands(life).doing.startswith(f"this service moves nothing; broker down: {waits}")
        _show_proposal(prospect, None)
        assert capsys.readouterr().out.startswith("blocked   offline: no plan now that mends broker-dead\n")

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_throttles_that_a_move_of_others_may_need_are_not_left_behind(tmp_path: Path) -> None:
    """Found by hand: those of a running `kafka-reassign-partitions --throttle` were to be removed, by a dead button."""
    yard = Yard(Clock(), throttles=3, others={0: OngoingReassignment((1, 2, 3), (3,), (2,))})

    async def story(life: Life) -> None:
        await life.driven()
        for left in (0, 3):
            await life.look()
            observation = life.keeper.known.observation
            assert observation is not None
            assert (len(life.published.page("yard").throttles_left), observation.throttles_left) == (left, left)
            assert (OrderKind.CLEAR_THROTTLES in stands(life).orders) == (left > 0)
            yard.others.clear()

    lived(tmp_path, yard, Mode.PROPOSE, story)


@pytest.mark.parametrize(
    ("error", "within_s", "looks"),
    [
        (DriverError("looking for topic j: the connection failed", retriable=True), 60.0, [4, 1]),
        (DriverError("looking for topic j: the connection failed", retriable=True), 0.0, [1, 1, 1, 1]),
        (NoBrokerAnswers("no broker answers: k1 refuses connections", retriable=True), 60.0, [1, 1, 1, 1]),
        (DriverError("the login is refused", retriable=False), 60.0, [1, 1, 1, 1]),
    ],
)
async def test_a_failed_connection_is_no_silence_before_it_has_lasted(
    error: DriverError, within_s: float, looks: list[int]
) -> None:
    """Found by hand: one of five brokers died, and for 11 s a critical message said that the cluster did not answer."""
    failures, asked = [error, error, error], 0

    async def look() -> Sighting:
        nonlocal asked
        asked += 1
        if failures:
            raise failures.pop()
        return Yard(Clock()).sight()

    found, surely = [], sure(look, within_s, 0.0)
    while sum(found) < 4 + (len(looks) == 2):
        asked = 0
        with contextlib.suppress(DriverError):
            await surely()
        found.append(asked)
    assert found == looks


def test_a_standby_knows_since_when_conditions_hold_and_tells_them_once_it_drives(tmp_path: Path) -> None:
    """Found by hand: a standby saw each condition for the first time at each look, and counted anew when it drove."""
    yard = Yard(Clock(), held_by=THEM)
    watched = {each: replace(DEFAULTS[each], mode=Mode.NOTIFY, minutes=2) for each in DEFAULTS}
    began_ms = yard.clock.ms

    async def scenario() -> None:
        async with Life(yard, MortalStore(tmp_path / "s"), KeeperPolicy(watched)) as life:
            await life.until(lambda: life.keeper.known.held_by != "")
            for minutes in range(4):
                yard.clock.ms = began_ms + 60_000 * minutes
                await life.look()
                held = {each.condition for each in life.published.page("yard").conditions}
                assert {each.minutes for each in held} == {minutes}
            assert not [each for each in life.events if each.kind == "condition"], "who drives tells them"
            yard.held_by = ""
            await life.driven()
            for _ in range(2):
                await life.look()
            told = [each for each in life.events if each.kind == "condition"]
            assert len(told) == len(held)
            assert {each.at_ms for each in told} == {began_ms}

    asyncio.run(scenario())


def test_a_standby_shows_who_drives_and_the_moves_of_the_journal(tmp_path: Path) -> None:
    yard = Yard(Clock(), brokers=(1, 2, 3))

    async def begun(life: Life) -> None:
        await life.first_look()
        assert yard.open

    lived(tmp_path, yard, Mode.ACT, begun)
    yard.held_by, yard.brokers = THEM, (1, 3)

    async def story(life: Life) -> None:
        await life.until(lambda: life.keeper.known.held_by != "")
        await life.look()
        seen = stands(life)
        assert (seen.headline, seen.state, seen.driver) == ("broker 2 down", "standby", THEM)
        assert seen.doing.startswith(f"this service stands by: {THEM} drives the cluster"), "whatever conditions hold"
        assert f"{len(yard.open)} moves of the journal open when last observed" in seen.doing
        moves = life.published.moves("yard")
        assert [(row.partition, row.whose) for row in moves.moves] == [(f"t-{at}", "ours") for at in yard.open]
        assert (moves.plan_bytes, moves.rollback_bytes, moves.left_ms) == (None, None, None), "only who drives knows"
        assert life.published.page("yard").row.moves_open == len(yard.open)
        assert not [event for event in life.events if event.kind == "not-driven"]

    lived(tmp_path, yard, Mode.ACT, story)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ClusterClaimed(THEM), (THEM, "")),
        (JournalHeld("j", LeaseHolder("me", "kafka2", 4711, 9)), (str(LeaseHolder("me", "kafka2", 4711, 9)), "")),
        (SeatTaken("told", Sitter(7, "j", None)), ("process 7 under journal j", "")),
        (SeatTaken("told"), ("another process of this host", "")),
        (DriverError("it is silent", retriable=True, flags=": say --take-over-cluster"), ("", "it is silent")),
    ],
)
def test_who_drives_is_told_without_advice_for_another_command(error: DriverError, told: tuple[str, str]) -> None:
    assert not_driven(error) == told
    assert "--" not in "".join(not_driven(error))


def test_a_process_that_stands_still_does_not_drive() -> None:
    who, why = not_driven(
        StandsStill(StillDriver(7, 0, stopped=True), "; or `--take-over-cluster` takes the journal from it")
    )
    assert who == ""
    assert why.endswith("continue it (kill -CONT 7) or end it (kill -9 7)")


def test_figures_of_a_cluster_that_is_away_are_old_and_a_lifted_switch_is_lifted(tmp_path: Path) -> None:
    yard = Yard(Clock())

    async def story(life: Life) -> None:
        await life.first_look()
        observed_ms = yard.clock.ms
        await life.desk.carry_out(order(OrderKind.PAUSE), ANNA)
        assert stands(life).headline.startswith("paused by anna")
        yard.answers = False
        yard.clock.ms += 60_000
        await life.look()
        seen = stands(life)
        assert (seen.headline, seen.figures, seen.observed_at_ms) == (
            "does not answer: no broker answers",
            Age.OLD,
            observed_ms,
        )
        assert any(note.startswith("paused by anna") for note in seen.notes)
        life.keeper.driving = None  # The executor is gone with the cluster.
        done = await life.desk.carry_out(order(OrderKind.RESUME), ANNA)
        assert "moves of yard are resumed once this service drives it" in done.text
        row = life.published.page("yard").row
        assert row.paused is None
        assert not any(note.startswith("paused") for note in row.situation.notes)
        assert any("lifted the pause" in note for note in row.situation.notes)

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_an_observation_that_hangs_gets_old(tmp_path: Path) -> None:
    yard = Yard(Clock())

    async def story(life: Life) -> None:
        await life.first_look()
        assert stands(life).figures is Age.CURRENT
        yard.clock.ms += life.keeper.known.stale_ms + 1
        life.keeper.show()
        assert (stands(life).figures, stands(life).unserved) == (Age.OLD, "the last observation is old")

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_a_cluster_that_answers_again_is_not_said_to_be_silent(tmp_path: Path) -> None:
    """Found by hand: the message that a cluster answers again said why nobody drove it: no broker answers, five times."""
    yard = Yard(Clock(), answers=False)

    async def story(life: Life) -> None:
        await life.until(lambda: life.keeper.known.idle_why != "")
        life.keeper.known.unanswered = True
        await life.look()
        assert stands(life).doing == "this service does not drive the cluster, which does not answer"
        life.keeper.parts = replace(life.keeper.parts, drive_again_s=3600.0)
        yard.answers = True
        life.keeper.known.unanswered = True
        await life.look()
        (back,) = [each for each in life.events if each.kind == "cluster-back"]
        assert back.facts["doing"] in (
            "this service does not drive the cluster: its executor is being started",
            "this service has just begun to drive the cluster, and reads its journal",
            "this service moves nothing",
        )

    lived(tmp_path, yard, Mode.PROPOSE, story)


@pytest.mark.parametrize("sign", ["silent_ms", "unheard_ms"])
def test_who_drives_says_at_once_that_the_cluster_does_not_answer(tmp_path: Path, sign: str) -> None:
    """An SRE's find: for up to a minute the driver said "healthy", and a standby said that no broker answers."""
    yard = Yard(Clock())

    async def story(life: Life) -> None:
        await life.driven()
        looking = asyncio.create_task(life.keeper.look_forever())
        await life.until(lambda: stands(life).state == "ok" and stands(life).figures is Age.CURRENT)
        yard.answers = False
        setattr(yard, sign, 8_000)
        yard.tell()
        await life.until(lambda: stands(life).state == "unreachable")
        assert (stands(life).severity, stands(life).headline) == (
            ClusterSeverity.CRITICAL,
            "does not answer: no broker answers",
        )
        assert stands(life).doing.endswith("this service moves nothing, and nothing begins before the cluster answers")
        failed = life.keeper.counts.failed_observations
        yard.tell()
        for _turn in range(100):
            await asyncio.sleep(0)
        assert life.keeper.counts.failed_observations == failed, "one sign is one look"
        yard.answers = True
        setattr(yard, sign, 0)
        yard.tell()
        await life.until(lambda: stands(life).state == "ok")
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)

    lived(tmp_path, yard, Mode.PROPOSE, story)


@pytest.mark.parametrize(
    ("error", "after_ms"),
    [
        (NoBrokerAnswers("no broker answers", retriable=True), 0),
        (DriverError("the coordinator does not answer", retriable=True), 16_000),
    ],
)
def test_a_standby_whose_cluster_is_gone_looks_at_once(tmp_path: Path, error: DriverError, after_ms: int) -> None:
    yard = Yard(Clock(), held_by=THEM)
    gone: list[DriverError] = []

    @contextlib.asynccontextmanager
    async def seat(listener: Callable[[Notice], None]) -> AsyncIterator[Driving]:
        if gone:
            raise gone[0]
        async with yard.seat(listener) as driving:
            yield driving

    async def scenario() -> None:
        async with Life(yard, MortalStore(tmp_path / "s"), policy(Mode.PROPOSE), seat=seat) as life:
            looking = asyncio.create_task(life.keeper.look_forever())
            await life.until(lambda: stands(life).state == "standby" and stands(life).figures is Age.CURRENT)
            yard.answers = False
            gone.append(error)
            yard.clock.ms += after_ms
            await life.until(lambda: stands(life).state == "unreachable")
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    asyncio.run(scenario())


def test_the_imbalance_says_of_which_brokers_it_is(tmp_path: Path) -> None:
    """An SRE's find: a card said "Imbalance 100 %", and not that this was of bytes, and of the broker just emptied."""
    yard = Yard(Clock(), [(1, 2), (1, 2), (1, 3)])

    async def story(life: Life) -> None:
        for drained, told in (
            (False, "bytes of broker 1 against the mean of 3 live brokers"),
            (True, "bytes of broker 1 against the mean of 2 live brokers, without broker 3 to be emptied"),
        ):
            if drained:
                await life.desk.carry_out(order(IntentKind.DRAIN, "3"), ANNA)
            await life.first_look()
            assert life.published.page("yard").row.balance_of == told
        yard.silent = (2,)
        await life.look()
        row = life.published.page("yard").row
        assert (row.balance, row.balance_of) == (None, "broker 2 did not tell its log dirs")

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_who_has_just_begun_to_drive_does_not_say_that_nothing_moves(tmp_path: Path) -> None:
    """An outsider's find, for seconds after a take-over: "moves nothing", and its journal had ten open moves."""

    async def story(life: Life) -> None:
        await life.driven()
        life.keeper.known.execution = None  # As before the journal is read.
        assert situation(life.keeper.facts()).doing == (
            "this service has just begun to drive the cluster, and reads its journal"
        )

    lived(tmp_path, Yard(Clock(), [(1, 2, 3)]), Mode.PROPOSE, story)


def test_what_is_told_of_a_change_says_how_the_cluster_stands_after_it(tmp_path: Path) -> None:
    """A message said "offline-… proposed", and beside it "a plan is proposed after the next observation"."""
    yard = Yard(Clock(), [(1, 2, 3)], brokers=(1, 2, 4))

    async def story(life: Life) -> None:
        await life.driven()
        await life.look()
        yard.clock.ms += 600_000  # It has held for its minutes.
        await life.look()
        (proposal,) = life.keeper.proposals.values()
        (event,) = [each for each in life.events if each.kind == "proposed"]
        assert f"broker down: proposal {proposal.id} waits for approval" in event.facts["doing"]
        await life.desk.carry_out(order(OrderKind.DECLINE, proposal.id), ANNA)
        declined = next(each for each in reversed(life.events) if each.subject == proposal.id)
        assert proposal.id not in declined.facts["doing"], "it is declined"
        assert "scope offline is held: declined by anna" in declined.facts["doing"]

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_the_kill_switch_of_a_cluster_that_is_not_driven_is_kept_and_not_called_done(tmp_path: Path) -> None:
    yard = Yard(Clock(), answers=False)

    async def story(life: Life) -> None:
        await life.until(lambda: life.keeper.known.idle_why != "")
        done = await life.desk.carry_out(order(OrderKind.PAUSE), ANNA)
        assert done.text == (
            "the pause of yard is kept, and its moves under way are paused once this service drives it: no broker answers"
        )
        assert "is paused" not in done.text
        (event,) = [each for each in life.events if each.kind == "pause-all"]
        assert event.text == f"anna: {done.text}"
        assert event.facts["situation"] == stands(life).headline
        assert (event.facts["severity"], event.facts["doing"]) == (stands(life).severity.value, stands(life).doing)
        told = life.desk.preview(order(OrderKind.PAUSE), "anna")
        again = "yard is already paused by anna since 1970-01-01 12:00 UTC, and that stays"
        assert (told.text, told.moves, told.bytes) == (f"Then {again}; {done.text}", 0, 0)
        notes = " | ".join(stands(life).notes)
        assert "but moves under way only once this service drives the cluster" in notes

    lived(tmp_path, yard, Mode.PROPOSE, story)


async def test_an_order_to_the_fleet_names_each_cluster_in_which_it_is_not_in_force(tmp_path: Path) -> None:
    yards = {"here": Yard(Clock()), "theirs": Yard(Clock(), held_by=THEM), "away": Yard(Clock(), answers=False)}
    async with contextlib.AsyncExitStack() as stack:
        lives = {
            name: await stack.enter_async_context(Life(yard, MortalStore(tmp_path / name), name=name))
            for name, yard in yards.items()
        }
        await lives["here"].driven()
        await lives["theirs"].until(lambda: lives["theirs"].keeper.known.held_by != "")
        await lives["away"].until(lambda: lives["away"].keeper.known.idle_why != "")
        desk = OrderDesk({name: life.keeper for name, life in lives.items()}, lives["here"].records)
        theirs = f"theirs is driven by {THEM}, and this service stands by: give the order there"
        for kind, here, away in (
            (OrderKind.PAUSE, "here is paused: nothing begins", "the pause of away is kept, and its moves"),
            (OrderKind.RESUME, "the pause of here, away is lifted", "moves of away are resumed once this"),
        ):
            done = await desk.carry_out(order(kind, cluster=""), Signature("anna", key=kind.value))
            assert done.text.startswith(here)
            assert [each for each in done.undone if not each.startswith(away)] == [theirs]
            assert len(done.undone) == 2
            assert await desk.carry_out(order(kind, cluster=""), Signature("anna", key=kind.value)) == done
        done = await desk.carry_out(order(OrderKind.PAUSE, cluster="here"), ANNA)
        assert done.undone == ()


def test_conditions_that_a_running_execution_mends_say_so(tmp_path: Path) -> None:
    yard = Yard(Clock())

    async def story(life: Life) -> None:
        await life.first_look()
        await life.until(lambda: bool(life.published.moves("yard").moves))
        (running,) = life.keeper.proposals
        doing = {each.condition.condition: each.doing for each in life.published.page("yard").conditions}
        opened = len(yard.open)
        assert doing.pop("broker-empty") == (f"being mended: this service carries out {running}: {opened} moves open")
        assert set(doing.values()) == {f"a plan for this has to wait for the end of {opened} open moves"}
        (begun,) = [each for each in life.events if each.kind == "begun"]
        assert begun.facts["doing"] == f"this service begins {running}"

    lived(tmp_path, yard, Mode.ACT, story)


def test_a_healthy_move_is_not_under_replicated_anywhere(tmp_path: Path) -> None:
    move = OngoingReassignment((1, 2, 3), (3,), (2,))
    yard = Yard(Clock(), rows=[(1, 2, 3), (1, 2)], brokers=(1, 2), others={0: move})

    async def story(life: Life) -> None:
        await life.first_look()
        page = life.published.page("yard")
        assert (page.row.under_replicated, page.under_replicated, page.topics[0].under_replicated) == (0, (), 0)
        assert all(each.condition.condition != "under-replicated" for each in page.conditions)

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_what_would_happen_is_said_by_the_same_rules_that_decide(tmp_path: Path) -> None:
    yard = Yard(Clock())

    async def story(life: Life) -> None:
        await life.first_look()
        await life.until(lambda: bool(yard.open))
        opened = len(yard.open)
        kept = life.desk.preview(order(OrderKind.PAUSE, *(f"t-{number}" for number in yard.open)), "anna")
        assert kept.text == (
            f"{opened} open moves would be paused: no further step begins, and copies stand still. Copied data is kept"
        )
        yard.price = MIB
        lost = life.desk.preview(order(OrderKind.PAUSE, "t-0"), "anna")
        assert "Copied data is kept" not in lost.text
        assert lost.text.endswith("1.0 MB are copied again: a paused copy is cancelled")
        back = life.desk.preview(order(OrderKind.ROLL_BACK), "anna")
        assert (back.bytes, back.moves) == (MIB, opened)
        switch = life.desk.preview(order(OrderKind.PAUSE, cluster=""), "anna")
        assert switch.text.startswith(
            "Then the fleet is paused: nothing begins, and moves under way are being paused. 1.0 MB"
        )
        with pytest.raises(OrderRefused, match="intend is no order to moves"):
            life.desk.preview(order(IntentKind.DRAIN, "1"), "anna")
        await life.desk.carry_out(order(OrderKind.PAUSE), ANNA)
        with pytest.raises(OrderRefused, match="`shunter resume --service SERVICE` lifts the pause"):
            life.desk.preview(order(OrderKind.RESUME, "t-0"), "anna")
        assert "lifted" in (life.desk.preview(order(OrderKind.RESUME), "anna")).text

    lived(tmp_path, yard, Mode.ACT, story)


def test_orders_of_other_shells_keep_to_the_kill_switch_and_carry_their_giver(tmp_path: Path) -> None:
    yard = Yard(Clock())
    resume, pause = (Command(kind, given_by="ben (shunter turn)") for kind in (CommandKind.RESUME, CommandKind.PAUSE))

    async def story(life: Life) -> None:
        await life.first_look()
        gate = yard.gate
        assert gate is not None
        assert [gate.refusal(each) for each in (resume, pause, None)] == ["", "", ""]
        await life.desk.carry_out(order(OrderKind.PAUSE), ANNA)
        told = "yard is paused as a whole by anna, so nothing"
        way_out = "`shunter resume --service SERVICE` lifts the pause"
        assert gate.refusal(resume) == f"{told} goes on: {way_out}"
        assert gate.refusal(None) == f"{told} begins: {way_out}"
        assert gate.refusal(pause) == ""
        gate.taken("pause t-3", "ben (shunter pause)", "1 move paused")
        await life.until(lambda: life.events[-1].kind == "pause")
        event = life.events[-1]
        assert (event.who, event.subject) == ("ben (shunter pause)", "t-3")
        assert event.text == "ben (shunter pause): pause t-3: 1 move paused"

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_every_order_that_is_offered_is_taken(tmp_path: Path) -> None:
    yard = Yard(Clock(), throttles=2)
    no_turns = (OrderKind.STOP, OrderKind.RESUME, OrderKind.ROLL_BACK, OrderKind.LIMIT)

    async def story(life: Life) -> None:
        await life.first_look()
        waiting = next(iter(life.keeper.proposals))
        offered = set(stands(life).orders)
        assert OrderKind.APPROVE in offered
        assert not offered & {*no_turns}
        await life.desk.carry_out(order(OrderKind.CLEAR_THROTTLES), ANNA)
        await life.desk.carry_out(order(OrderKind.APPROVE, waiting), ANNA)
        await life.look()
        await life.until(lambda: bool(yard.open))
        first = f"t-{min(yard.open)}"
        for asked in (
            order(OrderKind.LIMIT, bytes_per_s=5_000, max_in=4, max_concurrent=0),
            order(OrderKind.PAUSE, first),
            order(OrderKind.RESUME, first),
            order(OrderKind.PAUSE, first),
            order(OrderKind.RESUME),
            order(OrderKind.PAUSE),
            order(OrderKind.RESUME),
        ):
            assert asked.kind in stands(life).orders, asked
            await life.desk.carry_out(asked, ANNA)
            life.keeper.show()
            await life.until(lambda: life.keeper.switch is None or not life.keeper.switch.lifted)
        assert OrderKind.CLEAR_THROTTLES not in stands(life).orders
        await life.desk.carry_out(order(OrderKind.ROLL_BACK), ANNA)
        await life.until(lambda: not yard.open)
        life.keeper.show()
        assert not set(stands(life).orders) & {*no_turns}

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_without_the_journal_nobody_is_said_to_move(tmp_path: Path) -> None:
    others = {0: OngoingReassignment((1, 2, 3), (3,), (2,))}
    yard = Yard(Clock(), others=others, held_by=THEM, journal_read=False)

    async def story(life: Life) -> None:
        await life.until(lambda: life.keeper.known.held_by != "")
        await life.look()
        (row,) = life.published.moves("yard").moves
        assert row.whose == "unknown"
        assert any("it is not known whose" in note for note in (stands(life).headline, *stands(life).notes))
        assert why_refused(OrderKind.CLEAR_THROTTLES, life.keeper.facts()) is not None

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_a_broker_that_is_registered_and_down_counts_as_down_even_without_replicas(tmp_path: Path) -> None:
    yard = Yard(Clock(), fenced=(9,))

    async def story(life: Life) -> None:
        await life.first_look()
        row = life.published.page("yard").row
        assert row.brokers_down == (9,)
        assert row.situation.severity is ClusterSeverity.WARNING
        assert row.situation.headline.startswith("broker 9 down: registered, fenced, without replicas")

    lived(tmp_path, yard, Mode.PROPOSE, story)


def test_the_service_that_drives_knows_its_moves_though_a_look_can_not_read_the_journal(tmp_path: Path) -> None:
    yard = Yard(Clock(), brokers=(1, 2, 3))

    async def begun(life: Life) -> None:
        await life.first_look()
        assert yard.open
        theirs = len(yard.rows)
        yard.rows.append((1, 3))
        moving = {at: OngoingReassignment(yard.rows[at], (9,), ()) for at in (*yard.open, theirs)}
        yard.others, yard.journal_read = moving, False
        await life.look()
        notes = " | ".join((stands(life).headline, *stands(life).notes))
        assert "not known whose" not in notes
        assert f"{len(yard.open)} moves open" in f"{notes} | {stands(life).doing}"
        assert "1 move of other tools under way when last observed" in notes
        shown = [(row.partition, row.whose) for row in life.published.moves("yard").moves if row.whose != "ours"]
        assert shown == [(f"t-{theirs}", "external")]

    lived(tmp_path, yard, Mode.ACT, begun)


def test_while_the_cluster_can_not_be_observed_no_rate_and_no_end_are_shown(tmp_path: Path) -> None:
    yard = Yard(Clock(), brokers=(1, 2, 3))

    async def story(life: Life) -> None:
        await life.first_look()
        known = life.keeper.known
        assert known.execution is not None
        known.execution = replace(known.execution, bytes_per_s=5.0, left_ms=7, low_ms=6, high_ms=8)
        life.keeper.show_moves()
        moves = life.published.moves("yard")
        assert (moves.copy_bytes_per_s, moves.left_ms, life.published.page("yard").row.left_ms) == (5.0, 7, 7)
        yard.answers = False
        await life.keeper.look_once()
        moves = life.published.moves("yard")
        assert (moves.copy_bytes_per_s, moves.left_ms, moves.low_ms, moves.high_ms) == (None, None, None, None)
        assert moves.why_no_eta == "the cluster does not answer"
        assert life.published.page("yard").row.left_ms is None

    lived(tmp_path, yard, Mode.ACT, story)
