"""Why a plan leaves something undone: the facts that ruled out each broker, and no rule that had no part in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planning_clusters import cluster_of

from shunter.core.planning.balance import plan
from shunter.core.planning.cluster import ABSENT, BrokerFacts
from shunter.core.planning.request import PlanRequest, Scope
from shunter.model.inventory import Disk, TopicWish

FAILED = BrokerFacts(live=True, log_dirs=(Disk("/b", None, None, failed=True), Disk("/a", 1000.0, 900.0)))
LIVE, DEAD = BrokerFacts(live=True), BrokerFacts(live=False)
SMALL = BrokerFacts(live=True, log_dirs=(Disk("/a", 100.0, 50.0),))
TOO_MANY = PlanRequest(Scope.CHANGE_REPLICATION, replication=4)


def reasons(facts: tuple[BrokerFacts, ...], asked: PlanRequest, racks: list[str] | None = None) -> list[str]:
    cluster = cluster_of(racks or ["a"] * len(facts), [("t", [0, 1], 100)], min_isr=[1])
    return [each.why for each in plan(replace(cluster, facts=facts), asked).undone]


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ((LIVE, LIVE, DEAD, LIVE), "broker 2 is dead"),
        ((LIVE, LIVE, LIVE, FAILED), "broker 3 has a failed log dir (/b)"),
        ((LIVE, LIVE, DEAD, FAILED), "broker 2 is dead; broker 3 has a failed log dir (/b)"),
        ((LIVE, LIVE, LIVE, SMALL), "broker 3 has too little room; the roomiest, broker 3, has room for 30% of it"),
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
    told = "no other broker may take it: broker 2 is dead; broker 3 is not among those wanted"
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
        "no other broker may take it: broker 2 has too little room; the roomiest, broker 2, has room for 30% of it",
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
