"""Brokers' answers are decoded as by kio, fast; refusals fit into every version, however long the names."""

from contextlib import suppress
from typing import Any
from uuid import UUID

import kio_peer as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from shunter.core.topic_configs import UNKNOWN_RELEASES, check_topic_configs
from shunter.drivers.listener.handlers.messages import filled
from shunter.errors import ErrorCode, FormatError, InvariantViolation, RequestRejected
from shunter.model.partition import TopicPartition
from shunter.wire.answers import decode_control_response
from shunter.wire.framing import response_frame
from shunter.wire.requests import encode_message

codes = st.sampled_from([KioErrorCode(0)] * 5 + [KioErrorCode(3), KioErrorCode(56), KioErrorCode(1)])
numbered = st.dictionaries(st.integers(0, 10_000), codes, max_size=20)
LONG = "x" * 32_767
"""The longest text of the older versions."""


def payload(api_key: int, version: int, message: Any, correlation_id: int = -5) -> bytes:
    """A response without its size."""
    return response_frame(api_key, version, correlation_id, peer.written(message))[4:]


def failures(some: dict[str, dict[int, KioErrorCode]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, number): int(code)
        for topic, codes in some.items()
        for number, code in codes.items()
        if code
    }


@pytest.mark.parametrize("version", range(5, 9))
@peer.PATIENT
@given(code=codes)
def test_update_metadata(version: int, code: KioErrorCode) -> None:
    message = peer.entities(6, version, response=True).UpdateMetadataResponse(error_code=code)
    assert decode_control_response(6, version, payload(6, version, message), dict) == (-5, int(code), {})


@pytest.mark.parametrize(("api_key", "version"), [(4, 2), (4, 3), (4, 4), (5, 1), (5, 2), (5, 3), (5, 4)])
@peer.PATIENT
@given(code=codes, some=st.dictionaries(peer.names, numbered, max_size=4))
def test_answers_that_name_topics(api_key: int, version: int, code: KioErrorCode, some: Any) -> None:
    of = peer.entities(api_key, version, response=True)
    entry = of.LeaderAndIsrPartitionError if api_key == 4 else of.StopReplicaPartitionError
    message = (of.LeaderAndIsrResponse if api_key == 4 else of.StopReplicaResponse)(
        error_code=code,
        partition_errors=tuple(
            entry(topic_name=topic, partition_index=number, error_code=error)
            for topic, errors in some.items()
            for number, error in errors.items()
        ),
    )
    got = decode_control_response(api_key, version, payload(api_key, version, message), dict)
    assert got == (-5, int(code), failures(some))


@pytest.mark.parametrize("version", [5, 6, 7])
@peer.PATIENT
@given(code=codes, some=st.dictionaries(st.uuids().filter(lambda one: one.int != 0), numbered, max_size=4))
def test_answers_that_have_topic_ids(version: int, code: KioErrorCode, some: dict[UUID, Any]) -> None:
    of = peer.entities(4, version, response=True)
    message = of.LeaderAndIsrResponse(
        error_code=code,
        topics=tuple(
            of.LeaderAndIsrTopicError(
                topic_id=topic_id,
                partition_errors=tuple(
                    of.LeaderAndIsrPartitionError(partition_index=number, error_code=error)
                    for number, error in errors.items()
                ),
            )
            for topic_id, errors in some.items()
        ),
    )
    known = {topic_id: str(topic_id) for position, topic_id in enumerate(some) if position != 1}
    expected = failures({known[topic_id]: errors for topic_id, errors in some.items() if topic_id in known})
    got = decode_control_response(4, version, payload(4, version, message), lambda: known)
    assert got == (-5, int(code), expected)


def test_errors_we_have_a_name_for_have_it() -> None:
    body = bytes.fromhex("0003 00") + b""
    _, error, _ = decode_control_response(6, 8, bytes(4) + b"\x00" + body, dict)
    assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    _, error, _ = decode_control_response(6, 5, bytes(4) + b"\x00\x01", dict)
    assert error == 1
    assert not isinstance(error, ErrorCode)


def test_tagged_fields_of_a_partition_are_skipped() -> None:
    topic = UUID(int=3)
    entries = bytes.fromhex("00000001 0000 01 05 01 aa  00000002 0003 00")
    body = b"\x00\x00" + b"\x02" + topic.bytes + b"\x03" + entries + b"\x00" + b"\x00"
    got = decode_control_response(4, 7, bytes(4) + b"\x00" + body, lambda: {topic: "t"})
    assert got == (0, 0, {TopicPartition("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


@peer.PATIENT
@given(st.sampled_from([(4, 2), (4, 5), (4, 7), (5, 1), (5, 4), (6, 5), (6, 8)]), st.binary(max_size=60))
def test_noise_is_refused_or_read(choice: tuple[int, int], noise: bytes) -> None:
    with suppress(FormatError):
        correlation_id, _, errors = decode_control_response(*choice, noise, dict)
        assert correlation_id == int.from_bytes(noise[:4], "big", signed=True)
        assert len(errors) <= len(noise)


def test_a_lost_tail_is_noticed() -> None:
    whole = bytes.fromhex("00000001 00 0000 02 00000000000000000000000000000003 02 00000001 0000 00 00 00")
    assert decode_control_response(4, 7, whole, dict) == (1, 0, {})
    for end in range(len(whole)):
        with pytest.raises(FormatError):
            decode_control_response(4, 7, whole[:end], dict)


@pytest.mark.parametrize(("api_key", "version"), [(3, 12), (4, 99)])
def test_what_is_no_control_request_is_our_bug(api_key: int, version: int) -> None:
    with pytest.raises(InvariantViolation, match="control requests are"):
        decode_control_response(api_key, version, b"", dict)


@pytest.mark.parametrize("configs", [{"retention.ms": LONG}, {LONG: "1"}, {"message.format.version": LONG}])
@pytest.mark.parametrize("version", [1, 4, 5, 7])
def test_the_longest_sentence_about_a_configuration_can_be_written(configs, version):
    with pytest.raises(RequestRejected) as refused:
        check_topic_configs(configs, UNKNOWN_RELEASES)
    result = {"name": "t", "error_code": refused.value.error_code, "error_message": refused.value.message}
    values = {"topics": [{**result, "topic_id": None, "topic_config_error_code": 0, "configs": ()}]}
    assert len(encode_message(filled(load_response_schema(19, version), values))) < 8_000
