"""The growth of a measured series: least squares over its second half, so that the warm-up does not count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

ERRORS = 2.0
"""A slope of less than so many standard errors is none."""
SMALL_SHARE = 0.01
"""Nor is one of less than this share of the level in an hour."""
HOUR_S = 3_600.0


class Reading(NamedTuple):
    """A figure, and when it was read, in seconds since the beginning."""

    at_s: float
    value: float


class Slope(NamedTuple):
    """The mean of a series' second half, its slope per hour, and the slope's standard error."""

    level: float
    per_hour: float
    error: float

    @property
    def grows(self) -> bool:
        """Whether it grows by more than two standard errors and one per cent an hour."""
        return self.per_hour > ERRORS * self.error and self.per_hour >= SMALL_SHARE * self.level

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return f"grows by {self.per_hour:,.4g} per hour" if self.grows else "flat"


def growth_of(samples: Sequence[Reading]) -> Slope:
    """Fit a line to the second half, by time.

    Fewer than three samples there, or samples of one moment, have no slope: its error is infinite.

    Raises:
        ValueError: there is no sample.
    """
    if not samples:
        raise ValueError("a series without samples has no growth")
    middle_s = (samples[0].at_s + samples[-1].at_s) / 2
    late = [each for each in samples if each.at_s >= middle_s]
    level = math.fsum(each.value for each in late) / len(late)
    mean_s = math.fsum(each.at_s for each in late) / len(late)
    spread = math.fsum((each.at_s - mean_s) ** 2 for each in late)
    if len(late) < 3 or spread == 0:
        return Slope(level, 0.0, math.inf)
    slope = math.fsum((each.at_s - mean_s) * (each.value - level) for each in late) / spread
    rest = math.fsum((each.value - level - slope * (each.at_s - mean_s)) ** 2 for each in late)
    return Slope(level, slope * HOUR_S, math.sqrt(rest / (len(late) - 2) / spread) * HOUR_S)
