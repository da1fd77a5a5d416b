"""Prometheus' HTTP API: one range query, with a bearer token if there is one. No redirection is followed."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

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


def _posted(server: PrometheusServer, form: dict[str, str]) -> tuple[int, bytes]:
    try:
        url = urlsplit(server.url)
        port = url.port
    except ValueError as error:
        raise FormatError(server.url, f"is no URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname:
        raise FormatError(server.url, "is no http or https URL of a Prometheus server")
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    if server.token_file is not None:
        headers["Authorization"] = f"Bearer {_text_of(server.token_file)}"
    connection: http.client.HTTPConnection
    if url.scheme == "https":
        context = _trusting(server.ca_file)
        connection = http.client.HTTPSConnection(url.hostname, port, timeout=server.timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(url.hostname, port, timeout=server.timeout_s)
    try:
        connection.request("POST", url.path.rstrip("/") + PATH, urlencode(form), headers)
        answered = connection.getresponse()
        return answered.status, answered.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DriverError(f"{server.url}: {type(error).__name__}: {error}", retriable=True) from error
    finally:
        connection.close()


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise FormatError(str(ca_file), f"can't be used as certificates: {error}") from error


def _text_of(path: Path) -> str:
    try:
        return without_mark(path.read_bytes()).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(str(path), f"can't be read as a token: {error}") from error
