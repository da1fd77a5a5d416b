"""The audit log: administrative requests over real sockets, and their log lines."""

from uuid import UUID

import orjson
import pytest
from fake_broker import FakeBroker
from kio.index import load_response_schema
from rpc_world import rpc_world

from shunter.core.controller.events import ReassignmentsSubmitted, TopicDeletionsSubmitted, TopicsSubmitted
from shunter.core.controller.ready import PartitionResultsReply, TopicResult, TopicResultsReply
from shunter.drivers.brokers.relay import PASSED_ON
from shunter.drivers.listener.handlers.audit import (
    ASKED_AT_MOST,
    REFUSED_AT_MOST,
    TEXT_AT_MOST,
    Audited,
    audit_line,
    is_audited,
    outcome,
)
from shunter.drivers.listener.handlers.dispatch import HANDLERS
from shunter.drivers.listener.handlers.messages import filled
from shunter.errors import ErrorCode
from shunter.formats.log_lines import encode_line
from shunter.model.partition import TopicPartition
from shunter.wire.alter_partition import ALTER_PARTITION
from shunter.wire.framing import request_frame_head
from shunter.wire.reassignments import (
    AlteredPartition,
    AlteredTopic,
    AlterReassignmentsRequest,
    encode_alter_request,
)
from shunter.wire.requests import ALLOCATE_PRODUCER_IDS, CONTROLLED_SHUTDOWN


def line(w):
    """The only audited line, as in the file; and its outcome in the metric."""
    ((call, answer, failure, seconds),) = w.audited
    assert seconds >= 0
    told = orjson.loads(encode_line(audit_line(Audited(1_000, call, answer, failure, 3))))
    assert (told["address"], told["client_id"], told["principal"]) == ("127.0.0.1", "test", "User:ANONYMOUS")
    return told, outcome(answer, failure)


def topic_of(name):
    return {"name": name, "num_partitions": 3, "replication_factor": 2, "assignments": (), "configs": ()}


async def test_a_request_that_is_served_in_part():
    async with rpc_world() as w:
        w.core.answers[TopicsSubmitted] = lambda event: TopicResultsReply(
            ErrorCode.NONE,
            (
                TopicResult("a", ErrorCode.NONE, topic_id=UUID(int=1)),
                TopicResult("b", ErrorCode.TOPIC_ALREADY_EXISTS, "it is there"),
            ),
        )
        with_secret = {**topic_of("b"), "configs": [{"name": "retention.ms", "value": "hidden-5"}]}
        await w.ask(19, 7, topics=[topic_of("a"), with_secret], timeout=1000, validate_only=True)
        told, counted = line(w)
    assert counted == "TOPIC_ALREADY_EXISTS"
    assert (told["api"], told["version"], told["took_ms"], told["validate_only"]) == ("CreateTopics", 7, 3, True)
    assert told["asked"] == [
        {"topic": "a", "partitions": 3, "replication_factor": 2},
        {"topic": "b", "partitions": 3, "replication_factor": 2, "configs": ["retention.ms"]},
    ]
    assert told["outcome"] == {"NONE": 1, "TOPIC_ALREADY_EXISTS": 1}
    assert told["refused"] == [{"topic": "b", "error": "TOPIC_ALREADY_EXISTS", "message": "it is there"}]
    assert "hidden-5" not in orjson.dumps(told).decode()


async def reassign(w, topics):
    client = await w.client()
    body = encode_alter_request(AlterReassignmentsRequest(topics))
    client.writer.write(request_frame_head(45, 0, 5, "test", len(body)) + body)
    return await client.receive_frame()


async def test_a_reassignment_of_many_partitions_is_bounded_and_counted():
    count = ASKED_AT_MOST + 50
    async with rpc_world() as w:
        w.core.answers[ReassignmentsSubmitted] = lambda event: PartitionResultsReply(
            ErrorCode.NONE,
            None,
            tuple((each.tp, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no " * 500) for each in event.changes),
        )
        partitions = tuple(AlteredPartition(number, (1, 2)) for number in range(count))
        await reassign(w, (AlteredTopic("orders", partitions), AlteredTopic("others", None)))
        told, counted = line(w)
    assert counted == "INVALID_REPLICA_ASSIGNMENT"
    assert told["asked"][7] == {"topic": "orders", "partition": 7, "replicas": [1, 2]}
    assert (len(told["asked"]), told["asked_count"]) == (ASKED_AT_MOST, count + 1)
    assert told["outcome"] == {"INVALID_REPLICA_ASSIGNMENT": count}
    assert len(told["refused"]) == REFUSED_AT_MOST
    assert told["refused"][3]["topic"] == "orders"
    assert told["refused"][3]["partition"] == 3
    assert len(told["refused"][3]["message"]) == TEXT_AT_MOST


async def test_one_that_succeeds_and_one_that_cancels_everything():
    async with rpc_world() as w:
        tp = TopicPartition("orders", 7)
        w.core.answers[ReassignmentsSubmitted] = lambda event: PartitionResultsReply(
            ErrorCode.NONE, None, ((tp, ErrorCode.NONE, None),)
        )
        await reassign(w, (AlteredTopic("orders", (AlteredPartition(7, (2, 3)),)),))
        told, counted = line(w)
        assert counted == "NONE"
        assert told["outcome"] == {"NONE": 1}
        assert "refused" not in told
        w.audited.clear()
        await reassign(w, None)
        told, _ = line(w)
        assert told["asked"] == [{"all": True, "replicas": None}]


async def test_a_standby_refuses_and_says_so():
    async with rpc_world() as w:
        w.state.active = False
        await reassign(w, (AlteredTopic("orders", (AlteredPartition(7, (2, 3)),)),))
        told, counted = line(w)
    assert counted == "NOT_CONTROLLER"
    assert told["outcome"] == {"NOT_CONTROLLER": 1}


async def test_deletions_by_name_and_by_id():
    async with rpc_world() as w:
        w.core.answers[TopicDeletionsSubmitted] = lambda event: TopicResultsReply(ErrorCode.NONE, ())
        await w.ask(20, 5, topic_names=["a"], timeout=1000)
        assert line(w)[0]["asked"] == [{"topic": "a"}]
        w.audited.clear()
        w.state.active = False
        await w.ask(20, 6, topics=[{"name": None, "topic_id": UUID(int=1)}], timeout=1000)
        told, counted = line(w)
        assert told["asked"] == [{"topic_id": str(UUID(int=1))}]
        assert counted == "NOT_CONTROLLER"
        assert told["refused"][0]["topic_id"] == str(UUID(int=1))


async def test_what_a_broker_answers_has_the_brokers_outcome_and_no_secrets():
    async with rpc_world() as w:
        broker = await FakeBroker(1).start()
        w.fakes.append(broker)
        broker.relayed[44] = lambda request, version: filled(
            load_response_schema(44, version),
            {
                "responses": [
                    {"error_code": 40, "error_message": "no", "resource_type": 2, "resource_name": "orders"},
                ]
            },
        )
        resource = {
            "resource_type": 2,
            "resource_name": "orders",
            "configs": [{"name": "retention.ms", "config_operation": 0, "value": "hidden-5"}],
        }
        await w.ask(44, 1, resources=[resource], validate_only=False)
        told, counted = line(w)
    assert counted == "PASSED_ON"
    assert told["by_a_broker"]
    assert told["outcome"] == {"INVALID_CONFIG": 1}
    assert told["asked"] == [{"resource_type": 2, "resource": "orders", "configs": ["retention.ms"]}]
    assert "hidden-5" not in orjson.dumps(told).decode()


async def test_credentials_are_told_without_salt_and_password():
    async with rpc_world() as w:
        upsertion = {
            "name": "ann",
            "mechanism": 1,
            "iterations": 4096,
            "salt": b"hidden-s",
            "salted_password": b"hidden-p",
        }
        await w.ask(51, 0, deletions=[{"name": "bob", "mechanism": 2}], upsertions=[upsertion])
        told, counted = line(w)
    assert counted == "NOT_CONTROLLER"
    assert told["asked"] == [
        {"user": "ann", "mechanism": 1, "iterations": 4096},
        {"user": "bob", "mechanism": 2, "deleted": True},
    ]
    assert told["outcome"] == {"NOT_CONTROLLER": 2}
    assert "hidden" not in orjson.dumps(told).decode()


async def test_a_request_that_nobody_answers():
    async with rpc_world() as w:
        client = await w.client()
        client.send(42, 0, groups_names=["g"])
        assert await client.closed()
        told, counted = line(w)
    assert counted == "NOT_ANSWERED"
    assert "no live broker" in told["not_answered"]


def test_what_is_audited():
    assert {key for key in HANDLERS if is_audited(key)} == {19, 20, 33, 34, 37, 43, 44, 45, 51, 57}
    assert {key for key in PASSED_ON if is_audited(key)} == {21, 30, 31, 33, 38, 39, 40, 42, 44, 47, 49}
    assert not any(map(is_audited, (ALTER_PARTITION, ALLOCATE_PRODUCER_IDS, CONTROLLED_SHUTDOWN, 3, 18, 32, 46)))


@pytest.mark.parametrize("version", [0, 1])
async def test_features_and_elections(version):
    async with rpc_world() as w:
        update = {"feature": "f", "max_version_level": 3, "allow_downgrade": False}
        await w.ask(57, version, timeout=1000, feature_updates=[update])
        told, counted = line(w)
        assert counted == "NOT_CONTROLLER"
        assert told["asked"] == [{"feature": "f", "max_version_level": 3}]
        w.audited.clear()
        w.state.active = False
        asked = [{"topic": "t", "partitions": [0, 1]}]
        await w.ask(43, version, election_type=0, topic_partitions=asked, timeout=1000)
        assert line(w)[0]["asked"] == [
            {"topic": "t", "partition": number, "election": "preferred"} for number in (0, 1)
        ]
