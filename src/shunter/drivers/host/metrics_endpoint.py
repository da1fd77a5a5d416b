"""Metrics and probes over HTTP: GET /metrics, /status, /ready and /health, one answer per connection, nothing else.

The endpoint is on the loopback by default; on another address clients have to show a certificate. Clients can only
read. The endpoint runs on the event loop whose figures it shows: it reads them between two events, without a lock.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

_LOG = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
HEAD_BYTES = 8_192
HEAD_SECONDS = 5.0


class MetricsEndpoint:
    """Serves the page of `render`, (content type, page), and the answer of `ready`: (whether it is ready, reasons).

    `prepare` is awaited before each page of metrics. `failure` returns why the process has to end; None while all its
    tasks run. `may_read` checks a client's token; None: no token is needed. /health never needs a token, because the
    programs that probe it have none. `status` returns a few figures as JSON; None: there is no /status.
    """

    def __init__(
        self,
        render: Callable[[], tuple[str, bytes]],
        ready: Callable[[], tuple[bool, tuple[str, ...]]] = lambda: (True, ()),
        prepare: Callable[[], Awaitable[None]] | None = None,
        failure: Callable[[], BaseException | None] = lambda: None,
        may_read: Callable[[str], bool] | None = None,
        status: Callable[[], bytes] | None = None,
    ) -> None:
        self._render = render
        self._prepare = prepare
        self._ready = ready
        self._failure = failure
        self._may_read = may_read
        self._status = status
        self._server: asyncio.Server | None = None

    async def start(self, port: int, host: str = LOOPBACK, tls: ssl.SSLContext | None = None) -> int:
        """Listen on a port, and return it; for 0 the kernel chooses one. `tls` decides which clients may connect.

        Raises:
            OSError: the port is taken, or the address does not belong to this machine.
        """
        patience = {} if tls is None else {"ssl_handshake_timeout": HEAD_SECONDS}
        self._server = await asyncio.start_server(
            self._serve,
            host,
            port,
            limit=HEAD_BYTES,
            ssl=tls,
            **patience,
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            if self._prepare is not None and b"/metrics" in head.partition(b"\r\n")[0]:
                await self._prepare()
            status, kind, page = self._answer(head)
            told = (
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(told.encode("ascii") + page)
            await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # A malformed request is not answered, nor one whose client has gone.
        finally:
            writer.close()

    def _answer(self, head: bytes) -> tuple[str, str, bytes]:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return "405 Method Not Allowed", "text/plain", b"only GET\n"
        if path != b"/health" and self._may_read is not None and not self._may_read(_token(head)):
            return "401 Unauthorized", "text/plain", b"show a token: Authorization: Bearer TOKEN (shunter token add)\n"
        if path == b"/ready":
            ready, lines = self._ready()
            page = "".join(f"{line}\n" for line in lines).encode()
            return "200 OK" if ready else "503 Service Unavailable", "text/plain; charset=utf-8", page
        if path == b"/health":
            failure = self._failure()
            page = b"alive\n" if failure is None else f"a task has ended, and the process ends: {failure}\n".encode()
            return "200 OK" if failure is None else "503 Service Unavailable", "text/plain; charset=utf-8", page
        if path == b"/status" and self._status is not None:
            return "200 OK", "application/json", self._status()
        if path != b"/metrics":
            told = b"metrics are at /metrics, readiness is at /ready, liveness is at /health\n"
            return "404 Not Found", "text/plain", told
        return "200 OK", *self._render()


def _token(head: bytes) -> str:
    """Return the token in a request's head; empty if there is none."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        scheme, _, token = value.strip().partition(b" ")
        if name.strip().lower() == b"authorization" and scheme.lower() == b"bearer":
            return token.strip().decode("latin-1")
    return ""
