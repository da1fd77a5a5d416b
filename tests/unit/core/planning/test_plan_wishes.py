"""Wishes whatever the balance: brokers that lead nothing, replicas that leave offline places, topics' places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from planning_clusters import cluster_of, clusters

from shunter.core.planning.balance import plan
from shunter.core.planning.cluster import ABSENT, ClusterLoad
from shunter.core.planning.moves import BalancedPlan
from shunter.core.planning.request import PlanRefused, PlanRequest, Scope
from shunter.model.inventory import OfflineReplica, TopicWish

RACKS = ["a", "b", "c", "a", "b", "c"]


def rows(made: BalancedPlan) -> list[list[int]]:
    return [[broker for broker in row if broker != ABSENT] for row in made.replicas.tolist()]


def wanted(cluster: ClusterLoad, *wishes: TopicWish) -> BalancedPlan:
    return plan(cluster, PlanRequest(Scope.TOPICS, wishes=wishes))


def test_demoted_brokers_stand_behind_all_others_where_they_led() -> None:
    cluster = cluster_of(RACKS, [("t", [0, 1, 2], 5), ("t", [0, 3, 1], 5), ("t", [1, 0, 2], 5), ("t", [0], 5)])
    made = plan(cluster, PlanRequest(Scope.DEMOTE, brokers=(0, 3)))
    assert rows(made) == [[2, 1, 0], [1, 0, 3], [1, 0, 2], [0]]
    assert len(made.moves) == 0
    assert [undone.what for undone in made.undone] == ["t-3 is still led by broker 0"]


@given(clusters())
def test_who_is_demoted_leads_nothing_that_somebody_else_could_lead(cluster: ClusterLoad) -> None:
    made = plan(cluster, PlanRequest(Scope.DEMOTE, brokers=(0, 1)))
    for row, was in zip(rows(made), cluster.replicas.tolist(), strict=True):
        assert set(row) == {broker for broker in was if broker != ABSENT}
        assert row[0] > 1 or set(row) <= {0, 1}
    again = plan(_after(made), PlanRequest(Scope.DEMOTE, brokers=(0, 1)))
    assert len(again.changed) == 0


def _after(made: BalancedPlan) -> ClusterLoad:
    return replace(made.cluster, replicas=made.replicas)


def test_each_offline_replica_goes_elsewhere_and_nothing_else_moves() -> None:
    cluster = cluster_of(RACKS, [("t", [0, 1, 2], 5), ("t", [1, 2, 0], 5), ("t", [0, 4], 5), ("t", [0], 5)])
    offline = tuple(OfflineReplica("t", *where) for where in ((0, 0), (1, 0), (2, 0), (3, 0), (2, 4)))
    made = plan(cluster, PlanRequest(Scope.OFFLINE, brokers=(0,), offline=offline))
    assert rows(made)[0] == [3, 1, 2]
    assert rows(made)[1] == [1, 2, 3]
    assert rows(made)[2:] == [[0, 4], [0]], "nobody has their data"
    assert [undone.what for undone in made.undone] == ["t-2 stays where it is", "t-3 stays where it is"]


def test_a_replica_in_a_failed_log_dir_leaves_a_broker_that_goes_on() -> None:
    cluster = cluster_of(["a", "b", "c", "d"], [("t", [0, 1], 5), ("u", [1, 2], 5)])
    made = plan(cluster, PlanRequest(Scope.OFFLINE, offline=(OfflineReplica("t", 0, 1),)))
    assert rows(made)[1] == [1, 2], "what broker 1 has elsewhere stays"
    assert 1 not in rows(made)[0]


@pytest.mark.parametrize(
    ("wish", "allowed", "replicas"),
    [
        (TopicWish("t", racks=("a", "b")), {0, 1, 3, 4}, 3),
        (TopicWish("t", brokers=(3, 4, 5)), {3, 4, 5}, 3),
        (TopicWish("t", replication=2), {0, 1, 2, 3, 4, 5}, 2),
        (TopicWish("t", replication=5), {0, 1, 2, 3, 4, 5}, 5),
        (TopicWish("t", replication=1, brokers=(4,)), {4}, 1),
        (TopicWish("t", replication=4, racks=("a", "c")), {0, 2, 3, 5}, 4),
    ],
)
def test_a_topic_gets_what_is_wanted_of_it(wish: TopicWish, allowed: set[int], replicas: int) -> None:
    cluster = cluster_of(RACKS, [("t", [0, 1, 2], 5), ("t", [1, 2, 3], 5), ("u", [0, 1, 2], 5)], min_isr=[1, 1, 1])
    made = wanted(cluster, wish)
    for row in rows(made)[:2]:
        assert set(row) <= allowed
        assert len(set(row)) == replicas
    assert rows(made)[2] == [0, 1, 2], "nothing else moves"
    assert made.undone == ()
    after = _after(made)
    assert len(wanted(after, wish).changed) == 0, "what is as it is wanted stays"


def test_what_is_there_already_is_kept() -> None:
    cluster = cluster_of(RACKS, [("t", [0, 1, 2], 5)])
    made = wanted(cluster, TopicWish("t", brokers=(1, 2, 3)))
    assert rows(made) == [[3, 1, 2]]
    assert len(made.moves) == 1


def test_writers_are_not_locked_out() -> None:
    cluster = cluster_of(RACKS, [("t", [0, 1, 2], 5)], min_isr=[2])
    made = wanted(cluster, TopicWish("t", replication=1))
    assert len(made.changed) == 0
    assert "min.insync.replicas is 2" in made.undone[0].why


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (TopicWish("t", racks=("z",)), "no broker is in rack 'z'; racks are a, b, c"),
        (TopicWish("t", replication=3, racks=("a",)), "3 replicas need as many brokers, and 2 may hold them"),
        (TopicWish("t", brokers=(9,)), "the cluster has no broker 9"),
        (TopicWish("x"), "the cluster has no topic 'x'"),
    ],
)
def test_a_wish_that_cannot_be_granted_is_refused(wish: TopicWish, told: str) -> None:
    with pytest.raises(PlanRefused, match=told):
        wanted(cluster_of(RACKS, [("t", [0, 1], 5)]), wish)


@given(clusters())
def test_a_capped_plan_keeps_to_its_cap(cluster: ClusterLoad) -> None:
    wish = TopicWish(cluster.topics[0], brokers=(0, 1))
    made = plan(cluster, PlanRequest(Scope.TOPICS, wishes=(wish,), max_moves=2))
    assert len(made.moves) <= 2
    assert np.isin(made.changed, np.flatnonzero(cluster.topic_of == 0)).all()
