"""Whether we could do a controller's work here: reach a broker, and be found by those that look for us.

Brokers look for the controller among its listeners by a name of their own configuration: AlterPartition and producer ids
go to `control.plane.listener.name`, and a controlled shutdown to the inter-broker listener (Apache 3.9:
`NodeToControllerChannelManager`, `KafkaServer.controlledShutdown`). Whoever lacks that name is elected, and never hears
of an ISR change. So brokers are asked, by DescribeConfigs, before we stand; what can't be found out is no obstacle.
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResponse
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8

from shunter.drivers.broker_connection import BrokerConnection, addresses_of, broker_endpoint, connect_to_any
from shunter.drivers.cluster_reader import ClusterReader
from shunter.errors import FormatError
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import BrokerId

_LOG = logging.getLogger(__name__)

DESCRIBE_CONFIGS = 32
VERSION = 1
BROKER_RESOURCE = 4
CONTROL_PLANE, INTER_BROKER, PROTOCOL = (
    "control.plane.listener.name", "inter.broker.listener.name", "security.inter.broker.protocol",
)  # fmt: skip
ANSWER_SECONDS = 2.0
ASKED_AT_ONCE = 5
_encode = entity_writer(DescribeConfigsRequest)
_decode = entity_reader(DescribeConfigsResponse)


class Listeners(NamedTuple):
    """What a broker calls the listeners of its traffic with the controller. `control_plane` None: it has none."""

    control_plane: str | None
    inter_broker: str

    @property
    def names(self) -> tuple[str, ...]:
        """Those that a controller has to have."""
        return tuple(dict.fromkeys((self.control_plane or self.inter_broker, self.inter_broker)))


class Survey:
    """Looks at the brokers that are registered.

    Args:
        registration: what we would register as.
        listener: name of the brokers' listener that we were told to use; None for what they say, or any that we can use.
    """

    def __init__(self, registration: Broker, listener: str | None) -> None:
        self._registration = registration
        self._listener = listener
        self.found: Listeners | None = None
        """What the last broker that could be asked has said."""

    async def obstacle(self, reader: ClusterReader) -> str | None:
        """Say in a sentence why we should not stand; None where nothing is known to be in the way."""
        registered = await reader.brokers()
        brokers = [broker for broker in registered.brokers if broker.id != self._registration.id]
        usable: list[tuple[BrokerId, Endpoint]] = []
        refused = ""
        for broker in brokers:
            try:
                usable.append((broker.id, broker_endpoint(broker, self._listener)))
            except FormatError as refusal:
                refused = refused or str(refusal)
        if not brokers:
            return None
        if not usable:
            return f"no broker of {len(brokers)} has a listener that we can use: {refused}"
        answers, failures = await self._ask(usable)
        if len(failures) == len(usable):
            return f"no broker of {len(usable)} can be reached: {failures[0]}"
        return self._unfindable(answers)

    def _unfindable(self, answers: Sequence[Listeners]) -> str | None:
        if not answers:
            return None
        ours = {endpoint.listener for endpoint in self._registration.endpoints}
        self.found = answers[0]
        missing = [name for name in answers[0].names if name not in ours]
        if not missing:
            return None
        uses = f"{INTER_BROKER} is {answers[0].inter_broker}"
        if answers[0].control_plane is not None:
            uses = f"{CONTROL_PLANE} is {answers[0].control_plane}, {uses}"
        return (
            f"brokers would not find us: {uses}, and our listeners are {', '.join(sorted(ours))}; "
            f"start us with --listener {missing[0]}://HOST:PORT as well"
        )

    async def _ask(self, brokers: Sequence[tuple[BrokerId, Endpoint]]) -> tuple[list[Listeners], list[str]]:
        """Ask a few at once, until some have answered; tells also why those before could not be connected to."""
        failures: list[str] = []
        for start in range(0, len(brokers), ASKED_AT_ONCE):
            asked = brokers[start : start + ASKED_AT_ONCE]
            told = await asyncio.gather(*(_listeners(broker, endpoint) for broker, endpoint in asked))
            failures += [each for each in told if isinstance(each, str)]
            if len(failures) < start + len(asked):
                return [each for each in told if isinstance(each, Listeners)], failures
        return [], failures


async def _listeners(broker: BrokerId, endpoint: Endpoint) -> Listeners | str | None:
    """Ask a broker; a sentence where it can't be connected to, None where it does not say."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            (await connect_to_any(await addresses_of(endpoint))).close()
    except (OSError, TimeoutError) as failure:
        return f"broker {broker} at {endpoint.host}:{endpoint.port}: {failure or 'no answer'}"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            connection = await BrokerConnection.open(endpoint, "shunter-survey")
            try:
                return await _describe(connection, broker)
            finally:
                connection.close()
    except (OSError, EOFError, TimeoutError, FormatError) as failure:
        _LOG.info("broker %d does not say how it speaks to its controller: %s", broker, failure)
        return None


async def _describe(connection: BrokerConnection, broker: BrokerId) -> Listeners | None:
    """Ask for the three settings.

    Raises:
        FormatError: it refuses, or what it answers can't be read.
    """
    lowest, highest = connection.ranges.get(DESCRIBE_CONFIGS, (0, -1))
    if not lowest <= VERSION <= highest:
        return None
    keys = (CONTROL_PLANE, INTER_BROKER, PROTOCOL)
    resource = DescribeConfigsResource(
        resource_type=i8(BROKER_RESOURCE), resource_name=str(broker), configuration_keys=keys
    )
    body = io.BytesIO()
    _encode(body, DescribeConfigsRequest(resources=(resource,)))
    await connection.send(DESCRIBE_CONFIGS, VERSION, connection.next_correlation_id(), body.getvalue())
    frames: list[bytes] = []
    while not frames:
        frames = await connection.receive()
    try:
        response, _ = _decode(frames[0], 4)
    except Exception as error:  # kio raises errors of many kinds for bytes that it can't read
        raise FormatError("DescribeConfigs", f"unreadable: {error}") from error
    if len(response.results) != 1 or response.results[0].error_code:
        told = [(int(each.error_code), each.error_message) for each in response.results]
        raise FormatError("DescribeConfigs", f"refused: {told}")
    values = {each.name: each.value for each in response.results[0].configs}
    return Listeners(values.get(CONTROL_PLANE), values.get(INTER_BROKER) or values.get(PROTOCOL) or "PLAINTEXT")
