"""What can't be read is left alone: neither decided about, nor written over, nor taken for absent."""

from uuid import UUID

from harness import Harness

from shunter.core.controller.events import (
    ElectionRequested,
    ProducerIdsRequested,
    TopicDeletionsFound,
    TopicsRead,
)
from shunter.errors import ErrorCode
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.topic import Topic

BROKEN = TopicPartition("t", 0)
SOUND = TopicPartition("t", 1)


def with_a_broken_state(**settings):
    """Partitions 0 and 1 of t, on 1, 2, 3; then somebody writes nonsense into 0's state."""
    world = Harness(brokers=(1, 2, 3, 4, 5, 6), **settings).start()
    world.create("t", [(1, 2, 3), (1, 2, 3)])
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
    assert reply.partitions == ((BROKEN, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),)
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


def test_a_doomed_topic_that_can_not_be_read_is_deleted_when_it_can():
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
