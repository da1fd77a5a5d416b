"""AlterPartitionReassignments (45) and ListPartitionReassignments (46), encoded from and decoded to plain values.

This codec is used instead of kio's for three reasons. The draft of KIP-455 has null topics and null partitions, which
Kafka's schema does not allow. Shunter's tagged fields say how a move is to be done. And clients ask for lists of
thousands of moves every second.

Tagged fields of a response 46, if its request asked for them by tagged field 10003: 10010 original, 10013 target
and 10014 assigned replicas (int32 each, in their order), 10011 phase and 10012 what the move waits for (text).

Tagged fields of a request 45 and of each of its partitions, one byte each: 10000 strategy, 10001 what null replicas
mean, 10002 force. 0 or absent means: in the request as configured, in a partition as in the request. Without tagged
fields and nulls the bytes are those of Kafka's schema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from shunter.errors import ErrorCode, FormatError
from shunter.model.partition import Replicas
from shunter.model.reassignment import Intervention, Strategy
from shunter.wire.answers import error_code
from shunter.wire.primitives import (
    INT8,
    INT16,
    INT32,
    NO_TAGS,
    Cursor,
    array_length,
    compact_int32s,
    nullable_string,
    string,
    unsigned_varint,
)

ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46

TAG_STRATEGY: Final = 10_000
TAG_INTERVENTION: Final = 10_001
TAG_FORCE: Final = 10_002
TAG_DETAILED: Final = 10_003
"""Tagged field of a request 46: asks for a response with the fields of a move that Kafka's schema lacks."""
TAG_ORIGINAL: Final = 10_010
TAG_PHASE: Final = 10_011
TAG_WAITING: Final = 10_012
TAG_TARGET: Final = 10_013
TAG_ASSIGNED: Final = 10_014

_HEAD: Final = struct.Struct(">ih")
_NUMBER_AND_LENGTH: Final = struct.Struct(">iB")
_RESULT_WITHOUT_MESSAGE: Final = struct.Struct(">ihBB")

_Choice = TypeVar("_Choice", bound=IntEnum)


class AlteredPartition(NamedTuple):
    """One partition to reassign; `replicas` None cancels. None in another field means: as the request says."""

    partition: int
    replicas: Replicas | None
    strategy: Strategy | None = None
    intervention: Intervention | None = None
    forced: bool = False


class AlteredTopic(NamedTuple):
    """A topic's partitions to reassign; None cancels every move of the topic (KIP-455's draft)."""

    name: str
    partitions: tuple[AlteredPartition, ...] | None


class AlterReassignmentsRequest(NamedTuple):
    """A request 45; `topics` None cancels all moves of the cluster (KIP-455's draft).

    `changes_factor`: a target may have another number of replicas than its partition (KIP-860); since version 1.
    """

    topics: tuple[AlteredTopic, ...] | None
    timeout_ms: int = 60_000
    strategy: Strategy | None = None
    intervention: Intervention | None = None
    forced: bool = False
    changes_factor: bool = True


class PartitionResult(NamedTuple):
    """The result of one partition of a request 45."""

    partition: int
    error: ErrorCode | int
    message: str | None = None


class TopicResults(NamedTuple):
    """The results of a topic's partitions."""

    name: str
    partitions: tuple[PartitionResult, ...]


class AlterReassignmentsResult(NamedTuple):
    """A response 45. `changes_factor` is the request's; since version 1."""

    error: ErrorCode | int
    message: str | None = None
    topics: tuple[TopicResults, ...] = ()
    throttle_ms: int = 0
    changes_factor: bool = True


class ListReassignmentsRequest(NamedTuple):
    """A request 46: (topic, partitions) to look at; None means all."""

    topics: tuple[tuple[str, tuple[int, ...]], ...] | None
    timeout_ms: int = 60_000
    detailed: bool = False


class MoveDetail(NamedTuple):
    """Fields that Kafka's response 46 lacks. `phase` is a name; `waiting` a sentence, empty if the move does not wait.

    `assigned` are the replicas in the assignment now; `replicas` of Kafka's response has those still to be added too.
    """

    original: Replicas
    target: Replicas
    phase: str
    waiting: str = ""
    assigned: Replicas = ()


class OngoingPartition(NamedTuple):
    """A partition that is being moved, as in a response 46: `adding` and `removing` are subsets of `replicas`."""

    partition: int
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    detail: MoveDetail | None = None


class OngoingTopic(NamedTuple):
    """A topic's partitions that are being moved."""

    name: str
    partitions: tuple[OngoingPartition, ...]


class ListReassignmentsResult(NamedTuple):
    """A response 46."""

    error: ErrorCode | int
    message: str | None = None
    topics: tuple[OngoingTopic, ...] = ()
    throttle_ms: int = 0


def encode_alter_request(request: AlterReassignmentsRequest, version: int = 0) -> bytes:
    """Encode the body of a request 45."""
    parts = [INT32.pack(request.timeout_ms)]
    if version >= 1:
        parts.append(INT8.pack(request.changes_factor))
    if request.topics is None:
        parts.append(b"\x00")
    else:
        parts.append(array_length(len(request.topics), flexible=True))
        for topic in request.topics:
            parts.append(string(topic.name, flexible=True))
            if topic.partitions is None:
                parts.append(b"\x00")
            else:
                parts.append(array_length(len(topic.partitions), flexible=True))
                for one in topic.partitions:
                    parts.append(INT32.pack(one.partition))
                    parts.append(compact_int32s(one.replicas))
                    parts.append(_choice_tags(one.strategy, one.intervention, one.forced))
            parts.append(NO_TAGS)
    parts.append(_choice_tags(request.strategy, request.intervention, request.forced))
    return b"".join(parts)


def decode_alter_request(cursor: Cursor, version: int = 0) -> AlterReassignmentsRequest:
    """Decode the body of a request 45, to its end.

    Raises:
        FormatError: malformed, or one of Shunter's tagged fields has a value without meaning.
    """
    timeout_ms = cursor.int32()
    changes_factor = cursor.int8() != 0 if version >= 1 else True
    count = cursor.array_length(flexible=True, element_bytes=3)
    topics: list[AlteredTopic] | None = None
    if count is not None:
        topics = []
        for _ in range(count):
            name = cursor.string(flexible=True)
            partitions = _altered_partitions(cursor)
            cursor.tags()
            topics.append(AlteredTopic(name, partitions))
    choices = _choices(cursor)
    cursor.finish()
    return AlterReassignmentsRequest(None if topics is None else tuple(topics), timeout_ms, *choices, changes_factor)


def encode_alter_response(result: AlterReassignmentsResult, version: int = 0) -> bytes:
    """Encode the body of a response 45."""
    parts = [
        INT32.pack(result.throttle_ms),
        INT8.pack(result.changes_factor) if version >= 1 else b"",
        INT16.pack(result.error),
        nullable_string(result.message, flexible=True),
        array_length(len(result.topics), flexible=True),
    ]
    for topic in result.topics:
        parts.append(string(topic.name, flexible=True))
        parts.append(array_length(len(topic.partitions), flexible=True))
        for partition, error, message in topic.partitions:
            if message is None:
                parts.append(_RESULT_WITHOUT_MESSAGE.pack(partition, error, 0, 0))
            else:
                parts.append(_HEAD.pack(partition, error) + string(message, flexible=True) + NO_TAGS)
        parts.append(NO_TAGS)
    parts.append(NO_TAGS)
    return b"".join(parts)


def decode_alter_response(cursor: Cursor, version: int = 0) -> AlterReassignmentsResult:
    """Decode the body of a response 45, to its end.

    Raises:
        FormatError: malformed.
    """
    throttle_ms = cursor.int32()
    changes_factor = cursor.int8() != 0 if version >= 1 else True
    error, message = cursor.int16(), cursor.nullable_string(flexible=True)
    topics: list[TopicResults] = []
    for _ in range(cursor.array_length(flexible=True, element_bytes=3) or 0):
        name = cursor.string(flexible=True)
        results: list[PartitionResult] = []
        for _ in range(cursor.array_length(flexible=True, element_bytes=8) or 0):
            partition, code = cursor.int32(), error_code(cursor.int16())
            results.append(PartitionResult(partition, code, cursor.nullable_string(flexible=True)))
            cursor.tags()
        cursor.tags()
        topics.append(TopicResults(name, tuple(results)))
    cursor.tags()
    cursor.finish()
    return AlterReassignmentsResult(error_code(error), message, tuple(topics), throttle_ms, changes_factor)


def encode_list_request(request: ListReassignmentsRequest) -> bytes:
    """Encode the body of a request 46."""
    parts = [INT32.pack(request.timeout_ms)]
    if request.topics is None:
        parts.append(b"\x00")
    else:
        parts.append(array_length(len(request.topics), flexible=True))
        for name, numbers in request.topics:
            parts += (string(name, flexible=True), compact_int32s(numbers), NO_TAGS)
    parts.append(_tags([(TAG_DETAILED, 1)]) if request.detailed else NO_TAGS)
    return b"".join(parts)


def decode_list_request(cursor: Cursor) -> ListReassignmentsRequest:
    """Decode the body of a request 46, to its end.

    Raises:
        FormatError: malformed.
    """
    timeout_ms = cursor.int32()
    count = cursor.array_length(flexible=True, element_bytes=3)
    topics: list[tuple[str, tuple[int, ...]]] | None = None
    if count is not None:
        topics = []
        for _ in range(count):
            name = cursor.string(flexible=True)
            numbers = cursor.filled_compact_int32s()
            cursor.tags()
            topics.append((name, numbers))
    detailed = _byte(cursor, cursor.tags(), TAG_DETAILED, highest=1) == 1
    cursor.finish()
    return ListReassignmentsRequest(None if topics is None else tuple(topics), timeout_ms, detailed)


def encode_list_response(result: ListReassignmentsResult) -> bytes:
    """Encode the body of a response 46."""
    parts = [
        _HEAD.pack(result.throttle_ms, result.error),
        nullable_string(result.message, flexible=True),
        array_length(len(result.topics), flexible=True),
    ]
    for topic in result.topics:
        parts.append(string(topic.name, flexible=True))
        parts.append(array_length(len(topic.partitions), flexible=True))
        for partition, replicas, adding, removing, detail in topic.partitions:
            parts += (
                INT32.pack(partition),
                compact_int32s(replicas),
                compact_int32s(adding),
                compact_int32s(removing),
                NO_TAGS if detail is None else _detail_tags(detail),
            )
        parts.append(NO_TAGS)
    parts.append(NO_TAGS)
    return b"".join(parts)


def decode_list_response(cursor: Cursor) -> ListReassignmentsResult:
    """Decode the body of a response 46, to its end.

    Raises:
        FormatError: malformed.
    """
    throttle_ms, error, message = cursor.int32(), cursor.int16(), cursor.nullable_string(flexible=True)
    topics: list[OngoingTopic] = []
    for _ in range(cursor.array_length(flexible=True, element_bytes=3) or 0):
        name = cursor.string(flexible=True)
        ongoing: list[OngoingPartition] = []
        for _ in range(cursor.array_length(flexible=True, element_bytes=8) or 0):
            partition = cursor.int32()
            replicas, adding, removing = (cursor.compact_int32s() or () for _ in range(3))
            detail = decode_detail(cursor.tags(), cursor.place)
            ongoing.append(OngoingPartition(partition, replicas, adding, removing, detail))
        cursor.tags()
        topics.append(OngoingTopic(name, tuple(ongoing)))
    cursor.tags()
    cursor.finish()
    return ListReassignmentsResult(error_code(error), message, tuple(topics), throttle_ms)


def _altered_partitions(cursor: Cursor) -> tuple[AlteredPartition, ...] | None:
    """Read a topic's partitions, most of which have a short list of replicas and no tags."""
    count = cursor.array_length(flexible=True, element_bytes=6)
    if count is None:
        return None
    partitions: list[AlteredPartition] = []
    data, end = cursor.data, cursor.end
    short = 0
    for _ in range(count):
        offset = cursor.offset
        if end - offset >= 6:
            partition, length = _NUMBER_AND_LENGTH.unpack_from(data, offset)
            if 1 < length < 128 and end - offset >= 6 + 4 * (length - 1):
                *replicas, tags = _replicas_and_tags(length - 1).unpack_from(data, offset + 5)
                if tags == 0:
                    partitions.append(AlteredPartition(partition, tuple(replicas)))
                    cursor.offset = offset + 6 + 4 * (length - 1)
                    short += length - 1
                    continue
        partition = cursor.int32()
        some = cursor.compact_int32s()
        partitions.append(AlteredPartition(partition, some, *_choices(cursor)))
    cursor.take(short)
    return tuple(partitions)


def _detail_tags(detail: MoveDetail) -> bytes:
    fields = (
        (TAG_ORIGINAL, _int32s(detail.original)),
        (TAG_PHASE, detail.phase.encode()),
        (TAG_WAITING, detail.waiting.encode()),
        (TAG_TARGET, _int32s(detail.target)),
        (TAG_ASSIGNED, _int32s(detail.assigned)),
    )
    encoded = [unsigned_varint(tag) + unsigned_varint(len(value)) + value for tag, value in fields]
    return unsigned_varint(len(encoded)) + b"".join(encoded)


def _int32s(replicas: Replicas) -> bytes:
    return struct.pack(f">{len(replicas)}i", *replicas)


def decode_detail(tags: Mapping[int, bytes], place: str) -> MoveDetail | None:
    """Read a move's details from the tagged fields of a response 46; None if the fields are absent.

    Raises:
        FormatError: the fields are there and can't be read.
    """
    if TAG_PHASE not in tags:
        return None
    lists: list[Replicas] = []
    for tag in (TAG_ORIGINAL, TAG_TARGET, TAG_ASSIGNED):
        value = tags.get(tag, b"")
        if len(value) % 4:
            raise FormatError(place, f"tagged field {tag} has {len(value)} bytes: it is a row of int32")
        lists.append(struct.unpack(f">{len(value) // 4}i", value))
    try:
        phase, waiting = (tags.get(tag, b"").decode() for tag in (TAG_PHASE, TAG_WAITING))
    except UnicodeDecodeError:
        raise FormatError(place, f"tagged fields {TAG_PHASE} and {TAG_WAITING} are texts in UTF-8") from None
    return MoveDetail(lists[0], lists[1], phase, waiting, lists[2])


@lru_cache(maxsize=128)
def _replicas_and_tags(count: int) -> struct.Struct:
    return struct.Struct(f">{count}iB")


@lru_cache(maxsize=32)
def _choice_tags(strategy: Strategy | None, intervention: Intervention | None, forced: bool) -> bytes:
    """Encode tagged fields; a choice that is None is left out."""
    chosen = ((TAG_STRATEGY, strategy), (TAG_INTERVENTION, intervention), (TAG_FORCE, 1 if forced else None))
    return _tags((tag, value) for tag, value in chosen if value is not None)


def _tags(chosen: Iterable[tuple[int, int]]) -> bytes:
    encoded = [unsigned_varint(tag) + bytes((1, value)) for tag, value in chosen]
    return unsigned_varint(len(encoded)) + b"".join(encoded)


def _choices(cursor: Cursor) -> tuple[Strategy | None, Intervention | None, bool]:
    """Read Shunter's tagged fields; other tagged fields are skipped (KIP-482)."""
    tags = cursor.tags()
    if not tags:
        return None, None, False
    return (
        _choice(cursor, tags, TAG_STRATEGY, Strategy),
        _choice(cursor, tags, TAG_INTERVENTION, Intervention),
        _byte(cursor, tags, TAG_FORCE, highest=1) == 1,
    )


def _choice(cursor: Cursor, tags: dict[int, bytes], tag: int, meanings: type[_Choice]) -> _Choice | None:
    value = _byte(cursor, tags, tag, highest=max(meanings))
    return None if value == 0 else meanings(value)


def _byte(cursor: Cursor, tags: dict[int, bytes], tag: int, *, highest: int) -> int:
    value = tags.get(tag, b"\x00")
    if len(value) != 1 or value[0] > highest:
        raise cursor.refuse(f"tagged field {tag} is {value.hex()}: it is one byte from 0 to {highest}")
    return value[0]
