"""Znodes of dynamic configuration, and the announcements of its changes.

Source: Apache Kafka 3.9, `ConfigEntityZNode`, `ConfigEntityChangeNotificationSequenceZNode`, `ZkConfigManager`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.text import read_document, read_object, read_text, read_version, write_document
from shunter.model.security.listeners import ScramCredential


class ConfigChange(NamedTuple):
    """The entity whose configuration changed: type (`topics`, `users`, ...) and name, a path for nested ones."""

    entity_type: str
    entity: str


def decode_config(place: str, data: bytes | None) -> dict[str, str]:
    """Read an entity's configuration; a znode without data has none, as Apache reads it."""
    if not data:
        return {}
    document = read_document(data, place)
    read_version(document, place, (1,), absent=1)
    configs = read_object(document, "config", place)
    for key, value in configs.items():
        if type(value) is not str:
            raise FormatError(place, f"value {value!r} of {key} is not a text")
    return configs


def encode_config(configs: Mapping[str, str]) -> bytes:
    """Print an entity's configuration."""
    return write_document({"version": 1, "config": dict(configs)})


def decode_config_change(place: str, data: bytes | None) -> ConfigChange:
    """Read an announcement, versions 1 (before 0.9) and 2."""
    document = read_document(data, place)
    if read_version(document, place, (1, 2)) == 1:
        return ConfigChange(read_text(document, "entity_type", place), read_text(document, "entity_name", place))
    entity_path = read_text(document, "entity_path", place)
    entity_type, slash, entity = entity_path.partition("/")
    if not slash or not entity or entity_type not in znodes.CONFIG_TYPES:
        raise FormatError(place, f"entity_path {entity_path!r} does not begin with one of {znodes.CONFIG_TYPES}")
    return ConfigChange(entity_type, entity)


def encode_config_change(change: ConfigChange) -> bytes:
    """Print an announcement, version 2."""
    return write_document({"version": 2, "entity_path": f"{change.entity_type}/{change.entity}"})


def decode_scram_credential(place: str, text: str) -> ScramCredential:
    """Read a user's credential for a mechanism: `salt=…,stored_key=…,server_key=…,iterations=…`.

    Raises:
        FormatError: it can't be read; the message does not quote any of it.
    """
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored, server = (b64decode(parts[name], validate=True) for name in ("salt", "stored_key", "server_key"))
        return ScramCredential(salt, stored, server, int(parts["iterations"]))
    except (KeyError, ValueError):
        raise FormatError(place, "a SCRAM credential in it can't be read") from None


def sanitized(name: str) -> str:
    """Print a user's or a client's name as the name of its znode. Source: Apache's `Sanitizer`."""
    return quote(name, safe="").replace("~", "%7E")
