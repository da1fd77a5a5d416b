"""A broker of the simulated cluster: whether it is alive, and its knowledge, which arrives in order and late."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from lab.simulation.network import Delays
from lab.simulation.scheduler import SECOND, Scheduler
from shunter.model.execution import ObservedTopic, ThrottleKey
from shunter.model.partition import BrokerId

LATEST_US = 20 * SECOND
"""No news reaches a broker later than this, unless the broker is paused."""

Serve = Callable[[], None]


class ClusterBroker:
    """One broker. Its knowledge never goes back; its delays decide how late it is."""

    def __init__(self, scheduler: Scheduler, broker: BrokerId, rack: str | None) -> None:
        """Begin alive, without knowledge of the cluster."""
        self.id = broker
        self.rack = rack
        self.delays = Delays()
        self.lag = 1.0
        """How many times later than usual news reach it."""
        self.running = True
        self.paused = False
        self.registered = True
        """Alive in the eyes of the controller."""
        self.back_us = -1
        """When it registered again last; -1: never."""
        self.starts = 0
        self.topics: dict[str, ObservedTopic] = {}
        self.live: dict[BrokerId, str | None] = {}
        self.settings: dict[ThrottleKey, str] = {}
        self._scheduler = scheduler
        self._heard_us = 0
        self._served_us = 0
        self._waiting: deque[Serve] = deque()

    @property
    def serving(self) -> bool:
        """Whether it runs, is not paused and is registered."""
        return self.running and not self.paused and self.registered

    def hear(self, take: Serve) -> None:
        """Send news to it. They arrive in the order in which they were sent."""
        delay = min(LATEST_US, int(self.delays.draw(self._scheduler) * self.lag))
        self._heard_us = max(self._heard_us, self._scheduler.now_us + delay)
        self._scheduler.at(self._heard_us, self._take, self.starts, take)

    def _take(self, start: int, take: Serve) -> None:
        if start == self.starts and self.running:
            self.do(take)

    def serve(self, work: Serve) -> None:
        """Serve a request that has arrived, after all earlier ones of all senders."""
        self._served_us = max(self._served_us, self._scheduler.now_us + self.delays.draw(self._scheduler))
        self._scheduler.at(self._served_us, self.do, work)

    def do(self, work: Serve) -> None:
        """Run something now, or at `resume` if the broker is paused."""
        if self.paused:
            self._waiting.append(work)
        else:
            work()

    def stop(self) -> None:
        """End. News that have not arrived are lost."""
        self.running = self.paused = False
        self.starts += 1
        self._waiting.clear()

    def resume(self) -> None:
        """Go on, and do what has waited."""
        self.paused = False
        while self._waiting and not self.paused:
            self._waiting.popleft()()
