"""The counts of Kafka's dashboards, and the answer that a probe gets."""

import pytest

from shunter.core.controller.state import ControllerState, TopicState
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from shunter.views.census import Census, count_topic
from shunter.views.metrics import PendingDeletions, pending_deletions
from shunter.views.readiness import Readiness, readiness


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


def state(**facts):
    made = ControllerState(1000)
    for name, value in facts.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("facts", "obstacle", "troubles", "told"),
    [
        ({"active": True, "controller_epoch": 7}, None, (), Readiness(True, ("in charge: controller epoch 7",))),
        ({}, "broker 1 is the controller", (), Readiness(True, ("standing by: broker 1 is the controller",))),
        ({}, None, (), Readiness(False, ("standing for the controllership",))),
        (
            {"controller_epoch": 7},
            None,
            (),
            Readiness(False, ("reading the cluster as the controller of epoch 7",)),
        ),
        (
            {"active": True, "controller_epoch": 7},
            None,
            ("every live broker refuses our requests",),
            Readiness(False, ("every live broker refuses our requests",)),
        ),
    ],
)
def test_what_is_in_the_way_is_told_before_what_goes_well(facts, obstacle, troubles, told):
    assert readiness(state(**facts), obstacle, troubles) == told
