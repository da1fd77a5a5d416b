"""A start-up: moves that it finds, requests that come before everything is reviewed, and slices of a large cluster."""

from dataclasses import replace
from uuid import UUID

import pytest
from beginnings import TP
from harness import US, Harness, broker

from shunter.core.controller.events import (
    AlterPartitionReceived,
    BrokersRead,
    ClusterLoaded,
    Elected,
    Envelope,
    ReassignmentChange,
    ReassignmentsSubmitted,
    RequestAnswered,
    SessionExpired,
    TimePassed,
    TopicsRead,
)
from shunter.core.controller.machine import PARTITIONS_PER_TURN, ControllerMachine
from shunter.core.controller.ready import ConnectBrokers, SendLeaderAndIsr, SendUpdateMetadata
from shunter.errors import ErrorCode
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Reassignment, Strategy
from shunter.model.settings import ControllerSettings
from shunter.model.snapshot import LegacyReassignments
from shunter.model.topic import Topic

TOPICS, PARTITIONS = 300, 20
IDS = tuple(range(1, 11))


def pending_and_begun_by_somebody_else():
    world = Harness(max_concurrent=1).start(t=[(1, 2)], u=[(1, 2)])
    world.reassign({("u", 0): (1, 3)})
    world.reassign({TP: (3, 1, 2)}, token=2)
    assert world.store.reassignments[TP].phase is Phase.PENDING
    topic = world.store.topics["t"]
    begun = ReplicaAssignment((3, 1, 2), (3,))
    world.store.topics["t"] = topic._replace(assignments={0: begun}, version=topic.version + 1)
    world.feed(TopicsRead((world.store.topic_snapshot("t"),)))
    return world


def test_a_pending_move_that_somebody_else_began_is_finished():
    world = pending_and_begun_by_somebody_else()
    world.reassign({TP: (3, 1, 2)}, token=3)
    world.catch_up_all()
    assert world.state(TP).assignment == ReplicaAssignment((3, 1, 2))
    assert not world.store.reassignments


def overruled():
    """Apache's controller took back Shunter's move of `t-0`; Shunter takes over, and a slow broker holds the queue."""
    world = Harness().start(t=[(1,)])
    world.reassign({TP: (2,)})
    assert world.store.reassignments[TP].written.adding == (2,)
    topic = world.store.topics["t"]
    world.store.topics["t"] = topic._replace(assignments={0: ReplicaAssignment((1,))}, version=topic.version + 1)
    world.silent.add(4)
    world.fail_over()
    assert world.store.reassignments[TP].phase is Phase.MOVING
    return world


def test_news_of_an_isr_does_not_resume_what_somebody_overruled():
    world = overruled()
    world.propose(TP, (1,))
    world.answer_all()
    assert world.replicas(TP) == (1,)
    assert not world.store.reassignments


def test_a_cancel_of_what_somebody_overruled_finds_nothing_to_cancel():
    world = overruled()
    topic = world.store.topics["t"]
    world.store.topics["t"] = topic._replace(assignments={0: ReplicaAssignment((3,))}, version=topic.version + 1)
    world.fail_over()
    world.reassign({TP: None}, token=3)
    world.answer_all()
    assert world.result(3) == {TP: "NO_REASSIGNMENT_IN_PROGRESS"}
    assert world.replicas(TP) == (3,)


def test_a_batch_that_decides_who_is_right_and_is_refused_decides_again():
    world = overruled()
    world.hold_writes = True
    world.propose(TP, (1,))
    topic = world.store.topics["t"]
    moving = ReplicaAssignment((1, 3), (3,))
    world.store.topics["t"] = topic._replace(assignments={0: moving}, version=topic.version + 1)
    world.release_writes()
    world.answer_all()
    world.catch_up_all()
    assert not world.store.reassignments
    assert not world.state(TP).assignment.in_motion


def test_what_takes_the_place_of_a_move_that_somebody_overruled_does_not_wait_for_it():
    world = Harness(max_concurrent=1).start(t=[(1, 2), (1, 2)])
    world.reassign({("t", 1): (1, 3)})
    topic = world.store.topics["t"]
    both = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((1, 2))}
    world.store.topics["t"] = topic._replace(assignments=both, version=topic.version + 1)
    targets = {TP: (1, 4), TopicPartition("t", 1): (1, 4)}
    world.store.legacy = LegacyReassignments(targets, {}, 0, 900)
    world.fail_over()
    assert [world.store.reassignments[tp].phase for tp in targets].count(Phase.MOVING) == 1
    world.catch_up_all()
    assert [world.replicas(tp) for tp in targets] == [(1, 4), (1, 4)]


def test_a_cancel_that_overtakes_the_row_of_a_start_up_begins_nothing_before_it_ends_it():
    world = Harness(max_concurrent=1).start(t=[(1, 2)], u=[(1, 2)])
    world.reassign({("u", 0): (1, 3)})
    world.reassign({TP: (3, 2)}, token=2, strategy=Strategy.ALL_AT_ONCE)
    assert world.store.reassignments[TP].phase is Phase.PENDING
    before = world.leadership(TP)
    world.settings = replace(world.settings, max_concurrent=0)
    world.silent.add(4)
    world.fail_over()
    world.reassign({TP: None}, token=3, intervention=Intervention.STOP)
    assert TP not in world.store.reassignments
    assert world.replicas(TP) == (1, 2)
    assert world.leadership(TP)[:3] == before[:3]


@pytest.mark.parametrize("begun", [False, True])
def test_a_cancel_ends_what_a_start_up_has_not_come_to_yet(begun):
    world = Harness()
    replicas = ReplicaAssignment((1, 2, 3), (3,), ()) if begun else ReplicaAssignment((1, 2))
    world.store.topics["t"] = Topic("t", UUID(int=5), {0: replicas}, 0)
    world.store.states[TP] = LeaderAndIsr(1, 0, (1, 2), 0, target_replicas=None if begun else (3, 4))
    world.silent.add(4)
    world.start()
    assert not world.store.reassignments  # The reconciliation waits for broker 4.
    world.write_cancel()
    world.answer_all()
    world.remove_cancel()
    world.catch_up_all()
    assert world.replicas(TP) == (1, 2)
    assert world.leadership(TP).target_replicas is None
    assert not world.store.reassignments


def test_a_pending_move_that_somebody_else_began_is_taken_back_by_a_cancel():
    world = pending_and_begun_by_somebody_else()
    world.reassign({TP: None}, token=3)
    assert world.state(TP).assignment == ReplicaAssignment((1, 2))
    assert TP not in world.store.reassignments


def test_a_request_of_a_former_legacy_znode_comes_after_nobody():
    """Found by simulation (seed 96311746): the request was taken although a newer legacy znode names the partition.

    The newer move then began from the request's target, and a rollback would have led there.
    """
    world = Harness(strategy=Strategy.ALL_AT_ONCE).start(t=[(1, 2)])
    world.store.request({TP: (3, 2, 1)}, legacy=True)
    world.reassign({TP: (3, 4)})
    world.propose(TP, (1, 2, 3))
    world.store.czxid += 1
    world.store.legacy = LegacyReassignments({TP: (3, 2, 4)}, {}, 0, world.store.czxid)
    world.fail_over()
    move = world.store.reassignments[TP]
    assert (move.original, move.target) == ((1, 2), (3, 2, 4))
    assert not world.store.requests
    assert world.told("request-ignored")
    world.catch_up_all()
    assert world.replicas(TP) == (3, 2, 4)
    assert world.store.legacy is None


def starting(replicas, *, target_replicas=None, record=None):
    """A start-up whose reconciliation of t-0 waits for broker 4; t-0 moves, or did."""
    world = Harness()
    world.store.topics["t"] = Topic("t", UUID(int=5), {0: replicas}, 0)
    world.store.states[TP] = LeaderAndIsr(1, 0, (1, 2), 0, target_replicas=target_replicas)
    if record is not None:
        world.store.reassignments[TP] = record
    world.silent.add(4)
    world.start()
    return world


def adopting(*, begun):
    """t-0 moves without a record: Apache's controller has begun the move, or a tool of KIP-455's draft asks for it."""
    if begun:
        return starting(ReplicaAssignment((1, 2, 3), (3,), ()))
    return starting(ReplicaAssignment((1, 2)), target_replicas=(3, 4))


@pytest.mark.parametrize("whole", [{"cancel_all": True}, {"cancel_topics": ("t",)}], ids=["all", "topic"])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("mode", [Intervention.STOP, Intervention.ROLL_BACK])
def test_a_request_to_cancel_everything_ends_what_nobody_has_looked_at_and_nothing_that_comes_after(mode, begun, whole):
    world = adopting(begun=begun)
    after = ReassignmentsSubmitted((ReassignmentChange(TP, (2, 3)),), reply_to=3)
    world.feed(ReassignmentsSubmitted((), **whole, intervention=mode, reply_to=2), after)
    assert world.result(2) == {TP: "NONE"}
    assert world.replicas(TP) == (1, 2)
    assert not world.store.reassignments, "what comes after it waits for broker 4"
    world.answer_all()
    world.catch_up_all()
    assert world.result(3) == {TP: "NONE"}
    assert world.replicas(TP) == (2, 3)


def test_a_pause_of_everything_holds_it_too():
    world = adopting(begun=True)
    world.feed(ReassignmentsSubmitted((), cancel_all=True, intervention=Intervention.PAUSE, reply_to=2))
    assert world.result(2) == {TP: "NONE"}
    world.answer_all()
    world.catch_up_all()
    assert world.store.reassignments[TP].phase is Phase.PAUSED
    assert world.replicas(TP) == (1, 2, 3)


def test_a_cancel_of_another_topic_leaves_it():
    world = adopting(begun=True)
    world.feed(ReassignmentsSubmitted((), cancel_topics=("u",), reply_to=2))
    assert world.result(2) == {}
    world.answer_all()
    assert world.store.reassignments[TP].phase is Phase.MOVING


def test_who_cancels_everything_is_told_of_what_moved_alone():
    assignment = ReplicaAssignment((1, 2))
    older = UUID(int=6)
    record = Reassignment(older, (1, 2), (3,), Strategy.INCREMENTAL, Phase.MOVING, assignment, 0, 2, version=0, czxid=9)
    world = starting(assignment, record=record)
    world.feed(ReassignmentsSubmitted((), cancel_all=True, reply_to=2))
    assert world.result(2) == {}, "it was a move of an older topic of that name"
    assert not world.store.reassignments
    world.reassign({TP: None}, token=3)
    assert world.result(3) == {TP: "NO_REASSIGNMENT_IN_PROGRESS"}


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
