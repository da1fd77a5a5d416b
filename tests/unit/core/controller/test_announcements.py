"""Requests to brokers about new replicas, and about one another."""

from harness import Harness, broker

from shunter.core.controller.events import PartitionsRead, TopicsRead
from shunter.core.controller.ready import ConnectBrokers, SendLeaderAndIsr, SendUpdateMetadata
from shunter.model.broker import Endpoint
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.topic import Topic, TopicSnapshot

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def new_replicas(world, tp):
    """The brokers that were told, in order, and whether the replica was called new."""
    return [
        (request.broker, tp in request.new)
        for request in world.sent
        if isinstance(request, SendLeaderAndIsr)
        and any(topic.name == tp.topic and tp.partition in dict(topic.partitions) for topic in request.topics)
    ]


def test_replicas_of_a_new_topic_are_new():
    """Otherwise a broker with a failed log dir makes no log for them: the replica could lie on the failed log dir."""
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    assert new_replicas(world, T0) == [(1, True), (2, True), (3, True)]


def test_replicas_of_added_partitions_are_new():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    topic = world.store.topics["t"]
    grown = Topic("t", topic.topic_id, {**topic.assignments, 1: ReplicaAssignment((2, 3, 4))}, topic.version + 1)
    world.store.topics["t"] = grown
    world.sent.clear()
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    assert new_replicas(world, T1) == [(2, True), (3, True), (4, True)]
    assert new_replicas(world, T0) == []


def test_replicas_of_a_topic_that_others_wrote_are_new():
    world = Harness().start()
    world.store.topics["t"] = Topic("t", None, {0: ReplicaAssignment((1, 2, 3))}, 0)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    assert new_replicas(world, T0) == [(1, True), (2, True), (3, True)]


def test_a_partition_that_nobody_could_elect_for_is_new_when_somebody_can():
    world = Harness().start()
    world.kill(1)
    world.kill(2)
    world.store.topics["t"] = Topic("t", None, {0: ReplicaAssignment((1, 2))}, 0)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    assert new_replicas(world, T0) == []
    world.revive(2)
    assert new_replicas(world, T0) == [(2, True)]


def test_an_added_replica_is_new_and_the_others_are_not():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.sent.clear()
    world.reassign({T0: (1, 2, 4)})
    assert new_replicas(world, T0) == [(1, False), (2, False), (3, False), (4, True)]


def test_a_restart_and_another_epoch_make_no_replica_new():
    world = Harness().start()
    world.create("t", [(1, 2, 3)])
    world.sent.clear()
    world.bounce(1)
    world.fail_over()
    assert new_replicas(world, T0)
    assert not any(new for _, new in new_replicas(world, T0))


def test_what_can_be_read_again_is_not_new():
    """The partition's logs exist, maybe on a failed log dir: an empty log beside them would lead with no records."""
    world = Harness()
    world.start()
    world.create("t", [(1, 2, 3)])
    world.store.broken.add(T0)
    world.fail_over()
    assert world.state(T0).leadership is None
    world.sent.clear()
    world.store.broken.clear()
    world.feed(PartitionsRead({T0: world.store.states[T0]}))
    assert new_replicas(world, T0)
    assert not any(new for _, new in new_replicas(world, T0))


def test_a_topic_that_comes_with_leaders_is_not_new():
    """For example a topic whose znode could not be read at the start-up: it is read again when it was mended."""
    world = Harness().start()
    topic = Topic("t", None, {0: ReplicaAssignment((1, 2))}, 3)
    world.store.topics["t"], world.store.states[T0] = topic, LeaderAndIsr(1, 4, (1, 2), 6)
    world.feed(TopicsRead((TopicSnapshot(topic, {0: world.store.states[T0]}, {}),)))
    assert new_replicas(world, T0)
    assert not any(new for _, new in new_replicas(world, T0))


def metadata_of(world):
    return [request for request in world.sent if isinstance(request, SendUpdateMetadata)]


def test_another_endpoint_of_a_live_broker_is_announced():
    world = Harness().start()
    world.sent.clear()
    moved = broker(2, world.live[2].epoch)._replace(endpoints=(Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 1),))
    world.live[2] = moved
    world.feed(world.brokers_read())
    (told,) = metadata_of(world)
    assert told.brokers == (1, 2, 3, 4)
    assert moved in told.live
    assert any(isinstance(request, ConnectBrokers) and moved in request.brokers for request in world.sent)
    world.sent.clear()
    world.feed(world.brokers_read())
    assert not world.sent


def test_another_rack_and_other_features_are_announced():
    world = Harness().start()
    for changed in (world.live[3]._replace(rack="b"), world.live[3]._replace(rack="b", features=(("f", 1, 2),))):
        world.sent.clear()
        world.live[3] = changed
        world.feed(world.brokers_read())
        (told,) = metadata_of(world)
        assert changed in told.live
        assert not [request for request in world.sent if isinstance(request, SendLeaderAndIsr)]
