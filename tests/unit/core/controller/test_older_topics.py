"""Replicas of an older topic of the same name are deleted first, and no replica of the newer topic is deleted."""

from uuid import UUID

import pytest
from beginnings import TP
from harness import Harness

from shunter.core.controller.events import (
    TopicDeletionsSubmitted,
    TopicIdsAgreed,
    TopicsRead,
)
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica
from shunter.errors import ErrorCode
from shunter.model.partition import EPOCH_DURING_DELETE, LeaderAndIsr, ReplicaAssignment
from shunter.model.reassignment import Phase, Strategy
from shunter.model.snapshot import OwedDeletions
from shunter.model.topic import Topic, TopicSnapshot


def deletes_before_it_hears(world, broker):
    """A broker is asked to delete the older replica before it is told of the newer topic."""
    told = [type(each) for each in world.sent if getattr(each, "broker", None) == broker]
    assert told.index(SendStopReplica) < told.index(SendLeaderAndIsr)


def test_a_topic_that_comes_without_an_id_gets_one():
    world = Harness().start()
    world.feed(TopicIdsAgreed(True))
    topic = Topic("old", None, {0: ReplicaAssignment((1, 2))}, 0)
    world.store.topics["old"], world.store.configs["old"] = topic, {}
    world.feed(TopicsRead((TopicSnapshot(topic, {}, {}),)))
    assert isinstance(world.store.topics["old"].topic_id, UUID)


def test_what_is_left_of_an_older_topic_is_deleted_whatever_its_leader_epoch():
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (1, 3)})
    world.silent.add(2)
    world.catch_up(TP, 3)
    assert world.store.reassignments[TP].phase is Phase.DROPPING
    topic = world.store.topics["t"]
    anew = Topic("t", UUID(int=77), {0: ReplicaAssignment((3,))}, topic.version)
    world.store.topics["t"] = anew
    world.store.states[TP] = world.store.states[TP]._replace(leader=3, leader_epoch=0, isr=(3,))
    world.silent.clear()
    world.sent.clear()
    world.fail_over()
    asked = {
        (each.broker, stop.leader_epoch)
        for each in world.sent
        if isinstance(each, SendStopReplica)
        for stop in each.partitions
    }
    assert asked == {(1, EPOCH_DURING_DELETE), (2, EPOCH_DURING_DELETE)}
    assert not world.store.reassignments


def test_what_a_broker_owes_of_a_topic_that_is_gone_goes_before_it_hears_of_another_of_that_name():
    world = Harness().start(t=[(1, 2)])
    world.silent.add(2)
    world.reassign({TP: (1, 3)})
    world.catch_up(TP, 3)
    world.kill(2)
    assert world.store.owed[2].partitions[0][0] == TP
    world.feed(TopicDeletionsSubmitted(("t",), 7))
    world.silent.clear()
    world.store.topics["t"] = Topic("t", UUID(int=77), {0: ReplicaAssignment((1, 2))}, 0)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    world.sent.clear()
    world.revive(2)
    deletes_before_it_hears(world, 2)
    assert (2, TP) in world.deleted
    assert TP in world.hosted[2]
    assert 2 not in world.store.owed


def test_a_topic_that_can_be_read_again_comes_after_what_a_broker_owes_of_an_older_one():
    """Found by simulation: the older replica was not asked for any more, and the newer one was never in sync."""
    world = Harness().start(t=[(1, 2)])
    world.store.states[TP] = world.store.states[TP]._replace(isr=(2,), leader=2)
    world.store.owed[1] = OwedDeletions(((TP, EPOCH_DURING_DELETE),), 0)
    world.store.left_out = world.store.left_out._replace(topics=frozenset({"t"}))
    topic = world.store.topics.pop("t")
    world.sent.clear()
    world.fail_over()
    assert not [each for each in world.sent if isinstance(each, SendStopReplica)], "nobody knows whether it is placed"
    world.store.topics["t"] = topic
    world.sent.clear()
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    deletes_before_it_hears(world, 1)
    assert not world.store.owed
    world.catch_up_all()
    assert set(world.leadership(TP).isr) == {1, 2}


def test_a_topic_that_can_be_read_again_takes_no_other_topics_replica_along():
    """Found by simulation: a deletion that was under way was asked for again, after the newer topic existed."""
    world = with_an_older_replica((1, 2), led=False)
    world.store.left_out = world.store.left_out._replace(topics=frozenset({"u"}))
    world.fail_over()
    assert world.store.owed, "broker 1 has not answered yet"
    world.sent.clear()
    world.store.topics["u"] = Topic("u", UUID(int=6), {0: ReplicaAssignment((2, 3))}, 0)
    world.feed(TopicsRead((world.store.topic_snapshot("u"),)))
    asked = [stop.tp for each in world.sent if isinstance(each, SendStopReplica) for stop in each.partitions]
    assert TP not in asked


def test_a_debt_of_an_older_topic_is_known_by_its_leader_epoch():
    """Found by simulation: the list could not be read when the topic went, and was mended when a newer one existed."""
    world = Harness().start(t=[(1, 2)])
    world.store.states[TP] = world.store.states[TP]._replace(isr=(1,))
    world.store.owed[2] = OwedDeletions(((TP, 4),), 0)
    world.sent.clear()
    world.fail_over()
    deletes_before_it_hears(world, 2)
    assert not world.store.owed
    world.catch_up_all()
    assert set(world.leadership(TP).isr) == {1, 2}


def test_a_debt_of_a_topic_that_others_removed_goes_before_a_broker_hears_of_another_of_that_name():
    world = Harness().start(t=[(1, 2)])
    world.silent.add(2)
    world.reassign({TP: (1, 3)})
    world.catch_up(TP, 3)
    world.kill(2)
    del world.store.topics["t"], world.store.states[TP]
    world.feed(TopicsRead((), ("t",)))
    world.store.topics["t"] = Topic("t", UUID(int=77), {0: ReplicaAssignment((1, 2))}, 0)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    world.silent.clear()
    world.sent.clear()
    world.revive(2)
    deletes_before_it_hears(world, 2)
    assert 2 not in world.store.owed


@pytest.mark.parametrize(("replicas", "isr"), [((1, 2), (2,)), ((1,), (1,))])
def test_who_may_owe_an_older_replica_is_in_sync_from_the_beginning_only_where_nobody_else_can_be(replicas, isr):
    world = Harness().start()
    world.store.left_out = world.store.left_out._replace(owed=frozenset({1}))
    world.fail_over()
    world.create("t", [replicas])
    assert world.leadership(TP).isr == isr


def with_an_older_replica(replicas, *, led):
    """Broker 1 still has a replica of an older topic t, and has not answered yet that it deleted it."""
    world = Harness()
    world.store.topics["t"] = Topic("t", UUID(int=5), {0: ReplicaAssignment(replicas)}, 0)
    if led:
        world.store.states[TP] = LeaderAndIsr(replicas[0], 0, replicas, 0)
    world.store.owed[1] = OwedDeletions(((TP, EPOCH_DURING_DELETE),), 0)
    world.silent.add(1)
    world.start()
    return world


def test_who_has_to_delete_a_replica_of_an_older_topic_is_in_sync_with_none_of_the_newer_one():
    world = with_an_older_replica((1, 2), led=False)
    assert world.leadership(TP)[:3] == (2, 0, (2,))


def test_a_partition_that_nobody_else_can_lead_waits_for_that_deletion():
    world = with_an_older_replica((1,), led=False)
    assert world.leadership(TP) is None
    world.answer_all()
    assert not world.store.owed
    assert world.leadership(TP)[:3] == (1, 0, (1,))


def test_a_move_to_where_an_older_replica_lies_does_not_forget_that_it_has_to_go():
    world = with_an_older_replica((2, 3), led=True)
    world.reassign({TP: (1, 2)}, strategy=Strategy.ALL_AT_ONCE)
    world.pass_time(20_000)  # Nothing waits for broker 1 any longer.
    assert 1 in world.replicas(TP)
    assert world.store.owed[1].partitions == ((TP, EPOCH_DURING_DELETE),)
    world.answer_all()
    assert not world.store.owed


def test_who_may_be_told_again_to_delete_an_older_replica_is_not_in_sync_yet():
    world = with_an_older_replica((2, 3), led=True)
    world.reassign({TP: (1, 2)}, strategy=Strategy.ALL_AT_ONCE)
    world.pass_time(20_000)  # Nothing waits for broker 1 any longer.
    assert world.propose(TP, (2, 3, 1)).partitions == ((TP, ErrorCode.INELIGIBLE_REPLICA),)
    world.answer_all()
    assert not world.store.owed
    world.catch_up(TP, 1)
    assert world.replicas(TP) == (1, 2)


def test_what_is_left_of_an_older_topic_elsewhere_goes_whatever_the_newer_ones_epoch():
    world = with_an_older_replica((2, 3), led=True)
    asked = [each for each in world.sent if isinstance(each, SendStopReplica)]
    assert [(each.broker, stop.tp, stop.leader_epoch) for each in asked for stop in each.partitions] == [
        (1, TP, EPOCH_DURING_DELETE)
    ]
