"""Brokers that die, come back, bounce or can't be reached, and the offline replicas that others are told of."""

from uuid import UUID

import pytest
from beginnings import TP
from harness import Harness

from shunter.core.controller.events import (
    AlterPartitionReceived,
    BrokerIdentified,
    ConnectionChanged,
    ControlledShutdownRequested,
    IsrProposal,
    NewTopic,
    TopicDeletionsSubmitted,
    TopicsRead,
    TopicsSubmitted,
)
from shunter.core.controller.outbox import RETURN_LINGER_MS
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from shunter.errors import ErrorCode
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.settings import ControllerSettings
from shunter.model.topic import Topic

LED, FOLLOWED, OTHER = (TopicPartition("t", number) for number in range(3))
SECOND = 1_000
ISOLATED_AFTER_MS = ControllerSettings(100).isolated_after_ms


def test_a_broker_that_returns_while_its_partition_is_written_off_leads_it():
    world = Harness().start(t=[(2,)])
    world.hold_writes = True
    world.kill(2)
    world.revive(2)
    world.release_writes()
    assert world.leadership(TP).leader == 2


def test_a_leader_that_dies_while_its_election_is_written_is_replaced():
    world = Harness().start(t=[(1, 2, 3)])
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
    world = Harness().start(t=[(1, 2)], u=[(3, 4)])
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
    world = Harness().start(t=[(1, 2, 3)], u=[(3, 4)])
    world.propose(TP, (1, 2))
    world.hold_writes = True
    world.reassign({("u", 0): (4, 3)}, token=2)
    world.feed(proposed(world, (1, 2, 3)))
    world.bounce(1)
    world.release_writes()
    assert world.replies[9].error is ErrorCode.STALE_BROKER_EPOCH
    assert (world.leadership(TP).leader, world.leadership(TP).isr) == (2, (2,))


def test_a_leader_that_bounced_while_its_isr_change_was_written_is_not_told_of_its_former_life():
    world = Harness().start(t=[(1, 2, 3)])
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
    world = Harness().start(t=[(1,)])
    before = world.leadership(TP)
    world.bounce(1)
    assert world.leadership(TP)[:3] == (1, before.leader_epoch + 1, (1,))


def test_a_stop_for_leaving_does_not_reach_the_life_after_it():
    world = Harness().start(t=[(1, 2)])
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
    world = Harness().start(t=[(1, 2, 3, 4)])
    before = world.leadership(TP)
    del world.live[3], world.live[4]
    world.feed(world.brokers_read())
    after = world.leadership(TP)
    assert after.isr == (1, 2)
    assert after.leader_epoch == before.leader_epoch + 1


@pytest.fixture
def world():
    made = Harness(brokers=(1, 2, 3)).start(t=[(3, 1), (1, 3), (1, 2)])
    made.pass_time(1_000)
    return made


def told(world):
    """Broker 1's metadata: by partition, its offline replicas. Later requests replace earlier ones."""
    believed = {}
    for request in world.sent:
        if isinstance(request, SendUpdateMetadata) and 1 in request.brokers:
            for topic in request.topics:
                for number, _ in topic.partitions:
                    tp = TopicPartition(topic.name, number)
                    believed[tp] = request.offline.get(tp, ())
    return believed


def leave(world, id_):
    world.feed(ControlledShutdownRequested(id_, world.live[id_].epoch, 99))
    assert world.replies[99].remaining == ()
    world.pass_time(1_000)
    assert all(id_ not in world.leadership(tp).isr for tp in (LED, FOLLOWED))


def test_a_broker_that_left_every_isr_before_it_died(world):
    leave(world, 3)
    assert told(world) == {LED: (), FOLLOWED: (), OTHER: ()}
    world.kill(3)
    world.pass_time(1_000)
    assert told(world) == {LED: (3,), FOLLOWED: (3,), OTHER: ()}
    world.revive(3)
    world.pass_time(1_000)  # The replica has not caught up yet, so nothing is written.
    assert all(3 not in world.leadership(tp).isr for tp in (LED, FOLLOWED))
    assert told(world) == {LED: (), FOLLOWED: (), OTHER: ()}


def test_a_broker_that_died_in_sync(world):
    world.kill(3)
    world.pass_time(1_000)
    assert told(world) == {LED: (3,), FOLLOWED: (3,), OTHER: ()}


def test_the_last_in_sync_dies_while_nobody_leads():
    world = Harness(brokers=(1, 2, 3)).start(t=[(3, 2)])
    world.propose(LED, (3,))
    world.kill(3)
    world.kill(2)
    world.pass_time(1_000)
    assert world.leadership(LED).leader == -1
    assert told(world) == {LED: (3, 2)}


def test_a_topic_that_is_being_deleted_is_not_told_of_again(world):
    leave(world, 3)
    world.silent.add(1)
    world.feed(TopicDeletionsSubmitted(("t",), 7))
    before = len(world.sent)
    world.kill(3)
    world.pass_time(1_000)
    assert not [r for r in world.sent[before:] if isinstance(r, SendUpdateMetadata) and r.topics]


def test_a_failed_log_dir_of_a_follower_out_of_sync_and_its_broker_s_restart(world):
    world.propose(FOLLOWED, (1,))
    world.fail_log_dir(3, FOLLOWED)
    world.pass_time(1_000)
    assert told(world)[FOLLOWED] == (3,)
    world.bounce(3)
    world.pass_time(1_000)
    assert told(world)[FOLLOWED] == ()


def sent_about(world, tp, since):
    """Later requests to all brokers about a partition."""
    everybody = [each for each in world.sent[since:] if isinstance(each, SendUpdateMetadata) and not each.full]
    return [each for each in everybody if tp.partition in dict(topic for t in each.topics for topic in t.partitions)]


def test_a_return_is_told_with_the_news_that_a_replica_is_in_sync(world):
    """One round to all brokers and not two: with 200 brokers each round is 200 requests."""
    leave(world, 3)
    world.kill(3)
    world.pass_time(1_000)
    before = len(world.sent)
    world.revive(3)
    world.pass_time(100)
    assert not sent_about(world, FOLLOWED, before)
    world.propose(FOLLOWED, (1, 3))
    world.pass_time(100)
    (told_once,) = sent_about(world, FOLLOWED, before)
    assert not told_once.offline.get(FOLLOWED, ())
    assert not sent_about(world, LED, before)
    world.pass_time(RETURN_LINGER_MS)
    assert len(sent_about(world, FOLLOWED, before)) == len(sent_about(world, LED, before)) == 1
    assert told(world) == {LED: (), FOLLOWED: (), OTHER: ()}


def test_who_comes_and_goes_and_comes_is_told_as_it_is_at_last(world):
    leave(world, 3)
    world.kill(3)
    world.revive(3)
    world.pass_time(100)
    world.kill(3)
    world.pass_time(100)
    assert told(world) == {LED: (3,), FOLLOWED: (3,), OTHER: ()}
    world.revive(3)
    world.pass_time(RETURN_LINGER_MS + 100)
    assert told(world) == {LED: (), FOLLOWED: (), OTHER: ()}


def led(brokers=(1, 2, 3)):
    return Harness(brokers).start(t=[brokers])


def lose(world, *brokers):
    world.feed(*(ConnectionChanged(id_, world.live[id_].epoch, reachable=False) for id_ in brokers))


def connect(world, id_):
    """As a channel does with each connection; the first event comes only after news of a lost one."""
    epoch = world.live[id_].epoch
    world.feed(ConnectionChanged(id_, epoch, reachable=True), BrokerIdentified(id_, epoch, looks_us_up=False))


def test_who_reaches_nobody_resigns_after_the_bound_and_asks_to_be_woken_for_it():
    world = led()
    lose(world, 1, 2, 3)
    world.pass_time(ISOLATED_AFTER_MS - 1)
    assert not world.resigned
    assert world.wake_at_ms <= world.now_ms + 1
    world.pass_time(1)
    assert world.resigned
    (told,) = world.told("resigned")
    assert told.text == "we have reached none of 3 live brokers for 45 s: another controller may reach one"


def test_one_broker_is_enough():
    world = led()
    lose(world, 1, 2)
    world.pass_time(10 * ISOLATED_AFTER_MS)
    lose(world, 3)
    world.pass_time(ISOLATED_AFTER_MS - 1)
    connect(world, 2)
    world.pass_time(ISOLATED_AFTER_MS)
    assert not world.resigned
    lose(world, 2)
    world.pass_time(ISOLATED_AFTER_MS - 1)
    assert not world.resigned, "counted anew"
    world.pass_time(1)
    assert world.resigned


def test_an_answer_counts_as_reached():
    world = led()
    world.silent = {1, 2, 3}
    lose(world, 1, 2, 3)
    world.create("u", [(1, 2, 3)])
    world.pass_time(ISOLATED_AFTER_MS - 1)
    world.answer_all()
    world.pass_time(1)
    assert not world.resigned


@pytest.mark.parametrize("restart", ["clean", "crash"])
def test_a_cluster_of_one_broker_is_not_deposed_by_its_restart(restart):
    """A clean stop deregisters it at once. After a crash it is registered until its session ends."""
    world = led((1,))
    lose(world, 1)
    world.pass_time(0 if restart == "clean" else 18 * SECOND)
    world.kill(1)
    world.pass_time(10 * ISOLATED_AFTER_MS)
    assert not world.resigned, "nobody is registered"
    world.revive(1)
    world.pass_time(SECOND)
    lose(world, 1)
    world.pass_time(ISOLATED_AFTER_MS - 1)
    assert not world.resigned
    connect(world, 1)
    world.pass_time(ISOLATED_AFTER_MS)
    assert not world.resigned


def test_brokers_that_come_and_go_unreached_do_not_keep_an_isolated_controller():
    """A broker that came a moment ago is neither reached nor lost yet."""
    world = led()
    world.silent = {1, 2, 3}
    lose(world, 1, 2, 3)
    for passed in range(0, ISOLATED_AFTER_MS, 5 * SECOND):
        assert not world.resigned, passed
        world.bounce(1 + passed // SECOND % 3)
        world.pass_time(5 * SECOND)
        lose(world, *world.hosted)
    assert world.resigned


def test_who_has_resigned_counts_anew_in_its_next_term():
    world = led()
    lose(world, 1, 2, 3)
    world.pass_time(ISOLATED_AFTER_MS)
    assert world.resigned
    world.start()
    world.pass_time(10 * ISOLATED_AFTER_MS)
    assert not world.resigned
