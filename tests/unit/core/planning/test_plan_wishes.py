"""Wishes whatever the balance, and the facts that ruled out each broker where a plan leaves something undone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from planning_clusters import cluster_of, clusters

from shunter.core.planning.balance import plan
from shunter.core.planning.cluster import ABSENT, BrokerFacts, ClusterLoad
from shunter.core.planning.moves import BalancedPlan
from shunter.core.planning.request import PlanRefused, PlanRequest, Scope
from shunter.model.inventory import Disk, OfflineReplica, TopicWish

RACKS = ["a", "b", "c", "a", "b", "c"]
FAILED = BrokerFacts(live=True, log_dirs=(Disk("/b", None, None, failed=True), Disk("/a", 1000.0, 900.0)))
LIVE, DEAD = BrokerFacts(live=True), BrokerFacts(live=False)
SMALL = BrokerFacts(live=True, log_dirs=(Disk("/a", 100.0, 50.0),))
TOO_MANY = PlanRequest(Scope.CHANGE_REPLICATION, replication=4)


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


def reasons(facts: tuple[BrokerFacts, ...], asked: PlanRequest, racks: list[str] | None = None) -> list[str]:
    cluster = cluster_of(racks or ["a"] * len(facts), [("t", [0, 1], 100)], min_isr=[1])
    return [each.why for each in plan(replace(cluster, facts=facts), asked).undone]


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ((LIVE, LIVE, DEAD, LIVE), "broker 2 is dead"),
        ((LIVE, LIVE, LIVE, FAILED), "broker 3 has a failed log dir (/b)"),
        ((LIVE, LIVE, DEAD, FAILED), "broker 2 is dead; broker 3 has a failed log dir (/b)"),
        (
            (LIVE, LIVE, LIVE, SMALL),
            "broker 3 has too little room less the headroom (headroom-percent); the roomiest, broker 3, has room for 30% of it",
        ),
    ],
)
def test_a_replication_that_is_not_reached_names_what_rules_each_broker_out(
    facts: tuple[BrokerFacts, ...], told: str
) -> None:
    """An outsider's find: "racks, capacities with headroom and max replicas", where a broker was dead."""
    assert reasons(facts, TOO_MANY) == [f"no other broker may take it: {told}"]


def test_wishes_and_exclusions_are_named_too() -> None:
    wish = TopicWish("t", replication=2, brokers=(0, 2))
    asked = PlanRequest(Scope.TOPICS, wishes=(wish,))
    told = "no other broker may take it: broker 3 is not among those wanted; broker 2 is dead"
    assert reasons((LIVE, LIVE, DEAD, LIVE), asked) == [told]
    excluded = replace(TOO_MANY, replication=3, excluded_brokers=(2,))
    told = "no other broker may take it: broker 3 is dead; broker 2 is excluded"
    assert reasons((LIVE, LIVE, LIVE, DEAD), excluded) == [told]


def test_a_replacement_that_gets_less_says_which_fact_keeps_it() -> None:
    asked = PlanRequest(Scope.REPLACE, brokers=(0,), replacements=(1,))
    assert reasons((LIVE,) * 3, asked)[0] == "it has a replica of them already: other brokers get what may move"
    asked = PlanRequest(Scope.REPLACE, brokers=(0,), replacements=(2,))
    assert reasons((LIVE, LIVE, SMALL), asked) == [
        "it has too little room: other brokers get what may move",
        "no other broker may take it: broker 2 has too little room less the headroom (headroom-percent); the roomiest, broker 2, has room for 30% of it",
    ]


def test_a_cut_that_leaves_no_spare_replica_is_said() -> None:
    """An outsider's find: a cut to one replica went through without a word."""
    cluster = cluster_of(["a"] * 3, [("t", [0, 1, 2], 100), ("u", [0, 1, 2], 100)], min_isr=[1, 2])
    made = plan(cluster, PlanRequest(Scope.CHANGE_REPLICATION, replication=1, topics=("t",)))
    assert made.notes == ("1 partition is left with one replica: what it has is gone with its broker (t-0)",)
    made = plan(cluster, PlanRequest(Scope.CHANGE_REPLICATION, replication=2))
    (note,) = made.notes
    assert note.startswith("1 partition is left with as many replicas as min.insync.replicas: one that is down")
    assert note.endswith(" (u-0)")
    assert plan(cluster, PlanRequest(Scope.CHANGE_REPLICATION, replication=3)).notes == ()


@pytest.mark.parametrize(("least", "wanted", "after"), [(3, 1, 2), (3, 2, 2), (3, 3, 3), (2, 2, 2), (1, 1, 1)])
def test_only_a_cut_is_held_up_by_min_insync_replicas(least: int, wanted: int, after: int) -> None:
    cluster = cluster_of(["a"] * 4, [("t", [0, 1], 1)], min_isr=[least])
    wish = (TopicWish("t", replication=wanted),)
    for asked in (PlanRequest(Scope.CHANGE_REPLICATION, replication=wanted), PlanRequest(Scope.TOPICS, wishes=wish)):
        made = plan(cluster, asked)
        assert int((made.replicas[0] != ABSENT).sum()) == after
        assert bool(made.undone) == (wanted < after)
        assert all("min.insync.replicas is 3" in each.why for each in made.undone)
