"""Brokers that somebody's throttle holds to less than is of use: they receive only what no other broker may take."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_clusters import cluster_of, clusters, rack_spread

from shunter.core.planning.balance import plan
from shunter.core.planning.cluster import ABSENT, ClusterLoad
from shunter.core.planning.moves import BalancedPlan
from shunter.core.planning.request import PlanRefused, PlanRequest, Scope
from shunter.model.inventory import OF_USE_BYTES_PER_S, BrokerFacts, Disk, TopicWish

HELD = BrokerFacts(True, throttle=20_000)
FREE = BrokerFacts(True)
DEAD = BrokerFacts(live=False)
FEW = max(1, settings().max_examples // 3)
"""The number of examples if each one plans several times."""
ENDS = "where the throttle lists the topic, such a copy may not end, and once it is in sync acks=all may wait for it"
TOLD = "somebody else's throttle holds broker {} to 20.0 kB/s"


def with_facts(cluster: ClusterLoad, slow: Collection[int], dead: Collection[int] = ()) -> ClusterLoad:
    facts = {**dict.fromkeys(slow, HELD), **dict.fromkeys(dead, DEAD)}
    return replace(cluster, facts=tuple(facts.get(broker, FREE) for broker in cluster.brokers))


def rows_of(made: BalancedPlan) -> list[list[int]]:
    return [[broker for broker in row if broker != ABSENT] for row in made.replicas.tolist()]


def fresh_on(made: BalancedPlan, broker: int) -> list[int]:
    """The partitions of which a broker gets a replica."""
    return [int(at) for at in made.moves.partition[made.moves.target == broker]]


@st.composite
def incidents(draw: st.DrawFn) -> tuple[ClusterLoad, PlanRequest, set[int]]:
    """A cluster with slow brokers, perhaps a dead one, and a request by which replicas have to go somewhere."""
    cluster = draw(clusters())
    slow = draw(st.sets(st.sampled_from(cluster.brokers), min_size=1, max_size=2))
    scope = draw(st.sampled_from([Scope.OFFLINE, Scope.DRAIN, Scope.CHANGE_REPLICATION, Scope.FIX_RACKS]))
    gone = draw(st.sampled_from(cluster.brokers))
    factor = draw(st.integers(1, 4)) if scope is Scope.CHANGE_REPLICATION else 0
    drained = (gone,) if scope is Scope.DRAIN else ()
    dead = {gone} if scope is Scope.OFFLINE or draw(st.booleans()) else set()
    return with_facts(cluster, slow - dead, dead), PlanRequest(scope, drained, replication=factor), slow - dead


@given(incidents())
def test_a_slow_broker_receives_nothing_that_another_could_have_taken(
    incident: tuple[ClusterLoad, PlanRequest, set[int]],
) -> None:
    cluster, asked, slow = incident
    try:
        made = plan(cluster, asked)
    except PlanRefused:
        return
    rows = rows_of(made)
    able = {at for at, each in enumerate(cluster.facts) if not each.down} - {*asked.brokers} - slow
    for broker in sorted(slow):
        for at in fresh_on(made, broker):
            row, was = rows[at], cluster.replicas[at].tolist()
            for other in sorted(able - {*row, *was}):
                swapped = [other if each == broker else each for each in row]
                assert shared(cluster, swapped, able | slow) > shared(cluster, row, able | slow), (
                    f"{was} became {row}, and broker {other} could have taken what slow broker {broker} gets"
                )


@given(incidents())
def test_a_slow_broker_comes_after_the_others_that_come(incident: tuple[ClusterLoad, PlanRequest, set[int]]) -> None:
    """An outsider's find: three partitions below min.insync.replicas were copied to the slow broker first."""
    cluster, asked, slow = incident
    try:
        made = plan(cluster, asked)
    except PlanRefused:
        return
    if slow == {*cluster.brokers} - {at for at, each in enumerate(cluster.facts) if each.down}:
        return  # Where all are slow, none is.
    for row, was in zip(rows_of(made), cluster.replicas.tolist(), strict=True):
        comes = [broker in slow for broker in row if broker not in was]
        assert comes == sorted(comes), f"{was} became {row}, and {slow} are slow"


@pytest.mark.parametrize("row", [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]])
@pytest.mark.parametrize("slow", [3, 4])
def test_of_two_that_come_the_slow_one_is_the_later(row: list[int], slow: int) -> None:
    cluster = with_facts(cluster_of(["a"] * 5, [("t", row, 1.0)]), {slow}, {0, 1})
    for asked in (PlanRequest(Scope.OFFLINE), PlanRequest(Scope.DRAIN, (0, 1))):
        (ends,) = rows_of(plan(cluster, asked))
        assert [broker for broker in ends if broker in {3, 4}] == [7 - slow, slow]


def shared(cluster: ClusterLoad, row: list[int], usable: Collection[int]) -> int:
    """How uneven a row is over the racks that have usable brokers: by more than the even spread has."""
    held = rack_spread(cluster, row)
    open_ = sorted({int(cluster.rack_of[broker]) for broker in usable})
    return sum(held[rack] ** 2 for rack in open_)


@settings(max_examples=FEW)
@given(clusters(), st.sampled_from(list(Scope)), st.data())
def test_where_every_broker_is_slow_or_none_is_the_plan_is_the_same(
    cluster: ClusterLoad, scope: Scope, data: st.DataObject
) -> None:
    one, other = data.draw(st.permutations(cluster.brokers))[:2]
    given_: dict[str, Any] = {"brokers": (one,)} if scope in {Scope.DRAIN, Scope.FILL, Scope.DEMOTE} else {}
    if scope is Scope.REPLACE:
        given_ = {"brokers": (one,), "replacements": (other,)}
    if scope is Scope.CHANGE_REPLICATION:
        given_ = {"replication": 2}
    if scope in {Scope.EMPTY_DISKS, Scope.FILLING_DISKS}:
        given_ = {"disk_limit": 1.1}
    if scope is Scope.TOPICS:
        given_ = {"wishes": (TopicWish(cluster.topics[0], brokers=tuple(sorted((one, other)))),)}
    asked = PlanRequest(scope, **given_)
    some = data.draw(st.sampled_from([OF_USE_BYTES_PER_S, 10.0 * OF_USE_BYTES_PER_S, None]))
    used = tuple(FREE._replace(throttle=some) if broker == one else FREE for broker in cluster.brokers)
    made = [
        outcome(with_facts(cluster, slow), asked, facts)
        for slow, facts in (((), None), (cluster.brokers, None), ((), used))
    ]
    assert made[0] == made[1] == made[2]


def outcome(cluster: ClusterLoad, asked: PlanRequest, facts: tuple[BrokerFacts, ...] | None) -> object:
    try:
        made = plan(cluster if facts is None else replace(cluster, facts=facts), asked)
    except PlanRefused as refused:
        return str(refused)
    return made.replicas.tolist(), made.undone, made.elected.tolist()


@settings(max_examples=FEW)
@given(clusters(with_rates=True), st.sampled_from([Scope.REBALANCE, Scope.FILL]), st.data())
def test_a_balance_brings_nothing_to_a_slow_broker(cluster: ClusterLoad, scope: Scope, data: st.DataObject) -> None:
    slow = data.draw(st.sets(st.sampled_from(cluster.brokers), min_size=1, max_size=2))
    filled = tuple(sorted(data.draw(st.sets(st.sampled_from(cluster.brokers), min_size=1, max_size=2))))
    asked = PlanRequest(scope, filled if scope is Scope.FILL else (), spread_topics=data.draw(st.booleans()))
    made = plan(with_facts(cluster, slow), asked)
    for broker in slow:
        assert fresh_on(made, broker) == []
        assert any(each.startswith(TOLD.format(broker)) for each in made.notes)
    again = plan(replace(made.cluster, replicas=made.replicas), asked)
    assert again.changed.tolist() == []


YARD = cluster_of(["a"] * 5, [("t", [0, 1], 5.0), ("t", [1, 0], 4.0), ("u", [0, 2], 3.0), ("u", [1, 2], 9.0)])


def test_what_is_offline_goes_to_the_free_broker_although_the_slow_one_is_empty() -> None:
    """A find of an incident: broker 3 was held to 20 kB/s, and got all replicas that were below min.insync.replicas."""
    some = replace(YARD, facts=(FREE, FREE, DEAD, HELD, FREE))
    made = plan(some, PlanRequest(Scope.OFFLINE))
    assert rows_of(made) == [[0, 1], [1, 0], [0, 4], [1, 4]]
    assert f"{TOLD.format(3)}: it would get only what no other broker may take" in made.notes


def test_a_slow_broker_receives_what_no_other_may_take_and_the_plan_says_so() -> None:
    racked = replace(YARD, racks=("a", "b"), rack_of=np.array([0, 0, 1, 1, 0], np.int32))
    cases: list[tuple[ClusterLoad, PlanRequest, str]] = [
        (racked, PlanRequest(Scope.OFFLINE), "no broker without one may take them"),
        (YARD, PlanRequest(Scope.REPLACE, (2,), replacements=(3,)), "the request names it"),
        (YARD, PlanRequest(Scope.OFFLINE, excluded_brokers=(0, 1, 4)), "no broker without one may take them"),
    ]
    for cluster, asked, why in cases:
        made = plan(with_facts(cluster, (3,), (2,)), asked)
        assert rows_of(made)[2:] == [[0, 3], [1, 3]]
        assert f"{TOLD.format(3)}: 2 replicas come to it all the same (u-0, u-1), because {why}; {ENDS}" in made.notes


def test_a_slow_broker_receives_what_others_have_no_room_for() -> None:
    small = FREE._replace(log_dirs=(Disk("/a", 20.0, 8.0),))
    some = replace(YARD, facts=(small, small, DEAD, HELD, small))
    assert rows_of(plan(some, PlanRequest(Scope.OFFLINE)))[2:] == [[0, 4], [1, 3]], "9 have room on broker 3 alone"


def test_a_slow_broker_gives_what_it_has_too_much_of() -> None:
    rows = [("t", [3, 0], 5.0) for _ in range(8)]
    some = with_facts(cluster_of(["a"] * 4, rows), (3,))
    assert plan(some, PlanRequest()).changed.tolist() == [], "lists that are not known may name all of it"
    free = HELD._replace(held_followers=())
    made = plan(replace(some, facts=(*some.facts[:3], free)), PlanRequest())
    assert 3 in made.moves.source.tolist()
    assert 3 not in made.moves.target.tolist()


def test_a_balance_leaves_what_a_slow_broker_follows_and_says_so() -> None:
    """An outsider's find: a rebalance beside a slow follower left partitions with one replica in sync for minutes."""
    rows = [("t", [0, 3], 5.0) for _ in range(8)] + [("u", [0, 1], 5.0) for _ in range(8)]
    made = plan(with_facts(cluster_of(["a"] * 4, rows), (3,)), PlanRequest())
    assert made.changed.tolist()
    assert set(made.changed.tolist()) <= set(range(8, 16))
    (told,) = [each for each in made.notes if "replicas that somebody's throttle holds" in each]
    assert told.startswith("8 partitions have replicas that somebody's throttle holds (t-0")
    assert told.endswith("out of the isr; lift that throttle first (`shunter throttles clear`)")


@pytest.mark.parametrize(
    ("held", "stay"), [(None, 8), (("t-*",), 8), (("t-0", "t-5"), 2), (("u-0",), 0), ((), 0)], ids=str
)
def test_only_what_the_lists_name_is_held(held: tuple[str, ...] | None, stay: int) -> None:
    """An outsider's find: topics that no list names were left alone, and were counted among those that wait."""
    rows = [("t", [0, 3], 5.0) for _ in range(8)]
    cluster = with_facts(cluster_of(["a"] * 4, rows), (3,))
    slow = HELD._replace(held_followers=held)
    cluster = replace(cluster, facts=(*cluster.facts[:3], slow), leader=np.zeros(8, np.int64))
    told = [each for each in plan(cluster, PlanRequest()).notes if "that somebody's throttle holds" in each]
    assert [int(each.split()[0]) for each in told] == ([stay] if stay else [])
    drained = plan(cluster, PlanRequest(Scope.DRAIN, (0,))).notes
    told = [each for each in drained if "a new leader epoch" in each]
    assert [f"; {stay} partition" in each for each in told] == ([True] if stay else [])


def test_a_drain_beside_a_slow_follower_says_where_too_few_would_stay_in_sync() -> None:
    rows = [("t", [0, 3], 1.0), ("t", [0, 1], 1.0)]
    cluster = with_facts(cluster_of(["a"] * 4, rows), (3,))
    cluster = replace(cluster, leader=np.array([0, 0]), min_isr=np.array([2, 2]))
    (told,) = [each for each in plan(cluster, PlanRequest(Scope.DRAIN, (0,))).notes if each.startswith(TOLD.format(3))]
    assert "; 1 partition that it follows gets a new leader epoch, and acks=all may wait for it there" in told
    assert told.endswith(
        "; t-0 would have fewer than min.insync.replicas then: `execute` waits there until it is lifted"
    )


def test_a_slow_broker_is_not_filled_and_the_plan_says_why() -> None:
    rows = [("t", [0, 1], 5.0) for _ in range(8)]
    some = with_facts(cluster_of(["a"] * 4, rows), (3,))
    made = plan(some, PlanRequest(Scope.FILL, (3,)))
    assert len(made.moves) == 0
    assert f"{TOLD.format(3)}: no replica comes to it until that is lifted" in made.notes
    assert TOLD.format(3) in {each.why for each in made.undone}
    made = plan(some, PlanRequest(Scope.FILL, (2, 3)))
    assert set(made.moves.target.tolist()) == {2}
    made = plan(some, PlanRequest())
    assert set(made.moves.target.tolist()) == {2}


def test_racks_that_only_a_slow_broker_would_mend_stay_shared_by_a_balance_alone() -> None:
    racked = cluster_of(["a", "a", "b"], [("t", [0, 1], 5.0)])
    some = with_facts(racked, (2,))
    made = plan(some, PlanRequest())
    assert len(made.moves) == 0
    assert "broker 2 is held by somebody's throttle" in dict(made.undone)["t-0 keeps replicas in shared racks"]
    assert fresh_on(plan(some, PlanRequest(Scope.FIX_RACKS)), 2) == [0]


def test_racks_are_mended_by_the_broker_that_is_free() -> None:
    racked = cluster_of(["a", "a", "b", "b"], [("t", [0, 1], 5.0)])
    for slow, free in ((2, 3), (3, 2)):
        assert fresh_on(plan(with_facts(racked, (slow,)), PlanRequest(Scope.FIX_RACKS)), free) == [0]


@pytest.mark.parametrize(("held", "wanted"), [((3,), 4), ((3, 4), 3)])
def test_a_full_disk_is_emptied_onto_a_slow_broker_only_if_no_other_takes_it(
    held: tuple[int, ...], wanted: int
) -> None:
    rows = [("t", [0], 10.0), ("t", [0], 10.0), ("t", [1], 11.0), ("t", [2], 11.0)]
    made_of = cluster_of(["a"] * 5, rows, disk_capacity=[20.0, 15.0, 15.0, 20.0, 20.0])
    asked = PlanRequest(Scope.EMPTY_DISKS, disk_limit=0.75, headroom=0.1)
    assert set(plan(with_facts(made_of, held), asked).moves.target.tolist()) == {wanted}


def test_a_cut_drops_the_replica_on_the_slow_broker() -> None:
    """An outsider's find: it stayed, and with as many replicas as min.insync.replicas writers wait for it."""
    cluster = with_facts(cluster_of(["a"] * 3, [("t", [0, 1, 2], 100), ("u", [1, 0, 2], 900)], min_isr=[2, 2]), {1})
    made = plan(cluster, PlanRequest(Scope.CHANGE_REPLICATION, replication=2))
    assert rows_of(made) == [[0, 2], [0, 2]]


@pytest.mark.parametrize("scope", [Scope.DEMOTE, Scope.LEADERS])
def test_a_slow_broker_that_leads_no_longer_is_told_with_what_that_may_cost(scope: Scope) -> None:
    """An outsider's find: after a demotion acks=all waited until the slow broker was out of the isr."""
    rows = [("t", [3, 0, 1], 1.0), ("t", [3, 1, 2], 1.0), ("t", [3, 2, 0], 1.0), ("t", [3, 0, 2], 1.0)]
    cluster = with_facts(cluster_of(["a"] * 4, rows), {3})
    cluster = replace(cluster, leader=np.array([3, 3, 3, 3]))
    made = plan(cluster, PlanRequest(scope, (3,) if scope is Scope.DEMOTE else ()))
    fewer = sum(row[0] != 3 for row in rows_of(made))
    which = f"{fewer} partitions that it follows get a new leader epoch, and acks=all may wait for it there until it is out of"
    (note,) = [each for each in made.notes if each.startswith(TOLD.format(3))]
    assert which in note
    assert "`shunter throttles clear`" in note
    back = replace(cluster, leader=np.array([0, 1, 2, 0]), replicas=np.array([row[::-1] for row in [[3, 1, 0]] * 4]))
    again = plan(back, PlanRequest(scope, (0,) if scope is Scope.DEMOTE else ()))
    more = sum(row[0] == 3 for row in rows_of(again))
    assert (f"it leads {more} more partition" in " ".join(again.notes)) is (more > 0)


def test_a_broker_without_replicas_that_is_fenced_is_said_to_be_so_where_a_topic_names_it() -> None:
    cluster = cluster_of(["a"] * 3, [("t", [0, 1, 2], 1.0)])
    with pytest.raises(PlanRefused, match="broker 7 is fenced: it may receive nothing"):
        plan(cluster, PlanRequest(Scope.TOPICS, wishes=(TopicWish("t", brokers=(0, 1, 7)),)), frozenset({7}))
