"""From a client properties file, as Apache's tools take it, to what every client of a cluster is made with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shunter.errors import FormatError
from shunter.formats.client_properties import client_configuration, parse_properties


def configuration_of(bootstrap: str, properties: Path | None, client_id: str | None = None) -> dict[str, Any]:
    """kafka-python's configuration from Apache's properties file.

    Args:
        bootstrap: `HOST:PORT`, several separated by commas.
        properties: The file; None: no security, and all settings as they are by default.
        client_id: Told to brokers where the file names no `client.id`.

    Raises:
        FormatError, SettingsError: the file can't be read or used.
    """
    found: dict[str, str] = {}
    place = "no properties file"
    if properties is not None:
        place = str(properties)
        try:
            found = parse_properties(properties.read_text(encoding="utf-8"), place)
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(place, f"can't be read: {error}") from error
    if client_id is not None:
        found.setdefault("client.id", client_id)
    from shunter.drivers.bearer_tokens import with_tokens  # noqa: PLC0415  brings the client library with it

    return with_tokens(client_configuration(found, bootstrap, place))
