"""The HTTP servers: one at a UNIX socket and one at a port serve the same application while a `with` block runs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import socket
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from shunter.app.access.access_tokens import Tokens
from shunter.app.access.audit_log import AuditLog
from shunter.app.access.page_sessions import PageSessions
from shunter.app.access.sign_on import SignOn
from shunter.app.service.front import Front
from shunter.errors import DriverError, SettingsError
from shunter.model.security.access import SignOnRules
from shunter.model.security.loopback import is_loopback
from shunter.web.application import make_application
from shunter.web.feed import feed
from shunter.web.guards import LOCAL_HOSTS
from shunter.web.hub import Hub
from shunter.web.identity import Identity
from shunter.web.port.accepting import Acceptor
from shunter.web.port.connection import HttpConnection
from shunter.web.port.connection_limits import ConnectionLimits
from shunter.web.port.listening import listen_at, listen_in, load_tls, shown_host
from shunter.web.port.token_watch import watch_tokens
from shunter.web.port.turns import AddressTurns
from shunter.web.reception import Reception

CLOSING_SECONDS = 5
MOST_AT_SOCKET = 250


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Address, files and host names of the HTTP server."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0: the kernel chooses a port."""
    tokens: Path | None = None
    sessions: Path | None = None
    """The file with the page's sessions, as digests; None: sessions end with the service."""
    hosts: tuple[str, ...] = ()
    """Host names that requests may have besides localhost and `host`, such as the name of a proxy in front."""
    certificate: Path | None = None
    key: Path | None = None
    plain_http: bool = False
    """Other machines may send tokens without TLS: a proxy on the way has it, or the network is trusted."""


def check_options(options: WebOptions) -> None:
    """Refuse options that would be dangerous.

    Raises:
        SettingsError: other machines could reach the service without a token or without TLS, or one of the TLS files
            is missing.
    """
    if options.tokens is None and not is_loopback(options.host):
        raise SettingsError(
            f"--listen {options.host}: other machines could read everything without a token; give --tokens FILE, or"
            " listen on 127.0.0.1"
        )
    if options.certificate is None and not options.plain_http and not is_loopback(options.host):
        raise SettingsError(
            f"--listen {options.host}: tokens would cross the network unencrypted; give --certificate and --key, or"
            " --plain-http if a proxy in front has TLS or the network is trusted"
        )
    if (options.certificate is None) != (options.key is None):
        raise SettingsError("--certificate and --key belong together: give both or none")


@asynccontextmanager
async def serving(
    front: Front,
    options: WebOptions | None,
    audit: AuditLog | None = None,
    *,
    door: Path | None = None,
    sign_on: SignOnRules | None = None,
) -> AsyncIterator[str]:
    """Serve while the block runs; yields the address of the page, "" without a port.

    The two servers share the application, and neither turns nor bounds: a flood at the port does not reach the socket.

    Args:
        front: The service.
        options: The port; None: no port is opened.
        audit: Gets every order.
        door: The path of the UNIX socket; None: there is none.
        sign_on: Who comes in besides those who have tokens.

    Raises:
        SettingsError: see `check_options`; or the certificate or its key can't be used.
        FormatError: the tokens can't be used.
        DriverError: the socket, the host or the port can't be used.
    """
    at = options or WebOptions()
    check_options(at)
    if options is not None and sign_on is not None and at.tokens is None:
        raise SettingsError(
            "[sign-on] in the policy file, and no --tokens: give --tokens FILE. A token lets people in while the issuer,"
            " or the proxy, does not"
        )
    tokens = None if at.tokens is None else Tokens(at.tokens)
    hub = Hub(secrets.token_hex(4))
    on = None if sign_on is None else SignOn(sign_on)
    identity = Identity(tokens, PageSessions(at.sessions), on)
    reception = Reception(front, identity, hub, audit or AuditLog(None))
    shown = shown_host(at.host)
    application = make_application(reception, {*LOCAL_HOSTS, shown.lower(), *map(str.lower, at.hosts)})
    async with contextlib.AsyncExitStack() as stack:
        _accompany(stack, feed(front, hub, front.version, reception.forecasts), "web-feed")
        if tokens is not None:
            _accompany(stack, watch_tokens(tokens, front, hub), "web-tokens")
        address = ""
        if door is not None:
            room = ConnectionLimits(most_of_address=MOST_AT_SOCKET)
            await stack.enter_async_context(_server(application, room, stack.enter_context(listen_in(door))))
        if options is not None:
            listener = stack.enter_context(listen_at(at.host, at.port))
            address = f"{'https' if at.certificate else 'http'}://{shown}:{listener.getsockname()[1]}/"
            await stack.enter_async_context(_server(application, reception.room, listener, at.certificate, at.key))
        stack.callback(hub.close)
        yield address


@asynccontextmanager
async def _server(
    application: FastAPI,
    room: ConnectionLimits,
    listener: socket.socket,
    certificate: Path | None = None,
    key: Path | None = None,
) -> AsyncIterator[None]:
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=CLOSING_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    load_tls(config, certificate, key)
    server = _Server(config, room)
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
        await asyncio.wait({task})


def _failed(task: asyncio.Task[None]) -> None:
    try:
        task.result()
    except OSError as error:
        raise DriverError(f"the HTTP server can't serve: {error.strerror or error}", retriable=False) from error
    raise DriverError("the HTTP server ended before it served", retriable=False)


class _Server(uvicorn.Server):
    """A uvicorn server that accepts connections in turns, and leaves signals to the service."""

    def __init__(self, config: uvicorn.Config, room: ConnectionLimits) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._room = room
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        turns = AddressTurns()
        make = functools.partial(
            HttpConnection, turns, self._room, config=self.config, server_state=self.server_state, app_state={}
        )
        self.servers = []
        self._acceptors = [Acceptor(each, self.config.ssl, turns, self._room, make) for each in sockets or ()]
        for acceptor in self._acceptors:
            acceptor.begin()
        self.started = True
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        for acceptor in self._acceptors:
            acceptor.end()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """See uvicorn."""
        yield


def _accompany(stack: contextlib.AsyncExitStack, work: Coroutine[None, None, None], name: str) -> None:
    """Run something until the stack is left."""
    task = asyncio.create_task(work, name=name)

    async def ended() -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    stack.push_async_callback(ended)
