"""Virtual time: a heap of timers, one PRNG, and a trace whose hash shows whether two runs were the same.

An event is one delivery or one timer. Nothing here depends on hashes of strings, on addresses or on the real clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any

MS = 1_000
SECOND = 1_000_000
EPOCH_MS = 1_700_000_000_000
"""The time of a correct wall clock at the beginning, ms since the Unix epoch."""
TAIL = 400


class Timer:
    """A call that is due once, unless it is cancelled."""

    __slots__ = ("action", "arguments")

    def __init__(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Remember what to call."""
        self.action: Callable[..., None] | None = action
        self.arguments = arguments

    def cancel(self) -> None:
        """Cancel the call."""
        self.action = None
        self.arguments = ()


class Trace:
    """Lines about all that happened, in order: the hash covers all lines, and the last `TAIL` are kept."""

    def __init__(self) -> None:
        """Begin an empty trace."""
        self._hash = blake2b(digest_size=16)
        self.tail: deque[str] = deque(maxlen=TAIL)
        self.lines = 0

    def note(self, now_us: int, text: str) -> None:
        """Add a line."""
        line = f"{now_us / 1000:.3f} {text}"
        self._hash.update(line.encode())
        self.tail.append(line)
        self.lines += 1

    def digest(self) -> str:
        """Hash of all lines so far."""
        return self._hash.hexdigest()


class Scheduler:
    """The world's time and random numbers."""

    def __init__(self, seed: int) -> None:
        """Begin at time 0."""
        self.now_us = 0
        self.random = Random(seed)
        self.trace = Trace()
        self.events = 0
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0

    @property
    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, by a correct clock."""
        return EPOCH_MS + self.now_us // MS

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.note(self.now_us, text)

    def after(self, delay_us: int, action: Callable[..., None], *arguments: Any) -> Timer:
        """Call something in `delay_us` microseconds."""
        return self.at(self.now_us + max(0, delay_us), action, *arguments)

    def at(self, moment_us: int, action: Callable[..., None], *arguments: Any) -> Timer:
        """Call something at a moment; calls for the same moment keep the order in which they were scheduled."""
        timer = Timer(action, arguments)
        self._sequence += 1
        heappush(self._heap, (max(moment_us, self.now_us), self._sequence, timer))
        return timer

    def step(self, until_us: int) -> bool:
        """Run the next call; returns False if none is due by `until_us`, and then sets the time to that."""
        heap = self._heap
        while heap:
            moment, _, timer = heap[0]
            if moment > until_us:
                break
            heappop(heap)
            action = timer.action
            if action is None:
                continue
            self.now_us = moment
            self.events += 1
            action(*timer.arguments)
            return True
        self.now_us = max(self.now_us, until_us)
        return False

    def pending(self) -> int:
        """How many timers are on the heap, cancelled ones included."""
        return len(self._heap)

    def between(self, low_us: int, high_us: int) -> int:
        """Draw a delay."""
        return low_us + int(self.random.random() * (high_us - low_us))

    def chance(self, probability: float) -> bool:
        """Draw a yes or no."""
        return self.random.random() < probability
