"""RPC 45 and 46 over one short connection, with the tagged fields and nulls that no published client can send."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TypeVar

from shunter.errors import DriverError, ErrorCode, FormatError
from shunter.wire.framing import (
    SIZE_BYTES,
    frame_length,
    read_response_head,
    request_frame_head,
    response_header_version,
)
from shunter.wire.primitives import Cursor
from shunter.wire.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterReassignmentsRequest,
    AlterReassignmentsResult,
    ListReassignmentsRequest,
    ListReassignmentsResult,
    decode_alter_response,
    decode_list_response,
    encode_alter_request,
    encode_list_request,
)

Answer = TypeVar("Answer")

ANSWER_BYTES_AT_MOST = 104_857_600
CLIENT_ID = "shunter"


def alter_reassignments(
    host: str, port: int, request: AlterReassignmentsRequest, *, timeout_s: float = 70.0
) -> AlterReassignmentsResult:
    """Send RPC 45 to the controller at `host`:`port`.

    Raises:
        DriverError: it can't be reached, did not answer within `timeout_s`, or its answer can't be read.
    """
    asked = encode_alter_request(request)
    return _ask(host, port, ALTER_PARTITION_REASSIGNMENTS, asked, timeout_s, decode_alter_response)


def list_reassignments(host: str, port: int, *, timeout_s: float = 30.0) -> ListReassignmentsResult:
    """Ask the controller at `host`:`port` for all moves (RPC 46), with the fields that only Shunter's controller sends.

    Raises:
        DriverError: as `alter_reassignments`, or the controller answered with an error.
    """
    everything = encode_list_request(ListReassignmentsRequest(None, detailed=True))
    result = _ask(host, port, LIST_PARTITION_REASSIGNMENTS, everything, timeout_s, decode_list_response)
    if result.error is not ErrorCode.NONE:
        raise DriverError(f"{host}:{port} refuses to list moves: {result.error!r} {result.message}", retriable=True)
    return result


def _ask(
    host: str, port: int, api_key: int, body: bytes, timeout_s: float, decode: Callable[[Cursor], Answer]
) -> Answer:
    place = f"{host}:{port}"
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(request_frame_head(api_key, 0, 1, CLIENT_ID, len(body)) + body)
            size = frame_length(_receive(connection, SIZE_BYTES), ANSWER_BYTES_AT_MOST, place)
            payload = _receive(connection, size)
        header_version = response_header_version(api_key, 0) or 0
        _, offset = read_response_head(payload, header_version, place)
        return decode(Cursor(payload, place=place, offset=offset))
    except OSError as error:
        raise DriverError(f"{place} did not answer: {error}", retriable=True) from error
    except FormatError as error:
        raise DriverError(f"the answer can't be read: {error}", retriable=True) from error


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError("the connection was closed in the middle of an answer")
        received += chunk
    return bytes(received)
