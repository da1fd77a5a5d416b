"""The room on a broker's log dirs: one rule for the planner, the service, the pipeline and the executor.

What counts is what is free, whoever uses the rest, less a headroom. On a broker with several log dirs Kafka puts a new
replica into the one with the fewest replicas, however full it is. So the broker's room ends when that one is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shunter.model.inventory import Disk


class Room(NamedTuple):
    """The bytes that may still come to a broker, in all and by a single replica. Negative: too much is there already."""

    whole: float
    largest: float


def free_bytes(log_dir: Disk, headroom: float) -> float | None:
    """What a log dir can take while `headroom`, a share of its size, stays free; None: the broker does not say."""
    if not log_dir.total_bytes or log_dir.usable_bytes is None:
        return None
    return log_dir.usable_bytes - headroom * log_dir.total_bytes


def open_log_dirs(log_dirs: Sequence[Disk]) -> tuple[Disk, ...]:
    """The log dirs that may get new replicas: those that neither failed nor are cordoned."""
    return tuple(each for each in log_dirs if not each.failed and not each.cordoned)


def next_log_dirs(log_dirs: Sequence[Disk]) -> tuple[Disk, ...]:
    """The log dirs of which a broker chooses one for its next replica: those with the fewest replicas, as Kafka does.

    If the number of replicas is not known for each of them, it may be any.
    """
    able = open_log_dirs(log_dirs)
    counts = [each.replicas for each in able if each.replicas is not None]
    return able if len(counts) < len(able) else tuple(each for each in able if each.replicas == min(counts))


def room_of(log_dirs: Sequence[Disk], headroom: float, replica_bytes: float) -> Room | None:
    """The room of a broker for many replicas that come one after another; None: unknown, or no log dir may get any.

    Args:
        log_dirs: All its log dirs.
        headroom: The share of each log dir that stays free.
        replica_bytes: The mean size of the replicas that may come.
    """
    able = open_log_dirs(log_dirs)
    rooms = [room for each in able if (room := free_bytes(each, headroom)) is not None]
    if not able or len(rooms) < len(able):
        return None
    if len(able) == 1:
        return Room(rooms[0], rooms[0])
    counts = [each.replicas for each in able if each.replicas is not None]
    anywhere = min(rooms)
    if len(counts) < len(able) or replica_bytes <= 0:
        return Room(anywhere, anywhere)
    # Replicas come to the log dirs with the fewest, until all have equally many. The first log dir that has no room
    # for its next one ends that.
    level = min(count + max(room, 0.0) // replica_bytes for count, room in zip(counts, rooms, strict=True))
    whole = replica_bytes * sum(max(0.0, level - count) for count in counts)
    reached = [room for count, room in zip(counts, rooms, strict=True) if count < level or count == min(counts)]
    return Room(min(max(whole, anywhere), sum(rooms)), min(reached))
