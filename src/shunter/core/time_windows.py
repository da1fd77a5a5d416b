"""Windows of the day in which work may begin: the first minute, and the first minute after."""

from __future__ import annotations

_DAY_MINUTES = 24 * 60


def is_within(minutes: int, window: tuple[int, int]) -> bool:
    """Whether a moment is in a window, which may pass midnight (22:00-06:00).

    Args:
        minutes: Minutes since any midnight.
        window: Minutes of the day. A window that begins when it ends is empty, and no settings may name one.
    """
    minute, (first, after) = minutes % _DAY_MINUTES, window
    if first <= after:
        return first <= minute < after
    return minute >= first or minute < after
