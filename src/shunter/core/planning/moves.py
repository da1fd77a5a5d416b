"""A plan: the final place of every replica, the copies that this takes, and what could not be done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from shunter.core.planning.aims import Targets
from shunter.core.planning.cluster import ABSENT, ClusterLoad, Codes, Floats, Indexes, Ints, Resource, distinct
from shunter.core.planning.request import PlanRequest


class Undone(NamedTuple):
    """Something that was asked for and that the plan doesn't reach: what it is, and why not."""

    what: str
    why: str


class Assigned(NamedTuple):
    """A partition that a plan changes: its broker ids in order, as they shall be and as they are."""

    topic: str
    partition: int
    replicas: list[int]
    original: list[int]


@dataclass(frozen=True, slots=True)
class ReplicaCopies:
    """One row per replica that gets copied; M rows, by partition, then place in the new order."""

    partition: Ints
    """(M,) index into the cluster's partitions."""
    source: Ints
    """(M,) index of the broker whose replica it takes the place of, ABSENT when a replica is added."""
    target: Ints
    """(M,) index of the broker that gets the replica."""
    size: Floats
    """(M,) in the unit of the cluster's sizes."""
    why: Ints
    """(M,) a `Why`."""
    resource: Ints
    """(M,) the `Resource` that the copy is for, -1 if there is none."""

    def __len__(self) -> int:
        return len(self.partition)


@dataclass(frozen=True, slots=True)
class BalancedPlan:
    """The result of `plan`. Arrays follow the cluster's order; loads are in the resources' own units."""

    cluster: ClusterLoad
    request: PlanRequest
    targets: Targets
    replicas: Indexes
    """(P, W) as `ClusterLoad.replicas`, W grown if the replication factor did."""
    changed: Ints
    """Indexes of the partitions whose replicas or order change, ascending."""
    elected: Ints
    """Indexes of the partitions whose first replica is to be elected leader at the end, ascending."""
    moves: ReplicaCopies
    dropped: int
    """Replicas that are dropped without a new one in their place."""
    before: Floats
    """(B, K) loads, K being `targets.resources`."""
    after: Floats
    undone: tuple[Undone, ...]
    notes: tuple[str, ...] = ()
    """What the plan had to do without knowing, a sentence each."""

    @property
    def total_bytes(self) -> float:
        """The size of all present replicas, in the unit of the cluster's sizes."""
        return float((self.cluster.sizes * self.cluster.replication).sum())

    @property
    def bytes_moved(self) -> float:
        """The size of all copies."""
        return float(self.moves.size.sum())

    @property
    def leader_changes(self) -> int:
        """Partitions whose preferred leader changes."""
        return int((self.cluster.replicas[:, 0] != self.replicas[:, 0]).sum())

    @property
    def order_only(self) -> int:
        """Partitions whose order changes and whose replicas don't."""
        return len(self.changed) - len(distinct(self.moves.partition)) - self._only_dropped()

    def _only_dropped(self) -> int:
        fewer = (self.replicas != ABSENT).sum(axis=1) < self.cluster.replication
        fewer[self.moves.partition] = False
        return int(fewer.sum())

    def share(self, loads: Floats, resource: Resource) -> Floats:
        """(B,) a resource's loads as shares of the mean of the brokers that take part."""
        column = self.targets.resources.index(resource)
        return np.asarray(loads[:, column] / self.targets.scale[column])

    def assignments(self) -> list[Assigned]:
        """The partitions that change or are only to have another leader, in the order of topic and partition."""
        rows = distinct(np.concatenate([self.changed, self.elected]))
        topics = [self.cluster.topics[topic] for topic in self.cluster.topic_of[rows].tolist()]
        numbers: list[int] = self.cluster.numbers[rows].tolist()
        targets, originals = self._broker_ids(self.replicas, rows), self._broker_ids(self.cluster.replicas, rows)
        return sorted(map(Assigned, topics, numbers, targets, originals))

    def thinned(self) -> Ints:
        """Partitions that end with fewer replicas than they have."""
        return np.flatnonzero((self.replicas != ABSENT).sum(axis=1) < self.cluster.replication)

    def beside_down(self) -> tuple[list[int], list[str]]:
        """Brokers that are dead or fenced and stay in the replicas of partitions that change, and these partitions' names."""
        rows = distinct(np.concatenate([self.changed, self.elected]))
        down = np.array(
            [bool(each.down) for each in self.cluster.facts] or [False] * len(self.cluster.brokers), np.bool_
        )
        kept = down[self.replicas[rows]] & (self.replicas[rows] != ABSENT)
        brokers = distinct(self.replicas[rows][kept]).tolist()
        names = [self.cluster.partition_name(at) for at in rows[kept.any(axis=1)].tolist()]
        return [self.cluster.brokers[at] for at in brokers], names

    def elections(self) -> frozenset[tuple[str, int]]:
        """The partitions, by topic and number, whose first replica is to be elected leader at the end."""
        topics = self.cluster.topic_of[self.elected].tolist()
        numbers: list[int] = self.cluster.numbers[self.elected].tolist()
        return frozenset(zip((self.cluster.topics[topic] for topic in topics), numbers, strict=True))

    def _broker_ids(self, replicas: Indexes, partitions: Ints) -> Iterator[list[int]]:
        """Some partitions' rows of a (P, W) table, as broker ids in order."""
        ids = self.cluster.brokers
        rows: list[list[int]] = replicas[partitions].tolist()
        return ([ids[broker] for broker in row if broker != ABSENT] for row in rows)


def percent_of(size: float, total: float) -> float:
    """A share of all bytes. Where no size is known, nothing is copied: 0."""
    return 100 * size / total if total > 0 else 0.0


Cell = TypeVar("Cell", bound=np.integer[Any])


def widened(table: npt.NDArray[Cell], width: int, padding: int = ABSENT) -> npt.NDArray[Cell]:
    """Pad rows up to a width."""
    missing = width - table.shape[1]
    return table if missing <= 0 else np.pad(table, ((0, 0), (0, missing)), constant_values=padding)


def difference(old: Indexes, new: Indexes, sizes: Floats, why: Codes, resource: Codes) -> tuple[ReplicaCopies, int]:
    """Find the copies that lead from one assignment to another, and the number of replicas that are only dropped.

    The k-th broker that is new to a partition is paired with the k-th that leaves it. A change of order costs nothing.

    All but `sizes` are (P, W): `old` as wide as `new`, `why` and `resource` by the slots of `new`.
    """
    fresh = (new != ABSENT) & ~(new[:, :, None] == old[:, None, :]).any(axis=2)
    gone = (old != ABSENT) & ~(old[:, :, None] == new[:, None, :]).any(axis=2)
    gone_rows, gone_slots = np.nonzero(gone)
    sources = np.full(old.shape, ABSENT, dtype=np.int64)
    sources[gone_rows, np.cumsum(gone, axis=1)[gone_rows, gone_slots] - 1] = old[gone_rows, gone_slots]
    rows, slots = np.nonzero(fresh)
    moves = ReplicaCopies(
        partition=rows,
        source=sources[rows, np.cumsum(fresh, axis=1)[rows, slots] - 1],
        target=new[rows, slots].astype(np.int64),
        size=sizes[rows],
        why=why[rows, slots].astype(np.int64),
        resource=resource[rows, slots].astype(np.int64),
    )
    return moves, int(np.maximum(gone.sum(axis=1) - fresh.sum(axis=1), 0).sum())
