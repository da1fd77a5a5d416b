"""Quiet hours: the best start of a week, compared with all starts one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shunter.core.planning.week import HOURS, hour_name, quietest_start


def test_moves_wait_for_the_night() -> None:
    week = np.full((2, HOURS), 20.0)
    # Broker 0 is busy from 8 to 20 o'clock, broker 1 on Sunday night.
    week[0, [day * 24 + hour for day in range(7) for hour in range(8, 20)]] = 80.0
    week[1, 6 * 24 : 6 * 24 + 8] = 90.0
    copying = np.full((2, 6), 30.0)
    found = quietest_start(copying, week, np.array([100.0, 100.0]), now=10)
    assert (found.wait_hours, hour_name(10 + found.wait_hours)) == (10, "Monday 20:00 UTC")
    assert found.then.share == 0.5
    assert (found.now.share, found.now.row, found.now.hour) == (1.1, 0, 10)
    night = quietest_start(copying, week, np.array([100.0, 100.0]), now=6 * 24)
    assert hour_name((6 * 24 + night.wait_hours) % HOURS) == "Sunday 20:00 UTC"
    assert quietest_start(copying, week * 0, np.array([100.0, 100.0]), now=5).wait_hours == 0, "all hours are alike"


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(0, HOURS - 1))
def test_no_start_is_better(seed: int, lasts: int, now: int) -> None:
    drawn = np.random.default_rng(seed)
    week, copying = drawn.random((3, HOURS)), drawn.random((3, lasts)) * (drawn.random((3, lasts)) < 0.7)
    limit = drawn.random(3) + 0.5
    found = quietest_start(copying, week, limit, now)

    def worst(start: int) -> float:
        return max(
            float(week[row, (start + at) % HOURS] + copying[row, at]) / float(limit[row])
            for row in range(3)
            for at in range(lasts)
        )

    every = [worst(start) for start in range(HOURS)]
    assert found.then.share <= min(every) + 0.01 + 1e-12
    assert abs(found.then.share - every[(now + found.wait_hours) % HOURS]) < 1e-12
    assert abs(found.now.share - every[now]) < 1e-12
    assert all(every[(now + wait) % HOURS] > min(every) + 0.01 - 1e-12 for wait in range(found.wait_hours))
