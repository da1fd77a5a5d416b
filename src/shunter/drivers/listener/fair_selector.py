"""A selector with tiers: it reports only a few of the clients' sockets at a time, and at times none.

asyncio handles all ready sockets in one pass, and asks the selector only between passes. Three thousand clients that
write at once would make one pass of 100 ms, in which a broker's AlterPartition is not even read. So the sockets of
clients are in a second epoll, which is in the first one as a single socket. A pass takes at most `at_most` ready
sockets from it, and later passes take the rest. The kernel returns them in turns. During `hold`, neither clients'
sockets nor new connections are reported.
"""

from __future__ import annotations

import selectors
from collections import ChainMap
from collections.abc import Mapping
from select import EPOLLIN, EPOLLOUT, epoll
from typing import Any

AT_MOST = 5
"""Sockets of clients in one pass. Each is read or written once (64 KiB at most), which takes some 50 µs."""


class FairSelector(selectors.BaseSelector):
    """A selector for an event loop; `set_back` puts a socket into the second tier. Needs Linux's epoll."""

    def __init__(self) -> None:
        self.at_most = AT_MOST
        self._first = selectors.EpollSelector()
        self._second = epoll()
        self._doors = epoll()
        """Listening sockets: not reported while the second tier is held, and never bounded."""
        self._gates = {tier.fileno(): tier for tier in (self._doors, self._second)}
        """The tiers by their numbers in the first tier, in the order in which they are reported."""
        self._held = True
        self.hold(held=False)
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._tiers: dict[int, epoll] = {}
        """The tier in which each socket of `_keys` is registered."""
        self._behind: dict[int, epoll] = {}
        """The tier in which a socket is to be registered; sockets that are not here belong to the first tier."""

    def set_back(self, fd: int) -> None:
        """Put a socket into the second tier, from now or from its registration on, until `forget`."""
        self._put(fd, self._second)

    def set_aside(self, fd: int) -> None:
        """Report a listening socket only while the second tier is not held, until `forget`."""
        self._put(fd, self._doors)

    def _put(self, fd: int, tier: epoll) -> None:
        self._behind[fd] = tier
        key = self._first.get_map().get(fd)
        if key is not None:
            self._first.unregister(key.fileobj)
            self.register(key.fileobj, key.events, key.data)

    def set_forward(self, fd: int) -> None:
        """Put a socket into the first tier from now on."""
        self._behind.pop(fd, None)
        key = self._keys.get(fd)
        if key is not None:
            self._remove(fd)
            self._first.register(key.fileobj, key.events, key.data)

    def hold(self, *, held: bool) -> None:
        """While held, report no client's socket and no new connection. Cost: two system calls."""
        if held is self._held:
            return
        self._held = held
        for gate in self._gates:
            if held:
                self._first.unregister(gate)
            else:
                self._first.register(gate, selectors.EVENT_READ)

    def forget(self, fd: int) -> None:
        """Forget a socket that was closed: the kernel may give its number to another socket."""
        self._behind.pop(fd, None)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors`."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        tier = self._behind.get(fd)
        if tier is None:
            return self._first.register(fileobj, events, data)
        if fd in self._keys:
            raise KeyError(f"{fileobj!r} (fd {fd}) is already registered")
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        tier.register(fd, _mask(events))
        self._tiers[fd] = tier
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """See `selectors`."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        return self._remove(fd) if fd in self._keys else self._first.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors`."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys.get(fd)
        if key is None:
            return self._first.modify(fileobj, events, data)
        if key.events != events:
            self._tiers[fd].modify(fd, _mask(events))
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `selectors`. Sockets beyond `at_most` are reported the next time."""
        ready = self._first.select(timeout)
        told = [each for each in ready if each[0].fd not in self._gates]
        if len(told) < len(ready):
            full = {key.fd for key, _ in ready}
            for gate, tier in self._gates.items():
                if gate in full:
                    told += self._some(tier, self.at_most if tier is self._second else -1)
        return told

    def close(self) -> None:
        """See `selectors`."""
        self._first.close()
        for tier in self._gates.values():
            tier.close()
        self._keys.clear()

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        """See `selectors`. asyncio asks for a key whenever it begins or ends a watch."""
        key = self._keys.get(fileobj if isinstance(fileobj, int) else fileobj.fileno())
        return self._first.get_key(fileobj) if key is None else key

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """See `selectors`."""
        return ChainMap(self._keys, self._first.get_map())  # type: ignore[arg-type]

    def _some(self, tier: epoll, at_most: int) -> list[tuple[selectors.SelectorKey, int]]:
        found: list[tuple[selectors.SelectorKey, int]] = []
        for fd, event in tier.poll(0, at_most):
            key = self._keys.get(fd)
            if key is None:
                continue
            write = selectors.EVENT_WRITE if event & ~EPOLLIN else 0
            read = selectors.EVENT_READ if event & ~EPOLLOUT else 0
            if (read | write) & key.events:
                found.append((key, (read | write) & key.events))
        return found

    def _remove(self, fd: int) -> selectors.SelectorKey:
        key = self._keys.pop(fd)
        self._tiers.pop(fd).unregister(fd)
        return key


def _mask(events: int) -> int:
    return (EPOLLIN if events & selectors.EVENT_READ else 0) | (EPOLLOUT if events & selectors.EVENT_WRITE else 0)
