"""A selector with two tiers: of the sockets of clients, only a few are told of at a time.

asyncio runs everything that is ready in one pass, and looks at sockets before and after it. Three thousand clients that
write at once would make one pass of 100 ms, in which a broker's AlterPartition is not even read. So the sockets of
clients stand in an epoll of their own, which stands in the first one as a single socket: of what is ready in it, a pass
takes at most `at_most`, the rest in the passes after. The kernel hands them out in turns.
"""

from __future__ import annotations

import select
import selectors
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

AT_MOST = 16
"""Sockets of clients in one pass: each is read (64 KiB at most) or written to (64 KiB), some 50 µs."""


class FairSelector(selectors.BaseSelector):
    """Give it to an event loop; then `set_back` what shall wait for its turn. Needs Linux's epoll."""

    def __init__(self) -> None:
        self.at_most = AT_MOST
        self._first = selectors.EpollSelector()
        self._second = select.epoll()
        self._gate = self._first.register(self._second.fileno(), selectors.EVENT_READ).fd
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._behind: set[int] = set()

    def set_back(self, fd: int) -> None:
        """Let a socket stand in the second tier from now on, or from its registration on, until `forget`."""
        self._behind.add(fd)
        key = self._first.get_map().get(fd)
        if key is not None:
            self._first.unregister(key.fileobj)
            self.register(key.fileobj, key.events, key.data)

    def set_forward(self, fd: int) -> None:
        """Let a socket stand in the first tier from now on."""
        self._behind.discard(fd)
        key = self._keys.get(fd)
        if key is not None:
            self._remove(fd)
            self._first.register(key.fileobj, key.events, key.data)

    def forget(self, fd: int) -> None:
        """The socket is closed; its number may be given to another."""
        self._behind.discard(fd)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors`."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if fd not in self._behind:
            return self._first.register(fileobj, events, data)
        if fd in self._keys:
            raise KeyError(f"{fileobj!r} (fd {fd}) is already registered")
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        self._second.register(fd, _mask(events))
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
            self._second.modify(fd, _mask(events))
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `selectors`; what is left over for want of a turn is told the next time."""
        ready = self._first.select(timeout)
        for place, (key, _) in enumerate(ready):
            if key.fd == self._gate:
                del ready[place]
                ready += self._some()
                break
        return ready

    def close(self) -> None:
        """See `selectors`."""
        self._first.close()
        self._second.close()
        self._keys.clear()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """See `selectors`."""
        return ChainMap(self._keys, self._first.get_map())  # type: ignore[arg-type]

    def _some(self) -> list[tuple[selectors.SelectorKey, int]]:
        found: list[tuple[selectors.SelectorKey, int]] = []
        for fd, event in self._second.poll(0, self.at_most):
            key = self._keys.get(fd)
            if key is None:
                continue
            write = selectors.EVENT_WRITE if event & ~select.EPOLLIN else 0
            read = selectors.EVENT_READ if event & ~select.EPOLLOUT else 0
            if (read | write) & key.events:
                found.append((key, (read | write) & key.events))
        return found

    def _remove(self, fd: int) -> selectors.SelectorKey:
        key = self._keys.pop(fd)
        self._second.unregister(fd)
        return key


def _mask(events: int) -> int:
    return (select.EPOLLIN if events & selectors.EVENT_READ else 0) | (
        select.EPOLLOUT if events & selectors.EVENT_WRITE else 0
    )
