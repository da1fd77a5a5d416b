"""Figures as people read them: a number with its noun, bytes in one family of units."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 move`, `2 moves`. `many` is the noun for every number but 1; "": `one` and an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


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


__all__ = ["counted", "told_bytes", "told_rate"]
