"""How long the event loop keeps others waiting: a probe that asks to be called, and looks how late it was."""

from __future__ import annotations

import asyncio

INTERVAL_SECONDS = 0.025
SPAN_SECONDS = 60.0


class LoopLag:
    """Measures while it is started. Something that holds the loop is seen if it is longer than the interval."""

    def __init__(self) -> None:
        self.last_s = 0.0
        self.longest_s = 0.0
        self._worst_s = 0.0
        self._spans: tuple[float, float] = (0.0, 0.0)
        """The worst of the span of a minute that ended last, and of the one that goes on."""
        self._span_ends = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= self._span_ends:
            self._spans, self._span_ends = (self._spans[1], 0.0), now + SPAN_SECONDS
        due = now + INTERVAL_SECONDS
        self._timer = loop.call_at(due, self._probe, loop, due)

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_worst(self) -> float:
        """Give the longest lag since this was last asked, in seconds."""
        worst, self._worst_s = self._worst_s, 0.0
        return worst

    @property
    def lately_s(self) -> float:
        """The longest lag of the last minute, or of up to two; whoever asks takes nothing away from others."""
        return max(self._spans)

    def _probe(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.last_s = max(0.0, loop.time() - due)
        self._worst_s = max(self._worst_s, self.last_s)
        self._spans = (self._spans[0], max(self._spans[1], self.last_s))
        self.longest_s = max(self.longest_s, self.last_s)
        self.start()
