"""No plan changes a partition beside an offline replica that stays, or one on a cordoned broker."""

from dataclasses import replace

import numpy as np
import pytest
from planning_clusters import cluster_of

from shunter.core.planning.balance import plan
from shunter.core.planning.board import Board, Budget
from shunter.core.planning.cluster import ABSENT, ClusterLoad
from shunter.core.planning.facts import fitness_of
from shunter.core.planning.moves import BalancedPlan
from shunter.core.planning.request import PlanRequest, Scope
from shunter.model.inventory import BrokerFacts, Disk, TopicWish

NAMING = (Scope.DRAIN, Scope.REPLACE, Scope.DEMOTE, Scope.FILL)


OLD = "controllers before Kafka 4.3 end no copy beside one"
OFFLINE_FIRST = "; `shunter plan --scope offline` gives offline replicas other brokers first"


def with_dead(cluster: ClusterLoad, *dead: int, needs_all: bool | None = None) -> ClusterLoad:
    facts = (BrokerFacts(live=at not in dead, needs_all=needs_all) for at in range(len(cluster.brokers)))
    return replace(cluster, facts=tuple(facts))


def with_cordoned(cluster: ClusterLoad, *cordoned: int, dead: tuple[int, ...] = (), leader: int = -2) -> ClusterLoad:
    facts = [
        BrokerFacts(
            live=at not in dead, log_dirs=tuple(Disk(path, None, None, cordoned=at in cordoned) for path in "ab")
        )
        for at in range(len(cluster.brokers))
    ]
    return replace(cluster, facts=tuple(facts), leader=np.full(len(cluster.sizes), leader, np.int32))


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
        PlanRequest(Scope.TOPICS, wishes=(TopicWish("t", brokers=(1, 3, 4, 5)),)),
    ],
    ids=lambda asked: asked.scope.value,
)
@pytest.mark.parametrize("needs_all", [True, False, None])
def test_no_live_replica_leaves_a_partition_in_which_an_offline_one_stays(
    request_: PlanRequest, *, needs_all: bool | None
) -> None:
    cluster = cluster_of(["a"] * 6, [("t", [1, 2, 3], 100), ("t", [2, 3, 4], 100)])
    made = plan(with_dead(cluster, 1, needs_all=needs_all), request_)
    assert list(changed(made)) == ["t-1"], "it has no offline replica"
    why = f"an offline replica would stay, and no plan takes a live one away instead{OFFLINE_FIRST}"
    assert made.undone == (("1 partition stays as it is (t-0)", why),)


@pytest.mark.parametrize(
    "request_",
    [
        PlanRequest(Scope.CHANGE_REPLICATION, replication=5),
        PlanRequest(Scope.TOPICS, wishes=(TopicWish("t", replication=5),)),
    ],
    ids=lambda asked: asked.scope.value,
)
@pytest.mark.parametrize(
    ("needs_all", "why"), [(True, f"{OLD}, as this one"), (False, ""), (None, f"{OLD}; this one may be older")]
)
def test_replicas_are_added_beside_an_offline_one_where_the_controller_is_known_to_end_it(
    request_: PlanRequest, why: str, *, needs_all: bool | None
) -> None:
    """KAFKA-19975: each step of it adds one, and the offline replica is not put first."""
    cluster = cluster_of(["a"] * 6, [("t", [1, 2, 3], 100)])
    made = plan(with_dead(cluster, 1, needs_all=needs_all), request_)
    if why:
        assert changed(made) == {}
        told = f"an offline replica would stay, and {why}{OFFLINE_FIRST}"
        assert made.undone == (("1 partition stays as it is (t-0)", told),)
    else:
        assert changed(made)["t-0"][:3] == [2, 1, 3]
        assert set(changed(made)["t-0"]) > {1, 2, 3}
        assert len(changed(made)["t-0"]) == 5
        assert made.undone == ()


def test_partitions_that_stay_beside_an_offline_replica_are_told_apart_by_reason_and_way_out() -> None:
    """A stranger's question: which of these does the version hold up, and which the cordon?"""
    rows = [("t", [1, 2], 100), ("u", [1, 4, 2], 100), ("t", [1, 5], 100), ("t", [3, 5], 100)]
    cluster = with_cordoned(cluster_of(["a"] * 8, rows), 5, dead=(1,))
    wishes = (TopicWish("t", replication=3), TopicWish("u", brokers=(1, 2, 6, 7)))
    made = plan(cluster, PlanRequest(Scope.TOPICS, wishes=wishes))
    cordon = "take broker 5 out of its cordon (`cordoned.log.dirs`), or `shunter drain"
    stays = "1 partition stays as it is"
    assert made.undone == (
        (f"{stays} (t-0)", f"an offline replica would stay, and {OLD}; this one may be older{OFFLINE_FIRST}"),
        (f"{stays} (t-1)", f"an offline replica would stay, and {OLD}; this one may be older; {cordon} 1,5`"),
        (f"{stays} (u-0)", f"an offline replica would stay, and no plan takes a live one away instead{OFFLINE_FIRST}"),
        (
            f"{stays} (t-2)",
            f"a replica on a cordoned broker would stay, and Kafka takes no assignment that names one; {cordon} 5`",
        ),
    )
    notes = [each for each in plan(cluster, PlanRequest(Scope.REBALANCE)).notes if "because" in each]
    assert [each[: each.index(":")] for each in notes] == [
        "2 partitions have offline replicas (t-0, u-0)",
        "1 partition has an offline replica (t-1)",
        "1 partition has a replica on a cordoned broker (t-2)",
    ]


def test_a_cut_that_would_keep_an_offline_replica_stays_under_any_controller() -> None:
    cluster = with_dead(cluster_of(["a"] * 4, [("t", [0, 1, 2], 100)], min_isr=[1]), 0, 1, needs_all=False)
    made = plan(cluster, PlanRequest(Scope.CHANGE_REPLICATION, replication=2))
    assert changed(made) == {}
    assert "Kafka ends no step beside one that makes the set smaller" in made.undone[0].why


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


@pytest.mark.parametrize(
    ("dead", "isr", "why"),
    [
        ((2,), [2], "all its replicas are offline: start broker 2, which has its data"),
        (
            (1, 2),
            None,
            "all its replicas are offline: start broker 1 or 2, whichever has its data, as `shunter doctor` tells",
        ),
        ((1, 2), [2], "all its replicas are offline: start broker 2, which has its data"),
        ((2,), [2, 1], "none of its replicas can lead: start broker 2, which has its data"),
    ],
)
def test_a_partition_that_is_offline_as_a_whole_names_the_dead_broker_that_has_its_data(
    dead: tuple[int, ...], isr: list[int] | None, why: str
) -> None:
    replicas = [1, 2] if len(dead) > 1 or (isr is not None and len(isr) > 1) else [2]
    cluster = with_dead(cluster_of(["a"] * 4, [("t", replicas, 100)], min_isr=[1]), *dead)
    if isr is not None:
        row = [isr[0], *[ABSENT] * (cluster.replicas.shape[1] - 1)]
        cluster = replace(cluster, isr=np.array([row], cluster.replicas.dtype))
    made = plan(cluster, PlanRequest(Scope.OFFLINE))
    assert changed(made) == {}
    assert ("t-0 stays where it is", why) in made.undone


def test_a_partition_whose_only_log_dir_failed_says_so() -> None:
    cluster = with_dead(cluster_of(["a"] * 4, [("t", [2], 100)], min_isr=[1]))
    failed = replace(cluster, offline=np.array([[2]], cluster.replicas.dtype))
    made = plan(failed, PlanRequest(Scope.OFFLINE))
    assert made.undone == (("t-0 stays where it is", "all its replicas are offline: its log dir on broker 2 failed"),)


@pytest.mark.parametrize(
    ("isr", "why"),
    [
        ([], "start broker 2 or mend its log dir on broker 1, whichever has its data, as `shunter doctor` tells"),
        ([1], "its log dir on broker 1 failed"),
        ([2], "start broker 2, which has its data"),
    ],
)
def test_beside_a_failed_log_dir_a_dead_broker_is_not_said_to_have_all_records(isr: list[int], why: str) -> None:
    """An outsider's find: after its death the broker with the failed log dir alone had taken 19 acknowledged records."""
    cluster = with_dead(cluster_of(["a"] * 4, [("t", [1, 2], 100)], min_isr=[1]), 2)
    row = [*isr, ABSENT, ABSENT][:2]
    offline = np.array([[1, 2]], cluster.replicas.dtype)
    made = plan(replace(cluster, offline=offline, isr=np.array([row], offline.dtype)), PlanRequest(Scope.OFFLINE))
    assert made.undone == (("t-0 stays where it is", f"all its replicas are offline: {why}"),)


def test_of_two_offline_replicas_both_go_or_none() -> None:
    cluster = cluster_of(["a"] * 5, [("t", [0, 1, 2], 100)], min_isr=[1])
    both = plan(with_dead(cluster, 0, 1), PlanRequest(Scope.OFFLINE))
    assert set(changed(both)["t-0"]) == {2, 3, 4}
    capped = plan(with_dead(cluster, 0, 1), PlanRequest(Scope.OFFLINE, max_moves=1))
    assert changed(capped) == {}
    why = f"an offline replica would stay, and {OLD}; this one may be older"
    out = "bring what is offline on broker 0,1 back, or end what keeps the rest in place"
    assert capped.undone[-1] == ("1 partition stays as it is (t-0)", f"{why}; {out}")
    assert len(capped.moves) == 0


@pytest.mark.parametrize(("offline", "moves", "come"), [((0, 1), 1, 1), ((0, 1, 2), 1, 1), ((0, 1, 2), 2, 0)])
def test_one_of_several_offline_replicas_goes_alone_where_the_controller_ends_that(
    offline: tuple[int, ...], moves: int, come: int
) -> None:
    """If two go and one stays, the last step makes the set smaller, and no controller ends it."""
    cluster = with_dead(cluster_of(["a"] * 7, [("t", [0, 1, 2, 3], 100)], min_isr=[1]), *offline, needs_all=False)
    made = plan(cluster, PlanRequest(Scope.OFFLINE, max_moves=moves))
    row = changed(made).get("t-0", [0, 1, 2, 3])
    assert len(set(row) & set(offline)) == len(offline) - come
    assert len(row) == 4
    assert 3 in row
    assert any(each.why.startswith("the cap ") for each in made.undone)


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
def test_what_a_scope_asks_beside_a_cordoned_broker_is_left_and_said(request_: PlanRequest) -> None:
    cluster = cluster_of(["a"] * 6, [("t", [1, 2, 3], 100), ("t", [2, 3, 4], 100)])
    made = plan(with_cordoned(cluster, 1), request_)
    assert list(changed(made)) == ["t-1"], "it has no replica on broker 1"
    why = "a replica on a cordoned broker would stay, and Kafka takes no assignment that names one"
    out = "take broker 1 out of its cordon (`cordoned.log.dirs`), or `shunter drain 1`"
    assert made.undone == (("1 partition stays as it is (t-0)", f"{why}; {out}"),)


def test_the_offline_replica_beside_a_cordoned_broker_goes_only_with_that_one() -> None:
    """Each of two plans would need the other one first, so the way out is one plan for both."""
    cluster = with_cordoned(cluster_of(["a"] * 6, [("t", [1, 2, 3], 100)]), 1, dead=(2,))
    for asked in (PlanRequest(Scope.OFFLINE), PlanRequest(Scope.DRAIN, brokers=(1,))):
        made = plan(cluster, asked)
        assert changed(made) == {}
        assert made.undone[0].why.endswith("or `shunter drain 1,2`")
    assert set(changed(plan(cluster, PlanRequest(Scope.DRAIN, brokers=(1, 2))))["t-0"]).isdisjoint({1, 2})


def test_a_balance_leaves_partitions_beside_a_cordoned_broker_and_goes_on_with_the_others() -> None:
    cluster = cluster_of(["a"] * 4, [("t", [1, 2], 100)] * 6 + [("u", [2, 3], 100)] * 6)
    made = plan(with_cordoned(cluster, 1), PlanRequest(Scope.REBALANCE))
    assert changed(made), "the others are balanced"
    assert {name[0] for name in changed(made)} == {"u"}
    (note,) = [each for each in made.notes if "6 partitions" in each]
    assert note.startswith(
        "6 partitions have replicas on cordoned brokers (t-0, t-1, t-2 and 3 more): they stay as they are, because"
    )
    assert note.endswith("`shunter drain 1`")


def test_a_broker_with_a_log_dir_that_is_not_cordoned_is_no_obstacle() -> None:
    cluster = with_cordoned(cluster_of(["a"] * 4, [("t", [1, 2], 100)]), 1)
    some = (Disk("a", None, None, cordoned=True), Disk("b", None, None, cordoned=False))
    partly = replace(cluster, facts=(cluster.facts[0], BrokerFacts(True, log_dirs=some), *cluster.facts[2:]))
    assert changed(plan(partly, PlanRequest(Scope.DRAIN, brokers=(2,))))["t-0"][0] == 1
    failed = (Disk("a", None, None, cordoned=True), Disk("b", None, None, failed=True))
    left = replace(cluster, facts=(cluster.facts[0], BrokerFacts(True, log_dirs=failed), *cluster.facts[2:]))
    assert changed(plan(left, PlanRequest(Scope.DRAIN, brokers=(2,)))) == {}, "all that work are cordoned"


def test_what_takes_the_cordoned_brokers_replica_away_goes_on() -> None:
    shared = cluster_of(["a", "a", "b", "c"], [("t", [0, 1, 2], 100)], min_isr=[1])
    for asked, cordoned in (
        (PlanRequest(Scope.DRAIN, brokers=(1,)), 1),
        (PlanRequest(Scope.REPLACE, brokers=(1,), replacements=(3,)), 1),
        (PlanRequest(Scope.CHANGE_REPLICATION, replication=2), 1),
        (PlanRequest(Scope.FIX_RACKS), 0),
    ):
        made = plan(with_cordoned(shared, cordoned), asked)
        assert cordoned not in changed(made)["t-0"], asked
        assert made.undone == ()


def test_only_the_replicas_of_a_full_cordoned_broker_leave_their_partitions() -> None:
    rows = [("t", [1, 0], 100)] * 4 + [("u", [2, 0], 100)] * 4 + [("v", [1, 2], 100)] * 4
    cluster = replace(cluster_of(["a"] * 5, rows), disk_capacity=np.array([9e3, 1e3, 1e3, 9e3, 9e3]))
    made = plan(with_cordoned(cluster, 1), PlanRequest(Scope.EMPTY_DISKS, disk_limit=0.5, headroom=0.5))
    after = changed(made)
    assert after
    assert not [row for row in after.values() if 1 in row]
    assert any(each.startswith("8 partitions have replicas on cordoned brokers") for each in made.notes)


def test_leaders_change_beside_a_cordoned_broker_by_an_election_alone() -> None:
    """Partition 0 needs no other order to be led by broker 0, partition 1 does."""
    cluster = with_cordoned(cluster_of(["a"] * 3, [("t", [0, 2, 1], 1), ("t", [2, 0, 1], 1)]), 1, leader=2)
    made = plan(cluster, PlanRequest(Scope.DEMOTE, brokers=(2,)))
    assert made.elections() == {("t", 0)}
    assert [each.replicas == each.original for each in made.assignments()] == [True]
    assert made.undone == (
        (
            "t-1 is still led by broker 2",
            "it has a replica on a cordoned broker, and Kafka takes no assignment that names one",
        ),
    )
    balanced = plan(cluster, PlanRequest(Scope.LEADERS))
    assert balanced.elections() == {("t", 0)}
    assert [each.replicas == each.original for each in balanced.assignments()] == [True]


def test_no_demoted_broker_is_elected_in_the_place_of_another_one() -> None:
    cluster = with_cordoned(cluster_of(["a"] * 2, [("t", [0, 1], 1)]), leader=1)
    assert plan(cluster, PlanRequest(Scope.DEMOTE, brokers=(0, 1))).elections() == set()


def test_a_replica_whose_racks_leave_it_no_other_place_stays_beside_a_damaged_broker() -> None:
    """An outsider's find: such replicas went to a rack that had one already, and the whole rebalance was rejected."""
    # Brokers 3 (rack c, a failed log dir) and 4 (rack b, dead) get nothing, so rack b has broker 2 alone.
    rows = [[2, 3, 5], [3, 1, 2]] * 3
    cluster = cluster_of(list("xabcba"), [("t", row, 100) for row in rows] + [("u", [1, 2], 80)] * 12)
    failed = (Disk("/a", None, None), Disk("/b", None, None, failed=True))
    facts = tuple(BrokerFacts(live=at not in (0, 4), log_dirs=failed if at == 3 else ()) for at in range(6))
    cluster = replace(cluster, facts=facts)
    made = plan(cluster, PlanRequest(Scope.REBALANCE))
    board = Board(cluster, made.targets, cluster.replicas, fitness_of(cluster), Budget(np.inf, np.inf))
    slots = [row.index(2) for row in rows]
    assert not any(np.isfinite(board.openings(at, slot)).any() for at, slot in enumerate(slots))
    assert len(made.changed) > 3
    assert not made.targets.rules.uneven(made.replicas).any()


@pytest.mark.parametrize(("brokers", "drains"), [(4, False), (5, True)])
def test_a_drain_is_a_way_out_only_where_enough_brokers_are_left_for_it(brokers: int, *, drains: bool) -> None:
    """An outsider's find: the drain that was named was refused, as too few brokers could hold the replicas."""
    rows = [("t", [0, 1, 2], 100.0)] * 3 + [("u", [0], 50.0)]
    cluster = with_cordoned(cluster_of(["a"] * brokers, rows), 2, dead=(1,))
    told = " ".join([*plan(cluster, PlanRequest(Scope.REBALANCE)).notes])
    assert "take broker 2 out of its cordon" in told
    assert ("`shunter drain" in told) == drains


def test_unlike_obstacles_are_counted_apart_each_with_its_own_way_out() -> None:
    """An outsider's find: one count for all, and the way out of a cordon for what was only offline."""
    held = [("off", [1, 3], 100)] * 2 + [("shut", [2, 4], 100)] * 3 + [("both", [1, 2], 100), ("u", [3, 4], 100)]
    cluster = with_cordoned(cluster_of(["a"] * 6, held), 2, dead=(1,))
    made = plan(cluster, PlanRequest(Scope.REBALANCE))
    notes = {each.partition(" (")[0]: each for each in made.notes if "stay" in each}
    assert {name: "cordoned.log.dirs" in told for name, told in notes.items()} == {
        "2 partitions have offline replicas": False,
        "1 partition has an offline replica": True,
        "3 partitions have replicas on cordoned brokers": True,
    }
