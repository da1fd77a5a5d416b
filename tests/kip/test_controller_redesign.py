"""The controller redesign, sentence by sentence, against the controller's machine. Each test quotes what it holds."""

import pytest
from harness import US, Harness

from shunter.core.controller import events
from shunter.core.controller.events import ControlledShutdownRequested, Elected, SessionExpired
from shunter.core.controller.ready import ConnectBrokers, SendLeaderAndIsr, SendUpdateMetadata
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.model.records import PutPartition

TP = TopicPartition("t", 0)


@pytest.fixture
def world():
    return Harness(brokers=(1, 2, 3, 4)).start(t=[(1, 2, 3)])


def requests(world, kind, since=0):
    return [request for request in world.sent[since:] if isinstance(request, kind)]


@pytest.mark.parametrize(
    "source",
    [
        "AddPartition",
        "TopicChange",
        "DeleteTopic",
        "BrokerChange",
        "PreferredReplicaElection",
        "PartitionReassigned",
        "ReassignedPartitionIsrChange",
        "ControlledShutdown",
    ],
)
def test_every_input_source_is_an_event(source):
    """'Abstract the output of each state change input source to an event.' 'There will be eight types of events'"""
    documented = [
        getattr(events, name).__doc__ or "" for name in dir(events) if isinstance(getattr(events, name), type)
    ]
    assert any(doc.startswith("[") and source in doc[1 : doc.index("]")].split(", ") for doc in documented)


def test_events_are_handled_one_after_the_other(world):
    """'Have a single execution thread to serially process events one at a time.'

    While the writes of one event are under way, the next event is taken in; it is decided when they are done.
    """
    world.hold_writes = True
    world.reassign({TP: (4, 2, 3)})
    assert len(world.held_batches) == 1
    world.reassign({TP: None}, token=2)
    assert len(world.held_batches) == 1
    world.release_writes()
    assert world.result(2) == {TP: "NONE"}
    assert world.replicas(TP) == (1, 2, 3)


def test_a_start_up_and_a_resignation_are_events(world):
    """'On controller starting up or resignation, a ControllerStartUp/ControllerResignation event will be generated.'"""
    assert world.machine.state.active
    world.feed(SessionExpired("somebody else was elected"))
    assert not world.machine.state.active
    before = len(world.sent)
    world.store.epoch += 1
    world.feed(Elected(world.store.epoch, world.store.epoch))
    assert world.machine.state.active
    assert requests(world, SendUpdateMetadata, before)


def test_what_changed_for_many_partitions_is_one_request_per_broker():
    """'Many state changes are executed for one partition after another. It would be much more efficient to do it in
    one request.' 'Batching state change into a single request': one LeaderAndIsr per broker and decision.
    """
    world = Harness(brokers=(1, 2, 3)).start()
    world.create("t", [(1, 2, 3)] * 60)
    before, written = len(world.sent), len(world.store.log)
    world.kill(1)
    led = [records for records in world.store.log[written:] if any(isinstance(each, PutPartition) for each in records)]
    assert sum(isinstance(each, PutPartition) for records in led for each in records) == 60
    told = requests(world, SendLeaderAndIsr, before)
    assert len(led) == 1
    assert sorted(request.broker for request in told) == [2, 3]
    assert [sum(len(topic.partitions) for topic in request.topics) for request in told] == [60, 60]


def test_a_decision_in_slices_sends_one_request_per_broker():
    """'Batching state change into a single request': a decision is written in slices, and sent when all are durable."""
    world = Harness(brokers=(1, 2, 3), slice_partitions=20).start()
    world.create("t", [(1, 2, 3)] * 60)
    before, written = len(world.sent), len(world.store.log)
    world.kill(1)
    assert sum(any(isinstance(each, PutPartition) for each in batch) for batch in world.store.log[written:]) == 3
    told = requests(world, SendLeaderAndIsr, before)
    assert [(request.broker, sum(len(topic.partitions) for topic in request.topics)) for request in told] == [
        (2, 60),
        (3, 60),
    ]


def test_the_next_event_waits_until_every_broker_has_answered(world):
    """'we do not execute the next event until: Callback has been fired on each broker'"""
    world.silent.add(2)
    world.reassign({TP: (4, 2, 3)}, token=5)
    world.reassign({TP: (1, 4, 3)}, token=6)
    assert 6 not in world.replies
    world.answer_all()
    assert world.result(6) == {TP: "NONE"}


def test_a_broker_that_is_down_is_not_waited_for(world):
    """'A broker is down and we will just skip waiting for its callback and move on.' 'checkNodeLivenessAndIgnoreDeadNode'"""
    world.silent.add(2)
    world.reassign({TP: (4, 2, 3)}, token=5)
    world.reassign({TP: (1, 4, 3)}, token=6)
    assert 6 not in world.replies
    world.kill(2)
    assert world.result(6) == {TP: "NONE"}


def test_a_later_event_overrides_an_earlier_one():
    """'we will let later events overrides the state change of previous events'; 'The new controller should be able to
    abort/cancel the long running process.'
    """
    world = Harness(brokers=(1, 2, 3, 4, 5), strategy=Strategy.ALL_AT_ONCE).start(t=[(1, 2)])
    world.reassign({TP: (3, 4)})
    world.reassign({TP: (1, 5)}, token=2)
    assert world.store.reassignments[TP].target == (1, 5)
    assert set(world.replicas(TP)) == {1, 2, 5}
    world.reassign({TP: None}, token=3)
    assert world.replicas(TP) == (1, 2)
    assert not world.store.reassignments


def test_a_death_of_an_old_replica_exposes_nobody():
    """'based on the principle of avoiding under replicated partition (URP)': 2.B, the floor (0102)."""
    world = Harness(brokers=(1, 2, 3, 4), strategy=Strategy.ALL_AT_ONCE).start(t=[(1, 2)])
    world.reassign({TP: (2, 3)})
    world.kill(2)
    world.catch_up(TP, 3)
    assert set(world.leadership(TP).isr) == {1, 3}
    world.revive(2)
    world.catch_up_all()
    assert world.replicas(TP) == (2, 3)


def test_a_state_change_and_the_end_of_a_move_are_one(world):
    """'the ReplicaStateMachine and PartitionStateMachine are separate but the state changes themselves are not':
    leader, ISR and assignment change in one write (0103).
    """
    world.reassign({TP: (4, 2, 3)})
    written = len(world.store.log)
    world.catch_up(TP, 4)
    batch = world.store.log[written]
    assert {type(record).__name__ for record in batch} >= {"PutTopic", "PutPartition"}


def test_obsolete_state_is_sent_to_nobody_after_a_resignation(world):
    """'State propagation is not synchronized': decisions from before the resignation are not sent after it."""
    world.hold_writes = True
    world.kill(1)
    before = len(world.sent)
    world.feed(SessionExpired("somebody else was elected"))
    world.release_writes()
    assert not requests(world, (SendLeaderAndIsr, SendUpdateMetadata), before)


def test_scheduled_tasks_are_events():
    """'Scheduled tasks (e.g. preferred leader election)': they begin by an event, `TimePassed`."""
    world = Harness(brokers=(1, 2)).start(t=[(1, 2)])
    world.kill(1)
    world.revive(1)
    world.catch_up(TP, 1)
    assert world.leadership(TP).leader == 2
    world.pass_time(world.settings.leader_rebalance_interval_ms)
    assert world.leadership(TP).leader == 1


def test_a_broker_changes_zookeeper_by_its_death_and_by_new_topics_alone(world):
    """'Broker will only trigger Zookeeper data change when: Broker is down (or long GC) New topic automatically created'

    An ISR that a leader proposes is written by the controller.
    """
    world.reassign({TP: (1, 2, 3, 4)})
    written = len(world.store.log)
    world.catch_up(TP, 4)
    assert len(world.store.log) > written
    assert 4 in world.store.states[TP].isr


def test_zookeeper_says_who_is_alive(world):
    """'Currently we take zookeeper as source of truth': channels follow the registrations, without the controller's."""
    world.kill(3)
    connected = requests(world, ConnectBrokers)[-1]
    assert [known.id for known in connected.brokers] == [1, 2, 4]
    assert US not in [known.id for known in connected.brokers]


def test_controlled_shutdown_relieves_a_broker_in_order(world):
    """'The controlled shutdown process will be changed to make state change and controlled shutdown approval occur in
    order.': the new leaders are durable, and announced, before the broker hears that it may go.
    """
    world.hold_writes = True
    world.feed(ControlledShutdownRequested(1, world.live[1].epoch, 9))
    assert 9 not in world.replies
    before = len(world.sent)
    world.release_writes()
    world.pass_time(1)
    assert world.replies[9].error is ErrorCode.NONE
    assert world.leadership(TP).leader == 2
    assert {request.broker for request in requests(world, SendLeaderAndIsr, before)} >= {2, 3}
