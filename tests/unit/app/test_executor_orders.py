"""Sessions and orders of the executor: taken up or taken back, given up, and their costs told at the worst."""

import asyncio
import contextlib
import os
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from lab.testbed.waiting import wait_until
from shunter.app.executor import driving, order_costs
from shunter.app.executor.driving import SessionStart, drive, paused_beside
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.order_costs import bytes_again, price_now, price_of, told_price
from shunter.app.executor.orders import HolderGone, order_plan, told_others
from shunter.app.executor.outcome import exit_code, told_end
from shunter.app.executor.session import Session, Target
from shunter.app.exit_codes import ExitCode
from shunter.core.executor.apply import apply
from shunter.core.executor.machine import Executor
from shunter.core.executor.ready import CommandReply
from shunter.core.executor.state import ExecutorState
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS
from shunter.drivers.admin.answers import SettingsSeen, TopicsSeen
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.drivers.admin.protocol import AdminClient
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.execution import ExecutionDriver
from shunter.drivers.journal.host_lock import DriverSeat, StandsStill
from shunter.drivers.journal.journals import LEASE_MS
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.model.execution import (
    Command,
    CommandKind,
    ExecutionClosed,
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    MoveAccepted,
    MoveClosed,
    MoveOrder,
    MovePaused,
    ObservedPartition,
    ObservedTopic,
    OngoingReassignment,
    Outcome,
    PlanAccepted,
    ReplicaSize,
    StepAccepted,
    StepBegun,
    ThrottleKey,
)
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import ExecutionView

PLAN = (MoveOrder(TopicPartition("t", 0), (1, 2)),)
T0, T1 = (TopicPartition("t", number) for number in range(2))


async def handed_over(place: JournalPlace) -> dict[str, object]:
    return await order_plan(place, PLAN, ExecutionOptions())


async def test_a_plan_that_whoever_drives_did_not_take_up_before_its_end_is_taken_back(tmp_path: Path) -> None:
    with closing(SqliteJournal(tmp_path / "a.journal", "driver")) as driver:
        driver.acquire(SystemClock().now_ms())
        asked = asyncio.create_task(handed_over(JournalPlace(driver.path)))
        await asyncio.to_thread(wait_until, lambda: driver.orders() != (), what="the plan", timeout_s=20)
        driver.release()  # As an executor that ends in this very moment.
        async with asyncio.timeout(60):
            with pytest.raises(HolderGone, match="ended before it took this up"):
                await asked
        assert driver.orders() == (), "whoever drives next does not carry it out a second time"


def test_a_plan_is_not_taken_back_while_somebody_drives_or_once_it_is_answered(tmp_path: Path) -> None:
    with closing(SqliteJournal(tmp_path / "a.journal", "driver")) as driver:
        driver.acquire(1_000)
        number = driver.order("plan", {}, 1_000)
        assert not driver.withdraw(number, 2_000)
        driver.answer(number, "{}")
        driver.release()
        assert not driver.withdraw(number, 2_000)
        assert driver.answer_to(number) == "{}"


def test_an_order_to_an_executor_that_stands_still_is_taken_back_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    place = JournalPlace(tmp_path / "a.journal")
    seat = DriverSeat(tmp_path, "c1", place.seat_name)
    with closing(SqliteJournal(place.path, "driver")) as driver:
        driver.acquire(SystemClock().now_ms() - LEASE_MS)
        with pytest.raises(StandsStill, match=f"process {os.getpid()} has not renewed its lease since"):
            asyncio.run(handed_over(place))
        assert driver.orders() == ()
    seat.leave()


async def test_who_drives_the_journal_itself_is_told_of_the_other_open_moves(tmp_path: Path) -> None:
    place = JournalPlace(tmp_path / "a.journal")
    first, second, third = (TopicPartition("t", number) for number in range(3))
    assert await told_others(place, [first]) == ""
    with closing(SqliteJournal(place.path, "driver")) as driver:
        driver.acquire(1_000)
        records: list[JournalRecord] = [PlanAccepted("p", "c", ExecutionOptions())]
        records += [MoveAccepted(tp, None, (1,), (2,), Strategy.INCREMENTAL, 1, ()) for tp in (first, second, third)]
        driver.append([JournalEntry(number, 1_000, "test", each) for number, each in enumerate(records, 1)], 1_000)
        driver.release()
    assert await told_others(place, [first, second, third]) == ""
    assert await told_others(place, [TopicPartition("t", 9)], ordered=True) == "", "the order is refused"
    assert "drives 1 other open move too, if it can end; ctrl-C leaves it" in await told_others(place, [first, second])
    assert "drives 2 other open moves too that can end; ctrl-C leaves them" in await told_others(place, [first])
    with closing(SqliteJournal(place.path, "driver")) as driver:
        driver.acquire(2_000)
        driver.append([JournalEntry(5, 2_000, "test", MovePaused(third, True))], 2_000)
        driver.release()
    assert "drives 1 other open move too, if it can end" in await told_others(place, [first]), (
        "a paused one is not driven"
    )


class Nobody:
    """A cluster that is never asked: no plan was handed in."""


async def test_who_is_cancelled_leaves_nothing_at_work(tmp_path: Path) -> None:
    """Found by hand: `shunter serve` ended with a traceback, for orders were looked for in a journal that was closed."""
    core, clock, journal = Executor(), SystemClock(), SqliteJournal(tmp_path / "moves.journal", "a")
    journal.acquire(clock.now_ms())
    admin = cast("AdminClient", Nobody())
    driver = ExecutionDriver(core, journal, admin, clock, lambda _notice: None)
    core.loaded = True
    session = Session(admin, journal, core, driver, tmp_path / "view")
    viewed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def seen(_view: ExecutionView) -> None:
        if not viewed.done():
            viewed.set_result(None)

    unanswered = SessionStart(command=Command(CommandKind.PAUSE))  # The journal was never loaded, so nobody answers.
    driving: asyncio.Task[Any] = asyncio.create_task(drive(session, unanswered, on_view=seen, forever=True))
    await viewed
    driving.cancel()
    async with asyncio.timeout(30):
        with contextlib.suppress(asyncio.CancelledError):
            await driving
    assert asyncio.all_tasks() == {asyncio.current_task()}
    journal.release()
    journal.close()


STOPPED = MoveClosed(T0, Outcome.STOPPED, "", (1,))


def two_moves(*records: JournalRecord) -> ExecutorState:
    """A move of T0 and one of T1, and what came of them."""
    state = ExecutorState()
    taken: list[JournalRecord] = [PlanAccepted("p", "c", ExecutionOptions())]
    taken += [MoveAccepted(tp, None, (1,), (2,), Strategy.INCREMENTAL, 1, ()) for tp in (T0, T1)]
    for number, record in enumerate([*taken, *records], 1):
        apply(state, JournalEntry(number, 1_000, "test", record))
    return state


@pytest.mark.parametrize(
    ("records", "paused"),
    [
        ([STOPPED, MovePaused(T1, True)], 1),
        ([STOPPED], 0),  # The other one goes on.
        ([MovePaused(T1, True)], 0),  # Its own has not ended yet.
        ([MovePaused(T0, True), MovePaused(T1, True)], 0),  # Its own is paused by another shell, and is waited for.
        ([STOPPED, MoveClosed(T1, Outcome.DONE, "", (2,))], 0),
    ],
)
def test_only_paused_moves_of_others_are_not_waited_for(records: list[JournalRecord], paused: int) -> None:
    assert paused_beside(two_moves(*records).open_moves(), (T0,)) == paused


@pytest.mark.parametrize("can_end", [False, True])
async def test_a_command_does_not_wait_for_moves_of_others_that_can_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, can_end: bool
) -> None:
    """An outsider's find: `stop` of one topic held the shell for ten minutes, beside moves to a dead broker."""
    monkeypatch.setattr(driving, "stuck", lambda _state, _move: None if can_end else "broker 2 is down")
    monkeypatch.setattr(driving, "STUCK_FOR_S", 0.3)
    core, clock, journal = Executor(), SystemClock(), SqliteJournal(tmp_path / "moves.journal", "a")
    core.state = two_moves(STOPPED)
    driver = ExecutionDriver(core, journal, cast("AdminClient", Nobody()), clock, lambda _notice: None)
    session = Session(cast("AdminClient", Nobody()), journal, core, driver, tmp_path / "view")
    work = SessionStart(command=Command(CommandKind.STOP, (T0,)))
    with closing(journal):
        resting = asyncio.create_task(driving._until_others_rest(session, work, []))
        done, _going = await asyncio.wait({resting}, timeout=1.5)
        resting.cancel()
    assert bool(done) is not can_end
    if done:
        assert resting.result() == "1 other move stays, paused or unable to end now,"


async def test_a_session_ends_where_only_paused_moves_of_others_are_left(tmp_path: Path) -> None:
    """An outsider's find: after a pause and the executor's death, `stop ONE-MOVE` stopped it and never ended."""
    core, clock, journal = Executor(), SystemClock(), SqliteJournal(tmp_path / "moves.journal", "a")
    journal.acquire(clock.now_ms())
    core.state = two_moves(STOPPED, MovePaused(T1, True))
    core.own.moves = dict(core.state.moves)
    admin = cast("AdminClient", Nobody())
    driver = ExecutionDriver(core, journal, admin, clock, lambda _notice: None)
    session = Session(admin, journal, core, driver, tmp_path / "view")
    looked = asyncio.create_task(drive(session, SessionStart(command=Command(CommandKind.STOP, (T0,)))))
    async with asyncio.timeout(30):
        await asyncio.to_thread(wait_until, lambda: bool(driver._waiting), what="the command", timeout_s=20)
        for answer in driver._waiting.values():  # The journal was never loaded, so the core does not answer.
            answer.set_result(CommandReply(True, "taken on"))
        ended = await looked
    assert exit_code(ended) is ExitCode.DONE
    assert told_end(ended) == [
        "1 other move stays paused under the journal: `shunter resume` goes on",
        "1 paused, 1 stopped",
    ]
    journal.release()
    journal.close()


async def test_a_new_execution_shows_nothing_of_the_one_that_ended_before(tmp_path: Path) -> None:
    """An outsider's find: the first line of a demote was "100.0% · 13 done" of the execution before it."""
    core, clock, journal = Executor(), SystemClock(), SqliteJournal(tmp_path / "moves.journal", "a")
    journal.acquire(clock.now_ms())
    records: list[JournalRecord] = [
        PlanAccepted("p", "c", ExecutionOptions()),
        MoveAccepted(T0, None, (1,), (2,), Strategy.INCREMENTAL, 1, ()),
        MoveClosed(T0, Outcome.DONE, "", (2,)),
        ExecutionClosed(""),
    ]
    for number, record in enumerate(records, 1):
        apply(core.state, JournalEntry(number, 1_000, "test", record))
    admin = cast("AdminClient", Nobody())
    driver = ExecutionDriver(core, journal, admin, clock, lambda _notice: None)
    session = Session(admin, journal, core, driver, tmp_path / "view")
    assert session.view().counts == {"done": 1}
    seen: asyncio.Queue[ExecutionView] = asyncio.Queue()
    core.loaded = True
    publishing = asyncio.create_task(session.publish(seen.put_nowait, idle=False))
    await asyncio.to_thread(wait_until, session.view_path.exists, what="a view for other shells", timeout_s=20)
    assert seen.empty()
    core.worked = True
    async with asyncio.timeout(30):
        await seen.get()
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
    journal.release()
    journal.close()


def left_at(folder: Path, after: Replicas, *, driven: bool) -> JournalPlace:
    """A journal whose last entry is a step from [1, 2] that the cluster took on."""
    place = JournalPlace(folder / "cluster.journal")
    records = (
        PlanAccepted("p", "c", ExecutionOptions()),
        MoveAccepted(T0, None, (1, 2), (3, 4), Strategy.INCREMENTAL, 1_000, ()),
        StepBegun(T0, 1, (1, 2), after, "begun"),
        StepAccepted(T0, 1),
    )
    now_ms = SystemClock().now_ms()
    journal = place.open("somebody")
    journal.acquire(now_ms)
    journal.append([JournalEntry(number, now_ms, "test", record) for number, record in enumerate(records, 1)], now_ms)
    if not driven:
        journal.release()
    journal.close()
    return place


@pytest.mark.parametrize(
    ("after", "driven", "most"),
    [((3, 4), False, 2_000), ((3, 2), False, 1_000), ((1, 2, 3), False, 0), ((3, 4), True, 0)],
)
async def test_a_step_that_nobody_watched_counts_as_ended(
    tmp_path: Path, after: Replicas, most: int, *, driven: bool
) -> None:
    place = left_at(tmp_path, after, driven=driven)
    found = await bytes_again(Target("", journal=place.path), place, Command(CommandKind.ROLL_BACK))
    assert found.bytes == most
    assert found.at_most == (most > 0)
    assert bool(found.why) == (most > 0)


async def test_the_question_before_a_rollback_says_that_it_can_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outsider's find: it named the bytes alone; after the consent it said that an original is dead."""
    live: list[int] = []

    class Admin:
        async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
            return {}

        async def observe_topics(self, _names: object) -> TopicsSeen:
            seen = ObservedTopic(None, {0: ObservedPartition((3, 4), (3, 4), 3)}, 1)
            return TopicsSeen({"t": seen}, dict.fromkeys(live), 3, False)

        async def close(self) -> None:
            pass

    async def connected(_target: Target) -> Admin:
        return Admin()

    monkeypatch.setattr(order_costs, "connect", connected)
    place = left_at(tmp_path, (3, 4), driven=False)
    told: dict[bool, str] = {}
    for dead in (True, False):
        live[:] = [3, 4] if dead else [1, 2, 3, 4]
        told[dead] = (await bytes_again(Target("k:1", journal=place.path), place, Command(CommandKind.ROLL_BACK))).why
    assert "But 1 of them can't end now: t-0: it can't end without brokers 1, 2, which are down" in told[True]
    assert "can't end" not in told[False]


def copying(throttle: int | None, paused: bool) -> ExecutorState:
    """Two moves that copy to broker 3, and one that waits for its turn; the first one may be paused."""
    moves = [
        MoveAccepted(TopicPartition("t", at), None, (1, 2), (3, 2), Strategy.INCREMENTAL, 1_000, ()) for at in range(3)
    ]
    steps = [record for at in range(2) for record in (
        StepBegun(TopicPartition("t", at), 1, (1, 2), (1, 2, 3), "begun"), StepAccepted(TopicPartition("t", at), 1)
    )]  # fmt: skip
    state = ExecutorState()
    records = [PlanAccepted("p", "c", ExecutionOptions(throttle=throttle)), *moves, *steps]
    for number, record in enumerate([*records, *([MovePaused(T0, True)] if paused else [])], 1):
        apply(state, JournalEntry(number, 5, "test", record))
    return state


@pytest.mark.parametrize("kind", [CommandKind.PAUSE, CommandKind.RESUME, CommandKind.STOP, CommandKind.ROLL_BACK])
@pytest.mark.parametrize("throttle", [None, 500])
@pytest.mark.parametrize("named", [(), (0,), (1,), (0, 1), (2,)])
@pytest.mark.parametrize("paused", [False, True])
def test_the_executor_at_work_prices_an_order_as_the_journal_does(
    kind: CommandKind, throttle: int | None, named: tuple[int, ...], *, paused: bool
) -> None:
    command = Command(kind, tuple(TopicPartition("t", at) for at in named))
    state = copying(throttle, paused)
    before = [(move.paused, move.direction) for move in state.moves.values()]
    price = price_now(state, command)
    assert [(move.paused, move.direction) for move in state.moves.values()] == before, "nothing is changed"
    assert price == price_of(copying(throttle, paused), command, driven=True)


def test_a_pause_of_some_moves_cancels_copies_that_share_a_throttle_with_others() -> None:
    pause = Command(CommandKind.PAUSE, (T0,))
    assert price_now(copying(500, paused=False), pause).cancelled == {T0}
    assert price_now(copying(500, paused=False), pause._replace(partitions=())).cancelled == frozenset()
    assert price_now(copying(None, paused=False), pause).cancelled == frozenset()
    again = told_price(price_now(copying(500, paused=False), pause), {T0: 700})
    assert (again.bytes, again.at_most) == (700, False)
    assert again.why.startswith("1 paused copy is cancelled and begun again later")


@pytest.mark.parametrize(("theirs", "cost"), [({}, 0), ({FOLLOWER_REPLICAS: "*"}, 400), ({FOLLOWER_RATE: "900"}, 400)])
async def test_a_pause_of_everything_beside_others_throttles_is_priced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: dict[str, str], cost: int
) -> None:
    """An outsider's find: 39 MB of copies were thrown away by a pause that asked nothing."""

    class Admin:
        async def brokers(self) -> dict[int, None]:
            return dict.fromkeys((1, 2, 3))

        async def read_settings(self, keys: list[ThrottleKey]) -> SettingsSeen:
            own = {key: theirs.get(key.setting) for key in keys}
            return SettingsSeen(own, own)

        async def observe_log_dirs(self, _asked: object) -> LogDirsSeen:
            return LogDirsSeen({(3, T0): ReplicaSize(400, "/d")}, {}, {}, {}, (3,))

        async def close(self) -> None:
            pass

    async def connected(_target: Target) -> Admin:
        return Admin()

    monkeypatch.setattr(order_costs, "connect", connected)
    place = left_at(tmp_path, (1, 2, 3), driven=True)
    found = await bytes_again(Target("k:1", journal=place.path), place, Command(CommandKind.PAUSE))
    assert (found.bytes, "begun again later" in found.why) == (cost, bool(cost))
