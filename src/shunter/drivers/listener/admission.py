"""Admission of connections: there is room for clients, and separate room for brokers, which clients can't take.

A connection is a client's until it proves to be a broker's: by a request that only brokers send, with the id of a live
broker and the epoch of its registration. A client does not know the epoch, whatever its address or client id is. Until
the proof:

- While clients have room, every connection is let in as a client.
- If clients have no room, a newcomer is let into the **anteroom** and may send one request. A connection that speaks as
  a broker (its client id is the id of a live broker, or its request is one that only brokers send) may stay there until
  it has proved to be one. Any other connection takes the place of the client that has been idle for the longest, or is
  turned away.
- Clients that speak as a broker may be read before other clients for a moment; at most as many as the anteroom has
  places.
- The anteroom is small. If it is full, the oldest connection from an address that no broker has registered is closed.
  If there is none, and the newcomer's address is registered, the oldest connection of all is closed. So a broker gets
  in even if it shares an address with clients, or connects from another address than the registered one.

A connection that has proved to be a broker's is never closed to make room for others. Of each broker the latest
`CONNECTIONS_PER_BROKER` are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import islice
from typing import Protocol, TypeVar

from shunter.model.partition import BrokerId
from shunter.model.security.principal import ANONYMOUS, Principal
from shunter.model.settings import WireLimits

_Key = TypeVar("_Key", str, Principal)
CONNECTIONS_PER_BROKER = 8
"""A broker opens three: for ISR changes, for producer ids, and for its controlled shutdown."""
ANTEROOM = 64
ANTEROOM_SECONDS = 5.0
"""How long a newcomer in the anteroom has for its first request."""
IDLE_SECONDS = 1.0
"""A client is idle if it was not active for so long."""
_LOOKED_AT = 64
"""How many of the idlest clients are examined when room is needed."""


class PeerKind(Enum):
    """The kind of room that a connection takes."""

    CLIENT = "client"
    NEWCOMER = "newcomer"
    BROKER = "broker"


class Peer(Protocol):
    """A connection as admission sees it."""

    address: str
    principal: Principal
    """The principal by the login or the certificate."""
    kind: PeerKind
    broker: BrokerId | None
    """The broker's id, once the connection has proved to be a broker's."""
    opened: float
    last_active: float

    @property
    def busy(self) -> bool:
        """Whether a request or an answer is under way."""
        ...

    def leave(self, reason: str, told: str) -> None:
        """Close the connection, and log why."""
        ...


class Admission:
    """Counts the connections, and decides which one is closed to make room for another.

    Args:
        limits: how many connections there may be.
        registered: whether a live broker has registered an address.
    """

    def __init__(self, limits: WireLimits, registered: Callable[[str], bool]) -> None:
        self.limits = limits
        self._registered = registered
        self._clients: OrderedDict[Peer, None] = OrderedDict()
        self._by_address: dict[str, OrderedDict[Peer, None]] = {}
        self._by_principal: dict[Principal, OrderedDict[Peer, None]] = {}
        self._newcomers: OrderedDict[Peer, None] = OrderedDict()
        self._brokers: dict[BrokerId, OrderedDict[Peer, None]] = {}
        self._claiming: set[Peer] = set()

    def everybody(self) -> list[Peer]:
        """Return all connections."""
        brokers = (peer for peers in self._brokers.values() for peer in peers)
        return [*self._clients, *self._newcomers, *brokers]

    def count(self, kind: PeerKind) -> int:
        """Return the number of connections of a kind."""
        if kind is PeerKind.BROKER:
            return sum(map(len, self._brokers.values()))
        return len(self._clients if kind is PeerKind.CLIENT else self._newcomers)

    def kind_for(self, address: str) -> PeerKind | None:
        """Return the room that a new connection gets, and make room in the anteroom; None: it is turned away."""
        if self._lack(address, ANONYMOUS) is None:
            return PeerKind.CLIENT
        if len(self._newcomers) < ANTEROOM:
            return PeerKind.NEWCOMER
        strangers = (peer for peer in self._newcomers if not self._registered(peer.address))
        going = next(strangers, None)
        if going is None and self._registered(address):
            going = next(iter(self._newcomers))
        if going is None:
            return None
        going.leave("room", f"it has not proved to be a broker's, and all {ANTEROOM} places for that are wanted")
        return PeerKind.NEWCOMER

    def enter(self, peer: Peer) -> None:
        """Count a connection in the room of its kind."""
        if peer.kind is PeerKind.NEWCOMER:
            self._newcomers[peer] = None
        else:
            self._clients[peer] = None
            self._by_address.setdefault(peer.address, OrderedDict())[peer] = None
            self._by_principal.setdefault(peer.principal, OrderedDict())[peer] = None

    def become_client(self, peer: Peer, now: float) -> str | None:
        """Let a newcomer into the clients' room, if necessary in place of the idlest client.

        Returns:
            The bound that it exceeds, if no client is idle enough to be closed for it; None if it is in.
        """
        for _ in range(3):
            lack = self._lack(peer.address, peer.principal)
            if lack is None:
                break
            of = {
                "max.connections.per.ip": self._by_address.get(peer.address),
                "max.connections.per.principal": self._by_principal.get(peer.principal),
            }
            if not self.make_room(now, of.get(lack, self._clients)):
                return lack
        self._newcomers.pop(peer, None)
        peer.kind = PeerKind.CLIENT
        self.enter(peer)
        return None

    def become_known(self, peer: Peer, principal: Principal, now: float) -> str | None:
        """Count a connection to its principal, if necessary in place of that principal's idlest connection.

        Returns:
            The bound that it exceeds, if no connection is idle enough to be closed for it; None if it may stay.
        """
        counted = peer.kind is PeerKind.CLIENT and peer in self._clients
        if counted and self._lack_of(principal) and not self.make_room(now, self._by_principal[principal]):
            return "max.connections.per.principal"
        if counted:
            self._forget(self._by_principal, peer.principal, peer)
            self._by_principal.setdefault(principal, OrderedDict())[peer] = None
        peer.principal = principal
        return None

    def become_broker(self, peer: Peer, broker: BrokerId) -> None:
        """Move a connection into the brokers' room: it has proved to be this broker's."""
        self.depart(peer)
        peer.kind, peer.broker = PeerKind.BROKER, broker
        peers = self._brokers.setdefault(broker, OrderedDict())
        peers[peer] = None
        if len(peers) > CONNECTIONS_PER_BROKER:
            oldest = next(iter(peers))
            oldest.leave("room", f"broker {broker} has {CONNECTIONS_PER_BROKER} connections that are more recent")

    def may_claim(self, peer: Peer, now: float) -> bool:
        """Whether a client that speaks as a broker may still be read before others: a few may, for a moment."""
        if now > peer.opened + ANTEROOM_SECONDS or (peer not in self._claiming and len(self._claiming) >= ANTEROOM):
            return False
        self._claiming.add(peer)
        return True

    def stop_claiming(self, peer: Peer) -> None:
        """Read a client in its ordinary turn from now on."""
        self._claiming.discard(peer)

    def active(self, peer: Peer) -> None:
        """Note that a connection has sent or received something."""
        if peer.kind is PeerKind.CLIENT:
            self._clients.move_to_end(peer)
            self._by_address[peer.address].move_to_end(peer)
            self._by_principal[peer.principal].move_to_end(peer)
        elif peer.kind is PeerKind.BROKER and peer.broker is not None:
            self._brokers[peer.broker].move_to_end(peer)

    def depart(self, peer: Peer) -> None:
        """Stop counting a connection that is closed, or changes its room."""
        self._claiming.discard(peer)
        self._newcomers.pop(peer, None)
        if peer.kind is PeerKind.BROKER and peer.broker is not None:
            of_broker = self._brokers.get(peer.broker, OrderedDict())
            of_broker.pop(peer, None)
            if not of_broker:
                self._brokers.pop(peer.broker, None)
        elif peer in self._clients:
            del self._clients[peer]
            self._forget(self._by_address, peer.address, peer)
            self._forget(self._by_principal, peer.principal, peer)

    def make_room(self, now: float, of: Iterable[Peer] | None = None, count: int = 1) -> int:
        """Close connections of the idlest clients.

        Returns:
            The number of connections closed.
        """
        idlest = islice(self._clients if of is None else of, _LOOKED_AT)
        going = [peer for peer in idlest if not peer.busy and now - peer.last_active >= IDLE_SECONDS][:count]
        for peer in going:
            peer.leave("room", f"idle for {now - peer.last_active:.1f} s, and others want its place")
        return len(going)

    @staticmethod
    def _forget(counted: dict[_Key, OrderedDict[Peer, None]], key: _Key, peer: Peer) -> None:
        del counted[key][peer]
        if not counted[key]:
            del counted[key]

    def _lack_of(self, principal: Principal) -> bool:
        """Whether a principal has all its places. A client that has not logged in is counted by its address only."""
        taken = len(self._by_principal.get(principal, ()))
        return principal != ANONYMOUS and taken >= self.limits.share(self.limits.max_connections)

    def _lack(self, address: str, principal: Principal) -> str | None:
        """Return the bound that another client from an address would exceed; None: no bound."""
        if self._lack_of(principal):
            return "max.connections.per.principal"
        if len(self._by_address.get(address, ())) >= self.limits.max_connections_per_ip:
            return "max.connections.per.ip"
        return "max.connections" if len(self._clients) >= self.limits.max_connections else None
