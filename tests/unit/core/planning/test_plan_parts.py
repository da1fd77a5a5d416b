"""The parts of a plan, log dirs within brokers too, each on a cluster that can be checked by eye."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_clusters import cluster_of, held_by, rack_spread, within_bands

from shunter.core.planning.aims import targets
from shunter.core.planning.balance import plan
from shunter.core.planning.bounds import Bound, byte_bound, joint_bound
from shunter.core.planning.cluster import ABSENT, Resource
from shunter.core.planning.disks import DisksPlan, plan_disks
from shunter.core.planning.explain import summarise
from shunter.core.planning.moves import Undone, difference
from shunter.core.planning.racks import RackRules
from shunter.core.planning.reached import _told_apart
from shunter.core.planning.request import EMPTYING, MEASURED, PlanRefused, PlanRequest, Scope
from shunter.core.planning.transport import _in_parts, choose
from shunter.model.inventory import BrokerDisks, BrokerFacts, Disk, DiskReplica

THREE_RACKS = ["a", "b", "c", "a", "b", "c"]
BAND = 0.1


def rules_of(*sizes: int) -> RackRules:
    rack_of = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    return RackRules(rack_of, np.ones(len(rack_of), dtype=np.bool_), len(sizes))


@pytest.mark.parametrize(
    ("sizes", "replicas", "ceiling"),
    [((3, 3, 3), 3, 1), ((3, 3, 3), 4, 2), ((3, 3, 3), 2, 1), ((1, 5), 4, 3), ((4,), 3, 3), ((2, 2), 9, 2)],
)
def test_the_ceiling_of_a_rack(sizes: tuple[int, ...], replicas: int, ceiling: int) -> None:
    assert rules_of(*sizes).ceiling(replicas) == ceiling


@pytest.mark.parametrize(
    ("row", "uneven"),
    [([0, 2], False), ([0, 1], True), ([0, 2, 4], False), ([0, 1, 2, 4], False), ([0, 1, 2, 3], True), ([0], False)],
)
def test_uneven_rows_of_three_racks_with_two_brokers(row: list[int], uneven: bool) -> None:
    padded = np.array([row + [ABSENT] * (4 - len(row))], dtype=np.int32)
    assert rules_of(2, 2, 2).uneven(padded).tolist() == [uneven]


@pytest.mark.parametrize(("sizes", "row", "uneven"), [((3,), [0, 1, 2], False), ((3, 2), [0, 1, 2], True)])
def test_a_dead_broker_makes_no_rack_uneven_that_no_other_could_relieve(
    sizes: tuple[int, ...], row: list[int], uneven: bool
) -> None:
    """One rack of three brokers, one of them dead: each partition of three replicas was "in shared racks"."""
    rack_of = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    rules = RackRules(rack_of, np.arange(len(rack_of)) != 2, len(sizes))
    assert rules.uneven(np.array([row], dtype=np.int32)).tolist() == [uneven]


def test_openings_with_more_replicas_than_racks() -> None:
    # Racks of two: with one replica in each of the first two racks and four wanted, the third must come first.
    opened = rules_of(2, 2, 2).openings([0, 1, 2], 4, -1)
    assert np.isfinite(opened).tolist() == [False, False, False, False, True, True]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.floats(0.01, 0.9), st.integers(1, 50))
def test_chosen_items_keep_to_the_number_and_come_near_the_sum(sizes: list[float], part: float, most: int) -> None:
    values = np.array(sizes)
    amount = part * float(values.sum())
    chosen = choose(values, amount, least=0, most=most)
    assert len(set(chosen.tolist())) == len(chosen) <= most
    if most >= len(sizes):
        assert abs(float(values[chosen].sum()) - amount) <= float(values.max())


def test_more_items_are_chosen_when_more_must_go() -> None:
    values = np.exp(np.random.default_rng(5).normal(0, 1.5, 400))
    amount = 0.1 * float(values.sum())
    few, many = (choose(values, amount, least=least, most=400) for least in (0, 200))
    assert len(few) < 100
    assert len(many) >= 190
    assert float(values[many].sum()) == pytest.approx(amount, rel=0.05)


def test_difference_pairs_who_comes_with_who_goes_and_order_is_free() -> None:
    old = np.array([[0, 1, 2], [3, 4, 5]], dtype=np.int32)
    new = np.array([[2, 0, 1], [3, 1, 0]], dtype=np.int32)
    marks = np.zeros((2, 3), dtype=np.int8)
    moves, dropped = difference(old, new, np.array([10.0, 20.0]), marks, marks)
    assert moves.partition.tolist() == [1, 1]
    assert moves.source.tolist() == [4, 5]
    assert moves.target.tolist() == [1, 0]
    assert dropped == 0


def test_a_balanced_cluster_is_left_alone() -> None:
    cluster = cluster_of(THREE_RACKS, [("t", [0, 1], 10), ("t", [2, 3], 10), ("t", [4, 5], 10)])
    assert plan(cluster, PlanRequest()).changed.tolist() == []


def test_new_brokers_are_filled_with_as_little_as_the_band_asks() -> None:
    rows = [(f"t{at % 7}", [at % 4], 10.0) for at in range(400)]
    made = plan(cluster_of(["a"] * 5, rows), PlanRequest())
    assert within_bands(made)
    # A fifth of the mean stays where it is: 72 replicas make 0.9 of the new broker's share of 80.
    assert held_by(made.replicas, 4) in {72, 73}
    assert set(made.moves.target.tolist()) == {4}


def test_a_band_is_reached_where_one_replica_is_more_than_what_lacks() -> None:
    """With six of twenty-four equal replicas a new broker lacks four fifths of a replica, and no smaller one exists."""
    cluster = cluster_of(["r"] * 3, [("t", [n % 2, 1 - n % 2], 100.0) for n in range(12)])
    made = plan(cluster, PlanRequest(scope=Scope.REBALANCE, band=0.15, aims=(Resource.DISK,)))
    assert held_by(made.replicas, 2) == 7
    assert made.undone == ()


def test_leaders_are_balanced_by_order_alone() -> None:
    rows = [("t", [0, 1, 2], 10.0) for _ in range(30)]
    made = plan(cluster_of(["a", "b", "c"], rows), PlanRequest(scope=Scope.LEADERS))
    assert len(made.moves) == 0
    assert np.bincount(made.replicas[:, 0]).tolist() in ([11, 10, 9], [11, 9, 10], [10, 10, 10])
    assert made.order_only == len(made.changed) == made.leader_changes


def test_leaders_move_along_a_chain_where_no_direct_way_is() -> None:
    # Broker 0 leads too much and shares partitions only with 1; broker 1 shares some with 2, which leads nothing.
    rows = [("t", [0, 1], 1.0) for _ in range(8)] + [("t", [1, 2], 1.0) for _ in range(4)]
    made = plan(cluster_of(["a", "b", "c"], rows), PlanRequest(scope=Scope.LEADERS))
    assert np.bincount(made.replicas[:, 0], minlength=3).tolist() == [4, 4, 4]


def test_leaders_that_cannot_be_evened_out_are_levelled_and_named() -> None:
    rows = [("t", [0, 1], 1.0) for _ in range(12)] + [("t", [2], 1.0)]
    made = plan(cluster_of(["a", "b", "c"], rows), PlanRequest(scope=Scope.LEADERS))
    assert np.bincount(made.replicas[:, 0], minlength=3).tolist() == [6, 6, 1]
    assert {left.what.split(":")[0] for left in made.undone} == {"broker 0", "broker 1", "broker 2"}


def test_replicas_that_share_a_rack_are_parted() -> None:
    cluster = cluster_of(THREE_RACKS, [("t", [0, 3], 10), ("t", [1, 2], 10)])
    made = plan(cluster, PlanRequest(scope=Scope.FIX_RACKS))
    assert len(made.moves) == 1
    assert max(rack_spread(cluster, made.replicas[0].tolist())) == 1
    assert made.replicas[0, 0] == 0, "the leader stays"
    assert summarise(made, None).reasons[0] == ("its partition shared a rack without need", 1)


def test_where_no_size_is_known_no_plan_has_to_copy_a_percentage() -> None:
    made = plan(cluster_of(THREE_RACKS, [("t", [0], 0.0)]), PlanRequest())
    told = summarise(made, Bound(0.9, "disk"), Bound(0.9, "disk"))
    assert (told.bytes_percent, told.bound_percent, told.joint_percent) == (0.0, 0.0, 0.0)


def test_four_replicas_in_three_racks_use_all_three() -> None:
    cluster = cluster_of(THREE_RACKS + THREE_RACKS, [("t", [0, 3, 6, 9], 10)])
    made = plan(cluster, PlanRequest())
    assert sorted(rack_spread(cluster, made.replicas[0].tolist())) == [1, 1, 2]


def test_a_replacement_takes_the_same_places() -> None:
    cluster = cluster_of(["a", "b", "a"], [("t", [0, 1], 10), ("u", [1, 0], 5)])
    made = plan(cluster, PlanRequest(scope=Scope.REPLACE, brokers=(0,), replacements=(2,)))
    assert made.replicas.tolist() == [[2, 1], [1, 2]]
    assert made.undone == ()


def test_a_replacement_that_cannot_take_all_says_so() -> None:
    cluster = cluster_of(["a", "b", "b", "a"], [("t", [0, 1], 10)])
    made = plan(cluster, PlanRequest(scope=Scope.REPLACE, brokers=(0,), replacements=(2,)))
    assert made.replicas.tolist() == [[3, 1]]
    assert made.undone[0].what == "1 replica can't go to the replacement (t-0)"


def test_a_full_disk_is_emptied_to_the_limit_and_no_further() -> None:
    rows = [("t", [0], 10.0) for _ in range(10)] + [("t", [1], 10.0), ("t", [2], 10.0)]
    cluster = cluster_of(["a", "b", "c"], rows, disk_capacity=[100, 100, 100])
    made = plan(cluster, PlanRequest(scope=Scope.EMPTY_DISKS, disk_limit=0.8))
    assert [held_by(made.replicas, broker) for broker in range(3)] in ([8, 2, 2], [8, 3, 1], [8, 1, 3])


def test_capacity_with_headroom_is_never_passed_not_even_while_copying() -> None:
    # Broker 1 has room for two more replicas, whatever leaves it.
    rows = [("t", [0], 10.0) for _ in range(20)] + [("u", [1], 10.0) for _ in range(2)]
    cluster = cluster_of(["a", "a"], rows, disk_capacity=[1000, 50])
    made = plan(cluster, PlanRequest(headroom=0.2))
    arrived = sum(made.moves.size[made.moves.target == 1])
    assert 20 + arrived <= 40


def test_bigger_disks_carry_more() -> None:
    rows = [("t", [0], 10.0) for _ in range(60)]
    cluster = cluster_of(["a", "a"], rows, disk_capacity=[3000, 1500])
    made = plan(cluster, PlanRequest(aims=(Resource.DISK,)))
    disk = made.after[:, 0]
    assert disk[0] == pytest.approx(2 * disk[1], rel=0.25)


def test_below_min_insync_no_factor_goes() -> None:
    cluster = cluster_of(["a", "b", "c"], [("t", [0, 1, 2], 10), ("u", [0, 1, 2], 10)], min_isr=[2, 1])
    made = plan(cluster, PlanRequest(scope=Scope.CHANGE_REPLICATION, replication=1))
    assert (made.replicas != ABSENT).sum(axis=1).tolist() == [3, 1]
    assert made.dropped == 2
    assert "min.insync.replicas is 2" in made.undone[0].why


def test_new_replicas_go_to_racks_that_have_none() -> None:
    cluster = cluster_of(THREE_RACKS, [("t", [0, 1], 10), ("t", [1, 2], 10)])
    made = plan(cluster, PlanRequest(scope=Scope.CHANGE_REPLICATION, replication=3))
    assert [max(rack_spread(cluster, row)) for row in made.replicas.tolist()] == [1, 1]
    assert made.moves.source.tolist() == [ABSENT, ABSENT]


def test_hot_but_small_partitions_move_for_their_rates() -> None:
    rows = [("t", [0], 10.0) for _ in range(20)] + [("u", [1], 10.0) for _ in range(20)]
    rates = [(100.0, 0.0)] * 20 + [(1.0, 0.0)] * 20
    made = plan(cluster_of(["a", "a"], rows, rates=rates), PlanRequest())
    before, after = (made.share(loads, Resource.BYTES_IN) for loads in (made.before, made.after))
    assert before.max() > 1.9
    assert after.max() <= 1.1 + 1e-9
    assert made.share(made.after, Resource.DISK).max() <= 1.1 + 1e-9


def test_bytes_out_follow_the_leader_with_replication() -> None:
    cluster = cluster_of(["a", "b"], [("t", [0, 1], 10)], rates=[(7.0, 5.0)])
    made = plan(cluster, PlanRequest(scope=Scope.LEADERS))
    out = made.targets.resources.index(Resource.BYTES_OUT)
    assert made.before[:, out].tolist() == [12.0, 0.0]


def test_a_rack_too_small_for_its_share_is_named() -> None:
    racks = ["a", "a", "a", "b", "b", "b", "c"]
    rows = [("t", [at % 3, 3 + at % 3, 6], 10.0) for at in range(60)]
    made = plan(cluster_of(racks, rows), PlanRequest())
    assert "rack c: its 1 broker carries about 2.33 of the mean each" in [left.what for left in made.undone]


def test_a_partition_too_large_for_the_band_is_named() -> None:
    rows = [("giant", [0], 1000.0)] + [("t", [at % 3], 10.0) for at in range(30)]
    made = plan(cluster_of(["a", "a", "a"], rows), PlanRequest(aims=(Resource.DISK,)))
    assert any("giant-0 alone is" in left.why for left in made.undone)


def test_a_topic_is_spread_when_that_is_an_aim() -> None:
    rows = [("t", [0], 10.0) for _ in range(10)] + [("u", [1], 10.0) for _ in range(10)]
    made = plan(cluster_of(["a", "a"], rows), PlanRequest(spread_topics=True))
    held = made.replicas[:10, 0].tolist()
    assert max(held.count(0), held.count(1)) <= 6


def test_the_bounds_of_an_empty_broker() -> None:
    cluster = cluster_of(["a"] * 3, [("t", [at % 2], 10.0) for at in range(60)])
    goal = targets(cluster, PlanRequest())
    # The empty broker must reach 0.9 of the mean of 200; the full ones together must lose 2 * 80, which is less.
    assert byte_bound(cluster, PlanRequest(), goal).size == pytest.approx(180)
    assert joint_bound(cluster, goal).size == pytest.approx(180, rel=1e-6)


def test_the_joint_bound_sees_that_small_replicas_are_not_enough_for_counts() -> None:
    # Disk is even; broker 0 has ten times the replicas of broker 1, so some must go, and bytes with them.
    rows = [("t", [0], 10.0) for _ in range(100)] + [("u", [1], 100.0) for _ in range(10)]
    cluster = cluster_of(["a", "a"], rows)
    goal = targets(cluster, PlanRequest())
    joint, simple = joint_bound(cluster, goal), byte_bound(cluster, PlanRequest(), goal)
    assert joint.size >= simple.size > 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (PlanRequest(scope=Scope.DRAIN), "drain names no broker"),
        (PlanRequest(scope=Scope.DRAIN, brokers=(9,)), "the cluster has no broker 9"),
        (PlanRequest(excluded_topics=("x",)), "the cluster has no topic 'x'"),
        (PlanRequest(scope=Scope.DRAIN, brokers=(0, 1, 2)), "no broker is left"),
        (PlanRequest(scope=Scope.CHANGE_REPLICATION, replication=4), "replication factor 4 needs 4 brokers, and 3"),
        (PlanRequest(scope=Scope.CHANGE_REPLICATION), "replication factor 0 is below 1"),
        (PlanRequest(scope=Scope.REPLACE, brokers=(1,), replacements=(1,)), "do not pair up"),
        (PlanRequest(scope=Scope.EMPTY_DISKS), "disk limit None is not a positive share"),
        (PlanRequest(band=0), "band 0 is not between 0 and 1"),
        (PlanRequest(headroom=1), "headroom 1 is not between 0 and 1"),
        (PlanRequest(max_bytes_percent=-1), "max bytes percent -1 is negative"),
        (PlanRequest(max_bytes_percent=float("nan")), "max bytes percent nan is negative"),
        (PlanRequest(max_moves=-1), "max moves -1 is negative"),
    ],
)
def test_what_no_plan_can_serve_is_refused(asked: PlanRequest, said: str) -> None:
    cluster = cluster_of(["a", "b", "c"], [("t", [0, 1, 2], 10)])
    with pytest.raises(PlanRefused, match=said):
        plan(cluster, asked)


def test_a_drain_does_what_can_be_done_and_names_what_no_other_broker_can_take() -> None:
    cluster = cluster_of(["a", "b", "c"], [("t", [0, 1, 2], 10), ("u", [1, 0], 10), ("v", [1], 5)])
    made = plan(cluster, PlanRequest(scope=Scope.DRAIN, brokers=(1,)))
    assert made.undone == (Undone("t-0 stays on broker 1", "every broker has a replica of it"),)
    assert held_by(made.replicas, 1) == 1


@pytest.mark.parametrize("seed", [3, 4])
def test_a_skewed_cluster_with_new_brokers_comes_into_the_band_near_the_bound(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    racks = [f"rack-{broker % 3}" for broker in range(18)]
    rows: list[tuple[str, list[int], float]] = []
    for topic in range(100):
        middle = drawn.normal(5, 1.5)
        for _ in range(15):
            keys = drawn.random(15) * np.sqrt(np.arange(1, 16))
            best = [min(range(rack, 15, 3), key=lambda broker: keys[broker]) for rack in range(3)]
            size = float(int(np.exp(drawn.normal(middle, 0.5)) * 1024))
            rows.append((f"t{topic:03d}", sorted(best, key=lambda broker: keys[broker]), size))
    made = plan(cluster_of(racks, rows), PlanRequest())
    assert within_bands(made)
    assert made.undone == ()
    bound = joint_bound(made.cluster, made.targets).size
    assert made.bytes_moved <= bound + 0.01 * made.total_bytes
    capped = plan(made.cluster, PlanRequest(max_bytes_percent=5))
    even = made.total_bytes * 0.05 / 3
    for resource, worst in ((Resource.DISK, 1.0), (Resource.REPLICAS, 1.0)):
        before, after = capped.share(capped.before, resource), capped.share(capped.after, resource)
        assert after.max() < before.max() * worst
        assert after.min() > before.min()
    assert capped.bytes_moved >= 0.9 * 3 * even, "a cap is used up where there is something to gain"


def test_a_cap_that_is_too_small_for_a_swap_says_what_it_leaves() -> None:
    cluster = cluster_of(["a", "a"], [("t", [0], 70.0), ("t", [0], 50.0), ("t", [1], 45.0), ("t", [1], 35.0)])
    assert len(plan(cluster, PlanRequest(aims=(Resource.DISK,))).moves) == 2
    made = plan(cluster, PlanRequest(aims=(Resource.DISK,), max_moves=1))
    assert len(made.moves) == 0
    why = "the cap leaves 1 of 1 move, too little for what would come next (without a cap: 2 moves)"
    assert {each.why for each in made.undone} == {why}
    made = plan(cluster, PlanRequest(aims=(Resource.DISK,), max_bytes_percent=20))
    assert {each.why for each in made.undone} == {
        "the cap leaves 20.00 of 20 % of all bytes, too little for what would come next (without a cap: 42.50 %)"
    }


def test_what_finds_no_broker_uses_up_no_cap() -> None:
    cluster = cluster_of(["a", "b", "c"], [("t", [0, 1, 2], 1), ("u", [1, 0], 10), ("v", [1], 50)])
    made = plan(cluster, PlanRequest(scope=Scope.DRAIN, brokers=(1,), max_moves=1))
    assert [cluster.topics[at] for at in made.moves.partition] == ["u"]
    assert made.undone == (
        Undone("1 replica stays on broker 1 (v-0)", "the cap on bytes or moves is spent"),
        Undone("t-0 stays on broker 1", "every broker has a replica of it"),
    )


def test_no_more_is_moved_than_the_band_asks_for() -> None:
    # Broker 0 is at 115 of a mean of 102.5, and 112.75 is allowed, so moving the small replica is enough.
    rows = [("t", [0], 10.0) for _ in range(11)] + [("t", [0], 5.0)] + [("u", [1], 10.0) for _ in range(9)]
    made = plan(cluster_of(["a", "a"], rows), PlanRequest(aims=(Resource.DISK,)))
    assert within_bands(made)
    assert made.bytes_moved == 5.0


def test_a_broker_outside_its_band_is_told_with_the_way_it_would_have_to_go() -> None:
    """Three partitions of one size on two brokers: one has too much, the other too little, and no move helps."""
    rows = [("t", [0], 10.0), ("t", [0], 10.0), ("t", [1], 10.0)]
    made = plan(cluster_of(["a", "b"], rows), PlanRequest())
    told = {left.what: left.why for left in made.undone}
    above = next(why for what, why in told.items() if "above" in what)
    below = next(why for what, why in told.items() if "below" in what)
    assert "lowers its" in above or "alone is" in above
    assert "raises its" in below


def test_a_load_that_is_just_outside_does_not_look_as_if_it_were_inside() -> None:
    assert _told_apart(1.2, 1.1) == ("1.200", "1.100")
    assert _told_apart(1.10003, 1.1) == ("1.10003", "1.10000")


def broker(number: int, *held: list[int], total: int | None = None, usable: int | None = None) -> BrokerDisks:
    """A broker with log dirs /d0, /d1, … that hold replicas of these sizes."""
    disks = tuple(Disk(f"/d{at}", total, usable) for at in range(len(held)))
    replicas = tuple(
        DiskReplica(f"t{at}", place, f"/d{at}", size)
        for at, sizes in enumerate(held)
        for place, size in enumerate(sizes)
    )
    return BrokerDisks(number, disks, replicas)


def after(found: BrokerDisks, plan: DisksPlan) -> BrokerDisks:
    gone = {
        (move.replica.topic, move.replica.partition): move.target for move in plan.moves if move.broker == found.broker
    }
    moved = [each._replace(log_dir=gone.get((each.topic, each.partition), each.log_dir)) for each in found.replicas]
    return found._replace(replicas=tuple(moved))


def loads(found: BrokerDisks) -> list[int]:
    return [sum(each.size_bytes for each in found.replicas if each.log_dir == disk.path) for disk in found.disks]


def test_the_fullest_gives_to_the_emptiest() -> None:
    yard = broker(1, [40, 30, 20, 10], [], [20])
    plan = plan_disks([yard], band=BAND)
    assert loads(after(yard, plan)) == [40, 40, 40]
    assert plan.undone == ()


@pytest.mark.parametrize("emptied", [(), ((1, "/d0"),)])
def test_nothing_goes_to_a_cordoned_log_dir(emptied: tuple[tuple[int, str], ...]) -> None:
    yard = broker(1, [40, 30, 20, 10], [], [20])
    yard = yard._replace(disks=(yard.disks[0], yard.disks[1]._replace(cordoned=True), yard.disks[2]))
    plan = plan_disks([yard], band=BAND, emptied=emptied)
    assert plan.moves
    assert {move.target for move in plan.moves} == {"/d2"}
    assert plan.notes == ("/d1 of broker 1 is cordoned: nothing comes to it",)


def failing(yard: BrokerDisks, path: str) -> BrokerDisks:
    """The broker after one of its log dirs has failed: its size and replicas are not known any more."""
    return yard._replace(
        disks=tuple(Disk(path, None, None, failed=True) if each.path == path else each for each in yard.disks),
        replicas=tuple(each for each in yard.replicas if each.log_dir != path),
    )


def test_a_log_dir_that_failed_is_left_out_and_named() -> None:
    yard = failing(broker(1, [40, 30, 20, 10], [], [20]), "/d1")
    plan = plan_disks([yard], band=BAND)
    assert {(move.replica.log_dir, move.target) for move in plan.moves} == {("/d0", "/d2")}
    assert plan.undone == ()
    (told,) = plan.notes
    assert told.startswith("/d1 of broker 1 is left out: it failed")
    assert "--scope offline" in told


def test_a_log_dir_that_failed_can_not_be_emptied() -> None:
    yard = failing(broker(1, [40, 30], [7], [20]), "/d1")
    plan = plan_disks([yard], emptied=[(1, "/d1")])
    assert plan.moves == ()
    ((what, why),) = plan.undone
    assert what == "/d1 of broker 1 stays as it is"
    assert "it failed" in why
    both = plan_disks([yard], emptied=[(1, "/d1"), (1, "/d0")])
    assert {(move.replica.log_dir, move.target) for move in both.moves} == {("/d0", "/d2")}
    assert both.undone == plan.undone


def test_one_log_dir_that_works_is_no_choice() -> None:
    plan = plan_disks([failing(broker(1, [40, 30], []), "/d1")])
    assert plan.undone == (("broker 1 stays as it is", "it has no other log dir that works"),)


@pytest.mark.parametrize(
    ("emptied", "why"),
    [
        ((), "its log dirs are cordoned, so nothing comes to them"),
        (((1, "/d0"),), "its other log dirs are cordoned, so nothing comes to them"),
    ],
)
def test_where_every_log_dir_is_cordoned_that_is_the_reason(emptied: tuple[tuple[int, str], ...], why: str) -> None:
    yard = broker(1, [40, 30], [])
    yard = yard._replace(disks=tuple(each._replace(cordoned=True) for each in yard.disks))
    assert plan_disks([yard], emptied=emptied).undone == (("broker 1 stays as it is", why),)


def test_log_dirs_of_other_sizes_are_filled_alike() -> None:
    yard = BrokerDisks(
        1,
        (Disk("/small", 100, 100), Disk("/great", 300, 300)),
        tuple(DiskReplica("t", number, "/small", 10) for number in range(8)),
    )
    assert loads(after(yard, plan_disks([yard], band=BAND))) == [20, 60]


def test_a_replica_greater_than_the_rest_stays() -> None:
    yard = broker(1, [100], [1])
    plan = plan_disks([yard], band=BAND)
    assert plan.moves == ()
    assert "no replica in it lowers that" in plan.undone[0][1]


@given(st.lists(st.lists(st.integers(0, 1_000), max_size=12), min_size=1, max_size=5))
def test_a_plan_never_fills_the_fullest_more_and_is_done_when_it_is_done(held: list[list[int]]) -> None:
    yard = broker(1, *held)
    plan = plan_disks([yard], band=BAND)
    done = after(yard, plan)
    assert max(loads(done)) <= max(loads(yard))
    assert sum(loads(done)) == sum(loads(yard))
    assert len({(move.replica.topic, move.replica.partition) for move in plan.moves}) == len(plan.moves)
    if not plan.undone:
        assert plan_disks([done], band=BAND).moves == ()


def test_a_log_dir_is_emptied_into_the_others() -> None:
    yard = broker(1, [30, 20, 10], [10], [])
    plan = plan_disks([yard, broker(2, [9], [])], emptied=[(1, "/d0")])
    assert loads(after(yard, plan)) == [0, 40, 30]
    assert {move.broker for move in plan.moves} == {1}, "other brokers are not touched"


def test_what_fits_nowhere_stays_and_is_told() -> None:
    yard = broker(1, [30, 20], [], total=100, usable=45)
    plan = plan_disks([yard], emptied=[(1, "/d0")], headroom=0.2)
    assert [move.replica.size_bytes for move in plan.moves] == [20]
    assert plan.undone == (
        ("t0-0 stays in /d0 of broker 1", "no other log dir has room for it less the headroom (headroom-percent)"),
    )


def test_a_single_log_dir_can_neither_be_balanced_nor_emptied() -> None:
    assert plan_disks([broker(1, [5])]).undone == (("broker 1 stays as it is", "it has no other log dir that works"),)
    assert plan_disks([broker(1, [5], [])], emptied=[(1, "/d0"), (1, "/d1")]).moves == ()


@pytest.mark.parametrize(
    ("chosen", "emptied", "told"),
    [((7,), (), "broker 7 reported no log dirs"), ((), ((1, "/x"),), "broker 1 has no log dir /x; it has /d0, /d1")],
)
def test_what_there_is_not_is_refused(chosen: tuple[int, ...], emptied: tuple[tuple[int, str], ...], told: str) -> None:
    with pytest.raises(PlanRefused, match=told):
        plan_disks([broker(1, [5], [])], chosen=chosen, emptied=emptied)


def test_a_cap_of_few_moves_is_shared_out_in_whole_moves() -> None:
    """An outsider's find: two moves were shared among three brokers as none for each, and went to empty partitions."""
    amounts = np.array([0.5, 0.0, 0.4, 0.3])
    assert _in_parts(2, amounts).tolist() == [1, 0, 1, 0]
    assert _in_parts(1, amounts).tolist() == [1, 0, 0, 0]
    assert _in_parts(12, amounts).tolist() == [5, 0, 4, 3]
    assert _in_parts(np.inf, amounts).tolist() == 4 * [np.inf]


def test_replicas_that_stay_on_a_damaged_broker_have_their_racks_place() -> None:
    """An outsider's find: the rack-mate of a broker with a failed log dir was to carry the whole rack, and was filled."""
    racks = ["a", "a", "b", "b", "c", "c"]
    rows = [("t", [at % 2, 2 + at // 2 % 2, 4 + at // 4 % 2], 10.0) for at in range(24)]
    failed = BrokerFacts(True, log_dirs=(Disk("/a", 900.0, 900.0), Disk("/b", None, None, failed=True)))
    facts = tuple(failed if broker == 3 else BrokerFacts() for broker in range(6))
    even = replace(cluster_of(racks, rows), facts=facts)
    level = targets(even, PlanRequest(Scope.REBALANCE)).rack_level
    assert level.tolist() == pytest.approx([1.0, 1.0, 1.0], abs=0.2), "12 replicas for broker 2, as for any other"
    assert len(plan(even, PlanRequest(Scope.REBALANCE)).moves) == 0, "all is balanced"
    everyone = targets(replace(even, facts=()), PlanRequest(Scope.REBALANCE)).rack_level
    assert everyone.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("scope", MEASURED)
def test_shunters_own_topics_are_not_moved_for_balance(scope: Scope) -> None:
    """An SRE's find: a rebalance gave the journal another leader, and for 20 s nobody took a kill switch."""
    rows = [("t", [0, 1], 1.0)] * 8 + [("__shunter_words", [0, 1], 1.0)]
    filled = (2, 3) if scope is Scope.FILL else ()
    made = plan(cluster_of(["a"] * 4, rows), PlanRequest(scope, filled, disk_limit=1.1 if scope in EMPTYING else None))
    own = made.cluster.topics.index("__shunter_words")
    assert own not in {int(made.cluster.topic_of[at]) for at in (*made.changed.tolist(), *made.elected.tolist())}
    if scope not in EMPTYING:
        assert len(made.changed), "the others are"


def test_shunters_own_topics_leave_a_drained_broker() -> None:
    made = plan(cluster_of(["a"] * 3, [("__shunter_words", [0, 1], 1.0)]), PlanRequest(Scope.DRAIN, (0,)))
    assert sorted(made.replicas[0].tolist()) == [1, 2]
