"""The clock that gives the cores of controller and executor their time."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Milliseconds since the Unix epoch by the clock's present setting, to compare with times that others wrote."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """Wall-clock time that never goes back: the core's deadlines must not fire twice when the clock is set."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch by the clock's setting at the start, plus monotonic time since then."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def processor_s(self) -> float:
        """Processor time of this process, in seconds."""
        return time.process_time()

    def utc_offset_minutes(self, now_ms: int) -> int:
        """Minutes by which local time is ahead of UTC at a moment."""
        return time.localtime(now_ms / 1000).tm_gmtoff // 60
