"""The one place where time comes from."""

from __future__ import annotations

import time


class SystemClock:
    """Wall-clock time that never goes back: the core's deadlines must not fire twice when a clock is set."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, as the clock stood at the start, going on evenly."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000
