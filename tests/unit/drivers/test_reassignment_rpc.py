"""RPC 45 and 46 over a short connection: every failure is a DriverError, as callers were promised."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shunter.drivers.reassignment_rpc import alter_reassignments, list_reassignments
from shunter.errors import DriverError, ErrorCode
from shunter.wire.reassignments import (
    AlterReassignmentsRequest,
    ListReassignmentsResult,
    encode_list_response,
)

HEAD = struct.pack(">ib", 1, 0)
"""Correlation id and no tags: the header of both answers."""
ASKS: list[Callable[[int], Any]] = [
    lambda port: alter_reassignments("127.0.0.1", port, AlterReassignmentsRequest(()), timeout_s=10),
    lambda port: list_reassignments("127.0.0.1", port, timeout_s=10),
]


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], int]]:
    """Serve one connection with these bytes as the payload of the answer; return the port."""
    threads: list[threading.Thread] = []

    def serve(payload: bytes) -> int:
        listening = socket.create_server(("127.0.0.1", 0))

        def answer() -> None:
            with listening, listening.accept()[0] as connection:
                (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                connection.recv(size, socket.MSG_WAITALL)
                connection.sendall(struct.pack(">i", len(payload)) + payload)

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return int(listening.getsockname()[1])

    yield serve
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("payload", [b"", HEAD, HEAD + b"\0" * 7, HEAD + b"\xff" * 40])
def test_an_answer_that_can_t_be_read_is_a_driver_error(
    answering: Callable[[bytes], int], ask: Callable[[int], Any], payload: bytes
) -> None:
    with pytest.raises(DriverError, match="the answer can't be read: 127"):
        ask(answering(payload))


@pytest.mark.parametrize("ask", ASKS)
def test_a_controller_that_is_not_there_is_a_driver_error(ask: Callable[[int], Any], free_port: int) -> None:
    with pytest.raises(DriverError, match=r"did not answer: .*refused") as refused:
        ask(free_port)
    assert refused.value.retriable


def test_an_answer_is_read(answering: Callable[[bytes], int]) -> None:
    result = ListReassignmentsResult(ErrorCode.NONE)
    assert list_reassignments("127.0.0.1", answering(HEAD + encode_list_response(result))) == result
