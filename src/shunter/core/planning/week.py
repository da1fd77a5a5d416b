"""The hours of a week: when a broker is busiest with its traffic and moves together, and when moves disturb least.

Hours are counted from Monday 00:00 UTC, 0 to 167. Every week is taken to be the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shunter.core.planning.cluster import Floats

HOURS = 168
_ALIKE = 0.01
"""If the worst brokers of two starts differ by no more than this, the earlier start is taken."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class WorstHour(NamedTuple):
    """The fullest broker while moves run, and its hour of the week. `share` 1 is all of its limit."""

    share: float
    row: int
    hour: int


class QuietStart(NamedTuple):
    """When moves should begin. `wait_hours` is counted from the present hour."""

    wait_hours: int
    then: WorstHour
    now: WorstHour
    """The worst hour if the moves begin at once: the price of not waiting."""


def hour_name(hour: int) -> str:
    """Name an hour of the week as people do: `Sunday 03:00 UTC`."""
    return f"{_DAYS[hour // 24]} {hour % 24:02d}:00 UTC"


def quietest_start(copying: Floats, week: Floats, limit: Floats, now: int) -> QuietStart:
    """Find the best hour of the week for moves to begin: the hour with which the fullest broker is least full.

    Args:
        copying: (R, K) the load that the moves add in each hour from their start; R are brokers' directions.
        week: (R, 168) the load of each without the moves.
        limit: (R,) the load that each can carry; above 0.
        now: The present hour of the week; of equally good hours the next one is taken.
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
