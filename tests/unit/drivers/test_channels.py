"""Channels to fake brokers: order, repeats after a lost connection, bounces, slow brokers, memory."""

import asyncio
import gc
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from uuid import UUID

import pytest
from fake_broker import FakeBroker
from kio.schema.describe_configs.v1 import response as kio_describe_configs
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.static.primitive import i8

from shunter.core.controller.events import BrokerIdentified, ConnectionChanged, RequestAnswered, TopicIdsAgreed
from shunter.core.controller.ready import (
    ConnectBrokers,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopPartition,
    TopicSlice,
)
from shunter.drivers.brokers import channels as channels_module
from shunter.drivers.brokers import release as broker_release
from shunter.drivers.brokers.backlog import Backlog, QueuedRequest
from shunter.drivers.brokers.channels import Channels
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition

LEAD = SendLeaderAndIsr(1, 1, 5, 9, (), (), frozenset())
UPDATE = SendUpdateMetadata(2, (1,), 5, 9, (), (), {})


def state(epoch=0, leader=1, replicas=(1, 2, 3)):
    return PartitionState(ReplicaAssignment(replicas), LeaderAndIsr(leader, epoch, replicas, 0, 5))


def topic(name="t", partitions=1, epoch=0, first=0, identity=1):
    return TopicSlice(name, UUID(int=identity), tuple((first + n, state(epoch)) for n in range(partitions)))


class World:
    """Brokers, channels to them, and the events that came back."""

    def __init__(self, brokers, **options):
        self.brokers = brokers
        self.events = []
        self.changed = asyncio.Condition()
        self.channels = Channels(9, self._post, **options)
        self.last_id = 0

    def _post(self, event):
        self.events.append(event)
        self._task = asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self):
        async with self.changed:
            self.changed.notify_all()

    @property
    def live(self):
        return tuple(broker.broker for broker in self.brokers)

    def connect(self):
        self.channels.send(ConnectBrokers(self.live))

    def update(self, *topics, to=None, full=False):
        self.last_id += 1
        ids = tuple(broker.id for broker in self.brokers) if to is None else to
        self.channels.send(SendUpdateMetadata(self.last_id, ids, 5, 7, self.live, topics, {}, full))
        return self.last_id

    def lead(self, broker, *topics):
        self.last_id += 1
        self.channels.send(SendLeaderAndIsr(self.last_id, broker, 5, 7, self.live, topics, frozenset()))
        return self.last_id

    def stop(self, broker, tp):
        self.last_id += 1
        self.channels.send(SendStopReplica(self.last_id, broker, 5, 7, (StopPartition(tp, 3, True),)))
        return self.last_id

    def answered(self, broker):
        return [
            event.request_id for event in self.events if isinstance(event, RequestAnswered) and event.broker == broker
        ]

    async def until(self, condition, seconds=40):
        async with asyncio.timeout(seconds), self.changed:
            await self.changed.wait_for(condition)

    async def until_answered(self, broker, *ids, seconds=40):
        async with asyncio.timeout(seconds), self.changed:
            await self.changed.wait_for(lambda: set(ids) <= set(self.answered(broker)))


@asynccontextmanager
async def world(count=1, **options):
    brokers = [await FakeBroker(number + 1).start() for number in range(count)]
    made = World(brokers, **options)
    try:
        yield made
    finally:
        await made.channels.close()
        for broker in brokers:
            await broker.stop()


async def test_requests_arrive_in_order_and_each_is_answered():
    async with world() as w:
        w.connect()
        ids = [w.update(topic(), full=True), w.lead(1, topic()), w.stop(1, TopicPartition("t", 0))]
        ids += [w.update(topic(epoch=n)) for n in range(20)]
        await w.until_answered(1, *ids)
        assert w.answered(1) == ids
        (broker,) = w.brokers
        assert [heard.api_key for heard in broker.heard] == [6, 4, 5] + [6] * 20
        assert [(heard.version) for heard in broker.heard[:3]] == [8, 7, 4]
        message = broker.heard[0].message
        assert (message.controller_id, message.controller_epoch, message.broker_epoch) == (9, 5, 7)
        assert message.live_brokers[0].endpoints[0].port == broker.port
        assert broker.heard[1].message.live_leaders[0].port == broker.port
        epochs = [heard.message.topic_states[0].partition_states[0].leader_epoch for heard in broker.heard[3:]]
        assert epochs == list(range(20))


async def test_a_broker_that_does_not_listen_yet_is_tried_again():
    async with world() as w:
        (broker,) = w.brokers
        await broker.stop()
        w.connect()
        asked = w.update(topic())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(broker.until_heard(1), 0.2)
        await broker.start()
        await w.until_answered(1, asked)


async def test_what_was_not_answered_is_sent_again_in_order_after_a_lost_connection():
    async with world() as w:
        (broker,) = w.brokers
        broker.answering.clear()
        w.connect()
        ids = [w.update(topic()), w.lead(1, topic()), w.stop(1, TopicPartition("t", 0)), w.lead(1, topic(epoch=1))]
        await broker.until_heard(1)
        broker.cut()
        broker.answering.set()
        await w.until_answered(1, *ids)
        second = [heard.api_key for heard in broker.heard if heard.connection == 2]
        assert second == [6, 4, 5, 4]
        assert w.answered(1) == ids
        assert w.channels.stats.lost == 1


async def test_a_bounce_drops_what_was_decided_for_the_life_before():
    async with world() as w:
        (broker,) = w.brokers
        broker.answering.clear()
        w.connect()
        for _ in range(10):
            w.lead(1, topic())
        await broker.until_heard(1)
        broker.heard.clear()
        broker.epoch = 2
        broker.answering.set()
        w.connect()
        asked = w.update(topic(), full=True)
        await w.until_answered(1, asked)
        assert w.answered(1) == [asked]
        assert [heard.api_key for heard in broker.heard if heard.connection == 2] == [6]
        assert w.channels.stats.dropped == 10


async def test_a_request_to_a_broker_that_is_gone_is_dropped():
    async with world() as w:
        w.channels.send(ConnectBrokers(()))
        w.lead(1, topic())
        assert w.channels.stats.dropped == 1
        assert w.channels.queues() == ()


async def test_all_brokers_get_the_versions_that_all_know():
    """Apache has one inter.broker.protocol.version. Here the oldest of live brokers counts, also during a restart."""
    async with world(2) as w:
        w.brokers[1].ranges = {4: (0, 4), 5: (0, 3), 6: (0, 6), 18: (0, 3)}
        w.connect()
        await w.until(lambda: TopicIdsAgreed(False) in w.events)
        asked = (w.update(topic()), w.lead(1, topic()))
        await w.until_answered(1, *asked)
        await w.until_answered(2, asked[0])
        assert [heard.version for heard in w.brokers[0].heard] == [6, 4]
        assert [heard.version for heard in w.brokers[1].heard] == [6]
        assert w.channels.api_ranges()[2][4] == (0, 4)
        assert w.channels.is_connected(2)
        assert not w.channels.is_connected(77)
        w.channels.send(ConnectBrokers(w.live[:1]))
        asked = (w.update(topic(), to=(1,)), w.lead(1, topic()))
        await w.until_answered(1, *asked)
        assert [heard.version for heard in w.brokers[0].heard[2:]] == [8, 7]
        assert [event.used for event in w.events if isinstance(event, TopicIdsAgreed)] == [False, True]


async def test_topic_ids_are_agreed_upon_when_all_that_can_be_reached_have_told(monkeypatch):
    monkeypatch.setattr(channels_module, "GONE_AFTER_SECONDS", 0.05)
    async with world(2) as w:
        await w.brokers[1].stop()
        w.connect()
        await w.until(lambda: TopicIdsAgreed(True) in w.events)
        out_of_reach = [event for event in w.events if isinstance(event, ConnectionChanged)]
        assert [(event.broker, event.reachable) for event in out_of_reach] == [(2, False)]


async def test_a_configured_release_is_a_ceiling():
    async with world(inter_broker_protocol="2.8") as w:
        w.connect()
        asked = (w.update(topic()), w.lead(1, topic()))
        await w.until_answered(1, *asked)
        assert [heard.version for heard in w.brokers[0].heard] == [7, 5]


def configured(value):
    """A broker's answer about its configuration; None: the broker refuses it."""

    def answer(request, version):
        (asked,) = request.resources
        assert (asked.resource_type, asked.configuration_keys[0]) == (4, "inter.broker.protocol.version")
        assert request.include_synonyms, "a dynamic value is not what a broker was started with"
        shown = kio_describe_configs.DescribeConfigsResourceResult(
            name=asked.configuration_keys[0], value=value, read_only=True, is_sensitive=False, synonyms=()
        )
        synonyms = tuple(
            kio_describe_configs.DescribeConfigsSynonym(name="min.insync.replicas", value=told, source=i8(source))
            for told, source in (("3", 3), ("2", 4), ("1", 5))
        )
        dynamic = kio_describe_configs.DescribeConfigsResourceResult(
            name="min.insync.replicas", value="3", read_only=False, is_sensitive=False, synonyms=synonyms
        )
        refused = KioErrorCode.cluster_authorization_failed
        described = kio_describe_configs.DescribeConfigsResult(
            error_code=KioErrorCode.none if value else refused,
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=(shown, dynamic) if value else (),
        )
        return kio_describe_configs.DescribeConfigsResponse(throttle_time=timedelta(), results=(described,))

    return answer


@pytest.mark.parametrize(
    ("release", "versions"),
    [
        *(("2.8-IV1", [7, 5]), ("3.0", [7, 5]), ("3.4", [8, 7]), ("3.9-IV0", [8, 7]), (None, [8, 7]), ("9.9", [8, 7])),
        *(("2.2", [5, 2]), ("2.1", [5, 2]), ("0.10.0", [5, 2])),
    ],
)
async def test_a_brokers_own_release_is_a_ceiling(release, versions):
    """The broker's software may support newer versions, but in an upgrade the cluster may still go back."""
    async with world() as w:
        w.brokers[0].ranges[32] = (0, 4)
        w.brokers[0].relayed[32] = configured(release)
        w.connect()
        asked = (w.update(topic()), w.lead(1, topic()))
        await w.until_answered(1, *asked)
        assert [heard.version for heard in w.brokers[0].heard if heard.api_key != 32] == versions


async def test_a_broker_tells_the_defaults_that_it_was_started_with():
    """Dynamic configuration is read from ZooKeeper, and may change while the connection lasts."""
    async with world() as w:
        w.brokers[0].ranges[32] = (0, 4)
        w.brokers[0].relayed[32] = configured("3.9-IV0")
        w.connect()
        await w.until(lambda: bool(w.channels.defaults()))
        assert w.channels.defaults() == {1: {"min.insync.replicas": "2"}}


async def test_a_broker_that_does_not_tell_its_release_is_led_all_the_same(monkeypatch):
    monkeypatch.setattr(broker_release, "ANSWER_SECONDS", 0.05)
    async with world() as w:
        w.brokers[0].ranges[32] = (0, 4)
        w.brokers[0].answering.clear()
        w.connect()
        await w.brokers[0].until_heard(1)
        asked = w.update(topic())
        await w.brokers[0].until_heard(2)
        w.brokers[0].answering.set()
        await w.until_answered(1, asked)
        assert [heard.api_key for heard in w.brokers[0].heard] == [32, 6]


async def test_below_2_6_a_stop_of_two_kinds_takes_two_requests_and_is_answered_once():
    async with world(inter_broker_protocol="2.5") as w:
        w.connect()
        w.last_id = 1
        stops = (StopPartition(TopicPartition("t", 0), 3, True), StopPartition(TopicPartition("t", 1), 3, False))
        w.channels.send(SendStopReplica(1, 1, 5, 7, stops))
        await w.until_answered(1, 1)
        assert [heard.message.delete_partitions for heard in w.brokers[0].heard] == [True, False]
        assert w.answered(1) == [1]


async def test_a_slow_brokers_updates_are_merged_and_every_one_is_answered():
    async with world(backlog=8, in_flight=1) as w:
        (broker,) = w.brokers
        broker.answering.clear()
        w.connect()
        first = w.update(topic(partitions=1), full=True)
        await broker.until_heard(1)
        ids = [w.update(topic(epoch=n, first=n % 3)) for n in range(100)]
        leads = w.lead(1, topic())
        assert len(broker.heard) == 1
        queued = w.channels.queues()[0].queued
        assert queued <= 9 + 1
        broker.answering.set()
        await w.until_answered(1, first, *ids, leads)
        newest = {}
        for heard in broker.heard[1:-1]:
            for told in heard.message.topic_states[0].partition_states:
                newest[told.partition_index] = told.leader_epoch
        assert newest == {0: 99, 1: 97, 2: 98}
        assert len(broker.heard) == queued + 1


async def test_a_newer_full_update_takes_the_place_of_the_oldest_that_waits():
    async with world(in_flight=1) as w:
        (broker,) = w.brokers
        broker.answering.clear()
        w.connect()
        first = w.update(topic())
        await broker.until_heard(1)
        ids = [
            w.update(topic(epoch=1)),
            w.lead(1, topic()),
            w.update(topic(epoch=2)),
            w.update(topic(epoch=3), full=True),
        ]
        broker.answering.set()
        await w.until_answered(1, first, *ids)
        assert [heard.api_key for heard in broker.heard] == [6, 6, 4]
        assert broker.heard[1].message.topic_states[0].partition_states[0].leader_epoch == 3
        assert w.channels.stats.superseded == 2


async def test_a_slow_broker_holds_nobody_up():
    async with world(2) as w:
        w.brokers[0].answering.clear()
        w.brokers[0].reading.clear()
        w.connect()
        ids = [w.update(topic(partitions=200, epoch=n)) for n in range(50)]
        await w.until_answered(2, *ids)
        assert w.answered(1) == []
        slow, quick = w.channels.queues()
        assert slow.queued + slow.in_flight == 50
        assert slow.oldest_seconds > 0
        assert quick.queued + quick.in_flight == 0
        assert w.channels.resident() > 0
        w.brokers[0].reading.set()
        w.brokers[0].answering.set()
        await w.until_answered(1, *ids)
        assert w.channels.resident() == 0


async def test_a_broker_that_is_connected_tells_whether_it_looks_controllers_up():
    async with world() as w:
        w.connect()
        await w.until_answered(1, w.lead(1, topic()))
        assert w.events[:2] == [
            TopicIdsAgreed(True),
            BrokerIdentified(1, w.brokers[0].broker.epoch, looks_us_up=True),
        ]


async def test_errors_of_partitions_come_back_by_name():
    async with world() as w:
        (broker,) = w.brokers
        broker.relayed[4] = failing_leader_and_isr
        w.connect()
        asked = w.lead(1, topic(partitions=2))
        await w.until_answered(1, asked)
        (event,) = (event for event in w.events if isinstance(event, RequestAnswered))
        assert {tp: int(code) for tp, code in event.partition_errors.items()} == {TopicPartition("t", 1): 56}


def failing_leader_and_isr(request, version):
    from kio.schema.errors import ErrorCode
    from kio.schema.leader_and_isr.v7 import response as made

    failed = made.LeaderAndIsrPartitionError(partition_index=1, error_code=ErrorCode.kafka_storage_error)
    topics = (made.LeaderAndIsrTopicError(topic_id=request.topic_states[0].topic_id, partition_errors=(failed,)),)
    return made.LeaderAndIsrResponse(error_code=ErrorCode.none, topics=topics)


async def test_an_answer_out_of_turn_ends_the_connection_and_the_request_is_repeated(monkeypatch):
    import fake_broker

    async with world() as w:
        real = fake_broker.response_frame
        wrong = iter((1000,))
        monkeypatch.setattr(
            fake_broker,
            "response_frame",
            lambda key, version, correlation, body: real(
                key, version, correlation if key == 18 else next(wrong, correlation), body
            ),
        )
        w.connect()
        asked = w.lead(1, topic())
        await w.until_answered(1, asked)
        assert [heard.connection for heard in w.brokers[0].heard] == [1, 2]


async def test_one_body_serves_all_brokers_that_stopped_reading():
    async with world(40) as w:
        for broker in w.brokers:
            broker.keep_bodies = False
        for broker in w.brokers[:-1]:
            broker.reading.clear()
        w.connect()
        topics = tuple(topic(f"topic-{n}", 100, identity=n + 1) for n in range(1000))
        asked = w.update(*topics, full=True)
        await w.until_answered(40, asked)
        sizes = {stats.resident for stats in w.channels.queues()[:-1]}
        assert sizes == {w.channels.resident()}
        for broker in w.brokers:
            broker.reading.set()
        for broker in w.brokers:
            await w.until_answered(broker.id, asked)
        # Compared by the kilobyte: a broker that was connected to twice was asked for its versions twice.
        assert len({broker.bytes // 1000 for broker in w.brokers}) == 1


def slices_of(name):
    return [each for each in gc.get_objects() if type(each) is TopicSlice and each.name == name]


async def test_what_closed_channels_sent_is_freed_at_once():
    """In a cycle it would stay until the collector runs, which never examines objects frozen at the start of a term."""
    gc.disable()
    try:
        async with world() as w:
            w.connect()
            await w.until_answered(1, w.lead(1, topic("sent last")))
        del w
        for _ in range(3):
            await asyncio.sleep(0)
        assert slices_of("sent last") == []
    finally:
        gc.enable()


def stop(*, delete):
    return SendStopReplica(3, 1, 5, 9, (StopPartition(TopicPartition("t", 0), 4, delete),))


def backlog(*requests):
    made = Backlog(64, lambda bodies: bodies[-1])
    for request in requests:
        made.append(QueuedRequest(SimpleNamespace(request=request), (request.request_id,), 0.0))
    return made


@pytest.mark.parametrize(
    ("ahead", "request_", "may"),
    [
        ((LEAD,), stop(delete=True), False),
        ((LEAD, UPDATE), stop(delete=True), False),
        ((UPDATE,), stop(delete=True), True),
        ((), stop(delete=True), True),
        ((LEAD,), stop(delete=False), True),
        ((stop(delete=True),), LEAD, True),
    ],
)
def test_a_deletion_waits_for_the_answer_to_what_could_make_its_replica_anew(ahead, request_, may):
    """If both are sent again after a lost connection, the deleted replica would be made again (seed 90000561)."""
    queued = backlog(*ahead, request_)
    flying = [queued.take() for _ in ahead]
    assert queued.may_send(flying) is may


def test_nothing_may_be_sent_where_nothing_waits():
    assert not backlog().may_send(())
