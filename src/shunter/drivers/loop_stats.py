"""What the controller's loop has done so far: plain counters that a front end may read at any time."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class LoopStats:
    """Counts and seconds since the start. `longest_s` is the longest that one event held the loop."""

    events: dict[str, int] = field(default_factory=dict)
    count: int = 0
    """Of all events: while it stays the same, nothing of the cluster changes."""
    handling_s: float = 0.0
    longest_s: float = 0.0
    longest_event: str = ""
    queue_depth: int = 0
    batches: int = 0
    records: int = 0
    writing_s: float = 0.0

    def handled(self, event: str, seconds: float, queue_depth: int) -> None:
        """Count one handled event."""
        self.count += 1
        self.events[event] = self.events.get(event, 0) + 1
        self.handling_s += seconds
        self.queue_depth = queue_depth
        if seconds > self.longest_s:
            self.longest_s, self.longest_event = seconds, event

    def written(self, records: int, seconds: float) -> None:
        """Count one batch of writes."""
        self.batches += 1
        self.records += records
        self.writing_s += seconds
