"""Requests to brokers: about new replicas and one another, and the broker epoch in them (the KIP's two passes)."""

from dataclasses import replace

import pytest
from harness import US, Harness, broker

from shunter.core.controller.events import PartitionsRead, SettingsChanged, TopicsRead
from shunter.core.controller.ready import ConnectBrokers, SendLeaderAndIsr, SendUpdateMetadata
from shunter.errors import InvariantViolation
from shunter.model.broker import Endpoint
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase
from shunter.model.settings import ControlRequestEpoch
from shunter.model.topic import Topic, TopicSnapshot

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TP = ("t", 0)


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
    world = Harness().start(t=[(1, 2, 3)])
    assert new_replicas(world, T0) == [(1, True), (2, True), (3, True)]


def test_replicas_of_added_partitions_are_new():
    world = Harness().start(t=[(1, 2, 3)])
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
    world = Harness().start(t=[(1, 2, 3)])
    world.sent.clear()
    world.reassign({T0: (1, 2, 4)})
    assert new_replicas(world, T0) == [(1, False), (2, False), (3, False), (4, True)]


def test_a_restart_and_another_epoch_make_no_replica_new():
    world = Harness().start(t=[(1, 2, 3)])
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


def epochs(world, since=0):
    """(kind, broker, epoch) of each request."""
    told = []
    for request in world.sent[since:]:
        if isinstance(request, ConnectBrokers):
            continue
        brokers = request.brokers if isinstance(request, SendUpdateMetadata) else (request.broker,)
        told += [(type(request), id_, request.broker_epoch) for id_ in brokers]
    return told


def test_the_maximum_of_all_epochs_goes_to_every_broker():
    world = Harness().start(t=[(1, 2, 3)])
    assert epochs(world)
    assert {epoch for _, _, epoch in epochs(world)} == {max(known.epoch for known in world.live.values())}


def test_per_broker_epochs_go_to_their_brokers():
    world = Harness(control_request_epoch=ControlRequestEpoch.PER_BROKER).start(t=[(1, 2, 3)])
    assert {kind for kind, _, _ in epochs(world)} == {SendUpdateMetadata, SendLeaderAndIsr}
    assert all(epoch == world.live[id_].epoch for _, id_, epoch in epochs(world))
    assert len({epoch for _, _, epoch in epochs(world)}) > 1


def test_the_two_passes_are_switched_without_a_restart():
    world = Harness(control_request_epoch=ControlRequestEpoch.PER_BROKER).start(t=[(1, 2, 3)])
    before = len(world.sent)
    world.feed(SettingsChanged(replace(world.settings, control_request_epoch=ControlRequestEpoch.MAX)))
    assert len(world.sent) == before, "a change of settings by itself tells nobody anything"
    world.create("u", [(2, 3, 4)])
    greatest = max(known.epoch for known in world.live.values())
    assert {epoch for _, _, epoch in epochs(world, before)} == {greatest}
    shared = [request for request in world.sent[before:] if isinstance(request, SendUpdateMetadata)]
    assert all(len(request.brokers) == 4 for request in shared), "one request for all brokers"
    before = len(world.sent)
    world.feed(SettingsChanged(world.settings))
    world.create("v", [(3, 4, 1)])
    assert all(epoch == world.live[id_].epoch for _, id_, epoch in epochs(world, before))


@pytest.mark.parametrize("policy", list(ControlRequestEpoch))
def test_what_was_decided_before_a_restart_is_below_the_new_epoch(policy):
    """e0 → e1 → e2: registered, read by the controller, registered again; the request between is obsolete."""
    world = Harness(control_request_epoch=policy).start(t=[(1, 2, 3)])
    decided = [epoch for _, id_, epoch in epochs(world) if id_ == 2]
    world.register(2)
    assert decided
    assert all(epoch < world.live[2].epoch for epoch in decided), "the broker of e2 refuses all of them"
    world.feed(world.brokers_read())
    after = [epoch for _, id_, epoch in epochs(world) if id_ == 2][len(decided) :]
    assert after
    assert all(epoch >= world.live[2].epoch for epoch in after), "it takes what was decided after"


def test_a_higher_bound_lets_pending_moves_begin():
    world = Harness(max_concurrent=1).start(t=[(1, 2), (2, 3)])
    world.reassign({("t", 0): (1, 4), ("t", 1): (2, 4)})
    phases = [move.phase for move in world.machine.state.reassignments.values()]
    assert sorted(phase.value for phase in phases) == ["moving", "pending"]
    world.feed(SettingsChanged(replace(world.settings, max_concurrent=2)))
    assert {move.phase for move in world.machine.state.reassignments.values()} == {Phase.MOVING}


def test_a_controller_keeps_its_id():
    world = Harness().start()
    with pytest.raises(InvariantViolation):
        world.feed(SettingsChanged(replace(world.settings, broker_id=US + 1)))
