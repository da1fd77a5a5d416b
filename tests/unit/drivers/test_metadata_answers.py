"""Metadata for many clients at once: one pass over the cluster, in turns, and no answer older than its request."""

from __future__ import annotations

import asyncio
import struct

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as RdTopic
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PythonTopic
from kafka.errors import UnknownBrokerIdError
from rpc_world import OUR_ID, partition, rpc_world, topic

from shunter.drivers.listener.metadata_answers import MetadataAnswers
from shunter.model.partition import PartitionState, ReplicaAssignment, TopicPartition
from shunter.wire.metadata import Audience


async def test_a_thousand_clients_that_ask_for_everything_cost_one_look_at_the_cluster():
    async with rpc_world() as w:
        w.add_broker(1)
        w.add_broker(2)
        w.add_topic(topic("t", 1, partition([1, 2, 3], 1)))
        moment = [0]
        answers = MetadataAnswers(lambda: moment[0])
        audience = Audience(12, "PLAINTEXT")
        for number in range(3_000):
            w.add_topic(topic(f"many-{number}", 10 + number, partition([1, 2, 3], 1)))
        first, *rest = await asyncio.gather(*(answers.everything(w.state, audience) for _ in range(1_000)))
        assert all(one is first for one in rest)
        assert answers.builds == 1
        assert first.served == 3_001
        w.state.topics["t"].partitions[0] = partition([1, 2, 3], 2)
        assert await answers.everything(w.state, audience) is first
        moment[0] += 1
        second = await answers.everything(w.state, audience)
        shared = {id(piece) for piece in first.pieces} & {id(piece) for piece in second.pieces}
        assert (answers.builds, len(shared)) == (2, 3_000)


async def test_who_asks_while_the_cluster_changes_is_told_of_the_change():
    async with rpc_world() as w:
        w.add_broker(1)
        w.add_broker(2)
        w.add_topic(topic("t", 1, partition([1, 2, 3], 1)))
        moment = [0]
        answers = MetadataAnswers(lambda: moment[0])
        audience = Audience(12, "PLAINTEXT")
        for number in range(20_000):
            w.add_topic(topic(f"many-{number}", 10 + number, partition([1, 2, 3], 1)))
        early = asyncio.create_task(answers.everything(w.state, audience))
        await asyncio.sleep(0)
        assert not early.done()
        w.state.topics["t"].partitions[0] = partition([2, 3], 2, epoch=77)
        moment[0] += 1
        late = asyncio.create_task(answers.everything(w.state, audience))
        given_up = asyncio.create_task(answers.everything(w.state, audience))
        await asyncio.sleep(0)
        early.cancel()
        given_up.cancel()
        told = b"".join((await late).pieces)
        assert struct.pack(">iii", 0, 2, 77) in told


async def test_a_topic_that_no_broker_has_heard_of_is_not_told_of():
    """All its replicas are dead, so it never had a leader. Tools list topics at one node, and describe at another."""
    async with rpc_world() as w:
        w.add_broker(1)
        w.add_topic(topic("led", 1, partition([1, 2, 3], 1)))
        w.add_topic(topic("unled", 2, PartitionState(ReplicaAssignment((9,)), None)))
        answers = MetadataAnswers(lambda: 0)
        audience = Audience(12, "PLAINTEXT")
        assert (await answers.everything(w.state, audience)).served == 1
        assert (await answers.some(w.state, audience, ["led", "unled"])).keys() == {"led"}


async def test_a_partition_that_no_broker_has_heard_of_is_not_told_of():
    """Clients ask now a broker, now the controller: the number of partitions must be the same."""
    never_led = PartitionState(ReplicaAssignment((9,)), None)
    audience = Audience(12, "PLAINTEXT")
    async with rpc_world() as w:
        w.add_broker(1)
        w.add_topic(topic("t", 1, partition([1, 2, 3], 1), never_led, partition([1, 2, 3], 2)))
        w.add_topic(topic("led", 2, partition([1, 2, 3], 1), partition([1, 2, 3], 2)))

        async def told_of(name):
            answers = MetadataAnswers(lambda: 0)
            (whole,) = (await answers.some(w.state, audience, [name])).values()
            alone = await answers.everything(w.state, audience)
            assert whole in b"".join(alone.pieces)
            return whole

        short, full = await told_of("t"), await told_of("led")
        assert len(short) - len("t") == len(full) - len("led")
        # A state that can't be read may be one that brokers know: without it the partition count would flip, too.
        w.state.unreadable.add(TopicPartition("t", 1))
        assert len(await told_of("t")) > len(short)
        w.state.unreadable.add(TopicPartition("unread", 0))
        w.add_topic(topic("unread", 3, never_led))
        assert struct.pack(">h", 5) in await told_of("unread")


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
async def test_clients_find_the_controller_only_among_the_brokers():
    """So the controller has to be in Metadata (0025). Apache's TopicCommand, tried by hand, would wait for a minute."""
    async with rpc_world() as w:
        w.add_broker(1, port=w.port)
        w.state.brokers[1] = w.state.brokers.pop(OUR_ID)._replace(id=1)
        at = f"127.0.0.1:{w.port}"

        def by_kafka_python():
            admin = KafkaAdminClient(bootstrap_servers=at)
            try:
                admin.create_topics([PythonTopic("t", 1, 1)])
            finally:
                admin.close()

        def by_librdkafka():
            admin = AdminClient({"bootstrap.servers": at})
            admin.create_topics([RdTopic("t", 1, 1)], request_timeout=1, operation_timeout=1)["t"].result(10)

        with pytest.raises(UnknownBrokerIdError):
            await asyncio.to_thread(by_kafka_python)
        with pytest.raises(KafkaException, match="waiting for controller"):
            await asyncio.to_thread(by_librdkafka)
        assert w.core.events == []
