"""Reads a broker's own configuration (DescribeConfigs), for callers that need it before they send other requests."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResourceResult, DescribeConfigsResponse
from kio.serial import entity_reader
from kio.static.primitive import i8

from shunter.drivers.brokers.access import decoded_answer
from shunter.drivers.brokers.connection import BrokerConnection
from shunter.errors import DriverError, FormatError
from shunter.model.partition import BrokerId
from shunter.wire.requests import encode_message

DESCRIBE_CONFIGS = 32
_VERSION = 1
_BROKER = 4
_STATIC, _DEFAULT = 4, 5
"""Sources of a value: the broker's file, and Kafka's default (`DescribeConfigsResponse.ConfigSource`)."""
_read = entity_reader(DescribeConfigsResponse)


async def settings_of(
    connection: BrokerConnection, broker: BrokerId, names: Iterable[str], *, at_its_start: bool = False
) -> dict[str, str | None] | None:
    """Ask a broker for some of its settings, on a new connection. The caller bounds the time.

    Args:
        connection: to the broker.
        broker: its id.
        names: of the settings.
        at_its_start: return the values without the dynamic configuration, as when the broker started.

    Returns:
        Values by name, defaults included; names that the broker does not know are left out. None if the broker does not
        support the request.

    Raises:
        DriverError: the broker refuses, or its answer can't be read; the connection can still be used.
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
        answer = decoded_answer(_read, told_body, f"broker {broker}: DescribeConfigs")
    except FormatError as error:
        raise DriverError(str(error), retriable=False) from error
    if len(answer.results) != 1 or answer.results[0].error_code:
        told = [(int(each.error_code), each.error_message) for each in answer.results]
        raise DriverError(f"broker {broker}: DescribeConfigs: refused: {told}", retriable=False)
    configs = answer.results[0].configs
    return {each.name: _at_its_start(each) if at_its_start else each.value for each in configs}


def _at_its_start(config: DescribeConfigsResourceResult) -> str | None:
    """Return the value without dynamic configuration. Synonyms are in the order of their precedence."""
    return next((each.value for each in config.synonyms if each.source in (_STATIC, _DEFAULT)), config.value)
