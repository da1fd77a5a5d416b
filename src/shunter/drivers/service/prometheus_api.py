"""Prometheus' HTTP API: one range query, with a bearer token if there is one. No redirection is followed.

Remote read would need snappy and protobuf, and does not put series on one grid of steps; caches of Thanos and Mimir
often lack it.
"""

from __future__ import annotations

import http.client
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from shunter.drivers.host.http_client import HttpAnswer, HttpRequest, ask_http, is_http_url, refuse_open_token
from shunter.errors import DriverError, FormatError
from shunter.formats.text_files import without_mark

MOST_POINTS = 11_000
"""Prometheus refuses a query for more points than this of each series."""
PATH = "/api/v1/query_range"


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """A server, or one with the same API (Thanos, Mimir). `url` is the part of its URLs before `/api/v1`."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    timeout_s: float = 120.0
    plain_http: bool = False
    """The token may be sent unencrypted to another machine."""
    tenant: str | None = None
    """Mimir's and Loki's X-Scope-OrgID."""
    user: str | None = None
    """The token is this user's password (basic authentication)."""


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """The unchanged answer to a range query. If there are `warnings`, it may be incomplete."""

    raw: bytes
    series: int
    warnings: tuple[str, ...]


def query_range(server: PrometheusServer, query: str, start: int, end: int, step: int) -> RangeAnswer:
    """Ask for all points of a query from `start` to `end` (seconds since 1970, both included), `step` seconds apart.

    The query is sent in the body: a selector may be longer than the URLs that some proxies accept.

    Raises:
        DriverError: the server does not answer, or refuses; the message has the server's text.
        FormatError: the URL is malformed, or a file can't be read.
        SettingsError: others on the network could read the token.
    """
    status, raw = _posted(server, {"query": query, "start": str(start), "end": str(end), "step": str(step)})
    try:
        told = orjson.loads(raw)
    except ValueError:
        told = None
    if status != http.client.OK or not isinstance(told, dict) or told.get("status") != "success":
        raise _refused(server, status, told if isinstance(told, dict) else {}, raw)
    data = told.get("data")
    result = data.get("result") if isinstance(data, dict) and data.get("resultType") == "matrix" else None
    if not isinstance(result, list):
        raise DriverError(f"{server.url}: what it answers is no range of series: is it Prometheus?", retriable=False)
    return RangeAnswer(raw, len(result), tuple(str(one) for one in told.get("warnings") or ()))


def _refused(server: PrometheusServer, status: int, told: dict[str, Any], raw: bytes) -> DriverError:
    # A proxy in between may answer with a page of HTML: its first characters are enough.
    words = " ".join(str(told.get("error") or raw[:300].decode(errors="replace")).split()) or "nothing"
    ways: dict[int, str] = {
        http.client.UNAUTHORIZED: "; it asks for a token: give --token-file",
        http.client.FORBIDDEN: "; the token does not suffice",
        http.client.NOT_FOUND: f"; nothing is at {PATH} there: does the URL lack a prefix?",
    }
    way = ways.get(status, "")
    if http.client.MULTIPLE_CHOICES <= status < http.client.BAD_REQUEST:
        way = "; redirections are not followed: give the URL that it points to"
    retriable = status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS
    return DriverError(f"{server.url} answers {status}: {words}{way}", retriable=retriable)


def _posted(server: PrometheusServer, form: dict[str, str]) -> HttpAnswer:
    if not is_http_url(server.url):
        raise FormatError(server.url, "is no http or https URL of a Prometheus server")
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    if server.token_file is not None:
        if not server.plain_http:
            refuse_open_token(server.url, "--plain-http")
        token = _text_of(server.token_file)
        basic = b64encode(f"{server.user}:{token}".encode()).decode()
        headers["Authorization"] = f"Bearer {token}" if server.user is None else f"Basic {basic}"
    if server.tenant is not None:
        headers["X-Scope-OrgID"] = server.tenant
    asked = HttpRequest("POST", urlsplit(server.url).path.rstrip("/") + PATH, urlencode(form), headers)
    return ask_http(server.url, server.url, asked, within_s=server.timeout_s, ca_file=server.ca_file)


def _text_of(path: Path) -> str:
    try:
        return without_mark(path.read_bytes()).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(str(path), f"can't be read as a token: {error}") from error
