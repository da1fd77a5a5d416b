"""ElectLeaders is answered in the words and with the codes of Apache's controller, which its own tests compare."""

import pytest
from beginnings import TP
from harness import Harness

from shunter.core.controller.events import ElectionRequested, TopicDeletionsFound
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition

NOBODYS = TopicPartition("nobody's", 0)


def asked(world, tp, *, unclean):
    world.feed(ElectionRequested((tp,), unclean=unclean, reply_to=9))
    [(found, error, message)] = world.replies[9].partitions
    assert found == tp
    return error, message


@pytest.mark.parametrize("unclean", [False, True])
def test_a_partition_that_is_not_there(unclean):
    world = Harness().start()
    told = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    assert asked(world, NOBODYS, unclean=unclean) == told


@pytest.mark.parametrize("unclean", [False, True])
def test_a_topic_that_is_being_deleted(unclean):
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.kill(1)
    world.feed(TopicDeletionsFound(("t",)))  # The election waits for broker 1.
    assert asked(world, TP, unclean=unclean) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")


def test_a_preferred_leader_that_is_not_live():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.kill(1)
    error, message = asked(world, TP, unclean=False)
    assert error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    words = "Failed to elect leader for partition t-0 under strategy PreferredReplicaPartitionLeaderElectionStrategy"
    assert message.startswith(words)


def test_nobody_who_could_lead():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.kill(1)
    world.kill(2)
    error, message = asked(world, TP, unclean=True)
    assert error is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    words = "Failed to elect leader for partition t-0 under strategy OfflinePartitionLeaderElectionStrategy(true)"
    assert message.startswith(words)
