"""The read model of an execution: its ETA, debts, and moves that can't end."""

from __future__ import annotations

import orjson
import pytest

from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.state import ExecutorState, Move, Throttle
from shunter.model.execution import ObservedPartition, ObservedTopic, ThrottleKey
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
