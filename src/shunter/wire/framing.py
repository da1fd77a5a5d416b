"""Frames and headers of requests and responses.

A frame is an int32 size and that many bytes. Request header v1 is key, version, correlation id and client id. v2 adds
tagged fields (the client id keeps its legacy form). v0 has no client id; only ControlledShutdown v0 uses it. Response
header v0 is the correlation id; v1 adds tagged fields. Responses to ApiVersions have header v0 in all versions.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final, NamedTuple, cast

from kio.index import KioIndexError, load_request_schema, load_response_schema

from shunter.errors import FormatError
from shunter.wire.primitives import INT32, NO_TAGS, Cursor, nullable_string

SIZE_BYTES: Final = 4
_FIXED_HEAD: Final = struct.Struct(">hhi")
_SIZED_CORRELATION: Final = struct.Struct(">ii")


class RequestHead(NamedTuple):
    """A request's header. `body_offset` is where the body begins; None if kio does not know the API or the version."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_offset: int | None


NEWER: Final = frozenset({(45, 1)})
"""APIs and versions that kio's release for ZooKeeper mode does not have. They are flexible."""


@cache
def request_header_version(api_key: int, version: int) -> int | None:
    """Return the header version of a request; None for an API or version that kio and this package do not know."""
    if (api_key, version) in NEWER:
        return 2
    try:
        schema = load_request_schema(api_key, version)
    except KioIndexError:
        return None
    return int(cast("int", schema.__header_schema__.__version__))


@cache
def response_header_version(api_key: int, version: int) -> int | None:
    """Return the header version of a response; None for an API or version that kio and this package do not know."""
    if (api_key, version) in NEWER:
        return 1
    try:
        schema = load_response_schema(api_key, version)
    except KioIndexError:
        return None
    return int(cast("int", schema.__header_schema__.__version__))


def frame_length(prefix: bytes | bytearray | memoryview, limit: int, place: str = "frame") -> int:
    """Read a frame's size from its first four bytes.

    Raises:
        FormatError: negative, or above `limit` bytes.
    """
    (length,) = INT32.unpack_from(prefix)
    if not 0 <= length <= limit:
        raise FormatError(place, f"a frame of {length} bytes, and it must be from 0 to {limit}")
    return int(length)


def split_frames(buffer: bytearray, limit: int, place: str = "frame") -> list[bytes]:
    """Take the complete frames out of `buffer`, without their size prefixes. An incomplete frame stays in the buffer.

    Raises:
        FormatError: a frame is malformed; the buffer is left as it was.
    """
    frames: list[bytes] = []
    offset = 0
    with memoryview(buffer) as view:
        while len(view) - offset >= SIZE_BYTES:
            end = offset + SIZE_BYTES + frame_length(view[offset : offset + SIZE_BYTES], limit, place)
            if end > len(view):
                break
            frames.append(bytes(view[offset + SIZE_BYTES : end]))
            offset = end
    del buffer[:offset]
    return frames


def request_frame_head(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body_length: int
) -> bytes:
    """Encode size and header of a request apart from its body, so that one body serves every broker.

    Args:
        api_key: of the request.
        version: of the request.
        correlation_id: the response returns it.
        client_id: may be null.
        body_length: bytes of the body that follows.

    Raises:
        FormatError: an API or version that kio does not know.
    """
    header_version = request_header_version(api_key, version)
    if header_version is None:
        raise FormatError("request", f"API {api_key} has no version {version}")
    header = _FIXED_HEAD.pack(api_key, version, correlation_id)
    if header_version >= 1:
        header += nullable_string(client_id, flexible=False)
    if header_version >= 2:
        header += NO_TAGS
    return INT32.pack(len(header) + body_length) + header


def response_frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Encode a whole response with size and header.

    Raises:
        FormatError: an API or version that kio does not know.
    """
    return response_frame_head(api_key, version, correlation_id, len(body)) + body


def response_frame_head(api_key: int, version: int, correlation_id: int, body_length: int) -> bytes:
    """Encode size and header of a response whose body has `body_length` bytes.

    Raises:
        FormatError: an API or version that kio does not know.
    """
    header_version = response_header_version(api_key, version)
    if header_version is None:
        raise FormatError("response", f"API {api_key} has no version {version}")
    tags = NO_TAGS if header_version >= 1 else b""
    return _SIZED_CORRELATION.pack(4 + len(tags) + body_length, correlation_id) + tags


def read_request_head(frame: bytes | memoryview, place: str = "request") -> RequestHead:
    """Read a request's header from a frame without its size.

    Key, version and correlation id stand at the same place in every header. So they are returned even where the rest of
    the header can't be read because API or version are unknown.

    Raises:
        FormatError: too short, a client id that is not UTF-8, tags that run past the end.
    """
    if len(frame) < _FIXED_HEAD.size:
        raise FormatError(place, f"{len(frame)} bytes are no request, which begins with a header of at least 8")
    api_key, version, correlation_id = _FIXED_HEAD.unpack_from(frame)
    header_version = request_header_version(api_key, version)
    if header_version is None:
        return RequestHead(api_key, version, correlation_id, None, None)
    cursor = Cursor(frame, place=place, offset=_FIXED_HEAD.size)
    client_id = cursor.nullable_string(flexible=False) if header_version >= 1 else None
    if header_version >= 2:
        cursor.tags()
    return RequestHead(api_key, version, correlation_id, client_id, cursor.offset)


def read_response_head(payload: bytes | memoryview, header_version: int, place: str = "response") -> tuple[int, int]:
    """Read (correlation id, offset of the body) of a response without its size."""
    cursor = Cursor(payload, place=place)
    correlation_id = cursor.int32()
    if header_version >= 1:
        cursor.tags()
    return correlation_id, cursor.offset


def restamp_request(frame: bytes | memoryview, correlation_id: int) -> bytes:
    """Replace the correlation id of a request that is relayed. The result begins with the size prefix."""
    if len(frame) < _FIXED_HEAD.size:
        raise FormatError("request", f"{len(frame)} bytes are no request, which begins with a header of at least 8")
    return b"".join((INT32.pack(len(frame)), frame[:4], INT32.pack(correlation_id), frame[8:]))


def restamp_response(payload: bytes | memoryview, correlation_id: int) -> bytes:
    """Put the caller's correlation id into a response that is relayed. The result begins with the size prefix."""
    if len(payload) < SIZE_BYTES:
        raise FormatError("response", f"{len(payload)} bytes are no response, which begins with a correlation id")
    return b"".join((_SIZED_CORRELATION.pack(len(payload), correlation_id), payload[4:]))
