"""RPC 45 and 46: the bytes of Kafka's schema, and in addition the draft's nulls and Shunter's tagged fields."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import kio_peer as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from kio.serial import entity_reader

from shunter.errors import ErrorCode, FormatError
from shunter.model.reassignment import Intervention, Strategy
from shunter.model.settings import WireLimits
from shunter.wire.primitives import Cursor
from shunter.wire.reassignments import (
    AlteredPartition,
    AlteredTopic,
    AlterReassignmentsRequest,
    AlterReassignmentsResult,
    ListReassignmentsRequest,
    ListReassignmentsResult,
    MoveDetail,
    OngoingPartition,
    OngoingTopic,
    PartitionResult,
    TopicResults,
    decode_alter_request,
    decode_alter_response,
    decode_list_request,
    decode_list_response,
    encode_alter_request,
    encode_alter_response,
    encode_list_request,
    encode_list_response,
)
from shunter.wire.requests import ParsedRequest, decode_request, encode_response

names = peer.names
strategies = st.none() | st.sampled_from(Strategy)
interventions = st.none() | st.sampled_from(Intervention)
replicas = st.none() | st.lists(st.integers(-1, 2**31 - 1), max_size=4).map(tuple) | st.just(tuple(range(130)))
plain_partitions = st.builds(
    AlteredPartition, peer.int32s, replicas, strategy=st.none(), intervention=st.none(), forced=st.just(False)
)
partitions = st.builds(AlteredPartition, peer.int32s, replicas, strategies, interventions, st.booleans())
plain_topics = st.builds(AlteredTopic, names, st.lists(plain_partitions, max_size=4).map(tuple))
topics = st.builds(AlteredTopic, names, st.none() | st.lists(partitions, max_size=4).map(tuple))
requests = st.builds(
    AlterReassignmentsRequest,
    st.none() | st.lists(topics, max_size=3).map(tuple),
    peer.int32s,
    strategies,
    interventions,
    st.booleans(),
    changes_factor=st.just(value=True),
)
timeouts = st.integers(0, 2**31 - 1)
plain_requests = st.builds(
    AlterReassignmentsRequest,
    st.lists(plain_topics, max_size=3).map(tuple),
    timeouts,
    strategy=st.none(),
    intervention=st.none(),
    forced=st.just(False),
    changes_factor=st.just(value=True),
)
codes = st.sampled_from(ErrorCode)
messages = st.none() | st.text(st.characters(codec="utf-8"), max_size=200)
alter_results = st.builds(
    AlterReassignmentsResult,
    codes,
    messages,
    st.lists(
        st.builds(
            TopicResults,
            names,
            st.lists(st.builds(PartitionResult, peer.int32s, codes, messages), max_size=4).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    timeouts,
    changes_factor=st.just(value=True),
)
ids = st.lists(peer.int32s, max_size=4).map(tuple)
list_requests = st.builds(
    ListReassignmentsRequest,
    st.none() | st.lists(st.tuples(names, ids), max_size=3).map(tuple),
    timeouts,
    st.just(False),
)
list_results = st.builds(
    ListReassignmentsResult,
    codes,
    messages,
    st.lists(
        st.builds(
            OngoingTopic,
            names,
            st.lists(st.builds(OngoingPartition, peer.int32s, ids, ids, ids, st.none()), max_size=4).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    timeouts,
)


def over(data: bytes) -> Cursor:
    return Cursor(data, place="test")


def milliseconds(count: int) -> timedelta:
    return timedelta(milliseconds=count)


@peer.PATIENT
@given(requests)
def test_an_alter_request_comes_back_as_it_went(request: AlterReassignmentsRequest) -> None:
    assert decode_alter_request(over(encode_alter_request(request))) == request


@peer.PATIENT
@given(plain_requests)
def test_a_plain_alter_request_is_kios(request: AlterReassignmentsRequest) -> None:
    of = peer.entities(45, 0)
    assert request.topics is not None
    message = of.AlterPartitionReassignmentsRequest(
        timeout=milliseconds(request.timeout_ms),
        topics=tuple(
            of.ReassignableTopic(
                name=topic.name,
                partitions=tuple(
                    of.ReassignablePartition(partition_index=one.partition, replicas=one.replicas)
                    for one in topic.partitions or ()
                ),
            )
            for topic in request.topics
        ),
    )
    assert encode_alter_request(request) == peer.written(message)


@peer.PATIENT
@given(plain_requests, st.booleans())
def test_version_1_is_that_of_kafkas_schema(request: AlterReassignmentsRequest, changes: bool) -> None:
    """KIP-860; kio's release for ZooKeeper mode does not have it, kafka-python does."""
    request = request._replace(changes_factor=changes)
    named: Any = AlterPartitionReassignmentsRequest
    message = named(
        timeout_ms=request.timeout_ms,
        allow_replication_factor_change=changes,
        topics=[
            named.ReassignableTopic(
                name=topic.name,
                partitions=[
                    named.ReassignableTopic.ReassignablePartition(
                        partition_index=one.partition, replicas=None if one.replicas is None else list(one.replicas)
                    )
                    for one in topic.partitions or ()
                ],
            )
            for topic in request.topics or ()
        ],
    )
    encoded = encode_alter_request(request, 1)
    assert encoded == bytes(message.encode(version=1))
    assert decode_alter_request(over(encoded), 1) == request


@peer.PATIENT
@given(alter_results, st.booleans())
def test_an_answer_of_version_1_says_what_was_allowed(result: AlterReassignmentsResult, changes: bool) -> None:
    result = result._replace(changes_factor=changes)
    assert decode_alter_response(over(encode_alter_response(result, 1)), 1) == result
    decoded: Any = AlterPartitionReassignmentsResponse.decode(encode_alter_response(result, 1), version=1)
    assert (decoded.allow_replication_factor_change, decoded.error_code) == (changes, int(result.error))


@peer.PATIENT
@given(alter_results)
def test_an_alter_response_is_kios_and_comes_back(result: AlterReassignmentsResult) -> None:
    of = peer.entities(45, 0, response=True)
    message = of.AlterPartitionReassignmentsResponse(
        throttle_time=milliseconds(result.throttle_ms),
        error_code=_kio(result.error),
        error_message=result.message,
        responses=tuple(
            of.ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    of.ReassignablePartitionResponse(
                        partition_index=one.partition, error_code=_kio(one.error), error_message=one.message
                    )
                    for one in topic.partitions
                ),
            )
            for topic in result.topics
        ),
    )
    encoded = encode_alter_response(result)
    assert encoded == peer.written(message)
    assert decode_alter_response(over(encoded)) == result


@peer.PATIENT
@given(list_requests)
def test_a_list_request_is_kios_and_comes_back(request: ListReassignmentsRequest) -> None:
    of = peer.entities(46, 0)
    asked = request.topics
    message = of.ListPartitionReassignmentsRequest(
        timeout=milliseconds(request.timeout_ms),
        topics=None
        if asked is None
        else tuple(
            of.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers) for name, numbers in asked
        ),
    )
    encoded = encode_list_request(request)
    assert encoded == peer.written(message)
    assert decode_list_request(over(encoded)) == request


@peer.PATIENT
@given(list_results)
def test_a_list_response_is_kios_and_comes_back(result: ListReassignmentsResult) -> None:
    of = peer.entities(46, 0, response=True)
    message = of.ListPartitionReassignmentsResponse(
        throttle_time=milliseconds(result.throttle_ms),
        error_code=_kio(result.error),
        error_message=result.message,
        topics=tuple(
            of.OngoingTopicReassignment(
                name=topic.name,
                partitions=tuple(
                    of.OngoingPartitionReassignment(
                        partition_index=one.partition,
                        replicas=one.replicas,
                        adding_replicas=one.adding,
                        removing_replicas=one.removing,
                    )
                    for one in topic.partitions
                ),
            )
            for topic in result.topics
        ),
    )
    encoded = encode_list_response(result)
    assert encoded == peer.written(message)
    assert decode_list_response(over(encoded)) == result


def _kio(code: ErrorCode | int) -> Any:
    from kio.schema.errors import ErrorCode as KioErrorCode

    return KioErrorCode(int(code))


def test_transcript_of_the_drafts_cancel_all_and_of_tags() -> None:
    assert encode_alter_request(AlterReassignmentsRequest(None, 1)) == bytes.fromhex("00000001 00 00")
    assert encode_alter_request(AlterReassignmentsRequest((AlteredTopic("t", None),), 1)) == bytes.fromhex(
        "00000001 02 0274 00 00 00"
    )
    forced = AlterReassignmentsRequest(None, 1, Strategy.ALL_AT_ONCE, Intervention.STOP, True)
    # tags 10000, 10001 and 10002 as varints, one byte each
    assert encode_alter_request(forced) == bytes.fromhex("00000001 00 03 904e0102 914e0101 924e0101")


@pytest.mark.parametrize("tail", ["01 904e0103", "01 914e0109", "01 924e0102", "01 904e00", "01 904e020101"])
def test_a_tag_of_ours_without_a_meaning_is_refused(tail: str) -> None:
    with pytest.raises(FormatError, match="tagged field 1000"):
        decode_alter_request(over(bytes.fromhex("00000001 00" + tail)))


def test_zero_means_as_configured_and_others_tags_are_skipped() -> None:
    body = bytes.fromhex("00000001 02 0274 02 00000007 02 00000004 03 05020000 904e0100 914e0102 00 01 070100")
    assert decode_alter_request(over(body)) == AlterReassignmentsRequest(
        (AlteredTopic("t", (AlteredPartition(7, (4,), None, Intervention.ROLL_BACK),)),), 1
    )


@peer.PATIENT
@given(st.binary(max_size=80))
def test_noise_is_refused_or_read(noise: bytes) -> None:
    for decode in (
        decode_alter_request,
        decode_alter_response,
        decode_list_request,
        decode_list_response,
    ):
        with suppress(FormatError):
            assert decode(over(noise)) is not None


@peer.PATIENT
@given(requests, st.data())
def test_a_lost_tail_is_noticed(request: AlterReassignmentsRequest, data: Any) -> None:
    body = encode_alter_request(request)
    with pytest.raises(FormatError):
        decode_alter_request(over(body[: data.draw(st.integers(0, len(body) - 1))]))


def test_both_go_through_requests() -> None:
    head = bytes.fromhex("002d 0000 00000005 ffff 00")
    parsed = decode_request(head + encode_alter_request(AlterReassignmentsRequest(None)), WireLimits())
    assert parsed.message == AlterReassignmentsRequest(None)
    frame = encode_response(parsed, AlterReassignmentsResult(ErrorCode.NONE))
    assert frame == bytes.fromhex("0000000e 00000005 00 00000000 0000 00 01 00")
    listed = decode_request(bytes.fromhex("002e 0000 00000006 ffff 00 00000001 00 00"), WireLimits())
    assert listed.message == ListReassignmentsRequest(None, 1)
    frame = encode_response(listed, ListReassignmentsResult(ErrorCode.NOT_CONTROLLER, "no"))
    assert frame == bytes.fromhex("00000010 00000006 00 00000000 0029 036e6f 01 00")


def test_a_response_of_kios_serves_too() -> None:
    of = peer.entities(46, 0, response=True)
    parsed = ParsedRequest(46, 0, 6, None, None, b"")
    message = of.ListPartitionReassignmentsResponse(
        throttle_time=milliseconds(0), error_code=_kio(0), error_message=None, topics=()
    )
    assert encode_response(parsed, message) == encode_response(parsed, ListReassignmentsResult(ErrorCode.NONE))
    read, _ = entity_reader(of.ListPartitionReassignmentsResponse)(encode_response(parsed, message)[9:], 0)
    assert read == message


def test_details_are_asked_for_and_come_back() -> None:
    asked = ListReassignmentsRequest((("t", (0,)),), 5, detailed=True)
    assert decode_list_request(over(encode_list_request(asked))) == asked
    detail = MoveDetail((3, 1, 2), (4, 5, 6), "moving", "waits for broker 4 to catch up", (3, 1, 2, 4))
    one = OngoingPartition(0, (3, 1, 2, 4), (4, 5, 6), (3, 1, 2), detail)
    result = ListReassignmentsResult(ErrorCode.NONE, None, (OngoingTopic("t", (one, one._replace(detail=None))),))
    assert decode_list_response(over(encode_list_response(result))) == result
