"""Runs Python's garbage collector in quiet moments.

Python itself collects all objects when enough new ones were made, that is during the most work: with 100,000 partitions
and their requests each such collection blocks the event loop for 100 ms and more. Here only young objects are collected
during work, and all objects in a quiet moment.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

from shunter.drivers.host.supervision import Supervise

YOUNG_THRESHOLDS = (1_000, 5, 1_000_000_000)
"""Thresholds of `gc`: new objects until generation 0 is collected; such collections until generation 1 is; generation 2
never is. Each object is examined twice, whatever the numbers; smaller numbers make more and shorter collections. With
ten times as many, one took 48 ms while thousands of clients came and went, because closed connections leave cycles."""
QUIET_SECONDS = 1.0
INTERVAL_SECONDS = 60.0
PATIENCE_SECONDS = 600.0


class IdleCollector:
    """Collects at most once a minute, when nothing happened for a second; after ten minutes in any case.

    The objects that a controller reads at the start of its term are frozen: Python examines them no more. In the first
    quiet moment of the next term they are examined once, since a cycle may hold objects of the former term.

    Args:
        activity: returns a count of what happened; equal counts mean that nothing did.
        term: returns a number of the present term; another number is another term.
    """

    def __init__(self, activity: Callable[[], int], term: Callable[[], int] = lambda: 0) -> None:
        self._activity = activity
        self._term = term
        self._looked_at = term()
        self._task: asyncio.Task[None] | None = None
        self.looks = 0
        self.longest_s = 0.0

    def start(self, supervise: Supervise = lambda _: None) -> None:
        """Limit Python's own collector, and collect on the running loop; `supervise` gets the task."""
        gc.set_threshold(*YOUNG_THRESHOLDS)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="idle-collector")
        supervise(self._task)

    async def close(self) -> None:
        """Stop the task."""
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
