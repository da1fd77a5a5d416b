"""Past rates and estimates of an execution, kept so that a page which is opened late shows them too.

They are in memory: after a restart they start again, like the executor's own measurements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from shunter.views.service import MovesView

KEPT = 600
"""The most points that are kept. After that, every second point is dropped, and points come half as often."""
FIRST_SPACING_MS = 1_000


@dataclass(frozen=True, slots=True)
class ForecastHistory:
    """Estimates of the execution under way, or of the last one; all columns have one length, the oldest point first.

    Times are milliseconds since 1970 UTC; None: unknown at that time.
    """

    at_ms: tuple[int, ...]
    copy_bytes_per_s: tuple[float | None, ...]
    end_ms: tuple[int | None, ...]
    """The expected end of the execution."""
    low_ms: tuple[int | None, ...]
    """The early end of the interval of 80 %."""
    high_ms: tuple[int | None, ...]


class _Point(NamedTuple):
    at_ms: int
    copy_bytes_per_s: float | None
    end_ms: int | None
    low_ms: int | None
    high_ms: int | None


class _Forecasts:
    def __init__(self) -> None:
        self.points: list[_Point] = []
        self.spacing_ms = FIRST_SPACING_MS
        self.running = False
        self.proposal = ""

    def note(self, view: MovesView) -> None:
        running = bool(view.plan_bytes) or view.left_ms is not None
        if running and (not self.running or view.proposal != self.proposal):
            self.points, self.spacing_ms = [], FIRST_SPACING_MS
        self.running, self.proposal = running, view.proposal
        if not running or (self.points and view.at_ms - self.points[-1].at_ms < self.spacing_ms):
            return
        ends = (None if left is None else view.at_ms + left for left in (view.left_ms, view.low_ms, view.high_ms))
        self.points.append(_Point(view.at_ms, view.copy_bytes_per_s, *ends))
        if len(self.points) > KEPT:
            self.points = self.points[::2]
            self.spacing_ms *= 2


class Forecasts:
    """The forecasts of all clusters."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Begin with no points. `names`: the clusters."""
        self._of = {name: _Forecasts() for name in names}

    def note(self, name: str, view: MovesView) -> None:
        """Keep the rate and the estimates of a view."""
        self._of.setdefault(name, _Forecasts()).note(view)

    def history(self, name: str) -> ForecastHistory:
        """The kept points of a cluster."""
        points = self._of.setdefault(name, _Forecasts()).points
        columns = zip(*points, strict=True) if points else ((),) * 5
        return ForecastHistory(*map(tuple, columns))
