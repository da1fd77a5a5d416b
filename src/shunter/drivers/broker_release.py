"""Which release a broker speaks to others: its own `inter.broker.protocol.version`, as it tells when asked.

A broker takes the newest versions that its software knows, whatever its setting says. In the middle of an upgrade the
setting says what the cluster can fall back from: a topic id that a broker has written beside its log stays there.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from shunter.drivers.broker_connection import BrokerConnection
from shunter.drivers.broker_settings import settings_of
from shunter.errors import DriverError, SettingsError
from shunter.model.features import Protocol
from shunter.model.partition import BrokerId
from shunter.wire.versions import ControlVersions, control_versions, protocol_of

KEY = "inter.broker.protocol.version"
ANSWER_SECONDS = 5.0
_LOG = logging.getLogger(__name__)


class Release(NamedTuple):
    """A broker's setting, and the control requests of that release."""

    protocol: Protocol
    versions: ControlVersions


async def release_of(connection: BrokerConnection, broker: BrokerId) -> Release | None:
    """Ask a broker just connected to for its release; None where it does not tell.

    A broker whose authorizer keeps its configuration from us, or that can't be asked, gets what its software takes.

    Raises:
        OSError, EOFError, FormatError: the connection broke.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            told = await settings_of(connection, broker, (KEY,))
        value = None if told is None else told.get(KEY)
        return None if value is None else Release(protocol_of(value), control_versions(value))
    except (SettingsError, DriverError) as unknown:
        _LOG.info("broker %d: %s", broker, unknown)
        return None
