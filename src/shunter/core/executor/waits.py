"""What an open move waits for: a kind, by which the executor decides, and a text, which people read."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class WaitKind(Enum):
    """What has to happen before a move goes on."""

    NOTHING = "nothing"
    """It goes on: it copies, or is about to end."""
    OURSELVES = "ourselves"
    """The executor has to do something first: it sets a throttle, puts replicas into log dirs, or asks again."""
    TURN = "turn"
    """Other copies have to end first, because of a bound."""
    RESUME = "resume"
    """It is paused."""
    BROKERS = "brokers"
    """Brokers have to come back, or replicas into sync."""
    DISK = "disk"
    """A broker's disks have to get room."""
    ROOM = "room"
    """The executor has to see how much room there is, and how much is to be copied."""
    WINDOW = "window"
    """The time window has to open."""


ENDLESS = frozenset({WaitKind.BROKERS, WaitKind.DISK, WaitKind.WINDOW})
"""Nothing that the executor does ends these waits, so nobody knows when they end."""


class Wait(NamedTuple):
    """One wait. `steady`: the text without durations, the same for all moves that wait for the same; "": the text."""

    kind: WaitKind
    text: str
    steady: str = ""

    @property
    def told(self) -> str:
        """The wait as the end of a sentence about moves: `waiting for disk …`, `waiting: broker 3 is down`."""
        return f"waiting{(self.steady or self.text).removeprefix('waits')}"


NO_WAIT = Wait(WaitKind.NOTHING, "")
