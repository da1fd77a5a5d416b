"""The hours of a week: when a broker is busiest by all that it carries together, and when moves disturb least.

Hours are counted from Monday 00:00 UTC, 0 to 167. A week comes again and again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shunter.core.planning.cluster import Floats

HOURS = 168
_ALIKE = 0.01
"""Hours whose worst broker is no fuller than by this are alike: then the earlier one is taken."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class WorstHour(NamedTuple):
    """The broker, and the hour of the week, that is fullest while moves run. `share` 1 is all of its limit."""

    share: float
    row: int
    hour: int


class QuietStart(NamedTuple):
    """When moves should begin. `wait_hours` is counted from the hour that it was asked in."""

    wait_hours: int
    then: WorstHour
    now: WorstHour
    """The same, if they begin at once: what it costs not to wait."""


def hour_name(hour: int) -> str:
    """Name an hour of the week as people do: `Sunday 03:00 UTC`."""
    return f"{_DAYS[hour // 24]} {hour % 24:02d}:00 UTC"


def quietest_start(copying: Floats, week: Floats, limit: Floats, now: int) -> QuietStart:
    """Find the hour of the week in which moves begin best: the fullest broker is then the least full.

    Args:
        copying: (R, K) what the moves add in each hour from their start; R are brokers' directions.
        week: (R, 168) what each carries without them.
        limit: (R,) what each can carry; above 0.
        now: The hour of the week now; of hours that are alike the next one is taken.
    """
    starts = (now + np.arange(HOURS)) % HOURS
    worst = [_worst(copying, week, limit, int(start)) for start in starts]
    least = min(one.share for one in worst)
    wait = next(at for at, one in enumerate(worst) if one.share <= least + _ALIKE)
    return QuietStart(wait, worst[wait], worst[0])


def _worst(copying: Floats, week: Floats, limit: Floats, start: int) -> WorstHour:
    hours = (start + np.arange(copying.shape[1])) % HOURS
    share = (week[:, hours] + copying) / limit[:, None]
    row, at = np.unravel_index(int(share.argmax()), share.shape)
    return WorstHour(float(share[row, at]), int(row), int(hours[at]))
