"""KIP-236: drop set, rollback, conflicting requests; sentence by sentence, as far as they decide about one partition."""

import pytest

from shunter.core.reassignment import (
    Row,
    Situation,
    Sources,
    Step,
    drop_set,
    next_step,
    reconcile,
    roll_back,
    same_route,
    supersede,
    validate_top,
)
from shunter.model.partition import ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy


def stand(assignment: ReplicaAssignment, isr: Replicas, leader: int) -> Situation:
    return Situation(assignment, isr, leader, frozenset(range(900)), min_isr=1)


def rolled_back(assignment: ReplicaAssignment, isr: Replicas, leader: int, original: Replicas) -> Step:
    decided = roll_back(stand(assignment, isr, leader), original=original)
    assert isinstance(decided, Step)
    return decided


RUNNING = ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))


# The drop set


def test_top_is_the_size_of_the_original_assignment_and_is_checked():
    """ "We check top >= min.insync.replicas, logging a warning and ignore the reassignment if the check fails." """
    assert validate_top(len((1, 2)), 3, place="t-0") is not None
    assert validate_top(len((1, 2)), 2, place="t-0") is None


def test_the_existing_list_begins_with_the_leader_then_the_isr_then_the_rest():
    """ "Create a list of current replicas existing = List(leader) ++ isr ++ osr" """
    assert drop_set((1, 2, 3, 4), isr=(2, 3), leader=3, top=1) == (1, 2, 4)
    assert drop_set((1, 2, 3, 4), isr=(2, 3), leader=3, top=2) == (1, 4)
    assert drop_set((1, 2, 3, 4), isr=(2, 3), leader=3, top=3) == (4,)


def test_duplicates_count_once():
    """ "Remove duplicates from existing (keeping the first occurrence in the list)" """
    assert drop_set((1, 2, 3), isr=(1, 2, 3), leader=1, top=2) == (3,)


def test_the_slice_is_inclusive():
    """ "the set of replicas which can be dropped is: drop = assigned -- existing[0:top-1]" — read as inclusive:
    docs/decisions/0105-supersede.md (exclusive, a partition of one replica would drop its only one).
    """
    assert drop_set((1,), isr=(1,), leader=1, top=1) == ()
    assert drop_set((1, 2, 3), isr=(1, 2), leader=1, top=2) == (3,)


def test_what_the_new_target_wants_is_not_dropped():
    """Departs: docs/decisions/0105-supersede.md. "drop = assigned -- existing" would fetch a wanted replica twice."""
    assert drop_set((1, 2, 3), isr=(1, 2), leader=1, top=2, wanted=(2, 3)) == ()


def test_the_leader_is_not_dropped():
    """ "More complex scenarios exist where such "intermediate replicas" become the leader." (KAFKA-14808)"""
    assert drop_set((1, 2, 3), isr=(3,), leader=3, top=1) == (1, 2)


@pytest.mark.parametrize("isr", [(1, 2), (1, 2, 3)])
def test_the_example_of_the_intermediate_replica(isr):
    """ "consider an initial assignment of [1,2], reassigned to [2,3] and then changed to [2,4]. With the current
    algorithm broker 3 will remain in the assigned replicas until broker 4 is in sync"
    """
    now = stand(ReplicaAssignment((2, 3, 1), (3,), (1,)), isr, leader=1)
    step = supersede(now, original=(1, 2), new_target=(2, 4), top=2, strategy=Strategy.ALL_AT_ONCE)
    assert step.dropped == (3,)
    assert step.assignment == ReplicaAssignment((2, 4, 1), (4,), (1,))
    assert (step.isr, step.leader) == ((1, 2), 1)


def test_it_is_computed_anew_each_time_the_reassignment_changes():
    """ "Then, initially, and each time the reassignment changes" """
    now = stand(ReplicaAssignment((2, 3, 1), (3,), (1,)), (1, 2), leader=1)
    for target in ((2, 4), (2, 5), (2, 6)):
        step = supersede(now, original=(1, 2), new_target=target, top=2, strategy=Strategy.ALL_AT_ONCE)
        assert step.replicas == (*target, 1)
        now = now.after(step)


def test_the_dropped_leave_memory_and_zookeeper_in_one_write():
    """ "Update the assigned replicas in memory and in ZK" """
    step = supersede(
        stand(RUNNING, (1, 2, 3), 1), original=(1, 2, 3), new_target=(4, 7, 8), top=3, strategy=Strategy.ALL_AT_ONCE
    )
    assert step.dropped == (5, 6)
    assert not {5, 6} & {*step.replicas, *step.isr, *step.assignment.adding}


# Rollback


def test_the_motivating_rollback():
    """ "original replicas [1,2,3], new replicas [4,5,6] … the reassignment should be able to get cancelled
    immediately and reverted back to original replicas [1,2,3], and dropping the new replicas."
    """
    step = rolled_back(RUNNING, (1, 2, 3), 1, (1, 2, 3))
    assert step == Step((4, 5, 6), (), ReplicaAssignment((1, 2, 3)), (1, 2, 3), 1, final=True)


def test_a_leader_outside_the_originals_is_replaced_by_one_of_them():
    """ "If the leader is not in OAR, elect a new leader from OAR." """
    assert rolled_back(RUNNING, (4, 2, 3), 4, (1, 2, 3)).leader == 2


def test_a_leader_among_the_originals_stays():
    """ "If not, then leader epoch will be incremented in zookeeper and a LeaderAndIsr request will be sent." """
    assert rolled_back(RUNNING, (1, 2, 3, 4), 3, (1, 2, 3)).leader == 3


def test_the_assignment_is_the_original_one():
    """ "In any case, the LeaderAndIsr request will have AR = OAR." — and "Update AR in ZK with OAR." """
    assert rolled_back(RUNNING, (1, 2, 3, 4), 1, (3, 1, 2)).assignment == ReplicaAssignment((3, 1, 2))


def test_the_isr_shrinks_in_the_same_write():
    """ "we shrink the isr to remove RAR - OAR in zookeeper" — one multi: docs/decisions/0103-writes.md"""
    assert rolled_back(RUNNING, (1, 2, 3, 4, 5), 1, (1, 2, 3)).isr == (1, 2, 3)


def test_the_additions_are_named_for_deletion():
    """ "Move all replicas in RAR - OAR to NonExistentReplica state." """
    assert set(rolled_back(RUNNING, (1, 2, 3), 1, (1, 2, 3)).dropped) == {4, 5, 6}


def test_a_replica_in_both_sets_is_not_touched():
    """ "replicas -> Buffer(832, 679, 680), original_replicas -> Buffer(832, 679, 681)" """
    step = rolled_back(ReplicaAssignment((832, 679, 680, 681), (680,), (681,)), (832, 679, 681), 832, (832, 679, 681))
    assert (step.dropped, step.added, step.replicas) == ((680,), (), (832, 679, 681))


def test_the_partition_leaves_the_legacy_znode_when_it_is_rolled_back():
    """ "Update the /admin/reassign_partitions path in ZK to remove this partition." """
    assert rolled_back(RUNNING, (1, 2, 3), 1, (1, 2, 3)).final


def test_a_client_can_cancel_by_asking_for_the_old_replicas():
    """ "it is possible to "cancel" the reassignment of a single partition by changing the reassignment to the old
    assigned replicas"
    """
    now = stand(RUNNING, (1, 2, 3), 1)
    step = supersede(now, original=(1, 2, 3), new_target=(1, 2, 3), top=3, strategy=Strategy.ALL_AT_ONCE)
    assert step == rolled_back(RUNNING, (1, 2, 3), 1, (1, 2, 3))._replace(dropped=step.dropped)
    assert set(step.dropped) == {4, 5, 6}


# Ends and conflicts


def test_it_is_over_when_the_isr_has_all_new_replicas():
    """ "When the ISR includes all the newly assigned replicas … the controller would remove the relevant child" """
    for isr, over in (((1, 2, 3, 4, 5), False), ((1, 2, 3, 4, 5, 6), True)):
        now = stand(RUNNING, isr, 1)
        decided = next_step(now, original=(1, 2, 3), target=(4, 5, 6), strategy=Strategy.ALL_AT_ONCE)
        assert (isinstance(decided, Step) and decided.final) is over


def test_extra_reassignments_roll_back_first_then_start_anew_in_one_write():
    """ "first cancel / rollback the reassignments of those topic/partitions … then submit new reassignments" """
    step = supersede(
        stand(RUNNING, (1, 2, 3), 1), original=(1, 2, 3), new_target=(7, 8, 9), top=3, strategy=Strategy.ALL_AT_ONCE
    )
    assert set(step.dropped) == {4, 5, 6}
    assert step.added == (7, 8, 9)
    assert step.assignment == ReplicaAssignment((7, 8, 9, 1, 2, 3), (7, 8, 9), (1, 2, 3))


def test_legacy_and_other_requests_do_not_mix():
    """ "If it does, and one is a legacy request and the other is not, then it logs a warning that the request is being
    ignored."
    """
    assert not same_route(False, legacy=True)
    assert not same_route(True, legacy=False)
    assert same_route(True, legacy=True)


def test_a_legacy_znode_made_while_there_was_no_controller_is_started():
    """ "Creation of /admin/reassign_partitions while there was no active controller" """
    found = reconcile(Sources(None, ReplicaAssignment((1, 2, 3)), legacy_target=(4, 5, 6)))
    assert (found.row, found.original, found.target) == (Row.START_LEGACY, (1, 2, 3), (4, 5, 6))


def test_original_replicas_of_the_znode_are_what_a_rollback_restores():
    """ "This "original_replicas" will be used for rollback of the topic/partition replicas assignment" """
    begun = ReplicaAssignment((1, 2, 4, 3), adding=(4,), removing=(3,))
    found = reconcile(Sources(None, begun, legacy_target=(1, 2, 5), legacy_original=(3, 2, 1)))
    assert found.original == (3, 2, 1)
