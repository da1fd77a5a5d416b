"""The configuration of every client of a cluster, from a client properties file as Apache's tools take it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shunter.app.access.private_files import tell_readers
from shunter.errors import FormatError, SettingsError
from shunter.formats.client_properties import TLS, client_configuration, parse_properties
from shunter.formats.text_files import text_of

_OF_LOGINS = ("security.", "sasl.", "ssl.")
_NAMES_A_SECRET = re.compile(r"\b(password|clientSecret)\s*=")


def configuration_of(bootstrap: str, properties: Path | None, client_id: str | None = None) -> dict[str, Any]:
    """kafka-python's configuration from Apache's properties file.

    Args:
        bootstrap: `HOST:PORT`, several separated by commas.
        properties: The file; None: no security, and all settings as they are by default.
        client_id: Sent to brokers if the file names no `client.id`.

    Raises:
        FormatError, SettingsError: the file can't be read or used.
    """
    found = {} if properties is None else _read(properties)
    place = "no properties file" if properties is None else str(properties)
    if client_id is not None:
        found.setdefault("client.id", client_id)
    from shunter.drivers.security.bearer_tokens import with_tokens  # noqa: PLC0415  brings the client library with it

    configuration = with_tokens(client_configuration(found, bootstrap, place))
    if TLS in configuration:
        from shunter.drivers.security.tls import ClientTls  # noqa: PLC0415  the other clients need no certificates

        configuration[TLS] = ClientTls(configuration[TLS], place)
    return configuration


def stream_options(properties: Path | None, said: Mapping[str, str]) -> dict[str, str]:
    """Settings of a Kafka client in Java: the security settings of a properties file, and those of the command line.

    Raises:
        FormatError: the file can't be read.
        SettingsError: the command line holds a secret, and every user of this machine could read it there.
    """
    secret = [name for name in said if name.endswith(("password", "secret", "jaas.config", ".key"))]
    if secret:
        told = "everybody on this machine can read a command's arguments; put it into a file and give --command-config"
        raise SettingsError(f"--kafka-option {secret[0]}: {told}")
    found = {} if properties is None else _read(properties)
    return {name: value for name, value in found.items() if name.startswith(_OF_LOGINS)} | dict(said)


def _read(path: Path) -> dict[str, str]:
    place = str(path)
    try:
        found = parse_properties(text_of(path.read_bytes()), place)
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(place, f"can't be read: {error}") from error
    for private in _private(path, found):
        tell_readers(private)
    return found


def _secret_properties(properties: Mapping[str, str]) -> list[str]:
    """Name the properties whose values are secret."""
    return [
        name
        for name, value in properties.items()
        if name.endswith(("password", "secret")) or (name.endswith("jaas.config") and _NAMES_A_SECRET.search(value))
    ]


def _private(file: Path, properties: Mapping[str, str]) -> Iterator[Path]:
    """The files with secrets, which only their owner should be able to read."""
    if _secret_properties(properties):
        yield file
    key = properties.get("ssl.keystore.location")
    if key and "ssl.key.password" not in properties:
        yield Path(key)
    login = properties.get("sasl.oauthbearer.token.endpoint.url", "")
    if login.startswith("file:"):
        yield Path(urlsplit(login).path)
