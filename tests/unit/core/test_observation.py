"""Deciding beside Apache's controller: what the machine is told, what is compared, and what is no difference."""

from uuid import UUID

import pytest

from shunter.core.controller.events import (
    BatchWritten,
    BrokersRead,
    ClusterLoaded,
    ControlledShutdownRequested,
    Elected,
    Envelope,
    LogDirsFailed,
    PartitionsRead,
    TimePassed,
    TopicDeletionsFound,
    TopicsRead,
)
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.ready import ConnectBrokers, LoadCluster, SendUpdateMetadata
from shunter.core.observation import DELETED_IN_MOTION, EXACT_ORDER, Observation
from shunter.core.observed_requests import answer_of
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.settings import ControllerSettings
from shunter.model.snapshot import ClusterSnapshot
from shunter.model.topic import Topic, TopicSnapshot

SETTLE_MS = 10_000
T0 = TopicPartition("t", 0)


class Beside:
    """Apache's ZooKeeper as the test writes it, and the machine beside it."""

    def __init__(self, assignments, *, brokers=(1, 2, 3, 4), isr=None, leader=None):
        self.now_ms = 1_000_000
        self.brokers = {id_: 10 + id_ for id_ in brokers}
        self.topics = {"t": self._topic("t", assignments, 0)}
        self.states = {
            TopicPartition("t", number): LeaderAndIsr(
                leader if leader is not None else each.replicas[0], 0, tuple(isr or each.replicas), 0
            )
            for number, each in self.topics["t"].assignments.items()
        }
        self.machine = ControllerMachine(ControllerSettings(broker_id=999, leader_rebalance_enable=False))
        self.observation = Observation(self.machine.state, SETTLE_MS)
        self.differences = []
        self.heard = []
        self._handle(Elected(5, 5))

    @staticmethod
    def _topic(name, assignments, version, topic_id=1):
        placed = {
            number: each if isinstance(each, ReplicaAssignment) else ReplicaAssignment(tuple(each))
            for number, each in enumerate(assignments)
        }
        return Topic(name, UUID(int=topic_id), placed, version)

    def _live(self):
        at = (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9000),)
        return tuple(Broker(id_, epoch, at) for id_, epoch in sorted(self.brokers.items()))

    def _snapshot(self):
        topics = tuple(
            TopicSnapshot(topic, {tp.partition: state for tp, state in self.states.items() if tp.topic == name}, {})
            for name, topic in self.topics.items()
        )
        return ClusterSnapshot("id", self._live(), topics, {}, None, {}, (), (0, -1), {})

    def _handle(self, event, cause="test"):
        self.heard.append(event)
        ready = self.machine.handle(Envelope(self.now_ms, cause, event))
        for request in ready.requests:
            if not isinstance(request, ConnectBrokers):
                for id_ in request.brokers if isinstance(request, SendUpdateMetadata) else (request.broker,):
                    self._handle(answer_of(self.machine.state, request, id_))
        for read in ready.reads:
            assert isinstance(read, LoadCluster)
            self._post(ClusterLoaded(self._snapshot()))
        if ready.writes is not None:
            causes = dict.fromkeys(task.cause for task in self.machine.outstanding.tasks)
            self.observation.decided(ready.writes.records, "; ".join(causes))
            versions = (self.observation.next_version(),) * len(ready.writes.records)
            self._handle(BatchWritten(ready.writes.batch_id, versions, versions))
        if ready.more:
            self._handle(TimePassed())

    def _post(self, event):
        for told, cause in self.observation.hear(event):
            self._handle(told, cause)

    # ---- what Apache, brokers and people do

    def registered(self, **changed):
        self.brokers = {id_: changed.get(f"b{id_}", epoch) for id_, epoch in self.brokers.items()}
        self.brokers = {id_: epoch for id_, epoch in self.brokers.items() if epoch is not None}
        self._post(BrokersRead(self._live()))

    def wrote(self, name, assignments, topic_id=1):
        version = self.topics[name].version + 1 if name in self.topics else 0
        self.topics[name] = self._topic(name, assignments, version, topic_id)
        numbers = {tp.partition: state for tp, state in self.states.items() if tp.topic == name}
        self._post(TopicsRead((TopicSnapshot(self.topics[name], numbers, {}),)))

    def state(self, tp, leader, isr, *, bump=True):
        before = self.states.get(tp)
        epoch = 0 if before is None else before.leader_epoch + bump
        version = 0 if before is None else before.partition_epoch + 1
        self.states[tp] = LeaderAndIsr(leader, epoch, tuple(isr), version)

    def deleted(self, name):
        del self.topics[name]
        self.states = {tp: state for tp, state in self.states.items() if tp.topic != name}
        self._post(TopicsRead((), (name,)))

    def look(self, *, steady=True):
        told, differences = self.observation.look(dict(self.states), self.now_ms, steady=steady)
        for event, cause in told:
            self._handle(event, cause)
        self.differences += differences

    def settle(self, *, steady=True):
        for _ in range(2 * SETTLE_MS // 1_000 + 4):
            self.look(steady=steady)
            self.now_ms += 1_000

    def agreed(self):
        self.settle()
        assert self.differences == []
        assert self.observation.disputes == {}
        assert self.observation.pending == set()
        return self.observation.tally.agreed


def test_a_dead_broker_is_mourned_alike():
    beside = Beside([(1, 2), (2, 1), (3, 4)])
    beside.registered(b1=None)
    beside.state(T0, 2, (2,))
    beside.state(TopicPartition("t", 1), 2, (2,))
    assert beside.agreed() == 2


@pytest.mark.parametrize(("leader", "isr"), [(3, (2, 3)), (-1, (1, 2, 3)), (1, (1, 2, 3))])
def test_another_election_is_a_difference_with_its_cause(leader, isr):
    beside = Beside([(1, 2, 3)])
    beside.registered(b1=None)
    beside.state(T0, leader, isr)
    beside.settle()
    [difference] = beside.differences
    assert difference.about == "t-0"
    assert "leader 2, in sync 2 3" in difference.ours
    assert f"leader {leader}" in difference.apache
    assert difference.cause == "broker 1 is gone"
    assert difference.explained == ""


def test_what_apache_does_later_is_no_difference_before_it_has_stood_for_long():
    beside = Beside([(1, 2)])
    beside.registered(b1=None)
    for _ in range(SETTLE_MS // 1_000):
        beside.look()
        beside.now_ms += 1_000
    assert beside.differences == []
    beside.state(T0, 2, (2,))
    assert beside.agreed() == 1


def test_while_nobody_leads_nothing_is_late():
    beside = Beside([(1, 2)])
    beside.registered(b1=None)
    beside.settle(steady=False)
    assert beside.differences == []
    beside.state(T0, 2, (2,))
    assert beside.agreed() == 1


def test_the_machine_is_not_told_what_apache_writes_of_a_new_topic():
    beside = Beside([(1, 2)])
    beside.states[TopicPartition("n", 0)] = LeaderAndIsr(4, 0, (4, 3), 0)
    beside.wrote("n", [(3, 4)], topic_id=2)
    beside.settle()
    [difference] = beside.differences
    assert difference.about == "n-0"
    assert difference.cause == "topic n was made"
    assert "leader 3" in difference.ours
    assert "leader 4" in difference.apache


def test_a_new_topic_and_more_partitions():
    beside = Beside([(1, 2)])
    beside.wrote("n", [(3, 4)], topic_id=2)
    beside.state(TopicPartition("n", 0), 3, (3, 4))
    beside.wrote("n", [(3, 4), (4, 9)], topic_id=2)
    beside.state(TopicPartition("n", 1), 4, (4,))
    assert beside.agreed() == 2


def test_an_isr_that_its_leader_changes():
    beside = Beside([(1, 2, 3)])
    beside.state(T0, 1, (1,), bump=False)
    beside.look()
    beside.state(T0, 1, (1, 3), bump=False)
    assert beside.agreed() == 0
    assert set(beside.machine.state.partition(T0).leadership.isr) == {1, 3}


def test_a_smaller_isr_in_a_new_epoch_is_the_controllers():
    beside = Beside([(1, 2, 3), (1, 2, 3)])
    beside.registered(b3=None)
    beside.state(T0, 1, (1, 2))
    beside.settle()
    [difference] = beside.differences  # Of t-1, where Apache keeps the dead broker.
    assert difference.about == "t-1"


@pytest.mark.parametrize("seen", ["step by step", "at its end"])
def test_a_reassignment(seen):
    beside = Beside([(1, 2), (1, 2)])
    moving = ReplicaAssignment((3, 4, 1, 2), (3, 4), (1, 2))
    beside.wrote("t", [moving, (1, 2)])
    beside.state(T0, 1, (1, 2))  # A new leader epoch.
    beside.look()
    if seen == "step by step":
        beside.state(T0, 1, (1, 2, 3), bump=False)
        beside.look()
        beside.state(T0, 1, (1, 2, 3, 4), bump=False)
        beside.look()
    beside.state(T0, 3, (3, 4))
    beside.look()
    beside.wrote("t", [(3, 4), (1, 2)])
    assert beside.agreed() >= 1
    assert beside.machine.state.partition(T0).assignment == ReplicaAssignment((3, 4))
    assert beside.machine.state.reassignments == {}


def test_a_reassignment_of_which_only_the_end_is_seen():
    beside = Beside([(1, 2), (1, 2)])
    beside.state(T0, 3, (3, 1))
    beside.wrote("t", [(3, 1), (1, 2)])
    assert beside.agreed() >= 1
    assert beside.machine.state.partition(T0).assignment == ReplicaAssignment((3, 1))


def test_a_reassignment_that_apache_ends_otherwise():
    beside = Beside([(1, 2)])
    beside.wrote("t", [ReplicaAssignment((3, 4, 1, 2), (3, 4), (1, 2))])
    beside.look()
    beside.state(T0, 4, (3, 4))
    beside.wrote("t", [(3, 4)])
    beside.settle()
    [difference] = beside.differences
    assert "leader 3" in difference.ours
    assert "leader 4" in difference.apache


def test_a_cancelled_reassignment():
    beside = Beside([(1, 2)])
    beside.wrote("t", [ReplicaAssignment((3, 1, 2), (3,), (1, 2))])
    beside.look()
    beside.wrote("t", [ReplicaAssignment((1, 2, 3), (), (3,))])
    beside.look()
    beside.wrote("t", [(1, 2)])
    beside.agreed()
    assert beside.machine.state.reassignments == {}


def test_an_order_that_only_we_restore_is_explained():
    beside = Beside([(1, 2, 3)])
    beside.wrote("t", [ReplicaAssignment((2, 3, 4, 1), (4,), (1,))])
    beside.look()
    beside.wrote("t", [(2, 3, 1)])
    beside.state(T0, 1, (1, 2, 3))
    beside.settle()
    assert [each.explained for each in beside.differences] == [EXACT_ORDER]


def test_a_controlled_shutdown_that_takes_long():
    beside = Beside([(1, 2), (2, 1), (1,)])
    beside.state(T0, 2, (2,))
    beside.state(TopicPartition("t", 1), 2, (2,))
    beside.agreed()
    asked = [event for event in beside.heard if isinstance(event, ControlledShutdownRequested)]
    assert [event.broker for event in asked] == [1]
    assert beside.observation.tally.inferred == {"controlled shutdowns": 1}


def test_a_controlled_shutdown_that_apache_decides_otherwise():
    beside = Beside([(1, 2, 3)])
    beside.state(T0, 3, (2, 3))
    beside.settle()
    [difference] = beside.differences
    assert difference.cause == "broker 1 is stopping"


def test_single_replicas_on_a_failed_log_dir():
    beside = Beside([(1, 2), (1, 2)])
    beside._post(LogDirsFailed((1,)))
    beside.state(T0, 2, (2,))
    beside.agreed()
    assert beside.machine.state.partition(TopicPartition("t", 1)).leadership.leader == 1
    assert beside.machine.state.offline_replicas == {T0: {1}}, "its broker was not restarted"


def test_preferred_leaders_that_apache_gives_back():
    beside = Beside([(1, 2)], leader=2, isr=(2,))
    beside.state(T0, 1, (2, 1))
    assert beside.agreed() == 1
    assert beside.observation.tally.inferred["preferred elections"] == 1


def test_an_unclean_election_that_was_asked_for():
    beside = Beside([(1, 2)], isr=(1,))
    beside.registered(b1=None)
    beside.state(T0, -1, (1,))
    beside.look()
    beside.state(T0, 2, (2,))
    assert beside.agreed() == 2
    assert beside.observation.tally.inferred["unclean elections"] == 1


def test_a_deletion():
    beside = Beside([(1, 2)])
    beside._post(TopicDeletionsFound(("t",)))
    beside.look()
    beside.deleted("t")
    assert beside.agreed() == 1


def test_a_deletion_that_we_wait_with_and_apache_does_not():
    beside = Beside([(1, 2)])
    beside.registered(b2=None)
    beside.state(T0, 1, (1,))
    beside._post(TopicDeletionsFound(("t",)))
    beside.look()
    beside.deleted("t")
    beside.settle()
    assert [(each.about, each.ours, each.apache) for each in beside.differences] == [
        ("t", "it is there", "it is deleted")
    ]


def test_a_deletion_in_mid_move_is_explained():
    beside = Beside([(1, 2)])
    beside.wrote("t", [ReplicaAssignment((3, 1, 2), (3,), (1, 2))])
    beside.look()
    beside._post(TopicDeletionsFound(("t",)))
    beside.settle()
    assert [each.explained for each in beside.differences] == [DELETED_IN_MOTION]


def test_a_difference_is_told_once():
    beside = Beside([(1, 2)])
    beside.registered(b1=None)
    beside.settle()
    beside.settle()
    assert len(beside.differences) == 1


def test_states_that_watches_bring_are_kept_from_the_machine():
    beside = Beside([(1, 2)])
    assert beside.observation.hear(PartitionsRead({T0: LeaderAndIsr(2, 9, (2,), 9)})) == []
