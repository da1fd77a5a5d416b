"""The HTTP server: it serves one port while a `with` block runs."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Collection, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from shunter.app.access_tokens import Tokens
from shunter.app.audit_log import AuditLog
from shunter.app.page_sessions import PageSessions
from shunter.app.service.front import Front
from shunter.errors import DriverError, SettingsError
from shunter.model.loopback import is_loopback
from shunter.web.application import make_application
from shunter.web.feed import feed
from shunter.web.guards import LOCAL_HOSTS
from shunter.web.hub import Hub
from shunter.web.identity import Identity
from shunter.web.listening import listen_at, load_tls, shown_host
from shunter.web.reception import Reception

CLOSING_SECONDS = 5


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Address, files and host names of the HTTP server."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0: the kernel chooses a port."""
    tokens: Path | None = None
    audit: Path | None = None
    sessions: Path | None = None
    """The file with the page's sessions, as digests; None: sessions end with the service."""
    hosts: tuple[str, ...] = ()
    """Host names that requests may have besides localhost and `host`, such as the name of a proxy in front."""
    certificate: Path | None = None
    key: Path | None = None


def check_options(options: WebOptions) -> None:
    """Refuse options that would be dangerous.

    Raises:
        SettingsError: other machines could reach the service without a token, or one of the TLS files is missing.
    """
    if options.tokens is None and not is_loopback(options.host):
        raise SettingsError(
            f"--listen {options.host}: other machines could read everything without a token; give --tokens FILE, or"
            " listen on 127.0.0.1"
        )
    if (options.certificate is None) != (options.key is None):
        raise SettingsError("--certificate and --key belong together: give both or none")


@asynccontextmanager
async def serving(front: Front, options: WebOptions) -> AsyncIterator[str]:
    """Serve while the block runs; yields the address of the page.

    Raises:
        SettingsError: see `check_options`; or the certificate or its key can't be used.
        FormatError: the tokens or the audit log can't be used.
        DriverError: the host or the port can't be used.
    """
    check_options(options)
    tokens = None if options.tokens is None else Tokens(options.tokens)
    hub = Hub(secrets.token_hex(4))
    audit = AuditLog(options.audit)
    reception = Reception(front, Identity(tokens, PageSessions(options.sessions)), hub, audit)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(audit.close)
        task = asyncio.create_task(feed(front, hub, front.version, reception.forecasts), name="web-feed")
        stack.push_async_callback(_ended, task)
        listener = stack.enter_context(listen_at(options.host, options.port))
        port = listener.getsockname()[1]
        shown = shown_host(options.host)
        hosts = {*LOCAL_HOSTS, shown.lower(), *map(str.lower, options.hosts)}
        await stack.enter_async_context(_server(reception, hosts, listener, options))
        stack.callback(hub.close)
        yield f"{'https' if options.certificate else 'http'}://{shown}:{port}/"


@asynccontextmanager
async def _server(
    reception: Reception, hosts: Collection[str], listener: socket.socket, options: WebOptions
) -> AsyncIterator[None]:
    config = uvicorn.Config(
        make_application(reception, hosts),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=CLOSING_SECONDS,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    load_tls(config, options.certificate, options.key)
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]), name="web-server")
    listening = asyncio.create_task(server.listening.wait())
    try:
        await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            _failed(task)
        yield
    finally:
        listening.cancel()
        server.should_exit = True
        reception.hub.close()
        await asyncio.wait({task})


def _failed(task: asyncio.Task[None]) -> None:
    try:
        task.result()
    except OSError as error:
        raise DriverError(f"the HTTP server can't serve: {error.strerror or error}", retriable=False) from error
    raise DriverError("the HTTP server ended before it served", retriable=False)


class _Server(uvicorn.Server):
    """A uvicorn server that sets an event once it listens, and leaves signals to the service."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """See uvicorn."""
        yield


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
