"""Bytes that peers make us hold, counted against one bound.

Source: Apache Kafka 3.9, SimpleMemoryPool: a request may be begun while anything is left, so one request more than the
bound is held at the most, and no request can wait for ever for lack of room that it takes itself.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

READ_BYTES = 65_536
"""The most that is taken from a socket at a time."""


class Holder(Protocol):
    """Who may have to wait for room."""

    def room_again(self) -> None:
        """There may be room now."""
        ...


class MemoryPool:
    """Counts what is held. Beyond the bound one holder at a time may go on, so that somebody always comes to an end."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._first: Holder | None = None
        self._waiting: OrderedDict[Holder, None] = OrderedDict()

    @property
    def full(self) -> bool:
        """Whether nothing more should be taken on."""
        return self.held >= self.limit

    @property
    def waiting(self) -> int:
        """Count those who wait for room."""
        return len(self._waiting)

    def take(self, count: int) -> None:
        """Count bytes that are held from now on; negative: that are not held any more."""
        self.held += count
        if count < 0:
            self._wake()

    def may_go_on(self, holder: Holder) -> bool:
        """Tell whether a holder may take in more; where it may not, `room_again` calls it later."""
        if not self.full or self._first is holder:
            return True
        if self._first is None:
            self._first = holder
            return True
        self._waiting[holder] = None
        return False

    def done(self, holder: Holder) -> None:
        """A holder has come to an end with what it took in."""
        self._waiting.pop(holder, None)
        if self._first is holder:
            self._first = None
            self._wake()

    def _wake(self) -> None:
        # Each that goes on takes in as much as one read gives before it asks again.
        for _ in range(max(0, self.limit - self.held) // READ_BYTES + 1):
            if not self._waiting or (self.full and self._first is not None):
                return
            holder, _ = self._waiting.popitem(last=False)
            holder.room_again()
