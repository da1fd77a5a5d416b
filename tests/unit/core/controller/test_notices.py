"""Notices come once, when their decision is final: with the write when it is durable; without a write, at once.

Source: docs/decisions/0002-decide-and-apply.md.
"""

from harness import Harness

from shunter.core.controller.events import BatchRefused
from shunter.model.partition import TopicPartition

TP = TopicPartition("t", 0)


def test_what_writes_nothing_is_told_too():
    """A new partition that no broker can lead: its topic was written before, and its review writes nothing."""
    world = Harness().start()
    world.create("t", [(9,)])
    [told] = world.told("partition-offline")
    assert (told.about, told.text) == ("t-0", "none of its replicas can be led yet")


def test_an_offline_partition_is_not_told_anew_with_every_broker():
    world = Harness().start()
    world.create("t", [(9,)])
    world.bounce(1)
    world.kill(2)
    assert len(world.told("partition-offline")) == 1
    world.revive(9)
    assert world.leadership(TP).leader == 9


def test_what_is_refused_is_told_once_and_when_it_is_true():
    world = Harness(brokers=(1, 2)).start()
    world.create("t", [(1,)])
    world.hold_writes = True
    world.kill(1)
    [batch] = world.held_batches
    assert not world.told("partition-offline"), "its leader may be back before this is written"
    world.held_batches.clear()
    world.feed(BatchRefused(batch.batch_id, "lost", (), ()))
    world.pass_time(1_000)
    world.release_writes()
    [told] = world.told("partition-offline")
    assert told.text == "no replica of ISR (1,) is live"
