"""The reconciliation table, row by row."""

from __future__ import annotations

from uuid import UUID

import pytest

from shunter.core.reassignment import Closing, Reconciled, Row, Sources, reconcile, same_route
from shunter.model.partition import ReplicaAssignment
from shunter.model.reassignment import Phase, Reassignment, Strategy

TOPIC = UUID(int=7)
STILL = ReplicaAssignment((0, 1, 2))
STEP = ReplicaAssignment((0, 2, 3, 4), adding=(4,))


def record(written=STEP, *, topic_id=TOPIC, legacy=False, original=(0, 1, 2)):
    return Reassignment(
        topic_id, original, (3, 4, 5), Strategy.INCREMENTAL, Phase.MOVING, written, accepted_at_ms=1, legacy=legacy
    )


CONTINUED = Reconciled(Row.CONTINUE, None, (0, 1, 2), (3, 4, 5))


def test_a_record_whose_assignment_stands_goes_on():
    assert reconcile(Sources(TOPIC, STEP, record())) == CONTINUED


def test_a_step_that_apache_finished_goes_on():
    assert reconcile(Sources(TOPIC, ReplicaAssignment((0, 2, 3, 4)), record())) == CONTINUED


def test_a_move_all_at_once_that_apache_finished_goes_on():
    written = ReplicaAssignment((3, 4, 5, 0, 1, 2), adding=(3, 4, 5), removing=(0, 1, 2))
    assert reconcile(Sources(TOPIC, ReplicaAssignment((3, 4, 5)), record(written))) == CONTINUED
    assert reconcile(Sources(TOPIC, ReplicaAssignment((3, 4, 5, 0, 1, 2)), record(written))).row is Row.IDLE


def test_a_record_older_than_topic_ids_is_taken_for_the_topics():
    assert reconcile(Sources(TOPIC, STEP, record(topic_id=None))) == CONTINUED


def test_a_record_of_another_topic_of_that_name_is_closed():
    assert reconcile(Sources(UUID(int=8), STILL, record())) == Reconciled(Row.IDLE, Closing.TOPIC_MADE_ANEW, None, None)


def test_an_assignment_that_somebody_else_wrote_is_the_truth():
    assert reconcile(Sources(TOPIC, STILL, record())) == Reconciled(Row.IDLE, Closing.SUPERSEDED, None, None)


def test_a_superseded_record_does_not_come_back_by_target_replicas():
    assert reconcile(Sources(TOPIC, STILL, record(), target_replicas=(3, 4, 5))).row is Row.IDLE


def test_another_move_by_somebody_else_is_adopted_with_the_first_originals_order():
    # Apache's encoding puts the target first: (2, 3, 4) from (0, 1, 2) becomes (2, 3, 4, 0, 1).
    assignment = ReplicaAssignment((2, 3, 4, 0, 1), adding=(3, 4), removing=(0, 1))
    assert reconcile(Sources(TOPIC, assignment, record())) == Reconciled(
        Row.ADOPT, Closing.SUPERSEDED, (0, 1, 2), (2, 3, 4)
    )


def test_a_move_of_other_originals_is_adopted_as_it_stands():
    assignment = ReplicaAssignment((6, 0, 4), adding=(6,), removing=(0, 4))
    assert reconcile(Sources(TOPIC, assignment, record())) == Reconciled(Row.ADOPT, Closing.SUPERSEDED, (0, 4), (6,))


def test_a_new_topic_in_motion_is_adopted_without_the_old_ones_order():
    assignment = ReplicaAssignment((3, 2, 1, 0), adding=(3,), removing=(0,))
    assert reconcile(Sources(UUID(int=8), assignment, record())) == Reconciled(
        Row.ADOPT, Closing.TOPIC_MADE_ANEW, (2, 1, 0), (3, 2, 1)
    )


def test_an_assignment_in_motion_without_a_record_is_adopted():
    assignment = ReplicaAssignment((3, 4, 0, 1), adding=(3, 4), removing=(0, 1))
    assert reconcile(Sources(TOPIC, assignment)) == Reconciled(Row.ADOPT, None, (0, 1), (3, 4))


def test_a_legacy_entry_alone_is_started_from_where_the_partition_is():
    assert reconcile(Sources(TOPIC, STILL, legacy_target=(3,))) == Reconciled(
        Row.START_LEGACY, None, (0, 1, 2), (3,), legacy=True
    )


@pytest.mark.parametrize(
    ("standing", "given", "used"),
    [
        (STILL, (2, 1, 0), (0, 1, 2)),  # It stands there in its order: nobody has to tell.
        (STILL, (7, 8), (0, 1, 2)),
        (ReplicaAssignment((3, 0, 1, 2), adding=(3,)), (2, 1, 0), (2, 1, 0)),
        (ReplicaAssignment((3, 0, 1, 2), adding=(3,)), (2, 1), (0, 1, 2)),
        (ReplicaAssignment((3, 0, 1, 2), adding=(3,)), (2, 1, 1), (0, 1, 2)),
    ],
)
def test_a_legacy_entrys_own_original_replicas_tell_their_order_alone(standing, given, used):
    sources = Sources(TOPIC, standing, legacy_target=(3,), legacy_original=given)
    assert reconcile(sources).original == used


def test_a_legacy_entry_that_its_record_knows_goes_on():
    sources = Sources(TOPIC, STEP, record(legacy=True), legacy_target=(3, 4, 5))
    assert reconcile(sources) == CONTINUED._replace(legacy=True)


@pytest.mark.parametrize("moving", [record(), None])
def test_a_legacy_entry_wins_over_another_move(moving):
    assignment = STEP if moving else ReplicaAssignment((3, 0, 1, 2), adding=(3,))
    sources = Sources(TOPIC, assignment, moving, legacy_target=(6, 7))
    assert reconcile(sources) == Reconciled(Row.LEGACY_WINS, None, (0, 1, 2), (6, 7), legacy=True)


def test_a_legacy_entry_for_a_partition_of_the_new_protocol_is_ignored():
    sources = Sources(TOPIC, STEP, record(), legacy_target=(6, 7), requested=True)
    assert reconcile(sources) == CONTINUED._replace(row=Row.LEGACY_IGNORED)


def test_target_replicas_count_where_everything_else_is_silent():
    assert reconcile(Sources(TOPIC, STILL, target_replicas=(3, 4))) == Reconciled(
        Row.ADOPT_TARGET_REPLICAS, None, (0, 1, 2), (3, 4)
    )


@pytest.mark.parametrize("target_replicas", [None, (), (0, 1, 2)])
def test_nothing_moves_where_nobody_says_so(target_replicas):
    assert reconcile(Sources(TOPIC, STILL, target_replicas=target_replicas)) == Reconciled(Row.IDLE, None, None, None)


@pytest.mark.parametrize(
    ("current", "legacy", "allowed"),
    [(None, True, True), (True, True, True), (False, True, False), (True, False, False)],
)
def test_a_partition_is_not_moved_by_two_routes(current, legacy, allowed):
    assert same_route(current, legacy=legacy) is allowed
