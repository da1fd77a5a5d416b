"""The order in which TLS handshakes and logins begin: a bounded number per second, one of each address in turn.

A handshake costs the event loop a millisecond or two before the peer's identity is known. Addresses that live brokers
have registered have a separate queue with the same rate, so that a flood from other addresses does not delay a broker.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

BURST_SECONDS = 0.1
"""Turns that were not used within this time may be used at once."""


class _Waiter(NamedTuple):
    """A connection that waits for its turn."""

    future: asyncio.Future[None]
    gone: Callable[[], bool]


class _Line:
    """Waiting connections by address, and the number of handshakes that may begin now."""

    def __init__(self, per_second: int, now: float) -> None:
        self._rings: OrderedDict[str, deque[_Waiter]] = OrderedDict()
        self._per_second = per_second
        self._most = max(1.0, per_second * BURST_SECONDS)
        self._left = self._most
        self._counted_at = now

    def take(self, now: float) -> bool:
        """Use one turn, if one is available; return whether one was."""
        self._left = min(self._most, self._left + (now - self._counted_at) * self._per_second)
        self._counted_at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    @property
    def wait_seconds(self) -> float:
        """Seconds until a turn is available."""
        return max(0.0, (1.0 - self._left) / self._per_second)

    def append(self, address: str, waiter: _Waiter) -> None:
        self._rings.setdefault(address, deque()).append(waiter)

    def __bool__(self) -> bool:
        """Whether a connection still waits; closed connections are dropped."""
        while self._rings:
            address, ring = next(iter(self._rings.items()))
            while ring and (ring[0].future.done() or ring[0].gone()):
                future = ring.popleft().future
                if not future.done():
                    future.set_result(None)
            if ring:
                return True
            del self._rings[address]
        return False

    def pop(self) -> _Waiter:
        """Return the next waiting connection; there has to be one."""
        address, ring = self._rings.popitem(last=False)
        waiter = ring.popleft()
        if ring:
            self._rings[address] = ring
        return waiter


class Handshakes:
    """Lets handshakes begin.

    Args:
        per_second: the rate of registered addresses, and that of all other addresses.
        registered: whether a live broker has registered an address.
        now: a monotonic clock, in seconds.
    """

    def __init__(self, per_second: int, registered: Callable[[str], bool], now: Callable[[], float]) -> None:
        self._now = now
        self._registered = registered
        self._lines = {of_brokers: _Line(per_second, now()) for of_brokers in (True, False)}
        self._timers: dict[bool, asyncio.TimerHandle] = {}

    async def turn(self, address: str, gone: Callable[[], bool]) -> None:
        """Wait for the turn of a connection from this address. A connection that is `gone` uses no turn."""
        of_brokers = self._registered(address)
        line = self._lines[of_brokers]
        if not line and line.take(self._now()):
            return
        waiter = asyncio.get_running_loop().create_future()
        line.append(address, _Waiter(waiter, gone))
        self._wake_later(of_brokers)
        await waiter

    def close(self) -> None:
        """Let no more handshakes begin."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _wake_later(self, of_brokers: bool) -> None:
        if of_brokers not in self._timers:
            wait = self._lines[of_brokers].wait_seconds
            self._timers[of_brokers] = asyncio.get_running_loop().call_later(wait, self._wake, of_brokers)

    def _wake(self, of_brokers: bool) -> None:
        self._timers.pop(of_brokers, None)
        line = self._lines[of_brokers]
        while line:
            if not line.take(self._now()):
                self._wake_later(of_brokers)
                return
            line.pop().future.set_result(None)
