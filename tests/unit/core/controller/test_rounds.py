"""What is decided about dead brokers goes out in rounds: together when all is durable, or when the first has waited."""

import pytest
from harness import Harness

from shunter.core.controller.events import ControlledShutdownRequested, TopicDeletionsFound
from shunter.core.controller.outbox import ROUND_AT_MOST_MS
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from shunter.model.partition import TopicPartition

SLICE = 5
"""Partitions that are written at once."""
LAST = TopicPartition("two", 4 * SLICE - 1)


@pytest.fixture
def world():
    """Broker 1 leads four slices, and broker 2 another four; the writes after a death are held."""
    made = Harness(brokers=(1, 2, 3, 4), slice_partitions=SLICE).start()
    made.create("one", [(1, 3, 4)] * 4 * SLICE)
    made.create("two", [(2, 4, 3)] * 4 * SLICE)
    made.hold_writes = True
    made.sent.clear()
    return made


def sent(world, kind):
    return [each for each in world.sent if isinstance(each, kind)]


def named(request):
    return sum(len(topic.partitions) for topic in request.topics)


def write_one(world):
    """The batch that is outstanding becomes durable; the next one is held again."""
    batch = world.held_batches.pop()
    world.feed(*world._write(batch))


def write_all(world):
    while world.held_batches:
        write_one(world)


def test_two_deaths_are_one_round(world):
    world.kill(1)
    world.kill(2)
    write_one(world)
    assert not sent(world, SendLeaderAndIsr | SendUpdateMetadata)
    write_all(world)
    leaders = sent(world, SendLeaderAndIsr)
    assert [(each.broker, named(each)) for each in leaders] == [(3, 8 * SLICE), (4, 8 * SLICE)]
    (metadata,) = sent(world, SendUpdateMetadata)
    assert (metadata.brokers, named(metadata)) == ((3, 4), 8 * SLICE)
    assert {each.id for each in metadata.live}.isdisjoint({1, 2})
    assert world.sent.index(metadata) > world.sent.index(leaders[-1])


def test_what_has_waited_goes_out_and_the_rest_in_another_round(world):
    world.kill(1)
    write_one(world)
    world.pass_time(ROUND_AT_MOST_MS - 1)
    assert not sent(world, SendLeaderAndIsr)
    assert world.wake_at_ms == world.now_ms + 1
    world.pass_time(1)
    assert [named(each) for each in sent(world, SendLeaderAndIsr)] == [SLICE] * 2
    write_all(world)
    assert [named(each) for each in sent(world, SendLeaderAndIsr)[2:]] == [3 * SLICE] * 2
    assert [named(each) for each in sent(world, SendUpdateMetadata)] == [SLICE, 3 * SLICE]


def test_a_refused_write_does_not_hold_the_round_longer(world):
    world.kill(1)
    write_one(world)
    world.held_batches.clear()  # ZooKeeper never answers.
    world.pass_time(ROUND_AT_MOST_MS)
    assert [named(each) for each in sent(world, SendLeaderAndIsr)] == [SLICE] * 2


def test_the_death_of_a_broker_without_replicas_is_announced_at_once():
    world = Harness(brokers=(1, 2, 3)).start(t=[(1, 2)])
    world.sent.clear()
    world.kill(3)
    (metadata,) = sent(world, SendUpdateMetadata)
    assert 3 not in {each.id for each in metadata.live}
    assert not metadata.topics


def test_work_goes_on_after_the_last_broker_died():
    world = Harness(brokers=(1,)).start(t=[(1,)])
    world.kill(1)
    world.create("late", [(1,)])
    world.revive(1)
    assert world.leadership(("late", 0)).leader == 1


def test_a_broker_that_comes_ends_the_round(world):
    world.kill(1)
    write_one(world)
    world.revive(1)
    brokers = [each.broker for each in sent(world, SendLeaderAndIsr)]
    assert brokers[:3] == [3, 4, 1]
    assert [named(each) for each in sent(world, SendLeaderAndIsr)[:2]] == [SLICE] * 2


def test_nobody_is_answered_before_the_round(world):
    world.kill(1)
    write_one(world)
    leadership = world.leadership(LAST)
    assert world.propose(LAST, (2, 4), token=9) is None
    waiting = []
    send = world._send

    def note(request):
        waiting.append(9 not in world.replies)
        send(request)

    world._send = note
    write_all(world)
    assert world.leadership(LAST).isr == (2, 4) != leadership.isr
    assert 9 in world.replies
    assert waiting
    assert all(waiting)


def test_a_leaving_broker_is_answered_after_the_round(world):
    world.kill(1)
    write_one(world)
    world.silent.update({3, 4})
    world.feed(ControlledShutdownRequested(2, world.live[2].epoch, 9))
    write_all(world)
    assert {each.broker for each in sent(world, SendLeaderAndIsr)} >= {3, 4}
    assert 9 not in world.replies
    world.answer_all()
    assert 9 in world.replies


def test_a_topic_that_is_deleted_meanwhile_is_not_led_again(world):
    world.kill(1)
    write_one(world)
    world.store.deleting.add("one")
    world.feed(TopicDeletionsFound(("one",)))
    write_all(world)
    kinds = [type(each) for each in world.sent if isinstance(each, SendUpdateMetadata | SendStopReplica)]
    assert kinds[0] is SendUpdateMetadata
    assert SendStopReplica in kinds
    assert not [topic for each in sent(world, SendLeaderAndIsr) for topic in each.topics if topic.name == "one"]
