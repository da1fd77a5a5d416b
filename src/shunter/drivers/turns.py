"""Turns on the event loop: many tasks that are ready at once don't hold up what comes between them.

One pass of the loop runs everything that is ready, and looks at timers and sockets only before and after. Two hundred
channels that each encode or copy for a millisecond make one pass of 0.2 s, in which a broker's death would wait.
"""

from __future__ import annotations

import asyncio
import time

TURN_SECONDS = 0.015
"""How much of one pass the tasks that ask for turns take together: well under the 50 ms that nothing may exceed."""


class Turns:
    """Shared by the tasks that hold the loop for a moment each."""

    def __init__(self) -> None:
        self._began: float | None = None

    async def mine(self) -> None:
        """Return at once while this pass of the loop has time left; else in a later one."""
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
