"""A client of a service's HTTP API, at its UNIX socket or at an address: one request, one JSON answer."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from shunter.drivers.host.http_client import HttpRequest, ask_http, is_http_url, refuse_open_token
from shunter.errors import DriverError, FormatError, SettingsError
from shunter.formats.text_files import text_of
from shunter.model.service import OrderRefused, Refusal

WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class ServiceServer:
    """The address of a service (the path of its UNIX socket, or `http://HOST:PORT`), and what a port may require."""

    address: str | Path
    token_file: Path | None = None
    ca_file: Path | None = None
    plain_http: bool = False
    """The token may be sent unencrypted to another machine."""


def call_service(server: ServiceServer, method: str, path: str, body: object = None, key: str = "") -> Any:
    """Call a route of `/api/v1`. Blocks.

    Raises:
        OrderRefused: the service refuses; the message is the service's.
        DriverError: the server does not answer, refuses the token, or is not a service of Shunter; or this can't be sent.
        SettingsError: the URL or the key is malformed, or others on the network could read the token.
        FormatError: the token file or the CA file can't be read.
    """
    at = server.address
    if isinstance(at, str) and not is_http_url(at):
        raise SettingsError(f"--service {at}: http://HOST:PORT or https://HOST:PORT is wanted")
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if not key.isascii() or not key.isprintable():
        raise SettingsError(f"--key {key!r}: a key has printable ASCII alone: choose another")
    if key:
        headers["Idempotency-Key"] = key
    if server.token_file is not None:
        if not server.plain_http:
            refuse_open_token(str(at), "--plain-http")
        headers["Authorization"] = f"Bearer {_read(server.token_file)}"
    try:
        raw = None if body is None else orjson.dumps(body)
    except TypeError as error:  # The command line had bytes that are not UTF-8.
        raise DriverError(f"this can't be asked: {error}", retriable=False) from error
    below = urlsplit(at).path.rstrip("/") if isinstance(at, str) else ""
    asked = HttpRequest(method, f"{below}/api/v1{path}", raw, headers)
    return _answered(server, *ask_http(str(at), at, asked, within_s=WITHIN_S, ca_file=server.ca_file))


def _answered(server: ServiceServer, status: int, raw: bytes) -> Any:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        document = None
    if status in (http.client.OK, http.client.MULTI_STATUS) and document is not None:
        return document
    problem = document if isinstance(document, dict) else {}
    told = str(problem.get("detail") or problem.get("title") or f"answered {status}: is it a service of Shunter's?")
    kind = str(problem.get("type", "")).removeprefix("urn:shunter:")
    if kind in {refusal.value for refusal in Refusal}:
        raise OrderRefused(Refusal(kind), told)
    raise DriverError(f"{server.address}: {told}", retriable=status >= http.client.INTERNAL_SERVER_ERROR)


def _read(path: Path) -> str:
    try:
        return text_of(path.read_bytes()).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(str(path), f"can't be read: {error}") from error
