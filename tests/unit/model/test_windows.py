"""Windows of the week: half open, past midnight or not, of some days, by a zone's clocks or the host's."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.model.limits import Window, is_open, read_window, write_window

HOUR = 60
MONDAY_MS = 4 * 86_400_000
"""1970-01-05 00:00 UTC."""


def open_hours(text: str, *, days: int = 1, offset_minutes: int = 0) -> set[int]:
    """The hours since Monday in which a window is open."""
    window = read_window(text, "UTC" if not offset_minutes else "")
    return {hour for hour in range(24 * days) if is_open(window, MONDAY_MS + hour * 3_600_000, offset_minutes)}


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("01:00-03:00", {1, 2}),
        ("22:00-2:00", {22, 23, 0, 1}),
        ("0:00-24:00", set(range(24))),
        ("10:00-11:00 Asia/Kolkata", {5}),
        ("Tue 01:00-03:00", set[int]()),
    ],
)
def test_a_window_has_its_first_minute_and_not_the_one_after(text: str, hours: set[int]) -> None:
    assert open_hours(text) == hours


def test_the_hours_after_midnight_are_of_the_day_on_which_the_window_began() -> None:
    assert open_hours("Mon 22:00-02:00", days=7) == {22, 23, 24, 25}
    assert open_hours("Sun 22:00-02:00", days=7) == {0, 1, 6 * 24 + 22, 6 * 24 + 23}
    assert open_hours("Mon-Tue,Sun 23:00-24:00", days=7) == {23, 47, 167}


def test_without_a_zone_the_hosts_clocks_count_and_its_day() -> None:
    assert open_hours("Mon 22:00-24:00", days=7, offset_minutes=2 * HOUR) == {20, 21}
    assert open_hours("Tue 00:00-01:00", days=7, offset_minutes=2 * HOUR) == {22}


def test_a_zones_clocks_are_put_forward_in_spring() -> None:
    window = read_window("03:00-04:00 Europe/Berlin")
    summer = datetime(2026, 3, 29, 3, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert is_open(window, int(summer.timestamp() * 1000))
    assert is_open(None, 0)


@given(
    st.integers(0, 1439),
    st.integers(0, 1440),
    st.sets(st.integers(0, 6)),
    st.sampled_from(["", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"]),
)
def test_what_is_written_is_read_back(first: int, after: int, days: set[int], zone: str) -> None:
    window = Window(first, after, tuple(sorted(days)), zone)
    if first != after:
        assert read_window(write_window(window)) == window
        assert read_window(write_window(window, zone), zone) == window


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("22-06", "is not a window: write"),
        ("24:00-01:00", "is not a window: write"),
        ("22:00-24:01", "is not a window: write"),
        ("22:00-22:00", "begins when it ends: leave it out to allow all times"),
        ("Fun 22:00-06:00", "'Fun' is no weekday: write"),
        ("22:00-06:00 Mars/Base", "Mars/Base is no time zone of this machine"),
    ],
)
def test_what_is_no_window_is_refused_with_the_way_out(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        read_window(text)
    assert repr(text) in str(refused.value)
