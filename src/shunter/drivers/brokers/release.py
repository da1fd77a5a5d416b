"""The release that a broker is set to speak to others: its `inter.broker.protocol.version`, as it reports it.

A broker accepts the newest versions that its software knows, whatever its setting is. But in the middle of an upgrade,
the setting says which release the cluster may still go back to: a topic id that a broker has written beside its log
stays there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from shunter.core.controller_check import COMPARED
from shunter.drivers.brokers.connection import BrokerConnection
from shunter.drivers.brokers.settings import settings_of
from shunter.errors import DriverError, SettingsError
from shunter.model.features import Protocol
from shunter.model.partition import BrokerId
from shunter.wire.versions import OLDEST, ControlVersions, control_versions, protocol_of

KEY = "inter.broker.protocol.version"
ANSWER_SECONDS = 5.0
_LOG = logging.getLogger(__name__)


class Release(NamedTuple):
    """A broker's setting, the control requests of that release, and the defaults that it was started with."""

    protocol: Protocol
    versions: ControlVersions
    defaults: Mapping[str, str | None]


async def release_of(connection: BrokerConnection, broker: BrokerId) -> Release | None:
    """Ask a broker for its release, on a new connection; None if the broker does not report it.

    A broker whose authorizer hides its configuration, or that can't be asked, gets the versions that its software
    supports.

    Raises:
        OSError, EOFError, FormatError: the connection broke.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            told = await settings_of(connection, broker, (KEY, *COMPARED), at_its_start=True) or {}
        value = told.pop(KEY, None)
        return None if value is None else _release(value, told)
    except (SettingsError, DriverError) as unknown:
        _LOG.info("broker %d: %s", broker, unknown)
        return None


def _release(value: str, defaults: Mapping[str, str | None]) -> Release:
    """Make a release. A setting older than the oldest known one gets the oldest versions; newer software accepts them.

    A broker with such a setting writes ISRs by itself and knows no topic ids, as a broker of 2.2.
    """
    protocol = protocol_of(value)
    return Release(protocol, control_versions(value if protocol >= protocol_of(OLDEST) else OLDEST), defaults)
