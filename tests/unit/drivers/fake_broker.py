"""A fake broker on a loopback socket: it decodes control requests with kio and answers them in order."""

import asyncio
import io
import struct
from dataclasses import dataclass, field

from kio.index import load_request_schema, load_response_schema
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16

from shunter.model.broker import Broker, Endpoint
from shunter.wire.framing import read_request_head, response_frame

RANGES = {4: (0, 7), 5: (0, 4), 6: (0, 8), 18: (0, 4)}


def encoded(message):
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decoded(api_key, version, body):
    return entity_reader(load_request_schema(api_key, version))(body, 0)[0]


@dataclass
class Heard:
    """One control request that the broker received."""

    api_key: int
    version: int
    correlation_id: int
    body: bytes
    connection: int

    @property
    def message(self):
        return decoded(self.api_key, self.version, self.body)


@dataclass
class FakeBroker:
    """A fake broker. If `answering` is cleared, it does not answer; if `reading` is, it reads only ApiVersions."""

    id: int
    epoch: int = 1
    ranges: dict[int, tuple[int, int]] = field(default_factory=lambda: dict(RANGES))
    keep_bodies: bool = True

    def __post_init__(self):
        self.heard: list[Heard] = []
        self.bytes = 0
        self.connections = 0
        self.answering = asyncio.Event()
        self.answering.set()
        self.reading = asyncio.Event()
        self.reading.set()
        self.changed = asyncio.Condition()
        self.port = 0
        self._writers = set()
        self._server = None
        self.relayed = {}

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=1 << 16)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @property
    def broker(self):
        return Broker(self.id, self.epoch, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", self.port),))

    def cut(self):
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def stop(self):
        self._server.close()
        self.cut()
        self.reading.set()
        self.answering.set()
        await self._server.wait_closed()

    async def until(self, condition, seconds=40):
        async with asyncio.timeout(seconds), self.changed:
            await self.changed.wait_for(condition)

    async def until_heard(self, count, seconds=40):
        await self.until(lambda: len(self.heard) >= count, seconds)

    async def _serve(self, reader, writer):
        self.connections += 1
        connection = self.connections
        self._writers.add(writer)
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                frame = await reader.readexactly(size)
                self.bytes += size + 4
                head = read_request_head(frame)
                answer = await self._answer(head, frame, connection)
                if answer is not None:
                    writer.write(answer)
                    await writer.drain()
                await self.reading.wait()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, head, frame, connection):
        if head.api_key == 18:
            keys = tuple(
                ApiVersion(api_key=i16(key), min_version=i16(low), max_version=i16(high))
                for key, (low, high) in self.ranges.items()
            )
            body = encoded(ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys))
            return response_frame(18, 0, head.correlation_id, body)
        body = frame[head.body_offset :]
        async with self.changed:
            kept = body if self.keep_bodies else b""
            self.heard.append(Heard(head.api_key, head.version, head.correlation_id, kept, connection))
            self.changed.notify_all()
        await self.answering.wait()
        if head.api_key in self.relayed:
            message = self.relayed[head.api_key](decoded(head.api_key, head.version, body), head.version)
        else:
            message = control_answer(head, body)
        return response_frame(head.api_key, head.version, head.correlation_id, encoded(message))


def control_answer(head, body):
    schema = load_response_schema(head.api_key, head.version)
    if head.api_key == 6:
        return schema(error_code=ErrorCode.none)
    if head.api_key == 5:
        return schema(error_code=ErrorCode.none, partition_errors=())
    told = {"topics": ()} if head.version >= 5 else {"partition_errors": ()}
    return schema(error_code=ErrorCode.none, **told)
