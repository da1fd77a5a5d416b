"""What an execution's end, a refusal and another shell's view of it mean to an operator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson

from shunter.app.executor import Ended, read_view
from shunter.app.executor_outcome import exit_code, told_end
from shunter.app.exit_codes import ExitCode
from shunter.app.journals import JournalPlace
from shunter.core.executor.apply import apply
from shunter.core.executor.rates import Meter
from shunter.core.executor.ready import Finish, MoveResult, PlanReply
from shunter.core.executor.state import ExecutorState
from shunter.drivers.execution import SystemClock
from shunter.model.execution import (
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    MoveAccepted,
    MoveClosed,
    Outcome,
    PlanAccepted,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import ExecutionView, view_execution, view_from_json, view_to_json

T0 = TopicPartition("t", 0)
ACCEPTED = MoveAccepted(T0, None, (1,), (2,), Strategy.INCREMENTAL, 1_000, ())


def view(*records: JournalRecord, at_ms: int = 5) -> ExecutionView:
    state = ExecutorState()
    for number, record in enumerate((PlanAccepted("p", "c", ExecutionOptions()), *records), start=1):
        apply(state, JournalEntry(number, 1, "c", record))
    return view_execution(state, Meter(), None, at_ms)


def test_who_is_told_to_go_with_nothing_under_way_leaves_nothing_behind() -> None:
    idle = replace(view(ACCEPTED), running=False)
    assert exit_code(Ended(None, idle)) is ExitCode.DONE
    assert told_end(Ended(None, idle)) == ["left; nothing was under way"]
    assert exit_code(Ended(None, view(ACCEPTED))) is ExitCode.LEFT


def test_a_refused_plan_does_not_boast_with_the_moves_of_another() -> None:
    former = view(ACCEPTED, MoveClosed(T0, Outcome.DONE, "the target is reached", (2,)))
    ended = Ended(Finish(), former, PlanReply("nothing can be moved", (MoveResult(T0, "no such broker"),)))
    assert told_end(ended) == ["nothing can be moved", "t-0 was not taken on: no such broker"]
    assert exit_code(ended) is ExitCode.REFUSED


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
