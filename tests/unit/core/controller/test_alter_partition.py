"""AlterPartition: which brokers may propose an ISR, and which proposals are refused.

Source: Apache Kafka 3.9, KafkaController.tryProcessAlterPartition; docs/decisions/0116-checks-of-alter-partition.md.
"""

import pytest
from harness import Harness

from shunter.core.controller.events import AlterPartitionReceived, IsrProposal, ProducerIdsRequested
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition

TP = TopicPartition("t", 0)


@pytest.fixture
def world():
    made = Harness(brokers=(1, 2, 3, 4)).start()
    made.create("t", [(1, 2, 3)])
    made.propose(TP, (1, 2))
    return made


def ask(world, isr, *, broker=1, epoch=0, leader_epoch=0, token=900):
    """The controller's answer: the request's error, and the partition's error (or its leadership)."""
    told = world.leadership(TP)
    members = tuple(each if isinstance(each, tuple) else (each, -1) for each in isr)
    proposal = IsrProposal(TP, told.leader_epoch + leader_epoch, told.partition_epoch, members)
    world.feed(AlterPartitionReceived(broker, world.live[broker].epoch + epoch, (proposal,), token))
    reply = world.replies[token]
    return reply.error, reply.partitions[0][1] if reply.partitions else None


@pytest.mark.parametrize("epoch", [-1, 1])
def test_only_the_registered_epoch_of_a_broker_is_taken(world, epoch):
    before = world.leadership(TP)
    assert ask(world, (1, 2, 3), epoch=epoch) == (ErrorCode.STALE_BROKER_EPOCH, None)
    assert world.leadership(TP) == before
    assert ask(world, (1, 2, 3), token=901)[0] is ErrorCode.NONE
    assert world.leadership(TP).isr == (1, 2, 3)


def test_an_epoch_that_is_not_told_is_not_taken(world):
    assert ask(world, (1, 2, 3), epoch=-1 - world.live[1].epoch) == (ErrorCode.STALE_BROKER_EPOCH, None)


@pytest.mark.parametrize("epoch", [-1, 1])
def test_producer_ids_are_given_to_the_registered_epoch_alone(world, epoch):
    world.feed(ProducerIdsRequested(1, world.live[1].epoch + epoch, 7))
    assert world.replies[7].error is ErrorCode.STALE_BROKER_EPOCH
    world.feed(ProducerIdsRequested(9, 1, 8))
    assert world.replies[8].error is ErrorCode.BROKER_ID_NOT_REGISTERED
    world.feed(ProducerIdsRequested(1, world.live[1].epoch, 9))
    assert world.replies[9].error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("isr", "options", "expected"),
    [
        ((1, 2, 3), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2, 3), {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((2, 1, 3), {"broker": 2}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 2), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 4), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2, (3, 17)), {}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_what_only_kraft_checks_is_checked_too(world, isr, options, expected):
    """A stale leader must not change an ISR that the new leader relies on; an ISR lies within the replicas (0116)."""
    before = world.leadership(TP)
    assert ask(world, isr, **options) == (ErrorCode.NONE, expected)
    assert world.leadership(TP) == before


def test_a_dead_replica_is_not_taken_into_the_isr(world):
    world.kill(3)
    assert ask(world, (1, 2, 3)) == (ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA)
