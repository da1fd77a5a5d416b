"""Stop, rollback, another target: case by case."""

from __future__ import annotations

import pytest

from shunter.core.reassignment import (
    Situation,
    Step,
    Waiting,
    WaitReason,
    drop_set,
    plan_on_paper,
    roll_back,
    roll_back_on_paper,
    step_costs,
    stop,
    supersede,
)
from shunter.model.partition import NO_LEADER, ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy

ORIGINAL = (0, 1, 2)


def situation(
    assignment: ReplicaAssignment, *, isr: Replicas, leader: int, dead: Replicas = (), min_isr: int = 1
) -> Situation:
    return Situation(assignment, isr, leader, frozenset(range(12)) - frozenset(dead), min_isr)


ALL_ADDED = ReplicaAssignment((3, 4, 5, 0, 1, 2), (3, 4, 5), (0, 1, 2))


def test_a_stop_keeps_additions_in_sync_in_their_place_and_drops_the_others():
    stopped = stop(situation(ALL_ADDED, isr=(0, 1, 4), leader=0), original=ORIGINAL)
    assert stopped == Step((3, 5), (), ReplicaAssignment((4, 0, 1, 2)), (0, 1, 4), 0, final=True)


def test_a_stop_keeps_an_original_that_fell_behind():
    now = situation(ReplicaAssignment((0, 1, 2, 3), (3,)), isr=(0, 1), leader=0)
    assert stop(now, original=ORIGINAL).replicas == (0, 1, 2)


def test_a_stop_in_the_middle_of_a_rollback_drops_the_original_that_is_still_fetched():
    now = situation(ReplicaAssignment((0, 4, 5, 1), (1,)), isr=(0, 4, 5), leader=0)
    assert stop(now, original=ORIGINAL).replicas == (0, 4, 5)


def test_a_stop_of_an_offline_partition_keeps_its_last_in_sync_replica():
    now = situation(ReplicaAssignment((0, 2, 3, 4), (4,)), isr=(3,), leader=NO_LEADER, dead=(3,))
    assert stop(now, original=ORIGINAL) == Step((4,), (), ReplicaAssignment((0, 2, 3)), (3,), NO_LEADER, final=True)


def test_a_stop_drops_nobody_where_nobody_is_known_to_be_in_sync():
    now = situation(ReplicaAssignment((3, 4)), isr=(), leader=NO_LEADER)
    assert stop(now, original=ORIGINAL).replicas == (3, 4)


def test_a_rollback_before_anything_was_dropped_is_one_write_in_the_original_order():
    now = situation(ReplicaAssignment((3, 4, 1, 0), (3, 4), ()), isr=(3, 0, 1), leader=3)
    assert roll_back(now, original=(1, 0)) == Step((4, 3), (), ReplicaAssignment((1, 0)), (0, 1), 1, final=True)


def test_a_rollback_is_done_when_the_original_stands_there():
    assert roll_back(situation(ReplicaAssignment(ORIGINAL), isr=(0,), leader=0), original=ORIGINAL) is None


def test_a_rollback_clears_the_marks_of_an_assignment_that_is_back():
    now = situation(ReplicaAssignment(ORIGINAL, (2,)), isr=ORIGINAL, leader=0)
    assert roll_back(now, original=ORIGINAL) == Step((), (), ReplicaAssignment(ORIGINAL), ORIGINAL, 0, final=True)


def test_a_rollback_fetches_dropped_originals_one_by_one_while_additions_stand_in():
    now = situation(ReplicaAssignment((0, 3, 4, 5)), isr=(0, 3, 4, 5), leader=0)
    plan = roll_back_on_paper(now, original=ORIGINAL)
    assert [(step.dropped, step.added, step.replicas) for step in plan.steps] == [
        ((3,), (1,), (0, 4, 5, 1)),
        ((4,), (2,), (0, 5, 1, 2)),
        ((5,), (), (0, 1, 2)),
    ]
    assert [step.assignment.adding for step in plan.steps] == [(1,), (2,), ()]


def test_a_returning_original_is_waited_for_before_the_next():
    now = situation(ReplicaAssignment((0, 4, 5, 1), (1,)), isr=(0, 4, 5), leader=0)
    assert roll_back(now, original=ORIGINAL) == Waiting(WaitReason.CATCHING_UP, (1,))


def test_an_addition_out_of_sync_goes_at_once_whatever_the_originals_are():
    now = situation(ALL_ADDED, isr=(3,), leader=3, dead=ORIGINAL, min_isr=2)
    step = roll_back(now, original=ORIGINAL)
    assert isinstance(step, Step)
    assert (step.dropped, step.leader) == ((4, 5), 3)
    assert roll_back(now.after(step), original=ORIGINAL) == Waiting(WaitReason.ORIGINALS, ORIGINAL, have=0, need=2)


def test_additions_go_as_soon_as_min_insync_originals_are_healthy():
    now = situation(ALL_ADDED, isr=(3, 4, 5, 1), leader=3, dead=(2,), min_isr=2)
    assert roll_back(now, original=ORIGINAL) == Waiting(WaitReason.ORIGINALS, (0, 2), have=1, need=2)
    healed = situation(ALL_ADDED, isr=(3, 4, 5, 1, 0), leader=3, dead=(2,), min_isr=2)
    assert roll_back(healed, original=ORIGINAL) == Step(
        (4, 5, 3), (), ReplicaAssignment(ORIGINAL), (1, 0), 0, final=True
    )


def test_a_dropped_original_that_is_dead_does_not_keep_the_additions():
    now = situation(ReplicaAssignment((0, 2, 3, 4)), isr=(0, 2, 3, 4), leader=0, dead=(1,), min_isr=2)
    step = roll_back(now, original=ORIGINAL)
    assert step == Step((3, 4), (), ReplicaAssignment((0, 2)), (0, 2), 0, final=False)
    assert roll_back(now.after(step), original=ORIGINAL) == Waiting(WaitReason.DEAD, (1,))


def test_a_min_isr_above_the_originals_size_does_not_block_for_ever():
    now = situation(ReplicaAssignment((3, 0), (3,), (0,)), isr=(0, 3), leader=0, min_isr=2)
    step = roll_back(now, original=(0,))
    assert isinstance(step, Step)
    assert step.replicas == (0,)


def test_a_rollback_of_an_offline_partition_waits_for_a_leader():
    now = situation(ALL_ADDED, isr=(3,), leader=NO_LEADER, dead=(3,))
    assert roll_back(now, original=ORIGINAL) == Waiting(WaitReason.NO_LEADER, (3,))


@pytest.mark.parametrize("top", [-1, 0, 1])
def test_the_drop_set_never_has_the_leader(top):
    assert drop_set((1, 2, 3), (3, 1), 3, top) == (1, 2)


def test_the_drop_set_of_an_offline_partition_starts_from_the_isr():
    assert drop_set((1, 2, 3), (2,), NO_LEADER, 1) == (1, 3)


def test_the_drop_set_ignores_isr_members_outside_the_assignment():
    assert drop_set((1, 2, 3), (9, 3, 1), 3, 2) == (2,)


def test_another_target_keeps_what_both_want_running_and_drops_the_rest_in_one_write():
    now = situation(ALL_ADDED, isr=(0, 1, 2, 3), leader=0)
    step = supersede(now, original=ORIGINAL, new_target=(3, 4, 6), top=3, strategy=Strategy.ALL_AT_ONCE)
    assert step == Step(
        (5,), (6,), ReplicaAssignment((3, 4, 6, 0, 1, 2), (3, 4, 6), (0, 1, 2)), (0, 1, 2, 3), 0, final=False
    )


def test_another_target_that_is_where_the_partition_stands_ends_the_move():
    now = situation(ReplicaAssignment((0, 1, 2, 3), (3,)), isr=(0, 1, 2), leader=0)
    step = supersede(now, original=ORIGINAL, new_target=ORIGINAL, top=3, strategy=Strategy.INCREMENTAL)
    assert step == Step((3,), (), ReplicaAssignment(ORIGINAL), ORIGINAL, 0, final=True)


def test_another_target_waits_for_an_addition_that_both_want():
    now = situation(ReplicaAssignment((0, 1, 2, 3), (3,)), isr=(0, 1, 2), leader=0)
    step = supersede(now, original=ORIGINAL, new_target=(3, 7, 8), top=3, strategy=Strategy.INCREMENTAL)
    assert step == Step((), (), ReplicaAssignment((0, 1, 2, 3), (3,)), ORIGINAL, 0, final=False)


def test_a_leader_that_is_an_addition_stays_until_somebody_else_can_lead():
    # KAFKA-14808: the leader is an adding replica, alone in sync, when its move is superseded.
    now = situation(ReplicaAssignment((3, 4, 0, 1), (3, 4), (0, 1)), isr=(3,), leader=3)
    step = supersede(now, original=(0, 1), new_target=(5, 6), top=2, strategy=Strategy.ALL_AT_ONCE)
    assert step.leader == 3
    assert 3 in step.replicas
    assert 4 not in step.replicas


def test_a_move_of_an_offline_partition_is_turned_without_a_leader():
    now = situation(ALL_ADDED, isr=(0,), leader=NO_LEADER, dead=(0,))
    step = supersede(now, original=ORIGINAL, new_target=(3, 6, 7), top=3, strategy=Strategy.INCREMENTAL)
    assert step == Step((4, 5), (), ReplicaAssignment((3, 0, 1, 2), (3,)), (0,), NO_LEADER, final=False)


def test_another_target_leaves_as_many_live_in_sync_as_there_were_at_first():
    # Two of the ISR have just died: by the drop set's letter 5 could go, and one live in-sync replica would stay.
    now = situation(ReplicaAssignment((0, 3, 4, 5)), isr=(0, 3, 4, 5), leader=0, dead=(3, 4))
    step = supersede(now, original=ORIGINAL, new_target=(6, 7, 8), top=3, strategy=Strategy.INCREMENTAL)
    assert 5 in step.replicas


def test_a_rollback_on_paper_costs_what_was_dropped():
    plan = plan_on_paper((0, 1, 2), (3, 4, 5), 0)
    costs = step_costs(plan.steps, original=ORIGINAL, partition_bytes=10)
    assert [cost.copied_bytes for cost in costs] == [10, 10, 10, 0]
    assert [cost.rollback_bytes for cost in costs] == [0, 10, 20, 30]


def test_a_rollback_all_at_once_is_instant_until_the_last_write():
    plan = plan_on_paper((0, 1, 2), (3, 4, 5), 0, strategy=Strategy.ALL_AT_ONCE)
    costs = step_costs(plan.steps, original=ORIGINAL, partition_bytes=10)
    assert [cost.rollback_bytes for cost in costs] == [0, 30]
