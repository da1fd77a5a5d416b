"""Properties of every plan, whatever the cluster."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_clusters import cluster_of, clusters, held_by, rack_spread, within_bands

from shunter.core.planning.balance import plan
from shunter.core.planning.bounds import byte_bound, joint_bound
from shunter.core.planning.cluster import ABSENT, ClusterLoad
from shunter.core.planning.explain import broker_changes, move_reasons, summarise
from shunter.core.planning.moves import BalancedPlan
from shunter.core.planning.request import SPENT, PlanRequest, Scope

FEW = max(1, settings().max_examples // 3)
"""The number of examples if each one plans twice, or solves a linear programme."""


def assert_sound(made: BalancedPlan) -> None:
    """Check that no broker holds a partition twice, no replica is lost, and exactly the listed moves are made."""
    for partition, row in enumerate(made.replicas.tolist()):
        kept = [broker for broker in row if broker != ABSENT]
        assert len(set(kept)) == len(kept)
        assert row[: len(kept)] == kept, "replicas are packed to the left"
        if made.request.scope is not Scope.CHANGE_REPLICATION:
            assert len(kept) == made.cluster.replication[partition]
    old = [set(row) - {ABSENT} for row in made.cluster.replicas.tolist()]
    new = [set(row) - {ABSENT} for row in made.replicas.tolist()]
    copied = [(at, broker) for at in range(len(old)) for broker in sorted(new[at] - old[at])]
    told = sorted(zip(made.moves.partition.tolist(), made.moves.target.tolist(), strict=True))
    assert told == copied
    assert made.bytes_moved == sum(made.cluster.sizes[at] for at, _ in copied)


def again(made: BalancedPlan) -> BalancedPlan:
    return plan(replace(made.cluster, replicas=made.replicas), made.request)


def unevenness(cluster: ClusterLoad, row: list[int]) -> int:
    held = rack_spread(cluster, row)
    return max(held) - min(held)


@given(clusters(), st.sampled_from([Scope.REBALANCE, Scope.LEADERS, Scope.FIX_RACKS]))
def test_a_plan_is_sound_and_its_own_result_needs_no_plan(cluster: ClusterLoad, scope: Scope) -> None:
    made = plan(cluster, PlanRequest(scope=scope))
    assert_sound(made)
    assert again(made).changed.tolist() == []


@settings(max_examples=FEW)
@given(clusters(with_rates=True))
def test_a_plan_by_rates_is_sound_and_idempotent(cluster: ClusterLoad) -> None:
    made = plan(cluster, PlanRequest())
    assert_sound(made)
    assert again(made).changed.tolist() == []


@settings(max_examples=FEW)
@given(clusters())
def test_the_same_question_has_the_same_answer(cluster: ClusterLoad) -> None:
    first, second = plan(cluster, PlanRequest()), plan(cluster, PlanRequest())
    assert np.array_equal(first.replicas, second.replicas)
    assert first.undone == second.undone


@given(clusters())
def test_racks_are_shared_as_evenly_as_their_brokers_allow(cluster: ClusterLoad) -> None:
    made = plan(cluster, PlanRequest())
    sizes = np.bincount(cluster.rack_of, minlength=len(cluster.racks))
    for row in made.replicas.tolist():
        held = rack_spread(cluster, row)
        for full in range(len(held)):
            for spare in range(len(held)):
                room = held[spare] < sizes[spare]
                assert not (room and held[full] - held[spare] >= 2), f"{held} with racks of {sizes.tolist()}"


@given(clusters(clean_racks=True), st.floats(0, 40), st.integers(0, 30))
def test_caps_hold(cluster: ClusterLoad, percent: float, moves: int) -> None:
    made = plan(cluster, PlanRequest(max_bytes_percent=percent, max_moves=moves))
    assert_sound(made)
    assert len(made.moves) <= moves
    assert made.bytes_moved <= made.total_bytes * percent / 100 * (1 + 1e-9)


@given(clusters(), st.sampled_from((Scope.REBALANCE, Scope.FIX_RACKS, Scope.DRAIN, Scope.FILL)), st.data())
def test_a_cap_tells_only_where_the_plan_without_it_does_not_fit(
    cluster: ClusterLoad, scope: Scope, data: st.DataObject
) -> None:
    asked = PlanRequest(scope, brokers=(0,) if scope in {Scope.DRAIN, Scope.FILL} else ())
    free = plan(cluster, asked)
    moves = data.draw(st.integers(0, len(free.moves) + 1))
    made = plan(cluster, replace(asked, max_moves=moves))
    assert len(made.moves) <= moves
    if moves >= len(free.moves):
        assert made.replicas.tolist() == free.replicas.tolist()
        assert (made.undone, made.notes) == (free.undone, free.notes)
    assert not any("the cap" in each.why for each in free.undone)
    if any(each.why == SPENT for each in made.undone):
        assert len(made.moves) == moves
    percent = 100 * free.bytes_moved / free.total_bytes if free.total_bytes else 0.0
    assert plan(cluster, replace(asked, max_bytes_percent=percent * (1 + 1e-12))).undone == free.undone


@given(clusters(), st.data())
def test_drained_brokers_are_empty_or_the_plan_says_why(cluster: ClusterLoad, data: st.DataObject) -> None:
    broker = data.draw(st.sampled_from(cluster.brokers))
    if int(cluster.replication.max()) > len(cluster.brokers) - 1:
        return
    made = plan(cluster, PlanRequest(scope=Scope.DRAIN, brokers=(broker,)))
    assert_sound(made)
    assert made.undone == ()
    assert held_by(made.replicas, broker) == 0
    assert set(made.moves.source.tolist()) <= {broker}, "nothing else moves"
    assert made.bytes_moved == byte_bound(cluster, made.request, made.targets).size


@given(clusters(), st.data())
def test_what_is_excluded_stays(cluster: ClusterLoad, data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from(cluster.topics))
    broker = data.draw(st.sampled_from(cluster.brokers))
    made = plan(cluster, PlanRequest(excluded_topics=(topic,), excluded_brokers=(broker,)))
    assert_sound(made)
    fixed = np.array([cluster.topics[at] == topic for at in cluster.topic_of.tolist()])
    assert np.array_equal(made.replicas[fixed], cluster.replicas[fixed])
    assert broker not in made.moves.target.tolist()


@given(clusters(), st.integers(1, 3))
def test_the_replication_factor_becomes_what_was_asked(cluster: ClusterLoad, replication: int) -> None:
    made = plan(cluster, PlanRequest(scope=Scope.CHANGE_REPLICATION, replication=replication))
    assert_sound(made)
    assert ((made.replicas != ABSENT).sum(axis=1) == replication).all()
    assert np.array_equal(made.replicas[:, 0], cluster.replicas[:, 0]), "the preferred leader stays"
    assert again(made).changed.tolist() == []


@settings(max_examples=FEW)
@given(clusters(), st.integers(5, 40))
def test_no_broker_gets_more_replicas_than_allowed(cluster: ClusterLoad, most: int) -> None:
    made = plan(cluster, PlanRequest(max_replicas=most))
    for broker in range(len(cluster.brokers)):
        before = held_by(cluster.replicas, broker)
        assert held_by(made.replicas, broker) <= max(most, before)


@settings(max_examples=FEW)
@given(clusters(clean_racks=True))
def test_no_plan_in_the_band_beats_the_bounds(cluster: ClusterLoad) -> None:
    made = plan(cluster, PlanRequest())
    if not within_bands(made):
        return
    slack = 1e-6 * made.total_bytes + 1e-6
    assert byte_bound(cluster, made.request, made.targets).size <= made.bytes_moved + slack
    assert joint_bound(cluster, made.targets).size <= made.bytes_moved + slack


@given(clusters())
def test_every_copy_has_its_reason_and_every_broker_its_figures(cluster: ClusterLoad) -> None:
    made = plan(cluster, PlanRequest())
    reasons = list(move_reasons(made))
    assert len(reasons) == len(made.moves)
    assert all(move.reason for move in reasons)
    told = summarise(made, None)
    assert sum(count for _, count in told.reasons) == len(reasons)
    for change in broker_changes(made):
        (_, before, after) = next(load for load in change.loads if load[0] == "replicas")
        assert (round(before), round(after)) == (
            held_by(cluster.replicas, change.broker),
            held_by(made.replicas, change.broker),
        )
    assert within_bands(made) or made.undone, "what is outside its band is named"


def test_what_a_later_pass_brought_home_is_not_taken_away_again_beyond_the_cap() -> None:
    """Found by an hour of the planner's generator, seed 291129001: 52 moves under a cap of 51."""
    rows = (
        "t2 2041 66, t1 2014 116, t1 021 150, t2 01 78, t3 03 3178, t3 14 23, t3 1032 69, t0 30 554, t2 0 300, "
        "t2 01 6780, t2 0123 329, t3 0123 149, t1 031 174, t3 104 386, t1 20 555, t0 03 933, t1 0 337, t3 04 143, "
        "t3 0214 103, t0 0312 161, t4 410 75, t0 43 18, t0 402 220, t4 01 538, t1 10 241, t1 4301 124, t0 1 37, t1 0 607"
    )
    read = [(topic, [*map(int, held)], float(size)) for topic, held, size in map(str.split, rows.split(", "))]
    cluster = cluster_of(["r0", "r1", "r2", "r3", "r0", "r1"], read)
    for moves in range(len(plan(cluster, PlanRequest()).moves)):
        assert len(plan(cluster, PlanRequest(max_moves=moves)).moves) <= moves
