"""One simulated broker: its listener, its registration's epoch, and the fence."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.testbed.ports import LOOPBACK
from lab.testbed.simulated_brokers.messages import (
    API_VERSIONS,
    SERVED,
    PartitionTold,
    api_versions,
    read_control_head,
    read_leadership,
    read_stopped,
    refused,
)
from shunter.errors import ErrorCode
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import BrokerId, TopicPartition
from shunter.wire.framing import read_request_head, response_frame
from shunter.wire.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA


@dataclass(frozen=True, slots=True)
class Heard:
    """A control request at a broker: when it was complete, on the monotonic clock, and its size in bytes."""

    at_s: float
    broker: BrokerId
    api_key: int
    size: int


@dataclass(slots=True)
class Tally:
    """Control requests and their bytes, by API; refusals by error."""

    requests: dict[int, int] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)
    refusals: dict[int, int] = field(default_factory=dict)
    first_s: float = 0.0
    last_s: float = 0.0

    def note(self, heard: Heard) -> None:
        """Count a control request."""
        self.requests[heard.api_key] = self.requests.get(heard.api_key, 0) + 1
        self.bytes[heard.api_key] = self.bytes.get(heard.api_key, 0) + heard.size
        self.first_s = self.first_s or heard.at_s
        self.last_s = heard.at_s


@dataclass(slots=True)
class Ears:
    """Callbacks for accepted control requests. Metadata is passed on undecoded, because it is the bulk of all bytes."""

    metadata: Callable[[PretendedBroker, Heard, int, memoryview], None]
    leadership: Callable[[PretendedBroker, Heard, list[PartitionTold]], None]
    stopped: Callable[[PretendedBroker, list[tuple[TopicPartition, bool]]], None]


class PretendedBroker:
    """One broker. It fences control requests as a real broker does.

    A controller epoch older than the newest that it has seen is refused with error 11, a broker epoch below its own
    with error 77. A greater broker epoch is accepted (the premise of the KIP on the max broker epoch).
    """

    def __init__(self, broker_id: BrokerId, ears: Ears, tally: Tally) -> None:
        self.id = broker_id
        self.epoch = 0
        self.alive = False
        self.controller_epoch = 0
        self.epoch_heard = 0
        """The BrokerEpoch of the newest control request, accepted or refused."""
        self._ears = ears
        self._tally = tally
        self._server: asyncio.Server | None = None
        self._port = 0
        self._talks: set[_Talk] = set()

    @property
    def registration(self) -> Broker:
        """The content of its registration."""
        return Broker(self.id, self.epoch, (Endpoint("PLAINTEXT", "PLAINTEXT", LOOPBACK, self._port),))

    async def listen(self) -> None:
        """Open the port: the same one after a restart, if it is still free."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Talk(self), LOOPBACK, self._port)
        except OSError:
            self._server = await loop.create_server(lambda: _Talk(self), LOOPBACK, 0)
        self._port = int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Stop as if killed: close the port and cut every connection."""
        self.alive = False
        if self._server is not None:
            self._server.close()
            self._server = None
        for talk in tuple(self._talks):
            talk.abort()

    def joined(self, talk: _Talk) -> None:
        """A connection was made."""
        self._talks.add(talk)

    def left(self, talk: _Talk) -> None:
        """A connection ended."""
        self._talks.discard(talk)

    def answer(self, frame: memoryview) -> bytes:
        """Handle one request (a frame without its size), and return the response frame."""
        head = read_request_head(frame)
        if head.api_key == API_VERSIONS:
            version = head.version if head.version <= SERVED[API_VERSIONS][1] else 0
            return response_frame(API_VERSIONS, version, head.correlation_id, api_versions(version))
        if head.body_offset is None or head.api_key not in SERVED:
            raise ValueError(f"broker {self.id} does not serve API {head.api_key} v{head.version}")
        body = self._take(head.api_key, head.version, frame, head.body_offset)
        return response_frame(head.api_key, head.version, head.correlation_id, body)

    def _take(self, api_key: int, version: int, frame: memoryview, at: int) -> bytes:
        heard = Heard(time.monotonic(), self.id, api_key, len(frame) + 4)
        self._tally.note(heard)
        head = read_control_head(api_key, version, frame, at)
        self.epoch_heard = head.broker_epoch
        error = self._fence(head.controller_epoch, head.broker_epoch)
        if error is not ErrorCode.NONE:
            self._tally.refusals[error.value] = self._tally.refusals.get(error.value, 0) + 1
            return refused(api_key, error.value)
        if api_key == UPDATE_METADATA:
            self._ears.metadata(self, heard, version, frame[at:])
            return b"\x00\x00\x00"
        if api_key == STOP_REPLICA:
            stopped, answer = read_stopped(bytes(frame), head.offset)
            self._ears.stopped(self, stopped)
            return answer
        assert api_key == LEADER_AND_ISR, f"API {api_key} is served by now"
        told, answer = read_leadership(version, bytes(frame), head.offset)
        self._ears.leadership(self, heard, told)
        return answer

    def _fence(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        if broker_epoch != -1 and broker_epoch < self.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE


class _Talk(asyncio.BufferedProtocol):
    """One connection. Each frame is received into a buffer of its own size, so that a large one is copied only once."""

    def __init__(self, broker: PretendedBroker) -> None:
        self._broker = broker
        self._transport: asyncio.Transport | None = None
        self._size = bytearray(4)
        self._frame: bytearray | None = None
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._broker.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._broker.left(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._size if self._frame is None else self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._frame is None:
            if self._filled == len(self._size):
                (length,) = struct.unpack(">i", self._size)
                self._frame = bytearray(length)
                self._filled = 0
            return
        if self._filled < len(self._frame):
            return
        frame, self._frame, self._filled = memoryview(self._frame), None, 0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._broker.answer(frame))
