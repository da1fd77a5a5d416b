"""One connection to a node, for requests that no client would send."""

import socket
import struct
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from shunter.drivers.listener.handlers.messages import filled
from shunter.wire.framing import SIZE_BYTES, read_response_head, request_frame_head, response_header_version
from shunter.wire.requests import encode_message


class RawConnection:
    """Sends bytes; gives whole answers, or None if the other side closes the connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def answer(self) -> bytes | None:
        """The next answer without its size; None if the connection is closed instead."""
        head = self._received(SIZE_BYTES)
        return None if head is None else self._received(struct.unpack(">i", head)[0])

    def ask(self, api_key: int, version: int, values: dict[str, Any]) -> Any:
        """kio's response to a request made of plain values."""
        body = encode_message(filled(load_request_schema(api_key, version), values))
        self.send(request_frame_head(api_key, version, 7, "test", len(body)) + body)
        answer = self.answer()
        assert answer is not None, f"API {api_key} v{version} closed the connection"
        _, offset = read_response_head(answer, response_header_version(api_key, version) or 0)
        response, _ = entity_reader(load_response_schema(api_key, version))(answer, offset)
        return response

    def _received(self, size: int) -> bytes | None:
        received = bytearray()
        try:
            while len(received) < size:
                chunk = self.socket.recv(size - len(received))
                if not chunk:
                    return None
                received += chunk
        except ConnectionResetError:
            return None
        return bytes(received)
