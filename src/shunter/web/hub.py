"""Server-sent events: each is rendered once, and sent to every open page as the same bytes.

An event says how a cluster stands, so only the last one of each cluster is kept. A page has a position and no queue of
its own, so a slow page costs nothing, and gets what is last. A page whose last event is from an earlier run of the
service gets `reset` and reads everything again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple


class _Kept(NamedTuple):
    number: int
    raw: bytes


class Hub:
    """All events of this run of the service."""

    def __init__(self, run: str) -> None:
        """`run`: a name that no other run of the service has; it is the first part of every id."""
        self._run = run
        self._last: dict[str, _Kept] = {}
        """The last event of each cluster, "": of the fleet; the newest is at the end."""
        self._number = 0
        self._next: asyncio.Event = asyncio.Event()
        self._closed = False
        self._nudges = 0
        self.subscribers = 0

    def publish(self, kind: str, cluster: str, data: bytes) -> None:
        """Send an event to every page that follows this cluster, or all clusters. `data`: one line of JSON."""
        self._number += 1
        raw = _rendered(f"{self._run}-{self._number}", kind, data)
        self._last.pop(cluster, None)
        self._last[cluster] = _Kept(self._number, raw)
        self._wake()

    def nudge(self) -> None:
        """Let every stream go on with an empty event, so that it checks again whether its caller may still follow."""
        self._nudges += 1
        self._wake()

    def close(self) -> None:
        """End every stream, so that the service can end."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    async def follow(self, last_id: str, cluster: str) -> AsyncIterator[bytes]:
        """Events from now on, or after the event `last_id`; of one cluster, or of all clusters if `cluster` is "".

        An event may be empty; see `nudge`. The first event is `hello`; it is `reset` if `last_id` is of another run.
        """
        position = self._position(last_id)
        self.subscribers += 1
        try:
            yield self._greeting("hello" if position is not None else "reset", position)
            position = self._number if position is None else position
            nudges = self._nudges
            while not self._closed:
                waiting = self._next
                # A copy, because events may come while this page waits until one is sent.
                for of, event in [(of, each) for of, each in self._last.items() if each.number > position]:
                    position = event.number
                    if cluster in ("", of):
                        yield event.raw
                if nudges != self._nudges:
                    nudges = self._nudges
                    yield b""
                if waiting is self._next:
                    await waiting.wait()
        finally:
            self.subscribers -= 1

    def _position(self, last_id: str) -> int | None:
        """The number of the event `last_id`, which a page has seen; None: it is unknown."""
        if not last_id:
            return self._number
        run, _, number = last_id.rpartition("-")
        if run != self._run or not number.isdecimal() or int(number) > self._number:
            return None
        return int(number)

    def _greeting(self, kind: str, position: int | None) -> bytes:
        number = self._number if position is None else position
        return _rendered(f"{self._run}-{number}", kind, b"{}")


def _rendered(event_id: str, kind: str, data: bytes) -> bytes:
    assert b"\n" not in data, "an event is one line of JSON"
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event_id.encode(), kind.encode(), data)
