"""The answers of each family of APIs, in the client's version."""

from contextlib import asynccontextmanager
from types import SimpleNamespace
from uuid import UUID

import pytest
from fake_broker import encoded
from kio.index import load_response_schema
from rpc_world import OUR_ID, partition, rpc_world, topic

from lab.simulation.runs import run_seed
from shunter.core.controller.events import (
    AlterPartitionReceived,
    ControlledShutdownRequested,
    ElectionRequested,
    PartitionsSubmitted,
    ProducerIdsRequested,
    ReassignmentChange,
    ReassignmentsSubmitted,
    TopicDeletionsSubmitted,
    TopicsSubmitted,
)
from shunter.core.controller.ready import (
    AlterPartitionReply,
    ControlledShutdownReply,
    PartitionResultsReply,
    ProducerIdsReply,
    RefusedReply,
    TopicResult,
    TopicResultsReply,
)
from shunter.core.topic_configs import UNKNOWN_RELEASES, ConfigSource, EffectiveConfig, Releases
from shunter.drivers.listener.handlers import brokers
from shunter.drivers.listener.handlers.messages import filled
from shunter.drivers.listener.handlers.reassignments import whole_move
from shunter.drivers.listener.handlers.topics import LISTED_AT_MOST, releases_of
from shunter.errors import ErrorCode
from shunter.model.broker import CONTROLLERS_LOG_DIR
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Reassignment, Strategy
from shunter.model.snapshot import LeftOut
from shunter.wire.framing import read_response_head, request_frame_head
from shunter.wire.primitives import Cursor
from shunter.wire.reassignments import (
    AlteredPartition,
    AlteredTopic,
    AlterReassignmentsRequest,
    ListReassignmentsRequest,
    PartitionResult,
    TopicResults,
    decode_alter_response,
    decode_list_response,
    encode_alter_request,
    encode_list_request,
)

UNKNOWN = UUID(int=77)


def by_name(items):
    return {item.name: item for item in items}


async def cluster(w):
    for number in (1, 2, 3):
        w.add_broker(number, port=9000 + 10 * number, rack=f"rack-{number}")
    w.add_topic(topic("t", 1, partition([1, 2, 3], 1, [1, 2]), partition([2, 3, 4], 2)))
    w.add_topic(topic("__consumer_offsets", 2, partition([4, 1], 4)))
    w.add_topic(topic("going", 3, partition([1], 1)))
    w.state.deleting.add("going")
    w.state.offline_replicas[TopicPartition("t", 0)] = frozenset({3})


@asynccontextmanager
async def rpc_cluster():
    async with rpc_world() as w:
        await cluster(w)
        yield w


@pytest.mark.parametrize("version", range(13))
async def test_metadata_of_everything(version):
    async with rpc_cluster() as w:
        message = await w.ask(3, version, topics=() if version == 0 else None)
        assert [(one.node_id, one.host, one.port) for one in message.brokers] == [
            (1, "host-1", 9010),
            (2, "host-2", 9020),
            (3, "host-3", 9030),
            (OUR_ID, "127.0.0.1", w.port),
        ]
        topics = by_name(message.topics)
        assert set(topics) == {"t", "__consumer_offsets"}
        first, second = topics["t"].partitions
        assert (first.leader_id, first.isr_nodes) == (1, (1, 2))
        assert int(first.error_code) == 0
        assert second.replica_nodes == ((2, 3) if version == 0 else (2, 3, 4))
        assert int(second.error_code) == (9 if version == 0 else 0)
        (dead,) = topics["__consumer_offsets"].partitions
        assert (int(dead.error_code), dead.leader_id) == (5, -1)
        if version >= 1:
            assert message.controller_id == OUR_ID
            assert topics["__consumer_offsets"].is_internal
            assert not topics["t"].is_internal
            assert message.brokers[0].rack == "rack-1"
        if version >= 5:
            assert (first.offline_replicas, second.offline_replicas) == ((3,), (4,))
        if version >= 7:
            assert first.leader_epoch == 3
        if version >= 10:
            assert topics["t"].topic_id == UUID(int=1)


async def test_metadata_advertises_the_listener_on_which_the_client_came():
    async with rpc_cluster() as w:
        message = await w.ask(3, 12, listener=1, topics=())
        assert [one.host for one in message.brokers] == ["internal-1", "internal-2", "internal-3", "127.0.0.1"]
        assert message.brokers[-1].port == w.listeners[1].port


async def test_a_leader_that_is_not_on_the_clients_listener():
    async with rpc_cluster() as w:
        w.state.brokers[1] = w.state.brokers[1]._replace(endpoints=w.state.brokers[1].endpoints[1:])
        first = (await w.ask(3, 12, topics=[{"name": "t"}])).topics[0].partitions[0]
        assert (int(first.error_code), first.leader_id) == (72, -1)
        first = (await w.ask(3, 5, topics=[{"name": "t"}], allow_auto_topic_creation=False)).topics[0].partitions[0]
        assert int(first.error_code) == 5


async def test_metadata_by_name_and_by_id():
    async with rpc_cluster() as w:
        asked = [{"name": name, "topic_id": None} for name in ("t", "nothing", "a/b", "going")]
        message = await w.ask(3, 12, topics=asked, allow_auto_topic_creation=False)
        assert {one.name: int(one.error_code) for one in message.topics} == {
            "t": 0,
            "nothing": 3,
            "a/b": 17,
            "going": 3,
        }
        asked = [{"name": None, "topic_id": UUID(int=1)}, {"name": None, "topic_id": UNKNOWN}]
        message = await w.ask(3, 12, topics=asked, allow_auto_topic_creation=False)
        assert [(one.name, one.topic_id, int(one.error_code)) for one in message.topics] == [
            ("t", UUID(int=1), 0),
            (None, UNKNOWN, 100),
        ]


async def test_a_request_that_has_an_id_asks_by_ids_alone():
    """Java's client describes topics by id like this, with an empty name beside each id."""
    async with rpc_cluster() as w:
        asked = [{"name": "", "topic_id": id_} for id_ in (UUID(int=1), UNKNOWN)] + [{"name": "t", "topic_id": None}]
        message = await w.ask(3, 12, topics=asked, allow_auto_topic_creation=True)
        assert [(one.name, one.topic_id, int(one.error_code)) for one in message.topics] == [
            ("t", UUID(int=1), 0),
            (None, UNKNOWN, 100),
        ]


async def test_metadata_of_a_standby_names_no_controller():
    async with rpc_world() as w:
        w.state.active = False
        w.state.brokers.clear()
        message = await w.ask(3, 12, topics=())
        assert (message.controller_id, message.brokers) == (-1, ())


@pytest.mark.parametrize("version", [8, 9, 10, 12])
async def test_authorized_operations_only_when_asked_for(version):
    async with rpc_cluster() as w:
        silent = await w.ask(3, version, topics=[{"name": "t"}], allow_auto_topic_creation=False)
        assert silent.topics[0].topic_authorized_operations == -(2**31)
        asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
        told = await w.ask(3, version, topics=[{"name": "t"}], allow_auto_topic_creation=False, **asked)
        assert told.topics[0].topic_authorized_operations == 3576
        if version <= 10:
            assert told.cluster_authorized_operations == 8096


@pytest.mark.parametrize("version", [0, 1])
async def test_describe_cluster(version):
    async with rpc_cluster() as w:
        message = await w.ask(60, version, endpoint_type=1)
        assert (message.cluster_id, message.controller_id, int(message.error_code)) == ("cluster", OUR_ID, 0)
        assert [(one.broker_id, one.port) for one in message.brokers][:2] == [(1, 9010), (2, 9020)]
    if version == 1:
        async with rpc_world() as w:
            assert int((await w.ask(60, 1, endpoint_type=2)).error_code) == 115


def move(original, target, phase=Phase.MOVING):
    return Reassignment(None, original, target, Strategy.INCREMENTAL, phase, ReplicaAssignment(original), 0)


@pytest.mark.parametrize(
    ("assignment", "reassignment", "expected"),
    [
        (
            ReplicaAssignment((0, 1, 2)),
            move((0, 1, 2), (3, 4, 5), Phase.PENDING),
            ((3, 4, 5, 0, 1, 2), (3, 4, 5), (0, 1, 2)),
        ),
        (
            ReplicaAssignment((0, 1, 2, 3), (3,)),
            move((0, 1, 2), (3, 4, 5)),
            ((3, 4, 5, 0, 1, 2), (3, 4, 5), (0, 1, 2)),
        ),
        (ReplicaAssignment((0, 2, 3)), move((0, 1, 2), (3, 4, 5)), ((3, 4, 5, 0, 2), (4, 5), (0, 2))),
        (ReplicaAssignment((0, 2, 3, 4), (4,), (0,)), move((0, 1, 2), (3, 4, 5)), ((3, 4, 5, 0, 2), (4, 5), (0, 2))),
        (ReplicaAssignment((0, 2, 3)), move((0, 1, 2), (3, 4, 5), Phase.ROLLING_BACK), ((0, 1, 2, 3), (1,), (3,))),
        # A dead original was dropped, and its successor is not in sync: one of two replicas is lacking.
        (ReplicaAssignment((4, 2), (4,)), move((1, 2), (4, 2)), ((4, 2, 1), (4,), (1,))),
        (ReplicaAssignment((2, 1), (1,)), move((1, 2), (4, 2), Phase.ROLLING_BACK), ((1, 2, 4), (1,), (4,))),
        (ReplicaAssignment((2, 1), (1,)), move((1, 2), (2,), Phase.ROLLING_BACK), ((1, 2), (1,), ())),
        # There is another target now, and the replica that the old target was adding is still assigned.
        (ReplicaAssignment((0, 1, 2, 3), (3,)), move((0, 1, 2), (0, 1, 4)), ((0, 1, 4, 2, 3), (4, 3), (2, 3))),
    ],
)
def test_a_listed_move_is_told_towards_its_end(assignment, reassignment, expected):
    assert whole_move(assignment, reassignment) == expected
    replicas, adding, removing = expected
    # The values that Apache's tools compute: the replication factor, the target, and the original replicas.
    meant = min(len(reassignment.original), len(reassignment.target))
    assert len(replicas) - len(adding) == max(len(assignment.replicas) - len(assignment.adding), meant)
    assert {*adding, *removing} <= set(replicas)
    assert len(set(replicas)) == len(replicas)
    end = reassignment.original if reassignment.phase is Phase.ROLLING_BACK else reassignment.target
    assert tuple(broker for broker in replicas if broker not in removing) == end


async def test_a_reassignment_that_is_not_taken_in_time_is_answered_so():
    """KIP-455: 'REQUEST_TIMED_OUT: if the request timed out.'; 'The time in ms to wait for the request to complete.'"""
    async with rpc_cluster() as w:
        moved = (AlteredTopic("t", (AlteredPartition(0, (1, 2)),)),)
        answer = decode_alter_response(await raw(w, 45, encode_alter_request(AlterReassignmentsRequest(moved, 30))))
        assert answer.error is ErrorCode.REQUEST_TIMED_OUT
        assert "30 ms" in answer.message
        assert answer.topics == (TopicResults("t", (PartitionResult(0, answer.error, answer.message),)),)


async def test_a_node_that_is_not_the_controller_answers_both_requests_so():
    """KIP-455: 'NOT_CONTROLLER: if the node we sent the request to was not the controller.'; 'If the top-level error code
    is set, no responses will be provided.'
    """
    async with rpc_cluster() as w:
        w.state.reassignments[TopicPartition("t", 0)] = move((1, 2, 3), (1, 2, 5))
        w.state.active = False
        moved = (AlteredTopic("t", (AlteredPartition(0, (1, 2)),)),)
        altered = decode_alter_response(await raw(w, 45, encode_alter_request(AlterReassignmentsRequest(moved))))
        listed = decode_list_response(await raw(w, 46, encode_list_request(ListReassignmentsRequest(None))))
        assert (altered.error, altered.topics) == (ErrorCode.NOT_CONTROLLER, ())
        assert (listed.error, listed.topics) == (ErrorCode.NOT_CONTROLLER, ())


async def raw(w, api_key, body):
    client = await w.client()
    client.writer.write(request_frame_head(api_key, 0, 5, "test", len(body)) + body)
    payload = await client.receive_frame()
    correlation_id, offset = read_response_head(payload, 1)
    assert correlation_id == 5
    return Cursor(payload, place="test", offset=offset)


async def test_listing_reassignments_of_all_of_some_and_of_nothing():
    async with rpc_cluster() as w:
        for number in (0, 1):
            w.state.reassignments[TopicPartition("t", number)] = move((1, 2, 3), (1, 2, 5))
        listed = decode_list_response(await raw(w, 46, encode_list_request(ListReassignmentsRequest(None))))
        assert [(one.name, [p.partition for p in one.partitions]) for one in listed.topics] == [("t", [0, 1])]
        assert listed.topics[0].partitions[0][1:4] == ((1, 2, 5, 3), (5,), (3,))
        some = ListReassignmentsRequest((("t", (1, 8)), ("nothing", (0,))))
        listed = decode_list_response(await raw(w, 46, encode_list_request(some)))
        assert [(one.name, [p.partition for p in one.partitions]) for one in listed.topics] == [("t", [1])]
        w.state.active = False
        refused = decode_list_response(await raw(w, 46, encode_list_request(ListReassignmentsRequest(None))))
        assert refused.error == ErrorCode.NOT_CONTROLLER


async def test_a_move_whose_deletions_alone_are_outstanding_is_not_listed():
    async with rpc_cluster() as w:
        w.state.reassignments[TopicPartition("t", 0)] = move((1, 2, 3), (1, 2, 5), Phase.DROPPING)
        w.state.reassignments[TopicPartition("t", 1)] = move((1, 2, 3), (1, 2, 5))
        for asked in (None, (("t", (0, 1)),)):
            listed = decode_list_response(await raw(w, 46, encode_list_request(ListReassignmentsRequest(asked))))
            assert [(one.name, [p.partition for p in one.partitions]) for one in listed.topics] == [("t", [1])]


async def test_listing_five_thousand_moves_takes_no_seconds():
    async with rpc_world() as w:
        for number in range(500):
            w.add_topic(topic(f"topic-{number}", number + 1, *[partition([1, 2, 3], 1)] * 10))
            for one in range(10):
                w.state.reassignments[TopicPartition(f"topic-{number}", one)] = move((1, 2, 3), (4, 5, 6))
        took = []
        for _ in range(3):
            before = w.server.stats.handling_seconds.get(46, 0.0)
            listed = decode_list_response(await raw(w, 46, encode_list_request(ListReassignmentsRequest(None))))
            took.append(w.server.stats.handling_seconds[46] - before)
            assert sum(len(one.partitions) for one in listed.topics) == 5000
        assert min(took) < 2.0


async def test_reassignments_reach_the_core_with_the_choices_of_the_request_and_of_each_partition():
    async with rpc_world() as w:
        w.core.answers[ReassignmentsSubmitted] = lambda event: PartitionResultsReply(
            ErrorCode.NONE,
            None,
            tuple((one.tp, ErrorCode.NONE, None) for one in event.changes[:1])
            + tuple((one.tp, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 8 is unknown") for one in event.changes[1:]),
        )
        request = AlterReassignmentsRequest(
            (
                AlteredTopic(
                    "t", (AlteredPartition(0, (1, 2)), AlteredPartition(1, None, None, Intervention.ROLL_BACK))
                ),
                AlteredTopic("u", None),
            ),
            5000,
            Strategy.ALL_AT_ONCE,
        )
        answer = decode_alter_response(await raw(w, 45, encode_alter_request(request)))
        (event,) = w.core.events
        assert event.changes == (
            ReassignmentChange(TopicPartition("t", 0), (1, 2), Strategy.ALL_AT_ONCE, None, False),
            ReassignmentChange(TopicPartition("t", 1), None, Strategy.ALL_AT_ONCE, Intervention.ROLL_BACK, False),
        )
        assert (event.cancel_topics, event.cancel_all, event.intervention) == (("u",), False, Intervention.STOP)
        assert [(one.partition, int(one.error), one.message) for one in answer.topics[0].partitions] == [
            (0, 0, None),
            (1, 39, "broker 8 is unknown"),
        ]


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
async def test_a_reassignment_without_a_usable_timeout_is_answered_when_it_is_done(timeout_ms):
    async with rpc_world() as w:
        w.core.answers[ReassignmentsSubmitted] = lambda event: PartitionResultsReply(
            ErrorCode.NONE, None, tuple((one.tp, ErrorCode.NONE, None) for one in event.changes)
        )
        asked = (AlteredTopic("u", (AlteredPartition(1, (1,)), AlteredPartition(0, (1,)))), AlteredTopic("t", ()))
        answer = decode_alter_response(
            await raw(w, 45, encode_alter_request(AlterReassignmentsRequest(asked, timeout_ms)))
        )
        assert (answer.error, [(one.name, [p.partition for p in one.partitions]) for one in answer.topics]) == (
            0,
            [("u", [0, 1])],
        )


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("asked", [{"name": None, "topic_id": UUID(int=77)}, {"name": "t", "topic_id": UUID(int=1)}])
async def test_topics_are_not_asked_for_by_id_in_versions_that_can_not_answer(version, asked):
    async with rpc_world() as w:
        w.add_topic(topic("t", 1, partition([1], 1)))
        client = await w.client()
        answer = await client.ask(3, version, topics=[asked])
        assert [(one.name, int(one.error_code)) for one in answer.topics] == [(asked["name"] or "", 42)]


async def test_null_topics_cancel_everything_and_a_standby_refuses():
    async with rpc_world() as w:
        w.core.answers[ReassignmentsSubmitted] = lambda _: PartitionResultsReply(ErrorCode.NONE)
        body = encode_alter_request(AlterReassignmentsRequest(None, 5000, None, Intervention.ROLL_BACK))
        answer = decode_alter_response(await raw(w, 45, body))
        assert answer.error == 0
        assert (w.core.events[0].cancel_all, w.core.events[0].intervention) == (True, Intervention.ROLL_BACK)
        w.state.active = False
        answer = decode_alter_response(await raw(w, 45, body))
        assert answer.error == ErrorCode.NOT_CONTROLLER
        assert "node 9 is not the controller" in answer.message


@pytest.mark.parametrize("version", [1, 2])
async def test_an_election_of_an_unknown_type_is_refused_as_by_apache(version):
    async with rpc_world() as w:
        asked = [{"topic": "t", "partitions": [0]}]
        message = await w.ask(43, version, election_type=7, topic_partitions=asked, timeout=1000)
        assert int(message.error_code) == ErrorCode.UNKNOWN_SERVER_ERROR
        (result,) = message.replica_election_results
        assert [int(one.error_code) for one in result.partition_result] == [ErrorCode.UNKNOWN_SERVER_ERROR]
        message = await w.ask(43, version, election_type=7, topic_partitions=None, timeout=1000)
        assert int(message.error_code) == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_elections(version):
    async with rpc_world() as w:
        w.core.answers[ElectionRequested] = lambda event: PartitionResultsReply(
            ErrorCode.NONE,
            None,
            tuple((tp, ErrorCode.ELECTION_NOT_NEEDED, "it leads") for tp in event.partitions or ()),
        )
        asked = [{"topic": "t", "partitions": [0, 1]}]
        message = await w.ask(43, version, election_type=1, topic_partitions=asked, timeout=1000)
        (event,) = w.core.events
        assert event.partitions == (TopicPartition("t", 0), TopicPartition("t", 1))
        assert event.unclean == (version >= 1)
        (result,) = message.replica_election_results
        assert [(one.partition_id, int(one.error_code)) for one in result.partition_result] == [(0, 84), (1, 84)]
        await w.ask(43, version, election_type=0, topic_partitions=None, timeout=1000)
        assert w.core.events[1].partitions is None


def created(event):
    return TopicResultsReply(
        ErrorCode.NONE,
        tuple(
            TopicResult(one.name, ErrorCode.NONE, None, one.topic_id, 3, 2, CONFIGS if one.configs else ())
            for one in event.topics
        ),
    )


CONFIGS = (
    EffectiveConfig("retention.bytes", "-1", ConfigSource.DEFAULT),
    EffectiveConfig("retention.ms", "5", ConfigSource.TOPIC),
)


def new_topic(name, partitions=3, factor=2, assignments=(), configs=()):
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [{"partition_index": n, "broker_ids": ids} for n, ids in assignments],
        "configs": [{"name": key, "value": value} for key, value in configs],
    }


@pytest.mark.parametrize("version", [2, 4, 5, 7])
async def test_creating_topics(version):
    async with rpc_world() as w:
        w.core.answers[TopicsSubmitted] = created
        asked = [
            new_topic("a", configs=[("retention.ms", "5")]),
            new_topic("b", -1, -1, [(0, [1, 2]), (1, [2, 3])]),
            new_topic("twice"),
            new_topic("twice"),
            new_topic("both", 3, 2, [(0, [1])]),
            new_topic("again", -1, -1, [(0, [1]), (0, [2])]),
            new_topic("null", configs=[("retention.ms", None)]),
        ]
        message = await w.ask(19, version, topics=asked, timeout=1000, validate_only=True)
        codes = {one.name: int(one.error_code) for one in message.topics}
        assert codes == {"a": 0, "b": 0, "twice": 42, "both": 42, "again": 39, "null": 40}
        (event,) = w.core.events
        first, second = event.topics
        assert event.validate_only
        assert (first.partition_count, first.replication_factor, first.configs) == (3, 2, {"retention.ms": "5"})
        assert second.assignments == {0: (1, 2), 1: (2, 3)}
        assert first.topic_id != second.topic_id
        assert first.placement_seed != second.placement_seed
        topics = by_name(message.topics)
        assert topics["twice"].error_message == "Found multiple entries for this topic."
        if version >= 5:
            assert (topics["a"].num_partitions, topics["a"].replication_factor) == (3, 2)
            told = [(one.name, one.value, one.config_source) for one in topics["a"].configs]
            assert told == [("retention.bytes", "-1", 5), ("retention.ms", "5", 1)]
            assert topics["b"].configs == ()
        if version >= 7:
            assert topics["a"].topic_id == first.topic_id


async def test_of_a_great_request_only_the_first_topics_have_their_configuration_told():
    """Each configuration takes time on the event loop. All topics are created."""
    async with rpc_world() as w:
        w.core.answers[TopicsSubmitted] = created
        asked = [new_topic(f"t{number}", configs=[("retention.ms", "5")]) for number in range(700)]
        message = await w.ask(19, 7, topics=asked, timeout=1000, validate_only=False)
        assert {int(one.error_code) for one in message.topics} == {0}
        told = [(len(one.configs), one.topic_config_error_code) for one in message.topics]
        assert told == [(2, 0)] * LISTED_AT_MOST + [(0, ErrorCode.POLICY_VIOLATION)] * (700 - LISTED_AT_MOST)


async def test_a_request_whose_handler_meets_a_bug_is_refused_and_counted():
    """A reply of the wrong kind is a bug. The connection stays open, and so do the others."""
    async with rpc_world() as w:
        wrong = AlterPartitionReply(ErrorCode.NONE)
        for event in (TopicsSubmitted, PartitionsSubmitted, TopicDeletionsSubmitted, ElectionRequested):
            w.core.answers[event] = lambda _: wrong
        await cluster(w)
        refused = ErrorCode.UNKNOWN_SERVER_ERROR
        made = await w.ask(19, 7, topics=[new_topic("a")], timeout=1000)
        assert [(one.name, int(one.error_code)) for one in made.topics] == [("a", refused)]
        grown = await w.ask(
            37, 3, topics=[{"name": "t", "count": 4, "assignments": None}], timeout=1000, validate_only=False
        )
        assert [int(one.error_code) for one in grown.results] == [refused]
        for version, asked in ((5, {"topic_names": ["t"]}), (6, {"topics": [{"name": "t", "topic_id": None}]})):
            deleted = await w.ask(20, version, timeout=1000, **asked)
            assert [int(one.error_code) for one in deleted.responses] == [refused]
        elected = await w.ask(43, 2, election_type=0, topic_partitions=None, timeout=1000)
        assert int(elected.error_code) == refused
        assert w.core.callers.bugs == 5


async def test_a_request_that_the_core_refuses_for_a_bug_is_refused_in_the_form_of_its_api():
    async with rpc_world() as w:
        w.core.answers[TopicsSubmitted] = lambda _: RefusedReply(ErrorCode.UNKNOWN_SERVER_ERROR, "a bug")
        made = await w.ask(19, 7, topics=[new_topic("a")], timeout=1000)
        assert [(int(one.error_code), one.error_message) for one in made.topics] == [(-1, "a bug")]


def test_the_brokers_releases_are_told_by_their_versions_of_fetch():
    assert releases_of([]) == UNKNOWN_RELEASES
    assert releases_of([{1: (0, 12)}, {1: (0, 17)}]) == Releases((2, 8), (3, 9))
    assert releases_of([{1: (0, 13)}, {3: (0, 9)}]) == Releases((3, 1), (3, 4))
    assert releases_of([{1: (0, 17)}]) == Releases((3, 9), (3, 9))
    assert releases_of([{1: (0, 99)}]) == UNKNOWN_RELEASES


@pytest.mark.parametrize("patience", [0, -1])
async def test_without_patience_a_topic_is_made_and_the_answer_is_that_time_ran_out(patience):
    """Apache: "if timeout <= 0 … return immediately", with REQUEST_TIMED_OUT although the creation goes on."""
    async with rpc_world() as w:
        made = await w.ask(19, 7, topics=[new_topic("a")], timeout=patience, validate_only=False)
        assert [int(one.error_code) for one in made.topics] == [ErrorCode.REQUEST_TIMED_OUT]
        assert isinstance(w.core.events[0], TopicsSubmitted)


async def test_a_standby_creates_nothing():
    async with rpc_world() as w:
        w.state.active = False
        message = await w.ask(19, 7, topics=[new_topic("a")], timeout=1000)
        assert int(message.topics[0].error_code) == ErrorCode.NOT_CONTROLLER
        assert w.core.events == []


@pytest.mark.parametrize("version", [1, 5, 6])
async def test_deleting_topics(version):
    async with rpc_cluster() as w:
        w.core.answers[TopicDeletionsSubmitted] = lambda event: TopicResultsReply(
            ErrorCode.NONE,
            tuple(
                TopicResult(name, ErrorCode.NONE if name == "t" else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for name in event.names
            ),
        )
        if version < 6:
            message = await w.ask(20, version, topic_names=["t"], timeout=1000)
            assert [(one.name, int(one.error_code)) for one in message.responses] == [("t", 0)]
        else:
            asked = [{"name": None, "topic_id": UUID(int=1)}, {"name": None, "topic_id": UNKNOWN}]
            message = await w.ask(20, version, topics=asked, timeout=1000)
            assert [(one.name, one.topic_id, int(one.error_code)) for one in message.responses] == [
                ("t", UUID(int=1), 0),
                (None, UNKNOWN, 100),
            ]
        assert w.core.events[0].names[0] == "t"


@pytest.mark.parametrize("version", [1, 3, 6])
async def test_where_deletion_is_disabled_every_topic_gets_that_for_an_answer(version):
    """Clients below version 3 do not know the code: Apache gives them INVALID_REQUEST."""
    async with rpc_cluster() as w:
        w.core.answers[TopicDeletionsSubmitted] = lambda event: TopicResultsReply(
            ErrorCode.NONE, tuple(TopicResult(name, ErrorCode.TOPIC_DELETION_DISABLED) for name in event.names)
        )
        by_id = [{"name": None, "topic_id": UUID(int=1)}, {"name": None, "topic_id": UNKNOWN}]
        asked = {"topics": by_id} if version >= 6 else {"topic_names": ["t", "absent"]}
        message = await w.ask(20, version, timeout=1000, **asked)
        wanted = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
        assert [int(one.error_code) for one in message.responses] == [wanted, wanted]


async def test_a_deletion_without_name_and_id_is_refused_in_words_that_say_so():
    async with rpc_cluster() as w:
        w.core.answers[TopicDeletionsSubmitted] = lambda event: TopicResultsReply(
            ErrorCode.NONE, tuple(TopicResult(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in event.names)
        )
        message = await w.ask(20, 6, topics=[{"name": None, "topic_id": None}], timeout=1000)
        (result,) = message.responses
        told = "neither the name nor the id of a topic was given"
        assert (int(result.error_code), result.error_message) == (ErrorCode.UNKNOWN_TOPIC_ID, told)


async def test_a_deletion_by_name_and_id_at_once_is_refused():
    async with rpc_cluster() as w:
        message = await w.ask(20, 6, topics=[{"name": "t", "topic_id": UUID(int=1)}], timeout=1000)
        (result,) = message.responses
        assert int(result.error_code) == ErrorCode.INVALID_REQUEST
        assert not w.core.events


@pytest.mark.parametrize("version", range(4))
async def test_creating_partitions(version):
    async with rpc_world() as w:
        w.core.answers[PartitionsSubmitted] = lambda event: TopicResultsReply(
            ErrorCode.NONE, tuple(TopicResult(name, ErrorCode.INVALID_PARTITIONS, "fewer") for name in event.topics)
        )
        asked = [
            {"name": "t", "count": 4, "assignments": [{"broker_ids": [1, 2]}]},
            {"name": "u", "count": 2, "assignments": None},
        ]
        message = await w.ask(37, version, topics=asked, timeout=1000, validate_only=False)
        assert w.core.events[0].topics == {"t": (4, ((1, 2),)), "u": (2, None)}
        assert {one.name: (int(one.error_code), one.error_message) for one in message.results} == {
            "t": (37, "fewer"),
            "u": (37, "fewer"),
        }


@pytest.mark.parametrize("version", range(4))
async def test_alter_partition(version):
    async with rpc_cluster() as w:
        w.core.answers[AlterPartitionReceived] = lambda event: AlterPartitionReply(
            ErrorCode.NONE,
            (
                (TopicPartition("t", 0), LeaderAndIsr(1, 3, (1, 2, 3), 7, 5)),
                (TopicPartition("t", 1), ErrorCode.FENCED_LEADER_EPOCH),
            ),
        )
        isr = {
            "new_isr": [1, 2, 3],
            "new_isr_with_epochs": [{"broker_id": n, "broker_epoch": n * 10} for n in (1, 2, 3)],
        }
        partitions = [{"partition_index": n, "leader_epoch": 3, "partition_epoch": 6, **isr} for n in (0, 1)]
        asked = [{"topic_name": "t", "topic_id": UUID(int=1), "partitions": partitions}]
        if version >= 2:
            asked.append({"topic_id": UNKNOWN, "partitions": partitions[:1]})
        for one in partitions:
            one["leader_recovery_state"] = 0
        message = await w.ask(56, version, broker_id=1, broker_epoch=11, topics=asked)
        (event,) = w.core.events
        assert (event.broker, event.broker_epoch, len(event.proposals)) == (1, 11, 2)
        proposal = event.proposals[0]
        assert (proposal.tp, proposal.leader_epoch, proposal.partition_epoch) == (TopicPartition("t", 0), 3, 6)
        assert proposal.isr == (((1, 10), (2, 20), (3, 30)) if version >= 3 else ((1, -1), (2, -1), (3, -1)))
        first, second = message.topics[0].partitions
        assert (first.leader_id, first.leader_epoch, first.isr, first.partition_epoch) == (1, 3, (1, 2, 3), 7)
        assert int(second.error_code) == 74
        if version >= 2:
            assert int(message.topics[1].partitions[0].error_code) == 100


@pytest.mark.parametrize("version", range(4))
async def test_an_ineligible_replica_is_called_so_by_the_versions_that_know_it(version, monkeypatch):
    """Brokers before 3.3 don't know error 107. Those before 3.2 ask again at once after an unexpected error.

    Source: Apache Kafka 3.9, KafkaController.tryProcessAlterPartition; 2.8, Partition.handleAlterIsrResponse.
    """
    waited = []

    async def wait(seconds):
        waited.append(seconds)

    monkeypatch.setattr(brokers, "asyncio", SimpleNamespace(sleep=wait))
    async with rpc_cluster() as w:
        refused = (TopicPartition("t", 0), ErrorCode.INELIGIBLE_REPLICA)
        w.core.answers[AlterPartitionReceived] = lambda event: AlterPartitionReply(ErrorCode.NONE, (refused,))
        proposal = {"partition_index": 0, "leader_epoch": 3, "partition_epoch": 6, "leader_recovery_state": 0}
        proposal |= {"new_isr": [1, 2], "new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": 10}]}
        asked = [{"topic_name": "t", "topic_id": UUID(int=1), "partitions": [proposal]}]
        message = await w.ask(56, version, broker_id=1, broker_epoch=11, topics=asked)
        expected = ErrorCode.INELIGIBLE_REPLICA if version >= 2 else ErrorCode.OPERATION_NOT_ATTEMPTED
        assert int(message.topics[0].partitions[0].error_code) == expected
        assert waited == ([brokers.NOT_UNDERSTOOD_SECONDS] if version == 0 else [])


async def test_a_leader_asks_again_for_what_can_not_be_read(monkeypatch):
    """An unknown id may be that of an unreadable topic. The answer is held back, so that the leader waits."""
    waited = []

    async def wait(seconds):
        waited.append(seconds)

    monkeypatch.setattr(brokers, "asyncio", SimpleNamespace(sleep=wait))
    async with rpc_cluster() as w:
        w.state.left_out = LeftOut(topics=frozenset({"u"}))
        w.core.answers[AlterPartitionReceived] = lambda event: AlterPartitionReply(ErrorCode.NONE, ())
        proposal = {"partition_index": 0, "leader_epoch": 3, "partition_epoch": 6, "new_isr_with_epochs": []}
        asked = [{"topic_id": UNKNOWN, "partitions": [{**proposal, "leader_recovery_state": 0}]}]
        message = await w.ask(56, 3, broker_id=1, broker_epoch=11, topics=asked)
        assert int(message.topics[0].partitions[0].error_code) == ErrorCode.LEADER_NOT_AVAILABLE
        assert waited == [brokers.UNREADABLE_SECONDS]


@pytest.mark.parametrize("version", range(4))
async def test_controlled_shutdown(version):
    async with rpc_world() as w:
        w.core.answers[ControlledShutdownRequested] = lambda _: ControlledShutdownReply(
            ErrorCode.NONE, (TopicPartition("t", 0),)
        )
        message = await w.ask(7, version, broker_id=1, broker_epoch=11)
        assert w.core.events[0].broker_epoch == (11 if version >= 2 else -1)
        assert [(one.topic_name, one.partition_index) for one in message.remaining_partitions] == [("t", 0)]


async def test_a_block_of_producer_ids_that_is_refused_begins_at_0_as_in_apache():
    async with rpc_world() as w:
        w.core.answers[ProducerIdsRequested] = lambda _: ProducerIdsReply(ErrorCode.STALE_BROKER_EPOCH)
        message = await w.ask(67, 0, broker_id=1, broker_epoch=1)
        assert (int(message.error_code), message.producer_id_start, message.producer_id_len) == (77, 0, 0)
        w.state.active = False
        message = await w.ask(67, 0, broker_id=1, broker_epoch=1)
        assert (int(message.error_code), message.producer_id_start) == (ErrorCode.NOT_CONTROLLER, 0)


async def test_what_is_asked_of_a_node_and_is_nothing_for_ours():
    async with rpc_world() as w:
        for version in range(5):
            [log_dir] = (await w.ask(35, version, topics=None)).results
            assert (log_dir.log_dir, int(log_dir.error_code), log_dir.topics) == (CONTROLLERS_LOG_DIR, 0, ())
        for version in range(6):
            assert (await w.ask(16, version)).groups == ()
        for version in range(2):
            message = await w.ask(66, version, state_filters=(), producer_id_filters=())
            assert (int(message.error_code), message.transaction_states) == (0, ())
        dirs = [{"path": "/d", "topics": [{"name": "t", "partitions": [0]}]}]
        for version in range(3):
            message = await w.ask(34, version, dirs=dirs)
            assert int(message.results[0].partitions[0].error_code) == ErrorCode.REPLICA_NOT_AVAILABLE
        for version in (0, 3, 4, 6):
            message = await w.ask(10, version, key="g", coordinator_keys=["g"])
            found = message.coordinators[0] if version >= 4 else message
            assert int(found.error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_message_is_filled_alike_for_all_versions():
    values = {"node_id": 1, "host": "h", "port": 2, "rack": None, "key": "k"}
    for version in range(4):
        schema = load_response_schema(10, version)
        assert encoded(filled(schema, {**values, "error_code": 15, "error_message": "no"}))
    with pytest.raises(KeyError, match="host"):
        filled(load_response_schema(10, 3), {"node_id": 1, "port": 1})


@pytest.mark.parametrize("seed", [1, 15])
def test_handlers_serve_the_clients_of_a_simulated_world(seed):
    outcome = run_seed(seed)
    assert outcome.violation is None
    assert outcome.coverage.counts["operation", "odd_creation"] + outcome.coverage.counts["operation", "odd_growth"]
