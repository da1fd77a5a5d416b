"""Topics have ids where all live brokers speak a protocol of 2.8 or later: docs/decisions/0034-one-release.md."""

from uuid import UUID

from harness import Harness

from shunter.core.controller.events import TopicIdsAgreed, TopicsRead
from shunter.core.controller.ready import SendLeaderAndIsr, SendUpdateMetadata
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.topic import Topic

T0 = TopicPartition("t", 0)


def with_a_topic_of_old():
    """A controller that starts on a cluster whose topic has no id."""
    world = Harness()
    world.store.topics["t"], world.store.configs["t"] = Topic("t", None, {0: ReplicaAssignment((1, 2))}, 0), {}
    world.store.states[T0] = LeaderAndIsr(1, 0, (1, 2), 0, 1)
    return world.start()


def ids_told(world, since=0):
    """By kind of request: the brokers that were told of t, with which id."""
    told = {SendLeaderAndIsr: [], SendUpdateMetadata: []}
    for request in world.sent[since:]:
        for topic in getattr(request, "topics", ()):
            brokers = getattr(request, "brokers", None) or (request.broker,)
            told[type(request)] += [(broker, topic.topic_id) for broker in brokers]
    return told


def test_nothing_is_written_before_brokers_have_told():
    assert with_a_topic_of_old().store.topics["t"].topic_id is None


def test_where_brokers_use_ids_a_topic_of_old_gets_one_and_they_are_told():
    world = with_a_topic_of_old()
    sent = len(world.sent)
    world.feed(TopicIdsAgreed(True))
    world.pass_time(1_000)
    known = world.store.topics["t"].topic_id
    assert isinstance(known, UUID)
    told = ids_told(world, sent)
    assert told[SendLeaderAndIsr] == [(1, known), (2, known)]
    assert {broker for broker, id_ in told[SendUpdateMetadata] if id_ == known} == {1, 2, 3, 4}
    assert world.told("topic-ids") == []


def test_where_a_broker_speaks_an_older_protocol_no_topic_gets_an_id():
    world = with_a_topic_of_old()
    world.feed(TopicIdsAgreed(False))
    world.create("u", [(1, 2)])
    assert world.store.topics["t"].topic_id is world.store.topics["u"].topic_id is None
    assert len(world.told("topic-ids")) == 1


def test_when_that_changes_all_brokers_are_told_everything_anew():
    world = with_a_topic_of_old()
    world.feed(TopicIdsAgreed(True))
    known = world.store.topics["t"].topic_id
    for used in (False, True):
        sent = len(world.sent)
        world.feed(TopicIdsAgreed(used))
        told = ids_told(world, sent)
        assert told[SendLeaderAndIsr] == [(1, known), (2, known)]
        assert {broker for broker, _ in told[SendUpdateMetadata]} == {1, 2, 3, 4}
        assert world.store.topics["t"].topic_id == known, "a topic keeps the id that it has"
    assert len(world.told("topic-ids")) == 2


def test_an_id_that_an_old_tool_leaves_out_is_put_back():
    """The brokers have the id on their disks, and refuse another id (KAFKA-14190)."""
    world = Harness().start()
    world.feed(TopicIdsAgreed(True))
    world.create("t", [(1, 2)])
    topic = world.store.topics["t"]
    assert topic.topic_id is not None
    grown = {0: topic.assignments[0], 1: ReplicaAssignment((2, 3))}
    world.store.topics["t"] = Topic("t", None, grown, topic.version + 1)
    sent = len(world.sent)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    assert world.store.topics["t"].topic_id == topic.topic_id
    assert world.store.topics["t"].assignments == grown
    assert world.state(TopicPartition("t", 1)).leadership.leader == 2
    assert {id_ for told in ids_told(world, sent).values() for _, id_ in told} == {topic.topic_id}
    assert [notice.about for notice in world.told("topic-ids")] == ["t"]


def test_an_id_that_is_put_back_already_is_not_written_again():
    world = Harness().start()
    world.feed(TopicIdsAgreed(True))
    world.create("t", [(1, 2)])
    topic = world.store.topics["t"]
    world.store.topics["t"] = Topic("t", None, topic.assignments, topic.version + 1)
    read = world.store.topic_snapshot("t")
    world.feed(TopicsRead((read,)), TopicsRead((read,)))
    assert world.store.topics["t"].version == topic.version + 2
    assert world.store.topics["t"].topic_id == topic.topic_id


def test_where_brokers_write_isrs_themselves_moves_are_looked_at_every_second():
    """They announce an ISR after five seconds or more; a move by steps would wait for that at every step."""
    world = Harness().start(t=[(1, 2)])
    world.feed(TopicIdsAgreed(False))
    world.reassign({T0: (1, 3)})
    assert world.state(T0).assignment.replicas == (1, 2, 3)
    known = world.store.states[T0]
    world.store.states[T0] = known._replace(isr=(1, 2, 3), partition_epoch=known.partition_epoch + 1)
    world.pass_time(1_000)
    assert world.state(T0).assignment.replicas == (1, 3)
    world.pass_time(5_000)
    assert not world.machine.state.reassignments
    assert world.wake_at_ms is None or world.wake_at_ms > world.now_ms + 1_000


def test_where_brokers_tell_us_of_isrs_no_state_is_read():
    world = Harness().start(t=[(1, 2)])
    world.feed(TopicIdsAgreed(True))
    world.reassign({T0: (1, 3)})
    known = world.store.states[T0]
    world.store.states[T0] = known._replace(isr=(1, 2, 3), partition_epoch=known.partition_epoch + 1)
    world.pass_time(1_000)
    world.pass_time(1_000)
    assert world.state(T0).assignment.replicas == (1, 2, 3)
