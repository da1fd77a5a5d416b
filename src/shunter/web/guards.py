"""Every request is judged here before its body is read: host, caller, role, size. Every answer gets headers here."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from typing import NamedTuple

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shunter.app.access.access_tokens import AccessRole
from shunter.web.identity import LOCAL_READER, demand
from shunter.web.order_bodies import PreviewBody, SketchBody
from shunter.web.ordering import VERBS
from shunter.web.problems import HttpRefusal
from shunter.web.reception import Reception, reception_of

SMALL_BYTES = 4 * 1024
"""The most bytes of a body that is no order: a token, to sign in."""
BODY_SECONDS = 10.0
SLOWEST_BODY = 64 * 1024
"""Bytes per second; a body may take `BODY_SECONDS`, and the time for its bytes at this rate."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
HSTS = "max-age=31536000"
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
PROBES = frozenset({"/health", "/ready"})
"""Kubernetes asks by a pod's address, so these answer to every name. They tell nothing that a token would protect."""
METRICS = "/metrics"
"""Prometheus finds pods by their addresses, too. With tokens, this answers to every name, because a page of another
site has no token; without tokens such a page could read it, so the name is checked."""
METHODS = frozenset({"GET", "POST", "DELETE"})
"""Methods that are counted by their names; anybody may invent others."""
OPEN = frozenset(
    {
        ("POST", "/api/v1/session"),
        *(("GET", f"/api/v1/{name}") for name in ("session", "login", "callback", "openapi.json")),
    }
)
"""Requests of the API that need no token."""


class Demand(NamedTuple):
    """What a request needs. `role` None: no token."""

    role: AccessRole | None
    most_bytes: int = SMALL_BYTES


_ORDERS = {verb.kind.value: Demand(AccessRole.OPERATE, verb.body.most_bytes) for verb in VERBS} | {
    "sketch": Demand(AccessRole.OPERATE, SketchBody.most_bytes),
    "preview": Demand(AccessRole.READ, PreviewBody.most_bytes),
}


def demand_of(method: str, path: str) -> Demand:
    """The role that a request needs, and the most bytes that its body may have."""
    if (method, path) in OPEN or not (path == METRICS or path.startswith("/api/")):
        return Demand(None)
    order = _ORDERS.get(path.rpartition("/")[2]) if method == "POST" else None
    return order or Demand(AccessRole.READ)


class Guards:
    """An ASGI application around another one.

    A page of another site can make a browser send requests here, under a host name of that site that points to
    127.0.0.1 (DNS rebinding). Such a request has that name as its Host, so hosts that are not configured are refused.
    """

    def __init__(self, inner: ASGIApp, hosts: Collection[str]) -> None:
        """`hosts`: allowed host names, without port and in lower case."""
        self._inner = inner
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        method = scope["method"] if scope["method"] in METHODS else "other"
        request = Request(scope)
        reception = reception_of(request)
        send = _with_headers(_counted(send, method, reception), secure=scope["scheme"] == "https")
        try:
            if request.scope["path"].startswith(("/api/", METRICS)):
                await reception.identity.recognize(request)
            most = self._judge(request, reception)
        except HttpRefusal as refusal:
            await (await reception.refused(request, refusal))(scope, receive, send)
            return
        await self._inner(scope, _bounded(receive, most), send)

    def _judge(self, request: Request, reception: Reception) -> int:
        """The most bytes that the body may have.

        Raises:
            HttpRefusal: the request is refused, whatever its body is.
        """
        # Not the path of `request.url`: that one is made with the Host, in which its sender may write another path.
        path = request.scope["path"]
        tokens = reception.identity.asks_for_tokens
        if not (path in PROBES or (path == METRICS and tokens)):
            self._check_host(host_of(request.headers.get("host", "")))
        wanted = demand_of(request.method, path)
        if wanted.role is not None:
            caller = reception.identity.caller(request)
            request.state.caller = caller
            connection = getattr(request.state, "connection", lambda: None)()
            if caller is not LOCAL_READER and connection is not None:
                connection.know()
            demand(caller, wanted.role)
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > wanted.most_bytes:
            raise _too_large(wanted.most_bytes)
        return wanted.most_bytes

    def _check_host(self, host: str) -> None:
        if host not in self._hosts:
            allowed = ", ".join(sorted(self._hosts))
            told = f"this service does not answer to the name {host[:200]!r}: use {allowed}, or allow it by --host"
            raise HttpRefusal(HTTPStatus.MISDIRECTED_REQUEST, "unknown-host", told)


def host_of(header: str) -> str:
    """The name in a Host header, in lower case and without its port."""
    name, colon, port = header.strip().lower().rpartition(":")
    return name if colon and port.isdecimal() else header.strip().lower()


def _too_large(most: int) -> HttpRefusal:
    told = f"the body of this request may have at most {most} bytes"
    return HttpRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body-too-large", told)


def _bounded(receive: Receive, most: int) -> Receive:
    """`receive`, with bounds of the body's bytes (a body may come without a length) and of its time."""
    taken = 0
    whole = False
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def bounded() -> Message:
        nonlocal taken, whole
        if whole:  # The next message comes when the caller hangs up.
            return await receive()
        try:
            async with asyncio.timeout_at(began + BODY_SECONDS + taken / SLOWEST_BODY):
                message = await receive()
        except TimeoutError as error:
            told = f"the body has not come within {BODY_SECONDS:.0f} s, and at {SLOWEST_BODY} bytes per second"
            raise HttpRefusal(HTTPStatus.REQUEST_TIMEOUT, "body-too-slow", told) from error
        taken += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if taken > most:
            raise _too_large(most)
        return message

    return bounded


def _without_body(send: Send) -> Send:
    """`send` for HEAD: the head of the answer to GET, and then its end. A stream without end ends there, too."""

    async def headless(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return headless


def _counted(send: Send, method: str, reception: Reception) -> Send:
    async def counted(message: Message) -> None:
        if message["type"] == "http.response.start":
            reception.requests[method, message["status"]] += 1
        await send(message)

    return counted


def _with_headers(send: Send, *, secure: bool) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            if secure:
                headers["strict-transport-security"] = HSTS
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return guarded
