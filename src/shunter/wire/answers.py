"""Brokers' answers to the controller's requests.

An answer to a LeaderAndIsr of 1,500 partitions nearly always has 1,500 error codes of zero. So zeros are counted by
slices: a partition takes seven bytes, and every seventh byte of the answer is compared at once.

Source: Apache Kafka 3.9, message schemas of LeaderAndIsr, UpdateMetadata and StopReplica responses.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from shunter.errors import ErrorCode, InvariantViolation
from shunter.model.partition import TopicPartition
from shunter.wire.framing import response_header_version
from shunter.wire.primitives import Cursor
from shunter.wire.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

PartitionErrors = dict[TopicPartition, ErrorCode | int]

_ENTRY: Final = struct.Struct(">ihb")
_KNOWN_CODES: Final = {code.value: code for code in ErrorCode}
_FIRST_FLEXIBLE: Final = {LEADER_AND_ISR: 4, STOP_REPLICA: 2, UPDATE_METADATA: 6}


def error_code(value: int) -> ErrorCode | int:
    """Return the `ErrorCode` of a number; a number without a name in `ErrorCode` stays a number."""
    return _KNOWN_CODES.get(value, value)


def decode_control_response(
    api_key: int, version: int, payload: bytes | memoryview, topic_names: Callable[[], Mapping[UUID, str]]
) -> tuple[int, ErrorCode | int, PartitionErrors]:
    """Decode a response without its size: (correlation id, error, partitions with an error).

    Args:
        api_key: of the request that is answered: 4, 5 or 6.
        version: of that request.
        payload: header and body.
        topic_names: returns names by id, for LeaderAndIsr from version 5 on; called only if a partition has an error.
            An error of an unknown id is left out: its topic was deleted, so nothing can be done about the error.

    Raises:
        FormatError: malformed.
        InvariantViolation: not a control request's API, or a version that kio does not know.
    """
    header_version = response_header_version(api_key, version)
    if api_key not in _FIRST_FLEXIBLE or header_version is None:
        raise InvariantViolation("control requests are LeaderAndIsr, StopReplica, UpdateMetadata", api_key=api_key)
    flexible = version >= _FIRST_FLEXIBLE[api_key]
    cursor = Cursor(payload, place=f"response to API {api_key} v{version}")
    correlation_id = cursor.int32()
    if header_version >= 1:
        cursor.tags()
    error = error_code(cursor.int16())
    errors: PartitionErrors = {}
    if api_key == LEADER_AND_ISR and version >= 5:
        _read_topics(cursor, topic_names, errors)
    elif api_key != UPDATE_METADATA:
        _read_named_partitions(cursor, errors, flexible=flexible)
    if flexible:
        cursor.tags()
    cursor.finish()
    return correlation_id, error, errors


def _read_named_partitions(cursor: Cursor, errors: PartitionErrors, *, flexible: bool) -> None:
    """Read entries each of which names its topic."""
    count = cursor.array_length(flexible=flexible, element_bytes=8) or 0
    for _ in range(count):
        name = cursor.string(flexible=flexible)
        number = cursor.int32()
        code = cursor.int16()
        if flexible:
            cursor.tags()
        if code:
            errors[TopicPartition(name, number)] = error_code(code)


def _read_topics(cursor: Cursor, topic_names: Callable[[], Mapping[UUID, str]], errors: PartitionErrors) -> None:
    """Read entries grouped by topic id."""
    names: Mapping[UUID, str] | None = None
    remaining = cursor.array_length(flexible=True, element_bytes=18) or 0
    data = bytes(cursor.data)
    while remaining:
        remaining -= _skip_quiet_topics(cursor, data, remaining)
        if not remaining:
            return
        remaining -= 1
        identity = cursor.skip(16)
        failed = _read_partitions(cursor)
        cursor.tags()
        if failed:
            names = topic_names() if names is None else names
            name = names.get(UUID(bytes=data[identity : identity + 16]))
            if name is not None:
                errors.update((TopicPartition(name, number), error_code(code)) for number, code in failed)


def _skip_quiet_topics(cursor: Cursor, data: bytes, most: int) -> int:
    """Skip topics without an error, up to the first topic that has an error, or is too long or too unusual to compare.

    Returns:
        How many topics were skipped.
    """
    offset = cursor.offset
    last = len(data) - 1
    passed = 0
    while passed < most:
        count = data[offset + 16] - 1 if offset + 16 <= last else -1
        end = offset + 17 + _ENTRY.size * count
        if not 0 <= count < 127 or end > last or data[end]:
            break
        # Bytes 4 and 5 of an entry are its error code, and byte 6 is the number of its tagged fields.
        codes = data[offset + 21 : end : 7] + data[offset + 22 : end : 7] + data[offset + 23 : end : 7]
        if codes.count(0) != 3 * count:
            break
        offset = end + 1
        passed += 1
    cursor.offset = offset
    return passed


def _read_partitions(cursor: Cursor) -> list[tuple[int, int]]:
    """Read one topic's entries: (number, code) of the partitions whose code is not zero."""
    count = cursor.array_length(flexible=True, element_bytes=_ENTRY.size) or 0
    start = cursor.offset
    entries = bytes(cursor.data[start : start + count * _ENTRY.size])
    if entries[6::7].count(0) == count:
        cursor.skip(len(entries))
        if entries[4::7].count(0) == count and entries[5::7].count(0) == count:
            return []
        return [(number, code) for number, code, _ in _ENTRY.iter_unpack(entries) if code]
    failed: list[tuple[int, int]] = []
    for _ in range(count):
        number, code = cursor.int32(), cursor.int16()
        cursor.tags()
        if code:
            failed.append((number, code))
    return failed
