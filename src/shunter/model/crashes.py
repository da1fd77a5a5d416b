"""Bugs that ended controllers, as they are remembered for the next controllers."""

from __future__ import annotations

from typing import NamedTuple


class RememberedCrash(NamedTuple):
    """A bug that ended a controller.

    Attributes:
        at_ms: When it last ended one; milliseconds since the Unix epoch.
        until_ms: Until when the suspects are set aside.
        times: How often controllers ended with the same suspects.
        cause: The event that was handled, for people.
        error: The bug, for people.
        suspects: (kind, name) of the inputs: see `core.controller.suspects`.
    """

    at_ms: int
    until_ms: int
    times: int
    cause: str
    error: str
    suspects: tuple[tuple[str, str], ...]


REMEMBERED_AT_MOST = 20
FIRST_PAUSE_MS = 60_000
LONGEST_PAUSE_MS = 3_600_000
FORGOTTEN_AFTER_MS = 86_400_000
"""How long after its pause a crash still counts: with the same suspects the next pause is twice as long."""


def with_another(known: tuple[RememberedCrash, ...], new: RememberedCrash) -> tuple[RememberedCrash, ...]:
    """Add a crash. If it has the suspects of a known one, they are set aside for twice as long. Old crashes go."""
    times = 1 + max((crash.times for crash in known if crash.suspects == new.suspects), default=0)
    pause_ms = min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** min(times - 1, 16))
    kept = [
        crash for crash in known if crash.suspects != new.suspects and crash.until_ms + FORGOTTEN_AFTER_MS > new.at_ms
    ]
    return (*kept[1 - REMEMBERED_AT_MOST :], new._replace(times=times, until_ms=new.at_ms + pause_ms))
