"""Where the files say how ZooKeeper is spoken to: a broker's `server.properties`, and a file for that alone."""

from __future__ import annotations

from pathlib import Path

from shunter.app.private_files import tell_readers
from shunter.drivers.zookeeper_access import PLAIN_ZOOKEEPER_ACCESS, ZooKeeperAccess
from shunter.errors import FormatError, SettingsError
from shunter.formats.client_properties import parse_properties
from shunter.formats.zookeeper_properties import JAAS_FILE, zookeeper_security


def zookeeper_access(server_properties: Path | None, own: Path | None) -> ZooKeeperAccess:
    """Join what both files say; what stands in `own` counts.

    Raises:
        SettingsError: a file can't be read, or something in it can't be used.
    """
    if server_properties is None and own is None:
        return PLAIN_ZOOKEEPER_ACCESS
    properties: dict[str, str] = {}
    for path in (server_properties, own):
        if path is not None:
            properties |= _properties(path)
    if own is not None:
        tell_readers(own)
    place = str(own or server_properties)
    jaas = properties.get(JAAS_FILE, "").strip()
    jaas_file = _content(Path(jaas), f"{place}: {JAAS_FILE}") if jaas else None
    if jaas:
        tell_readers(Path(jaas))
    return ZooKeeperAccess(zookeeper_security(properties, place, jaas_file))


def _properties(path: Path) -> dict[str, str]:
    try:
        return parse_properties(_content(path, "settings for ZooKeeper"), str(path))
    except FormatError as error:
        raise SettingsError(f"settings for ZooKeeper: {error}") from None


def _content(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{what}: {path} can't be read: {error}") from None
