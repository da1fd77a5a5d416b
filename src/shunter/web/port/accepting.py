"""Accepts connections in turns, and closes those whose request does not come."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import socket
import ssl
from collections.abc import Callable

from shunter.web.port.connection import HttpConnection
from shunter.web.port.connection_limits import ConnectionLimits, network_of
from shunter.web.port.turns import AddressTurns

LISTENER = "listener"
"""The listener takes turns like an address."""
HANDSHAKE_SECONDS = 10.0
FAREWELL_SECONDS = 2.0
ACCEPTED_AT_ONCE = 64
"""Connections accepted in one turn. One without a place costs some 10 µs."""
LET_IN_AT_ONCE = 4
"""Connections in one turn that get a place; each costs some 150 µs until it can be read from."""
NO_FILES_SECONDS = 0.25
NO_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
SWEEP_SECONDS = 1.0
UNSENT_MS = 60_000
"""A peer that takes no byte of an answer for so long is gone."""
RECEIVE_BUFFER_BYTES = 64 * 1024
"""The most that one turn reads of a connection."""


class _Newcomer:
    """A connection whose handshake is not done. It has a place, and may lose it like a stranger."""

    def __init__(self, address: str, now: float, room: ConnectionLimits) -> None:
        self.address = address
        self.waits_since = now
        self.task: asyncio.Task[None] | None = None
        self.begun = False
        """Whether asyncio has the socket, and closes it."""
        self._room = room

    def leave(self, reason: str) -> None:
        """See `Visitor`."""
        self._room.refused[reason] += 1
        if self.task is not None:
            self.task.cancel()


class Acceptor:
    """Accepts connections of a listening socket, a few in a turn."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        turns: AddressTurns,
        room: ConnectionLimits,
        make: Callable[[], HttpConnection],
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._turns = turns
        self._room = room
        self._make = make
        self._greetings: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def begin(self) -> None:
        """Accept connections from now on."""
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        if self._listener.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):
            self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_MS)
        self._sweep()
        self._watch()

    def end(self) -> None:
        """Accept no more connections, and give up those whose handshake is not done."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._loop.remove_reader(self._listener)
        self._sweeper = None
        for each in self._greetings:
            each.cancel()

    def _watch(self) -> None:
        if self._sweeper is not None:
            self._loop.add_reader(self._listener, self._ask)

    def _ask(self) -> None:
        self._loop.remove_reader(self._listener)
        self._turns.ask(LISTENER, self._accept)

    def _accept(self) -> None:
        """Accept some connections. Those that have no place are closed at once, which costs little."""
        let_in = 0
        for _ in range(ACCEPTED_AT_ONCE):
            if self._sweeper is None or let_in >= LET_IN_AT_ONCE:
                break
            try:
                accepted, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                if error.errno in NO_FILES:
                    self._room.refused["files"] += 1
                    self._loop.call_later(NO_FILES_SECONDS, self._watch)
                    return
                continue  # This connection's peer has closed it already.
            address = network_of(peer[0] if peer else "")
            if not self._room.has_place(address, self._loop.time()):
                self._room.refused["room"] += 1
                accepted.close()
                continue
            let_in += 1
            accepted.setblocking(False)
            newcomer = _Newcomer(address, self._loop.time(), self._room)
            self._room.enter(newcomer)
            newcomer.task = self._loop.create_task(self._greet(accepted, newcomer), name="web-greeting")
            self._greetings.add(newcomer.task)
            newcomer.task.add_done_callback(functools.partial(self._greeted, accepted, newcomer))
        self._watch()

    async def _greet(self, accepted: socket.socket, newcomer: _Newcomer) -> None:
        """Make a connection of a socket; with TLS, after the handshake."""
        newcomer.begun = True
        patience = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": FAREWELL_SECONDS}
        with contextlib.suppress(OSError):  # The handshake failed, or the peer is gone.
            await self._loop.connect_accepted_socket(
                self._make, accepted, ssl=self._tls, **(patience if self._tls is not None else {})
            )

    def _greeted(self, accepted: socket.socket, newcomer: _Newcomer, task: asyncio.Task[None]) -> None:
        self._greetings.discard(task)
        self._room.depart(newcomer)
        if not newcomer.begun:
            accepted.close()

    def _sweep(self) -> None:
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        now = self._loop.time()
        for visitor in self._room.everybody():
            if isinstance(visitor, HttpConnection) and visitor.overdue(now):
                visitor.leave("slow")
