"""A broker of the simulated cluster: alive or not, and what it has heard of the truth, in order and late."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shunter.model.execution import ObservedTopic, ThrottleKey
from shunter.model.partition import BrokerId
from shunter.simulation.network import Delays
from shunter.simulation.scheduler import SECOND, Scheduler

LATEST_US = 20 * SECOND
"""Later than this no broker hears of anything, unless it stands still."""

Serve = Callable[[], None]


class ClusterBroker:
    """One broker. Its knowledge only moves on; how late it is, is a matter of its delays."""

    def __init__(self, scheduler: Scheduler, broker: BrokerId, rack: str | None) -> None:
        """Begin alive, and knowing nothing."""
        self.id = broker
        self.rack = rack
        self.delays = Delays()
        self.lag = 1.0
        """How many times later than usual it hears of things."""
        self.running = True
        self.paused = False
        self.registered = True
        """Alive in the eyes of the controller."""
        self.back_us = -1
        """When it came back; -1: it never was away."""
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
        """Whether it does its work."""
        return self.running and not self.paused and self.registered

    def hear(self, take: Serve) -> None:
        """News are on their way to it: they arrive in the order in which they were sent."""
        delay = min(LATEST_US, int(self.delays.draw(self._scheduler) * self.lag))
        self._heard_us = max(self._heard_us, self._scheduler.now_us + delay)
        self._scheduler.at(self._heard_us, self._take, self.starts, take)

    def _take(self, start: int, take: Serve) -> None:
        if start == self.starts and self.running:
            self.do(take)

    def serve(self, work: Serve) -> None:
        """A request has arrived at it: it is served after all that came before it, whoever sent them."""
        self._served_us = max(self._served_us, self._scheduler.now_us + self.delays.draw(self._scheduler))
        self._scheduler.at(self._served_us, self.do, work)

    def do(self, work: Serve) -> None:
        """Do something now, or as soon as it goes on."""
        if self.paused:
            self._waiting.append(work)
        else:
            work()

    def stop(self) -> None:
        """End; what it had not heard yet it never will."""
        self.running = self.paused = False
        self.starts += 1
        self._waiting.clear()

    def resume(self) -> None:
        """Go on where it stood."""
        self.paused = False
        while self._waiting and not self.paused:
            self._waiting.popleft()()
