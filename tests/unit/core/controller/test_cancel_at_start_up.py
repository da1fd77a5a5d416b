"""Requests to cancel everything that come before a start-up has reconciled a partition.

The cancel znode's case is in `test_submissions.py`.
"""

from uuid import UUID

import pytest
from harness import Harness

from shunter.core.controller.events import ReassignmentChange, ReassignmentsSubmitted
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Reassignment, Strategy
from shunter.model.topic import Topic

TP = TopicPartition("t", 0)


def starting(replicas, *, target_replicas=None, record=None):
    """A start-up whose reconciliation of t-0 waits for broker 4; t-0 moves, or did."""
    world = Harness()
    world.store.topics["t"] = Topic("t", UUID(int=5), {0: replicas}, 0)
    world.store.states[TP] = LeaderAndIsr(1, 0, (1, 2), 0, target_replicas=target_replicas)
    if record is not None:
        world.store.reassignments[TP] = record
    world.silent.add(4)
    world.start()
    return world


def adopting(*, begun):
    """t-0 moves without a record: Apache's controller has begun the move, or a tool of KIP-455's draft asks for it."""
    if begun:
        return starting(ReplicaAssignment((1, 2, 3), (3,), ()))
    return starting(ReplicaAssignment((1, 2)), target_replicas=(3, 4))


@pytest.mark.parametrize("whole", [{"cancel_all": True}, {"cancel_topics": ("t",)}], ids=["all", "topic"])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("mode", [Intervention.STOP, Intervention.ROLL_BACK])
def test_a_request_to_cancel_everything_ends_what_nobody_has_looked_at_and_nothing_that_comes_after(mode, begun, whole):
    world = adopting(begun=begun)
    after = ReassignmentsSubmitted((ReassignmentChange(TP, (2, 3)),), reply_to=3)
    world.feed(ReassignmentsSubmitted((), **whole, intervention=mode, reply_to=2), after)
    assert world.result(2) == {TP: "NONE"}
    assert world.replicas(TP) == (1, 2)
    assert not world.store.reassignments, "what comes after it waits for broker 4"
    world.answer_all()
    world.catch_up_all()
    assert world.result(3) == {TP: "NONE"}
    assert world.replicas(TP) == (2, 3)


def test_a_pause_of_everything_holds_it_too():
    world = adopting(begun=True)
    world.feed(ReassignmentsSubmitted((), cancel_all=True, intervention=Intervention.PAUSE, reply_to=2))
    assert world.result(2) == {TP: "NONE"}
    world.answer_all()
    world.catch_up_all()
    assert world.store.reassignments[TP].phase is Phase.PAUSED
    assert world.replicas(TP) == (1, 2, 3)


def test_a_cancel_of_another_topic_leaves_it():
    world = adopting(begun=True)
    world.feed(ReassignmentsSubmitted((), cancel_topics=("u",), reply_to=2))
    assert world.result(2) == {}
    world.answer_all()
    assert world.store.reassignments[TP].phase is Phase.MOVING


def test_who_cancels_everything_is_told_of_what_moved_alone():
    assignment = ReplicaAssignment((1, 2))
    older = UUID(int=6)
    record = Reassignment(older, (1, 2), (3,), Strategy.INCREMENTAL, Phase.MOVING, assignment, 0, 2, version=0, czxid=9)
    world = starting(assignment, record=record)
    world.feed(ReassignmentsSubmitted((), cancel_all=True, reply_to=2))
    assert world.result(2) == {}, "it was a move of an older topic of that name"
    assert not world.store.reassignments
    world.reassign({TP: None}, token=3)
    assert world.result(3) == {TP: "NO_REASSIGNMENT_IN_PROGRESS"}
