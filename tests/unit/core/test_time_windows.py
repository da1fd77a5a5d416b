"""Windows of the day: half open, past midnight or not, and empty where they begin when they end."""

import pytest

from shunter.core.time_windows import is_within

HOUR = 60


@pytest.mark.parametrize(
    ("window", "hours"),
    [
        ((1 * HOUR, 3 * HOUR), {1, 2}),
        ((22 * HOUR, 2 * HOUR), {22, 23, 0, 1}),
        ((0, 24 * HOUR), set(range(24))),
        ((5 * HOUR, 5 * HOUR), set()),
    ],
)
def test_a_window_has_its_first_minute_and_not_the_one_after(window: tuple[int, int], hours: set[int]) -> None:
    assert {hour for hour in range(24) if is_within(hour * HOUR, window)} == hours
    assert {hour for hour in range(24) if is_within((hour + 24 * 20_000) * HOUR, window)} == hours, "of any day"
