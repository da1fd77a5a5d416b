"""ConnectionLimits for connections, of everybody and of one address. A newcomer takes the place of the idlest stranger.

A stranger is a connection whose requests have shown no valid token so far. Strangers can therefore never keep people
out for longer than a moment, and a connection of a person is never closed for another one.
"""

from __future__ import annotations

import ipaddress
import resource
from collections import Counter, OrderedDict
from itertools import islice
from typing import Protocol

MOST_CONNECTIONS = 1_000
MOST_OF_ADDRESS = 250
"""A proxy in front has one address for all people."""
IDLE_S = 1.0
"""A stranger that was not served for so long may be closed for a newcomer."""
_EXAMINED = 64


class Visitor(Protocol):
    """The room's view of a connection."""

    @property
    def address(self) -> str:
        """The address by which it is counted; see `network_of`."""
        ...

    @property
    def waits_since(self) -> float | None:
        """Since when a request is awaited, by the event loop's clock; None: a request is being answered."""
        ...

    def leave(self, reason: str) -> None:
        """Close the connection, which leaves the room at once."""
        ...


class ConnectionLimits:
    """Counts connections, and what was refused, by reason."""

    def __init__(self, most: int | None = None, most_of_address: int = MOST_OF_ADDRESS) -> None:
        """`most`: connections at once; None: `MOST_CONNECTIONS`, or half of the files that this process may open."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        fit = MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, files // 2)
        self.most = fit if most is None else most
        self._most_of_address = most_of_address
        self._strangers: OrderedDict[Visitor, None] = OrderedDict()
        self._inside: set[Visitor] = set()
        self._by_address: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        """How often something was refused, by reason."""

    def __len__(self) -> int:
        return len(self._inside)

    def everybody(self) -> list[Visitor]:
        """All connections."""
        return list(self._inside)

    def has_place(self, address: str, now: float) -> bool:
        """Whether a newcomer from an address may come in; if necessary an idle stranger is closed for it."""
        if self._by_address[address] >= self._most_of_address:
            return self._close_idlest(now, address)
        return len(self._inside) < self.most or self._close_idlest(now)

    def enter(self, visitor: Visitor) -> None:
        """Count a connection, as a stranger's."""
        self._inside.add(visitor)
        self._strangers[visitor] = None
        self._by_address[visitor.address] += 1

    def know(self, visitor: Visitor) -> None:
        """A request of this connection has shown a valid token."""
        self._strangers.pop(visitor, None)

    def depart(self, visitor: Visitor) -> None:
        """Stop counting a connection."""
        if visitor not in self._inside:
            return
        self._inside.discard(visitor)
        self._strangers.pop(visitor, None)
        self._by_address[visitor.address] -= 1
        if not self._by_address[visitor.address]:
            del self._by_address[visitor.address]

    def _close_idlest(self, now: float, address: str | None = None) -> bool:
        """Close the stranger that came first among those that are idle."""
        strangers = (each for each in self._strangers if address in (None, each.address))
        for visitor in islice(strangers, _EXAMINED):
            if visitor.waits_since is not None and now - visitor.waits_since >= IDLE_S:
                visitor.leave("room")
                self.depart(visitor)
                return True
        return False


def network_of(host: str) -> str:
    """The address by which connections are counted: an IPv6 network /64, because one machine has all of it."""
    host = host.partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
