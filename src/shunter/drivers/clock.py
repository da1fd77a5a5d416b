"""The clock of every process that decides: a core is handed its time from here."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Milliseconds since the Unix epoch, as the clock stands now: for what is compared with times that others wrote."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """Wall-clock time that never goes back: the core's deadlines must not fire twice when a clock is set."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, as the clock stood at the start, going on evenly."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def processor_s(self) -> float:
        """Processor time of this process, seconds."""
        return time.process_time()

    def utc_offset_minutes(self, now_ms: int) -> int:
        """How far local time is ahead of UTC."""
        return time.localtime(now_ms / 1000).tm_gmtoff // 60
