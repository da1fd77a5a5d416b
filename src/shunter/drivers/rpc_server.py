"""The listener for clients, tools and brokers.

Requests of one connection are begun in the order in which they come and answered in that order; waiting for the core
or for a broker holds up that connection alone. Whatever a peer sends that is no request closes its connection, and its
connection alone.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.drivers.answer import Answer
from shunter.drivers.handlers.context import Call, Node
from shunter.drivers.handlers.dispatch import respond
from shunter.errors import DriverError, FormatError, SettingsError
from shunter.model.settings import WireLimits
from shunter.wire.framing import SIZE_BYTES, frame_length
from shunter.wire.requests import UnsupportedVersionError, decode_request, encode_unsupported_version

_LOG = logging.getLogger(__name__)
_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>\[[0-9a-fA-F:.]+\]|[^:/\[\]]*):(?P<port>\d{1,5})")
EVERYWHERE = "0.0.0.0"  # noqa: S104 - an empty host means that, as in Kafka
"""One address family only: with two, the kernel would give port 0 a different port in each."""


class Listener(NamedTuple):
    """Where to listen: `NAME://host:port`; port 0 is given by the kernel."""

    name: str
    host: str
    port: int


def parse_listener(text: str) -> Listener:
    """Read `NAME://host:port`.

    Raises:
        SettingsError: of another form, or a port above 65535.
    """
    found = _LISTENER.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65_535:
        raise SettingsError(
            f"listener={text!r} can't be used: write NAME://host:port, for instance PLAINTEXT://127.0.0.1:9092"
        )
    return Listener(found["name"].upper(), found["host"].strip("[]"), int(found["port"]))


@dataclass(slots=True)
class ServerStats:
    """Counters since the start. One writer: the event loop."""

    connections: int = 0
    """Open now."""
    refused: int = 0
    """Turned away because too many were open."""
    closed_for_cause: int = 0
    """Closed by us because of what their peer sent, or because nobody could answer it."""
    requests: dict[int, int] = field(default_factory=dict)
    """By API key."""
    bytes_in: int = 0
    bytes_out: int = 0
    handling_seconds: dict[int, float] = field(default_factory=dict)
    """From decoded to answered, by API key, waiting included."""


class RpcServer:
    """Serves `node` on listeners.

    Args:
        limits: what a peer may ask before its connection is closed.
    """

    def __init__(self, node: Node, limits: WireLimits | None = None) -> None:
        self.stats = ServerStats()
        self._node = node
        self._limits = limits if limits is not None else WireLimits()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self, listeners: Sequence[Listener]) -> tuple[Listener, ...]:
        """Open the listeners and tell them with the ports that they got.

        Raises:
            DriverError: an address can't be had.
        """
        opened: list[Listener] = []
        for listener in listeners:
            try:
                server = await asyncio.start_server(
                    self._accept(listener.name), listener.host or EVERYWHERE, listener.port, limit=1 << 18
                )
            except OSError as failure:
                await self.close()
                raise DriverError(_cannot_open(listener, failure), retriable=False) from failure
            self._servers.append(server)
            opened.append(listener._replace(port=server.sockets[0].getsockname()[1]))
        return tuple(opened)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        for server in self._servers:
            server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def _accept(self, name: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = _peer(writer)
            if self.stats.connections >= self._limits.connections:
                self.stats.refused += 1
                _LOG.warning("%s turned away: %d connections are open already", peer, self.stats.connections)
                writer.close()
                return
            connection = _Connection(self._node, self._limits, self.stats, name, peer)
            task = asyncio.create_task(connection.serve(reader, writer), name=f"rpc-{peer}")
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        return accepted


def _cannot_open(listener: Listener, failure: OSError) -> str:
    """Say why a listener can't be opened, and what to do."""
    ways_out = {
        errno.EADDRINUSE: "another process listens there; give --listener another port, or stop that process"
        f" (`ss -ltnp 'sport = :{listener.port}'` names it)",
        errno.EADDRNOTAVAIL: "no network interface of this machine has that address",
        errno.EACCES: "ports below 1024 are for root",
    }
    told = f"listener {listener.name}://{listener.host}:{listener.port} can't be opened: "
    return told + ways_out.get(failure.errno or 0, str(failure))


def _peer(writer: asyncio.StreamWriter) -> str:
    address = writer.get_extra_info("peername")
    return f"{address[0]}:{address[1]}" if address else "unknown peer"


class _Connection:
    """One peer."""

    def __init__(self, node: Node, limits: WireLimits, stats: ServerStats, listener: str, peer: str) -> None:
        self._node = node
        self._limits = limits
        self._stats = stats
        self._listener = listener
        self._peer = peer
        self._turn = asyncio.Semaphore(limits.requests_in_flight)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._stats.connections += 1
        begun: asyncio.Queue[asyncio.Task[Answer]] = asyncio.Queue()
        tasks = [asyncio.create_task(self._read(reader, begun)), asyncio.create_task(self._write(writer, begun))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self._tell(task.exception())
        finally:
            self._stats.connections -= 1
            for task in tasks:
                task.cancel()
            unanswered = [begun.get_nowait() for _ in range(begun.qsize())]
            for request in unanswered:
                request.cancel()
            await asyncio.gather(*tasks, *unanswered, return_exceptions=True)
            writer.close()

    def _tell(self, ended: BaseException | None) -> None:
        """Log why a connection ends, with peer and reason."""
        if isinstance(ended, FormatError | DriverError):
            self._stats.closed_for_cause += 1
            _LOG.warning("%s: connection closed: %s", self._peer, ended)
        elif ended is not None and not isinstance(ended, OSError | EOFError):
            self._stats.closed_for_cause += 1
            _LOG.error("%s: connection closed by a bug", self._peer, exc_info=ended)

    async def _read(self, reader: asyncio.StreamReader, begun: asyncio.Queue[asyncio.Task[Answer]]) -> None:
        while True:
            await self._turn.acquire()
            prefix = await reader.readexactly(SIZE_BYTES)
            frame = await reader.readexactly(frame_length(prefix, self._limits.frame_bytes, self._peer))
            self._stats.bytes_in += SIZE_BYTES + len(frame)
            begun.put_nowait(asyncio.create_task(self._respond(frame)))

    async def _write(self, writer: asyncio.StreamWriter, begun: asyncio.Queue[asyncio.Task[Answer]]) -> None:
        while True:
            task = await begun.get()
            try:
                answer = await task
            finally:
                task.cancel()
            for chunk in answer.chunks():
                writer.write(chunk)
                self._stats.bytes_out += len(chunk)
                await writer.drain()
            self._turn.release()

    async def _respond(self, frame: bytes) -> Answer:
        began = time.perf_counter()
        try:
            parsed = decode_request(frame, self._limits, self._peer)
        except UnsupportedVersionError as refused:
            refusal = encode_unsupported_version(refused)
            if refusal is None:
                raise FormatError(self._peer, refused.message) from refused
            return Answer(refusal)
        answer = await respond(Call(self._node, parsed, self._listener, self._peer))
        key = parsed.api_key
        self._stats.requests[key] = self._stats.requests.get(key, 0) + 1
        spent = self._stats.handling_seconds
        spent[key] = spent.get(key, 0.0) + time.perf_counter() - began
        return answer
