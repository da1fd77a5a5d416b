"""Connections: ordered within one, without order between two. One may break any time; then a prefix has arrived."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.simulation.scheduler import MS, Scheduler, Timer


@dataclass(slots=True)
class Delays:
    """How long a message takes, microseconds. `slow` is a factor on all delays."""

    low_us: int = MS // 4
    high_us: int = 3 * MS
    rarely_us: int = 80 * MS
    rarely: float = 0.01
    slow: float = 1.0

    def draw(self, scheduler: Scheduler) -> int:
        """Draw one delay."""
        high = self.rarely_us if scheduler.chance(self.rarely) else self.high_us
        return int(scheduler.between(self.low_us, high) * self.slow)


class Link:
    """One direction of one connection."""

    def __init__(self, scheduler: Scheduler, delays: Delays) -> None:
        """Open it."""
        self._scheduler = scheduler
        self._delays = delays
        self._last_us = 0
        self._flying: deque[tuple[Timer, Callable[..., None], tuple[Any, ...]]] = deque()
        self.open = True

    def send(self, action: Callable[..., None], *arguments: Any) -> None:
        """Let a message arrive after all that were sent before it."""
        if not self.open:
            return
        moment = max(self._last_us, self._scheduler.now_us + self._delays.draw(self._scheduler))
        self._last_us = moment
        timer = self._scheduler.at(moment, self._arrive)
        self._flying.append((timer, action, arguments))

    def _arrive(self) -> None:
        _, action, arguments = self._flying.popleft()
        action(*arguments)

    def cut(self) -> None:
        """Break it: of the messages under way, a random prefix still arrives."""
        arrived = self._scheduler.random.randrange(len(self._flying) + 1)
        messages = list(self._flying)
        self.close()
        for timer, action, arguments in messages[:arrived]:
            timer.cancel()
            action(*arguments)

    def close(self) -> None:
        """Close it: all messages under way are lost."""
        self.open = False
        for timer, _, _ in self._flying:
            timer.cancel()
        self._flying.clear()
