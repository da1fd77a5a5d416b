"""The listener for clients, tools and brokers.

Requests of one connection are begun and answered in the order in which they come. A request that waits for the core or
for a broker delays only its own connection. Bytes that are not a request close only the connection on which they came.
However many clients connect, brokers have room (`admission`), memory (`resources`) and turns (`queue`) that clients
can't take.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import re
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from shunter.drivers.listener.admission import PeerKind
from shunter.drivers.listener.connection import Connection, hung_up
from shunter.drivers.listener.fair_selector import FairSelector
from shunter.drivers.listener.gate import ListenerGate
from shunter.drivers.listener.handlers.context import Node
from shunter.drivers.listener.handshakes import Handshakes
from shunter.drivers.listener.shared_resources import SharedResources
from shunter.errors import DriverError, SettingsError
from shunter.model.settings import WireLimits

_LOG = logging.getLogger(__name__)
_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>\[[0-9a-fA-F:.]+\]|[^:/\[\]]*):(?P<port>\d{1,5})")
EVERYWHERE = "0.0.0.0"  # noqa: S104 - an empty host means that, as in Kafka
"""Only one address family: with two, the kernel would choose a different port for each if the port is 0."""

BACKLOG = 4_096
"""Connections that the kernel queues before they are accepted; net.core.somaxconn limits it. A broker's connection must
not be lost there: its kernel would try again only after 1, 3 and 7 seconds."""
ACCEPTED_AT_ONCE = 4
"""Connections accepted in one pass. Each takes some 150 µs until it can be read from."""
SWEEP_SECONDS = 1.0
SWEEPS = 40
"""In how many parts connections are checked: three thousand at once would block the event loop for 10 ms."""
BRIEFLY_SECONDS = 0.005
HANDSHAKE_SECONDS = 15.0
"""How long a TLS handshake may take."""
FAREWELL_SECONDS = 2.0
"""How long to wait for a peer to close its side after this side was closed."""
NO_FILES_SECONDS = 0.25
NO_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
SEND_BUFFER_BYTES = 262_144
"""Size of the kernel's send buffer for one peer."""
KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
"""A peer whose machine is down is noticed after two minutes; Kafka's brokers use the kernel's times."""


class Listener(NamedTuple):
    """An address to listen on: `NAME://host:port`; for port 0 the kernel chooses one."""

    name: str
    host: str
    port: int


def parse_listener(text: str) -> Listener:
    """Read `NAME://host:port`.

    Raises:
        SettingsError: `text` has another form, or a port above 65535.
    """
    found = _LISTENER.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65_535:
        raise SettingsError(
            f"listener={text!r} can't be used: write NAME://host:port, for instance PLAINTEXT://127.0.0.1:9092"
        )
    return Listener(found["name"].upper(), found["host"].strip("[]"), int(found["port"]))


class RpcServer:
    """Serves `node` on listeners.

    Args:
        limits: bounds of requests and connections.
        selector: the selector of the running loop, if it is one with tiers.
        gate_of: returns the gate of a listener, by the listener's name.
    """

    def __init__(
        self,
        node: Node,
        limits: WireLimits | None = None,
        selector: FairSelector | None = None,
        gate_of: Callable[[str], ListenerGate] = ListenerGate,
    ) -> None:
        self.resources = SharedResources(node, limits if limits is not None else WireLimits(), selector)
        self.stats = self.resources.stats
        self._gate_of = gate_of
        self._sockets: list[socket.socket] = []
        self._greetings: set[asyncio.Task[object]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._unswept: list[list[Connection]] = []
        """Parts of the connections that are still to be checked in this second."""
        self._handshakes = Handshakes(
            self.resources.limits.handshakes_per_second, self.resources.addresses.__contains__, time.monotonic
        )

    async def listen(self, listeners: Sequence[Listener]) -> tuple[Listener, ...]:
        """Open the listeners, and return them with their actual ports.

        Raises:
            DriverError: a listener can't be opened.
        """
        opened: list[Listener] = []
        for listener in listeners:
            try:
                bound = await _bound(listener)
            except OSError as failure:
                await self.close()
                raise DriverError(_cannot_open(listener, failure), retriable=False) from failure
            self._sockets += bound
            for each in bound:
                self.resources.set_aside(each.fileno())
            opened.append(listener._replace(port=bound[0].getsockname()[1]))
            gate = self._gate_of(listener.name)
            for each in bound:
                self._accept_from(each, gate)
        self._sweep()
        return tuple(opened)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        loop = asyncio.get_running_loop()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for bound in self._sockets:
            loop.remove_reader(bound)
            self.resources.forget_door(bound.fileno())
            bound.close()
        self._sockets.clear()
        self._handshakes.close()
        for greeting in self._greetings:
            greeting.cancel()
        await asyncio.gather(*self._greetings, return_exceptions=True)
        for peer in self.resources.admission.everybody():
            if isinstance(peer, Connection):
                peer.hang_up()
        # Transports close their sockets in the next pass.
        await asyncio.sleep(0)
        await self.resources.addresses.close()
        self.resources.close()

    def _accept_from(self, bound: socket.socket, gate: ListenerGate) -> None:
        if bound.fileno() >= 0:
            asyncio.get_running_loop().add_reader(bound, self._accept, bound, gate)

    def _accept(self, bound: socket.socket, gate: ListenerGate) -> None:
        """Accept some of the waiting connections. The next pass accepts others, when these have their transports."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = bound.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as failure:
                if failure.errno in NO_FILES:
                    self._wait_for_files(bound, gate, failure)
                    return
                # Any other error is about this connection: its peer has closed it already.
                continue
            self._greet(accepted, address, gate)

    def _wait_for_files(self, bound: socket.socket, gate: ListenerGate, failure: OSError) -> None:
        """Close idle clients' connections, and accept again soon: the system gives this process no more sockets."""
        went = self.resources.admission.make_room(time.monotonic(), count=16)
        told = (
            f"nobody more can be taken in for {NO_FILES_SECONDS} s: {failure.strerror}; {went} idle clients were closed"
        )
        self.stats.refuse("open files", f"{told}; raise the limit on open files (ulimit -n) or lower max_connections")
        loop = asyncio.get_running_loop()
        loop.remove_reader(bound)
        loop.call_later(NO_FILES_SECONDS, self._accept_from, bound, gate)

    def _greet(self, accepted: socket.socket, address: tuple[str, int], gate: ListenerGate) -> None:
        host = address[0].removeprefix("::ffff:")
        peer = f"{host}:{address[1]}"
        kind = self.resources.admission.kind_for(host)
        if kind is None:
            accepted.close()
            self.resources.turn_away(peer, "max.connections")
            return
        try:
            _set_options(accepted, self.resources.limits.peer_timeout_ms)
        except OSError:
            accepted.close()
            return
        fd = accepted.fileno()
        connection = Connection(self.resources, gate, fd, peer, host, kind)
        self.resources.admission.enter(connection)
        if gate.tls is not None and host not in self.resources.addresses:
            # A handshake waits for its turn too, unless it comes from a registered broker's address.
            self.resources.set_back(fd)
        taking = self._take_in(connection, accepted, gate)
        greeting = asyncio.get_running_loop().create_task(taking, name=f"greet-{peer}")
        self._greetings.add(greeting)
        greeting.add_done_callback(partial(self._greeted, connection, gate))

    async def _take_in(self, connection: Connection, accepted: socket.socket, gate: ListenerGate) -> None:
        """Begin to read from a new connection; if it begins with a handshake or a login, in its turn."""
        loop = asyncio.get_running_loop()
        patience: dict[str, float] = {}
        try:
            if gate.asks and not await self._has_turn(connection):
                accepted.close()
                connection.hang_up()
                return
            tls = gate.tls
            if tls is not None:
                patience = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": FAREWELL_SECONDS}
        except BaseException:
            accepted.close()
            raise
        await loop.connect_accepted_socket(lambda: connection, accepted, ssl=tls, **patience)

    async def _has_turn(self, connection: Connection) -> bool:
        """Wait until a handshake may begin; return False if the peer has gone, or the wait was too long."""
        try:
            async with asyncio.timeout(self.resources.limits.peer_timeout_ms / 1000):
                await self._handshakes.turn(connection.address, lambda: connection.gone)
        except TimeoutError:
            rate = self.resources.limits.handshakes_per_second
            self.stats.refuse("handshakes", f"{connection.address} waited in vain: handshakes_per_second={rate}")
            return False
        return not connection.gone

    def _greeted(self, connection: Connection, gate: ListenerGate, greeting: asyncio.Task[object]) -> None:
        self._greetings.discard(greeting)
        failure = None if greeting.cancelled() else greeting.exception()
        if failure is not None and gate.tls is not None:
            told = f"no TLS came about on listener {gate.name}: {_handshake_failure(failure, gate)}"
            connection.leave("handshake", told, logging.WARNING)
            # The traceback's frames refer to the connection: a reference cycle; see `Connection.connection_lost`.
            failure.__traceback__ = None
        elif greeting.cancelled() or failure is not None:
            connection.hang_up()

    def _sweep(self) -> None:
        """Check one part of the connections; each connection is checked about once a second."""
        if self.resources.queue.brokers_alone:
            self._sweeper = asyncio.get_running_loop().call_later(BRIEFLY_SECONDS, self._sweep)
            return
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS / SWEEPS, self._sweep)
        if not self._unswept:
            view = self.resources.node.view
            self.resources.addresses.refresh(
                broker for broker in view.brokers.values() if broker.id != view.controller_id
            )
            everybody = self._everybody()
            part = len(everybody) // SWEEPS + 1
            self._unswept = [everybody[at : at + part] for at in range(0, part * SWEEPS, part)]
        self._close_overdue(self._unswept.pop(), time.monotonic())

    def _everybody(self) -> list[Connection]:
        return [peer for peer in self.resources.admission.everybody() if isinstance(peer, Connection)]

    def _close_overdue(self, connections: Sequence[Connection], now: float) -> None:
        """Close those of some connections that have exceeded a time, or whose peer has gone."""
        unread = {each.unread: each for each in connections if each.unread is not None}
        for fd in hung_up(unread):
            unread[fd].hang_up()
        for each in connections:
            overdue = each.overdue(now)
            if overdue is not None:
                each.leave(*overdue, logging.DEBUG if overdue[0] == "idle" else logging.WARNING)

    def count(self, kind: PeerKind) -> int:
        """Return the number of open connections of a kind."""
        return self.resources.admission.count(kind)


def _handshake_failure(failure: BaseException, gate: ListenerGate) -> str:
    """Explain why a TLS handshake failed. If the peer ended it, our own certificate may be the cause."""
    reason = getattr(failure, "reason", None) or str(failure) or type(failure).__name__
    meaning = {
        "WRONG_VERSION_NUMBER": "it speaks plaintext",
        "HTTP_REQUEST": "it speaks HTTP",
        "UNSUPPORTED_PROTOCOL": "it speaks TLS below 1.2 only",
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and ssl.client.auth is required",
        "CERTIFICATE_VERIFY_FAILED": getattr(failure, "verify_message", "its certificate is not trusted"),
    }
    if reason in meaning:
        return f"{meaning[reason]} ({reason})"
    faults = gate.own_faults()
    return f"{reason}: {faults}" if faults else str(reason)


async def _bound(listener: Listener) -> list[socket.socket]:
    """Open a listening socket for each address of the listener's host, all on the same port.

    Raises:
        OSError: an address can't be used.
    """
    loop = asyncio.get_running_loop()
    host = listener.host or EVERYWHERE
    found = await loop.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    port = listener.port
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            bound = socket.socket(family, kind, protocol)
            opened.append(bound)
            bound.setblocking(False)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind((address[0], port, *address[2:]))
            bound.listen(BACKLOG)
            port = bound.getsockname()[1]
    except OSError:
        for bound in opened:
            bound.close()
        raise
    return opened


def _set_options(accepted: socket.socket, peer_timeout_ms: int) -> None:
    accepted.setblocking(False)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # TCP_USER_TIMEOUT is longer than this server's own time limit, whose closures are logged and counted.
    for name, value in (*KEEPALIVE, ("TCP_USER_TIMEOUT", 2 * peer_timeout_ms + 5_000)):
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, option, value)


def _cannot_open(listener: Listener, failure: OSError) -> str:
    """Explain why a listener can't be opened, and what to do."""
    ways_out = {
        errno.EADDRINUSE: "another process listens there; give --listener another port, or stop that process"
        f" (`ss -ltnp 'sport = :{listener.port}'` names it)",
        errno.EADDRNOTAVAIL: "no network interface of this machine has that address",
        errno.EACCES: "ports below 1024 are for root",
    }
    told = f"listener {listener.name}://{listener.host}:{listener.port} can't be opened: "
    return told + ways_out.get(failure.errno or 0, str(failure))
