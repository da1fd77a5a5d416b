"""Leaders and ISRs: AlterPartition, ElectLeaders, and the scheduled preferred leader election."""

import pytest
from beginnings import TP
from harness import Harness

from shunter.core.controller.events import (
    AlterPartitionReceived,
    ElectionRequested,
    IsrProposal,
    ProducerIdsRequested,
    TopicDeletionsFound,
)
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition

NOBODYS = TopicPartition("nobody's", 0)
INTERVAL_MS = 300_000


@pytest.fixture
def world():
    made = Harness(brokers=(1, 2, 3, 4)).start(t=[(1, 2, 3)])
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
    world = Harness().start(t=[(1, 2)])
    world.kill(1)
    world.feed(TopicDeletionsFound(("t",)))  # The election waits for broker 1.
    assert asked(world, TP, unclean=unclean) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")


def test_a_preferred_leader_that_is_not_live():
    world = Harness().start(t=[(1, 2)])
    world.kill(1)
    error, message = asked(world, TP, unclean=False)
    assert error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    words = "Failed to elect leader for partition t-0 under strategy PreferredReplicaPartitionLeaderElectionStrategy"
    assert message.startswith(words)


def test_nobody_who_could_lead():
    world = Harness().start(t=[(1, 2)])
    world.kill(1)
    world.kill(2)
    error, message = asked(world, TP, unclean=True)
    assert error is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    words = "Failed to elect leader for partition t-0 under strategy OfflinePartitionLeaderElectionStrategy(true)"
    assert message.startswith(words)


def leaders(world, topic="t"):
    partitions = world.machine.state.topics[topic].partitions
    return [partitions[number].leadership.leader for number in sorted(partitions)]


def rebalances(world):
    return [notice.text for notice in world.notices if notice.kind == "leaders-rebalanced"]


def with_a_broker_back(**settings):
    """Broker 1 died and came back: it is in sync again, and leads no partition that prefers it."""
    world = Harness(brokers=(1, 2, 3, 4), **settings).start(t=[(1, 2, 3), (1, 3, 2), (2, 1, 3), (3, 2, 1)])
    world.kill(1)
    world.revive(1)
    for number in range(4):
        world.catch_up(("t", number), 1)
    assert leaders(world) == [2, 3, 2, 3]
    return world


def test_leadership_goes_back_after_one_interval():
    world = with_a_broker_back()
    world.pass_time(INTERVAL_MS - 1)
    assert leaders(world) == [2, 3, 2, 3]
    world.pass_time(1)
    assert leaders(world) == [1, 1, 2, 3]
    assert rebalances(world) == [
        "leadership of 2 partitions goes back to brokers that lead too few of theirs: 1 (2 of 2 led by others)"
    ]
    world.check()


def test_a_balanced_cluster_is_left_alone():
    world = with_a_broker_back()
    world.pass_time(INTERVAL_MS)
    written = len(world.store.log)
    world.pass_time(INTERVAL_MS)
    world.pass_time(INTERVAL_MS)
    assert len(world.store.log) == written
    assert len(rebalances(world)) == 1


def test_it_asks_to_be_woken_for_the_next_look():
    world = Harness().start()
    due = world.now_ms + INTERVAL_MS
    assert world.machine.intake.rebalance.due_ms == due
    assert world.wake_at_ms == due
    world.pass_time(INTERVAL_MS)
    assert world.wake_at_ms == due + INTERVAL_MS


def test_switched_off_nothing_is_due():
    world = with_a_broker_back(leader_rebalance_enable=False)
    world.pass_time(1_000)
    assert world.wake_at_ms is None
    world.pass_time(INTERVAL_MS * 10)
    assert leaders(world) == [2, 3, 2, 3]


@pytest.mark.parametrize(("percent", "expected"), [(50, [2, 2]), (49, [1, 2])])
def test_only_more_than_the_allowed_imbalance_counts(percent, expected):
    """Another broker leads one of the two partitions that prefer broker 1: 50 percent."""
    world = Harness(brokers=(1, 2), leader_imbalance_percent=percent).start(t=[(1, 2), (2, 1)], led=[(1, 2)])
    world.kill(1)
    world.revive(1)
    for name, number in (("t", 0), ("t", 1), ("led", 0)):
        world.catch_up((name, number), 1)
    prefer(world, ("led", 0))
    world.pass_time(INTERVAL_MS)
    assert leaders(world) == expected


def prefer(world, tp):
    from shunter.core.controller.events import ElectionRequested
    from shunter.model.partition import TopicPartition

    world.feed(ElectionRequested((TopicPartition(*tp),), unclean=False, reply_to=77))
    assert world.leadership(tp).leader == 1


def test_a_preferred_replica_out_of_sync_is_passed_over():
    world = Harness(brokers=(1, 2, 3)).start(t=[(1, 2, 3), (1, 2, 3)])
    world.kill(1)
    world.revive(1)
    world.catch_up(("t", 1), 1)
    world.pass_time(INTERVAL_MS)
    assert leaders(world) == [2, 1]
    world.check()


def test_a_dead_preferred_leader_is_not_waited_for():
    world = Harness(brokers=(1, 2, 3)).start(t=[(1, 2, 3)])
    world.kill(1)
    written = len(world.store.log)
    world.pass_time(INTERVAL_MS)
    assert len(world.store.log) == written


def test_partitions_that_move_and_topics_that_go_are_left_alone():
    """The other partitions of a topic that moves get their leaders back, as under Apache's controller."""
    from shunter.core.controller.events import TopicDeletionsSubmitted

    world = with_a_broker_back()
    world.create("going", [(1, 2, 3)])
    world.create("u", [(2, 3, 4)])
    world.reassign({("t", 1): (1, 3, 4)})
    world.silent = {2}
    world.feed(TopicDeletionsSubmitted(("going",), 7))
    world.pass_time(INTERVAL_MS)
    world.answer_all()
    assert leaders(world) == [1, 3, 2, 3]
    world.catch_up_all()
    assert ("t", 1) not in world.machine.state.reassignments
    world.pass_time(INTERVAL_MS)
    assert leaders(world) == [1, 1, 2, 3]
    world.check()


def test_large_clusters_are_looked_at_in_slices():
    world = Harness(brokers=(1, 2, 3), slice_partitions=50).start()
    world.create("t", [(1, 2, 3)] * 400)
    world.kill(1)
    world.revive(1)
    for number in range(400):
        world.catch_up(("t", number), 1)
    written = len(world.store.log)
    world.pass_time(INTERVAL_MS)
    assert leaders(world) == [1] * 400
    assert len(world.store.log) - written == 8
    assert len(rebalances(world)) == 1
    world.check()


def test_a_refused_write_is_decided_again_and_told_once():
    world = with_a_broker_back()
    world.hold_writes = True
    world.pass_time(INTERVAL_MS)
    known = world.store.states[("t", 0)]
    world.store.states[("t", 0)] = known._replace(isr=(2, 3), partition_epoch=known.partition_epoch + 1)
    world.release_writes()
    assert leaders(world) == [2, 1, 2, 3]
    world.check()
    world.catch_up(("t", 0), 1)
    world.pass_time(INTERVAL_MS)
    assert leaders(world) == [1, 1, 2, 3]
