"""A connected socket whose arriving bytes are watched from the first time that somebody waits for them until its end.

`loop.sock_recv` watches a socket anew for each read and ends the watch after it: two system calls and some 30 µs for
each answer of a broker. Here the watch stays. It ends when bytes arrive while nobody waits for them, because the loop
would report them again and again; the next one who waits begins it anew.
"""

from __future__ import annotations

import asyncio
import socket


class WatchedSocket:
    """A non-blocking, connected socket. One task may send while another receives.

    Whoever makes one closes it, and never closes the socket itself: the loop would still watch its number, which the
    kernel gives to the next socket.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._watched = False
        self._waiter: asyncio.Future[bytes] | None = None
        self._count = 0
        """How many bytes the waiter takes at most."""

    @property
    def local_host(self) -> str:
        """The address of this end."""
        return str(self._socket.getsockname()[0])

    async def send(self, data: bytes | memoryview) -> None:
        """Write all bytes of `data`.

        Raises:
            OSError: the connection broke.
        """
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            await self._loop.sock_sendall(self._socket, memoryview(data)[sent:])

    async def receive(self, count: int) -> bytes:
        """Wait for some bytes, at most `count`; empty if the peer has closed.

        Bytes that arrive in the moment in which the wait is cancelled are lost, as with `loop.sock_recv`.

        Raises:
            OSError: the connection broke.
        """
        try:
            return self._socket.recv(count)
        except BlockingIOError:
            pass
        if not self._watched:
            self._loop.add_reader(self._socket, self._readable)
            self._watched = True
        self._waiter, self._count = self._loop.create_future(), count
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def _readable(self) -> None:
        if self._waiter is None or self._waiter.done():
            self._end_watch()
            return
        try:
            received = self._socket.recv(self._count)
        except BlockingIOError:
            return
        except OSError as broken:
            self._waiter.set_exception(broken)
        else:
            self._waiter.set_result(received)

    def _end_watch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._socket)

    def close(self) -> None:
        """Close the socket; do nothing if it is closed."""
        self._end_watch()
        self._socket.close()
