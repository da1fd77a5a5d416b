"""Measures how long callbacks wait for the event loop: a timer fires at intervals, and notes how late it was."""

from __future__ import annotations

import asyncio

INTERVAL_SECONDS = 0.025
SPAN_SECONDS = 60.0


class LoopLag:
    """Measures between `start` and `stop`. A callback that blocks the loop longer than the interval is always seen."""

    def __init__(self) -> None:
        self.last_s = 0.0
        self.longest_s = 0.0
        self._worst_s = 0.0
        self._spans: tuple[float, float] = (0.0, 0.0)
        """The worst lag of the last complete minute, and of the minute under way."""
        self._span_ends = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to measure, on the running loop."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= self._span_ends:
            self._spans, self._span_ends = (self._spans[1], 0.0), now + SPAN_SECONDS
        due = now + INTERVAL_SECONDS
        self._timer = loop.call_at(due, self._probe, loop, due)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_worst(self) -> float:
        """Return the longest lag since the last call, in seconds."""
        worst, self._worst_s = self._worst_s, 0.0
        return worst

    @property
    def lately_s(self) -> float:
        """The longest lag of the last one to two minutes, in seconds. Reading it resets nothing."""
        return max(self._spans)

    def _probe(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.last_s = max(0.0, loop.time() - due)
        self._worst_s = max(self._worst_s, self.last_s)
        self._spans = (self._spans[0], max(self._spans[1], self.last_s))
        self.longest_s = max(self.longest_s, self.last_s)
        self.start()
