"""What a broker says of its own configuration (DescribeConfigs), for those who have to know before they speak to it."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResourceResult, DescribeConfigsResponse
from kio.serial import entity_reader
from kio.static.primitive import i8

from shunter.drivers.broker_connection import BrokerConnection
from shunter.errors import DriverError
from shunter.model.partition import BrokerId
from shunter.wire.requests import encode_message

DESCRIBE_CONFIGS = 32
_VERSION = 1
_BROKER = 4
_STATIC, _DEFAULT = 4, 5
"""Where a value comes from: the broker's file, or Kafka itself (`DescribeConfigsResponse.ConfigSource`)."""
_read = entity_reader(DescribeConfigsResponse)


async def settings_of(
    connection: BrokerConnection, broker: BrokerId, names: Iterable[str], *, at_its_start: bool = False
) -> dict[str, str | None] | None:
    """Ask a broker just connected to for some of its settings; the caller bounds the time.

    Args:
        connection: to the broker.
        broker: its id.
        names: of the settings.
        at_its_start: what it was started with, without the dynamic configuration that is in force now.

    Returns:
        Values by name, defaults included; a name that it does not know is left out. None where it can't be asked.

    Raises:
        DriverError: it refuses, or what it answers can't be read; the connection is as good as before.
        OSError, EOFError, FormatError: the connection broke.
    """
    lowest, highest = connection.ranges.get(DESCRIBE_CONFIGS, (1, 0))
    if not lowest <= _VERSION <= highest:
        return None
    resource = DescribeConfigsResource(
        resource_type=i8(_BROKER), resource_name=str(broker), configuration_keys=tuple(names)
    )
    body = encode_message(DescribeConfigsRequest(resources=(resource,), include_synonyms=at_its_start))
    told_body = await connection.ask(DESCRIBE_CONFIGS, _VERSION, body)
    try:
        answer, _ = _read(told_body, 0)
    except Exception as error:  # kio raises errors of many kinds for bytes that it can't read
        raise DriverError(f"broker {broker}: DescribeConfigs: unreadable: {error}", retriable=False) from error
    if len(answer.results) != 1 or answer.results[0].error_code:
        told = [(int(each.error_code), each.error_message) for each in answer.results]
        raise DriverError(f"broker {broker}: DescribeConfigs: refused: {told}", retriable=False)
    configs = answer.results[0].configs
    return {each.name: _at_its_start(each) if at_its_start else each.value for each in configs}


def _at_its_start(config: DescribeConfigsResourceResult) -> str | None:
    """Read off the value that is left without dynamic configuration. Synonyms come in the order in which they count."""
    return next((each.value for each in config.synonyms if each.source in (_STATIC, _DEFAULT)), config.value)
