"""The read model of an execution: its ETA, debts, and moves that can't end."""

from __future__ import annotations

import orjson
import pytest

from shunter.cli.execution.display import told_view
from shunter.core.executor.apply import apply
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.state import ExecutorState, Move, Throttle
from shunter.model.execution import (
    Direction,
    DirectionChanged,
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    MoveAccepted,
    MoveClosed,
    ObservedPartition,
    ObservedTopic,
    Outcome,
    PlanAccepted,
    StepBegun,
    StepFinished,
    ThrottleKey,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution, view_from_json, view_to_json

T0 = TopicPartition("t", 0)


def waiting_for_a_dead_broker() -> ExecutorState:
    """One move to broker 5, which is down, and a throttle that has still to be given back to broker 9."""
    state = ExecutorState(running=True)
    state.moves[T0] = Move(T0, None, (1,), (5,), Strategy.INCREMENTAL, 1_000, (), False, 0, current=(1,))
    state.cluster.brokers = {1: None}
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((1,), (1,), 1)})
    for broker in (1, 9):
        key = ThrottleKey("broker", str(broker), "leader.replication.throttled.rate")
        state.throttles[key] = Throttle(None, "5")
    return state


def test_it_tells_the_reason_in_place_of_an_end_and_what_is_owed() -> None:
    view = view_execution(waiting_for_a_dead_broker(), Meter(), 5, 1_000)
    assert view.left_ms is None
    assert view.held.startswith("no end: 1 stuck: it can't end without broker 5, which is down and part of its target")
    assert view.owed == "broker 9", "what a move needs is not owed yet"
    (row,) = view.moves
    assert row.stuck.endswith("`shunter rollback` or `shunter stop` ends it")


def test_another_process_reads_the_same() -> None:
    view = view_execution(waiting_for_a_dead_broker(), Meter(), 5, 1_000)
    again = view_from_json(orjson.loads(orjson.dumps(view_to_json(view))))
    assert again is not None
    assert (again.held, again.owed, again.moves[0].stuck) == (view.held, view.owed, view.moves[0].stuck)


def executed(*sizes: int) -> ExecutorState:
    """A journal's fold with a move of (1,) to (5,) for each partition of these sizes."""
    state = ExecutorState()
    accepted = [
        MoveAccepted(TopicPartition("t", n), None, (1,), (5,), Strategy.INCREMENTAL, size, ())
        for n, size in enumerate(sizes)
    ]
    written(state, PlanAccepted("p", "c", ExecutionOptions()), *accepted, at_ms=1)
    return state


def written(state: ExecutorState, *records: JournalRecord, at_ms: int) -> float:
    for record in records:
        apply(state, JournalEntry(state.next_sequence, at_ms, "c", record))
    return view_execution(state, Meter(), None, 5).share


def step(n: int) -> tuple[JournalRecord, ...]:
    tp = TopicPartition("t", n)
    return (StepBegun(tp, 1, (1,), (5,), "+5"), StepFinished(tp, 1, (5,), (5,), 0))


def closed(n: int, outcome: Outcome) -> JournalRecord:
    return MoveClosed(TopicPartition("t", n), outcome, "why", (5,), 0)


def test_the_share_has_one_base_and_is_whole_only_at_the_end() -> None:
    """An outsider's find: an execution showed 100 %, and then 63.6 %."""
    state = executed(600, 300, 100, 0)
    shares = [
        written(state, *step(0), at_ms=2),
        written(state, closed(0, Outcome.DONE), at_ms=3),
        written(state, DirectionChanged(TopicPartition("t", 1), Direction.STOP), at_ms=4),
        written(state, closed(1, Outcome.STOPPED), at_ms=5),
        written(state, *step(2), at_ms=6),
        written(state, closed(2, Outcome.DONE), at_ms=7),
    ]
    assert shares == [0.6, 0.6, 0.9, 0.9, 0.999, 0.999], "partition 3 has nothing to copy, and is open"
    assert written(state, closed(3, Outcome.DONE), at_ms=8) == 1.0
    for n in range(4):
        state = executed(600, 300, 100, 0)
        written(state, DirectionChanged(TopicPartition("t", n), Direction.BACK), at_ms=2)
        assert view_execution(state, Meter(), None, 5).plan_bytes == 1_000, "whatever becomes of a move"


def test_what_a_later_plan_adds_is_said() -> None:
    state = executed(600)
    assert written(state, *step(0), at_ms=2) == 0.999
    more = MoveAccepted(TopicPartition("t", 9), None, (1,), (5,), Strategy.INCREMENTAL, 400, ())
    assert written(state, PlanAccepted("q", "c", ExecutionOptions()), more, at_ms=3) == 0.6
    view = view_execution(state, Meter(), None, 5)
    assert view.added_bytes == 400
    assert "600 B of 1.0 kB (400 B added since)" in told_view(view)


@pytest.mark.parametrize(
    "changed",
    [
        {"moves": ["t-0"]},
        {"moves": [{}]},
        {"moves": None},
        {"at_ms": "now"},
        {"counts": []},
        {"brokers_down": 5},
    ],
)
def test_what_is_no_view_is_none(changed: dict[str, object]) -> None:
    document = orjson.loads(orjson.dumps(view_to_json(view_execution(waiting_for_a_dead_broker(), Meter(), 5, 1_000))))
    assert view_from_json(document) is not None
    assert view_from_json(document | changed) is None


@pytest.mark.parametrize("changed", [{"original": 1}, {"current": None}, {"target": "1"}, {"step": 7}])
def test_a_view_whose_move_has_other_replicas_than_a_list_is_none(changed: dict[str, object]) -> None:
    document = orjson.loads(orjson.dumps(view_to_json(view_execution(waiting_for_a_dead_broker(), Meter(), 5, 1_000))))
    document["moves"][0] |= changed
    assert view_from_json(document) is None


@pytest.mark.parametrize("document", [None, [], "view", 5])
def test_json_that_is_no_object_is_no_view(document: object) -> None:
    assert view_from_json(document) is None
