"""The least bytes that any plan must copy, so that a plan can say how far it is from the best.

`byte_bound` is arithmetic. `joint_bound` is a linear programme over disk, replicas and leaders together (HiGHS). It is
a relaxation, so that either bound may be the greater. It imports scipy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shunter.core.planning.aims import Targets
from shunter.core.planning.cluster import ABSENT, ClusterLoad, Floats, Indexes, Ints, Resource, broker_loads, distinct
from shunter.core.planning.request import KEEPING, PlanRequest, Scope

_CLASSES = 24
"""Size classes of the linear programme."""


class Bound(NamedTuple):
    """A lower bound on the bytes copied, in the unit of the cluster's sizes, and the reason for it."""

    size: float
    rests_on: str


def byte_bound(cluster: ClusterLoad, request: PlanRequest, goal: Targets) -> Bound:
    """Bound the bytes from disk alone, or from replica counts alone, whichever is more.

    The surplus of brokers above the band must leave them, and the lack of brokers below it must reach them. One copied
    byte does each of these at most once, so the bound is the larger of both sums. If each rack holds the same number of
    replicas of every partition, before and after, no byte crosses racks, and the bound is summed over racks.

    A broker above its count of replicas loses at least the surplus, at best its smallest replicas.
    """
    forced = _forced_bytes(cluster, request, goal)
    if request.scope not in KEEPING:
        return Bound(forced, f"what {request.scope.value} itself must copy")
    loads = _loads(cluster, goal)
    disk = goal.resources.index(Resource.DISK)
    found = Bound(forced, "partitions that share racks")
    if goal.weight[disk] > 0:
        group = goal.group if _pinned_partitions(cluster, goal).all() else np.zeros_like(goal.group)
        over = np.where(goal.members, np.maximum(loads[:, disk] - goal.high[:, disk], 0), 0)
        under = np.where(goal.receivers, np.maximum(goal.low[:, disk] - loads[:, disk], 0), 0)
        sums = np.maximum(np.bincount(group, weights=over), np.bincount(group, weights=under))
        found = max(found, Bound(float(sums.sum() * goal.scale[disk]), "disk"))
    return max(found, Bound(_count_bound(cluster, goal, loads), "replica counts"))


def _loads(cluster: ClusterLoad, goal: Targets) -> Floats:
    return broker_loads(cluster.replicas, len(cluster.brokers), goal.every, goal.leading)


def _forced_bytes(cluster: ClusterLoad, request: PlanRequest, goal: Targets) -> float:
    """Bytes that the scope copies whatever the balance: each replica that it must copy, once."""
    replicas, sizes = cluster.replicas, cluster.sizes
    if request.leaving:
        leaving = np.flatnonzero(np.isin(np.array(cluster.brokers), request.leaving))
        return float((np.isin(replicas, leaving).sum(axis=1) * sizes)[goal.movable].sum())
    if request.scope is Scope.CHANGE_REPLICATION:
        chosen = np.isin(np.array(cluster.topics), request.topics or cluster.topics)[cluster.topic_of] & goal.movable
        return float((np.maximum(request.replication - cluster.replication, 0) * sizes)[chosen].sum())
    if request.scope in {Scope.FIX_RACKS, Scope.REBALANCE}:
        return float(sizes[goal.rules.uneven(replicas) & goal.movable].sum())
    return 0.0


def _count_bound(cluster: ClusterLoad, goal: Targets, loads: Floats) -> float:
    column = goal.resources.index(Resource.REPLICAS)
    if goal.weight[column] == 0:
        return 0.0
    scale = goal.scale[column]
    over = np.where(goal.members, np.maximum(loads[:, column] - goal.high[:, column], 0), 0) * scale
    under = np.where(goal.receivers, np.maximum(goal.low[:, column] - loads[:, column], 0), 0) * scale
    leaving = 0.0
    for broker in np.flatnonzero(over > 1e-9).tolist():
        held = np.sort(cluster.sizes[(cluster.replicas == broker).any(axis=1)])
        leaving += float(held[: int(np.ceil(over[broker] - 1e-9))].sum())
    arriving = int(np.ceil(under - 1e-9).sum())
    every = np.sort(np.repeat(cluster.sizes, cluster.replication))
    return max(leaving, float(every[:arriving].sum()))


def joint_bound(cluster: ClusterLoad, goal: Targets) -> Bound:
    """Bound the bytes by a linear programme in which disk, replicas and leaders must all be within their bands.

    It holds for the scopes `BALANCING`.

    It is a relaxation. Replicas of a broker are put into size classes, and bound to their rack if each rack keeps its
    number of replicas of their partition. For each broker and class the programme chooses how many replicas leave and
    arrive, and how many bytes these have: anything between the class's smallest and largest size each, not only whole
    replicas. All that leaves brokers arrives at brokers. A broker leads no more partitions than it has replicas. Every
    real plan is a point of this programme with the same bytes, so the optimum is a lower bound for every plan.
    """
    from scipy.optimize import linprog  # noqa: PLC0415  # a second to import, and few callers need it

    table = _class_table(cluster, goal)
    model = _Programme(table, goal, _loads(cluster, goal), len(cluster.sizes))
    solved = linprog(
        model.cost, A_ub=model.upper(), b_ub=model.upper_limit, A_eq=model.equal(), b_eq=model.equal_value,
        bounds=np.stack([np.zeros(len(model.most)), model.most], axis=1), method="highs",
    )  # fmt: skip
    disk = goal.resources.index(Resource.DISK)
    if solved.status == 2:
        return Bound(float("inf"), "no plan reaches all bands together (linear programme without a solution)")
    return Bound(float(solved.fun) * goal.scale[disk], "disk, replicas and leaders together (linear programme)")


class _Table(NamedTuple):
    """One row per (broker, class, pinned to its rack or not) with replicas; sizes in shares of the mean."""

    broker: Ints
    kind: Ints
    """The class, plus the number of classes times (1 + rack) if it is bound to a rack."""
    number: Floats
    size: Floats
    smallest: Floats
    largest: Floats


def _class_table(cluster: ClusterLoad, goal: Targets) -> _Table:
    disk = goal.resources.index(Resource.DISK)
    sizes = goal.every[:, disk]
    edges = distinct(np.quantile(sizes, np.linspace(0, 1, _CLASSES + 1)[1:-1]))
    classes = np.searchsorted(edges, sizes, side="right").astype(np.int64)
    pinned = _pinned_partitions(cluster, goal)
    rows, slots = np.nonzero(cluster.replicas != ABSENT)
    held: Indexes = cluster.replicas[rows, slots]
    keep = goal.members[held] & goal.movable[rows]
    rows, held = rows[keep], held[keep]
    width = int(classes.max()) + 1
    kind = classes[rows] + np.where(pinned[rows], width * (1 + cluster.rack_of[held].astype(np.int64)), 0)
    total = width * (1 + len(cluster.racks))
    key = held.astype(np.int64) * total + kind
    found = np.bincount(key, minlength=len(goal.members) * total)
    size = np.bincount(key, weights=sizes[rows], minlength=len(found))
    least = np.full(width, np.inf)
    most = np.zeros(width)
    np.minimum.at(least, classes, sizes)
    np.maximum.at(most, classes, sizes)
    # A receiver may get kinds that it does not hold, so take all existing kinds on every broker where they may be.
    exists = np.flatnonzero(np.bincount(kind, minlength=total))
    brokers = np.flatnonzero(goal.members)
    broker, kinds = np.repeat(brokers, len(exists)), np.tile(exists, len(brokers))
    rack = kinds // width - 1
    may = (rack < 0) | (rack == cluster.rack_of[broker])
    broker, kinds = broker[may], kinds[may]
    at = broker * total + kinds
    return _Table(broker, kinds, found[at].astype(np.float64), size[at], least[kinds % width], most[kinds % width])  # pyright: ignore[reportArgumentType]


def _pinned_partitions(cluster: ClusterLoad, goal: Targets) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(P,) partitions that have as many replicas in each rack after any even plan as now."""
    factors = cluster.replication
    pinned = np.zeros(len(factors), dtype=np.bool_)
    if len(cluster.racks) > 1 and bool(goal.members.all()):
        for factor in distinct(factors).tolist():
            most = int(np.minimum(goal.rules.sizes, goal.rules.ceiling(factor)).sum())
            pinned |= (factors == factor) & (most == factor)
        pinned &= ~goal.rules.uneven(cluster.replicas)
    return pinned


class _Programme:
    """The linear programme's matrices. Variables: bytes out, number out, bytes in, number in per row, then leaders."""

    def __init__(self, table: _Table, goal: Targets, loads: Floats, partitions: int) -> None:
        rows, brokers = len(table.broker), len(goal.members)
        self._table, self._goal, self._loads = table, goal, loads
        self._rows, self._width = rows, 4 * rows + brokers
        self._entries: list[tuple[Ints, Ints, Floats]] = []
        self._limits: list[Floats] = []
        self._used = 0
        self._partitions = partitions
        self.cost = np.zeros(self._width)
        self.cost[:rows] = 1.0
        receives = np.where(goal.receivers[table.broker], np.inf, 0.0)
        leaders = goal.resources.index(Resource.LEADERS)
        most = np.where(goal.members, np.full(brokers, np.inf), 0.0)
        if goal.weight[leaders] > 0:
            most = np.minimum(most, goal.high[:, leaders] * goal.scale[leaders])
        self.most = np.concatenate([table.size, table.number, receives, receives, most])
        self._build()
        self.upper_limit = np.concatenate(self._limits)
        self._upper = self._matrix(self._used)
        self._entries, self._limits, self._used = [], [], 0
        self._conserve()
        self.equal_value = np.concatenate(self._limits)
        self._equal = self._matrix(self._used)

    def upper(self) -> object:
        """Sparse matrix of the inequalities."""
        return self._upper

    def equal(self) -> object:
        """Sparse matrix of the equations."""
        return self._equal

    def _matrix(self, rows: int) -> object:
        from scipy.sparse import csr_matrix  # noqa: PLC0415  # as above

        row = np.concatenate([entry[0] for entry in self._entries])
        column = np.concatenate([entry[1] for entry in self._entries])
        value = np.concatenate([entry[2] for entry in self._entries])
        return csr_matrix((value, (row, column)), shape=(rows, self._width))

    def _add(self, rows: Ints, columns: Ints, values: Floats) -> None:
        self._entries.append((rows + self._used, columns, values))

    def _close(self, limits: Floats) -> None:
        self._limits.append(limits)
        self._used += len(limits)

    def _build(self) -> None:
        table, goal, rows = self._table, self._goal, self._rows
        each, one = np.arange(rows), np.ones(rows)
        for first in (0, 2 * rows):
            # smallest * number ≤ bytes ≤ largest * number
            self._add(each, first + each, -one)
            self._add(each, first + rows + each, table.smallest)
            self._close(np.zeros(rows))
            self._add(each, first + each, one)
            self._add(each, first + rows + each, -table.largest)
            self._close(np.zeros(rows))
        for resource, offset in ((Resource.DISK, 0), (Resource.REPLICAS, rows)):
            column = goal.resources.index(resource)
            unit = 1.0 if resource is Resource.DISK else float(goal.scale[column])
            load = self._loads[:, column] * unit
            if goal.weight[column] == 0:
                continue
            for sign, edge in ((1.0, goal.high[:, column]), (-1.0, goal.low[:, column])):
                self._add(table.broker, 2 * rows + offset + each, sign * one)
                self._add(table.broker, offset + each, -sign * one)
                limit = np.where(np.isfinite(edge) & goal.members, sign * (edge * unit - load), 1e12)
                self._close(limit)
        self._lead()

    def _lead(self) -> None:
        """Leaders: at least the band's lower edge, at most the replicas that the broker ends with."""
        table, goal, rows = self._table, self._goal, self._rows
        brokers = np.arange(len(goal.members))
        each, one = np.arange(rows), np.ones(rows)
        leaders, replicas = goal.resources.index(Resource.LEADERS), goal.resources.index(Resource.REPLICAS)
        self._add(brokers, 4 * rows + brokers, -np.ones(len(brokers)))
        low = goal.low[:, leaders] if goal.weight[leaders] > 0 else np.zeros(len(brokers))
        self._close(-low * goal.scale[leaders])
        self._add(brokers, 4 * rows + brokers, np.ones(len(brokers)))
        self._add(table.broker, 3 * rows + each, -one)
        self._add(table.broker, rows + each, one)
        self._close(self._loads[:, replicas] * goal.scale[replicas])

    def _conserve(self) -> None:
        table, rows = self._table, self._rows
        kinds, position = np.unique(table.kind, return_inverse=True)
        each, one = np.arange(rows), np.ones(rows)
        for offset in (0, rows):
            self._add(position, offset + each, one)
            self._add(position, 2 * rows + offset + each, -one)
            self._close(np.zeros(len(kinds)))
        if bool(self._goal.members.all()):
            brokers = len(self._goal.members)
            self._add(np.zeros(brokers, dtype=np.int64), 4 * rows + np.arange(brokers), np.ones(brokers))
            self._close(np.array([float(self._partitions)]))
