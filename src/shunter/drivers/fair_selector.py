"""A selector with tiers: of the sockets of clients, only a few are told of at a time, and at times none.

asyncio runs everything that is ready in one pass, and looks at sockets before and after it. Three thousand clients that
write at once would make one pass of 100 ms, in which a broker's AlterPartition is not even read. So the sockets of
clients stand in an epoll of their own, which stands in the first one as a single socket: of what is ready in it, a pass
takes at most `at_most`, the rest in the passes after. The kernel hands them out in turns. While `hold` is in force, neither
clients nor those who come in are told of.
"""

from __future__ import annotations

import selectors
from collections import ChainMap
from collections.abc import Mapping
from select import EPOLLIN, EPOLLOUT, epoll
from typing import Any

AT_MOST = 5
"""Sockets of clients in one pass: each is read (64 KiB at most) or written to (64 KiB), some 50 µs."""


class FairSelector(selectors.BaseSelector):
    """Give it to an event loop; then `set_back` what shall wait for its turn. Needs Linux's epoll."""

    def __init__(self) -> None:
        self.at_most = AT_MOST
        self._first = selectors.EpollSelector()
        self._second = epoll()
        self._doors = epoll()
        """Where clients come in: not told of while the second tier is held, and never bounded."""
        self._gates = {tier.fileno(): tier for tier in (self._doors, self._second)}
        """The tiers as they stand in the first one, in the order in which they are told of."""
        self._held = True
        self.hold(held=False)
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._tiers: dict[int, epoll] = {}
        """Where each socket of `_keys` is registered."""
        self._behind: dict[int, epoll] = {}
        """Where sockets are to be registered."""

    def set_back(self, fd: int) -> None:
        """Let a socket stand in the second tier from now on, or from its registration on, until `forget`."""
        self._put(fd, self._second)

    def set_aside(self, fd: int) -> None:
        """Let a listening socket be told of, unless the second tier is held, from its registration on until `forget`."""
        self._put(fd, self._doors)

    def _put(self, fd: int, tier: epoll) -> None:
        self._behind[fd] = tier
        key = self._first.get_map().get(fd)
        if key is not None:
            self._first.unregister(key.fileobj)
            self.register(key.fileobj, key.events, key.data)

    def set_forward(self, fd: int) -> None:
        """Let a socket stand in the first tier from now on."""
        self._behind.pop(fd, None)
        key = self._keys.get(fd)
        if key is not None:
            self._remove(fd)
            self._first.register(key.fileobj, key.events, key.data)

    def hold(self, *, held: bool) -> None:
        """Tell of no client's socket, and of nobody who comes, while it is held. Cost: two calls of the kernel."""
        if held is self._held:
            return
        self._held = held
        for gate in self._gates:
            if held:
                self._first.unregister(gate)
            else:
                self._first.register(gate, selectors.EVENT_READ)

    def forget(self, fd: int) -> None:
        """The socket is closed; its number may be given to another."""
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
        """See `selectors`; what is left over for want of a turn is told the next time."""
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
