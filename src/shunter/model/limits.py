"""Limits that people set: which values can be meant. Policy file, API, command line and executor ask here."""

from __future__ import annotations

LEAST_RATE = 1_000
"""Bytes per second. Below this no copy ends in a lifetime, and a unit was probably forgotten."""
MOST_RATE = 10**15
"""A petabyte per second. JSON numbers above 2**53 are not exact."""
MOST_COPIES = 1_000_000


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
