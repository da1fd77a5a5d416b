"""Looks for reference cycles while nothing else is to be done.

Python looks at all objects when enough new ones were made, that is in the middle of the most work: with 100,000
partitions and their requests each look holds the event loop for 100 ms and more. Here only young objects are looked at
in between, and all of them in a quiet moment.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

from shunter.drivers.supervision import Supervise

YOUNG_THRESHOLDS = (1_000, 5, 1_000_000_000)
"""How many new objects make Python look at the youngest; how many of these looks, at all young ones; never at all.
Each object is looked at twice, whatever the numbers; smaller ones make more and shorter looks. With ten times as many, a
look took 48 ms while thousands of clients came and went: what they leave behind is full of cycles."""
QUIET_SECONDS = 1.0
INTERVAL_SECONDS = 60.0
PATIENCE_SECONDS = 600.0


class IdleCollector:
    """Collects at most once in a minute, when nothing happened for a second; after ten minutes all the same.

    What a controller reads when its term begins is frozen: Python looks at it no more. In the first quiet moment of
    another term it is looked at once again, since a cycle may hold what was known in the term before.

    Args:
        activity: counts what happens; equal counts mean that nothing did.
        term: names the term that this process is in; another name is another term.
    """

    def __init__(self, activity: Callable[[], int], term: Callable[[], int] = lambda: 0) -> None:
        self._activity = activity
        self._term = term
        self._looked_at = term()
        self._task: asyncio.Task[None] | None = None
        self.looks = 0
        self.longest_s = 0.0

    def start(self, supervise: Supervise = lambda _: None) -> None:
        """Take over from Python's own collector, on the running loop; `supervise` gets the task that does."""
        gc.set_threshold(*YOUNG_THRESHOLDS)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="idle-collector")
        supervise(self._task)

    async def close(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        looked, before = time.monotonic(), self._activity()
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            count = self._activity()
            quiet, before = count == before, count
            if time.monotonic() - looked >= (INTERVAL_SECONDS if quiet else PATIENCE_SECONDS):
                self._look()
                looked = time.monotonic()

    def _look(self) -> None:
        began = time.perf_counter()
        term = self._term()
        if term == self._looked_at:
            gc.collect()
        else:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._looked_at = term
        self.looks += 1
        self.longest_s = max(self.longest_s, time.perf_counter() - began)
