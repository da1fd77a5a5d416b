"""The board on which a plan is made: replicas as they would be, loads that follow each change, and the caps.

This is the only mutable object of planning. Loads are in shares of the mean, as in `Targets`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from shunter.core.planning.aims import Targets
from shunter.core.planning.cluster import (
    ABSENT,
    ClusterLoad,
    Codes,
    Flags,
    Floats,
    Indexes,
    Ints,
    Resource,
    broker_loads,
)
from shunter.core.planning.facts import (
    CORDONED,
    LEADS_FROM,
    OFFLINE,
    Fitness,
    Obstacle,
    in_the_way,
    why_endless,
)

_LEAN = 1e-3
"""The weight of a broker's distance from its share, beside the weight of being outside the band."""


class Why(IntEnum):
    """Why a replica was moved or a partition's order changed."""

    UNCHANGED = 0
    DRAINED = 1
    RACKS = 2
    REPLICATION = 3
    OVER = 4
    UNDER = 5
    SWAPPED = 6
    TOPIC = 7
    REPLACED = 8
    OFFLINE = 9
    WANTED = 10


class Budget:
    """The rest of the caps; infinite where there is no cap. `size` is in the unit of the cluster's sizes."""

    def __init__(self, size: float, moves: float) -> None:
        self.size = size
        self.moves = moves

    def allows(self, size: float, moves: int = 1) -> bool:
        """Whether this much can be spent."""
        return size <= self.size and moves <= self.moves

    def spend(self, size: float, moves: int = 1) -> None:
        """Spend this much."""
        self.size -= size
        self.moves -= moves


class Board:
    """Replicas under change. `loads`, `incoming` and `violation` always agree with `replicas`.

    Invariants: no row repeats a broker; a move never raises `incoming` above `targets.hard`. `incoming` equals `loads`,
    except for disks: there it is the greatest load during the moves, with all replicas that come and all that leave.
    """

    def __init__(
        self, cluster: ClusterLoad, targets: Targets, replicas: Indexes, fitness: Codes, budget: Budget
    ) -> None:
        self.cluster = cluster
        self.targets = targets
        self.budget = budget
        self.replicas = replicas.copy()
        self.start = replicas
        self.origin = replicas
        """The cluster's own replicas: a copy is paid for against these, also in later passes."""
        self.fitness = fitness.copy()
        """(P, W) the `Fitness` of each replica; a replica that comes will be in sync."""
        self.began = fitness
        self.all_able = bool((fitness >= LEADS_FROM).all())
        """Whether nothing is known against any replica's leading."""
        self.why: Codes = np.zeros(replicas.shape, dtype=np.int8)
        self.why_resource: Codes = np.full(replicas.shape, -1, dtype=np.int8)
        self.why_order: Codes = np.full(len(replicas), -1, dtype=np.int8)
        self.factors: list[int] = (replicas != ABSENT).sum(axis=1).tolist()
        self.movable: list[bool] = targets.movable.tolist()
        self.shut = np.where(targets.receivers, 0.0, -np.inf)
        self.some_slow = bool(targets.slow.any())
        self.limited = bool(np.isfinite(targets.hard).any()) or bool(np.isfinite(targets.largest).any())
        self.kept = np.array([float(resource is Resource.DISK) for resource in targets.resources])
        self.smallest = float(cluster.sizes[targets.movable].min(initial=np.inf))
        self.topic_held = self._count_topics()
        self.loads = np.zeros(targets.low.shape)
        self.incoming = np.zeros(targets.low.shape)
        self.violation = np.zeros(len(targets.low))
        self.rebuild()

    def _count_topics(self) -> Ints | None:
        """(topics, B) replicas of each topic on each broker; None if the table would be too large to keep."""
        topics, brokers = len(self.cluster.topics), len(self.cluster.brokers)
        if topics * brokers > 50_000_000:
            return None
        slots = self.replicas != ABSENT
        keys = (self.cluster.topic_of.astype(np.int64)[:, None] * brokers + self.replicas)[slots]
        return np.bincount(keys, minlength=topics * brokers).reshape(topics, brokers)

    def rebuild(self) -> None:
        """Add everything up anew from `replicas`; replicas that arrived or leave stay in `incoming`."""
        targets = self.targets
        brokers = len(targets.low)
        self.loads = broker_loads(self.replicas, brokers, targets.every, targets.leading)
        before = broker_loads(self.start, brokers, targets.every, targets.leading)
        fresh = self.replicas.copy()
        for slot in range(self.start.shape[1]):
            fresh[(self.replicas == self.start[:, slot : slot + 1]) & (self.replicas != ABSENT)] = ABSENT
        arrived = broker_loads(fresh, brokers, targets.every, targets.leading)
        # A disk keeps leaving replicas until everything is copied. Other loads go with the replica.
        self.incoming = np.where(self.kept > 0, before + arrived, self.loads)
        self.violation = self.violations() @ targets.weight

    def violations(self) -> Floats:
        """(B, K) how far outside its band each load is, 0 inside."""
        return np.maximum(self.loads - self.targets.high, 0) + np.maximum(self.targets.low - self.loads, 0)

    def total_violation(self) -> float:
        """The sum that every accepted change lowers."""
        return float(self.violation.sum())

    def held_by(self, broker: int) -> tuple[Ints, Ints]:
        """Partitions and slots of the replicas on a broker that may move while all others of their partitions stay."""
        partitions, slots = np.nonzero(self.replicas == broker)
        kept = self.targets.movable[partitions]
        if self.targets.closed.any():
            others = self.in_the_way(CORDONED, partitions).sum(axis=1) - self.targets.closed[broker]
            kept &= others == 0
        return partitions[kept], slots[kept]

    def weight_of(self, partition: int, slot: int) -> Floats:
        """(K,) the load that this replica adds to its broker."""
        targets = self.targets
        weight: Floats = targets.every[partition]
        return weight + targets.leading[partition] if slot == 0 else weight

    def weights_of(self, partitions: Ints, slots: Ints) -> Floats:
        """(n, K) the loads that these replicas add to their brokers."""
        targets = self.targets
        return targets.every[partitions] + np.where((slots == 0)[:, None], targets.leading[partitions], 0)

    def openings(self, partition: int, slot: int) -> Floats:
        """(B,) 0 where this replica may go by racks and scope, -inf elsewhere, its own broker included."""
        here, others = self._here_and_others(partition, slot)
        rules = self.targets.rules
        current = int(rules.rack_of[here]) if here != ABSENT else -1
        opened = rules.openings(others, self.factors[partition], current) + self.shut
        for broker in (*others, *(broker for broker in self.ill_at(partition) if broker != here)):
            opened[broker] = -np.inf
        # Where the racks leave it no place but its own, it stays.
        if self.targets.barred and not np.isfinite(opened).any():
            return self._open_beside_barred(partition, others, opened)
        if here != ABSENT:
            opened[here] = -np.inf
        return opened

    def _here_and_others(self, partition: int, slot: int) -> tuple[int, list[int]]:
        """The broker of a replica, and those of the partition's other replicas."""
        row: list[int] = self.replicas[partition].tolist()
        return row[slot], [broker for place, broker in enumerate(row) if place != slot and broker != ABSENT]

    def ill_at(self, partition: int) -> list[int]:
        """Brokers whose replica of a partition can't lead now. To bring another replica there would mean to rely on it."""
        if not self.targets.ill:
            return []
        row: list[int] = self.cluster.replicas[partition].tolist()
        return [broker for broker in row if (partition, broker) in self.targets.ill]

    def _open_beside_barred(self, partition: int, others: list[int], opened: Floats) -> Floats:
        """Open the racks with the fewest of a partition's replicas, if one of them is on a broker that gets nothing.

        The rack rule does not count such a broker, so it may find its rack full, or no rack at all.
        """
        row: list[int] = self.replicas[partition].tolist()
        if not any(broker in self.targets.barred for broker in row):
            return opened
        rules = self.targets.rules
        free = self.shut.copy()
        free[[broker for broker in (*row, *self.ill_at(partition)) if broker != ABSENT]] = -np.inf
        held = np.bincount(rules.rack_of[others], minlength=len(rules.sizes))[rules.rack_of]
        least = held[np.isfinite(free)].min(initial=len(row))
        return np.where(held == least, free, -np.inf)

    def gains(self, added: Floats, opened: Floats) -> Floats:
        """(B,) by how much a broker's violation falls if `added` arrives there; -inf if it may not."""
        targets = self.targets
        after = self.loads + added
        outside = np.maximum(after - targets.high, 0)
        np.maximum(outside, targets.low - after, out=outside)
        gain = self.violation - outside @ targets.weight + opened
        gain += _LEAN * ((targets.share - self.loads) @ (added * targets.weight))
        if self.limited:
            gain[self.too_much(added)] = -np.inf
        return gain

    def best(self, scores: Floats) -> int:
        """The broker with the highest score (-inf: it may not be). A slow one comes after all others."""
        if self.some_slow:
            others = np.where(self.targets.slow, -np.inf, scores)
            scores = others if np.isfinite(others).any() else scores
        return int(scores.argmax())

    def too_much(self, added: Floats) -> Flags:
        """(B,) brokers where `added` would exceed a hard limit."""
        over = ((self.incoming + added > self.targets.hard + 1e-12) & (added > 0)).any(axis=1)
        disk = float(added[0])
        return np.asarray(over | (self.targets.largest < disk - 1e-12)) if disk > 0 else np.asarray(over)

    def may_lead(self, partition: int, slot: int) -> bool:
        """Whether nothing is known against a replica's leading: its broker is up, and it is in sync."""
        return self.all_able or bool(self.fitness[partition, slot] >= LEADS_FROM)

    def fitness_at(self, partition: int, broker: int) -> int:
        """The fitness that a replica has on a broker: a new one will be in sync, one that was there is as it is."""
        return self.targets.ill.get((partition, broker), int(Fitness.IN_SYNC))

    def reorder(self, partition: int, row: list[int]) -> None:
        """Put a partition's replicas into another order; afterwards `rebuild` adds the loads up."""
        now: list[int] = self.replicas[partition].tolist()
        slots = [now.index(broker) for broker in row]
        self.fitness[partition, : len(row)] = self.fitness[partition, slots]
        self.replicas[partition, : len(row)] = row
        self.why_order[partition] = int(Resource.LEADERS)

    def spent(self) -> bool:
        """Whether the caps no longer allow even the smallest replica."""
        return not self.budget.allows(self.smallest)

    def pay(self, partition: int, here: int, to: int) -> None:
        """Pay for a replica's copy to a broker; what a plan moves on, or back, has its former copy refunded."""
        origin: list[int] = self.origin[partition].tolist()
        copies = int(to not in origin) - int(here != ABSENT and here not in origin)
        self.budget.spend(copies * float(self.cluster.sizes[partition]), copies)

    def costs(self, partitions: Ints, slots: Ints) -> Flags:
        """(n,) whether a move of these replicas costs a copy. It costs none where they are only copied elsewhere."""
        here = self.replicas[partitions, slots]
        return np.asarray((self.origin[partitions] == here[:, None]).any(axis=1) | (here == ABSENT))

    def affords(self, partitions: Ints, slots: Ints) -> Flags:
        """(n,) which of these replicas the caps allow to move, each of them alone."""
        fits = (self.cluster.sizes[partitions] <= self.budget.size) & (self.budget.moves >= 1)
        return fits if fits.all() else fits | ~self.costs(partitions, slots)

    def affords_one(self, partition: int, slot: int) -> bool:
        """Whether the caps allow a replica to move."""
        return bool(self.affords(np.array([partition]), np.array([slot]))[0])

    def may_go(self, partitions: Ints, slots: Ints, to: int) -> Flags:
        """Which of these replicas may go to one broker, by racks and scope; `openings` for many at once."""
        rows = self.replicas[partitions]
        mine = np.arange(rows.shape[1])[None, :] == slots[:, None]
        others = (rows != ABSENT) & ~mine
        fits = ~((rows == to).any(axis=1)) & bool(np.isfinite(self.shut[to]))
        if self.targets.ill:
            fits &= np.array([(partition, to) not in self.targets.ill for partition in partitions.tolist()], np.bool_)
        rules = self.targets.rules
        simple = np.array([rules.ceiling(self.factors[p]) == 1 for p in partitions.tolist()], dtype=np.bool_)
        shared = ((rules.rack_of[rows] == rules.rack_of[to]) & others).any(axis=1)
        fits &= ~(simple & shared)
        for at in np.flatnonzero(fits & ~simple).tolist():
            fits[at] = self.openings(int(partitions[at]), int(slots[at]))[to] == 0
        return np.asarray(fits)

    def loss(self, broker: int, removed: Floats) -> float:
        """By how much a broker's violation falls when `removed` leaves it (negative: rises)."""
        targets = self.targets
        lean = _LEAN * float((self.loads[broker] - targets.share[broker]) @ (removed * targets.weight))
        return float(self.fall(broker, -removed)) + (lean if targets.members[broker] else 0.0)

    def fall(self, broker: int, changes: Floats) -> Floats:
        """By how much a broker's violation falls when its loads (..., K) change; nothing else is weighed."""
        return np.asarray(self.violation[broker] - self.violation_with(broker, self.loads[broker] + changes))

    def violation_with(self, broker: int, loads: Floats) -> Floats:
        """The violation of a broker with other loads (..., K)."""
        targets = self.targets
        outside = np.maximum(np.maximum(loads - targets.high[broker], targets.low[broker] - loads), 0)
        return np.asarray(outside @ targets.weight)

    def go_home(self, partition: int, slot: int, home: int) -> bool:
        """Put a replica back where the cluster has it, if racks and hard limits allow."""
        here, others = self._here_and_others(partition, slot)
        weight = self.weight_of(partition, slot)
        rules = self.targets.rules
        opened = rules.openings(others, self.factors[partition], int(rules.rack_of[here]))
        # The disk has held the replica all along, so only other loads are added.
        added = weight * (1 - self.kept)
        if home in others or opened[home] != 0 or (self.limited and bool(self.too_much(added)[home])):
            return False
        self.move(partition, slot, home, Why.UNCHANGED)
        self.incoming[[home, here]] -= weight * self.kept
        return True

    def move(self, partition: int, slot: int, to: int, why: Why, resource: Resource | None = None) -> None:
        """Put a replica on another broker (or on a first one, if the slot was empty), and pay for its copy."""
        here = int(self.replicas[partition, slot])
        weight = self.weight_of(partition, slot)
        self.pay(partition, here, to)
        self.replicas[partition, slot] = to
        self.why[partition, slot] = why
        self.why_resource[partition, slot] = -1 if resource is None else int(resource)
        self.fitness[partition, slot] = self.fitness_at(partition, to)
        self._change(to, weight, arrives=True)
        topic = int(self.cluster.topic_of[partition])
        if self.topic_held is not None:
            self.topic_held[topic, to] += 1
        if here != ABSENT:
            self._change(here, -weight, arrives=False)
            if self.topic_held is not None:
                self.topic_held[topic, here] -= 1

    def drop(self, partition: int, slot: int) -> None:
        """Remove a follower from its partition; the followers behind it move up."""
        here = int(self.replicas[partition, slot])
        self._change(here, -self.weight_of(partition, slot), arrives=False)
        for row, padding in ((self.replicas[partition], ABSENT), (self.fitness[partition], int(Fitness.UNKNOWN))):
            row[slot:-1] = row[slot + 1 :].copy()
            row[-1] = padding
        self.factors[partition] -= 1
        if self.topic_held is not None:
            self.topic_held[int(self.cluster.topic_of[partition]), here] -= 1

    def beside(self, kind: Obstacle) -> dict[str, Ints]:
        """Partitions that change although they keep a replica which is such an obstacle, by why that can't be."""
        was, now = self.start, self.replicas
        if not kind.order:
            was, now = np.sort(was, axis=1), np.sort(now, axis=1)
        rows = np.flatnonzero(self.in_the_way(kind, slice(None)).any(axis=1) & (was != now).any(axis=1))
        whys = np.array([self._why_not_beside(kind, at) for at in rows.tolist()], np.object_)
        return {why: rows[whys == why] for why in sorted(set(whys.tolist()) - {""})}

    def _why_not_beside(self, kind: Obstacle, at: int) -> str:
        if kind is not OFFLINE:
            return kind.why
        was, now = self.start[at], self.replicas[at]
        gone = self.began[at][(was != ABSENT) & ~np.isin(was, now)]
        return why_endless(gone, int(((now != ABSENT) & ~np.isin(now, was)).sum()), self.cluster.needs_all)

    def in_the_way(self, kind: Obstacle, partitions: Ints | slice) -> Flags:
        """(n, W) which replicas of these partitions are such an obstacle."""
        return in_the_way(kind, self.replicas[partitions], self.fitness[partitions], self.targets.closed)

    def put_back(self, partitions: Ints) -> None:
        """Put partitions back where they began, and refund their copies."""
        for at in partitions.tolist():
            came, stay = (int((~np.isin(row[at], self.origin[at])).sum()) for row in (self.replicas, self.start))
            self.budget.spend((stay - came) * float(self.cluster.sizes[at]), stay - came)
            self.replicas[at], self.fitness[at] = self.start[at], self.began[at]
            self.why[at], self.why_resource[at], self.why_order[at] = 0, -1, -1
            self.factors[at] = int((self.start[at] != ABSENT).sum())
        self.topic_held = self._count_topics()
        self.rebuild()

    def lead(self, partition: int, slot: int, resource: Resource) -> None:
        """Make the replica at `slot` the preferred leader; the former one takes its place in the order."""
        before, after = int(self.replicas[partition, 0]), int(self.replicas[partition, slot])
        self.lead_unweighed(partition, slot, resource)
        weight = self.targets.leading[partition]
        self._change(after, weight, arrives=True)
        self._change(before, -weight, arrives=False)

    def lead_unweighed(self, partition: int, slot: int, resource: Resource = Resource.LEADERS) -> None:
        """Do what `lead` does without updating the loads; after many calls, `rebuild` adds them up."""
        for table in (self.replicas, self.fitness, self.why, self.why_resource):
            table[partition, 0], table[partition, slot] = int(table[partition, slot]), int(table[partition, 0])
        self.why_order[partition] = int(resource)

    def _change(self, broker: int, weight: Floats, *, arrives: bool) -> None:
        self.loads[broker] += weight
        self.incoming[broker] += weight if arrives else weight * (1 - self.kept)
        self.violation[broker] = self.violation_with(broker, self.loads[broker])
