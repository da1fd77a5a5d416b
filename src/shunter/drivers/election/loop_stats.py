"""Counters of the controller's loop, which a front end may read at any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

RECENT = 256
"""Number of durations of each kind that are kept for quantiles."""


@dataclass(slots=True)
class Durations:
    """Durations of one kind: their number and sum since the start, and the latest ones."""

    count: int = 0
    seconds: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque[float](maxlen=RECENT))

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.count += 1
        self.seconds += seconds
        self.recent.append(seconds)

    def quantile(self, share: float) -> float:
        """Return the duration that this share of the recent ones does not exceed; 0 if there are none."""
        ordered = sorted(self.recent)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


NEVER = Durations()
"""Nothing was measured."""


def together(kinds: Iterable[Durations]) -> Durations:
    """Durations of several kinds as if they were of one."""
    total = Durations(recent=deque[float]())
    for durations in kinds:
        total.count += durations.count
        total.seconds += durations.seconds
        total.recent.extend(durations.recent)
    return total


@dataclass(slots=True)
class LoopStats:
    """Counts and seconds since the start. `longest_s` is the longest that one event held the loop."""

    events: dict[str, Durations] = field(default_factory=dict)
    waits: Durations = field(default_factory=Durations)
    """Times from an event's arrival until it was handled."""
    notices: dict[str, int] = field(default_factory=dict)
    """Number of notices by kind."""
    count: int = 0
    """Number of all events: while it stays the same, the state of the cluster does not change."""
    handling_s: float = 0.0
    longest_s: float = 0.0
    batches: int = 0
    records: int = 0
    writing_s: float = 0.0

    def handled(self, event: str, seconds: float) -> None:
        """Count one handled event."""
        self.count += 1
        if event not in self.events:
            self.events[event] = Durations()
        self.events[event].add(seconds)
        self.handling_s += seconds
        self.longest_s = max(self.longest_s, seconds)

    def noticed(self, kind: str) -> None:
        """Count one notice."""
        self.notices[kind] = self.notices.get(kind, 0) + 1

    def written(self, records: int, seconds: float) -> None:
        """Count one batch of writes."""
        self.batches += 1
        self.records += records
        self.writing_s += seconds
