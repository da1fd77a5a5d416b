"""The loop around the executor's core, one per cluster and host: order, lost leases, bugs, answers."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.testbed.waiting import wait_until
from shunter.core.executor import events as ev
from shunter.core.executor.machine import Executor
from shunter.core.executor.ready import CommandReply, Finish, PlanReply, Ready
from shunter.drivers.admin.answers import NotSet, SettingsSeen, TopicsSeen
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.drivers.admin.protocol import StillOurs, always
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.execution import HELD_MS, ExecutionDriver
from shunter.drivers.journal.host_lock import DriverSeat, SeatTaken, StillDriver, standing_still
from shunter.drivers.journal.journals import LEASE_MS, JournalBusy, JournalFenced
from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import (
    Command,
    CommandKind,
    ExecutionOptions,
    JournalEntry,
    LeaseHolder,
    MoveOrder,
    ObservedPartition,
    ObservedTopic,
    OngoingReassignment,
    StepBegun,
    ThrottleKey,
)
from shunter.model.partition import BrokerId, Replicas, TopicPartition

HOST = socket.gethostname()
NOW = 1_800_000_000_000
SITTING = """
import sys, pathlib
from shunter.drivers.journal.host_lock import DriverSeat
seat = DriverSeat(pathlib.Path(sys.argv[1]), "c1", "first.journal")
print("sits", flush=True)
sys.stdin.read()
"""
TP = TopicPartition("t", 0)


@contextmanager
def sitting(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the seat of c1 under first.journal."""
    with subprocess.Popen(
        [sys.executable, "-c", SITTING, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sits\n"
        yield process


def test_a_second_one_is_refused_and_told_who_sits_there(tmp_path: Path) -> None:
    with sitting(tmp_path) as first:
        with pytest.raises(SeatTaken, match=f"driven by process {first.pid} under journal first.journal"):
            DriverSeat(tmp_path, "c1", "second.journal")
        DriverSeat(tmp_path, "c2", "second.journal").leave()
        first.send_signal(signal.SIGKILL)
        first.wait(30)
        DriverSeat(tmp_path, "c1", "second.journal").leave()


def test_a_seat_that_was_left_is_free(tmp_path: Path) -> None:
    DriverSeat(tmp_path, "c1", "first.journal").leave()
    DriverSeat(tmp_path, "c1", "second.journal").leave()


def test_who_has_the_seat_and_a_lease_that_has_run_out_stands_still(tmp_path: Path) -> None:
    mine = LeaseHolder("o", HOST, os.getpid(), NOW)
    assert standing_still(tmp_path, "a.journal", mine, HOST, NOW) is None, "nobody has the seat"
    seat = DriverSeat(tmp_path, "c1", "a.journal")
    found = standing_still(tmp_path, "a.journal", mine, HOST, NOW)
    assert found == StillDriver(os.getpid(), NOW - LEASE_MS, stopped=False)
    assert f"process {os.getpid()} has not renewed its lease since 2027-01-15 07:59:45 UTC" in str(found)
    for lease in (
        None,
        mine._replace(expires_at_ms=NOW + 1),
        mine._replace(host="elsewhere"),
        mine._replace(process=os.getpid() + 1),
    ):
        assert standing_still(tmp_path, "a.journal", lease, HOST, NOW) is None
    assert standing_still(tmp_path, "b.journal", mine, HOST, NOW) is None, "it has another journal"
    seat.leave()
    assert standing_still(tmp_path, "a.journal", mine, HOST, NOW) is None, "it has left, and lives on"


def test_who_was_killed_does_not_stand_still(tmp_path: Path) -> None:
    with sitting(tmp_path) as first:
        lease = LeaseHolder("o", HOST, first.pid, NOW)
        assert standing_still(tmp_path, "first.journal", lease, HOST, NOW) is not None
        first.kill()
        first.wait(30)
    assert standing_still(tmp_path, "first.journal", lease, HOST, NOW) is None


@pytest.mark.parametrize("told", ["", "process 7 under journal x", "[]", '{"process": 7}'])
def test_a_file_that_does_not_say_who_locked_it_names_nobody(tmp_path: Path, told: str) -> None:
    (tmp_path / "c1.driver").write_text(told)
    assert standing_still(tmp_path, "x", LeaseHolder("o", HOST, 7, NOW), HOST, NOW) is None


class Memory:
    """A journal in memory, which notes what happened in which order."""

    def __init__(self, happened: list[str]) -> None:
        self.entries: list[JournalEntry] = []
        self.happened = happened
        self.fenced = False

    def load(self) -> tuple[JournalEntry, ...]:
        return tuple(self.entries)

    def append(self, entries: Sequence[JournalEntry], now_ms: int) -> None:
        if self.fenced:
            raise JournalFenced("somebody else drives it", retriable=False)
        self.entries.extend(entries)
        self.happened += [f"journal {type(entry.record).__name__}" for entry in entries]

    def renew(self, now_ms: int) -> None:
        if self.fenced:
            raise JournalFenced("somebody else drives it", retriable=False)

    def check(self) -> None:
        self.renew(0)


class Cluster:
    """One partition under a controller that carries out each request at once."""

    def __init__(self, happened: list[str]) -> None:
        self.replicas: Replicas = (1, 2)
        self.happened = happened
        self.failure: Exception | None = None

    async def cluster_id(self) -> str:
        return "c"

    async def is_shunter(self) -> bool:
        return False

    async def topic_names(self) -> list[str]:
        return ["t"]

    async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
        if self.failure is not None:
            raise self.failure
        return {}

    async def observe_topics(self, names: Sequence[str], *, sure: bool = False) -> TopicsSeen:
        seen = ObservedTopic(None, {0: ObservedPartition(self.replicas, self.replicas, self.replicas[0])})
        return TopicsSeen(dict.fromkeys(names, seen), {1: None, 2: None, 3: None}, 1)

    async def observe_log_dirs(self, asked: Mapping[BrokerId, Sequence[TopicPartition]]) -> LogDirsSeen:
        return LogDirsSeen({}, {}, {}, {}, tuple(asked))

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        return SettingsSeen(dict.fromkeys(keys), {})

    async def alter_reassignments(
        self, targets: Sequence[tuple[TopicPartition, Replicas | None]], *, keeps_factor: bool = False
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        self.happened.append(f"asked {targets[0][1]}")
        assert targets[0][1] is not None
        self.replicas = targets[0][1]
        return {TP: (ErrorCode.NONE, "")}

    async def alter_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, NotSet]:
        return {}

    async def alter_log_dirs(self, replicas: Any) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        return {}

    async def close(self) -> None:
        pass


class World:
    def __init__(self) -> None:
        self.happened: list[str] = []
        self.journal = Memory(self.happened)
        self.cluster = Cluster(self.happened)
        self.driver = ExecutionDriver(Executor(), self.journal, self.cluster, SystemClock(), lambda notice: None)
        self.driver.post(ev.JournalLoaded((), "c"), "start")

    async def run(
        self, *, forever: bool = False, options: ExecutionOptions | None = None
    ) -> tuple[PlanReply | BaseException, Finish]:
        moves = (MoveOrder(TP, (3, 2)),)
        asking = asyncio.create_task(
            self.driver.ask("plan", lambda token: ev.PlanSubmitted("p", moves, options or ExecutionOptions(), token))
        )
        await asyncio.sleep(0)
        try:
            finish = await asyncio.wait_for(self.driver.run(forever=forever), 60)
        finally:
            # Otherwise the collector reports it later, which in Python 3.11 breaks a compilation under way.
            (reply,) = await asyncio.gather(asking, return_exceptions=True)
        assert isinstance(reply, PlanReply | BaseException)
        return reply, finish


@pytest.fixture
def world() -> World:
    return World()


async def test_a_step_is_in_the_journal_before_it_is_asked_for(world: World) -> None:
    reply, finish = await world.run()
    assert isinstance(reply, PlanReply)
    assert reply.error is None
    assert finish.fatal is None
    assert world.cluster.replicas == (3, 2)
    asked = world.happened.index("asked (3, 2)")
    assert "journal StepBegun" in world.happened[:asked]
    begun = [entry.record for entry in world.journal.entries if isinstance(entry.record, StepBegun)]
    assert [record.after for record in begun] == [(3, 2)]


async def test_who_lost_the_journal_asks_for_nothing(world: World) -> None:
    world.journal.fenced = True
    reply, finish = await world.run()
    assert isinstance(reply, DriverError)
    assert "somebody else drives it" in str(finish.fatal)
    assert [told for told in world.happened if told.startswith("asked")] == []


async def test_a_step_is_not_asked_for_again_by_who_lost_the_journal_meanwhile(world: World) -> None:
    """Found by simulation: a repeated request follows no write, so no write had shown that the lease was lost."""

    async def refuse(targets: Any, *, keeps_factor: bool) -> Any:
        world.happened.append(f"asked {targets[0][1]}")
        world.journal.fenced = True
        raise DriverError("the connection broke", retriable=True)

    world.cluster.alter_reassignments = refuse  # type: ignore[method-assign]
    _reply, finish = await world.run()
    assert "somebody else drives it" in str(finish.fatal)
    assert len([told for told in world.happened if told.startswith("asked")]) == 1


async def test_who_lost_the_journal_while_one_broker_was_asked_does_not_ask_the_next(world: World) -> None:
    """Found by simulation: a process that stood still set throttles again after another process had given them back."""

    async def alter(settings: Any, still_ours: StillOurs = always) -> dict[ThrottleKey, NotSet]:
        for key, _value in settings:
            await still_ours()
            world.happened.append(f"asked {key.kind} {key.name}")
            world.journal.fenced = True
        return {}

    world.cluster.alter_settings = alter  # type: ignore[method-assign]
    finish = (await world.run(options=ExecutionOptions(throttle=1_000)))[1]
    assert "somebody else drives it" in str(finish.fatal)
    assert len([told for told in world.happened if told.startswith("asked")]) == 1


async def test_the_core_hears_which_settings_were_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[ev.SettingsAltered] = []
    handle = Executor.handle

    def listen(core: Executor, envelope: ev.Envelope) -> Ready:
        if isinstance(envelope.event, ev.SettingsAltered):
            answers.append(envelope.event)
            world.journal.fenced = True
        return handle(core, envelope)

    async def alter(settings: Any, still_ours: StillOurs = always) -> dict[ThrottleKey, NotSet]:
        return {key: NotSet(key.kind, refused=key.kind == "topic") for key, _value in settings}

    monkeypatch.setattr(Executor, "handle", listen)
    world.cluster.alter_settings = alter  # type: ignore[method-assign]
    await world.run(options=ExecutionOptions(throttle=1_000))
    assert set(answers[0].errors.values()) == {"broker", "topic"}
    assert {key for key, told in answers[0].errors.items() if told == "topic"} == answers[0].refused


async def test_who_stands_still_after_a_look_at_the_journal_looks_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by simulation (seeds 7003006, 97581226): a process stood still between check and request."""
    clock, check = world.driver.clock, world.journal.check
    asked: list[ThrottleKey] = []

    def check_and_stand_still() -> None:
        check()
        now_ms = clock.now_ms()
        monkeypatch.setattr(clock, "now_ms", lambda: now_ms + 1_500)
        world.journal.fenced = True

    async def alter(settings: Any, still_ours: StillOurs = always) -> dict[ThrottleKey, NotSet]:
        world.journal.check = check_and_stand_still  # type: ignore[method-assign]
        await still_ours()
        asked.extend(key for key, _value in settings)
        return {}

    world.cluster.alter_settings = alter  # type: ignore[method-assign]
    finish = (await world.run(options=ExecutionOptions(throttle=1_000)))[1]
    assert "somebody else drives it" in str(finish.fatal)
    assert asked == []


async def test_a_journal_at_which_each_look_takes_seconds_is_believed_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, check = world.driver.clock, world.journal.check
    now_ms, later_ms = clock.now_ms, [0]
    monkeypatch.setattr(clock, "now_ms", lambda: now_ms() + later_ms[0])
    asked: list[ThrottleKey] = []

    def look() -> None:
        check()
        later_ms[0] += 2_500

    async def alter(settings: Any, still_ours: StillOurs = always) -> dict[ThrottleKey, NotSet]:
        world.journal.check = look  # type: ignore[method-assign]
        await still_ours()
        asked.extend(key for key, _value in settings)
        world.journal.check = check  # type: ignore[method-assign]
        world.journal.fenced = True
        return {}

    world.cluster.alter_settings = alter  # type: ignore[method-assign]
    finish = (await world.run(options=ExecutionOptions(throttle=1_000)))[1]
    assert "somebody else drives it" in str(finish.fatal)
    assert asked


async def test_a_look_at_the_lease_is_as_old_as_the_look_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by simulation (seed 98202900): a write had waited three seconds for its thread.

    So the write counted as three seconds old, and the next look was believed when it was three seconds old, too.
    Another executor had taken the lease meanwhile.
    """
    monkeypatch.setattr("shunter.drivers.journal.execution.BUSY_S", 0.01)
    clock, check = world.driver.clock, world.journal.check
    now_ms, later_ms = clock.now_ms, [0]
    monkeypatch.setattr(clock, "now_ms", lambda: now_ms() + later_ms[0])
    looks: list[int] = []
    asked: list[ThrottleKey] = []

    def look() -> None:
        looks.append(clock.now_ms())
        if len(looks) == 1:
            later_ms[0] += 5_000
            raise JournalBusy("locked", retriable=True)
        check()
        if len(looks) > 2:
            later_ms[0] += 4_000
            world.journal.fenced = True

    async def alter(settings: Any, still_ours: StillOurs = always) -> dict[ThrottleKey, NotSet]:
        world.journal.check = look  # type: ignore[method-assign]
        await still_ours()
        asked.extend(key for key, _value in settings if clock.now_ms() - looks[-1] < HELD_MS)
        world.journal.check = check  # type: ignore[method-assign]
        world.journal.fenced = True
        return {}

    world.cluster.alter_settings = alter  # type: ignore[method-assign]
    await world.run(options=ExecutionOptions(throttle=1_000))
    assert len(looks) == 2, "one look found the journal locked, and the next one was fresh"
    assert asked


async def test_a_journal_that_others_keep_locked_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shunter.drivers.journal.execution.BUSY_S", 0.01)
    append, tries = world.journal.append, []

    def busy(entries: Sequence[JournalEntry], now_ms: int) -> None:
        tries.append(now_ms)
        if len(tries) < 3:
            raise JournalBusy("locked", retriable=True)
        append(entries, now_ms)

    world.journal.append = busy  # type: ignore[method-assign]
    reply, finish = await world.run()
    assert isinstance(reply, PlanReply)
    assert finish.fatal is None
    assert world.cluster.replicas == (3, 2)


async def test_what_never_passes_ends_the_execution_and_says_why(world: World) -> None:
    world.cluster.failure = DriverError("needs Describe on Cluster", retriable=False)
    _reply, finish = await world.run()
    assert finish.fatal == "needs Describe on Cluster"


async def test_an_error_of_ours_is_not_waited_for_in_vain(world: World) -> None:
    world.cluster.failure = AttributeError("a bug")
    with pytest.raises(AttributeError, match="a bug"):
        await world.run()


async def test_a_daemon_stays_and_answers_when_nothing_is_left_to_do(world: World) -> None:
    running = asyncio.create_task(world.driver.run(forever=True))
    reply = await asyncio.wait_for(
        world.driver.ask("command", lambda token: ev.CommandReceived(Command(CommandKind.STOP), token)), 20
    )
    told = "nothing of this journal is under way: no move is open; `shunter undo` takes back what was done"
    assert reply == CommandReply(False, told)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_driver_that_is_cancelled_has_let_go_of_the_journal(world: World) -> None:
    """Otherwise the journal would be closed during a write, and Python crashes."""
    loop, begun, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    append = world.journal.append

    def slow(entries: Sequence[JournalEntry], now_ms: int) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert may_end.wait(60)
        append(entries, now_ms)

    world.journal.append = slow  # type: ignore[method-assign]
    running = asyncio.create_task(world.run())
    await begun.wait()
    running.cancel()
    for _ in range(50):
        await asyncio.sleep(0)
    assert not running.done(), "it went on while the write was under way"
    may_end.set()
    await asyncio.gather(running, return_exceptions=True)
    assert world.journal.entries, "what was begun was written"


async def test_a_claim_is_only_confirmed_while_the_lease_is_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SRE's find: a broker with the journal froze, another service took over, and both said that they drive."""
    monkeypatch.setattr("shunter.drivers.journal.execution.RENEW_S", 0.0)
    answered, hangs, begun = threading.Event(), threading.Event(), list[int]()
    answered.set()

    class Kept:
        async def granted(self) -> None:
            pass

        def unheard_ms(self) -> int:
            return 0

    def renew(now_ms: int) -> None:
        begun.append(now_ms)
        if not answered.is_set():
            hangs.set()
        assert answered.wait(60)

    async def until(condition: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(wait_until, condition, what=what, timeout_s=30)

    now_ms = SystemClock().now_ms()
    clock = Standing(now_ms)
    monkeypatch.setattr(world.journal, "renew", renew)
    driver = ExecutionDriver(Executor(), world.journal, world.cluster, clock, lambda notice: None, Kept())
    assert driver.claimed_at_ms() == now_ms, "nothing was asked of the lease yet"
    driver.post(ev.JournalLoaded((), "c"), "start")
    running = asyncio.create_task(driver.run(forever=True))
    await until(lambda: len(begun) > 1, "a first lease")
    answered.clear()
    await until(hangs.is_set, "a lease that is not answered")
    clock.ms += 10_000
    assert driver.claimed_at_ms() == now_ms
    answered.set()
    after = len(begun)
    await until(lambda: len(begun) > after + 1, "a lease that is answered again")
    assert driver.claimed_at_ms() == now_ms + 10_000
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class Standing(SystemClock):
    """A clock that a test turns."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms
