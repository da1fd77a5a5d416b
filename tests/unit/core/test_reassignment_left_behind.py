"""Moves that a Shunter leaves to another controller: where they end then, and what is said about them."""

from uuid import UUID

import pytest

from shunter.core.reassignment import LeftMove, left_move, told_moves
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy

TOPIC = UUID(int=7)
TP = TopicPartition("mv", 2)
STEP = ReplicaAssignment((1, 2), adding=(2,))
LAST = ReplicaAssignment((1, 2), removing=(1,))


def record(written=STEP, phase=Phase.MOVING, *, legacy=False):
    return Reassignment(TOPIC, (1,), (2,), Strategy.INCREMENTAL, phase, written, accepted_at_ms=1, top=1, legacy=legacy)


@pytest.mark.parametrize(
    ("written", "phase", "found", "ends_at", "wanted"),
    [
        pytest.param(STEP, Phase.MOVING, STEP, (1, 2), (2,), id="a step that is under way"),
        pytest.param(STEP, Phase.MOVING, ReplicaAssignment((1, 2)), (1, 2), (2,), id="a step that Apache has ended"),
        pytest.param(STEP, Phase.PAUSED, STEP, (1, 2), (2,), id="a paused move, which Apache goes on with"),
        pytest.param(STEP, Phase.ROLLING_BACK, STEP, (1, 2), (1,), id="a rollback"),
        pytest.param(LAST, Phase.MOVING, LAST, (2,), (2,), id="the last step, after which Apache is at the target"),
        pytest.param(
            ReplicaAssignment((1,)), Phase.PENDING, ReplicaAssignment((1,)), (1,), (2,), id="a move that has not begun"
        ),
    ],
)
def test_where_a_move_ends_without_shunter(written, phase, found, ends_at, wanted):
    left = left_move(TP, record(written, phase), TOPIC, found)
    assert left == LeftMove(TP, ends_at, wanted)
    assert left.is_short == (ends_at != wanted)


@pytest.mark.parametrize(
    ("phase", "topic_id", "found"),
    [
        pytest.param(Phase.MOVING, TOPIC, ReplicaAssignment((2,)), id="somebody has moved it to its target"),
        pytest.param(Phase.MOVING, TOPIC, ReplicaAssignment((3,)), id="somebody has moved it elsewhere"),
        pytest.param(Phase.MOVING, UUID(int=8), STEP, id="the record is of an older topic of that name"),
        pytest.param(Phase.DROPPING, TOPIC, STEP, id="the move is over but for its deletions"),
    ],
)
def test_a_move_that_is_over_is_not_left(phase, topic_id, found):
    assert left_move(TP, record(STEP, phase), topic_id, found) is None


def test_an_apache_broker_goes_on_to_the_target_of_its_own_znode():
    assert left_move(TP, record(legacy=True), TOPIC, STEP, by_legacy_znode=True) == LeftMove(TP, (2,), (2,))
    assert left_move(TP, record(), TOPIC, STEP, by_legacy_znode=True) == LeftMove(TP, (1, 2), (2,))


def test_the_moves_are_counted_and_those_that_stop_short_are_named():
    short, whole = LeftMove(TP, (1, 2), (2,)), LeftMove(TopicPartition("u", 0), (2,), (2,))
    assert told_moves([short, whole]) == (
        "2 moves of topics mv, u are not over; a controller that is no Shunter ends 1 short of the target: "
        "mv-2 at [1, 2], not at [2]"
    )
    assert told_moves([whole]) == (
        "1 move of topic u is not over; a controller that is no Shunter ends it at the target"
    )
    assert told_moves([short] * 5).endswith("mv-2 at [1, 2], not at [2] and 2 more")
