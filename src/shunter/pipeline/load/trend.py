"""A robust trend of a size: neither retention's saw teeth nor one-off loads count as growth. No Spark is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FEWEST_POINTS = 5
FEWEST_DAYS = 3.0
"""Below this a slope says more about segment rolls and retention than about growth."""
_ONE_OFF = 6.0
"""A step of so many robust standard deviations above the others is a one-off load."""
_SMALLEST_LOAD = 0.12
"""A step below this share of the size is never a one-off load, however steady the other steps are."""
_SMALLEST_BREAK = 0.02
"""A size that is off its trend by less than this share is no break, however steady the steps are."""
_LOW, _HIGH = 0.1, 0.9
HELD_BACK = 0.25
"""The share of the days that is held back to measure a trend's error."""


class Trend(NamedTuple):
    """Growth in bytes a day with its 80 % interval; `level` is the size that counts now: the top of the saw teeth."""

    slope: float
    low: float
    high: float
    level: float
    one_off: float
    """Bytes of one-off loads. They are part of the level, not of the slope."""
    points: int


def trend_of(days: Sequence[float], sizes: Sequence[float]) -> Trend | None:
    """Fit a trend; None where too little was seen.

    The slope is the median of the slopes between all pairs of days that are a third of the time apart (Theil and Sen): a tooth
    of retention's saw is short beside that. The interval is the 10th to the 90th percentile of those slopes. A step up
    that is far above the others counts as a one-off load, if such steps are rare.

    Args:
        days: Ascending, in days; one point a day, the largest size of that day.
        sizes: In bytes.
    """
    times, values = np.asarray(days, float), np.asarray(sizes, float)
    if len(times) < FEWEST_POINTS or times[-1] - times[0] < FEWEST_DAYS:
        return None
    steps = np.diff(values)
    loads = _loads(steps, values)
    smooth = values - np.concatenate([[0.0], np.cumsum(loads)])
    first, second = np.triu_indices(len(times), 1)
    apart = times[second] - times[first]
    far = apart >= (times[-1] - times[0]) / 3
    slopes = (smooth[second] - smooth[first])[far] / apart[far]
    slope = float(np.median(slopes))
    recent = times >= times[-1] - (times[-1] - times[0]) / 3
    level = float(np.max(values[recent] + slope * (times[-1] - times[recent]) * (slope > 0)))
    low, high = (float(found) for found in np.quantile(slopes, [_LOW, _HIGH]))
    return Trend(slope, low, high, max(level, float(values[-1])), float(loads.sum()), len(times))


class Break(NamedTuple):
    """A size outside of what the days before predict. `expected` is the greatest, or the least, predicted size."""

    day: float
    size: float
    expected: float


def breaks(days: Sequence[float], sizes: Sequence[float], looked_at: int) -> list[Break]:
    """Compare each of the last days with the trend of the days before it.

    A size breaks its trend if it is above the highest tooth so far, moved on by the trend (if that grows), or below the
    lowest tooth (moved on if the trend shrinks), by more than six robust standard deviations of the daily steps and 2 %
    of the size. A step up is reported once: the days after it are compared with sizes that include it.

    Args:
        days: Ascending, as `trend_of` takes them.
        looked_at: How many of the last days are compared.
    """
    times, values = np.asarray(days, float), np.asarray(sizes, float)
    found: list[Break] = []
    for at in range(max(FEWEST_POINTS, len(times) - looked_at), len(times)):
        trend = trend_of(times[:at].tolist(), values[:at].tolist())
        if trend is None:
            continue
        steps = np.diff(values[:at])
        spread = 1.4826 * float(np.median(np.abs(steps - np.median(steps))))
        slack = max(_ONE_OFF * spread, _SMALLEST_BREAK * trend.level)
        before, ahead = values[:at], times[at] - times[:at]
        grows, shrinks = max(trend.slope, 0.0), min(trend.slope, 0.0)
        passed = float(times[at] - times[at - 1])
        most = float((before + grows * ahead).max()) + (max(trend.high, 0.0) - grows) * passed + slack
        least = float((before + shrinks * ahead).min()) + (min(trend.low, 0.0) - shrinks) * passed - slack
        if values[at] > most:
            found.append(Break(float(times[at]), float(values[at]), most))
        elif values[at] < least:
            found.append(Break(float(times[at]), float(values[at]), least))
    return found


def _loads(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The part of each step that is a one-off load."""
    usual = float(np.median(steps))
    spread = 1.4826 * float(np.median(np.abs(steps - usual)))
    least = max(_ONE_OFF * spread, _SMALLEST_LOAD * float(np.median(values)))
    outside = steps > usual + least
    # A saw's teeth may rise in steps. Steps that come again and again are not one-off loads.
    if outside.sum() > max(1, len(steps) // 10):
        return np.zeros_like(steps)
    return np.where(outside, steps - usual, 0.0)


def days_until(trend: Trend, room: float) -> tuple[float | None, float | None, float | None]:
    """In how many days `room` bytes above the level are used up: earliest, expected, latest; None: never."""

    def at(slope: float) -> float | None:
        if room <= 0:
            return 0.0
        return room / slope if slope > 0 else None

    return at(trend.high), at(trend.slope), at(trend.low)


def held_back_error(days: Sequence[float], sizes: Sequence[float]) -> float | None:
    """Error of a trend of the first three quarters on the last day: (predicted − real) ÷ real; None if too short."""
    kept = round(len(days) * (1 - HELD_BACK))
    trend = trend_of(days[:kept], sizes[:kept])
    # A trend predicts the top of the teeth, so it is compared with the greatest of the sizes that were held back.
    real = max(sizes[kept:], default=0.0)
    if trend is None or real <= 0:
        return None
    return (trend.level + trend.slope * (days[-1] - days[kept - 1]) - real) / real
