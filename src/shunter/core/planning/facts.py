"""What is known of the world when a plan is made: who may receive replicas, who can lead, which replicas are in sync.

Every scope reads these and nothing else. A fact that is not known speaks neither for a broker nor against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from shunter.core.planning.cluster import ABSENT, UNKNOWN, ClusterLoad, Codes, Flags, Floats, Indexes
from shunter.core.planning.request import BALANCING, EMPTYING, KEEPING, ORDER_ALONE, Scope
from shunter.model.room import Room, free_bytes, room_of


class Fitness(IntEnum):
    """How a replica stands. A cut drops the lowest first; from UNKNOWN on a replica may be put first."""

    OFFLINE = 0
    """Its broker is dead or fenced, or its log dir failed."""
    BEHIND = 1
    """It is out of sync."""
    UNKNOWN = 2
    IN_SYNC = 3


LEADS_FROM = int(Fitness.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A kind of replica beside which its partition changes little, unless all replicas of that kind leave it."""

    replica: str
    """What such a replica is, to be read after "a partition has" ..."""
    replicas: str
    """... and after "partitions have"."""
    why: str
    order: bool
    """Whether the order alone can't change either."""
    left_by: tuple[Scope, ...]
    """Scopes that leave the partition alone from the start, as they take no such replica away ..."""
    taken_by: tuple[Scope, ...] = ()
    """... but these, which may take away the only one."""


OFFLINE = Obstacle(
    "an offline replica", "offline replicas", "no plan takes a live one away instead", order=False, left_by=KEEPING
)
"""Controllers before Kafka 4.3 end a step only when its whole target is in sync, so no copy beside it would end. Newer
ones end a step that does not make the set smaller: see `why_endless`."""
CORDONED = Obstacle(
    "a replica on a cordoned broker",
    "replicas on cordoned brokers",
    "Kafka takes no assignment that names one",
    order=True,
    left_by=(*KEEPING, *ORDER_ALONE),
    taken_by=EMPTYING,
)
"""All log dirs of the broker are cordoned. Kafka refuses its replicas even where they are already (KAFKA-20832: in 4.4.0
and on the branch of 4.3 after 4.3.1, which brokers can't tell from it)."""
OBSTACLES = (OFFLINE, CORDONED)
HELD = Obstacle(
    "a replica that somebody's throttle holds",
    "replicas that somebody's throttle holds",
    "acks=all would wait for it at a new leader epoch, until it is out of the isr",
    order=True,
    left_by=BALANCING,
)
"""A balance can wait until the throttle is lifted. Every other scope changes such partitions, and plans say what it costs."""
LIFT_FIRST = "; lift that throttle first (`shunter throttles clear`)"


def fitness_of(cluster: ClusterLoad) -> Codes:
    """(P, W) the `Fitness` of each replica; UNKNOWN where there is none."""
    replicas = cluster.replicas
    found: Codes = np.full(replicas.shape, Fitness.UNKNOWN, np.int8)
    if cluster.isr is not None:
        told = (cluster.isr[:, 0] != UNKNOWN)[:, None] & (replicas != ABSENT)
        found[told] = Fitness.BEHIND
        found[told & _among(replicas, cluster.isr)] = Fitness.IN_SYNC
    if cluster.offline is not None:
        found[_among(replicas, cluster.offline)] = Fitness.OFFLINE
    down = np.array([bool(each.down) for each in cluster.facts], np.bool_)
    if down.any():
        found[down[replicas] & (replicas != ABSENT)] = Fitness.OFFLINE
    return found


def _among(replicas: Indexes, others: Indexes) -> Flags:
    """(P, W) whether a replica is among the brokers in its row of another table."""
    found = np.zeros(replicas.shape, np.bool_)
    for slot in range(others.shape[1]):
        found |= replicas == others[:, slot : slot + 1]
    return np.asarray(found & (replicas != ABSENT))


def barred(cluster: ClusterLoad) -> dict[int, str]:
    """Brokers that may receive no replica, by index, and why: dead, fenced, cordoned, or with a failed log dir."""
    found = {at: each.barred for at, each in enumerate(cluster.facts) if each.barred}
    if cluster.offline is not None:
        lost = np.where(_among(cluster.replicas, cluster.offline), cluster.replicas, ABSENT)
        for at in np.flatnonzero(np.bincount(lost.ravel() + 1, minlength=len(cluster.brokers) + 1)[1:]).tolist():
            found.setdefault(at, "has offline replicas: a log dir of it failed")
    return found


def slow(cluster: ClusterLoad) -> Flags:
    """(B,) whether somebody's throttle holds a broker to less than is of use."""
    return np.array([each.slow for each in cluster.facts] or [False] * len(cluster.brokers), np.bool_)


def closed(cluster: ClusterLoad) -> Flags:
    """(B,) whether all log dirs of a broker are cordoned."""
    return np.array([each.closed for each in cluster.facts] or [False] * len(cluster.brokers), np.bool_)


def rooms(cluster: ClusterLoad, headroom: float) -> list[Room | None]:
    """(B,) the room on each broker's disks, in the unit of sizes; None: unknown. A scope's arrivals have to fit in."""
    replicas = float(cluster.replication.sum())
    mean = float((cluster.sizes * cluster.replication).sum()) / replicas if replicas else 0.0
    found = [None if each.log_dirs is None else room_of(each.log_dirs, headroom, mean) for each in cluster.facts]
    return found or [None] * len(cluster.brokers)


def spare(cluster: ClusterLoad, headroom: float) -> Floats:
    """(B,) what all disks of a broker can take together while `headroom` stays free; NaN: unknown."""
    found = np.full(len(cluster.brokers), np.nan)
    for at, each in enumerate(cluster.facts):
        free = [free_bytes(log_dir, headroom) for log_dir in each.log_dirs or ()]
        if free and None not in free:
            found[at] = sum(room for room in free if room is not None)
    return found


def led_by_the_able(replicas: Indexes, fitness: Codes) -> tuple[Indexes, Codes]:
    """Put the replica first that would lead after a restart: the first one that can, in the order that there is.

    The order behind it stays. Rows in which no replica can lead stay as they are.
    """
    wrong = np.flatnonzero((fitness[:, 0] < LEADS_FROM) & ((fitness >= LEADS_FROM) & (replicas != ABSENT)).any(axis=1))
    if not len(wrong):
        return replicas, fitness
    replicas, fitness = replicas.copy(), fitness.copy()
    able = (fitness[wrong] >= LEADS_FROM) & (replicas[wrong] != ABSENT)
    first = able.argmax(axis=1)
    for row, slot in zip(wrong.tolist(), first.tolist(), strict=True):
        for table in (replicas, fitness):
            table[row, : slot + 1] = np.roll(table[row, : slot + 1], 1)
    return replicas, fitness


def slow_come_last(before: Indexes, after: Indexes, late: Flags, *, first_stays: bool) -> Indexes:
    """Let new replicas on slow brokers come after the other new ones, which are in sync long before: steps go by order.

    Args:
        before: (P, W) replicas, as broker indexes.
        after: (P, W) those at the end.
        late: (B,) the slow brokers.
        first_stays: Whether the first replica keeps its place, because leaders were balanced by it.
    """
    comes = (after != ABSENT) & ~_among(after, before)
    comes[:, 0] &= not first_stays
    held = late[after] & comes
    rows = np.flatnonzero(held.any(axis=1) & (comes & ~held).any(axis=1))
    ordered = after.copy() if len(rows) else after
    for row in rows.tolist():
        slots = np.flatnonzero(comes[row])
        ordered[row, slots] = after[row, slots[np.argsort(held[row, slots], kind="stable")]]
    return ordered


def beside_throttled(cluster: ClusterLoad, late: Flags) -> Flags:
    """(P,) whether a partition has a replica that a slow broker's throttle may hold; `late`: (B,) these brokers.

    Who leads now does not matter: a balance may change that.
    """
    slots = (cluster.replicas != ABSENT) & late[cluster.replicas]
    found: Flags = np.asarray(slots.any(axis=1))
    for row in np.flatnonzero(found).tolist():
        found[row] = any(may_hold(cluster, int(at), row) for at in cluster.replicas[row, slots[row]])
    return found


def may_hold(cluster: ClusterLoad, broker: int, partition: int) -> bool:
    """Whether the throttle of a broker (an index) may hold it as a follower of a partition (a row)."""
    return cluster.facts[broker].holds(
        cluster.topics[int(cluster.topic_of[partition])], int(cluster.numbers[partition])
    )


def ill_ones(replicas: Indexes, fitness: Codes) -> dict[tuple[int, int], int]:
    """The fitness of each replica that can't lead, by partition and broker."""
    rows, slots = np.nonzero((fitness < LEADS_FROM) & (replicas != ABSENT))
    keys = zip(rows.tolist(), replicas[rows, slots].tolist(), strict=True)
    return dict(zip(keys, fitness[rows, slots].tolist(), strict=True))


def without_data(replicas: Indexes, fitness: Codes) -> Flags:
    """(P,) whether no live replica in sync has a partition's data: then nothing of it can be copied or led."""
    return np.asarray(~((fitness >= LEADS_FROM) & (replicas != ABSENT)).any(axis=1))


def why_endless(gone: Codes, came: int, needs_all: bool | None) -> str:
    """Why a change of a partition that keeps an offline replica is not planned; "": it ends, and takes no live one away.

    Replicas come one by one, and the last of them takes the place of the only one that goes, so no step makes the set
    smaller. If two go, a step does.

    Args:
        gone: The `Fitness` of each replica that goes.
        came: How many replicas come.
        needs_all: See `ClusterLoad.needs_all`.
    """
    if (gone != Fitness.OFFLINE).any():
        return OFFLINE.why
    if len(gone) > min(came, 1):
        return "Kafka ends no step beside one that makes the set smaller"
    old = "controllers before Kafka 4.3 end no copy beside one"
    return "" if needs_all is False else f"{old}, as this one" if needs_all else f"{old}; this one may be older"


def in_the_way(kind: Obstacle, replicas: Indexes, fitness: Codes, shut: Flags) -> Flags:
    """(P, W) the replicas that are an obstacle of one kind; `shut` is (B,) the brokers that are `closed`."""
    found = fitness == Fitness.OFFLINE if kind is OFFLINE else shut[replicas]
    return np.asarray(found & (replicas != ABSENT))


__all__ = [
    "CORDONED",
    "HELD",
    "LEADS_FROM",
    "LIFT_FIRST",
    "OBSTACLES",
    "OFFLINE",
    "Fitness",
    "Obstacle",
    "barred",
    "beside_throttled",
    "closed",
    "fitness_of",
    "ill_ones",
    "in_the_way",
    "led_by_the_able",
    "may_hold",
    "rooms",
    "slow",
    "spare",
    "why_endless",
    "without_data",
]
