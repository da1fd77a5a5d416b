"""KAFKA-6794, sentence by sentence: one replica at a time. Each test quotes what it holds, or the record that departs."""

import pytest

from shunter.core.reassignment import Situation, Step, Waiting, WaitReason, next_step, plan_on_paper
from shunter.core.reassignment.steps import excess_replicas
from shunter.model.partition import ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy

FTR = (3, 4, 5)
OAR = (0, 1, 2)


def stand(
    replicas: Replicas, *, isr: Replicas | None = None, dead: Replicas = (), leader: int = 0, adding: Replicas = ()
):
    live = frozenset(range(9)) - frozenset(dead)
    return Situation(ReplicaAssignment(replicas, adding), replicas if isr is None else isr, leader, live, min_isr=1)


def step_of(situation: Situation, target: Replicas = FTR, original: Replicas = OAR) -> Step:
    decided = next_step(situation, original=original, target=target, strategy=Strategy.INCREMENTAL)
    assert isinstance(decided, Step)
    return decided


def wait_of(situation: Situation, target: Replicas = FTR, original: Replicas = OAR) -> Waiting:
    decided = next_step(situation, original=original, target=target, strategy=Strategy.INCREMENTAL)
    assert isinstance(decided, Waiting)
    return decided


def test_the_example():
    """ "The following code block shows how a transition happens from (0, 1, 2) into (3, 4, 5)" """
    plan = plan_on_paper(OAR, FTR, 0)
    assert [(step.dropped, step.added, step.replicas, step.leader) for step in plan.steps] == [
        ((), (3,), (0, 1, 2, 3), 0),
        ((1,), (4,), (0, 2, 3, 4), 0),
        ((2,), (5,), (0, 3, 4, 5), 0),
        ((0,), (), (3, 4, 5), 3),
    ]
    assert plan.waiting is None


def test_a_closer_look_at_the_third_line():
    """ "FTR = (3, 4, 5); CR = (0, 1, 2, 3) … ER = order(ER) // (1, 2, 0) … TR = CR + NR - DR // (0, 2, 3, 4)" """
    now = stand((0, 1, 2, 3))
    assert excess_replicas(now, FTR) == (1, 2, 0)
    step = step_of(now)
    assert (step.dropped, step.added, step.replicas) == ((1,), (4,), (0, 2, 3, 4))


def test_the_final_and_the_current_set_are_all_that_is_used():
    """ "always the final target replica (FTR) set and the current replica (CR) set is used" """
    assert step_of(stand((0, 1, 2, 3)), original=(2, 1, 0)) == step_of(stand((0, 1, 2, 3)))


@pytest.mark.parametrize(("current", "dropped"), [((0, 1, 2), 0), ((0, 1), 0), ((0, 1, 2, 6), 1), ((0, 1, 2, 6, 7), 2)])
def test_n_is_the_excess_of_the_current_set(current, dropped):
    """ "Calculate n = size(FTR) - size(CR)" — departs: docs/decisions/0101-steps.md (the example needs the reverse)"""
    assert len(step_of(stand(current), original=current).dropped) == dropped


@pytest.mark.parametrize("target", [(3, 4, 5), (3, 4, 5, 6)])
def test_n_is_never_negative_and_binds_the_dead_too(target):
    """ "Take the first n replicas of ER": with n = 0 no replica is dropped, not even a dead one; 0101-steps.md"""
    assert step_of(stand(OAR, isr=(0, 2), dead=(1,)), target=target).dropped == ()


def test_the_excess_is_what_the_target_does_not_want():
    """ "Filter those replicas from CR which are not in FTR, this is the excess replica (ER) set" """
    assert set(excess_replicas(stand((0, 3, 1, 4)), FTR)) == {0, 1}


@pytest.mark.parametrize(("leader", "order"), [(0, (1, 2, 0)), (1, (0, 2, 1)), (2, (0, 1, 2))])
def test_the_leader_is_the_last_of_the_excess(leader, order):
    """ "Sort the ER set in an order where the leader is the last (… it will be selected only when needed)" """
    assert excess_replicas(stand(OAR, leader=leader), FTR) == order


def test_the_first_n_of_the_excess_are_dropped():
    """ "Take the first n replicas of ER, that will be the set of dropped replicas" """
    assert step_of(stand((0, 1, 2, 6, 7)), original=(0, 1, 2, 6, 7)).dropped == (1, 2)


def test_the_new_replica_is_the_first_of_the_target_that_is_missing():
    """ "selecting the first replica from FTR that is not in CR" """
    assert step_of(stand(OAR)).added == (3,)
    assert step_of(stand((0, 2, 3, 5))).added == (4,)


def test_the_target_set_of_a_step():
    """ "Create the target replica (TR) set: CR + NR - DR" """
    now = stand((0, 1, 2, 3))
    step = step_of(now)
    assert set(step.replicas) == (set(now.replicas) | set(step.added)) - set(step.dropped)


@pytest.mark.parametrize("target", [(5, 4, 3), (3, 5, 4), (4, 3, 5)])
def test_the_last_step_is_the_target_in_its_order(target):
    """ "If this is the last step, then order the replicas as specified by FTR." """
    last = plan_on_paper(OAR, target, 0).steps[-1]
    assert last.replicas == target
    assert last.final
    assert last.assignment == ReplicaAssignment(target)
    assert last.leader == target[0]


def test_a_step_starts_when_the_previous_new_replica_is_in_sync():
    """ "Wait until CR is entirely in ISR." — departs: docs/decisions/0101-steps.md (only replicas that a step needs)"""
    assert wait_of(stand((0, 1, 2, 3), isr=OAR, adding=(3,))) == Waiting(WaitReason.CATCHING_UP, (3,))
    assert step_of(stand((0, 1, 2, 3), adding=(3,))).added == (4,)


def test_a_dead_or_slow_original_does_not_block():
    """ "Wait until CR is entirely in ISR." — departs: docs/decisions/0101-steps.md (it blocks for ever on the dead)"""
    assert step_of(stand(OAR, isr=(0, 2), dead=(1,))).added == (3,)
    dead = step_of(stand((0, 1, 2, 3), isr=(0, 1, 3), dead=(2,)))
    assert (dead.dropped, dead.added) == ((2,), (4,))
    slow = step_of(stand((0, 1, 2, 3), isr=(0, 1, 3), adding=(3,)))
    assert (slow.dropped, slow.added) == ((2,), (4,))
    two = step_of(stand((0, 1, 2, 3), isr=(0, 3), dead=(1, 2), adding=(3,)))
    assert (two.dropped, two.added) == ((), (4,))


def test_only_the_new_replica_must_be_alive():
    """ "Wait until all brokers in the target replicas (TR) … are alive." — departs: docs/decisions/0101-steps.md"""
    assert step_of(stand(OAR, dead=(3, 1), isr=(0, 2))).added == (4,)
    now = stand(OAR, dead=(3, 4, 5))
    assert wait_of(now) == Waiting(WaitReason.DEAD, (3, 4, 5))


def test_new_replicas_in_sync_are_new_no_longer():
    """ "If we have new replicas in ISR from the previous step, change the states' of those to OnlineReplica" """
    step = step_of(stand((0, 1, 2, 3), adding=(3,)))
    assert 3 not in step.assignment.adding


def test_the_assignment_drops_and_adds_in_one_write():
    """ "Update CR in Zookeeper with TR: with this the DR set will be drop and NR set will be added." """
    step = step_of(stand((0, 1, 2, 3), adding=(3,)))
    assert step.assignment == ReplicaAssignment((0, 2, 3, 4), adding=(4,), removing=())


def test_new_replicas_start_as_new_ones():
    """ "Start new replicas in NR by moving them to NewReplica state." """
    step = step_of(stand(OAR))
    assert step.assignment.adding == step.added == (3,)
    assert 3 not in step.isr


def test_the_leader_changes_only_if_it_is_dropped():
    """ "a potential new leader (if current leader not in TR) and a new CR (using TR) and same ISR" """
    stays = step_of(stand((0, 1, 2, 3)))
    assert (stays.leader, stays.isr) == (0, (0, 2, 3))
    goes = step_of(stand((0, 3, 4, 5)))
    assert (goes.leader, goes.replicas) == (3, FTR)


def test_dropped_replicas_leave_the_isr_in_the_same_write():
    """ "Replicas in DR -> Offline (force those replicas out of ISR)" — in one multi: docs/decisions/0103-writes.md"""
    assert step_of(stand((0, 1, 2, 3))).isr == (0, 2, 3)
    assert step_of(stand((0, 3, 4, 5))).isr == FTR


def test_dropped_replicas_are_named_for_deletion():
    """ "Replicas in DR -> NonExistentReplica (force those replicas to be deleted)" """
    plan = plan_on_paper(OAR, FTR, 0)
    assert [broker for step in plan.steps for broker in step.dropped] == [1, 2, 0]


def test_the_last_step_ends_the_move_and_no_other_does():
    """ "Update the /admin/reassign_partitions path in ZK to remove this partition." """
    assert [step.final for step in plan_on_paper(OAR, FTR, 0).steps] == [False, False, False, True]


def test_an_assignment_that_ends_with_an_addition_waits_for_it_before_the_end():
    """The last step of a growing move adds: the move is over only when that replica is in sync (KIP-236, "When the
    ISR includes all the newly assigned replicas"); docs/decisions/0101-steps.md.
    """
    step = step_of(stand((0, 1)), target=(2, 0, 1), original=(0, 1))
    assert (step.replicas, step.final) == ((2, 0, 1), False)
    caught_up = stand((2, 0, 1), adding=(2,))
    assert step_of(caught_up, target=(2, 0, 1), original=(0, 1)).final


def test_no_more_than_one_replica_catches_up_at_a_time():
    """ "bring one replica online, bring it in-sync, then remove one of the old replicas. Repeat" """
    plan = plan_on_paper((0, 1, 2, 3), (4, 5, 6, 7), 0)
    assert all(len(step.assignment.adding) <= 1 for step in plan.steps)
    assert max(len(step.replicas) for step in plan.steps) == 5


def test_the_floor_keeps_the_replication_that_was_there():
    """ "in the worst case, you could have 7 replicas in-sync" — here never fewer than were asked for."""
    for step in plan_on_paper(OAR, FTR, 0).steps:
        assert len(step.isr) >= len(FTR)
        assert step.leader in step.isr
    assert wait_of(stand((1, 2, 3, 0), isr=(0, 2, 3), dead=(1,)), target=(1, 2, 3)).reason is WaitReason.FLOOR
