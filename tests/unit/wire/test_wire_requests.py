"""Clients' requests are decoded to the same values as by kio; malformed ones are refused before memory is allocated."""

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from types import NoneType
from typing import Any, get_args, get_origin

import kio_peer as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_reader

from shunter.errors import ErrorCode, FormatError, InvariantViolation
from shunter.model.settings import WireLimits
from shunter.wire.framing import NEWER, request_frame_head, response_header_version
from shunter.wire.primitives import INT32, Cursor
from shunter.wire.requests import (
    SERVED,
    ParsedRequest,
    UnsupportedVersionError,
    api_versions_message,
    decode_request,
    encode_message,
    encode_response,
    encode_unsupported_version,
    response_entity,
    response_module,
)

LIMITS = WireLimits()
OURS = (45, 46, 56)
EVERY_VERSION = [(key, version) for key, (low, high) in SERVED.items() for version in range(low, high + 1)]
READ_BY_KIO = [each for each in EVERY_VERSION if each[0] not in OURS]


def framed(api_key: int, version: int, body: bytes, correlation_id: int = 9) -> bytes:
    """A request without its size."""
    return request_frame_head(api_key, version, correlation_id, "me", len(body))[4:] + body


def value_of(kind: str) -> st.SearchStrategy[Any]:
    """Values of one of Kafka's kinds."""
    return {
        "bool": st.booleans(),
        "int8": st.integers(-128, 127),
        "int16": st.integers(-(2**15), 2**15 - 1),
        "int32": peer.int32s,
        "int64": peer.int64s,
        "bytes": st.binary(max_size=20),
        "string": st.text(st.characters(codec="utf-8"), max_size=20),
        "uuid": st.uuids().filter(lambda one: one.int != 0),
        "timedelta_i32": st.integers(0, 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
    }[kind]


def entity_of(schema: Any) -> st.SearchStrategy[Any]:
    """Make any message that a schema allows."""
    chosen: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(schema):
        declared: Any = field.type
        nullable = NoneType in get_args(declared)
        if nullable:
            (declared,) = (one for one in get_args(declared) if one is not NoneType)
        if get_origin(declared) is tuple:
            inner = get_args(declared)[0]
            one = entity_of(inner) if hasattr(inner, "__flexible__") else value_of(field.metadata["kafka_type"])
            strategy: st.SearchStrategy[Any] = st.lists(one, max_size=3).map(tuple)
        else:
            strategy = value_of(field.metadata["kafka_type"])
        chosen[field.name] = st.none() | strategy if nullable else strategy
    return st.builds(schema, **chosen)


@pytest.mark.parametrize(("api_key", "version"), READ_BY_KIO)
def test_every_served_version_is_read_as_kio_writes_it(api_key: int, version: int) -> None:
    schema = load_request_schema(api_key, version)

    @peer.FEW
    @given(entity_of(schema))
    def check(message: Any) -> None:
        parsed = decode_request(framed(api_key, version, peer.written(message)), LIMITS)
        assert parsed[:3] == (api_key, version, 9)
        assert parsed.message == message

    check()


@peer.PATIENT
@given(st.binary(max_size=200))
def test_noise_is_refused_and_nothing_else_happens(noise: bytes) -> None:
    began = time.process_time()
    try:
        parsed = decode_request(noise, LIMITS)
    except (FormatError, UnsupportedVersionError):
        pass
    else:
        assert parsed.message is None or parsed.api_key in SERVED
    assert time.process_time() - began < 1


@peer.PATIENT
@given(choice=st.sampled_from(EVERY_VERSION), noise=st.binary(max_size=60))
def test_noise_behind_a_good_header_is_refused_or_read(choice: tuple[int, int], noise: bytes) -> None:
    api_key, version = choice
    with suppress(FormatError):
        assert decode_request(framed(api_key, version, noise), LIMITS).message is not None


@peer.PATIENT
@given(data=st.data(), choice=st.sampled_from([(3, 12), (19, 7), (20, 6), (44, 1), (37, 3), (43, 2)]))
def test_a_flipped_bit_or_a_lost_tail_never_gets_through_as_something_else(data: Any, choice: tuple[int, int]) -> None:
    api_key, version = choice
    body = bytearray(peer.written(data.draw(entity_of(load_request_schema(api_key, version)))))
    if data.draw(st.booleans()):
        body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del body[data.draw(st.integers(0, len(body) - 1)) :]
    try:
        parsed = decode_request(framed(api_key, version, bytes(body)), LIMITS)
    except FormatError:
        return
    again = decode_request(framed(api_key, version, peer.written(parsed.message)), LIMITS)
    assert again.message == parsed.message


HUGE = {
    "legacy": (19, 4, b"\x7f\xff\xff\xff" + b"\x00" * 16),
    "compact": (3, 12, b"\x80\x80\x80\x80\x08" + b"\x00" * 15),
    "compact int32s": (43, 2, b"\x00\x02\x02a\x80\x80\x80\x80\x08" + b"\x00" * 11),
    "reassignments": (45, 0, b"\x00\x00\x00\x01\x80\x80\x80\x80\x08" + b"\x00" * 11),
    "replicas": (45, 0, b"\x00\x00\x00\x01\x02\x02a\x02\x00\x00\x00\x01\x80\x80\x80\x80\x08"),
    "listed": (46, 0, b"\x00\x00\x00\x01\x80\x80\x80\x80\x08" + b"\x00" * 11),
    "strings": (35, 1, b"\x7f\xff\xff\xff" + b"\x00" * 16),
}

HUNGRY = """
import resource, sys
from shunter.errors import FormatError
from shunter.model.settings import WireLimits
from shunter.wire.requests import decode_request
decode_request(bytes.fromhex(sys.argv[2]), WireLimits())
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
try:
    decode_request(bytes.fromhex(sys.argv[1]), WireLimits())
except FormatError as error:
    print(error)
"""


@pytest.mark.parametrize("name", sorted(HUGE))
def test_a_huge_claim_in_a_small_frame_is_refused_fast(name: str) -> None:
    api_key, version, body = HUGE[name]
    began = time.process_time()
    with pytest.raises(FormatError, match=r"array of 2147483647|array of 1073741823|longer than 31 bits"):
        decode_request(framed(api_key, version, body), WireLimits(array_length=2**31))
    assert time.process_time() - began < 0.5


def test_a_huge_claim_takes_no_memory() -> None:
    """kio by itself would ask for 16 GiB here and end the process, so this test runs in a separate process."""
    api_key, version, body = HUGE["legacy"]
    bad, good = framed(api_key, version, body), framed(api_key, version, b"\x00" * 9)
    ran = subprocess.run(
        [sys.executable, "-c", HUNGRY, bad.hex(), good.hex()], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "an array of 2147483647 elements" in ran.stdout


def test_an_array_above_the_limit_is_refused_even_if_it_is_there() -> None:
    message = load_request_schema(20, 5)(topic_names=("t",) * 50, timeout=timedelta(0))
    frame = framed(20, 5, peer.written(message))
    assert decode_request(frame, LIMITS).message == message
    with pytest.raises(FormatError, match="50 elements, and the limit is 49"):
        decode_request(frame, WireLimits(array_length=49))


def test_many_short_arrays_are_counted_together() -> None:
    of = peer.entities(37, 3)
    assigned = tuple(of.CreatePartitionsAssignment(broker_ids=(1, 2, 3)) for _ in range(10))
    topics = tuple(of.CreatePartitionsTopic(name="t", count=10, assignments=assigned) for _ in range(10))
    message = of.CreatePartitionsRequest(topics=topics, timeout=timedelta(0), validate_only=False)
    frame = framed(37, 3, peer.written(message))
    assert decode_request(frame, LIMITS).message == message
    with pytest.raises(FormatError, match="all arrays together"):
        decode_request(frame, WireLimits(array_length=20))


def test_partitions_of_a_reassignment_are_counted_together_with_their_replicas() -> None:
    of = peer.entities(45, 0)
    moved = tuple(of.ReassignablePartition(partition_index=number, replicas=(1, 2, 3)) for number in range(10))
    topics = tuple(of.ReassignableTopic(name=f"t{number}", partitions=moved) for number in range(3))
    message = of.AlterPartitionReassignmentsRequest(timeout=timedelta(0), topics=topics)
    frame = framed(45, 0, peer.written(message))
    assert len(decode_request(frame, WireLimits(array_length=31)).message.topics) == 3
    with pytest.raises(FormatError, match="more than 120 elements in all arrays together"):
        decode_request(frame, WireLimits(array_length=30))


def test_null_where_the_schema_has_none_is_refused() -> None:
    with pytest.raises(FormatError, match="null where null has no meaning"):
        decode_request(framed(19, 4, b"\xff\xff\xff\xff" + bytes(5)), LIMITS)
    with pytest.raises(FormatError, match="-1 bytes are announced"):
        decode_request(framed(20, 3, b"\x00\x00\x00\x01\xff\xff" + bytes(4)), LIMITS)


def test_bytes_behind_the_message_are_left_aside() -> None:
    """As in `RequestContext.parseRequest`: librdkafka sends three bytes too many when it asks for all topics."""
    message = load_request_schema(60, 1)(include_cluster_authorized_operations=False, endpoint_type=1)
    assert decode_request(framed(60, 1, peer.written(message) + bytes(3)), LIMITS).message == message


def test_tagged_fields_of_the_future_are_skipped() -> None:
    of = peer.entities(20, 6)
    message = of.DeleteTopicsRequest(
        topics=(of.DeleteTopicState(name="a", topic_id=None), of.DeleteTopicState(name="b", topic_id=None)),
        timeout=timedelta(milliseconds=5),
    )
    tags = b"\x02\x05\x01x\x90\x4e\x02yz"
    topics = b"".join(b"\x02" + name + bytes(16) + tags for name in (b"a", b"b"))
    body = b"\x03" + topics + INT32.pack(5) + tags
    assert decode_request(framed(20, 6, body), LIMITS).message == message


def test_a_tag_that_does_not_rise_is_refused() -> None:
    with pytest.raises(FormatError, match="tag 5 after tag 5"):
        decode_request(framed(60, 0, b"\x00\x02\x05\x00\x05\x00"), LIMITS)


def test_an_api_that_is_not_ours_is_left_as_bytes() -> None:
    frame = framed(1, 16, b"anything")
    parsed = decode_request(frame, LIMITS)
    assert parsed.message is None
    assert parsed.frame == frame
    unknown = decode_request(b"\x03\xe7\x00\x01\x00\x00\x00\x05", LIMITS)
    assert unknown[:5] == (999, 1, 5, None, None)


def test_a_frame_above_the_limit_and_one_without_a_header_are_refused() -> None:
    with pytest.raises(FormatError, match="a frame of 13 bytes, and the limit is 10"):
        decode_request(framed(3, 12, b""), WireLimits(frame_bytes=10))
    with pytest.raises(FormatError, match="peer-1: 3 bytes are no request"):
        decode_request(b"\x00\x00\x00", LIMITS, "peer-1")


def test_an_unknown_version_carries_what_an_answer_needs() -> None:
    with pytest.raises(
        UnsupportedVersionError, match="version 99 of API 3 is not served: it must be from 0 to 12"
    ) as caught:
        decode_request(b"\x00\x03\x00\x63\x00\x00\x00\x05", LIMITS)
    assert caught.value.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert caught.value.correlation_id == 5
    assert encode_unsupported_version(caught.value) is None
    with pytest.raises(UnsupportedVersionError):
        decode_request(bytes.fromhex("0003 ffff 00000005 ffff 00"), LIMITS)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        decode_request(b"\x00\x12\x00\x63\x00\x00\x00\x05\xff\xff\x00", LIMITS)
    frame = encode_unsupported_version(caught.value)
    # size, correlation id, error 35, one range: API 18 from 0 to 4
    assert frame == bytes.fromhex("00000010 00000005 0023 00000001 0012 0000 0004")


@pytest.mark.parametrize("version", range(5))
def test_api_versions_tells_ranges_and_from_version_3_the_feature(version: int) -> None:
    message = api_versions_message(version, SERVED)
    parsed = decode_request(framed(18, version, b"\x02a\x02b\x00" if version >= 3 else b""), LIMITS)
    frame = encode_response(parsed, message)
    assert INT32.unpack_from(frame)[0] == len(frame) - 4
    assert INT32.unpack_from(frame, 4)[0] == parsed.correlation_id
    back, _ = entity_reader(load_response_schema(18, version))(frame[8:], 0)
    assert {one.api_key: (one.min_version, one.max_version) for one in back.api_keys} == dict(SERVED)
    if version >= 3:
        assert [(one.name, one.min_version, one.max_version) for one in back.supported_features] == [("shunter", 1, 1)]
        cursor = Cursor(frame, place="test", offset=8 + 2 + 1 + 7 * len(SERVED) + 4)
        assert cursor.tags() == {0: b"\x02\x08shunter\x00\x01\x00\x01\x00"}


@pytest.mark.parametrize(("api_key", "version"), [each for each in EVERY_VERSION if each not in NEWER])
def test_every_response_has_its_header(api_key: int, version: int) -> None:
    of = response_module(api_key, version)
    request = ParsedRequest(api_key, version, 77, None, None, b"")
    entity = response_entity(request)
    assert getattr(of, entity.__name__) is entity
    expected = 0 if api_key == 18 else int(entity.__flexible__)
    assert response_header_version(api_key, version) == expected
    frame = encode_response(request, b"body")
    assert frame == INT32.pack(8 + expected) + INT32.pack(77) + b"\x00" * expected + b"body"


def test_a_response_of_another_version_is_our_bug() -> None:
    parsed = decode_request(framed(18, 0, b""), LIMITS)
    with pytest.raises(InvariantViolation, match="of its request's API and version"):
        encode_response(parsed, api_versions_message(3, SERVED))


@peer.PATIENT
@given(st.integers(-(2**31), 2**31 - 1), st.none() | st.text(st.characters(codec="utf-8"), max_size=40))
def test_request_headers_are_kios(correlation_id: int, client_id: str | None) -> None:
    for api_key, version, header in ((6, 8, HeaderV2), (6, 5, HeaderV1), (18, 4, HeaderV2)):
        expected = peer.written(
            header(
                request_api_key=api_key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
            )
        )
        frame = request_frame_head(api_key, version, correlation_id, client_id, 100)
        assert frame == INT32.pack(len(expected) + 100) + expected


def test_controlled_shutdown_0_has_no_client_id() -> None:
    assert request_frame_head(7, 0, 5, "me", 4) == bytes.fromhex("0000000c 0007 0000 00000005")
    parsed = decode_request(bytes.fromhex("0007 0000 00000005 00000003"), LIMITS)
    assert parsed.client_id is None
    assert parsed.message.broker_id == 3


def test_encode_message_is_kios_writer() -> None:
    assert encode_message(api_versions_message(0, {18: (0, 4)})) == bytes.fromhex("0000 00000001 0012 0000 0004")
