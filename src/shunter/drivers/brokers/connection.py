"""One connection to a broker, with its own socket."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.serial import entity_reader

from shunter.drivers.brokers.access import PLAIN_ACCESS, BrokerAccess, Wire, decoded_answer
from shunter.drivers.listener.turns import Turns
from shunter.drivers.listener.watched_socket import WatchedSocket
from shunter.errors import FormatError
from shunter.model.broker import Endpoint
from shunter.wire.framing import request_frame_head, split_frames

Address: TypeAlias = tuple[socket.AddressFamily, tuple[Any, ...]]
"""Address family and address that a socket connects to."""
ApiRanges: TypeAlias = Mapping[int, tuple[int, int]]
"""API key -> (lowest, highest) version."""

API_VERSIONS = 18
CONNECT_SECONDS = 5.0
_SHARE_SECONDS = 1.5
"""The least time that each of several addresses of a host gets, even if the sum is above `CONNECT_SECONDS`."""
PROBED_AFTER_SECONDS = 5
"""How long a connection may be idle before the kernel sends a keepalive probe."""
ANSWER_BYTES = 16_777_216
"""The largest answer that is accepted: an answer to LeaderAndIsr takes seven bytes for a partition."""
_JOINED_BYTES = 65_536
_SENT_AHEAD_BYTES = 262_144
"""Size of the kernel's send buffer for one broker. By default the buffer grows to megabytes: if 200 brokers get the
metadata of a whole cluster at once, copying all of it would block the loop and take the memory of the copies."""
_RECEIVED_BYTES = 65_536
_RENEWED_AT = 0.85, 0.95
"""Range of the share of a session after which to log in again, as in Java's clients; chosen at random."""
_RENEWED_AFTER_SECONDS = 1.0
"""Brokers do not accept a new login sooner."""
_TIMER_SECONDS = 0.001
"""A timer may fire a little early."""
_read_api_versions = entity_reader(ApiVersionsResponse)


class BrokerConnection:
    """A connected socket, and the API versions that the broker serves."""

    def __init__(self, wire: Wire, endpoint: Endpoint, client_id: str, access: BrokerAccess) -> None:
        self.endpoint = endpoint
        self.renew_at: float | None = None
        """When to log in again (monotonic, seconds), before the broker ends the session and closes; None: never."""
        self.turns = Turns()
        self._wire = wire
        self._client_id = client_id
        self._access = access
        self._received = bytearray()
        self._correlation_id = 0
        self.ranges: ApiRanges = {}

    @classmethod
    async def open(
        cls, endpoint: Endpoint, client_id: str = "shunter", access: BrokerAccess = PLAIN_ACCESS
    ) -> BrokerConnection:
        """Connect, log in if the listener requires it, and ask for the broker's API versions.

        Raises:
            OSError: every address of the host refused or did not answer in time; or the peer does not speak TLS, or its
                certificate is not trusted.
            EOFError: the broker closed the connection.
            FormatError: the peer is not a broker, or refuses the login.
        """
        async with asyncio.timeout(CONNECT_SECONDS):
            addresses = await addresses_of(endpoint)
        connected = WatchedSocket(await connect_to_any(addresses))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = cls(await access.wire(connected, endpoint), endpoint, client_id, access)
            await connection.log_in()
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.negotiate()
        except BaseException:
            connected.close()
            raise
        return connection

    @property
    def local_host(self) -> str:
        """The address of this end. The broker sees the same address unless a NAT or proxy is in between."""
        return self._wire.local_host

    def next_correlation_id(self) -> int:
        """Return the correlation id of the next request."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    @property
    def is_renewal_due(self) -> bool:
        """Whether it is time to log in again."""
        return self.renew_at is not None and time.monotonic() >= self.renew_at

    async def log_in(self) -> None:
        """Log in, for the first time or again. No answer may be outstanding on this connection.

        Raises:
            OSError, EOFError: the connection broke, or the login took too long.
            FormatError: the broker refuses the login.
        """
        async with asyncio.timeout(CONNECT_SECONDS):
            lives_s = await self._access.log_in(self, self.endpoint)
        # The share is random, so that connections that were opened together do not all log in again together.
        share = random.uniform(*_RENEWED_AT)  # noqa: S311  this number need not be secret
        lives_s = None if lives_s is None else max(_RENEWED_AFTER_SECONDS, share * lives_s)
        self.renew_at = None if lives_s is None else time.monotonic() + lives_s

    async def until_renewal(self) -> None:
        """Wait until it is time to log in again; for ever, if the session does not end."""
        if self.renew_at is None:
            await asyncio.Event().wait()
            return
        await asyncio.sleep(self.renew_at - time.monotonic() + _TIMER_SECONDS)

    async def negotiate(self) -> None:
        """Ask ApiVersions v0, which every broker knows."""
        body = await self.ask(API_VERSIONS, 0, b"")
        response = decoded_answer(_read_api_versions, body, "ApiVersions")
        if response.error_code:
            raise FormatError("ApiVersions", f"refused with error {int(response.error_code)}")
        self.ranges = {int(key.api_key): (int(key.min_version), int(key.max_version)) for key in response.api_keys}

    async def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send a request whose answer has a header of version 0, and return the answer's body.

        Raises:
            OSError, EOFError: the connection broke.
            FormatError: the answer is to another request.
        """
        correlation_id = self.next_correlation_id()
        await self.send(api_key, version, correlation_id, body)
        frames: list[bytes] = []
        while not frames:
            frames = await self.receive()
        if int.from_bytes(frames[0][:4], "big") != correlation_id:
            raise FormatError(f"API {api_key}", "the answer is to another request")
        return frames[0][4:]

    async def send(self, api_key: int, version: int, correlation_id: int, body: bytes) -> int:
        """Write a request, and return its number of bytes. A large body is never copied."""
        head = request_frame_head(api_key, version, correlation_id, self._client_id, len(body))
        await self.write(head, body)
        return len(head) + len(body)

    async def write(self, head: bytes, body: bytes) -> None:
        """Write a request's head and body."""
        if len(body) <= _JOINED_BYTES:
            await self._wire.send(head + body)
            return
        await self._wire.send(head)
        view = memoryview(body)
        for start in range(0, len(view), _SENT_AHEAD_BYTES):
            await self.turns.mine()
            await self._wire.send(view[start : start + _SENT_AHEAD_BYTES])

    async def receive(self) -> list[bytes]:
        """Wait for bytes, and return the complete frames so far, without their sizes.

        Raises:
            EOFError: the broker closed the connection.
            FormatError: a frame's size is invalid.
        """
        received = await self._wire.receive(_RECEIVED_BYTES)
        if not received:
            raise EOFError("closed by the broker")
        self._received += received
        return split_frames(self._received, ANSWER_BYTES, "answer of a broker")

    def close(self) -> None:
        """Close the socket."""
        self._wire.close()


async def addresses_of(endpoint: Endpoint) -> tuple[Address, ...]:
    """Return every address of an endpoint's host, in the system's order. Only names are looked up, in a thread.

    Raises:
        OSError: the name can't be resolved.
    """
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(endpoint.host).version == 6 else socket.AF_INET
    except ValueError:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys((each[0], each[4]) for each in found))
    return ((family, (endpoint.host, endpoint.port)),)


async def connect_to_any(addresses: Sequence[Address]) -> socket.socket:
    """Connect to the first address that accepts. Each address gets a share of the time, so that none uses all of it.

    Raises:
        OSError: no address accepts; the message has the error of each.
    """
    refused: list[str] = []
    share = max(CONNECT_SECONDS / max(1, len(addresses)), _SHARE_SECONDS)
    for family, address in addresses:
        try:
            async with asyncio.timeout(share):
                return await _connected_socket(family, address)
        except TimeoutError:
            refused.append(f"{address[0]}: no answer within {share:g} s")
        except OSError as failure:
            refused.append(f"{address[0]}: {failure}")
    raise ConnectionError("; ".join(refused) or "the name has no address")


async def _connected_socket(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        for level, option, value in _OPTIONS:
            connecting.setsockopt(level, option, value)
        await asyncio.get_running_loop().sock_connect(connecting, address)
        if connecting.getsockname() == connecting.getpeername():
            # The kernel may give a client the same port that it connects to, if no process listens there.
            raise ConnectionRefusedError(f"nobody listens on {address[0]}:{address[1]}")
    except BaseException:
        connecting.close()
        raise
    return connecting


def _options() -> tuple[tuple[int, int, int], ...]:
    """Return the socket options; Linux's options are left out on systems that do not have them.

    On a flow that a firewall dropped, nothing answers, not even with a reset. Keepalive probes detect this on an idle
    connection, so that it is not taken for a working connection for minutes. A request's own timeout detects it on a
    busy one.

    TCP_USER_TIMEOUT is not set: Linux would also end a connection whose busy peer reads nothing for so long. Linux
    can't tell the two cases apart, because a receiver without room may silently drop packets.
    """
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_AHEAD_BYTES),
    ]
    for name, value in (
        ("TCP_KEEPIDLE", PROBED_AFTER_SECONDS),
        ("TCP_KEEPINTVL", 2),
        ("TCP_KEEPCNT", 3),
    ):
        number = getattr(socket, name, None)
        if number is not None:
            options.append((socket.IPPROTO_TCP, number, value))
    return tuple(options)


_OPTIONS = _options()
