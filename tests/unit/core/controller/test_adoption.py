"""Moves that a start-up finds, and which source is right; also requests that come before everything is reviewed."""

from dataclasses import replace
from uuid import UUID

import pytest
from beginnings import TP
from harness import Harness

from shunter.core.controller.events import (
    TopicsRead,
)
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Strategy
from shunter.model.snapshot import LegacyReassignments
from shunter.model.topic import Topic


def pending_and_begun_by_somebody_else():
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2)])
    world.create("u", [(1, 2)])
    world.reassign({("u", 0): (1, 3)})
    world.reassign({TP: (3, 1, 2)}, token=2)
    assert world.store.reassignments[TP].phase is Phase.PENDING
    topic = world.store.topics["t"]
    begun = ReplicaAssignment((3, 1, 2), (3,))
    world.store.topics["t"] = topic._replace(assignments={0: begun}, version=topic.version + 1)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    return world


def test_a_pending_move_that_somebody_else_began_is_finished():
    world = pending_and_begun_by_somebody_else()
    world.reassign({TP: (3, 1, 2)}, token=3)
    world.catch_up_all()
    assert world.state(TP).assignment == ReplicaAssignment((3, 1, 2))
    assert not world.store.reassignments


def overruled():
    """Apache's controller took back Shunter's move of `t-0`; Shunter takes over, and a slow broker holds the queue."""
    world = Harness().start()
    world.create("t", [(1,)])
    world.reassign({TP: (2,)})
    assert world.store.reassignments[TP].written.adding == (2,)
    topic = world.store.topics["t"]
    world.store.topics["t"] = topic._replace(assignments={0: ReplicaAssignment((1,))}, version=topic.version + 1)
    world.silent.add(4)
    world.fail_over()
    assert world.store.reassignments[TP].phase is Phase.MOVING
    return world


def test_news_of_an_isr_does_not_resume_what_somebody_overruled():
    world = overruled()
    world.propose(TP, (1,))
    world.answer_all()
    assert world.replicas(TP) == (1,)
    assert not world.store.reassignments


def test_a_cancel_of_what_somebody_overruled_finds_nothing_to_cancel():
    world = overruled()
    topic = world.store.topics["t"]
    world.store.topics["t"] = topic._replace(assignments={0: ReplicaAssignment((3,))}, version=topic.version + 1)
    world.fail_over()
    world.reassign({TP: None}, token=3)
    world.answer_all()
    assert world.result(3) == {TP: "NO_REASSIGNMENT_IN_PROGRESS"}
    assert world.replicas(TP) == (3,)


def test_a_batch_that_decides_who_is_right_and_is_refused_decides_again():
    world = overruled()
    world.hold_writes = True
    world.propose(TP, (1,))
    topic = world.store.topics["t"]
    moving = ReplicaAssignment((1, 3), (3,))
    world.store.topics["t"] = topic._replace(assignments={0: moving}, version=topic.version + 1)
    world.release_writes()
    world.answer_all()
    world.catch_up_all()
    assert not world.store.reassignments
    assert not world.state(TP).assignment.in_motion


def test_what_takes_the_place_of_a_move_that_somebody_overruled_does_not_wait_for_it():
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2), (1, 2)])
    world.reassign({("t", 1): (1, 3)})
    topic = world.store.topics["t"]
    both = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((1, 2))}
    world.store.topics["t"] = topic._replace(assignments=both, version=topic.version + 1)
    targets = {TP: (1, 4), TopicPartition("t", 1): (1, 4)}
    world.store.legacy = LegacyReassignments(targets, {}, 0, 900)
    world.fail_over()
    assert [world.store.reassignments[tp].phase for tp in targets].count(Phase.MOVING) == 1
    world.catch_up_all()
    assert [world.replicas(tp) for tp in targets] == [(1, 4), (1, 4)]


def test_a_cancel_that_overtakes_the_row_of_a_start_up_begins_nothing_before_it_ends_it():
    world = Harness(max_concurrent=1).start()
    world.create("t", [(1, 2)])
    world.create("u", [(1, 2)])
    world.reassign({("u", 0): (1, 3)})
    world.reassign({TP: (3, 2)}, token=2, strategy=Strategy.ALL_AT_ONCE)
    assert world.store.reassignments[TP].phase is Phase.PENDING
    before = world.leadership(TP)
    world.settings = replace(world.settings, max_concurrent=0)
    world.silent.add(4)
    world.fail_over()
    world.reassign({TP: None}, token=3, intervention=Intervention.STOP)
    assert TP not in world.store.reassignments
    assert world.replicas(TP) == (1, 2)
    assert world.leadership(TP)[:3] == before[:3]


@pytest.mark.parametrize("begun", [False, True])
def test_a_cancel_ends_what_a_start_up_has_not_come_to_yet(begun):
    world = Harness()
    replicas = ReplicaAssignment((1, 2, 3), (3,), ()) if begun else ReplicaAssignment((1, 2))
    world.store.topics["t"] = Topic("t", UUID(int=5), {0: replicas}, 0)
    world.store.states[TP] = LeaderAndIsr(1, 0, (1, 2), 0, target_replicas=None if begun else (3, 4))
    world.silent.add(4)
    world.start()
    assert not world.store.reassignments  # The reconciliation waits for broker 4.
    world.write_cancel()
    world.answer_all()
    world.remove_cancel()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2)
    assert world.leadership(TP).target_replicas is None
    assert not world.store.reassignments


def test_a_pending_move_that_somebody_else_began_is_taken_back_by_a_cancel():
    world = pending_and_begun_by_somebody_else()
    world.reassign({TP: None}, token=3)
    assert world.state(TP).assignment == ReplicaAssignment((1, 2))
    assert TP not in world.store.reassignments


def test_a_request_of_a_former_legacy_znode_comes_after_nobody():
    """Found by simulation (seed 96311746): the request was taken although a newer legacy znode names the partition.

    The newer move then began from the request's target, and a rollback would have led there.
    """
    world = Harness(strategy=Strategy.ALL_AT_ONCE).start()
    world.create("t", [(1, 2)])
    world.store.request({TP: (3, 2, 1)}, legacy=True)
    world.reassign({TP: (3, 4)})
    world.propose(TP, (1, 2, 3))
    world.store.czxid += 1
    world.store.legacy = LegacyReassignments({TP: (3, 2, 4)}, {}, 0, world.store.czxid)
    world.fail_over()
    move = world.store.reassignments[TP]
    assert (move.original, move.target) == ((1, 2), (3, 2, 4))
    assert not world.store.requests
    assert world.told("request-ignored")
    world.catch_up_all()
    assert world.replicas(TP) == (3, 2, 4)
    assert world.store.legacy is None
