"""The numerical addresses of the hosts that live brokers have registered; names are looked up in the background."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Iterable

from shunter.model.broker import Broker

_LOG = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0
"""How long an address is used before it is looked up again."""


class BrokerAddresses:
    """A set of addresses; `refresh` updates it in the background."""

    def __init__(self) -> None:
        self._hosts: frozenset[str] = frozenset()
        self._known: frozenset[str] = frozenset()
        self._looked = 0.0
        self._task: asyncio.Task[None] | None = None

    def __contains__(self, address: str) -> bool:
        return address in self._known

    def refresh(self, brokers: Iterable[Broker]) -> None:
        """Look all hosts up if they have changed, or if the last time was a minute ago."""
        hosts = frozenset(endpoint.host for broker in brokers for endpoint in broker.endpoints)
        now = time.monotonic()
        if (hosts != self._hosts or now - self._looked >= AGAIN_SECONDS) and (self._task is None or self._task.done()):
            self._hosts, self._looked = hosts, now
            self._task = asyncio.get_running_loop().create_task(self._look_up(hosts), name="broker-addresses")

    async def close(self) -> None:
        """Cancel a lookup under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look_up(self, hosts: frozenset[str]) -> None:
        loop = asyncio.get_running_loop()
        known: set[str] = set()
        for host in sorted(hosts):
            try:
                found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError as failure:
                _LOG.debug("no address of %s: %s", host, failure)
            else:
                known.update(str(each[4][0]) for each in found)
        self._known = frozenset(known)
