"""Figures and names as people read them: a number with its noun, bytes in one family of units, the first few names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

NAMED = 3
"""The most things of a kind that are named; the others are counted."""
_BROKERS_NAMED = 8
"""The most brokers that are named: ids are short, and "broker 2, 3, 4 and 1 more" reads like broker 1."""
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 move`, `2 moves`. `many` is the noun for every number but 1; "": `one` and an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def told_brokers(brokers: Collection[int]) -> str:
    """Brokers by id: `broker 3`, `brokers 3, 5`; of many the first few, and how many more there are."""
    return f"broker{'s' if len(brokers) != 1 else ''} {named(sorted(brokers), _BROKERS_NAMED)}"


def told_bytes(number: float) -> str:
    """Bytes in powers of ten, as rates are given (50M), and as every human output has them: `1.5 GB`."""
    size, units = float(number), iter(_UNITS)
    unit = next(units)
    # A number that would be rounded to 1000.0 is given in the next unit.
    while abs(size) >= (999.5 if unit == "B" else 999.95) and unit != _UNITS[-1]:
        size, unit = size / 1000, next(units)
    return f"{size:.0f} B" if unit == "B" else f"{size:,.1f} {unit}"


def told_rate(bytes_per_s: float) -> str:
    """Bytes per second: `20.0 MB/s`."""
    return f"{told_bytes(bytes_per_s)}/s"


def named(names: Iterable[object], at_most: int = NAMED) -> str:
    """The first few names, in the given order, and how many more there are: `a, b, c and 4 more`."""
    listed = [str(name) for name in names]
    more = f" and {len(listed) - at_most:,} more" if len(listed) > at_most else ""
    return ", ".join(listed[:at_most]) + more


def gathered(sentences: Iterable[str]) -> list[str]:
    """Sentences of the form `what: why`, one for each reason: `t-0 stays, t-1 stays: why`."""
    found: dict[str, list[str]] = {}
    for sentence in sentences:
        what, _, why = sentence.partition(": ")
        found.setdefault(why or what, []).append(what)
    return [why if whats[0] == why else f"{named(whats)}: {why}" for why, whats in found.items()]


def told_ms(milliseconds: int) -> str:
    """A duration for people."""
    seconds = milliseconds // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def told_time(at_ms: int, *, seconds: bool = False) -> str:
    """A moment: `2026-11-27 09:25 UTC`, or `2026-11-27 09:25:07 UTC`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}{f':{at_ms // 1000 % 60:02}' if seconds else ''} UTC"


__all__ = ["counted", "gathered", "named", "told_bytes", "told_ms", "told_rate", "told_time"]
