"""`OfflineReplicas` in UpdateMetadata: each assigned replica that can't be reached, whether it was in sync or not.

Source: Apache Kafka 3.9, ControllerBrokerRequestBatch and ReplicaStateMachine (OfflineReplica); on real brokers:
tests/real/test_metadata_truth.py.
"""

import pytest
from harness import Harness

from shunter.core.controller.events import ControlledShutdownRequested, TopicDeletionsSubmitted
from shunter.core.controller.outbox import RETURN_LINGER_MS
from shunter.core.controller.ready import SendUpdateMetadata
from shunter.model.partition import TopicPartition

LED, FOLLOWED, OTHER = (TopicPartition("t", number) for number in range(3))


@pytest.fixture
def world():
    made = Harness(brokers=(1, 2, 3)).start()
    made.create("t", [(3, 1), (1, 3), (1, 2)])
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
    world = Harness(brokers=(1, 2, 3)).start()
    world.create("t", [(3, 2)])
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
