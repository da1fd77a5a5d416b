"""Requests of clients, tools and brokers to the controller, and its responses.

Requests of the APIs in `SERVED` are decoded: to kio's entities, or for 45, 46 and 56 to the values of `reassignments`
and `alter_partition`. Any other request stays as bytes, for a live broker to answer.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final, NamedTuple

from kio.index import load_payload_module, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.constants import EntityType

from shunter.errors import ErrorCode, FormatError, InvariantViolation, RequestRejected
from shunter.model.features import SHUNTER_FEATURE
from shunter.model.settings import WireLimits
from shunter.wire.alter_partition import (
    ALTER_PARTITION,
    AlterPartitionResult,
    decode_alter_partition,
    encode_alter_partition_result,
)
from shunter.wire.framing import (
    SIZE_BYTES,
    read_request_head,
    read_response_head,
    response_frame,
    response_header_version,
)
from shunter.wire.guard import look_over
from shunter.wire.primitives import Cursor
from shunter.wire.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterReassignmentsResult,
    ListReassignmentsResult,
    decode_alter_request,
    decode_list_request,
    encode_alter_response,
    encode_list_response,
)

METADATA: Final = 3
CONTROLLED_SHUTDOWN: Final = 7
FIND_COORDINATOR: Final = 10
LIST_GROUPS: Final = 16
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
ALTER_REPLICA_LOG_DIRS: Final = 34
DESCRIBE_LOG_DIRS: Final = 35
SASL_AUTHENTICATE: Final = 36
CREATE_PARTITIONS: Final = 37
ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_USER_SCRAM_CREDENTIALS: Final = 51
UPDATE_FEATURES: Final = 57
DESCRIBE_CLUSTER: Final = 60
LIST_TRANSACTIONS: Final = 66
ALLOCATE_PRODUCER_IDS: Final = 67

SERVED: Final[Mapping[int, tuple[int, int]]] = {
    METADATA: (0, 12),
    CONTROLLED_SHUTDOWN: (0, 3),
    FIND_COORDINATOR: (0, 6),
    LIST_GROUPS: (0, 5),
    SASL_HANDSHAKE: (0, 1),
    API_VERSIONS: (0, 4),
    CREATE_TOPICS: (0, 7),
    DELETE_TOPICS: (0, 6),
    DESCRIBE_CONFIGS: (0, 4),
    ALTER_CONFIGS: (0, 2),
    ALTER_REPLICA_LOG_DIRS: (0, 2),
    DESCRIBE_LOG_DIRS: (0, 4),
    SASL_AUTHENTICATE: (0, 2),
    CREATE_PARTITIONS: (0, 3),
    ELECT_LEADERS: (0, 2),
    INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ALTER_PARTITION: (0, 3),
    UPDATE_FEATURES: (0, 1),
    DESCRIBE_CLUSTER: (0, 1),
    LIST_TRANSACTIONS: (0, 1),
    ALLOCATE_PRODUCER_IDS: (0, 0),
}
"""API key -> (lowest, highest) version: the versions that Kafka 3.9 serves in ZooKeeper mode and that kio can read.

Request 45 has version 1 too, as later clients send it (KIP-860)."""

_OURS: Final[Mapping[int, Callable[[Cursor, int], Any]]] = {
    ALTER_PARTITION_REASSIGNMENTS: decode_alter_request,
    LIST_PARTITION_REASSIGNMENTS: lambda cursor, _: decode_list_request(cursor),
    ALTER_PARTITION: decode_alter_partition,
}
"""Decoders of the APIs that kio does not decode."""

FEATURE_VERSIONS: Final = (1, 1)
"""Lowest and highest version of `SHUNTER_FEATURE`."""

_READ_ERRORS: Final = (SerialError, ValueError, KeyError, TypeError, OverflowError)


class ParsedRequest(NamedTuple):
    """A request. `message` is kio's entity of that API and version, or a value of `reassignments`, `alter_partition`.

    `message` is None where the API is not in `SERVED`; `frame`, the request without its size, can then be relayed.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Any
    frame: bytes


class UnsupportedVersionError(RequestRejected):
    """A version that is not served, of an API that is. Carries what an answer needs."""

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        lowest, highest = SERVED[api_key]
        super().__init__(
            ErrorCode.UNSUPPORTED_VERSION,
            f"version {version} of API {api_key} is not served: it must be from {lowest} to {highest}",
        )


def decode_request(frame: bytes | memoryview, limits: WireLimits, place: str = "request") -> ParsedRequest:
    """Decode a request without its size.

    Args:
        frame: header and body.
        limits: no array may be longer than `array_length`; all arrays together may have four times as many elements.
        place: named in errors, for instance the peer's address.

    Raises:
        FormatError: malformed; the connection can't be used any further.
        UnsupportedVersionError: see `encode_unsupported_version`.
    """
    data = bytes(frame)
    if len(data) > limits.frame_bytes:
        raise FormatError(place, f"a frame of {len(data)} bytes, and the limit is {limits.frame_bytes}")
    head = read_request_head(data, place)
    api_key, version, correlation_id, client_id, body_offset = head
    if api_key not in SERVED:
        return ParsedRequest(api_key, version, correlation_id, client_id, None, data)
    lowest, highest = SERVED[api_key]
    if not lowest <= version <= highest or body_offset is None:
        raise UnsupportedVersionError(api_key, version, correlation_id)
    place = f"{place}, API {api_key} v{version}"
    message: Any
    if api_key in _OURS:
        message = _OURS[api_key](Cursor(data, place=place, offset=body_offset, longest=limits.array_length), version)
    else:
        schema = load_request_schema(api_key, version)
        message = _read_by_kio(schema, data, body_offset, longest=limits.array_length, place=place)
    return ParsedRequest(api_key, version, correlation_id, client_id, message, data)


def _read_by_kio(schema: Any, data: bytes, offset: int, *, longest: int, place: str) -> Any:
    body, start = look_over(schema, data, offset, longest, place)
    try:
        message, _ = reader_of(schema)(body, start)
    except _READ_ERRORS as error:
        raise FormatError(place, f"{type(error).__name__}: {error}") from error
    return message


@cache
def reader_of(schema: Any) -> Any:
    """Return kio's reader of a schema: (bytes, offset) -> (entity, bytes read). It is made once per schema."""
    return entity_reader(schema)


def encode_message(message: Any) -> bytes:
    """Encode one of kio's entities."""
    entity: Any = message.__class__
    with io.BytesIO() as buffer:
        entity_writer(entity)(buffer, message)
        return buffer.getvalue()


def decode_response(parsed: ParsedRequest, frame: bytes | memoryview) -> Any:
    """Decode a broker's answer to a request.

    Args:
        parsed: the request.
        frame: the answer, with its size.

    Raises:
        FormatError: the header can't be read. For a malformed body kio raises errors of many kinds.
    """
    payload = memoryview(frame)[SIZE_BYTES:]
    _, offset = read_response_head(payload, response_header_version(parsed.api_key, parsed.version) or 0)
    response, _ = reader_of(response_entity(parsed))(payload, offset)
    return response


def encode_response(parsed: ParsedRequest, message: Any) -> bytes:
    """Encode the answer to a request, with size and header.

    Args:
        parsed: the request.
        message: kio's response entity of the SAME API and version, a result of `reassignments` or `alter_partition`, or
            a body as bytes.

    Raises:
        InvariantViolation: the message answers another API or version.
    """
    if isinstance(message, bytes):
        body = message
    elif isinstance(message, AlterReassignmentsResult) and parsed.api_key == ALTER_PARTITION_REASSIGNMENTS:
        body = encode_alter_response(message, parsed.version)
    elif isinstance(message, ListReassignmentsResult) and parsed.api_key == LIST_PARTITION_REASSIGNMENTS:
        body = encode_list_response(message)
    elif isinstance(message, AlterPartitionResult) and parsed.api_key == ALTER_PARTITION:
        body = encode_alter_partition_result(message, parsed.version)
    elif isinstance(message, response_entity(parsed)):
        body = encode_message(message)
    else:
        raise InvariantViolation(
            "a response is of its request's API and version",
            api_key=parsed.api_key,
            version=parsed.version,
            message=repr(message)[:200],
        )
    return response_frame(parsed.api_key, parsed.version, parsed.correlation_id, body)


def response_entity(parsed: ParsedRequest) -> Any:
    """Return kio's entity class for the response to a request."""
    return load_response_schema(parsed.api_key, parsed.version)


def response_module(api_key: int, version: int) -> Any:
    """Return kio's module that has a response's entity and all entities within it."""
    return load_payload_module(api_key, version, EntityType.response)


def api_versions_message(version: int, ranges: Mapping[int, tuple[int, int]], error: ErrorCode = ErrorCode.NONE) -> Any:
    """Make the response to ApiVersions.

    From version 3 on the response lists the feature `shunter`; older versions have no field for features.

    Args:
        version: of the request.
        ranges: API key -> (lowest, highest): `SERVED`, and the APIs that can be relayed.
        error: UNSUPPORTED_VERSION together with version 0, if the version of the request is not served.
    """
    of = response_module(API_VERSIONS, version)
    fields: dict[str, Any] = {
        "error_code": KioErrorCode(int(error)),
        "api_keys": tuple(
            of.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in sorted(ranges.items())
        ),
    }
    if version >= 1:
        fields["throttle_time"] = timedelta()
    if version >= 3:
        lowest, highest = FEATURE_VERSIONS
        fields["supported_features"] = (
            of.SupportedFeatureKey(name=SHUNTER_FEATURE, min_version=lowest, max_version=highest),
        )
    return of.ApiVersionsResponse(**fields)


def encode_unsupported_version(refused: UnsupportedVersionError) -> bytes | None:
    """Encode the answer to a version that is not served, as Kafka does.

    ApiVersions is answered in version 0, with the error and the range of ApiVersions, so that the client can try again.
    For any other API there is no format that both sides know: None says to close the connection, as Kafka does.
    """
    if refused.api_key != API_VERSIONS:
        return None
    own = {API_VERSIONS: SERVED[API_VERSIONS]}
    message = api_versions_message(0, own, ErrorCode.UNSUPPORTED_VERSION)
    return response_frame(API_VERSIONS, 0, refused.correlation_id, encode_message(message))
