"""Accepts connections in turns, and closes those whose request does not come."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable

from shunter.web.connection import Connection
from shunter.web.room import Room
from shunter.web.turns import Turns

LISTENER = "listener"
"""The listener takes turns like an address."""
HANDSHAKE_SECONDS = 10.0
FAREWELL_SECONDS = 2.0
NO_FILES_SECONDS = 0.25
SWEEP_SECONDS = 1.0
UNSENT_MS = 60_000
"""A peer that takes no byte of an answer for so long is gone."""
RECEIVE_BUFFER_BYTES = 64 * 1024
"""The most that one turn reads of a connection."""


class Acceptor:
    """Accepts connections of a listening socket, one in a turn."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        turns: Turns,
        room: Room,
        make: Callable[[], Connection],
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._turns = turns
        self._room = room
        self._make = make
        self._greetings: set[asyncio.Task[object]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def begin(self) -> None:
        """Accept connections from now on."""
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_MS)
        self._watch()
        self._sweep()

    def end(self) -> None:
        """Accept no more connections, and give up those whose handshake is not done."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._loop.remove_reader(self._listener)
        self._sweeper = None
        for each in self._greetings:
            each.cancel()

    def _watch(self) -> None:
        self._loop.add_reader(self._listener, self._ask)

    def _ask(self) -> None:
        self._loop.remove_reader(self._listener)
        self._turns.ask(LISTENER, self._accept)

    def _accept(self) -> None:
        if self._sweeper is None:
            return
        try:
            accepted, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._room.refused["files"] += 1
                self._loop.call_later(NO_FILES_SECONDS, self._again)
            else:
                self._watch()  # The peer has closed it already, or there is none.
            return
        self._watch()
        accepted.setblocking(False)
        if len(self._greetings) >= self._room.most:
            self._room.refused["handshakes"] += 1
            accepted.close()
            return
        task = self._loop.create_task(self._greet(accepted), name="web-greeting")
        self._greetings.add(task)
        task.add_done_callback(self._greetings.discard)

    def _again(self) -> None:
        if self._sweeper is not None:
            self._watch()

    async def _greet(self, accepted: socket.socket) -> None:
        patience = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": FAREWELL_SECONDS}
        try:
            with contextlib.suppress(OSError):  # The handshake failed, or the peer is gone.
                await self._loop.connect_accepted_socket(
                    self._make, accepted, ssl=self._tls, **(patience if self._tls is not None else {})
                )
        except BaseException:
            accepted.close()
            raise

    def _sweep(self) -> None:
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        now = self._loop.time()
        for guest in self._room.everybody():
            if isinstance(guest, Connection) and guest.overdue(now):
                guest.leave("slow")
