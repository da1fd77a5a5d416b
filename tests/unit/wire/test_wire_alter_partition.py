"""RPC 56: kio's requests are decoded by Shunter, and Shunter's responses by kio, to the same values in all versions."""

from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import kio_peer as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader

from shunter.errors import ErrorCode, FormatError
from shunter.model.partition import LeaderAndIsr
from shunter.model.settings import WireLimits
from shunter.wire.alter_partition import (
    ALTER_PARTITION,
    AlterPartitionRequest,
    AlterPartitionResult,
    IsrChange,
    TopicIsrChanges,
    TopicIsrResults,
    decode_alter_partition,
)
from shunter.wire.framing import SIZE_BYTES
from shunter.wire.primitives import Cursor
from shunter.wire.requests import ParsedRequest, decode_request, encode_response

int64s = st.integers(-1, 2**63 - 1)
topic_ids = st.uuids().filter(lambda made: made.int != 0)
changes = st.builds(
    IsrChange,
    peer.int32s,
    peer.int32s,
    st.lists(st.tuples(peer.int32s, int64s), max_size=4).map(tuple),
    st.booleans(),
    peer.int32s,
)
asked = st.builds(
    AlterPartitionRequest,
    peer.int32s,
    int64s,
    st.lists(
        st.builds(TopicIsrChanges, peer.names, topic_ids, st.lists(changes, max_size=4).map(tuple)), max_size=3
    ).map(tuple),
)
states = st.builds(
    LeaderAndIsr,
    peer.int32s,
    peer.int32s,
    st.lists(peer.int32s, max_size=4).map(tuple),
    peer.int32s,
    st.just(1),
    st.booleans(),
)
refusals = st.sampled_from([each for each in ErrorCode if each is not ErrorCode.NONE])
results = st.builds(
    TopicIsrResults,
    peer.names,
    topic_ids,
    st.lists(st.tuples(peer.int32s, states | refusals), max_size=4).map(tuple),
)
answers = st.builds(
    AlterPartitionResult, st.sampled_from(ErrorCode), st.lists(results, max_size=3).map(tuple), st.just(0)
)


def by_kio(request: AlterPartitionRequest, version: int) -> bytes:
    """The body of the same request, encoded by kio."""
    of = peer.entities(ALTER_PARTITION, version)
    topics = []
    for topic in request.topics:
        partitions = []
        for change in topic.partitions:
            fields: dict[str, Any] = {
                "partition_index": change.partition,
                "leader_epoch": change.leader_epoch,
                "new_isr": tuple(member for member, _ in change.isr),
                "leader_recovery_state": int(change.recovering),
                "partition_epoch": change.partition_epoch,
            }
            if version >= 3:
                fields["new_isr_with_epochs"] = tuple(
                    of.BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in change.isr
                )
            partitions.append(peer.made(of.PartitionData, **fields))
        topics.append(
            peer.made(of.TopicData, topic_name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))
        )
    made = of.AlterPartitionRequest(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, topics=tuple(topics)
    )
    return peer.written(made)


def as_of(request: AlterPartitionRequest, version: int) -> AlterPartitionRequest:
    """The same request without values for which its version has no field."""
    topics = []
    for topic in request.topics:
        partitions = tuple(
            change._replace(
                isr=change.isr if version >= 3 else tuple((member, -1) for member, _ in change.isr),
                recovering=change.recovering and version >= 1,
            )
            for change in topic.partitions
        )
        named = TopicIsrChanges(topic.name, None, partitions)
        topics.append(named if version < 2 else TopicIsrChanges(None, topic.topic_id, partitions))
    return request._replace(topics=tuple(topics))


@pytest.mark.parametrize("version", range(4))
@given(request=asked)
@peer.FEW
def test_a_request_is_read_as_kio_wrote_it(version: int, request: AlterPartitionRequest) -> None:
    body = by_kio(request, version)
    head = b"\x00\x38" + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\xff\xff\x00"
    parsed = decode_request(head + body, WireLimits())
    assert parsed.message == as_of(request, version)


@pytest.mark.parametrize("version", range(4))
@given(answer=answers)
@peer.FEW
def test_an_answer_is_read_by_kio_as_it_was_meant(version: int, answer: AlterPartitionResult) -> None:
    parsed = ParsedRequest(ALTER_PARTITION, version, 7, None, None, b"")
    frame = encode_response(parsed, answer)
    of = peer.entities(ALTER_PARTITION, version, response=True)
    body = frame[SIZE_BYTES + 5 :]
    read, size = entity_reader(of.AlterPartitionResponse)(body, 0)
    assert size == len(body)
    assert (int(read.error_code), read.throttle_time) == (answer.error, timedelta())
    for told, meant in zip(read.topics, answer.topics, strict=True):
        assert (told.topic_name == meant.name) if version < 2 else (told.topic_id == meant.topic_id)
        for partition, (number, found) in zip(told.partitions, meant.partitions, strict=True):
            assert partition.partition_index == number
            if isinstance(found, ErrorCode):
                assert int(partition.error_code) == found
                continue
            assert (int(partition.error_code), partition.leader_id, partition.leader_epoch) == (0, *found[:2])
            assert (tuple(partition.isr), partition.partition_epoch) == (found.isr, found.partition_epoch)
            assert version < 1 or partition.leader_recovery_state == int(found.recovering)


def test_tagged_fields_are_skipped_wherever_they_stand() -> None:
    tags = b"\x01\x05\x02hi"
    member = b"\x00\x00\x00\x01" + (9).to_bytes(8, "big") + tags
    partition = b"\x00\x00\x00\x04\x00\x00\x00\x03\x02" + member + b"\x01" + b"\x00\x00\x00\x06" + tags
    body = b"\x00\x00\x00\x01" + (9).to_bytes(8, "big") + b"\x02" + bytes(15) + b"\x01\x02" + partition + tags + tags
    read = decode_alter_partition(Cursor(body, place="here"), 3)
    assert read == AlterPartitionRequest(
        1, 9, (TopicIsrChanges(None, UUID(int=1), (IsrChange(4, 3, ((1, 9),), True, 6),)),)
    )


def test_a_topic_without_an_id_has_none() -> None:
    body = b"\x00\x00\x00\x01" + (9).to_bytes(8, "big") + b"\x02" + bytes(16) + b"\x01\x00\x00"
    assert decode_alter_partition(Cursor(body, place="here"), 2).topics == (TopicIsrChanges(None, None, ()),)


@pytest.mark.parametrize("version", range(4))
@given(request=asked, data=st.data())
@peer.FEW
def test_whatever_is_cut_off_or_changed_is_refused_or_read(
    version: int, request: AlterPartitionRequest, data: st.DataObject
) -> None:
    """No bytes raise an error other than FormatError."""
    body = bytearray(by_kio(request, version))
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(FormatError):
        decode_alter_partition(Cursor(bytes(body[:cut]), place="here"), version)
    body[cut] = data.draw(st.integers(0, 255))
    with suppress(FormatError):
        decode_alter_partition(Cursor(bytes(body), place="here", longest=1_000), version)


@pytest.mark.parametrize("place", ["topics", "partitions", "isr"])
def test_a_null_array_is_refused(place: str) -> None:
    head = b"\x00\x00\x00\x01" + (9).to_bytes(8, "big")
    body = {
        "topics": head + b"\x00\x00",
        "partitions": head + b"\x02" + bytes(16) + b"\x00\x00\x00",
        "isr": head + b"\x02" + bytes(16) + b"\x02" + bytes(8) + b"\x00\x00" + bytes(4) + b"\x00\x00\x00",
    }[place]
    for version in (2, 3):
        with pytest.raises(FormatError, match="null"):
            decode_alter_partition(Cursor(body, place="here"), version)
