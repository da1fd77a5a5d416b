"""Counts the bytes that are held for peers against one bound.

Source: Apache Kafka 3.9, SimpleMemoryPool: a request may be begun while any room is left. So at most one request more
than the bound is held, and no request can wait for ever for room that it takes itself.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

READ_BYTES = 65_536
"""The most bytes that are read from a socket at a time."""


class Holder(Protocol):
    """A user of the pool that may have to wait for room."""

    def room_again(self) -> None:
        """Try again: there may be room now."""
        ...


class MemoryPool:
    """Counts held bytes. Beyond the bound one holder at a time may go on, so that one request always gets complete."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._first: Holder | None = None
        self._waiting: OrderedDict[Holder, None] = OrderedDict()

    @property
    def full(self) -> bool:
        """Whether no more bytes should be taken."""
        return self.held >= self.limit

    @property
    def waiting(self) -> int:
        """The number of holders that wait for room."""
        return len(self._waiting)

    def take(self, count: int) -> None:
        """Count bytes that are held from now on; a negative count is for bytes that are no longer held."""
        self.held += count
        if count < 0:
            self._wake()

    def may_go_on(self, holder: Holder) -> bool:
        """Whether a holder may take more bytes. If not, its `room_again` is called later."""
        if not self.full or self._first is holder:
            return True
        if self._first is None:
            self._first = holder
            return True
        self._waiting[holder] = None
        return False

    def done(self, holder: Holder) -> None:
        """Note that a holder's request is complete."""
        self._waiting.pop(holder, None)
        if self._first is holder:
            self._first = None
            self._wake()

    def _wake(self) -> None:
        # Each holder that goes on takes the bytes of one read before it asks again.
        for _ in range(max(0, self.limit - self.held) // READ_BYTES + 1):
            if not self._waiting or (self.full and self._first is not None):
                return
            holder, _ = self._waiting.popitem(last=False)
            holder.room_again()
