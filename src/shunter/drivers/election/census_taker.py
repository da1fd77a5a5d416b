"""Counts partitions for the metrics in turns, so that a scrape of a large cluster does not block the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shunter.core.controller.state import ControllerState
from shunter.views.census import Census, count_topic

PARTITIONS_PER_TURN = 2_000


class CensusTaker:
    """Keeps the last count, and counts again when something may have changed.

    Args:
        state: returns the current state.
        moment: returns a number that changes with every event that is handled.
    """

    def __init__(self, state: Callable[[], ControllerState], moment: Callable[[], int]) -> None:
        self._state = state
        self._moment = moment
        self._taken_at: int | None = None
        self.census = Census()

    async def take(self) -> None:
        """Count in turns of the event loop. A topic that changes meanwhile is counted as it is in its turn."""
        moment = self._moment()
        if moment == self._taken_at:
            return
        census, looked = Census(), 0
        for name in tuple(self._state().topics):
            state = self._state()
            topic = state.topics.get(name)
            if topic is None:
                continue
            census = census.plus(count_topic(topic, state.brokers.keys(), deleting=name in state.deleting))
            looked += len(topic.partitions)
            if looked >= PARTITIONS_PER_TURN:
                looked = 0
                await asyncio.sleep(0)
        self.census, self._taken_at = census, moment
