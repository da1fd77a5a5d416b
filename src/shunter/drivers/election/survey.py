"""Whether this process could do a controller's work: whether it can reach a broker, and brokers could find it.

Brokers choose the controller's listener by a name in their own configuration: AlterPartition and producer ids go to
`control.plane.listener.name`, and a controlled shutdown to the inter-broker listener (Apache 3.9:
`NodeToControllerChannelManager`, `KafkaServer.controlledShutdown`). A controller without a listener of that name would
never hear of an ISR change. So brokers are asked by DescribeConfigs before this process stands for election. If their
names can't be found out, it stands all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from shunter.drivers.brokers.access import PLAIN_ACCESS, BrokerAccess
from shunter.drivers.brokers.connection import BrokerConnection
from shunter.drivers.brokers.settings import settings_of
from shunter.drivers.zookeeper.reader import ClusterReader
from shunter.errors import DriverError, FormatError
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import BrokerId

_LOG = logging.getLogger(__name__)

CONTROL_PLANE, INTER_BROKER, PROTOCOL = (
    "control.plane.listener.name", "inter.broker.listener.name", "security.inter.broker.protocol",
)  # fmt: skip
OPEN_SECONDS = 5.0
"""How long a broker may take for a connection with TLS, the login and the versions that it serves."""
ANSWER_SECONDS = 2.0
ASKED_AT_ONCE = 5


class Listeners(NamedTuple):
    """A broker's names of the listeners for its requests to the controller. `control_plane` None: it has none."""

    control_plane: str | None
    inter_broker: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the listeners that a controller needs."""
        return tuple(dict.fromkeys((self.control_plane or self.inter_broker, self.inter_broker)))


class Survey:
    """Surveys the registered brokers.

    Args:
        registration: the registration of this process if it is elected.
        listener: name of the brokers' listener to use; None: one with the name of an own listener, or any usable one.
        access: connects and logs in to brokers.
    """

    def __init__(self, registration: Broker, listener: str | None, access: BrokerAccess = PLAIN_ACCESS) -> None:
        self._registration = registration
        self._listener = listener
        self._access = access
        self._said: set[str] = set()
        self.found: Listeners | None = None
        """The answer of the last broker that could be asked."""

    def _say(self, told: str) -> None:
        """Log a message once: a standby repeats the survey."""
        if told not in self._said:
            self._said.add(told)
            _LOG.info("%s", told)

    async def obstacle(self, reader: ClusterReader) -> str | None:
        """Return in a sentence why this process should not stand; None if no obstacle is known."""
        registered = await reader.brokers()
        brokers = [broker for broker in registered.brokers if broker.id != self._registration.id]
        usable: list[tuple[BrokerId, Endpoint]] = []
        refused = ""
        for broker in brokers:
            try:
                usable.append((broker.id, self._endpoint(broker)))
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

    def _endpoint(self, broker: Broker) -> Endpoint:
        ours = [endpoint.listener for endpoint in self._registration.endpoints]
        return self._access.likely_endpoint(broker, self._listener, ours)

    def _unfindable(self, answers: Sequence[Listeners]) -> str | None:
        if not answers:
            return None
        self.found = answers[0]
        return unfindable(answers[0], {endpoint.listener for endpoint in self._registration.endpoints})

    async def _ask(self, brokers: Sequence[tuple[BrokerId, Endpoint]]) -> tuple[list[Listeners], list[str]]:
        """Ask brokers, a few at the same time, until some can be reached; return also why the others can't."""
        failures: list[str] = []
        for start in range(0, len(brokers), ASKED_AT_ONCE):
            asked = brokers[start : start + ASKED_AT_ONCE]
            told = await asyncio.gather(*(_listeners(*each, self._say, self._access) for each in asked))
            failures += [each for each in told if isinstance(each, str)]
            if len(failures) < start + len(asked):
                return [each for each in told if isinstance(each, Listeners)], failures
        return [], failures


async def _listeners(
    broker: BrokerId, endpoint: Endpoint, say: Callable[[str], None], access: BrokerAccess
) -> Listeners | str | None:
    """Ask a broker; a sentence if it can't be reached, None if it does not answer the question.

    A broker that takes a connection and lets nobody in, or answers nothing on it, can't be controlled either.
    """
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            connection = await BrokerConnection.open(endpoint, "shunter-survey", access)
    except (OSError, EOFError, TimeoutError, FormatError) as failure:
        return f"broker {broker} at {endpoint.host}:{endpoint.port}: {str(failure) or 'no answer'}"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _describe(connection, broker)
    except (OSError, EOFError, TimeoutError, FormatError, DriverError) as failure:
        say(f"broker {broker} does not say how it speaks to its controller: {failure}")
        return None
    finally:
        connection.close()


def unfindable(told: Listeners, ours: Collection[str]) -> str | None:
    """Return in a sentence why brokers would not find this controller by its listeners; None if they would."""
    missing = [name for name in told.names if name not in ours]
    if not missing:
        return None
    uses = f"{INTER_BROKER} is {told.inter_broker}"
    if told.control_plane is not None:
        uses = f"{CONTROL_PLANE} is {told.control_plane}, {uses}"
    return (
        f"brokers would not find us: {uses}, and our listeners are {', '.join(sorted(ours))}; "
        f"start us with --listener {missing[0]}://HOST:PORT as well"
    )


async def listeners_told(connection: BrokerConnection, broker: BrokerId) -> Listeners | None:
    """Ask a broker for its listeners' names, on a new connection; None if the broker does not tell them.

    Raises:
        OSError, EOFError, FormatError, TimeoutError: the connection broke, or no answer came.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _describe(connection, broker)
    except DriverError as unknown:
        _LOG.info("broker %d does not say how it speaks to its controller: %s", broker, unknown)
        return None


async def _describe(connection: BrokerConnection, broker: BrokerId) -> Listeners | None:
    """Ask for the three settings.

    Raises:
        DriverError: the broker refuses, or its answer can't be read.
        OSError, EOFError, FormatError: the connection broke.
    """
    values = await settings_of(connection, broker, (CONTROL_PLANE, INTER_BROKER, PROTOCOL))
    return None if values is None else listeners_of(values)


def listeners_of(values: Mapping[str, str | None]) -> Listeners:
    """Return the names of the listeners for requests to the controller, from a broker's settings."""
    return Listeners(values.get(CONTROL_PLANE), values.get(INTER_BROKER) or values.get(PROTOCOL) or "PLAINTEXT")
