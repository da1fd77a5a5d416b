"""Znodes that can't be read or written: nothing is decided about them, and everything else goes on."""

from uuid import UUID

from harness import Harness

from shunter.core.controller.draft import Draft
from shunter.core.controller.events import (
    ControlledShutdownRequested,
    ElectionRequested,
    LegacyReassignmentsFound,
    ProducerIdsRequested,
    ReassignmentsSubmitted,
    TimePassed,
    TopicDeletionsFound,
    TopicDeletionsSubmitted,
    TopicsRead,
)
from shunter.core.controller.machine import FORBIDDEN_AGAIN_MS, FORBIDDEN_AT_MOST, FORBIDDEN_TOLD_MS, Outstanding
from shunter.core.controller.ready import SendLeaderAndIsr
from shunter.errors import ErrorCode
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase
from shunter.model.records import PutPartition, PutProducerIdBlock, PutTopic
from shunter.model.snapshot import LegacyReassignments, OwedDeletions
from shunter.model.topic import Topic

BROKEN = TopicPartition("t", 0)
SOUND = TopicPartition("t", 1)
COUNT = 20
BAD = TopicPartition("t", 3)


def with_a_broken_state(**settings):
    """Partitions 0 and 1 of t, on 1, 2, 3; then nonsense is written into the state of partition 0."""
    world = Harness(brokers=(1, 2, 3, 4, 5, 6), **settings).start(t=[(1, 2, 3), (1, 2, 3)])
    world.store.broken.add(BROKEN)
    return world


def notices(world, kind):
    return [notice for notice in world.notices if notice.kind == kind]


def test_it_is_found_by_the_first_write_that_meets_it_and_the_others_go_on():
    world = with_a_broken_state()
    world.kill(1)
    world.pass_time(1_000)
    assert world.leadership(SOUND).leader == 2
    assert world.store.states[BROKEN].leader == 1
    assert world.machine.state.unreadable == {BROKEN}
    assert not notices(world, "reload")
    assert not world.resigned


def test_a_failover_does_not_elect_over_what_it_can_not_read():
    world = with_a_broken_state()
    world.fail_over()
    world.kill(1)
    assert world.store.states[BROKEN].leader == 1
    assert world.leadership(SOUND).leader == 2


def test_requests_that_name_it_are_refused_with_the_reason_and_the_others_served():
    world = with_a_broken_state()
    world.fail_over()
    world.reassign({BROKEN: (4, 5, 6), SOUND: (1, 2, 4)})
    told = {tp: (error, message) for tp, error, message in world.replies[1].partitions}
    assert told[SOUND] == (ErrorCode.NONE, None)
    assert told[BROKEN][0] is ErrorCode.LEADER_NOT_AVAILABLE
    assert "leader and ISR of t-0 can't be read" in told[BROKEN][1]
    assert list(world.store.reassignments) == [SOUND]
    for unclean in (False, True):
        world.feed(ElectionRequested((BROKEN,), unclean=unclean, reply_to=20 + unclean))
        assert world.result(20 + unclean) == {BROKEN: "LEADER_NOT_AVAILABLE"}


def test_a_move_waits_while_its_state_is_broken_and_goes_on_when_it_is_mended():
    world = with_a_broken_state()
    world.store.broken.clear()
    world.reassign({BROKEN: (1, 2, 4)})
    world.store.broken.add(BROKEN)
    reply = world.propose(BROKEN, (1, 2, 3, 4))
    assert reply.partitions == ((BROKEN, ErrorCode.LEADER_NOT_AVAILABLE),), "after this one a leader asks again"
    world.reassign({BROKEN: None}, token=2)
    assert world.result(2) == {BROKEN: "LEADER_NOT_AVAILABLE"}
    world.store.broken.clear()
    world.pass_time(10_000)
    assert not world.machine.state.unreadable
    world.catch_up(BROKEN, 4)
    assert world.replicas(BROKEN) == (1, 2, 4)
    world.check()


def test_a_mended_partition_is_looked_for_at_intervals_and_elected_at_once():
    world = with_a_broken_state()
    world.kill(1)
    world.pass_time(1_000)
    world.store.broken.clear()
    world.pass_time(9_000)
    world.pass_time(1_000)
    assert world.leadership(BROKEN).leader == 2
    assert not world.machine.state.unreadable
    world.check()


def test_a_leader_goes_on_in_a_new_epoch_when_its_state_is_mended():
    world = with_a_broken_state()
    assert world.propose(BROKEN, (1, 2)).partitions == ((BROKEN, ErrorCode.LEADER_NOT_AVAILABLE),)
    before = world.hosted[1][BROKEN].leadership.leader_epoch
    world.store.broken.clear()
    world.pass_time(10_000)
    assert world.leadership(BROKEN).leader == 1
    assert world.hosted[1][BROKEN].leadership.leader_epoch == before + 1
    world.check()


def test_a_leader_that_came_back_meanwhile_is_told_to_lead():
    world = with_a_broken_state()
    world.fail_over()
    world.hosted[1].clear()
    world.bounce(1)
    assert BROKEN not in world.hosted[1]
    world.store.broken.clear()
    world.pass_time(10_000)
    assert BROKEN in world.hosted[1]


def left_out_topic():
    """The znode of t could not be read at the start-up; then its leader dies."""
    world = with_a_broken_state()
    world.store.broken.clear()
    world.store.left_out = world.store.left_out._replace(topics=frozenset({"t"}))
    world.fail_over()
    return world


def mend_the_topic(world):
    world.store.left_out = world.store.left_out._replace(topics=frozenset())
    world.feed(TopicsRead((world.store.topic_snapshot("t"),), ()))


def test_a_topic_that_can_be_read_again_gets_leaders_for_those_that_died_and_new_epochs_for_the_others():
    world = left_out_topic()
    epoch = world.store.states[SOUND].leader_epoch
    mend_the_topic(world)
    assert world.leadership(SOUND).leader_epoch == epoch + 1
    world = left_out_topic()
    world.kill(1)
    mend_the_topic(world)
    assert world.leadership(SOUND)[:3] == (2, epoch + 1, (2, 3))
    world.check()


def test_a_move_of_a_topic_that_can_be_read_again_goes_on():
    world = with_a_broken_state()
    world.store.broken.clear()
    world.reassign({SOUND: (4, 5, 6)})
    world.store.left_out = world.store.left_out._replace(topics=frozenset({"t"}))
    world.fail_over()
    mend_the_topic(world)
    world.catch_up_all()
    assert world.replicas(SOUND) == (4, 5, 6)
    assert not world.store.reassignments


def test_what_was_dropped_of_a_topic_that_can_be_read_again_is_deleted():
    world = with_a_broken_state()
    world.store.broken.clear()
    world.silent.add(3)
    world.reassign({SOUND: (1, 2)})
    assert world.store.reassignments[SOUND].phase is Phase.DROPPING
    world.silent.clear()
    world.store.left_out = world.store.left_out._replace(topics=frozenset({"t"}))
    world.fail_over()
    assert (3, SOUND) not in world.deleted
    mend_the_topic(world)
    assert (3, SOUND) in world.deleted
    assert not world.store.reassignments


def test_who_cancels_everything_is_told_of_a_record_that_can_not_be_read():
    world = with_a_broken_state()
    world.store.broken.clear()
    world.reassign({SOUND: (4, 5, 6)})
    world.store.reassignments.pop(SOUND)
    world.store.left_out = world.store.left_out._replace(moves=frozenset({SOUND}))
    world.fail_over()
    world.feed(ReassignmentsSubmitted((), cancel_all=True, reply_to=2))
    assert world.result(2) == {SOUND: "REASSIGNMENT_IN_PROGRESS"}
    assert "mend or remove it" in world.replies[2].partitions[0][2]


def test_a_topic_that_can_not_be_read_exists():
    world = with_a_broken_state()
    world.store.left_out = world.store.left_out._replace(topics=frozenset({"t"}))
    world.fail_over()
    assert world.create("t", [(1, 2)]).topics[0].error is ErrorCode.TOPIC_ALREADY_EXISTS
    world.reassign({SOUND: (1, 2, 4)})
    ((_, error, message),) = world.replies[1].partitions
    assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "the znode of topic 't' can't be read" in message
    world.store.broken.clear()
    world.feed(TopicsRead((world.store.topic_snapshot("t"),), ()))
    world.reassign({SOUND: (1, 2, 4)}, token=2)
    assert world.result(2) == {SOUND: "NONE"}


def test_a_topic_marked_for_deletion_that_can_not_be_read_is_deleted_when_it_can():
    world = with_a_broken_state()
    world.store.broken.clear()
    made = Topic("u", UUID(int=7), {0: ReplicaAssignment((1, 2))}, 0)
    world.store.topics["u"] = made
    world.store.deleting = {"u"}
    world.feed(TopicsRead((), (), ("t", "u")), TopicDeletionsFound(("u",)))
    assert world.store.deleting == {"u"}
    assert world.machine.state.left_out.topics == {"u"}, "what is known of t stays"
    world.feed(TopicsRead((world.store.topic_snapshot("u"),)), TopicDeletionsFound(("u",)))
    assert "u" not in world.store.topics
    assert not world.store.deleting
    assert not world.machine.state.left_out.topics


def test_the_record_of_a_move_outlives_an_unreadable_topic():
    world = with_a_broken_state()
    world.store.broken.clear()
    world.reassign({SOUND: (4, 5, 6)})
    world.store.left_out = world.store.left_out._replace(topics=frozenset({"t"}))
    world.fail_over()
    assert SOUND in world.store.reassignments
    world.store.left_out = world.store.left_out._replace(topics=frozenset())
    world.fail_over()
    world.catch_up_all()
    assert world.replicas(SOUND) == (4, 5, 6)


def test_a_broken_record_of_a_move_is_not_written_over():
    world = with_a_broken_state()
    world.store.broken.clear()
    world.reassign({SOUND: (4, 5, 6)})
    record = world.store.reassignments.pop(SOUND)
    world.store.left_out = world.store.left_out._replace(moves=frozenset({SOUND}))
    written = len(world.store.log)
    world.fail_over()
    world.reassign({SOUND: (1, 2, 3)}, token=2)
    assert world.result(2) == {SOUND: "REASSIGNMENT_IN_PROGRESS"}
    assert len(world.store.log) == written
    world.kill(1)
    assert world.leadership(SOUND).leader == 2, "elections go on all the same"
    world.store.reassignments[SOUND] = record
    world.store.left_out = world.store.left_out._replace(moves=frozenset())
    world.fail_over()
    world.catch_up_all()
    assert world.replicas(SOUND) == (4, 5, 6)


def test_a_topic_marked_for_deletion_that_can_be_read_again_has_no_leader():
    """Some replicas may be deleted already, and would begin empty."""
    world = left_out_topic()
    world.store.deleting = {"t"}
    world.feed(TopicDeletionsFound(("t",)))
    world.sent.clear()
    mend_the_topic(world)
    assert not [request for request in world.sent if isinstance(request, SendLeaderAndIsr)]
    assert "t" not in world.store.topics
    assert not world.store.deleting


def test_nor_has_a_topic_that_was_marked_before_we_came():
    world = left_out_topic()
    world.store.deleting = {"t"}
    world.store.left_out = world.store.left_out._replace(deleting=frozenset({"t"}))
    world.fail_over()
    world.sent.clear()
    mend_the_topic(world)
    assert not [request for request in world.sent if isinstance(request, SendLeaderAndIsr)]
    assert "t" not in world.store.topics


def test_extra_entries_wait_while_the_legacy_znode_can_not_be_read():
    world = with_a_broken_state()
    world.store.broken.clear()
    world.store.left_out = world.store.left_out._replace(legacy=True)
    world.write_extra({SOUND: (1, 2, 4)})
    world.reassign({BROKEN: (1, 2, 5)})
    world.pass_time(1_000)
    assert world.result(1) == {BROKEN: "NONE"}
    assert not notices(world, "reload")
    assert SOUND in world.store.extra.targets
    world.fail_over()
    assert SOUND in world.store.extra.targets
    assert not notices(world, "write-refused")
    world.store.left_out = world.store.left_out._replace(legacy=False)
    world.feed(LegacyReassignmentsFound(None))
    world.catch_up_all()
    assert world.replicas(SOUND) == (1, 2, 4)
    assert world.store.extra is None


def test_a_move_whose_record_was_refused_waits_for_nobody():
    world = with_a_broken_state()
    world.store.broken.clear()
    world.create("u", [(6,)])
    world.kill(6)
    world.store.left_out = world.store.left_out._replace(legacy=True)
    world.write_extra({("u", 0): (1,)})
    assert not world.store.reassignments
    assert not world.machine.state.waiting


def test_what_can_not_be_owed_is_said():
    world = with_a_broken_state()
    world.store.broken.clear()
    world.store.left_out = world.store.left_out._replace(owed=frozenset({2}))
    world.fail_over()
    world.kill(2)
    world.reassign({SOUND: (1, 3, 4)})
    world.catch_up_all()
    assert world.replicas(SOUND) == (1, 3, 4)
    assert not world.store.owed
    assert [notice.about for notice in notices(world, "not-owed")] == ["t-1"]
    assert not notices(world, "reload")


def test_producer_ids_are_not_given_out_again_when_the_block_can_not_be_read():
    world = with_a_broken_state()
    world.store.left_out = world.store.left_out._replace(producer_ids=True)
    world.fail_over()
    world.feed(ProducerIdsRequested(1, world.live[1].epoch, 5))
    assert world.replies[5].error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.store.producer == (0, -1)


def test_what_is_owed_of_a_topic_that_can_not_be_read_is_asked_for_when_it_can():
    """Another controller may have placed a replica there again meanwhile (simulated, seed 46003443)."""
    world = Harness(brokers=(1, 2, 3, 4)).start(t=[(1, 2, 3), (1, 2, 3)])
    topic, state = world.store.topics["t"], world.store.states[BROKEN]
    again = topic.assignments | {0: ReplicaAssignment((1, 2, 4))}
    world.store.topics["t"] = topic._replace(assignments=again, version=topic.version + 1)
    world.store.states[BROKEN] = state._replace(isr=(1, 2, 4), partition_epoch=state.partition_epoch + 1)
    world.store.owed[4] = OwedDeletions(((BROKEN, 0), (SOUND, 0)), 0)
    world.store.left_out = world.store.left_out._replace(topics=frozenset({"t"}))
    world.fail_over()
    world.bounce(4)
    assert not world.deleted
    world.store.left_out = world.store.left_out._replace(topics=frozenset())
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    assert set(world.deleted) == {(4, SOUND)}
    assert not world.store.owed


def test_a_legacy_entry_that_a_request_named_too_goes_when_its_topic_can_be_read_again():
    world = Harness(brokers=(1, 2, 3, 4), slice_partitions=1).start(t=[(1, 2)], u=[(1, 2)])
    world.store.left_out = world.store.left_out._replace(topics=frozenset({"t"}))
    world.store.legacy = LegacyReassignments({BROKEN: (1, 2)}, {}, 0, 700)
    world.fail_over()
    world.hold_writes = True
    world.write_request({BROKEN: (1, 3), ("u", 0): (1, 3)})
    world.store.left_out = world.store.left_out._replace(topics=frozenset())
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    world.release_writes()
    world.catch_up_all()
    assert world.store.legacy is None


def test_a_topic_goes_from_every_broker_when_nobody_knows_whom_its_move_dropped():
    """Found by simulation: a broker that was not told of the drop kept its replica, and no record named it any more."""
    world = Harness(brokers=(1, 2, 3)).start(t=[(1, 2)])
    world.silent.add(2)
    world.reassign({BROKEN: (1, 3)})
    world.catch_up(BROKEN, 3)
    assert 2 not in world.replicas(BROKEN)
    world.store.reassignments.pop(BROKEN)
    world.store.left_out = world.store.left_out._replace(moves=frozenset({BROKEN}))
    world.silent.clear()
    world.fail_over()
    world.feed(TopicDeletionsSubmitted(("t",), 7))
    assert "t" not in world.store.topics
    assert (2, BROKEN) in world.deleted
    assert [notice.about for notice in notices(world, "not-owed")] == [str(BROKEN)]


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
