"""Every small incident against a planner by brute force: three brokers, two partitions, each fact.

A partition by itself has so few possible outcomes that all of them can be tried. If one of them serves the scope, the
plan has to find one that is as good, or the request is refused; if none does, the plan has to say so.
"""

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from planning_clusters import cluster_of

from shunter.core.planning.balance import plan
from shunter.core.planning.cluster import ABSENT, ClusterLoad, Indexes
from shunter.core.planning.moves import BalancedPlan
from shunter.core.planning.request import PlanRefused, PlanRequest, Scope
from shunter.model.inventory import BrokerFacts, Disk

FINE = BrokerFacts(True, log_dirs=(Disk("/a", 100.0, 90.0),))
STATES = {
    "fine": FINE,
    "unknown": BrokerFacts(),
    "dead": BrokerFacts(live=False),
    "cordoned": BrokerFacts(True, log_dirs=(Disk("/a", 100.0, 90.0, cordoned=True),)),
    "damaged": BrokerFacts(True, log_dirs=(Disk("/a", None, None, failed=True),)),
    "silent": BrokerFacts(True, silent=True),
    "full": BrokerFacts(True, log_dirs=(Disk("/a", 100.0, 12.0),)),
}
TAKES = ("fine", "unknown")
SIZE = 1.0
LAYOUTS = [list(row) for count in (1, 2, 3) for row in itertools.permutations(range(3), count)]
BESIDE = ([0, 1], [0, 1, 2])
"""The other partition, all of it in sync as far as it can be: plans of two partitions must not disturb each other."""
EVERY = int(os.environ.get("SHUNTER_SMALL_WORLDS", "151"))
"""Of so many worlds one is tried; 1: all of them, which takes an hour."""


class World(NamedTuple):
    states: tuple[str, ...]
    replicas: list[int]
    isr: tuple[int, ...]
    leader: int
    beside: list[int]
    min_isr: int

    def able(self, row: list[int], isr: tuple[int, ...]) -> list[int]:
        return [b for b in row if b in isr and self.states[b] != "dead"]

    def blocked(self, row: list[int], was: list[int]) -> bool:
        """Whether a step may wait for an offline replica that stays, or names a cordoned broker, which Kafka refuses."""
        held = {self.states[broker] for broker in row if broker in was}
        return (set(row) != set(was) and "dead" in held) or (row != was and "cordoned" in held)

    @property
    def cluster(self) -> ClusterLoad:
        isr_beside = tuple(b for b in self.beside if self.states[b] != "dead")
        made = cluster_of(["a"] * 3, [("t", self.replicas, SIZE), ("u", self.beside, SIZE)], min_isr=[self.min_isr] * 2)
        first = isr_beside[0] if isr_beside else ABSENT
        return replace(
            made,
            facts=tuple(STATES[state] for state in self.states),
            isr=_table([self.isr, isr_beside]),
            leader=np.array([self.leader, first], np.int32),
        )


def _table(rows: list[tuple[int, ...]]) -> Indexes:
    return np.array([[*row, *[ABSENT] * (3 - len(row))] for row in rows], np.int32)


def worlds() -> Iterator[World]:
    every = itertools.product(itertools.product(STATES, repeat=3), LAYOUTS, BESIDE, (1, 2))
    for states, replicas, beside, min_isr in every:
        up = [b for b in replicas if states[b] != "dead"]
        for count in range(len(up) + 1):
            for isr in itertools.combinations(up, count):
                for leader in isr or (ABSENT,):
                    yield World(states, replicas, isr, leader, beside, min_isr)


REQUESTS = (
    *(PlanRequest(Scope.DRAIN, brokers=(broker,)) for broker in range(2)),
    *(PlanRequest(Scope.DEMOTE, brokers=brokers) for brokers in ((0,), (1, 2))),
    *(PlanRequest(Scope.CHANGE_REPLICATION, replication=count) for count in (1, 2, 3)),
    PlanRequest(Scope.OFFLINE),
    PlanRequest(Scope.LEADERS),
    PlanRequest(Scope.REBALANCE),
    PlanRequest(Scope.FILL, brokers=(2,)),
    PlanRequest(Scope.REPLACE, brokers=(0,), replacements=(2,)),
    PlanRequest(Scope.EMPTY_DISKS, disk_limit=0.5, headroom=0.5),
)


def row_of(made: BalancedPlan, partition: int) -> list[int]:
    return [broker for broker in made.replicas[partition].tolist() if broker != ABSENT]


def assert_allowed(world: World, made: BalancedPlan) -> None:
    """Nothing that the incident forbids is in the plan."""
    cut = made.request.scope is Scope.CHANGE_REPLICATION
    beside = tuple(b for b in world.beside if world.states[b] != "dead")
    for partition, (was, isr) in enumerate(((world.replicas, world.isr), (world.beside, beside))):
        row, able = row_of(made, partition), world.able(was, isr)
        if row == was:
            continue
        fresh = [broker for broker in row if broker not in was]
        assert able, "nobody has its data"
        assert not world.blocked(row, was), "a step to it may not end, or is refused"
        assert all(world.states[broker] in TAKES for broker in fresh)
        assert row[0] in {*able, *fresh}
        if made.request.scope is Scope.DEMOTE and row[0] != was[0]:
            assert world.states[row[0]] != "silent", "it is put first in another's place"
        in_sync = sum(broker in able or broker in fresh for broker in row)
        assert in_sync >= (min(len(row), len(able)) if cut else len(able))
        assert in_sync >= min(world.min_isr, len(able))


def possible(world: World, request: PlanRequest) -> bool:
    """Whether some outcome of the first partition serves the scope, by trying all of them."""
    was, able = world.replicas, world.able(world.replicas, world.isr)
    for row in LAYOUTS:
        fresh = [broker for broker in row if broker not in was]
        if row != was and not (able and all(world.states[broker] in TAKES for broker in fresh)):
            continue
        if world.blocked(row, was):
            continue
        in_sync = sum(broker in able or broker in fresh for broker in row)
        if request.scope is Scope.CHANGE_REPLICATION:
            kept = in_sync >= min(len(row), len(able)) and len(row) >= world.min_isr
            kept = kept and (not fresh or set(was) <= set(row))  # A change of the factor moves nothing else.
            if len(row) == request.replication and (row == was or (kept and row[0] in {*able, *fresh})):
                return True
        elif len(row) == len(was) and in_sync >= len(able):
            if request.scope is Scope.DRAIN and not set(row) & set(request.brokers):
                return True
            if request.scope is Scope.OFFLINE and all(world.states[broker] != "dead" for broker in row):
                return True
            if request.scope is Scope.DEMOTE and not fresh and row[0] in able and row[0] not in request.brokers:
                return world.states[row[0]] != "silent" or row == was
    return False


def reached(world: World, made: BalancedPlan) -> bool:
    """Whether the plan's outcome of the first partition serves the scope."""
    request, row = made.request, row_of(made, 0)
    if request.scope is Scope.CHANGE_REPLICATION:
        return len(row) == request.replication
    if request.scope is Scope.DRAIN:
        return not set(row) & set(request.brokers)
    if request.scope is Scope.OFFLINE:
        return all(world.states[broker] != "dead" for broker in row)
    if request.scope is Scope.DEMOTE:
        leads, able = row[0] if 0 in made.elected else world.leader, world.able(row, world.isr)
        return not {row[0], leads, next(iter(able), row[0])} & set(request.brokers)
    return True


def assert_refused(world: World, request: PlanRequest, told: str) -> None:
    """Only what really needs a broker that can't take anything is refused, or what no cluster of this size can do."""
    able = [state for state in world.states if state in TAKES or state == "full"]
    named = [
        world.states[b] for b in (*request.replacements, *(request.brokers if request.scope is Scope.FILL else ()))
    ]
    few = request.scope in {Scope.DRAIN, Scope.REPLACE} and max(len(world.replicas), len(world.beside)) > 2
    assert few or len(able) <= 1 or any(state not in able for state in named), told


def judge(world: World, request: PlanRequest) -> None:
    try:
        made = plan(world.cluster, request)
    except PlanRefused as refused:
        assert_refused(world, request, str(refused))
        return
    assert_allowed(world, made)
    if request.scope in {Scope.DRAIN, Scope.OFFLINE, Scope.DEMOTE, Scope.CHANGE_REPLICATION}:
        done, name = reached(world, made), "t-0"
        assert done or not possible(world, request), f"{row_of(made, 0)} with {made.undone}"
        told = [each for each in made.undone if name in each.what]
        concerned = request.scope is not Scope.DEMOTE or set(request.brokers) & {world.replicas[0], world.leader}
        assert done or told or not concerned, f"{row_of(made, 0)} is not said to be undone"


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: f"{each.scope.value}-{each.brokers}-{each.replication}")
def test_every_small_incident(request_: PlanRequest) -> None:
    at = REQUESTS.index(request_)
    tried = 0
    for world in itertools.islice(worlds(), at % EVERY, None, EVERY):
        try:
            judge(world, request_)
        except AssertionError as error:
            raise AssertionError(f"{world}: {error}") from error
        tried += 1
    assert tried
