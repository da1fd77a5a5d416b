"""Asks a controller of Shunter for its status at its metrics port: one GET, bounded in size and time."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from pathlib import Path

from shunter.drivers.host.http_client import HttpRequest, ask_http
from shunter.errors import DriverError, FormatError
from shunter.views.controller_status import ControllerStatus, decode_status

WITHIN_S = 3.0
MOST_BYTES = 65_536
WAYS = {
    http.client.UNAUTHORIZED: "it asks for a token: name controllers-token-file",
    http.client.NOT_FOUND: "nothing is at /status there: is it `metrics_port` of a controller of this version?",
}


@dataclass(frozen=True, slots=True)
class ControllersPlace:
    """Metrics addresses of all controllers of one cluster, as `http://HOST:PORT`, and the token for them."""

    urls: tuple[str, ...]
    token_file: Path | None = None
    ca_file: Path | None = None
    """PEM file with the CA certificates for an https URL; None: the system's."""


def ask_controller(url: str, place: ControllersPlace) -> ControllerStatus:
    """Ask one controller. Blocks for a few seconds at the most.

    Raises:
        DriverError: the controller does not answer, or refuses the token.
        FormatError: the answer is not that of a controller of Shunter, or a file can't be read.
    """
    headers = {} if place.token_file is None else {"Authorization": f"Bearer {_token(place.token_file)}"}
    asked = HttpRequest(target="/status", headers=headers)
    status, raw = ask_http(
        f"{url} does not answer", url, asked, within_s=WITHIN_S, most_bytes=MOST_BYTES + 1, ca_file=place.ca_file
    )
    if status != http.client.OK:
        way = WAYS.get(status, "is it `metrics_port` of a controller?")
        raise DriverError(f"{url} answers {status}: {way}", retriable=False)
    if len(raw) > MOST_BYTES:
        raise FormatError(url, f"answers with more than {MOST_BYTES} bytes: is it `metrics_port` of a controller?")
    return decode_status(raw, url)


def _token(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(str(path), f"can't be read as a token: {error}") from error
