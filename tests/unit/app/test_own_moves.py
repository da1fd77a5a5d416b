"""A command ends with the result of its own plan's moves, whatever other plans its journal gets."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from shunter.app.executor.driving import Ended
from shunter.app.executor.following import follow
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.outcome import exit_code, told_end
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.cli.execution import execute
from shunter.cli.leaving import run
from shunter.core.executor import events as ev
from shunter.core.executor.apply import apply
from shunter.core.executor.machine import Executor
from shunter.core.executor.own_moves import OwnMoves
from shunter.core.executor.ready import Finish
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.model.execution import (
    Direction,
    DirectionChanged,
    ExecutionClosed,
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    MoveAccepted,
    MoveClosed,
    Outcome,
    PlanAccepted,
)
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution, view_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BACK = MoveClosed(T1, Outcome.ROLLED_BACK, "rolled back", (1,))


def planned(plan_id: str) -> PlanAccepted:
    return PlanAccepted(plan_id, "c", ExecutionOptions())


def to(tp: TopicPartition, *target: int, since: Replicas = (1,)) -> MoveAccepted:
    return MoveAccepted(tp, None, since, target, Strategy.INCREMENTAL, 1, ())


def done(tp: TopicPartition, *replicas: int) -> MoveClosed:
    return MoveClosed(tp, Outcome.DONE, "the target is reached", replicas)


def ended(plan_id: str, *batches: tuple[JournalRecord, ...]) -> Ended:
    """The end of a session whose core reads the first batch and writes the others."""
    core, entries = Executor(own=OwnMoves(plan_id)), list[JournalEntry]()
    for at_ms, batch in enumerate(batches, 1):
        entries += [JournalEntry(len(entries) + at, at_ms, "c", each) for at, each in enumerate(batch, 1)]
    first = len(batches[0])
    core.handle(ev.Envelope(1, "start", ev.JournalLoaded(tuple(entries[:first]), "c"), 0))
    for entry in entries[first:]:
        apply(core.state, entry)
        core.own.take(core.state, entry)
    view = view_execution(core.state, core.meter, None, 9)
    return Ended(Finish(), view_of(view, core.state, core.meter, core.own.moves.values()), back=core.own.back)


def test_an_end_is_of_its_own_plan_though_a_later_execution_ran_in_the_same_process() -> None:
    """An outsider's find: 14 done and 9 rolled back ended as "13 done" with 0, which was another shell's plan."""
    mine = (planned("a"), to(T0, 2), to(T1, 2)), (done(T0, 2), BACK), (ExecutionClosed(""),)
    other = (planned("b"), to(T0, 3, since=(2,)), to(T1, 3)), (done(T0, 3), done(T1, 3))
    first, second = (ended(plan_id, (), *mine, *other) for plan_id in "ab")
    assert (told_end(first), exit_code(first)) == (["1 done, 1 rolled back"], ExitCode.TURNED)
    assert (told_end(second), exit_code(second)) == (["2 done"], ExitCode.DONE)


def test_an_end_is_of_its_own_plan_though_another_joined_before_its_last_move_ended() -> None:
    first, second = (
        ended(
            plan_id,
            (),
            (planned("a"), to(T0, 2)),
            (planned("b"), to(T1, 2)),
            (to(T0, 2, since=(3,)),),  # Late metadata: the move of the first plan is made anew.
            (done(T0, 2), BACK),
        )
        for plan_id in "ab"
    )
    assert (told_end(first), exit_code(first)) == (["1 done"], ExitCode.DONE)
    assert (told_end(second), exit_code(second)) == (["1 rolled back"], ExitCode.TURNED)


def test_a_move_that_a_later_plan_sends_elsewhere_is_not_done_for_the_former_plan() -> None:
    plans = (planned("a"), to(T0, 2)), (planned("b"), to(T0, 3)), (done(T0, 3),)
    first, second = (ended(plan_id, (), *plans) for plan_id in "ab")
    assert told_end(first) == ["t-0 superseded: a later plan sends it to [3] instead", "1 superseded"]
    assert (exit_code(first), exit_code(second)) == (ExitCode.PARTLY, ExitCode.DONE)


def test_a_rollback_that_the_plan_itself_wants_is_what_was_asked_for() -> None:
    cancels = (planned("b"), DirectionChanged(T1, Direction.BACK))
    first, second = (ended(plan_id, (), (planned("a"), to(T1, 2)), cancels, (BACK,)) for plan_id in "ab")
    assert (exit_code(first), exit_code(second)) == (ExitCode.TURNED, ExitCode.DONE)


def test_who_goes_on_with_a_journal_ends_with_the_moves_that_were_open() -> None:
    opened = (planned("a"), to(T1, 2))
    resumed = ended("", opened, (BACK,), (planned("b"), to(T0, 2)), (done(T0, 2),))
    assert (told_end(resumed), exit_code(resumed)) == (["1 rolled back"], ExitCode.TURNED)


class Driver:
    """A process that drives a journal, and has taken a plan of two moves on after another plan."""

    def __init__(self, path: Path) -> None:
        self.place, self.journal, self.last = JournalPlace(path), SqliteJournal(path, "driver"), 0
        self.journal.acquire(SystemClock().now_ms())
        self.write(planned("mine"), to(TopicPartition("u", 0), 2))
        self.write(planned("order-1"), to(T0, 2), to(T1, 2))

    def write(self, *records: JournalRecord) -> None:
        now_ms = SystemClock().now_ms()
        entries = [JournalEntry(self.last + at, self.last, "c", each) for at, each in enumerate(records, 1)]
        self.journal.append(entries, now_ms)
        self.last += len(entries)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    driving = Driver(tmp_path / "a.journal")
    yield driving
    driving.journal.close()


async def test_a_shell_follows_the_plan_that_it_handed_over_until_its_moves_end(driver: Driver) -> None:
    following = asyncio.create_task(follow(driver.place, "order-1", lambda _view: None))
    driver.write(done(T0, 2))
    finished, _waiting = await asyncio.wait({following}, timeout=0.3)
    assert not finished, "one move is open"
    driver.write(BACK)
    async with asyncio.timeout(30):
        end = await following
    assert (told_end(end), exit_code(end)) == (["1 done, 1 rolled back"], ExitCode.TURNED)


async def test_a_shell_does_not_wait_for_a_driver_that_is_gone(driver: Driver) -> None:
    driver.write(done(T0, 2))
    driver.journal.release()
    async with asyncio.timeout(30):
        end = await follow(driver.place, "order-1", lambda _view: None)
    assert exit_code(end) is ExitCode.LEFT
    assert told_end(end) == ["left running under the journal: `shunter resume` goes on, `shunter rollback` restores"]


def test_ctrl_c_ends_the_watching_of_a_plan_alone(driver: Driver) -> None:
    async def interrupted() -> int:
        following = asyncio.create_task(execute._follow(driver.place, "order-1", as_json=False))
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        return await following

    with pytest.raises(SystemExit) as left:
        run(interrupted())
    assert left.value.code == ExitCode.LEFT


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("service", [False, True])
def test_the_status_of_a_plan_that_was_handed_over_is_that_of_its_moves(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, service: bool, as_json: bool
) -> None:
    """An outsider's find: exit status 0 at once, and half of the moves were never done."""
    driver.write(done(T0, 2), BACK)
    answer = {"accepted": True, "text": "2 moves taken on", "refused": []}

    async def taken_on(*_order: object) -> dict[str, object]:
        return answer if service else {**answer, "plan_id": "order-1"}

    async def nothing_again(*_order: object) -> tuple[int, str]:
        return 0, ""

    monkeypatch.setattr(execute, "order_plan", taken_on)
    monkeypatch.setattr(execute, "bytes_again_by_plan", nothing_again)
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2]}]}')
    asked = ["execute", str(plan), "--yes", "--journal", str(driver.place.path), "--bootstrap-server", "127.0.0.1:1"]
    ran = CliRunner().invoke(main, [*asked, *(["--json"] if as_json else [])])
    assert ran.exit_code == (ExitCode.DONE if service else ExitCode.TURNED), ran.output
    handed, *rest = ran.stdout.splitlines()
    assert ("`shunter watch` follows them" in handed) is service
    if as_json:
        ends = [{"event": "end", "exit": 6, "counts": {"done": 1, "rolled_back": 1}, "told": ["1 done, 1 rolled back"]}]
        assert list(map(json.loads, rest)) == ([] if service else ends)
    else:
        assert rest == ([] if service else ["1 done, 1 rolled back"])
