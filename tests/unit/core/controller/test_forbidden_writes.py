"""ACLs forbid to write single znodes: work that needs them waits or is refused, and everything else goes on."""

from harness import Harness

from shunter.core.controller.draft import Draft
from shunter.core.controller.events import ControlledShutdownRequested, ProducerIdsRequested, TimePassed
from shunter.core.controller.machine import FORBIDDEN_AGAIN_MS, FORBIDDEN_AT_MOST, FORBIDDEN_TOLD_MS, Outstanding
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition
from shunter.model.records import PutPartition, PutProducerIdBlock, PutTopic

COUNT = 20
BAD = TopicPartition("t", 3)


def of_partition(record):
    return isinstance(record, PutPartition) and record.tp == BAD


def clustered(count=COUNT):
    world = Harness().start()
    world.create("t", [(1, 2)] * count)
    return world


def leaders(world, count=COUNT):
    return {number: world.leadership(TopicPartition("t", number)).leader for number in range(count)}


def test_a_dead_brokers_partitions_are_led_but_for_the_one_that_may_not_be_written():
    world = clustered()
    world.forbidden = of_partition
    world.kill(1)
    assert {number for number, leader in leaders(world).items() if leader != 2} == {3}
    (told,) = world.told("write-forbidden")
    assert "/forbidden" in told.text
    assert world.machine.view.active
    assert world.machine.refusals == 0, "nothing is read again because of it"
    world.pass_time(FORBIDDEN_AGAIN_MS)
    assert len(world.told("write-forbidden")) == 1, "it is told once"
    assert leaders(world)[3] != 2
    world.forbidden = lambda _: False
    world.pass_time(FORBIDDEN_AGAIN_MS)
    assert leaders(world)[3] == 2, "nothing is lost"
    assert not world.machine.forbidden_tasks


def test_the_machine_asks_to_be_woken_for_forbidden_tasks():
    world = clustered()
    world.forbidden = of_partition
    world.kill(1)
    assert world.machine._wake_at_ms() <= world.machine.forbidden_tasks[0][0]


def test_while_a_batch_is_written_nobody_is_woken_for_forbidden_tasks():
    """The decision is tried again when the batch's outcome is known: to wake before is in vain (world 95310650)."""
    world = clustered()
    world.forbidden = of_partition
    world.kill(1)
    due = world.machine.forbidden_tasks[0][0]
    world.machine.outstanding = Outstanding(1, (), Draft(world.machine.state, 0), [], world.machine.settings)
    woken = world.machine._wake_at_ms()
    assert woken is None or woken != due
    world.machine.outstanding = None
    assert world.machine._wake_at_ms() <= due


def test_whoever_asks_for_what_may_not_be_written_is_told_and_the_others_are_served():
    world = clustered()
    world.create("u", [(1, 2)])
    world.forbidden = lambda record: isinstance(record, PutTopic) and record.topic.name == "u"
    world.reassign({("u", 0): (3, 4), ("t", 0): (3, 4)}, token=5)
    told = {tp: (error, message) for tp, error, message in world.replies[5].partitions}
    assert told[TopicPartition("t", 0)][0] is ErrorCode.NONE
    error, message = told[TopicPartition("u", 0)]
    assert error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "/forbidden" in message
    assert not world.machine.forbidden_tasks, "a caller who was refused asks again"
    assert world.machine.requests_refused == 0, "it is no bug of ours"


def test_a_broker_that_would_ask_again_at_once_is_told_a_little_later():
    """Apache's brokers ask for an ISR again as soon as they hear that it was refused (simulated world 95305225)."""
    world = clustered()
    world.forbidden = of_partition
    world.propose(BAD, (1,), token=7)
    world.propose(TopicPartition("t", 4), (1,), token=8)
    assert 7 not in world.replies
    assert world.machine._wake_at_ms() <= world.now_ms + FORBIDDEN_TOLD_MS
    assert 8 in world.replies, "nothing else waits for it"
    world.pass_time(FORBIDDEN_TOLD_MS)
    ((told, error),) = world.replies[7].partitions
    assert (told, error) == (BAD, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert not world.machine.late_replies


def test_producer_ids_that_may_not_be_noted_are_not_given_out():
    world = clustered()
    world.forbidden = lambda record: isinstance(record, PutProducerIdBlock)
    world.feed(ProducerIdsRequested(1, world.live[1].epoch, 5))
    world.pass_time(FORBIDDEN_TOLD_MS)
    assert world.replies[5].error is ErrorCode.UNKNOWN_SERVER_ERROR
    world.forbidden = lambda _: False
    world.feed(ProducerIdsRequested(1, world.live[1].epoch, 6))
    assert world.replies[6].error is ErrorCode.NONE


def test_a_broker_that_leaves_is_told_what_it_leads_still():
    world = clustered()
    world.forbidden = of_partition
    world.feed(ControlledShutdownRequested(1, world.live[1].epoch, 5))
    world.answer_all()
    assert world.replies[5].remaining == (BAD,)


def test_where_nearly_everything_is_forbidden_it_is_no_exception_any_more():
    """Then the batch is refused as a whole, and tried again after a while: ZooKeeper is not flooded."""
    count = FORBIDDEN_AT_MOST + 50
    world = clustered(count)
    world.forbidden = lambda record: isinstance(record, PutPartition)
    world.kill(1)
    world.feed(TimePassed())
    assert len(world.machine.forbidden_tasks) <= FORBIDDEN_AT_MOST
    assert world.machine.retry_at_ms is not None
    assert "/forbidden" in world.told("write-refused")[0].text, "the log has no other line that names it"
    world.forbidden = lambda _: False
    world.pass_time(2 * FORBIDDEN_AGAIN_MS)
    assert set(leaders(world, count).values()) == {2}
