"""Partitions without replicas: Apache's controller makes one of a CreateTopics that assigns it to nobody.

Nobody leads such a partition. Everything else goes on, and a person can delete its topic or give it replicas.
"""

import pytest
from harness import Harness

from shunter.core.controller.events import (
    ElectionRequested,
    PartitionsSubmitted,
    TopicDeletionsSubmitted,
    TopicsRead,
)
from shunter.errors import ErrorCode
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.topic import Topic

BARE = TopicPartition("bare", 0)
SOUND = TopicPartition("bare", 1)
TOLD = "it has no replicas: delete its topic, or give the partition replicas by a reassignment"


def with_a_bare_partition():
    """Partition 0 of `bare` has no replicas, partition 1 has some, and so has another topic."""
    world = Harness(brokers=(1, 2, 3)).start(t=[(1, 2, 3)])
    world.store.topics["bare"] = Topic("bare", None, {0: ReplicaAssignment(()), 1: ReplicaAssignment((1, 2))}, 0)
    world.feed(TopicsRead((world.store.topic_snapshot("bare"),)))
    return world


def offline(world):
    return [(notice.about, notice.text) for notice in world.told("partition-offline")]


def test_it_is_told_when_it_is_found_and_at_every_takeover():
    world = with_a_bare_partition()
    assert offline(world) == [("bare-0", TOLD)]
    assert world.leadership(SOUND).leader == 1
    world.notices.clear()
    world.fail_over()
    assert offline(world) == [("bare-0", TOLD)]
    assert BARE not in world.store.states


def test_the_look_at_the_balance_of_leaders_passes_over_it():
    world = with_a_bare_partition()
    world.bounce(1)
    world.catch_up_all()
    assert world.leadership(SOUND).leader == 2
    world.pass_time(300_000)
    assert world.leadership(SOUND).leader == 1
    world.check()


@pytest.mark.parametrize("partitions", [(BARE, SOUND), None])
def test_an_election_does_not_find_a_leader_for_it_and_serves_the_others(partitions):
    world = with_a_bare_partition()
    world.bounce(1)
    world.catch_up_all()
    for number, (unclean, error) in enumerate(
        ((False, "PREFERRED_LEADER_NOT_AVAILABLE"), (True, "ELIGIBLE_LEADERS_NOT_AVAILABLE")), 20
    ):
        world.feed(ElectionRequested(partitions, unclean=unclean, reply_to=number))
        assert world.result(number)[BARE] == error
        told = {tp: message for tp, _, message in world.replies[number].partitions}
        assert told[BARE].endswith(": it has no replicas")
    assert world.leadership(SOUND).leader == 1


def test_a_reassignment_gives_it_replicas_and_it_is_led():
    world = with_a_bare_partition()
    world.reassign({BARE: (2, 3)})
    assert world.result(1) == {BARE: "NONE"}
    assert world.replicas(BARE) == (2, 3)
    assert world.leadership(BARE).leader == 2
    assert not world.store.reassignments
    world.check()


def test_a_tools_znode_gives_it_replicas_too():
    world = with_a_bare_partition()
    world.write_legacy({BARE: (3, 1), ("t", 0): (2, 1, 3)})
    assert world.replicas(BARE) == (3, 1)
    assert world.leadership(BARE).leader == 3
    world.catch_up_all()
    assert world.store.legacy is None
    assert world.replicas(("t", 0)) == (2, 1, 3)


def test_it_is_not_reassigned_to_nobody():
    world = with_a_bare_partition()
    world.reassign({BARE: ()})
    assert world.result(1) == {BARE: "INVALID_REPLICA_ASSIGNMENT"}


def test_its_topic_does_not_grow_but_can_be_deleted():
    world = with_a_bare_partition()
    for token, rows in ((5, None), (6, ((1, 2),))):
        world.feed(PartitionsSubmitted({"bare": (3, rows)}, reply_to=token, validate_only=False))
        assert world.replies[token].topics[0].error is not ErrorCode.NONE
    assert not world.told("request-met-a-bug")
    world.feed(TopicDeletionsSubmitted(("bare",), reply_to=7))
    assert world.replies[7].topics[0].error is ErrorCode.NONE
    assert "bare" not in world.store.topics
    world.check()


def test_who_leads_it_though_it_has_no_replicas_stops_nobody():
    """A person emptied the list of a partition that had a leader."""
    world = with_a_bare_partition()
    world.store.topics["worse"] = Topic("worse", None, {0: ReplicaAssignment(())}, 0)
    world.store.states["worse", 0] = LeaderAndIsr(1, 3, (1, 2), 4)
    world.feed(TopicsRead((world.store.topic_snapshot("worse"),)))
    world.reassign({("worse", 0): (1, 2)})
    world.fail_over()
    for id_ in (1, 2, 3):
        world.bounce(id_)
    world.pass_time(400_000)
    world.feed(ElectionRequested(None, unclean=False, reply_to=20), ElectionRequested(None, unclean=True, reply_to=21))
    world.feed(TopicDeletionsSubmitted(("worse",), reply_to=22))
    assert not world.told("request-met-a-bug")
    assert "worse" not in world.store.topics
