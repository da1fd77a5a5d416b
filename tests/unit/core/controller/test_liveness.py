"""Brokers that die, come back and bounce during decisions or writes about partitions that they lead."""

from uuid import UUID

from beginnings import TP
from harness import Harness

from shunter.core.controller.events import (
    AlterPartitionReceived,
    ControlledShutdownRequested,
    IsrProposal,
    NewTopic,
    TopicsRead,
    TopicsSubmitted,
)
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica
from shunter.errors import ErrorCode
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.topic import Topic


def test_a_broker_that_returns_while_its_partition_is_written_off_leads_it():
    world = Harness().start()
    world.create("t", [(2,)])
    world.hold_writes = True
    world.kill(2)
    world.revive(2)
    world.release_writes()
    assert world.leadership(TP).leader == 2


def test_a_leader_that_dies_while_its_election_is_written_is_replaced():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.hold_writes = True
    world.kill(1)
    world.kill(2)
    world.release_writes()
    assert world.leadership(TP).leader == 3
    assert world.leadership(TP).isr == (3,)


def test_a_first_leader_that_dies_while_it_is_written_is_replaced():
    world = Harness().start()
    topic = Topic("t", UUID(int=1), {0: ReplicaAssignment((1, 2))}, 0)
    world.store.topics["t"], world.store.configs["t"] = topic, {}
    world.hold_writes = True
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    world.kill(1)
    world.release_writes()
    assert world.leadership(TP).leader == 2


def test_a_wish_to_leave_ends_with_the_life_in_which_it_was_wished():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.create("u", [(3, 4)])
    world.hold_writes = True
    world.reassign({("u", 0): (4, 3)}, token=2)
    assert world.held_batches
    world.feed(ControlledShutdownRequested(2, world.live[2].epoch, 9))
    world.bounce(2)
    world.release_writes()
    assert not any(isinstance(each, SendStopReplica) and each.broker == 2 for each in world.sent)


def proposed(world, isr, token=9):
    told, epoch = world.leadership(TP), world.live[1].epoch
    members = tuple((member, -1) for member in isr)
    return AlterPartitionReceived(1, epoch, (IsrProposal(TP, told.leader_epoch, told.partition_epoch, members),), token)


def test_an_isr_change_of_a_leader_that_bounced_while_it_waited_is_refused():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.create("u", [(3, 4)])
    world.propose(TP, (1, 2))
    world.hold_writes = True
    world.reassign({("u", 0): (4, 3)}, token=2)
    world.feed(proposed(world, (1, 2, 3)))
    world.bounce(1)
    world.release_writes()
    assert world.replies[9].error is ErrorCode.STALE_BROKER_EPOCH
    assert (world.leadership(TP).leader, world.leadership(TP).isr) == (2, (2,))


def test_a_leader_that_bounced_while_its_isr_change_was_written_is_not_told_of_its_former_life():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.propose(TP, (1, 2))
    before = world.leadership(TP).leader_epoch
    world.hold_writes = True
    world.feed(proposed(world, (1, 2, 3)))
    world.sent.clear()
    world.bounce(1)
    told = [each for each in world.sent if isinstance(each, SendLeaderAndIsr) and each.broker == 1]
    assert [(each.topics, each.full) for each in told] == [((), False)]
    world.release_writes()
    assert world.leadership(TP)[:3] == (2, before + 1, (2, 3))


def test_a_leader_that_bounced_and_is_alone_leads_on_in_a_new_epoch():
    world = Harness().start()
    world.create("t", [(1,)])
    before = world.leadership(TP)
    world.bounce(1)
    assert world.leadership(TP)[:3] == (1, before.leader_epoch + 1, (1,))


def test_a_stop_for_leaving_does_not_reach_the_life_after_it():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.hold_writes = True
    world.feed(ControlledShutdownRequested(2, world.live[2].epoch, 9))
    assert world.held_batches
    world.bounce(2)
    world.release_writes()
    assert not any(isinstance(each, SendStopReplica) and each.broker == 2 for each in world.sent)


def test_who_makes_a_topic_is_answered_though_one_of_its_partitions_has_no_live_broker():
    world = Harness().start()
    world.hold_writes = True
    new = NewTopic("t", UUID(int=5), -1, -1, {0: (1,), 1: (2,)}, {})
    world.feed(TopicsSubmitted((new,), False, 9))
    world.kill(1)
    world.release_writes()
    assert world.leadership(TP) is None
    assert world.leadership(TopicPartition("t", 1)).leader == 2
    assert [result.error for result in world.replies[9].topics] == [ErrorCode.NONE]
    world.revive(1)
    assert world.leadership(TP).leader == 1
    replies = world.machine.intake.topic_replies
    assert not replies.unled
    assert not replies.announced


def test_followers_that_die_together_leave_the_isr_in_one_leader_epoch():
    world = Harness().start()
    world.create("t", [(1, 2, 3, 4)])
    before = world.leadership(TP)
    del world.live[3], world.live[4]
    world.feed(world.brokers_read())
    after = world.leadership(TP)
    assert after.isr == (1, 2)
    assert after.leader_epoch == before.leader_epoch + 1
