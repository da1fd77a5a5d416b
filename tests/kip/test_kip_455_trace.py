"""KIP-455's draft: the trace of R, I and T, and what a cancellation keeps."""

from shunter.core.reassignment import Situation, Step, Waiting, WaitReason, next_step, stop
from shunter.model.partition import ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy

R, T = (1, 2, 3), (4, 5, 6)


def stand(assignment: ReplicaAssignment, isr: Replicas, leader: int = 1) -> Situation:
    return Situation(assignment, isr, leader, frozenset(range(9)), min_isr=1)


def decide(now: Situation, target: Replicas = T, original: Replicas = R) -> Step | Waiting | None:
    return next_step(now, original=original, target=target, strategy=Strategy.ALL_AT_ONCE)


def shown(now: Situation, original: Replicas = R) -> Replicas:
    """The trace's R, a view: originals, and the additions that are in sync; docs/decisions/0108-trace.md."""
    return original + tuple(broker for broker in now.isr if broker not in original)


def test_the_trace_at_every_point_that_exists():
    """ "R is the current replicas, I is the ISR list and T is the targetReplicas" — on the wire R is everything from
    the start, as real brokers need (ISR within R): docs/decisions/0108-trace.md; the trace's R is a view.
    """
    begun = decide(stand(ReplicaAssignment(R), R))
    assert isinstance(begun, Step)
    assert begun.assignment == ReplicaAssignment((4, 5, 6, 1, 2, 3), adding=T, removing=R)
    assert (begun.isr, begun.leader, begun.final) == (R, 1, False)
    for caught_up, missing in (((), (4, 5, 6)), ((4,), (5, 6)), ((4, 5), (6,))):
        now = stand(begun.assignment, R + caught_up)
        assert shown(now) == R + caught_up
        assert decide(now) == Waiting(WaitReason.CATCHING_UP, missing)
    last = decide(stand(begun.assignment, R + T))
    assert last == Step((2, 3, 1), (), ReplicaAssignment(T), T, 4, final=True)


def test_the_drafts_last_two_rows_are_one_write():
    """ "R: [4, 5, 6], I: [1, 2, 3, 4, 5, 6], T: null" then "I: [4, 5, 6]" — one multi: docs/decisions/0103-writes.md"""
    last = decide(stand(ReplicaAssignment((4, 5, 6, 1, 2, 3), T, R), R + T))
    assert isinstance(last, Step)
    assert (last.replicas, last.isr, last.assignment.in_motion) == (T, T, False)


def test_the_additions_join_in_any_order():
    """ "tracking when new replicas enter the ISR, reconciling them against the target reassignments" """
    now = stand(ReplicaAssignment((4, 5, 6, 1, 2, 3), T, R), (1, 2, 3, 6, 4))
    assert shown(now) == (1, 2, 3, 6, 4)
    assert decide(now) == Waiting(WaitReason.CATCHING_UP, (5,))


def test_a_replica_in_the_old_and_the_new_set_never_leaves():
    """ "This field will contain the replicas which will exist once the partition reassignment is complete." """
    begun = decide(stand(ReplicaAssignment(R), R), target=(3, 4, 2))
    assert isinstance(begun, Step)
    assert begun.assignment == ReplicaAssignment((3, 4, 2, 1), adding=(4,), removing=(1,))
    last = decide(stand(begun.assignment, (1, 2, 3, 4)), target=(3, 4, 2))
    assert isinstance(last, Step)
    assert (last.dropped, last.replicas, last.isr) == ((1,), (3, 4, 2), (2, 3, 4))


def test_target_replicas_stay_whole_until_the_end():
    """ "Saving 'targetReplicas' in tact until the very end opens up the possibility to easily revert" """
    assignment = ReplicaAssignment((4, 5, 6, 1, 2, 3), T, R)
    assert assignment.target == T
    assert assignment.original == R
    assert isinstance(decide(stand(assignment, (1, 2, 3, 4, 5))), Waiting)


def test_a_cancellation_is_not_a_revert():
    """ "A partition reassignment which is half done will not have the new replicas that have entered the ISR be
    reverted, it will only stop the in-flight movements for replicas that are not in ISR."
    """
    stopped = stop(stand(ReplicaAssignment((4, 5, 6, 1, 2, 3), T, R), (1, 2, 3, 5)), original=R)
    assert stopped == Step((4, 6), (), ReplicaAssignment((5, 1, 2, 3)), (1, 2, 3, 5), 1, final=True)


def test_a_stopped_partition_may_have_more_replicas_than_configured():
    """ "it is possible to have a partition's replication factor become higher than configured" """
    stopped = stop(stand(ReplicaAssignment((4, 5, 6, 1, 2, 3), T, R), R + T), original=R)
    assert len(stopped.replicas) == 6
