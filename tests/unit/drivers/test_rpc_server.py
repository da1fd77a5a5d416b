"""The listener: frames, limits, order, versions; and kafka-python as an independent client."""

import asyncio
import logging
import struct

import pytest
from rpc_world import OUR_ID, partition, rpc_world, topic

from shunter.core.controller.events import (
    ProducerIdsRequested,
    ReassignmentsSubmitted,
    TopicDeletionsSubmitted,
    TopicsSubmitted,
)
from shunter.core.controller.ready import PartitionResultsReply, ProducerIdsReply, TopicResult, TopicResultsReply
from shunter.drivers.listener.server import Listener, RpcServer, parse_listener
from shunter.errors import DriverError, ErrorCode, SettingsError
from shunter.model.settings import WireLimits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://127.0.0.1:9092", Listener("PLAINTEXT", "127.0.0.1", 9092)),
        ("internal://:0", Listener("INTERNAL", "", 0)),
        ("PLAINTEXT://[::1]:7", Listener("PLAINTEXT", "::1", 7)),
    ],
)
def test_a_listener_is_read(text, expected):
    assert parse_listener(text) == expected


@pytest.mark.parametrize(
    "text", ["127.0.0.1:9092", "PLAINTEXT://h", "PLAINTEXT://h:70000", "://h:1", "PLAINTEXT://::1:7"]
)
def test_a_bad_listener_is_refused(text):
    with pytest.raises(SettingsError, match="NAME://host:port"):
        parse_listener(text)


async def test_an_address_in_use_is_named():
    async with rpc_world() as w:
        second = RpcServer(w.node)
        with pytest.raises(DriverError, match=f"127.0.0.1:{w.port} can't be opened"):
            await second.listen([Listener("PLAINTEXT", "127.0.0.1", w.port)])


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 1 << 30),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 0),
        struct.pack(">ihhih", 30, 3, 12, 1, -1) + b"\x00" + b"\xff" * 19,
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 3, 99, 1, -1),
        struct.pack(">ihhih", 10, 6, 8, 1, -1),
    ],
    ids=["negative", "oversized", "short", "empty", "garbage", "unknown api", "unknown version", "control request"],
)
async def test_what_is_no_request_closes_its_own_connection_and_says_why(sent, caplog):
    caplog.set_level(logging.WARNING)
    async with rpc_world() as w:
        other = await w.client()
        bad = await w.client()
        bad.writer.write(sent)
        assert await bad.closed()
        assert (await other.ask(3, 1, topics=())).controller_id == OUR_ID
        assert w.server.stats.closed == {"malformed": 1}
        (told,) = [record.message for record in caplog.records]
        assert "127.0.0.1:" in told
        assert "connection closed: " in told


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0():
    async with rpc_world() as w:
        client = await w.client()
        client.writer.write(struct.pack(">ihhih", 11, 18, 99, 7, -1) + b"\x00")
        correlation_id, message = await client.receive(18, 0)
        assert correlation_id == 7
        assert int(message.error_code) == 35
        assert [(one.api_key, one.max_version) for one in message.api_keys] == [(18, 4)]
        again = await client.ask(18, 3, client_software_name="test", client_software_version="1")
        assert int(again.error_code) == 0


async def test_api_versions_names_the_feature_and_what_all_live_brokers_take():
    async with rpc_world() as w:
        w.ranges = {1: {0: (3, 11), 22: (0, 5), 10: (0, 4)}, 2: {0: (0, 9), 10: (1, 6)}}
        message = await w.ask(18, 3, client_software_name="test", client_software_version="1")
        ranges = {one.api_key: (one.min_version, one.max_version) for one in message.api_keys}
        assert ranges[0] == (3, 9)
        assert ranges[10] == (1, 4)
        assert 22 not in ranges
        assert (ranges[45], ranges[46]) == ((0, 1), (0, 0))
        assert not {4, 5, 6, 58} & set(ranges)
        assert (ranges[17], ranges[36]) == ((0, 1), (0, 2)), "as Apache offers them everywhere"
        (feature,) = message.supported_features
        assert (feature.name, feature.min_version, feature.max_version) == ("shunter", 1, 1)


async def test_pipelined_requests_are_answered_in_order_though_the_first_takes_longest():
    async with rpc_world() as w:
        client = await w.client()
        slow = client.send(67, 0, broker_id=1, broker_epoch=1)
        quick = [client.send(3, 12, topics=()) for _ in range(5)]
        await w.core.until_asked(1)
        other = await w.client()
        await other.ask(3, 12, topics=())
        assert not client.reader._buffer
        (event,) = w.core.events
        assert isinstance(event, ProducerIdsRequested)
        w.core.callers.resolve(event.reply_to, ProducerIdsReply(ErrorCode.NONE, 1000, 1000))
        correlation_id, ids = await client.receive(67, 0)
        assert (correlation_id, ids.producer_id_start, ids.producer_id_len) == (slow, 1000, 1000)
        assert [(await client.receive(3, 12))[0] for _ in quick] == quick


async def test_more_requests_than_a_connection_may_have_wait_in_the_socket():
    async with rpc_world(WireLimits(requests_in_flight=2)) as w:
        client = await w.client()
        for _ in range(5):
            client.send(67, 0, broker_id=1, broker_epoch=1)
        other = await w.client()
        for _ in range(20):
            await other.ask(3, 12, topics=())
        assert len(w.core.events) == 2
        w.core.answers[ProducerIdsRequested] = lambda event: ProducerIdsReply(ErrorCode.NONE, 7, 1)
        for event in tuple(w.core.events):
            w.core.callers.resolve(event.reply_to, ProducerIdsReply(ErrorCode.NONE, 7, 1))
        for _ in range(5):
            await client.receive(67, 0)


async def test_a_caller_that_waits_too_long_and_one_at_our_resignation():
    async with rpc_world() as w:
        asked = [{"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}]
        late = await w.ask(19, 7, topics=asked, timeout=30)
        assert int(late.topics[0].error_code) == ErrorCode.REQUEST_TIMED_OUT
        client = await w.client()
        client.send(67, 0, broker_id=1, broker_epoch=1)
        await w.core.until_asked(2)
        w.core.callers.fail_all(ErrorCode.NOT_CONTROLLER, "resigned")
        _, message = await client.receive(67, 0)
        assert int(message.error_code) == ErrorCode.NOT_CONTROLLER
        assert len(w.core.callers) == 0


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
async def test_kafka_pythons_admin_client():
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic

    from shunter.drivers.admin.reassignments import AlterOptions, alter_moves
    from shunter.model.partition import TopicPartition as ShuntersPartition

    async with rpc_world() as w:
        w.add_topic(topic("t", 1, partition([1], 1), partition([1], 1)))
        w.core.answers[TopicsSubmitted] = lambda event: TopicResultsReply(
            ErrorCode.NONE,
            tuple(TopicResult(one.name, ErrorCode.NONE, None, one.topic_id, 3, 1) for one in event.topics),
        )
        w.core.answers[TopicDeletionsSubmitted] = lambda event: TopicResultsReply(
            ErrorCode.NONE, tuple(TopicResult(name, ErrorCode.NONE) for name in event.names)
        )
        w.core.answers[ReassignmentsSubmitted] = lambda event: PartitionResultsReply(
            ErrorCode.NONE, None, tuple((change.tp, ErrorCode.NONE, None) for change in event.changes)
        )

        def use():
            admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{w.port}")
            try:
                admin.create_topics([NewTopic("made", 3, 1)])
                cluster = admin.describe_cluster()
                listed = admin.list_topics()
                admin.alter_partition_reassignments({TopicPartition("t", 0): [2]})
                keeps = AlterOptions(changes_factor=False)
                asked = alter_moves(admin, {ShuntersPartition("t", 0): (2,)}, keeps, shunter=False)
                assert asked == {ShuntersPartition("t", 0): None}
                moves = admin.list_partition_reassignments()
                admin.delete_topics(["t"])
                return cluster, listed, moves
            finally:
                admin.close()

        cluster, listed, moves = await asyncio.to_thread(use)
        assert cluster["controller_id"] == OUR_ID
        assert {one["node_id"] if "node_id" in one else one["broker_id"] for one in cluster["brokers"]} == {OUR_ID}
        assert "t" in {one if isinstance(one, str) else one["name"] for one in listed}
        assert not moves
        kinds = [type(event) for event in w.core.events]
        assert kinds == [TopicsSubmitted, ReassignmentsSubmitted, ReassignmentsSubmitted, TopicDeletionsSubmitted]
        assert [event.changes[0].changes_factor for event in w.core.events[1:3]] == [True, False]
        assert w.core.events[0].topics[0].partition_count == 3


async def test_librdkafka_is_told_of_all_topics():
    """Its request for all topics has three bytes too many."""
    from confluent_kafka.admin import AdminClient

    async with rpc_world() as w:
        w.add_topic(topic("t", 1, partition([OUR_ID], OUR_ID)))
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{w.port}"})
        told = await asyncio.to_thread(admin.list_topics, timeout=10)
        assert (told.controller_id, set(told.topics)) == (OUR_ID, {"t"})
        assert w.server.stats.closed == {}
