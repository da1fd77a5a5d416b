"""The counts of Kafka's dashboards, with the exceptions that Apache's `ControllerContext` makes."""

from shunter.core.controller.state import TopicState
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from shunter.views.census import Census, count_topic
from shunter.views.metrics import PendingDeletions, pending_deletions


def partition(replicas, leader):
    leadership = None if leader is None else LeaderAndIsr(leader, 1, (leader,), 0)
    return PartitionState(ReplicaAssignment(replicas), leadership)


TOPIC = TopicState(
    "t",
    None,
    0,
    {
        0: partition((1, 2), 1),
        1: partition((1, 2), 2),
        2: partition((3, 1), 3),
        3: partition((1, 2), -1),
        4: partition((1, 2), None),
    },
)


def test_partitions_are_counted_by_their_leaders():
    assert count_topic(TOPIC, {1, 2}, deleting=False) == Census(5, offline=3, imbalanced=3)


def test_a_topic_that_goes_is_neither_offline_nor_out_of_balance():
    assert count_topic(TOPIC, set(), deleting=True) == Census(5)
    assert Census(1, 2, 3).plus(Census(10, 20, 30)) == Census(11, 22, 33)


def test_deletions_that_wait_for_a_dead_broker_are_told_apart():
    deletions = {
        "a": {(TopicPartition("a", 0), 1), (TopicPartition("a", 0), 2)},
        "b": {(TopicPartition("b", 0), 9), (TopicPartition("b", 1), 9)},
        "c": set(),
    }
    assert pending_deletions(deletions, {1, 2}) == PendingDeletions(
        topics=3, replicas=4, stuck_topics=1, stuck_replicas=2
    )
