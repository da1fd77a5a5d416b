"""AlterPartition (56): the controller reads requests into plain values, and encodes answers from plain values.

This codec is used instead of kio's because it is faster: each replica that joins or leaves an ISR is one request.

Source: Apache Kafka 3.9, `AlterPartitionRequest.json` and `AlterPartitionResponse.json`: versions 0 to 3, all flexible.
Version 1 added recovery states, 2 topic ids in place of names, 3 the epochs of the ISR's brokers.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from shunter.errors import ErrorCode
from shunter.model.partition import BrokerId, LeaderAndIsr
from shunter.wire.primitives import (
    NO_TAGS,
    Cursor,
    array_length,
    compact_int32s,
    string,
    uuid,
)

ALTER_PARTITION: Final = 56
RECOVERY_SINCE: Final = 1
TOPIC_IDS_SINCE: Final = 2
ISR_EPOCHS_SINCE: Final = 3

_HEAD: Final = struct.Struct(">iq")
_PARTITION: Final = struct.Struct(">ii")
_MEMBER: Final = struct.Struct(">iqB")
_END: Final = struct.Struct(">iB")
_END_WITH_RECOVERY: Final = struct.Struct(">biB")
_RESULT_HEAD: Final = struct.Struct(">ih")
_RESULT: Final = struct.Struct(">ihii")

IsrResult: TypeAlias = LeaderAndIsr | ErrorCode
"""The leadership after the change, or the error that the change was refused with."""


class IsrChange(NamedTuple):
    """The ISR that a partition's leader asks for: `isr` has broker ids and broker epochs (-1 below version 3)."""

    partition: int
    leader_epoch: int
    isr: tuple[tuple[BrokerId, int], ...]
    recovering: bool
    partition_epoch: int


class TopicIsrChanges(NamedTuple):
    """Changes of one topic's partitions. A version has either the topic's name or its id; the other field is None."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[IsrChange, ...]


class AlterPartitionRequest(NamedTuple):
    """A request 56."""

    broker_id: BrokerId
    broker_epoch: int
    topics: tuple[TopicIsrChanges, ...]


class TopicIsrResults(NamedTuple):
    """Results of one topic's partitions, by their numbers. The topic is named as in the request."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[tuple[int, IsrResult], ...]


class AlterPartitionResult(NamedTuple):
    """A response 56."""

    error: ErrorCode
    topics: tuple[TopicIsrResults, ...] = ()
    throttle_ms: int = 0


def decode_alter_partition(cursor: Cursor, version: int) -> AlterPartitionRequest:
    """Decode the body of a request 56, to its end.

    Raises:
        FormatError: malformed.
    """
    broker_id, broker_epoch = _HEAD.unpack_from(cursor.data, cursor.skip(_HEAD.size))
    topics: list[TopicIsrChanges] = []
    for _ in range(cursor.filled_array_length(flexible=True, element_bytes=3)):
        name, topic_id = None, None
        if version < TOPIC_IDS_SINCE:
            name = cursor.string(flexible=True)
        else:
            told = cursor.uuid()
            topic_id = told if told.int else None
        count = cursor.filled_array_length(flexible=True, element_bytes=14)
        changes = tuple(_change(cursor, version) for _ in range(count))
        cursor.tags()
        topics.append(TopicIsrChanges(name, topic_id, changes))
    cursor.tags()
    cursor.finish()
    return AlterPartitionRequest(broker_id, broker_epoch, tuple(topics))


def encode_alter_partition_result(result: AlterPartitionResult, version: int) -> bytes:
    """Encode the body of a response 56."""
    parts = [
        _RESULT_HEAD.pack(result.throttle_ms, result.error),
        array_length(len(result.topics), flexible=True),
    ]
    for name, topic_id, partitions in result.topics:
        parts.append(string(name or "", flexible=True) if version < TOPIC_IDS_SINCE else uuid(topic_id))
        parts.append(array_length(len(partitions), flexible=True))
        parts += [_result(number, found, version) for number, found in partitions]
        parts.append(NO_TAGS)
    parts.append(NO_TAGS)
    return b"".join(parts)


def _change(cursor: Cursor, version: int) -> IsrChange:
    number, leader_epoch = _PARTITION.unpack_from(cursor.data, cursor.skip(_PARTITION.size))
    if version >= ISR_EPOCHS_SINCE:
        count = cursor.filled_array_length(flexible=True, element_bytes=_MEMBER.size)
        isr = tuple(_member(cursor) for _ in range(count))
    else:
        isr = tuple((member, -1) for member in cursor.filled_compact_int32s())
    recovering = cursor.int8() == 1 if version >= RECOVERY_SINCE else False
    partition_epoch = cursor.int32()
    cursor.tags()
    return IsrChange(number, leader_epoch, isr, recovering, partition_epoch)


def _member(cursor: Cursor) -> tuple[BrokerId, int]:
    broker, epoch, tags = _MEMBER.unpack_from(cursor.data, cursor.skip(_MEMBER.size))
    if tags:
        cursor.offset -= 1
        cursor.tags()
    return broker, epoch


def _result(number: int, found: IsrResult, version: int) -> bytes:
    if isinstance(found, ErrorCode):
        head, isr, recovering, partition_epoch = _RESULT.pack(number, found, 0, 0), b"\x01", False, 0
    else:
        head = _RESULT.pack(number, ErrorCode.NONE, found.leader, found.leader_epoch)
        isr, recovering, partition_epoch = compact_int32s(found.isr), found.recovering, found.partition_epoch
    if version >= RECOVERY_SINCE:
        return head + isr + _END_WITH_RECOVERY.pack(recovering, partition_epoch, 0)
    return head + isr + _END.pack(partition_epoch, 0)
