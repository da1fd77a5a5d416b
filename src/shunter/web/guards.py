"""Checks before every request: the Host header, and the size of the body. They also set headers on every answer."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shunter.web.problems import HttpRefusal, problem_answer

MOST_BODY_BYTES = 8 * 1024 * 1024
"""A plan of 100,000 partitions has about this size."""
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
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


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
        guarded = _with_headers(send)
        refusal = self._refusal(Headers(scope=scope))
        if refusal is not None:
            await problem_answer(refusal, scope["path"])(scope, receive, guarded)
            return
        await self._inner(scope, _bounded(receive), guarded)

    def _refusal(self, headers: Headers) -> HttpRefusal | None:
        host = host_of(headers.get("host", ""))
        if host not in self._hosts:
            allowed = ", ".join(sorted(self._hosts))
            told = f"this service does not answer to the name {host!r}: use {allowed}, or allow it by --host"
            return HttpRefusal(HTTPStatus.MISDIRECTED_REQUEST, "unknown-host", told)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            return _too_large()
        return None


def host_of(header: str) -> str:
    """The name in a Host header, in lower case and without its port."""
    name, colon, port = header.strip().lower().rpartition(":")
    return name if colon and port.isdecimal() else header.strip().lower()


def _too_large() -> HttpRefusal:
    return HttpRefusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body-too-large", f"a body may have at most {MOST_BODY_BYTES} bytes"
    )


def _bounded(receive: Receive) -> Receive:
    """`receive`, with a count of the body's bytes, because a body may come without a length."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BODY_BYTES:
            raise _too_large()
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return guarded
