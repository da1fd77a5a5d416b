"""TLS and logins to ZooKeeper, from a broker's `server.properties` and from a file for ZooKeeper alone."""

from __future__ import annotations

from pathlib import Path

from shunter.app.access.private_files import tell_readers
from shunter.app.controller.broker_file import BrokerFile
from shunter.drivers.zookeeper.access import PLAIN_ZOOKEEPER_ACCESS, ZooKeeperAccess
from shunter.errors import FormatError, SettingsError
from shunter.formats.client_properties import parse_properties
from shunter.formats.text_files import text_of
from shunter.formats.zookeeper_properties import JAAS_FILE, zookeeper_security


def zookeeper_access(broker: BrokerFile | None, own: Path | None) -> ZooKeeperAccess:
    """Join the properties of a broker's file and of `own`; those in `own` go first.

    Raises:
        SettingsError: a file can't be read, or a property can't be used.
    """
    if own is not None:
        tell_readers(own)
        properties, place = {**({} if broker is None else broker.said), **_properties(own)}, str(own)
    elif broker is not None:
        properties, place = dict(broker.said), str(broker.path)
    else:
        return PLAIN_ZOOKEEPER_ACCESS
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
        return text_of(path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{what}: {path} can't be read: {error}") from None
