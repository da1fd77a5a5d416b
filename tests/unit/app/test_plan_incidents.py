"""Every scope in every incident: what a plan may do, and that verb, file, service and pipeline plan alike."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incidents import MB, Facts, as_rows, assert_sound, questions, worlds
from shunter.app.evaluation.observation import sighting_of
from shunter.app.planning import live
from shunter.app.planning.plan import Planned, PlanOptions, cluster_from, plan_raw, request_from
from shunter.core.check_up import diagnose
from shunter.core.keeper.proposals import planned_for
from shunter.core.keeper.sighting import Sighting
from shunter.core.planning.balance import plan
from shunter.core.planning.cluster import ClusterLoad
from shunter.core.planning.request import PlanRefused, PlanRequest, Scope
from shunter.formats.plan_files import read_plan_input, write_reassignment
from shunter.formats.plan_inventory import encode_plan_input
from shunter.model.check_up import (
    QUORUM,
    CheckedBroker,
    CheckedJournal,
    CheckedListener,
    CheckedLogDir,
    CheckedTopic,
    CheckUp,
    Quorum,
    Voter,
)
from shunter.model.execution import ObservedPartition
from shunter.model.inventory import Disk, Inventory, InventoryBroker, InventoryPartition, TopicWish
from shunter.model.keeper import Intents, KeeperPolicy
from shunter.model.partition import TopicPartition
from shunter.pipeline.planning.fleet_worker import plan_cluster
from shunter.views.keeper_picture import emptied

NO_CHECK_UP = CheckUp("yard", 1, "Apache (KRaft)", (), (), {}, ())


def by_file(seen: Inventory, asked: PlanOptions) -> bytes | str:
    try:
        return plan_raw(encode_plan_input(seen), "yard", asked).reassignment
    except PlanRefused as refused:
        return str(refused)


def by_verb(seen: Inventory, asked: PlanOptions, opened: live.OpenGoals | None = None) -> bytes | str:
    """As `shunter plan`, `drain` and their kind plan a live cluster that shows this."""
    try:
        return live_plan(seen, asked, opened).reassignment
    except PlanRefused as refused:
        return str(refused).replace(f"cluster {seen.cluster_id}", "yard")


def live_plan(seen: Inventory, asked: PlanOptions, opened: live.OpenGoals | None = None) -> Planned:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live, "take_inventory", lambda _configuration, **_asked: seen)
        return live.plan_cluster("k:9092", None, replace(asked, ignore_racks=False), None, opened).planned


def by_service(seen: Inventory, asked: PlanOptions) -> list[dict[str, Any]] | str:
    """As the service plans what a person orders, and what a condition needs, within no guard rails."""
    sighting = sighted(seen)
    made = planned_for(request_from(asked), sighting, KeeperPolicy())
    if not made.changes and len(made.undone) == 1 and by_plan(sighting.load, asked) == made.undone[0]:
        return made.undone[0]
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": list(each.replicas),
            "original_replicas": list(each.original),
        }
        | ({"elect": True} if each.elect else {})
        for each in made.changes
    ]


def sighted(seen: Inventory) -> Sighting:
    return sighting_of(seen, NO_CHECK_UP, CheckedJournal("j"), ())


def by_plan(load: ClusterLoad, asked: PlanOptions) -> str:
    """The refusal of a request; "": there is none."""
    try:
        plan(load, request_from(asked))
    except PlanRefused as refused:
        return str(refused)
    return ""


def by_pipeline(seen: Inventory, asked: PlanOptions) -> list[dict[str, Any]] | str:
    try:
        rows = plan_cluster("yard", as_rows(seen), request_from(asked))["assignments"]
    except PlanRefused as refused:
        return str(refused)
    return [{key: value for key, value in row.items() if key != "elect" or value} for row in rows]


@given(st.data())
def test_a_plan_does_nothing_that_the_incident_forbids_and_is_the_same_everywhere(data: st.DataObject) -> None:
    seen = data.draw(worlds())
    asked = data.draw(questions(seen))
    made = by_file(seen, asked)
    if isinstance(made, bytes):
        assert_sound(made, asked, seen)
        rows = json.loads(made)["partitions"]
    else:
        rows = made
    assert by_verb(seen, asked) == made
    assert by_service(seen, asked) == rows
    assert by_pipeline(seen, asked) == rows


@given(worlds(), st.integers(0, 4), st.sets(st.integers(1, 5), max_size=3))
def test_topics_are_changed_as_the_incident_allows(seen: Inventory, replication: int, wanted: set[int]) -> None:
    rackless = not any(broker.rack for broker in seen.brokers)
    load = cluster_from(read_plan_input(encode_plan_input(seen), "yard", ignore_racks=rackless))
    brokers = tuple(sorted(wanted & set(load.brokers)))
    wishes = tuple(TopicWish(topic, replication, brokers=brokers) for topic in load.topics)
    try:
        made = plan(load, PlanRequest(Scope.TOPICS, wishes=wishes))
    except PlanRefused:
        return
    assert_sound(write_reassignment(made.assignments()), PlanOptions(scope="topics"), seen)
    if made.undone:
        return
    rows = {(row.topic, row.partition): row.replicas for row in made.assignments()}
    for at in seen.partitions:
        after = rows.get((at.topic, at.partition), list(at.replicas))
        assert not brokers or set(after) <= set(brokers)
        assert not replication or len(after) == replication


@given(st.data())
def test_what_a_plan_leaves_undone_it_says(data: st.DataObject) -> None:
    seen = data.draw(worlds())
    asked = data.draw(
        questions(seen).filter(lambda each: each.scope in {"drain", "offline", "demote", "change-replication"})
    )
    try:
        made = plan_raw(encode_plan_input(seen), "yard", asked)
    except PlanRefused:
        return
    if made.summary.undone:
        return
    rows = {(row["topic"], row["partition"]): row for row in json.loads(made.reassignment)["partitions"]}
    facts = Facts(seen)
    for at in seen.partitions:
        row = rows.get((at.topic, at.partition))
        after = list(at.replicas) if row is None else row["replicas"]
        if asked.scope == "drain":
            assert not set(after) & set(asked.brokers)
        if asked.scope == "offline":
            excluded = set(asked.excluded_brokers)
            assert not set(after) & set(at.offline) - excluded
        if asked.scope == "change-replication":
            assert len(after) == asked.replication
        if asked.scope == "demote":
            leads = after[0] if row is not None and row.get("elect") else at.leader
            comes = next((b for b in after if b in facts.able(at)), after[0])
            assert not {leads, comes, after[0]} & set(asked.brokers)


def partition(topic: str, replicas: tuple[int, ...], least: int, size: int, isr: tuple[int, ...]) -> InventoryPartition:
    sizes = tuple((broker, size) for broker in isr)
    offline = tuple(broker for broker in replicas if broker not in isr)
    return InventoryPartition(topic, None, 0, replicas, isr, isr[0], 0, 10, least, sizes, offline)


def rows_of(seen: Inventory, **asked: Any) -> dict[str, list[int]]:
    made = by_file(seen, PlanOptions(ignore_racks=True, **asked))
    assert isinstance(made, bytes), made
    return {row["topic"]: row["replicas"] for row in json.loads(made)["partitions"]}


def bare(*ids: int) -> tuple[InventoryBroker, ...]:
    return tuple(InventoryBroker(broker, "host", None, None, None) for broker in ids)


FAILED_LOG_DIR = Inventory(
    "yard", 0, bare(1, 2, 3),
    (
        partition("dem", (3, 2, 1), 1, MB, (3, 1)), partition("heavy", (3, 1), 1, 30 * MB, (3, 1)),
        partition("rf", (1, 2, 3), 2, MB, (1, 3)), partition("rg", (2, 1, 3), 1, MB, (1, 3)),
    ),
    ((2, "log dir /data/b failed"),),
)  # fmt: skip


def test_a_cut_drops_what_is_offline_first() -> None:
    assert rows_of(FAILED_LOG_DIR, scope="change-replication", topics=("rf",), replication=2) == {"rf": [1, 3]}
    assert rows_of(FAILED_LOG_DIR, scope="change-replication", topics=("rg",), replication=1)["rg"] in ([1], [3])


FAILED = Disk("/data/b", None, None, failed=True)
CORDONED = Disk("/data/a", 100 * MB, 90 * MB, cordoned=True)


@pytest.mark.parametrize("ill", [(Disk("/data/a", 100 * MB, 90 * MB), FAILED), (CORDONED,)])
@pytest.mark.parametrize(
    ("replicas", "isr", "wanted", "left"),
    [
        ((2, 1, 3), (2, 1, 3), 1, [[1], [3]]),
        ((2, 1, 3), (2, 1, 3), 2, [[1, 3]]),
        ((1, 2, 3), (1, 2, 3), 1, [[1]]),
        ((4, 2, 3), (2, 3), 1, [[3]]),
        ((4, 2, 3), (2, 3), 2, [[2, 3]]),
        ((2, 1, 3), (2, 1), 2, [[2, 1]]),
        ((2, 1, 3), (2, 1), 1, [[1]]),
        ((2, 1), (2,), 1, [[2]]),
    ],
)
def test_a_cut_drops_what_is_on_an_ill_broker_unless_it_is_needed_in_sync(
    ill: tuple[Disk, ...], replicas: tuple[int, ...], isr: tuple[int, ...], wanted: int, left: list[list[int]]
) -> None:
    """Broker 2 has a failed log dir, or is cordoned, and broker 4 is dead; broker 2 may be the first, or come next.

    Kafka takes no assignment that names a cordoned broker, so where that one would be left nothing changes.
    """
    brokers = tuple(each._replace(log_dirs=ill) if each.id == 2 else each for each in bare(1, 2, 3))
    row = InventoryPartition("t", None, 0, replicas, isr, isr[0], 0, 1, 1, (), (4,) if 4 in replicas else ())
    found = rows_of(Inventory("yard", 0, brokers, (row,)), scope="change-replication", replication=wanted)
    if ill == (CORDONED,) and any(2 in row for row in left):
        assert found == {}
    else:
        assert found["t"] in left


def test_a_cut_takes_nothing_from_excluded_brokers() -> None:
    row = InventoryPartition("t", None, 0, (1, 4, 2), (1, 2), 1, 0, 1, 1, (), (4,))
    seen = Inventory("yard", 0, bare(1, 2, 3), (row,))
    asked: dict[str, Any] = {"scope": "change-replication", "replication": 1, "ignore_racks": True}
    made = plan_raw(encode_plan_input(seen), "yard", PlanOptions(excluded_brokers=(4,), **asked))
    assert json.loads(made.reassignment)["partitions"] == [], "what can lead would go, and what is offline would stay"
    assert made.summary.undone == (
        ("t-0 stays at 3 replicas", "what may go is on excluded brokers, which no replica leaves"),
    )
    assert rows_of(seen, scope="change-replication", replication=1, excluded_brokers=(1,)) == {"t": [1]}


def test_nothing_comes_to_a_broker_because_its_failed_log_dir_looks_empty() -> None:
    found = rows_of(FAILED_LOG_DIR, scope="rebalance")
    assert all(2 not in set(replicas) - {2} for topic, replicas in found.items() if topic == "heavy")


def test_nobody_is_put_first_who_can_not_lead() -> None:
    assert rows_of(FAILED_LOG_DIR, scope="demote", brokers=(3,)) == {"dem": [1, 2, 3], "heavy": [1, 3]}


@pytest.mark.parametrize(
    "asked", [{"scope": "rebalance"}, {"scope": "fill", "brokers": (3,)}, {"scope": "drain", "brokers": (1,)}]
)
def test_room_is_what_is_free_whoever_uses_the_rest(asked: dict[str, Any]) -> None:
    gb = 10**9
    partitions = tuple(
        InventoryPartition("t", None, at, (1, 2), (1, 2), 1, 0, 10, 1, ((1, 5 * gb), (2, 5 * gb))) for at in range(10)
    )
    brokers = tuple(
        InventoryBroker(b, "host", None, 100 * gb, usable * gb) for b, usable in ((1, 50), (2, 50), (3, 26))
    )
    made = by_file(Inventory("yard", 0, brokers, partitions), PlanOptions(ignore_racks=True, **asked))
    assert isinstance(made, bytes)
    assert sum(3 in row["replicas"] for row in json.loads(made)["partitions"]) == 1, "6 GB are free beside the headroom"


def test_the_log_dir_that_the_broker_chooses_limits_what_comes() -> None:
    gb = 10**9
    small, large = Disk("/small", 20 * gb, 8 * gb, replicas=0), Disk("/large", 1_000 * gb, 900 * gb, replicas=90)
    brokers = (*bare(1, 2), InventoryBroker(3, "host", None, 1_020 * gb, 908 * gb, log_dirs=(small, large)))
    partitions = tuple(
        InventoryPartition("t", None, at, (1, 2), (1, 2), 1, 0, 10, 1, ((1, 5 * gb),)) for at in range(10)
    )
    made = by_file(
        Inventory("yard", 0, brokers, partitions), PlanOptions(ignore_racks=True, scope="fill", brokers=(3,))
    )
    assert isinstance(made, bytes)
    told = "the small one has the fewest replicas, and no room for 5 GB with headroom"
    assert all(3 not in row["replicas"] for row in json.loads(made)["partitions"]), told


def test_a_drain_names_every_replica_that_stays_by_broker_and_reason() -> None:
    dead = [InventoryPartition("lone", None, at, (1,), (), -1, 0, 1, 1, (), (1,)) for at in range(3)]
    kept = [InventoryPartition("kept", None, at, (1, 2), (2,), 2, 0, 1, 1, ((2, MB),), (1,)) for at in range(2)]
    large = InventoryPartition("large", None, 0, (1, 2), (2,), 2, 0, 1, 1, ((2, 9 * MB),), (1,))
    small = InventoryPartition("small", None, 0, (1, 2), (2,), 2, 0, 1, 1, ((2, MB),), (1,))
    asked = PlanOptions(scope="drain", brokers=(1,), excluded_topics=("kept",), max_moves=1, ignore_racks=True)
    seen = Inventory("yard", 0, bare(2, 3), (*kept, large, *dead, small))
    assert plan_raw(encode_plan_input(seen), "yard", asked).summary.undone == (
        ("2 replicas stay on broker 1 (kept-0, kept-1)", "the topics are excluded"),
        ("3 replicas stay on broker 1 (lone-0, lone-1, lone-2)", "no live replica in sync has their data"),
        ("1 replica stays on broker 1 (large-0)", "the cap on bytes or moves is spent"),
    )
    offline = plan_raw(encode_plan_input(seen), "yard", replace(asked, scope="offline", brokers=()))
    assert ("2 replicas stay on broker 1 (kept-0, kept-1)", "the topics are excluded") in offline.summary.undone
    assert ("1 replica stays on broker 1 (large-0)", "the cap on bytes or moves is spent") in offline.summary.undone


def dead_beside(replicas: tuple[int, ...], leader: int) -> Inventory:
    isr = tuple(broker for broker in replicas if broker != 1)
    rows = (InventoryPartition("dem", None, 0, replicas, isr, leader, 0, 1, 1, (), (1,)),)
    return Inventory("yard", 0, bare(2, 3, 4), rows)


def test_demote_beside_a_dead_broker() -> None:
    seen = dead_beside((3, 1, 2), 3)
    made = by_file(seen, PlanOptions(scope="demote", brokers=(3,), ignore_racks=True))
    assert isinstance(made, bytes)
    (row,) = json.loads(made)["partitions"]
    assert row["replicas"] == [2, 1, 3]
    assert row["elect"]


def test_demote_is_about_who_leads_now_and_who_would_after_a_restart() -> None:
    rows = (InventoryPartition("t", None, 0, (1, 3, 2), (1, 2, 3), 3, 0, 1, 1, ()),)
    seen = Inventory("yard", 0, bare(1, 2, 3), rows)
    made = by_file(seen, PlanOptions(scope="demote", brokers=(3,), ignore_racks=True))
    assert isinstance(made, bytes)
    (row,) = json.loads(made)["partitions"]
    assert row["replicas"] == [1, 2, 3]
    assert row["elect"]
    behind = seen._replace(partitions=(rows[0]._replace(replicas=(1, 2, 3)),))
    again = by_file(behind, PlanOptions(scope="demote", brokers=(3,), ignore_racks=True))
    assert isinstance(again, bytes)
    (row,) = json.loads(again)["partitions"]
    assert row["replicas"] == row["original_replicas"] == [1, 2, 3], "the election is all"
    assert row["elect"]
    done = behind._replace(partitions=(behind.partitions[0]._replace(leader=1),))
    assert rows_of(done, scope="demote", brokers=(3,)) == {}


def test_leaders_elects_the_first_where_another_one_leads() -> None:
    rows = tuple(
        InventoryPartition("t", None, at, pair, pair, 1, 0, 1, 1, ()) for at, pair in enumerate([(1, 2), (2, 1)])
    )
    made = by_file(Inventory("yard", 0, bare(1, 2), rows), PlanOptions(scope="leaders", ignore_racks=True))
    assert isinstance(made, bytes)
    (row,) = json.loads(made)["partitions"]
    assert (row["partition"], row["replicas"], row.get("elect")) == (1, [2, 1], True)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"scope": "fill", "brokers": (1,)}, "broker 1 is dead: it may receive nothing"),
        ({"scope": "replace", "brokers": (2,), "replacements": (1,)}, "broker 1 is dead: it may receive nothing"),
    ],
)
def test_what_really_needs_the_dead_broker_is_refused_by_name(asked: dict[str, Any], told: str) -> None:
    found = by_file(dead_beside((3, 1, 2), 3), PlanOptions(ignore_racks=True, **asked))
    assert isinstance(found, str)
    assert told in found


def test_a_file_of_a_cluster_knows_what_is_offline() -> None:
    assert rows_of(dead_beside((3, 1, 2), 3), scope="offline") == {"dem": [3, 4, 2]}
    older = json.dumps(
        {"brokers": {"1": "a"}, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "size": 1}]}
    )
    with pytest.raises(PlanRefused, match="needs to know which replicas are offline"):
        plan_raw(older.encode(), "x", PlanOptions(scope="offline"))


def test_room_that_is_too_little_is_told_with_a_figure() -> None:
    partitions = (InventoryPartition("t", None, 0, (1,), (1,), 1, 0, 10, 1, ((1, 50 * MB),)),)
    brokers = (*bare(1), InventoryBroker(2, "host", None, 100 * MB, 30 * MB))
    made = plan_raw(
        encode_plan_input(Inventory("yard", 0, brokers, partitions)),
        "yard",
        PlanOptions(ignore_racks=True, scope="drain", brokers=(1,)),
    )
    ((what, why),) = made.summary.undone
    assert what == "t-0 stays on broker 1"
    assert why.endswith("the roomiest, broker 2, has room for 20% of it")


def left_by(seen: Inventory, **asked: Any) -> tuple[tuple[str, str], ...]:
    return plan_raw(encode_plan_input(seen), "yard", PlanOptions(ignore_racks=True, **asked)).summary.undone


def test_a_rebalance_that_can_move_nothing_names_the_facts_that_hold_it_back() -> None:
    """Broker 1 has everything; the others are cordoned, damaged or dead, or have each partition already."""
    heavy = tuple(InventoryPartition("t", None, at, (1,), (1,), 1, 0, 1, 1, ((1, 30 * MB),)) for at in range(4))
    beside = InventoryPartition("u", None, 0, (4,), (), -1, 0, 1, 1, (), (4,))
    two, three = (
        InventoryBroker(broker, "host", None, None, None, log_dirs=log_dirs)
        for broker, log_dirs in ((2, (CORDONED,)), (3, (FAILED,)))
    )
    small = InventoryBroker(5, "host", None, None, None, log_dirs=(Disk("/d", 100 * MB, 21 * MB),))
    facts = "broker 2 is cordoned, broker 3 has a failed log dir (/data/b), broker 4 is dead"
    shut = Inventory("yard", 0, (*bare(1), two, three, small), (*heavy, beside))
    told = dict(left_by(shut, scope="rebalance", aims=("disk",)))
    why = (
        "room within its capacity less the headroom (headroom-percent), also for what is copied before old replicas go"
    )
    assert told == {
        "broker 1: disk 2.000 of the mean, above 1.100": f"no broker has {why} (nothing can go to some: {facts})",
        "broker 5: disk 0.000 of the mean, below 0.017": f"it has no {why} (nothing can go to some: {facts})",
    }


def test_a_rebalance_names_partitions_without_data_as_such() -> None:
    lost = tuple(InventoryPartition("t", None, at, (1, 2), (), -1, 0, 1, 1, ((1, 30 * MB),)) for at in range(4))
    led = tuple(InventoryPartition("u", None, at, (2,), (2,), 2, 0, 1, 1, ((2, MB),)) for at in range(4))
    told = dict(left_by(Inventory("yard", 0, bare(1, 2, 3), (*lost, *led)), scope="rebalance", aims=("disk",)))
    assert told["broker 1: disk 1.475 of the mean, above 1.100"] == (
        "replicas of partitions that no broker has alone make 1.475 of the mean"
    )


def test_leaders_that_stay_name_followers_that_can_not_lead() -> None:
    rows = tuple(InventoryPartition("t", None, at, (1, 2), (1,), 1, 0, 1, 1, ()) for at in range(4))
    told = dict(left_by(Inventory("yard", 0, bare(1, 2), rows), scope="leaders"))
    assert (
        "of 4 partitions that it leads followers are offline or out of sync"
        in told["broker 1: leaders 2.000 of the mean, above 1.100"]
    )
    told = dict(left_by(Inventory("yard", 0, bare(1, 2), rows), scope="rebalance", aims=("leaders",)))
    assert (
        "of 4 partitions its replica is offline or out of sync"
        in told["broker 2: leaders 0.000 of the mean, below 0.900"]
    )


def test_a_broker_that_may_receive_nothing_can_lead_but_a_well_one_is_preferred() -> None:
    seen = FAILED_LOG_DIR._replace(
        brokers=tuple(each._replace(log_dirs=(FAILED,)) if each.id == 2 else each for each in bare(1, 2, 3)),
        partitions=(
            InventoryPartition("a", None, 0, (3, 2, 1), (3, 2, 1), 3, 0, 1, 1, ()),
            InventoryPartition("b", None, 0, (3, 2), (3, 2), 3, 0, 1, 1, ()),
        ),
    )
    assert rows_of(seen, scope="demote", brokers=(3,)) == {"a": [1, 2, 3], "b": [2, 3]}
    made = plan_raw(encode_plan_input(seen), "yard", PlanOptions(scope="demote", brokers=(3,), ignore_racks=True))
    assert not any("put first nowhere" in note for note in made.plan.notes)


def test_a_plan_that_elects_nobody_tells_what_others_lead_than_its_bands_count() -> None:
    """An outsider's find: a rebalance was done, with the row of leaders in its band, while a broker led nothing."""
    rows = tuple(
        InventoryPartition("t", None, at, pair, isr, 1, 0, 1, 1, ())
        for at, (pair, isr) in enumerate([((1, 2), (1, 2)), ((2, 1), (1, 2)), ((2, 1), (1,))])
    )
    seen = encode_plan_input(Inventory("yard", 0, bare(1, 2), rows))
    (told,) = [
        note
        for note in plan_raw(seen, "yard", PlanOptions(ignore_racks=True)).plan.notes
        if "which elects nobody" in note
    ]
    assert told.startswith("1 partition with another leader"), "the replica out of sync can't be elected"
    assert "`shunter plan --scope leaders --execute`" in told
    for scope in ("leaders", "offline"):
        notes = plan_raw(seen, "yard", PlanOptions(scope=scope, ignore_racks=True)).plan.notes
        assert any("which elects nobody" in note for note in notes) is (scope == "offline")


@pytest.mark.parametrize("fenced", [False, True])
def test_what_apaches_tool_refuses_is_said(fenced: bool) -> None:
    """Kafka 4.4's tool refuses a file that names a broker that is not live; its controller accepts the same."""
    rows = (
        InventoryPartition("t", None, 0, (3, 1, 2), (3, 2), 3, 0, 1, 1, (), (1,)),
        InventoryPartition("u", None, 0, (2, 1), (2,), 2, 0, 1, 1, (), (1,)),
    )
    gone = (InventoryBroker(1, "host", None, None, None, fenced=True),) if fenced else ()
    seen = encode_plan_input(Inventory("yard", 0, bare(2, 3), rows, fenced=gone))
    made = plan_raw(seen, "yard", PlanOptions(scope="demote", brokers=(3,), ignore_racks=True))
    (told,) = made.for_apaches_tool
    assert told.startswith("1 partition keeps a replica on broker 1, which is down (t-0): Apache's tool refuses")
    assert told.endswith('("Unknown broker id 1"); `shunter execute` carries it out')
    assert plan_raw(seen, "yard", PlanOptions(scope="offline", ignore_racks=True)).for_apaches_tool == ()


@pytest.mark.parametrize("ill", [{"cordoned": True}, {"failed": True}, {"live": False}])
def test_a_full_disk_is_emptied_though_its_broker_is_cordoned_or_damaged(ill: dict[str, bool]) -> None:
    """A person cordons a log dir because it is full. Of a dead broker nothing can be said or done."""
    full = Disk("/a", 100 * MB, 10 * MB, cordoned=ill.get("cordoned"))
    log_dirs = (full, FAILED) if ill.get("failed") else (full,)
    one = InventoryBroker(1, "host", None, 100 * MB, 10 * MB, log_dirs=log_dirs)
    two, three = (InventoryBroker(each, "host", None, 1_000 * MB, 900 * MB) for each in (2, 3))
    live = (two, three) if "live" in ill else (one, two, three)
    rows = tuple(
        InventoryPartition("t", None, at, (2, 1), (2, 1) if "live" not in ill else (2,), 2, 0, 1, 1, ((2, 9 * MB),))
        for at in range(9)
    )
    found = by_file(
        Inventory("yard", 0, live, rows), PlanOptions(scope="empty-disks", disk_limit_percent=50.0, ignore_racks=True)
    )
    assert isinstance(found, bytes)
    after = [row["replicas"] for row in json.loads(found)["partitions"]]
    assert all(set(row) <= {2, 3} for row in after)
    assert bool(after) is ("live" not in ill)


def test_nothing_comes_to_a_broker_that_is_listed_as_live_and_silent() -> None:
    rows = tuple(InventoryPartition("t", None, at, (1,), (1,), 1, 0, 1, 1, ((1, MB),)) for at in range(6))
    one, two, three = bare(1, 2, 3)
    seen = Inventory("yard", 0, (one, two, three._replace(silent=True)), rows)
    assert {broker for row in rows_of_all(seen) for broker in row} <= {1, 2}
    made = plan_raw(encode_plan_input(seen), "yard", PlanOptions(ignore_racks=True))
    assert "broker 3 is listed as live and does not answer: nothing comes to it" in made.plan.notes


def test_nobody_silent_is_put_first_in_place_of_a_demoted_leader() -> None:
    """An outsider's find: [3, 2, 4], led by 2, was given to broker 3, of which the same output says it does not answer."""
    one, two, three, four = bare(1, 2, 3, 4)
    led_by_2 = partition("t", (3, 2, 4), 1, MB, (2, 3, 4)), partition("u", (2, 3), 1, MB, (2, 3))
    seen = Inventory("yard", 0, (one, two, three._replace(silent=True), four), led_by_2)
    made = plan_raw(encode_plan_input(seen), "yard", PlanOptions(scope="demote", brokers=(2,), ignore_racks=True))
    (row,) = json.loads(made.reassignment)["partitions"]
    assert (row["topic"], row["replicas"][0]) == ("t", 4)
    (left,) = made.plan.undone
    assert (left.what, left.why) == (
        "u-0 is still led by broker 2",
        "no other replica can lead now: those on 3 are offline, out of sync or silent",
    )


def test_a_leader_that_leaves_is_not_said_to_be_another_one() -> None:
    """An outsider's find: "still led by broker 3", which never led it: it would, once its open move has ended."""
    rows = partition("t", (4, 3), 1, MB, (4, 3)), partition("u", (1, 3), 1, MB, (1, 3))
    opened = live.OpenGoals({TopicPartition("t", 0): (1, 3)})
    asked = PlanOptions(scope="demote", brokers=(3,), ignore_racks=True)
    seen = Inventory("yard", 0, bare(1, 3, 4), tuple(live._at_its_goal(each, opened) for each in rows))
    (left,) = plan_raw(encode_plan_input(seen), "yard", asked).plan.undone
    assert left.what == "t-0 would be led by broker 3"


def rows_of_all(seen: Inventory) -> list[list[int]]:
    made = by_file(seen, PlanOptions(ignore_racks=True))
    assert isinstance(made, bytes)
    return [row["replicas"] for row in json.loads(made)["partitions"]]


def test_a_second_drain_is_planned_from_where_the_moves_of_the_first_one_end() -> None:
    """An outsider's find: it sent a pending move back to the dead broker that the first drain empties."""
    live_ones = tuple(each._replace(needs_all=False) for each in bare(1, 2, 4, 6))
    seen = Inventory("yard", 0, live_ones, (partition("logs", (3, 2, 1), 1, MB, (2, 1)),))
    asked = PlanOptions(scope="drain", brokers=(1,))
    pending = live.OpenGoals({TopicPartition("logs", 0): (6, 2, 1)})
    second = by_verb(seen, asked, pending)
    assert isinstance(second, bytes)
    assert set(json.loads(second)["partitions"][0]["replicas"]) == {6, 2, 4}


def test_replicas_that_come_to_share_a_rack_are_told() -> None:
    """An outsider's find: a drain of the last broker of a rack that may receive said nothing of it."""
    racked = tuple(each._replace(rack=f"rack-{(each.id - 1) % 3}") for each in bare(1, 2, 3, 4))
    seen = Inventory("yard", 0, racked, tuple(partition(name, (1, 2, 3), 1, MB, (1, 2, 3)) for name in ("t", "u")))
    made = plan_raw(encode_plan_input(seen), "yard", PlanOptions(scope="drain", brokers=(2,)))
    assert "2 partitions end with more replicas in one rack than now (t-0, u-0)" in made.plan.notes
    made = plan_raw(encode_plan_input(seen), "yard", PlanOptions(scope="drain", brokers=(1,)))
    assert not any("rack" in note for note in made.plan.notes)


def test_a_replica_that_is_dropped_counts_whatever_another_partition_gets() -> None:
    seen = Inventory(
        "yard", 0, bare(1, 2, 3), (partition("t", (1, 2, 3), 1, MB, (1, 2, 3)), partition("u", (2,), 1, MB, (2,)))
    )
    made = plan_raw(
        encode_plan_input(seen), "yard", PlanOptions(scope="change-replication", replication=2, ignore_racks=True)
    )
    assert (made.summary.dropped, made.summary.moves) == (1, 1)


def test_a_broker_that_is_fenced_and_holds_nothing_has_nothing_to_move_and_gets_nothing() -> None:
    """An outsider's find: a drain of an empty dead broker, given again, said that the cluster has no such broker."""
    gone = (InventoryBroker(9, "host", None, None, None, fenced=True),)
    seen = Inventory("yard", 0, bare(1, 2, 3), (partition("t", (1, 2), 1, MB, (1, 2)),), fenced=gone)
    told = "broker 9 is fenced and holds no replica: nothing has to leave it"
    for asked in (
        PlanOptions(scope="drain", brokers=(9,)),
        PlanOptions(scope="demote", brokers=(9,)),
        PlanOptions(scope="replace", brokers=(9,), replacements=(3,)),
    ):
        nothing = live_plan(seen, asked)
        assert not json.loads(nothing.reassignment)["partitions"]
        assert not nothing.summary.undone, "all that was asked is so"
        assert told in nothing.plan.notes
        assert planned_for(request_from(asked), sighted(seen), KeeperPolicy()).undone == (told,)
    both = live_plan(seen, PlanOptions(scope="drain", brokers=(1, 9)))
    assert [row["replicas"] for row in json.loads(both.reassignment)["partitions"]] == [[3, 2]]
    assert told in both.plan.notes
    refused = "broker 9 is fenced: it may receive nothing; bring it back, or name another broker"
    assert by_verb(seen, PlanOptions(scope="fill", brokers=(9,))) == refused
    assert by_verb(seen, PlanOptions(scope="replace", brokers=(1,), replacements=(9,))) == refused
    assert by_verb(seen, PlanOptions(scope="drain", brokers=(8,))) == (
        "brokers: the cluster has no broker 8; name some of its 3 brokers"
    )


@given(worlds())
def test_the_doctor_advises_the_plan_of_offline_replicas_wherever_it_moves_some(seen: Inventory) -> None:
    made = by_file(seen, PlanOptions(scope="offline", ignore_racks=True))
    rows = json.loads(made)["partitions"] if isinstance(made, bytes) else []
    moved = {old for row in rows for old in set(row["original_replicas"]) - set(row["replicas"])}
    topics: dict[str, dict[int, ObservedPartition]] = {}
    for each in seen.partitions:
        told = ObservedPartition(each.replicas, each.isr, each.leader, each.offline)
        topics.setdefault(each.topic, {})[each.partition] = told
    checked = CheckUp(
        "yard",
        1,
        "Apache (KRaft)",
        tuple(
            CheckedBroker(
                each.id,
                None,
                "4.1",
                (CheckedListener("P", "h", "", used=True),),
                tuple(
                    CheckedLogDir(at.path, -1, -1, "X" if at.failed else "", bool(at.cordoned))
                    for at in each.log_dirs or ()
                ),
                silent=bool(each.silent),
            )
            for each in seen.brokers
        ),
        tuple(CheckedTopic(name, 1, parts) for name, parts in topics.items()),
    )
    found = [each for each in diagnose(checked, CheckedJournal("j")) if "scope offline" in each.advice]
    advised = {int(each.text.split("broker ")[1].split(":")[0].split(" ")[0]) for each in found}
    failed = {each.id for each in seen.brokers if any(at.failed for at in each.log_dirs or ())}
    dead = {b for each in seen.partitions for b in each.replicas} - {each.id for each in seen.brokers}
    assert advised >= moved & (failed | dead)


@pytest.mark.parametrize(
    ("rows", "quorum", "unread", "why"),
    [
        ([(1, 2)], None, (), ""),
        ([(1, 2)], Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(4, 0, 0))), (), ""),
        ([(1, 2)], Quorum(1, (Voter(1, 0, 0), Voter(4, 0, 0))), (), "the metadata quorum needs it as a controller"),
        ([(1, 2)], None, ((QUORUM, "w"),), "whether the metadata quorum needs it is not known"),
        ([(1, 3)], None, (), "broker 3 is down, and what it can take may be needed"),
    ],
)
def test_a_drained_broker_is_not_safe_to_remove_while_something_needs_it(
    rows: list[tuple[int, ...]], quorum: Quorum | None, unread: tuple[tuple[str, str], ...], why: str
) -> None:
    """An outsider's find: "safe to remove", of a controller without which the quorum had no majority."""
    partitions = tuple(InventoryPartition("t", None, 0, row, row[:1], 1, 0, 1, 1, ()) for row in rows)
    seen = replace(NO_CHECK_UP, quorum=quorum, unread=unread)
    sighting = sighting_of(Inventory("yard", 0, bare(1, 2, 4), partitions), seen, CheckedJournal("j"), ())
    assert emptied(sighting, KeeperPolicy(intents=Intents(drain=(4,)))) == ((4, why),)
