"""Relays requests that any node may answer to a live broker: as raw frames whose correlation ids are rewritten.

Requests that only a controller answers are never relayed, nor requests that change the state of a connection (SASL).
Requests for a leader or a coordinator should not come here, because this node is neither. If one comes, the broker that
gets it answers with the error of that API.

A broker is preferred to which the controller has a connection, which is not slow, and whose last relayed request did
not fail a moment ago. Among such brokers a sender keeps one, so that it reads what it has written. A request is sent to
a second broker if the first one surely did not get it, or if the request may be carried out twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from shunter.drivers.brokers.access import PLAIN_ACCESS, BrokerAccess
from shunter.drivers.brokers.connection import ApiRanges, BrokerConnection
from shunter.drivers.host.task_groups import run_together
from shunter.errors import DriverError, FormatError
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import BrokerId
from shunter.wire.framing import restamp_request, restamp_response

_LOG = logging.getLogger(__name__)

RELAY_SECONDS = 35.0
"""A little more than a client's default request timeout, so that the client times out first, with its own message."""
ASKED_AGAIN_AFTER_SECONDS = 10.0
"""How long a broker may take for a request that only reads, before another broker is asked."""
AVOIDED_SECONDS = 15.0
"""How long other brokers are preferred to one whose last relayed request failed."""
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

_READING: Final = frozenset({2, 3, 9, 10, 15, 16, 23, 29, 32, 41, 48, 50, 61, 65, 66})
"""APIs that change nothing: another broker may be asked even while the first one may still answer."""
_REPEATABLE: Final = _READING | {22, 33, 44, 49}
"""APIs that may be carried out twice: those, and the ones that set values, and InitProducerId."""


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


class _Way(NamedTuple):
    """A broker to ask, and the listener by which to ask it."""

    broker: Broker
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"broker {self.broker.id} at {self.endpoint.host}:{self.endpoint.port}"


class _Unanswered(Exception):
    """A broker did not answer. `sent`: it may have got the request; `silent`: it may still answer."""

    def __init__(self, told: str, *, sent: bool, silent: bool = False) -> None:
        super().__init__(told)
        self.sent = sent
        self.silent = silent


class Relay:
    """Connections to live brokers for clients' requests.

    Args:
        brokers: returns the brokers that are live now, without this node.
        access: connects and logs in to brokers.
        is_well: whether a broker is connected and not slow, as far as the controller knows.
    """

    def __init__(
        self,
        brokers: Callable[[], tuple[Broker, ...]],
        access: BrokerAccess = PLAIN_ACCESS,
        is_well: Callable[[BrokerId], bool] = lambda _: True,
    ) -> None:
        self._brokers = brokers
        self._access = access
        self._is_well = is_well
        self._pools: dict[tuple[BrokerId, int, Endpoint], list[_RelayConnection]] = {}
        self._avoided_until: dict[tuple[BrokerId, int], float] = {}
        self.passed_on = 0

    async def pass_on(
        self, frame: bytes, listener: str | None, *, sender: str = "", to: BrokerId | None = None
    ) -> bytes:
        """Have a broker answer a request.

        Args:
            frame: the request without its size.
            listener: the name of the listener that the request came by; None: the answer may be about any listener.
            sender: requests of one sender go to the same broker while several are as good.
            to: the only broker that may be asked, if it is live; None: any.

        Returns:
            The broker's answer with size, under the request's correlation id.

        Raises:
            DriverError: no broker can be asked, or none answered in time; the error names them and the causes.
        """
        api_key = int.from_bytes(frame[:2], "big")
        ways = self._ways(api_key, listener, sender, to)[:2]
        self.passed_on += 1
        told: list[str] = []
        ends_at = asyncio.get_running_loop().time() + RELAY_SECONDS
        for way in ways:
            may_ask_another = api_key in _READING and way is not ways[-1]
            try:
                answer = await self._ask(way, frame, ends_at, is_early=may_ask_another)
            except _Unanswered as failure:
                told.append(f"{way}: {failure}")
                if failure.sent and api_key not in (_READING if failure.silent else _REPEATABLE):
                    break
            else:
                return restamp_response(answer, int.from_bytes(frame[4:8], "big", signed=True))
        raise DriverError(f"API {api_key} was passed on and not answered: {'; '.join(told)}", retriable=True)

    async def _ask(self, way: _Way, frame: bytes, ends_at: float, *, is_early: bool) -> bytes:
        """Ask one broker. If `is_early`, leave time to ask another one.

        Raises:
            _Unanswered: it did not answer; other brokers are preferred to it for a while.
        """
        loop = asyncio.get_running_loop()
        broker = way.broker.id, way.broker.epoch
        began = loop.time()
        bound = max(0.0, min(ends_at - began, ASKED_AGAIN_AFTER_SECONDS if is_early else RELAY_SECONDS))
        connection = self._connection(way.broker, way.endpoint)
        try:
            async with asyncio.timeout(bound):
                answer = await connection.ask(frame)
        except TimeoutError:
            self._avoided_until[broker] = loop.time() + AVOIDED_SECONDS
            connection.silent = True
            raise _Unanswered(f"no answer within {bound:.0f} s", sent=True, silent=True) from None
        except _Unanswered:
            self._avoided_until[broker] = loop.time() + AVOIDED_SECONDS
            raise
        self._avoided_until.pop(broker, None)
        return answer

    async def close(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            for connection in pool:
                connection.close()
        await asyncio.gather(*(each.closed() for pool in self._pools.values() for each in pool))
        self._pools.clear()

    def _ways(self, api_key: int, listener: str | None, sender: str, to: BrokerId | None) -> list[_Way]:
        """Return the brokers that may be asked, the best first.

        Raises:
            DriverError: there is none.
        """
        brokers = self._brokers()
        self._forget({(broker.id, broker.epoch) for broker in brokers})
        named = tuple(broker for broker in brokers if broker.id == to)
        found: list[_Way] = []
        for broker in named or brokers:
            known = [endpoint for endpoint in broker.endpoints if self._access.usable(endpoint)]
            same = [endpoint for endpoint in known if endpoint.listener == listener]
            ours = [endpoint for endpoint in known if endpoint.listener == self._access.brokers_listener]
            # Brokers know Shunter's identity on the listener that is configured for connections to brokers.
            usable = same if api_key in ADDRESSES and listener is not None else ours or same or known
            if usable:
                found.append(_Way(broker, usable[0]))
        if not found:
            told = f"API {api_key}: no live broker has a listener that we can use to pass it on to (asked on listener {listener})"
            raise DriverError(told, retriable=True)
        return sorted(found, key=lambda way: self._rank(way, sender))

    def _rank(self, way: _Way, sender: str) -> tuple[bool, bool, int, bytes]:
        """Return the order in which brokers are asked; the last part spreads senders over brokers that are as good."""
        broker = way.broker
        is_avoided = asyncio.get_running_loop().time() < self._avoided_until.get((broker.id, broker.epoch), 0.0)
        share = blake2b(f"{sender} {broker.id}".encode(), digest_size=4).digest()
        return is_avoided, not self._is_well(broker.id), self._load(broker, way.endpoint), share

    def _load(self, broker: Broker, endpoint: Endpoint) -> int:
        pool = self._pools.get((broker.id, broker.epoch, endpoint), ())
        return sum(connection.waiting for connection in pool)

    def _forget(self, live: set[tuple[BrokerId, int]]) -> None:
        for broker in self._avoided_until.keys() - live:
            del self._avoided_until[broker]
        for key in tuple(self._pools):
            if key[:2] not in live:
                for connection in self._pools.pop(key):
                    connection.close()

    def _connection(self, broker: Broker, endpoint: Endpoint) -> _RelayConnection:
        pool = self._pools.setdefault((broker.id, broker.epoch, endpoint), [])
        for connection in pool:
            if connection.silent and not connection.waiting:
                connection.close()
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
        self._sent: set[int] = set()
        self._last = 0
        self.silent = False
        """Whether a request was not answered in time: no new request may be sent on this connection."""
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
        """Whether no new request may be sent on this connection: its login's session ends soon, or it is silent."""
        return self.silent or (self._connection is not None and self._connection.is_renewal_due)

    async def ask(self, frame: bytes) -> bytes:
        """Send a request, and wait for its answer.

        Raises:
            _Unanswered: the connection could not be made, or ended.
        """
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
            self._sent.discard(correlation_id)
            if not self._answers:
                self._idle.set()

    def close(self) -> None:
        self._task.cancel()

    async def closed(self) -> None:
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        reason = "the connection was closed"
        try:
            connection = await BrokerConnection.open(self._endpoint, "shunter-relay", self._access)
            self._connection = connection
            try:
                await run_together(self._write(connection), self._read(connection), self._leave(connection))
            finally:
                connection.close()
        except (OSError, EOFError, FormatError) as lost:
            reason = str(lost) or ("no answer in time" if isinstance(lost, TimeoutError) else type(lost).__name__)
            _LOG.info("relay to %s:%d ended: %s", self._endpoint.host, self._endpoint.port, reason)
        finally:
            for correlation_id, future in self._answers.items():
                if not future.done():
                    future.set_exception(_Unanswered(reason, sent=correlation_id in self._sent))

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
            if correlation_id not in self._answers:
                continue  # Its caller has given up, and may have asked another broker.
            self._sent.add(correlation_id)
            await connection.write(restamp_request(frame, correlation_id), b"")

    async def _read(self, connection: BrokerConnection) -> None:
        while True:
            for payload in await connection.receive():
                future = self._answers.get(int.from_bytes(payload[:4], "big", signed=True))
                if future is not None and not future.done():
                    future.set_result(payload)
