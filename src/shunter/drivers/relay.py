"""Relays requests that any node may answer to a live broker: as raw frames whose correlation ids are rewritten.

Requests that only a controller answers are never relayed, nor requests that change the state of a connection (SASL).
Requests for a leader or a coordinator should not come here, because this node is neither. If one comes, the broker that
gets it answers with the error of that API.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from shunter.drivers.broker_access import PLAIN_ACCESS, BrokerAccess
from shunter.drivers.broker_connection import ApiRanges, BrokerConnection
from shunter.drivers.together import run_together
from shunter.errors import DriverError, FormatError
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import BrokerId
from shunter.wire.framing import restamp_request, restamp_response

_LOG = logging.getLogger(__name__)

RELAY_SECONDS = 35.0
"""A little more than a client's default request timeout, so that the client times out first, with its own message."""
CONNECTIONS_PER_BROKER = 4
ADDRESSES: Final = frozenset({10})
"""APIs whose answers have addresses of the listener by which they were asked (FindCoordinator)."""

PASSED_ON: Final[Mapping[int, tuple[int, int]]] = {
    0: (0, 11), 1: (0, 17), 2: (0, 9), 8: (0, 9), 9: (0, 9), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5),
    14: (0, 5), 15: (0, 5), 21: (0, 2), 22: (0, 5), 23: (0, 4), 24: (0, 5), 25: (0, 4), 26: (0, 4), 28: (0, 4),
    29: (0, 3), 30: (0, 3), 31: (0, 3), 32: (0, 4), 33: (0, 2), 38: (0, 3), 39: (0, 2), 40: (0, 2), 41: (0, 3),
    42: (0, 2), 44: (0, 1), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0), 61: (0, 0), 65: (0, 0), 66: (0, 1),
}  # fmt: skip
"""API key -> versions of Kafka 3.9: the APIs that may be relayed; their versions while no broker is connected."""


def relayed_ranges(brokers: Mapping[BrokerId, ApiRanges]) -> dict[int, tuple[int, int]]:
    """Return the versions of relayed APIs that every live broker supports: API key -> (lowest, highest)."""
    ranges: dict[int, tuple[int, int]] = dict(PASSED_ON)
    for known in brokers.values():
        for key, (lowest, highest) in tuple(ranges.items()):
            theirs = known.get(key, (0, -1))
            both = max(lowest, theirs[0]), min(highest, theirs[1])
            if both[0] <= both[1]:
                ranges[key] = both
            else:
                del ranges[key]
    return ranges


class Relay:
    """Connections to live brokers for clients' requests.

    Args:
        brokers: returns the brokers that are live now, without this node.
        access: connects and logs in to brokers.
    """

    def __init__(self, brokers: Callable[[], tuple[Broker, ...]], access: BrokerAccess = PLAIN_ACCESS) -> None:
        self._brokers = brokers
        self._access = access
        self._pools: dict[tuple[BrokerId, int, Endpoint], list[_RelayConnection]] = {}
        self.passed_on = 0

    async def pass_on(self, frame: bytes, listener: str | None) -> bytes:
        """Have a broker answer a request.

        Args:
            frame: the request without its size.
            listener: the name of the listener that the request came by; None: the answer may be about any listener.

        Returns:
            The broker's answer with size, under the request's correlation id.

        Raises:
            DriverError: no broker can be asked, or the broker closed the connection or did not answer in time.
        """
        api_key = int.from_bytes(frame[:2], "big")
        connection = self._connection(*self._choose(api_key, listener))
        self.passed_on += 1
        try:
            async with asyncio.timeout(RELAY_SECONDS):
                answer = await connection.ask(frame)
        except (OSError, EOFError, FormatError) as failure:
            told = f"API {api_key}: the broker that was asked did not answer: {failure or type(failure).__name__}"
            raise DriverError(told, retriable=True) from failure
        return restamp_response(answer, int.from_bytes(frame[4:8], "big", signed=True))

    async def close(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            for connection in pool:
                connection.close()
        await asyncio.gather(*(each.closed() for pool in self._pools.values() for each in pool))
        self._pools.clear()

    def _choose(self, api_key: int, listener: str | None) -> tuple[Broker, Endpoint]:
        """Choose the least loaded broker, the lowest id among equals."""
        brokers = self._brokers()
        self._forget({(broker.id, broker.epoch) for broker in brokers})
        found: list[tuple[int, BrokerId, Broker, Endpoint]] = []
        for broker in brokers:
            known = [endpoint for endpoint in broker.endpoints if self._access.usable(endpoint)]
            same = [endpoint for endpoint in known if endpoint.listener == listener]
            ours = [endpoint for endpoint in known if endpoint.listener == self._access.brokers_listener]
            # Brokers know Shunter's identity on the listener that is configured for connections to brokers.
            usable = same if api_key in ADDRESSES and listener is not None else ours or same or known
            if usable:
                found.append((self._load(broker, usable[0]), broker.id, broker, usable[0]))
        if not found:
            told = f"API {api_key}: no live broker has a listener that we can use to pass it on to (asked on listener {listener})"
            raise DriverError(told, retriable=True)
        _, _, broker, endpoint = min(found, key=lambda each: each[:2])
        return broker, endpoint

    def _load(self, broker: Broker, endpoint: Endpoint) -> int:
        pool = self._pools.get((broker.id, broker.epoch, endpoint), ())
        return sum(connection.waiting for connection in pool)

    def _forget(self, live: set[tuple[BrokerId, int]]) -> None:
        for key in tuple(self._pools):
            if key[:2] not in live:
                for connection in self._pools.pop(key):
                    connection.close()

    def _connection(self, broker: Broker, endpoint: Endpoint) -> _RelayConnection:
        pool = self._pools.setdefault((broker.id, broker.epoch, endpoint), [])
        pool[:] = [connection for connection in pool if not connection.ended]
        fresh = [connection for connection in pool if not connection.ending]
        idle = min(fresh, key=lambda connection: connection.waiting, default=None)
        if idle is not None and (idle.waiting == 0 or len(fresh) >= CONNECTIONS_PER_BROKER):
            return idle
        made = _RelayConnection(endpoint, self._access)
        pool.append(made)
        return made


class _RelayConnection:
    """One connection; answers are matched to callers by correlation id."""

    def __init__(self, endpoint: Endpoint, access: BrokerAccess) -> None:
        self._endpoint = endpoint
        self._access = access
        self._answers: dict[int, asyncio.Future[bytes]] = {}
        self._unsent: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._last = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._connection: BrokerConnection | None = None
        self._task = asyncio.create_task(self._run(), name=f"relay-{endpoint.host}:{endpoint.port}")

    @property
    def waiting(self) -> int:
        return len(self._answers)

    @property
    def ended(self) -> bool:
        return self._task.done() or self._task.cancelling() > 0

    @property
    def ending(self) -> bool:
        """Whether the login's session ends soon: no new request may be sent on this connection."""
        return self._connection is not None and self._connection.is_renewal_due

    async def ask(self, frame: bytes) -> bytes:
        self._last += 1
        correlation_id = self._last
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[correlation_id] = future
        self._idle.clear()
        self._unsent.put_nowait((correlation_id, frame))
        try:
            return await future
        finally:
            self._answers.pop(correlation_id, None)
            if not self._answers:
                self._idle.set()

    def close(self) -> None:
        self._task.cancel()

    async def closed(self) -> None:
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        reason: Exception = EOFError("the connection was closed")
        try:
            connection = await BrokerConnection.open(self._endpoint, "shunter-relay", self._access)
            self._connection = connection
            try:
                await run_together(self._write(connection), self._read(connection), self._leave(connection))
            finally:
                connection.close()
        except (OSError, EOFError, FormatError) as lost:
            reason = lost
            _LOG.info("relay to %s:%d ended: %s", self._endpoint.host, self._endpoint.port, reason)
        finally:
            for future in self._answers.values():
                if not future.done():
                    future.set_exception(EOFError(str(reason)))

    async def _leave(self, connection: BrokerConnection) -> None:
        """End the connection before the login's session ends, as soon as no caller waits for an answer.

        Raises:
            EOFError: always, at that time.
        """
        await connection.until_renewal()
        await self._idle.wait()
        raise EOFError("the session ends, the next request logs in again")

    async def _write(self, connection: BrokerConnection) -> None:
        while True:
            correlation_id, frame = await self._unsent.get()
            await connection.write(restamp_request(frame, correlation_id), b"")

    async def _read(self, connection: BrokerConnection) -> None:
        while True:
            for payload in await connection.receive():
                future = self._answers.get(int.from_bytes(payload[:4], "big", signed=True))
                if future is not None and not future.done():
                    future.set_result(payload)
