"""Turns on the event loop: many tasks that are ready at the same time don't delay timers and sockets.

One pass of the loop runs everything that is ready, and checks timers and sockets only between passes. Two hundred
channels that each encode or copy for a millisecond would make one pass of 0.2 s, in which a broker's death would wait.
"""

from __future__ import annotations

import asyncio
import time

TURN_SECONDS = 0.015
"""The part of one pass that all tasks with turns may take together: well under the limit of 50 ms for one pass."""


class Turns:
    """Turns that are shared by tasks which each block the loop for a moment."""

    def __init__(self) -> None:
        self._began: float | None = None

    async def mine(self) -> None:
        """Return at once while this pass of the loop has time left, else in a later pass."""
        while True:
            now = time.perf_counter()
            if self._began is None:
                self._began = now
                asyncio.get_running_loop().call_soon(self._over)
            if now - self._began < TURN_SECONDS:
                return
            await asyncio.sleep(0)

    def _over(self) -> None:
        self._began = None
