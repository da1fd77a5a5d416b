"""No plan changes the replicas of a partition beside an offline one that stays: it may not end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planning_clusters import cluster_of

from shunter.core.planning.balance import plan
from shunter.core.planning.cluster import ABSENT, ClusterLoad
from shunter.core.planning.moves import BalancedPlan
from shunter.core.planning.request import PlanRequest, Scope
from shunter.model.inventory import BrokerFacts, TopicWish

NAMING = (Scope.DRAIN, Scope.REPLACE, Scope.DEMOTE, Scope.FILL)


def with_dead(cluster: ClusterLoad, *dead: int) -> ClusterLoad:
    return replace(cluster, facts=tuple(BrokerFacts(live=at not in dead) for at in range(len(cluster.brokers))))


def changed(made: BalancedPlan) -> dict[str, list[int]]:
    return {f"{each.topic}-{each.partition}": each.replicas for each in made.assignments()}


def test_a_rebalance_takes_no_good_replica_from_a_partition_with_an_offline_one() -> None:
    """An outsider's find: [1,2,3] was planned to [4,1,2] with broker 1 dead."""
    cluster = cluster_of(["a"] * 6, [("t", [1, 2, 3], 100)] * 6 + [("u", [2, 3], 100)] * 6)
    made = plan(with_dead(cluster, 1), PlanRequest(Scope.REBALANCE))
    assert changed(made), "the others are balanced"
    assert not [name for name in changed(made) if name.startswith("t-")]
    (note,) = [each for each in made.notes if "offline" in each]
    assert note.startswith("6 partitions have offline replicas (t-0, t-1, t-2 and 3 more): they stay as they are")
    assert "`shunter plan --scope offline`" in note


@pytest.mark.parametrize(
    "request_",
    [
        PlanRequest(Scope.DRAIN, brokers=(2,)),
        PlanRequest(Scope.REPLACE, brokers=(2,), replacements=(5,)),
        PlanRequest(Scope.CHANGE_REPLICATION, replication=4),
        PlanRequest(Scope.TOPICS, wishes=(TopicWish("t", brokers=(1, 3, 4, 5)),)),
    ],
    ids=lambda asked: asked.scope.value,
)
def test_what_a_scope_asks_beside_an_offline_replica_is_left_and_said(request_: PlanRequest) -> None:
    cluster = cluster_of(["a"] * 6, [("t", [1, 2, 3], 100), ("t", [2, 3, 4], 100)])
    made = plan(with_dead(cluster, 1), request_)
    assert list(changed(made)) == ["t-1"], "it has no offline replica"
    assert [each.what for each in made.undone] == ["1 partition stays as it is (t-0)"]
    first = "; `shunter plan --scope offline` gives offline replicas other brokers first"
    assert made.undone[0].why == f"an offline replica would stay, and no plan copies beside one{first}"


def test_a_scope_that_takes_the_offline_replica_away_goes_on() -> None:
    cluster = with_dead(cluster_of(["a"] * 6, [("t", [1, 2, 3], 100)], min_isr=[1]), 1)
    asked = (
        PlanRequest(Scope.OFFLINE),
        PlanRequest(Scope.DRAIN, brokers=(1,)),
        PlanRequest(Scope.DRAIN, brokers=(1, 2)),
        PlanRequest(Scope.CHANGE_REPLICATION, replication=2),
    )
    for each in asked:
        made = plan(cluster, each)
        assert 1 not in changed(made)["t-0"], each
        assert made.undone == ()


def test_of_two_offline_replicas_both_go_or_none() -> None:
    cluster = cluster_of(["a"] * 5, [("t", [0, 1, 2], 100)], min_isr=[1])
    both = plan(with_dead(cluster, 0, 1), PlanRequest(Scope.OFFLINE))
    assert set(changed(both)["t-0"]) == {2, 3, 4}
    capped = plan(with_dead(cluster, 0, 1), PlanRequest(Scope.OFFLINE, max_moves=1))
    assert changed(capped) == {}
    assert any(each.why.endswith("no plan copies beside one") for each in capped.undone), "it is no way out of itself"
    assert len(capped.moves) == 0


def test_the_order_alone_changes_beside_an_offline_replica() -> None:
    cluster = with_dead(cluster_of(["a"] * 4, [("t", [2, 1, 3], 100)] * 4), 1)
    made = plan(cluster, PlanRequest(Scope.DEMOTE, brokers=(2,)))
    assert {tuple(sorted(row)) for row in changed(made).values()} == {(1, 2, 3)}
    assert len(changed(made)) == 4


@pytest.mark.parametrize("scope", [each for each in Scope if each is not Scope.DISKS])
def test_in_drawn_clusters_no_scope_ever_keeps_an_offline_replica_in_another_set(scope: Scope) -> None:
    drawn = np.random.default_rng(7)
    changes = 0
    for _ in range(25):
        brokers = int(drawn.integers(4, 8))
        rows = [
            ("t", drawn.permutation(brokers)[: int(drawn.integers(1, 4))].tolist(), float(drawn.integers(1, 9)))
            for _ in range(12)
        ]
        cluster = with_dead(cluster_of(["a", "b"] * brokers, rows, min_isr=[1] * 12), 0, 1)
        asked = PlanRequest(
            scope,
            brokers=(2 * brokers - 1 if scope is Scope.FILL else 3,) if scope in NAMING else (),
            replacements=(2,) if scope is Scope.REPLACE else (),
            replication=int(drawn.integers(1, 4)) if scope is Scope.CHANGE_REPLICATION else 0,
            wishes=(TopicWish("t", replication=2),) if scope is Scope.TOPICS else (),
            disk_limit=0.5 if scope in {Scope.EMPTY_DISKS, Scope.FILLING_DISKS} else None,
        )
        made = plan(cluster, asked)
        for each in made.assignments():
            if set(each.replicas) != set(each.original):
                changes += 1
                assert not {0, 1}.intersection(each.replicas), each
        moved = made.moves.partition.tolist()
        assert all((made.replicas[at] != ABSENT).any() for at in moved)
    assert changes or scope in {Scope.LEADERS, Scope.DEMOTE, Scope.FIX_RACKS}
