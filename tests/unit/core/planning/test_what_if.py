"""What if: each answer compared with figures counted by hand, or by a loop that does not use the planner."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_clusters import cluster_of, clusters

from shunter.core.planning.cluster import ABSENT, ClusterLoad
from shunter.core.planning.request import PlanRefused, PlanRequest
from shunter.core.planning.what_if import ChangeAnswer, ClusterChange, answer, changed, fewest_brokers
from shunter.model.inventory import BrokerFacts, Disk

FEW = max(1, settings().max_examples // 5)
"""The number of examples if each one plans several times."""


def yard() -> ClusterLoad:
    """Two racks of two brokers with disks of 100; sixteen partitions of 10, twice each: 80 of 100 on every disk."""
    pairs = [[0, 1], [1, 0], [2, 3], [3, 2]]
    rows = [("a" if at % 2 else "b", pairs[at % 4], 10.0) for at in range(16)]
    return cluster_of(["r0", "r1", "r0", "r1"], rows, disk_capacity=[100.0] * 4, rates=[(1.0, 3.0)] * 16)


def disks(found: ChangeAnswer) -> dict[int, tuple[float, float]]:
    """Broker → how full its disk is, before and after."""
    return {one.broker: (one.before, one.after) for one in found.fills() if one.resource == "disk"}


def test_brokers_that_do_not_exist_yet_take_their_part() -> None:
    found = answer(yard(), ClusterChange(added=2), PlanRequest(headroom=0.3))
    assert (found.added, found.lost, found.survival) == ((4, 5), (), None)
    racks = {one.broker: one.rack for one in found.fills()}
    assert (racks[4], racks[5]) == ("r0", "r1"), "the racks with the fewest, by name"
    told = disks(found)
    assert [told[broker][0] for broker in range(6)] == [0.8] * 4 + [0.0] * 2
    # 320 over six brokers are 53 each. Partitions are tens, and the band is a tenth.
    assert all(0.5 <= after <= 0.6 for _, after in told.values())
    assert found.fits
    assert not answer(yard(), ClusterChange(), PlanRequest(headroom=0.3)).fits
    # 320 - 4 x 53.3 come to the new brokers. Each of these receives half, at 10 a second.
    assert found.least_seconds(10.0) == pytest.approx(disks(found)[4][1] * 10, abs=1.0)


def test_what_others_use_of_a_disk_is_not_there_for_replicas_and_who_is_dead_gets_none() -> None:
    facts = tuple(BrokerFacts(True, log_dirs=(Disk("/a", 100.0, usable),)) for usable in (20.0, 20.0, 5.0))
    cluster = replace(yard(), facts=(*facts, BrokerFacts(live=False)))
    assert cluster.disk_capacity is not None
    larger = changed(cluster, ClusterChange(added=1, disk=200.0))
    assert larger.disk_capacity is not None
    assert larger.disk_capacity.tolist() == [100.0, 100.0, 85.0, 100.0, 200.0]
    found = answer(cluster, ClusterChange(added=2), PlanRequest(headroom=0.1)).plan
    assert 3 not in found.moves.target.tolist()


def test_new_brokers_in_racks_of_their_own() -> None:
    larger = changed(yard(), ClusterChange(added=3, racks=("a-new-one", "r1"), disk=500.0))
    assert (larger.brokers, larger.racks) == (tuple(range(7)), ("a-new-one", "r0", "r1"))
    assert [larger.racks[rack] for rack in larger.rack_of] == ["r0", "r1", "r0", "r1", "a-new-one", "r1", "a-new-one"]
    assert larger.disk_capacity is not None
    assert larger.disk_capacity.tolist() == [100.0] * 4 + [500.0] * 3
    assert larger.bytes_in_capacity is None, "nobody knows one"


def test_what_is_given_stands_in_for_a_room_that_nobody_knows() -> None:
    cluster = replace(yard(), disk_capacity=np.array([100.0, np.inf, 60.0, 100.0]))
    for given_room, expected in ((70.0, 70.0), (None, 100.0)):
        found = changed(cluster, ClusterChange(added=1, disk=given_room)).disk_capacity
        assert found is not None
        assert found.tolist() == [100.0, expected, 60.0, 100.0, expected]


def test_another_retention_and_another_traffic() -> None:
    found = answer(yard(), ClusterChange(retention=(("a", 0.5), ("*", 2.0)), traffic=3.0), PlanRequest())
    assert sum(before for before, _ in disks(found).values()) == pytest.approx((8 * 2 * 5 + 8 * 2 * 20) / 100)
    assert found.plan.cluster.bytes_in is not None
    assert found.plan.cluster.bytes_in.tolist() == [3.0] * 16
    with pytest.raises(
        PlanRefused, match=r"retention: no topic of this cluster fits 'c\*'; it has a, b \('\*' means all topics\)"
    ):
        answer(yard(), ClusterChange(retention=(("c*", 0.5),)), PlanRequest())


def test_another_replication_factor_for_some_topics() -> None:
    found = answer(yard(), ClusterChange(replication=1, topics=("b",)), PlanRequest())
    assert found.reached
    names = np.array(found.plan.cluster.topics)[found.plan.cluster.topic_of]
    held = (found.plan.replicas != ABSENT).sum(axis=1)
    assert held[names == "b"].tolist() == [1] * 8
    assert held[names == "a"].tolist() == [2] * 8
    assert sum(after for _, after in disks(found).values()) == pytest.approx(2.4)


def test_a_lost_rack() -> None:
    cluster = replace(yard(), min_isr=np.array([2] * 4 + [1] * 12, dtype=np.int32))
    alone = cluster_of(["r0", "r1", "r0", "r1"], [("b", [0, 2], 10.0)])
    cluster = replace(
        cluster,
        replicas=np.concatenate([alone.replicas, cluster.replicas[1:]]),
    )
    found = answer(cluster, ClusterChange(lost_racks=("r0",)), PlanRequest(headroom=0.0))
    assert found.lost == (0, 2)
    assert found.survival is not None
    assert found.survival.unavailable == ("b-0",)
    assert found.survival.below_min_isr == ("a-0", "b-1", "a-1")
    # Two brokers can't hold 320. They get what fits, and the rest is reported as undone.
    assert not found.reached
    assert any("stays on broker" in one.what for one in found.plan.undone)
    assert any(
        one.stood_in == pytest.approx(0.8) for one in found.fills() if one.broker == 3 and one.resource == "disk"
    )
    with pytest.raises(PlanRefused, match="no rack 'r9'; it has r0, r1"):
        answer(cluster, ClusterChange(lost_racks=("r9",)), PlanRequest())


def test_the_fewest_brokers_that_hold_a_headroom() -> None:
    # 320 of 400 are full. With 40 % free it takes 533, which is two more disks of 100.
    found = fewest_brokers(yard(), ClusterChange(), PlanRequest(headroom=0.4))
    assert found.fits
    assert len(found.added) == 2
    assert fewest_brokers(yard(), ClusterChange(), PlanRequest(headroom=0.2)).added == ()
    # If one rack is lost, both its brokers have to be replaced by new ones.
    lost = fewest_brokers(yard(), ClusterChange(lost_racks=("r0",)), PlanRequest(headroom=0.2))
    assert (lost.fits, len(lost.added)) == (True, 2)
    never = fewest_brokers(yard(), ClusterChange(), PlanRequest(headroom=0.4), most=1)
    assert (never.fits, len(never.added)) == (False, 1)


def test_the_fewest_brokers_for_a_replication_factor_that_no_broker_is_there_for() -> None:
    found = fewest_brokers(yard(), ClusterChange(replication=6, disk=1_000.0), PlanRequest(headroom=0.2))
    assert found.fits
    assert found.plan.replicas.shape == (16, 6)


def test_without_any_capacity_nobody_knows() -> None:
    cluster = replace(yard(), disk_capacity=None)
    with pytest.raises(PlanRefused, match="no capacity is known; give the disks of new brokers"):
        fewest_brokers(cluster, ClusterChange(), PlanRequest())


@settings(max_examples=FEW, deadline=None)
@given(clusters(with_rates=True), st.floats(0.1, 0.6), st.floats(0.6, 3.0))
def test_one_broker_fewer_does_not_fit(cluster: ClusterLoad, headroom: float, roomy: float) -> None:
    total = float((cluster.sizes * cluster.replication).sum())
    each = max(float(cluster.sizes.max()) * 4, total / len(cluster.brokers)) * roomy
    request = PlanRequest(headroom=headroom)
    full = replace(cluster, disk_capacity=np.full(len(cluster.brokers), each))
    found = fewest_brokers(full, ClusterChange(), request, most=40)
    held = np.zeros(len(found.plan.cluster.brokers))
    for size, row in zip(cluster.sizes.tolist(), found.plan.replicas.tolist(), strict=True):
        for broker in row:
            if broker != ABSENT:
                held[broker] += size
    assert found.fits == bool((held <= each * (1 - headroom) * (1 + 1e-5)).all())
    if found.fits and found.added:
        fewer = answer(full, ClusterChange(added=len(found.added) - 1), request)
        assert not fewer.fits
