"""Which release a broker speaks to others: its own `inter.broker.protocol.version`, as it tells when asked.

A broker takes the newest versions that its software knows, whatever its setting says. In the middle of an upgrade the
setting says what the cluster can fall back from: a topic id that a broker has written beside its log stays there.
"""

from __future__ import annotations

import asyncio
import io
import logging
from typing import NamedTuple

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResponse
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8

from shunter.drivers.broker_connection import BrokerConnection
from shunter.errors import SettingsError
from shunter.model.features import Protocol
from shunter.model.partition import BrokerId
from shunter.wire.versions import ControlVersions, control_versions, protocol_of

DESCRIBE_CONFIGS = 32
_VERSION = 1
_BROKER = 4
KEY = "inter.broker.protocol.version"
ANSWER_SECONDS = 5.0
_LOG = logging.getLogger(__name__)
_read = entity_reader(DescribeConfigsResponse)
_write = entity_writer(DescribeConfigsRequest)


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
    lowest, highest = connection.ranges.get(DESCRIBE_CONFIGS, (1, 0))
    if not lowest <= _VERSION <= highest:
        return None
    buffer = io.BytesIO()
    asked = DescribeConfigsResource(resource_type=i8(_BROKER), resource_name=str(broker), configuration_keys=(KEY,))
    _write(buffer, DescribeConfigsRequest(resources=(asked,), include_synonyms=False))
    async with asyncio.timeout(ANSWER_SECONDS):
        await connection.send(DESCRIBE_CONFIGS, _VERSION, connection.next_correlation_id(), buffer.getvalue())
        frames: list[bytes] = []
        while not frames:
            frames = await connection.receive()
    return _release(frames[0], broker)


def _release(frame: bytes, broker: BrokerId) -> Release | None:
    try:
        answer, _ = _read(frame, 4)
        told = {config.name: config.value for result in answer.results for config in result.configs}
        value = told.get(KEY)
        return None if value is None else Release(protocol_of(value), control_versions(value))
    except SettingsError as unknown:
        _LOG.info("broker %d: %s", broker, unknown)
    except Exception as error:  # noqa: BLE001 - kio raises errors of many kinds for bytes that it can't read
        _LOG.info("broker %d: what it tells of its configuration is unreadable: %s", broker, error)
    return None
