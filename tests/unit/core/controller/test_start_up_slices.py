"""A start-up of a large cluster is taken in slices; events wait meanwhile, and every broker is told everything once."""

from dataclasses import replace
from uuid import UUID

from harness import US, Harness, broker

from shunter.core.controller.events import (
    AlterPartitionReceived,
    BrokersRead,
    ClusterLoaded,
    Elected,
    Envelope,
    RequestAnswered,
    SessionExpired,
    TimePassed,
)
from shunter.core.controller.machine import PARTITIONS_PER_TURN, ControllerMachine
from shunter.core.controller.ready import ConnectBrokers, SendLeaderAndIsr, SendUpdateMetadata
from shunter.errors import ErrorCode
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.settings import ControllerSettings
from shunter.model.topic import Topic

TOPICS, PARTITIONS = 300, 20
IDS = tuple(range(1, 11))


def large_world():
    world = Harness(brokers=IDS)
    for topic in range(TOPICS):
        name = f"topic-{topic:03}"
        assignments = {}
        for number in range(PARTITIONS):
            replicas = tuple(1 + (topic * PARTITIONS + number + shift) % len(IDS) for shift in (0, 3, 7))
            assignments[number] = ReplicaAssignment(replicas)
            world.store.states[TopicPartition(name, number)] = LeaderAndIsr(replicas[0], 4, replicas, 2, 1)
        world.store.topics[name] = Topic(name, UUID(int=topic + 1), assignments, 0)
    return world


def loaded(world):
    return ClusterLoaded(world.store.snapshot(world.live[id_] for id_ in sorted(world.live)))


class Slices:
    """A machine that is starting, slice by slice."""

    def __init__(self, world):
        self.machine = ControllerMachine(world.settings)
        self.requests = []
        self.handle(Elected(1, 1))
        self.ready = self.handle(loaded(world))

    def handle(self, event):
        self.ready = self.machine.handle(Envelope(1_000, "test", event))
        self.requests += self.ready.requests
        return self.ready

    def finish(self):
        slices = 1
        while self.ready.more:
            self.handle(TimePassed())
            slices += 1
        return slices


def test_a_large_start_up_takes_many_slices_and_tells_everybody_everything_once():
    world = large_world()
    slices = Slices(world)
    assert not slices.machine.view.active
    assert slices.finish() >= TOPICS * PARTITIONS // PARTITIONS_PER_TURN
    assert slices.machine.view.active

    assert isinstance(slices.requests[0], ConnectBrokers)
    (metadata,) = [request for request in slices.requests if isinstance(request, SendUpdateMetadata)]
    assert metadata.full
    assert metadata.brokers == IDS
    told = {TopicPartition(topic.name, number) for topic in metadata.topics for number, _ in topic.partitions}
    assert told == set(world.store.states)

    hosted = {request.broker: request for request in slices.requests if isinstance(request, SendLeaderAndIsr)}
    assert sorted(hosted) == list(IDS)
    assert len(slices.requests) == 2 + len(IDS)
    for id_, request in hosted.items():
        assert request.full
        mine = {TopicPartition(topic.name, number) for topic in request.topics for number, _ in topic.partitions}
        expected = {
            tp for tp in world.store.states if id_ in world.store.topics[tp.topic].assignments[tp.partition].replicas
        }
        assert mine == expected


def test_a_death_during_the_start_up_is_heard_after_it():
    world = large_world()
    slices = Slices(world)
    dead = IDS[3]
    del world.live[dead]
    before = len(slices.requests)
    slices.handle(BrokersRead(tuple(world.live[id_] for id_ in sorted(world.live))))
    assert slices.requests[before:] == [], "the start-up is not over: nobody hears of the death yet"
    slices.ready = replace(slices.ready, more=True)
    slices.finish()
    connects = [request for request in slices.requests if isinstance(request, ConnectBrokers)]
    assert [len(request.brokers) for request in connects] == [len(IDS), len(IDS) - 1]
    assert dead not in slices.machine.view.brokers
    assert slices.machine.outstanding is not None, "leaders are being elected in its place"


def test_an_election_in_the_middle_of_a_start_up_begins_anew():
    world = large_world()
    slices = Slices(world)
    slices.handle(SessionExpired("lost"))
    assert slices.ready.resigned
    assert not slices.handle(TimePassed()).requests
    slices.handle(Elected(2, 2))
    slices.requests.clear()
    slices.handle(loaded(world))
    slices.finish()
    assert {request.controller_epoch for request in slices.requests[1:]} == {2}
    assert slices.machine.view.active


def test_a_small_cluster_starts_in_one_slice():
    machine = ControllerMachine(ControllerSettings(US))
    world = Harness(brokers=(1, 2))
    machine.handle(Envelope(0, "test", Elected(1, 1)))
    ready = machine.handle(Envelope(0, "test", loaded(world)))
    assert not ready.more
    assert machine.view.active
    assert broker(1, 0).id in machine.view.brokers


def started(world):
    slices = Slices(world)
    slices.finish()
    slices.requests.clear()
    return slices


def now_live(world):
    return BrokersRead(tuple(world.live[id_] for id_ in sorted(world.live)))


def test_a_broker_that_returns_is_told_everything_in_turns():
    world = large_world()
    slices = started(world)
    back = IDS[2]
    world.live[back] = broker(back, 99)
    slices.handle(now_live(world))
    turns = slices.finish()
    assert turns >= TOPICS * PARTITIONS // PARTITIONS_PER_TURN
    (full,) = [request for request in slices.requests if isinstance(request, SendUpdateMetadata) and request.full]
    assert full.brokers == (back,)
    assert sum(len(topic.partitions) for topic in full.topics) == len(world.store.states)
    (hosted,) = [request for request in slices.requests if isinstance(request, SendLeaderAndIsr)]
    assert (hosted.broker, hosted.full) == (back, False), "what it led is told when it is decided anew"
    leaders = {state.leadership.leader for topic in hosted.topics for _, state in topic.partitions}
    assert leaders
    assert back not in leaders
    assert slices.requests.index(full) < slices.requests.index(hosted)


def test_what_comes_while_a_broker_returns_is_heard_after_it():
    """The next event has the broker's own death: it is compared with the brokers that the first event left."""
    world = large_world()
    slices = started(world)
    back, dead = IDS[2], IDS[5]
    world.live[back] = broker(back, 99)
    slices.handle(now_live(world))
    assert slices.ready.more
    del world.live[dead], world.live[back]
    assert not slices.handle(now_live(world)).writes
    assert {back, dead} <= set(slices.machine.view.brokers)
    slices.handle(TimePassed())
    slices.finish()
    assert {back, dead}.isdisjoint(slices.machine.view.brokers)
    assert slices.machine.outstanding is not None, "leaders are being elected in their place"
    assert slices.machine.held == []


def test_an_outcome_that_comes_in_between_is_taken_in_after_it():
    world = large_world()
    slices = started(world)
    dead, back = IDS[1], IDS[2]
    del world.live[dead]
    slices.handle(now_live(world))
    slices.finish()
    batch = slices.machine.outstanding
    world.live[back] = broker(back, 99)
    slices.handle(now_live(world))
    assert slices.ready.more
    outcome = world.store.write(batch)
    slices.handle(outcome)
    assert slices.machine.outstanding is batch, "nothing changes under what is being gathered"
    slices.handle(TimePassed())
    slices.finish()
    assert slices.machine.outstanding is not batch


def test_brokers_that_come_before_we_are_elected_make_nobody_a_controller():
    world = large_world()
    machine = ControllerMachine(world.settings)
    ready = machine.handle(Envelope(0, "test", now_live(world)))
    assert not machine.view.active
    assert ready.requests == ()


def test_a_controller_that_resigns_at_the_end_of_its_start_up_answers_nobody():
    """The request was held, and was answered in the same turn in which the controller learned of its successor.

    The driver answers each caller that still waits with NOT_CONTROLLER.
    """
    slices = Slices(large_world())
    while not any(isinstance(request, SendUpdateMetadata) for request in slices.requests):
        slices.handle(TimePassed())
    (metadata,) = [request for request in slices.requests if isinstance(request, SendUpdateMetadata)]
    assert slices.ready.more
    slices.handle(AlterPartitionReceived(1, -7, (), 55))
    slices.handle(RequestAnswered(metadata.request_id, 1, ErrorCode.STALE_CONTROLLER_EPOCH))
    while not slices.ready.resigned:
        slices.handle(TimePassed())
    assert not slices.ready.replies
    assert not slices.ready.requests
