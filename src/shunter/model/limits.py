"""Limits that people set, and which values can be meant: rates, bounds, and windows in which work may begin.

Policy file, API, command line and executor ask here. A window is written `22:00-06:00`, or `Mon-Fri 22:00-06:00
Europe/Berlin`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LEAST_RATE = 1_000
"""Bytes per second. Below this no copy ends in a lifetime, and a unit was probably forgotten."""
MOST_RATE = 10**15
"""A petabyte per second. JSON numbers above 2**53 are not exact."""
MOST_COPIES = 1_000_000
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WRITTEN = re.compile(
    r"(?:(?P<days>[A-Za-z,-]+) )?([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]|24(?=:00)):([0-5]\d)"
    r"(?: (?P<zone>[A-Za-z0-9_+/-]+))?"
)


def rate_trouble(bytes_per_s: float) -> str:
    """Why a throttle can't be meant; "" if it can."""
    if bytes_per_s < LEAST_RATE:
        units = f", or write a unit, as in {bytes_per_s:g}M" if bytes_per_s > 0 else ""
        return f"{bytes_per_s:g} bytes per second is no rate for copies: give {LEAST_RATE:,} or more{units}"
    if bytes_per_s > MOST_RATE:
        return f"{bytes_per_s:g} bytes per second is more than any network carries: give at most {MOST_RATE:,}"
    return ""


def floor_trouble(floor: int | None, throttle: int | None) -> str:
    """Why a throttle can't be lowered to this floor; "" if it can, or there is no floor."""
    if floor is None or (throttle is not None and floor <= throttle):
        return ""
    return f"the floor {floor:,} is above the throttle {throttle:,}" if throttle is not None else "there is no throttle"


def bound_trouble(copies: int) -> str:
    """Why a bound on copies can't be meant; "" if it can. 0: no bound."""
    if 0 <= copies <= MOST_COPIES:
        return ""
    return f"{copies:,} copies: a number from 0 (no bound) to {MOST_COPIES:,} is wanted"


class Window(NamedTuple):
    """When work may begin: from a minute of the day to the minute after, over midnight if that is less.

    `days`: the weekdays on which it begins, Monday is 0; none: all. `zone`: by whose clocks, as Europe/Berlin; "": by
    those of the host that does the work.
    """

    first: int
    after: int
    days: tuple[int, ...] = ()
    zone: str = ""


def read_window(text: str, zone: str = "") -> Window:
    """Read a window. `zone`: if the text names none.

    Raises:
        ValueError: it is none; the sentence names the text.
    """
    found = WRITTEN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'{text!r} is not a window: write "22:00-06:00", or "Mon-Fri 22:00-06:00 Europe/Berlin"')
    first, after = int(found[2]) * 60 + int(found[3]), int(found[4]) * 60 + int(found[5])
    if first == after:
        raise ValueError(f"{text!r} begins when it ends: leave it out to allow all times")
    zone = found["zone"] or zone
    try:
        ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        way = "is no time zone of this machine: write one as Europe/Berlin, or UTC"
        raise ValueError(f"{text!r}: {zone} {way}") from None
    return Window(first, after, _weekdays(text, found["days"]), zone)


def _weekdays(text: str, named: str | None) -> tuple[int, ...]:
    """The days of a window by number, Monday is 0; none named: all."""
    found: set[int] = set()
    for part in (named or "").split(",") if named else ():
        first, _, last = part.partition("-")
        if first not in WEEKDAYS or (last or first) not in WEEKDAYS:
            raise ValueError(f'{text!r}: {part!r} is no weekday: write "Mon", "Mon,Wed" or "Mon-Fri"')
        begin, end = WEEKDAYS.index(first), WEEKDAYS.index(last or first)
        found |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return tuple(sorted(found))


def write_window(window: Window, zone: str = "") -> str:
    """As `read_window` reads it; `zone` needs no mention."""
    days = f"{','.join(WEEKDAYS[day] for day in window.days)} " if window.days else ""
    named = "" if window.zone in ("", zone) else f" {window.zone}"
    return f"{days}{_clock(window.first)}-{_clock(window.after)}{named}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def local_time(at_ms: int, zone: str, utc_offset_minutes: int = 0) -> datetime:
    """The time by a zone's clocks, or by those of a host whose clocks are ahead of UTC by so much."""
    if zone:
        return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone))
    return datetime.fromtimestamp(at_ms / 1000, UTC) + timedelta(minutes=utc_offset_minutes)


def is_open(window: Window | None, at_ms: int, utc_offset_minutes: int = 0) -> bool:
    """Whether work may begin now; None: always. The hours after midnight belong to the day on which the window began.

    Args:
        window: The window.
        at_ms: The time.
        utc_offset_minutes: Of the clocks of the host that does the work.
    """
    if window is None:
        return True
    now = local_time(at_ms, window.zone, utc_offset_minutes)
    minute = now.hour * 60 + now.minute
    over_midnight = window.after < window.first
    within = minute >= window.first or minute < window.after if over_midnight else window.first <= minute < window.after
    day = (now.weekday() - (over_midnight and minute < window.after)) % 7
    return within and (not window.days or day in window.days)
