"""Rates and estimates that are kept for pages that are opened later."""

from __future__ import annotations

from dataclasses import replace

from shunter.core.keeper.situation import unseen
from shunter.views.service import MovesView
from shunter.web.forecasts import KEPT, Forecasts

RUNNING = MovesView(
    1, 0, "p-1", unseen("c"), plan_bytes=100, copy_bytes_per_s=5.0, left_ms=1_000, low_ms=800, high_ms=1_500
)
IDLE = MovesView(1, 0, "", unseen("c"), why_no_eta="nothing is being moved")


def note(forecasts: Forecasts, first: int, last: int, view: MovesView = RUNNING) -> None:
    for second in range(first, last):
        forecasts.note("c", replace(view, at_ms=second * 1_000))


def test_points_stay_few_however_long_it_takes() -> None:
    forecasts = Forecasts(["c"])
    note(forecasts, 0, 10 * KEPT)
    told = forecasts.history("c")
    assert KEPT / 2 <= len(told.at_ms) <= KEPT
    assert told.at_ms[0] == 0
    assert told.at_ms[-1] >= (10 * KEPT - 32) * 1_000
    assert all(later > earlier for earlier, later in zip(told.at_ms, told.at_ms[1:], strict=False))
    assert len(told.end_ms) == len(told.low_ms) == len(told.high_ms) == len(told.copy_bytes_per_s) == len(told.at_ms)


def test_the_end_stays_and_the_next_execution_begins_anew() -> None:
    forecasts = Forecasts()
    assert forecasts.history("c").at_ms == ()
    note(forecasts, 0, 5)
    note(forecasts, 5, 9, IDLE)
    assert len(forecasts.history("c").at_ms) == 5, "what was told of the last one can be looked at"
    note(forecasts, 9, 11)
    assert forecasts.history("c").at_ms == (9_000, 10_000)
    note(forecasts, 11, 12, replace(RUNNING, proposal="p-2"))
    assert forecasts.history("c").at_ms == (11_000,)


def test_what_is_not_known_is_told_as_that() -> None:
    forecasts = Forecasts()
    forecasts.note("c", replace(RUNNING, left_ms=None, low_ms=None, high_ms=None, copy_bytes_per_s=None))
    told = forecasts.history("c")
    assert (told.end_ms, told.copy_bytes_per_s) == ((None,), (None,))
