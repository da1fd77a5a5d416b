"""The table of a step's status: each of its pairs, and the effect of each trigger on a doubt."""

from __future__ import annotations

from itertools import product

import pytest

from shunter.core.executor.state import Move
from shunter.core.executor.step_status import (
    TABLE,
    Doubt,
    Standing,
    StepStatus,
    StepTrigger,
    status_after,
)
from shunter.errors import InvariantViolation
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

TP = TopicPartition("t", 0)
ANSWERS = {StepTrigger.TAKEN_ON, StepTrigger.NOTHING_LEFT, StepTrigger.REFUSED, StepTrigger.UNANSWERED}
DOUBTS = {StepTrigger.MISSED, StepTrigger.STRANGE, StepTrigger.GONE, StepTrigger.LAGS}
SETTLES = {StepTrigger.SETTLED, StepTrigger.RUNS, StepTrigger.DUE}
ENDS = {StepTrigger.FINISHED, StepTrigger.DROPPED, StepTrigger.CLOSED}


def move(status: StepStatus) -> Move:
    return Move(TP, None, (1, 2), (3, 4), Strategy.INCREMENTAL, 0, (), False, 0, (1, 2), status=status)


@pytest.mark.parametrize(
    ("standing", "trigger"), list(product(Standing, StepTrigger)), ids=lambda value: getattr(value, "value", "")
)
def test_a_move_notes_the_standing_that_the_table_gives_and_nothing_else(
    standing: Standing, trigger: StepTrigger
) -> None:
    before = StepStatus(standing, request_id=3, requests=2)
    noted = move(before)
    if trigger not in TABLE[standing]:
        with pytest.raises(InvariantViolation, match="by the table alone"):
            noted.note(trigger, 1_000)
        assert noted.status is before
        return
    assert noted.note(trigger, 1_000, request_id=4).standing is TABLE[standing][trigger]
    assert before == StepStatus(standing, request_id=3, requests=2), "a status is a value"


def test_each_row_says_everything_that_can_happen_to_a_move() -> None:
    assert set(TABLE) == set(Standing)
    assert all({StepTrigger.TURNED, StepTrigger.GONE, StepTrigger.CLOSED} <= set(row) for row in TABLE.values())
    assert set().union(*(row.keys() for row in TABLE.values())) == set(StepTrigger)


def test_a_step_is_asked_for_from_unasked_alone_and_never_while_a_request_is_under_way() -> None:
    assert [standing for standing in Standing if StepTrigger.SENT in TABLE[standing]] == [Standing.UNASKED]
    assert [standing for standing in Standing if StepTrigger.DUE in TABLE[standing]] == [
        Standing.UNSURE,
        Standing.ACCEPTED,
    ]


def test_a_step_that_was_seen_is_never_asked_for_again() -> None:
    reached, found = {Standing.SEEN}, [Standing.SEEN]
    while found:
        row = TABLE[found.pop()]
        later = {after for trigger, after in row.items() if trigger is not StepTrigger.BEGUN} - reached
        reached |= later
        found += later
    assert reached == {Standing.SEEN, Standing.IDLE}
    assert StepTrigger.DROPPED not in TABLE[Standing.SEEN], "and so the cluster never refuses it"


def test_only_an_end_makes_a_move_idle_and_only_a_new_step_takes_it_from_there() -> None:
    assert {trigger for row in TABLE.values() for trigger, after in row.items() if after is Standing.IDLE} - ENDS == {
        StepTrigger.TURNED,
        StepTrigger.GONE,
        StepTrigger.SETTLED,
        StepTrigger.STRANGE,
    }, "these leave an idle move idle"
    assert [trigger for trigger, after in TABLE[Standing.IDLE].items() if after is not Standing.IDLE] == [
        StepTrigger.BEGUN
    ]


DOUBTFUL = [(standing, why) for standing in Standing for why in DOUBTS & TABLE[standing].keys()]


@pytest.mark.parametrize(("standing", "why"), DOUBTFUL, ids=lambda value: getattr(value, "value", ""))
def test_a_doubt_tells_since_when_and_why_until_it_is_settled(standing: Standing, why: StepTrigger) -> None:
    doubtful = status_after(StepStatus(standing), why, TP, at_ms=1_000)
    assert doubtful.doubt == Doubt(1_000, why)
    assert status_after(doubtful, why, TP, at_ms=5_000).doubt == Doubt(1_000, why), "the first moment counts"
    for trigger in TABLE[standing].keys() - DOUBTS:
        after = status_after(doubtful, trigger, TP, at_ms=6_000)
        ends = trigger in SETTLES or trigger is StepTrigger.BEGUN or trigger in ENDS
        assert after.doubt == (None if ends else doubtful.doubt), trigger


def test_another_strange_look_keeps_the_clock_and_a_lag_has_its_own() -> None:
    status = status_after(StepStatus(Standing.ACCEPTED), StepTrigger.MISSED, TP, at_ms=1_000)
    status = status_after(status, StepTrigger.STRANGE, TP, at_ms=2_000)
    status = status_after(status, StepTrigger.GONE, TP, at_ms=3_000)
    assert status.doubt == Doubt(1_000, StepTrigger.GONE)
    lagging = status_after(status, StepTrigger.LAGS, TP, at_ms=4_000)
    assert lagging.doubt == Doubt(4_000, StepTrigger.LAGS)
    assert status_after(lagging, StepTrigger.MISSED, TP, at_ms=5_000).doubt == Doubt(5_000, StepTrigger.MISSED)


def test_since_when_a_step_is_missed_outlasts_further_requests_and_ends_when_it_is_seen() -> None:
    status = StepStatus(Standing.UNASKED)
    for trigger in (StepTrigger.SENT, StepTrigger.TAKEN_ON, StepTrigger.MISSED, StepTrigger.DUE, StepTrigger.SENT):
        status = status_after(status, trigger, TP, at_ms=7_000, request_id=9)
    assert (status.requests, status.missed_since_ms, status.doubt) == (2, 7_000, None)
    status = status_after(status, StepTrigger.TAKEN_ON, TP, at_ms=8_000)
    status = status_after(status, StepTrigger.MISSED, TP, at_ms=9_000)
    assert (status.missed_since_ms, status.doubt) == (7_000, Doubt(9_000, StepTrigger.MISSED))
    assert status_after(status, StepTrigger.RUNS, TP).missed_since_ms is None


def test_a_refusal_is_remembered_until_the_move_is_turned_or_another_answer_comes() -> None:
    refused = status_after(StepStatus(Standing.ASKED), StepTrigger.REFUSED, TP, at_ms=1, why="POLICY_VIOLATION: no")
    assert refused.refused == "POLICY_VIOLATION: no"
    assert status_after(refused, StepTrigger.TURNED, TP).refused == ""
    again = status_after(status_after(refused, StepTrigger.DUE, TP), StepTrigger.SENT, TP, request_id=2)
    assert again.refused == "POLICY_VIOLATION: no"
    assert {status_after(again, trigger, TP).refused for trigger in ANSWERS - {StepTrigger.REFUSED}} == {""}


@pytest.mark.parametrize("trigger", sorted(ANSWERS, key=lambda each: each.value))
def test_what_was_seen_before_an_answer_says_nothing_of_the_request(trigger: StepTrigger) -> None:
    answered = status_after(StepStatus(Standing.ASKED), trigger, TP, at_ms=3_000)
    assert answered.blind_until_ms == 3_000
    assert answered.nothing_left is (trigger is StepTrigger.NOTHING_LEFT)


def test_a_new_step_and_the_end_of_one_begin_a_new_status() -> None:
    told = StepStatus(
        Standing.SEEN, Doubt(1, StepTrigger.GONE), 5, 2, 900, nothing_left=True, refused="no", missed_since_ms=4
    )
    assert status_after(told, StepTrigger.BEGUN, TP) == StepStatus(Standing.UNSURE)
    assert {status_after(told, trigger, TP) for trigger in ENDS & TABLE[Standing.SEEN].keys()} == {StepStatus()}


def test_an_unknown_pair_names_the_partition_the_status_and_the_trigger() -> None:
    with pytest.raises(InvariantViolation) as caught:
        status_after(StepStatus(Standing.IDLE), StepTrigger.SENT, TP)
    assert all(word in str(caught.value) for word in ("'t'", "IDLE", "SENT"))


def test_who_began_a_step_or_saw_it_run_would_know_of_its_end() -> None:
    """Then the bytes that a rollback would copy are exact. Otherwise they are an upper bound ("at most")."""
    assert [standing for standing in Standing if StepStatus(standing).watched] == [Standing.UNASKED, Standing.SEEN]
    assert StepStatus(Standing.UNSURE, requests=1).watched
