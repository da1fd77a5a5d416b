"""What an open move waits for: a kind, by which the executor decides, and a text, which people read."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from shunter.model.partition import BrokerId, Replicas


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
    CORDON = "cordon"
    """A broker's cordon has to be lifted."""
    DISK = "disk"
    """A broker's disks have to get room."""
    ROOM = "room"
    """The executor has to see how much room there is, and how much is to be copied."""
    THROTTLE = "throttle"
    """Somebody's throttle has to be lifted."""
    WINDOW = "window"
    """The time window has to open."""


ENDLESS = frozenset({WaitKind.BROKERS, WaitKind.CORDON, WaitKind.DISK, WaitKind.THROTTLE, WaitKind.WINDOW})
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


def told_closed(after: Replicas, closed: frozenset[BrokerId]) -> Wait | None:
    """The wait of a step to `after` for closed brokers (`ExecutorState.closed`); None: it names none."""
    shut = [str(broker) for broker in after if broker in closed]
    if not shut:
        return None
    which = f"broker {shut[0]} is" if len(shut) == 1 else f"brokers {', '.join(shut)} are"
    return Wait(WaitKind.CORDON, f"waits: {which} cordoned, and Kafka takes no target that names such a broker")


NO_WAIT = Wait(WaitKind.NOTHING, "")
DOUBTED = Wait(WaitKind.OURSELVES, "waits for a look at it: its step no longer runs, and its end is not seen")
OVER = Wait(WaitKind.OURSELVES, "waits for a look at it: its step is over in the cluster")
