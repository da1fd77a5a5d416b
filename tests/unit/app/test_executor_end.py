"""What an execution's end, a refusal and another shell's view of it mean to an operator."""

import asyncio
import re
import resource
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from shunter.app.executor.driving import Ended
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.outcome import exit_code, told_end
from shunter.app.executor.session import Session, _replace, read_view
from shunter.app.executor.status import Status
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.display import told_view
from shunter.core.executor import events as ev
from shunter.core.executor.apply import apply
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.machine import Executor
from shunter.core.executor.ready import CommandReply, Finish, MoveResult, PlanReply
from shunter.core.executor.state import ExecutorState
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.drivers.journal.execution import refused
from shunter.drivers.journal.journals import JournalFenced, JournalForsaken, JournalUnusable, JournalUnwritten
from shunter.errors import DriverError
from shunter.model.execution import (
    Direction,
    DirectionChanged,
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    LeaseHolder,
    MoveAccepted,
    MoveClosed,
    Outcome,
    PlanAccepted,
    StepBegun,
    StepFinished,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import (
    ExecutionView,
    as_its_driver_sees_it,
    undriven,
    view_execution,
    view_from_json,
    view_to_json,
)

T0 = TopicPartition("t", 0)
ACCEPTED = MoveAccepted(T0, None, (1,), (2,), Strategy.INCREMENTAL, 1_000, ())


def view(*records: JournalRecord, at_ms: int = 5) -> ExecutionView:
    state = ExecutorState()
    for number, record in enumerate((PlanAccepted("p", "c", ExecutionOptions()), *records), start=1):
        apply(state, JournalEntry(number, 1, "c", record))
    return view_execution(state, Meter(), None, at_ms)


def test_where_only_orders_change_nothing_is_left_to_copy() -> None:
    assert "nothing to copy" in told_view(view(ACCEPTED._replace(size_bytes=0)))
    assert "1.0 kB left of 1.0 kB" in told_view(view(ACCEPTED))


def test_what_nobody_drives_has_no_end() -> None:
    """Steps that were asked for go on in the cluster, so a rate may be known; no other step begins."""
    copying = replace(view(ACCEPTED), bytes_per_s=5.0, left_ms=10_000, low_ms=4_000, high_ms=16_000)
    assert "ends in 10 s" in told_view(copying)
    told = told_view(undriven(copying))
    assert "no end: no executor drives it until `shunter resume`, or a service that stands by takes over" in told
    assert "ends in" not in told


def test_moves_that_wait_are_counted_as_moves_and_a_limit_ends_with_what_it_limits() -> None:
    copying = replace(view(ACCEPTED), limit=2_000_000)
    (row,) = copying.moves
    waits = replace(row, waits="waits for its turn: broker 4 receives 1 copy, the bound is 1")
    assert "· 1 move waits for its turn: broker 4" in told_view(replace(copying, moves=(waits,)))
    assert "· 2 moves wait for their turn: broker 4" in told_view(replace(copying, moves=(waits, waits)))
    assert "limit 2.0 MB/s" in told_view(copying)
    assert "limit" not in told_view(replace(copying, running=False))


def test_status_as_json_has_the_figures_of_who_drives() -> None:
    """The journal knows no copied bytes, and takes a rollback for as dear as it can be."""
    journal = view(ACCEPTED, StepBegun(T0, 1, (1,), (1, 2), "forward"))
    (row,) = journal.moves
    seen = replace(row, waits="broker 2 catches up", copied_bytes=400, rollback_bytes=0)
    left = replace(journal, copied_bytes=400, rollback_bytes=0, bytes_per_s=5.0, left_ms=9_000, moves=(seen,))
    live = view_from_json(orjson.loads(orjson.dumps(view_to_json(left))))  # It comes from the driver's file.
    assert live == left
    holder = LeaseHolder("o", "h", 7, 99)
    told = Status(JournalPlace(Path("x.journal")), as_its_driver_sees_it(journal, live), holder).to_json()
    assert (told["copied_bytes"], told["rollback_bytes"], told["left_ms"], told["share"]) == (400, 0, 9_000, 0.4)
    assert told["moves"][0]["waits"] == "broker 2 catches up"
    assert told["moves"][0]["copied_bytes"] == 400
    assert (told["age_ms"], "as of" in told_view(as_its_driver_sees_it(journal, live))) == (0, False)
    late = as_its_driver_sees_it(replace(journal, at_ms=live.at_ms + 48_000), live)
    assert (late.age_ms, late.left_ms, late.bytes_per_s, late.copied_bytes) == (48_000, None, None, 400)
    assert re.match(r"as of \d\d:\d\d:\d\d \(48 s ago\) · .* · no ETA: these figures are old$", told_view(late))
    turned = replace(journal, moves=(replace(row, direction="back", rollback_bytes=0),))
    told = Status(JournalPlace(Path("x.journal")), as_its_driver_sees_it(turned, live), holder).to_json()
    assert told["moves"][0]["waits"] == "", "the driver has not looked since the move was turned"


def test_a_glance_that_finds_no_room_stops_nobody(tmp_path: Path) -> None:
    place = tmp_path / "x.view"
    _replace(place, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        _replace(place, b"newer")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert place.read_bytes() == b"old"


def test_who_is_told_to_go_with_nothing_under_way_leaves_nothing_behind() -> None:
    idle = replace(view(ACCEPTED), running=False)
    assert exit_code(Ended(None, idle)) is ExitCode.DONE
    assert told_end(Ended(None, idle)) == ["left; nothing was under way"]
    assert exit_code(Ended(None, view(ACCEPTED))) is ExitCode.LEFT


def test_a_partition_that_was_moved_again_ends_as_its_last_move() -> None:
    stopped = MoveClosed(T0, Outcome.STOPPED, "it was told to stop", (1,))
    again = view(ACCEPTED, stopped, ACCEPTED, MoveClosed(T0, Outcome.DONE, "the target is reached", (2,)))
    assert again.counts == {"stopped": 1, "done": 1}
    assert exit_code(Ended(Finish(), again)) is ExitCode.DONE


@pytest.mark.parametrize(
    ("named", "code"), [((T0,), ExitCode.DONE), ((), ExitCode.DONE), ((TopicPartition("t", 9),), ExitCode.TURNED)]
)
def test_a_stop_that_drives_tells_that_another_shell_turned_moves_it_did_not_name(
    named: tuple[TopicPartition, ...], code: ExitCode
) -> None:
    """An outsider's find: `stop` of one topic ended with 0, and 23 other moves were rolled back meanwhile."""
    stopped = view(ACCEPTED, MoveClosed(T0, Outcome.STOPPED, "it was told to stop", (1,)))
    assert exit_code(Ended(Finish(), stopped, command=CommandReply(True, "taken on"), named=named)) is code


def test_a_refused_plan_does_not_boast_with_the_moves_of_another() -> None:
    former = view(ACCEPTED, MoveClosed(T0, Outcome.DONE, "the target is reached", (2,)))
    ended = Ended(Finish(), former, PlanReply("nothing can be moved", (MoveResult(T0, "no such broker"),)))
    assert told_end(ended) == ["nothing can be moved", "t-0 was not taken on: no such broker"]
    assert exit_code(ended) is ExitCode.REFUSED


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (
            JournalFenced("x is driven by process 7 now, not by us", retriable=False),
            ExitCode.HELD,
            "the other executor looks after the moves",
        ),
        (JournalForsaken("x"), ExitCode.HELD, "nobody looks after the moves under way"),
        (ClusterClaimed("another executor"), ExitCode.HELD, "`shunter resume` goes on when it"),
        (
            JournalUnwritten("the disk is full", retriable=False),
            ExitCode.JOURNAL,
            "when the journal can be written again",
        ),
        (JournalUnusable("x was cut off", retriable=False), ExitCode.JOURNAL, "leave the .copy in place"),
        (DriverError("nobody answers", retriable=False), ExitCode.CLUSTER, "the journal keeps where it stood"),
    ],
)
def test_the_exit_status_says_what_an_executor_lost(error: DriverError, code: ExitCode, hint: str) -> None:
    core = Executor()
    core.handle(ev.Envelope(1, "start", ev.JournalLoaded((), "c"), 0))
    ready = core.handle(ev.Envelope(2, "lease", refused(error), 0))
    ended = Ended(ready.finish, view(ACCEPTED))
    assert exit_code(ended) is code
    (told,) = told_end(ended)
    assert str(error) in told
    assert hint in told


def test_a_journal_of_another_cluster_is_the_journals_fault() -> None:
    core = Executor()
    written = JournalEntry(1, 1, "c", PlanAccepted("p", "one", ExecutionOptions()))
    ready = core.handle(ev.Envelope(1, "start", ev.JournalLoaded((written,), "two"), 0))
    assert exit_code(Ended(ready.finish, view())) is ExitCode.JOURNAL


def turned(direction: Direction, *records: JournalRecord) -> list[tuple[int, int, float]]:
    """Copied bytes, all bytes and share of a move of two steps that is turned after the first, as each entry comes."""
    state = ExecutorState()
    begun = (
        PlanAccepted("p", "c", ExecutionOptions()),
        MoveAccepted(T0, None, (1, 2), (3, 4), Strategy.INCREMENTAL, 1_000, ()),
        StepBegun(T0, 1, (1, 2), (1, 2, 3), "+3"),
        StepFinished(T0, 1, (2, 3), (2, 3), 1_000),
        DirectionChanged(T0, direction),
    )
    told: list[tuple[int, int, float]] = []
    for number, record in enumerate((*begun, *records), start=1):
        apply(state, JournalEntry(number, 1, "c", record))
        seen = view_execution(state, Meter(), None, 5)
        told.append((seen.copied_bytes, seen.total_bytes, seen.share))
    return told[len(begun) - 1 :]


def test_the_total_of_a_rollback_stays_what_it_was_when_it_began() -> None:
    told = turned(
        Direction.BACK,
        StepBegun(T0, 2, (2, 3), (1, 2), "+1"),
        StepFinished(T0, 2, (1, 2), (1, 2), 1_000),
        MoveClosed(T0, Outcome.ROLLED_BACK, "back", (1, 2), 2_000),
    )
    assert told == [(0, 1_000, 0.5), (0, 1_000, 0.5), (1_000, 1_000, 0.999), (1_000, 1_000, 1.0)]


def test_a_stop_has_nothing_left_to_copy_and_what_ended_elsewhere_is_not_told_as_copied() -> None:
    told = turned(Direction.STOP, MoveClosed(T0, Outcome.STOPPED, "stopped", (2, 3), 1_000))
    assert told == [(1_000, 1_000, 0.999), (1_000, 1_000, 1.0)]
    gone = view(ACCEPTED, MoveClosed(T0, Outcome.SUPERSEDED, "somebody else", (7,), 0))
    assert (gone.copied_bytes, gone.total_bytes) == (0, 0)


def test_what_a_rollback_would_copy_is_told_of_open_moves_and_of_steps_that_nobody_has_looked_at() -> None:
    accepted = MoveAccepted(T0, None, (1, 2), (3, 4), Strategy.INCREMENTAL, 1_000, ())
    stepping = view(accepted, StepBegun(T0, 1, (1, 2), (2, 3), "-1 +3"))
    assert stepping.rollback_bytes == 1_000, "the step may have ended since the journal's last entry"
    ended = view(
        accepted,
        StepBegun(T0, 1, (1, 2), (3, 4), "all"),
        StepFinished(T0, 1, (3, 4), (3, 4), 2_000),
        MoveClosed(T0, Outcome.DONE, "the target is reached", (3, 4), 2_000),
    )
    assert ended.rollback_bytes == 0, "what has ended is not rolled back any more"


def test_a_view_comes_back_from_json_as_it_was() -> None:
    before = view(ACCEPTED)
    document = orjson.loads(orjson.dumps(view_to_json(before)))
    after = view_from_json(document)
    assert after is not None
    assert (after.share, after.counts, after.brokers_down) == (before.share, before.counts, before.brokers_down)
    assert [row.partition for row in after.moves] == ["t-0"]
    del document["counts"]
    assert view_from_json(document) is None


def test_a_view_of_another_day_is_nobodys(tmp_path: Path) -> None:
    place = JournalPlace(tmp_path / "a.journal")
    assert read_view(place) is None
    now_ms = SystemClock().now_ms()
    for age_ms, seen in ((1_000, True), (3_600_000, False)):
        place.view_path.write_bytes(orjson.dumps(view_to_json(view(ACCEPTED, at_ms=now_ms - age_ms))))
        assert (read_view(place) is not None) is seen


def test_on_a_former_drivers_host_its_view_is_not_the_drivers(tmp_path: Path) -> None:
    """An SRE's find: `status` there mixed the figures of the moment it ended with those of now."""
    place, here = JournalPlace(tmp_path / "a.journal"), socket.gethostname()
    document = view_to_json(view(ACCEPTED, at_ms=SystemClock().now_ms()))
    place.view_path.write_bytes(orjson.dumps({**document, "process": 7}))
    found = {
        each: read_view(place, LeaseHolder("x", *each, 0)) is not None for each in ((here, 7), (here, 8), ("b", 7))
    }
    assert found == {(here, 7): True, (here, 8): False, ("b", 7): False}


async def test_no_view_is_written_before_the_journal_is_read(tmp_path: Path) -> None:
    """An outsider's find: at a change of driver `status` said "0 B left" of 100 MB for half a minute."""
    core, path = Executor(), tmp_path / "view"
    nobody: Any = None
    driver: Any = SimpleNamespace(clock=SystemClock())
    publishing = asyncio.create_task(Session(nobody, nobody, core, driver, path).publish(None))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not path.exists()
    core.handle(ev.Envelope(1, "start", ev.JournalLoaded((), "c")))
    async with asyncio.timeout(30):
        while not path.exists():  # noqa: ASYNC110 - the file is written by a thread
            await asyncio.sleep(0)
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
