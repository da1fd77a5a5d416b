"""The table of scopes and facts in docs/planning.md, cell by cell: what leaves an ill broker, and what leads there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shunter.app.planning.plan import PlanOptions, plan_raw
from shunter.core.planning.request import PlanRefused
from shunter.formats.plan_inventory import encode_plan_input
from shunter.model.inventory import Disk, Inventory, InventoryBroker, InventoryPartition

MB = 1 << 20
ILL = 2
ROOMY = Disk("/a", 1_000 * MB, 900 * MB)
FULL = Disk("/a", 100 * MB, 10 * MB)
FACTS = ("well", "dead", "fenced", "cordoned", "damaged", "behind")


def world(fact: str) -> Inventory:
    """Brokers 1 and 2 hold everything, half of it led by each, and broker 2 is ill; 3 and 4 are nearly empty."""
    log_dirs = {
        "cordoned": (FULL._replace(cordoned=True),),
        "damaged": (FULL, Disk("/b", None, None, failed=True)),
    }.get(fact, (FULL,))
    ill = InventoryBroker(ILL, "host", None, 100 * MB, 10 * MB, log_dirs=log_dirs)
    others = [InventoryBroker(each, "host", None, 1_000 * MB, 900 * MB, log_dirs=(ROOMY,)) for each in (1, 3, 4)]
    down = fact in {"dead", "fenced"}
    rows = [
        InventoryPartition(
            "t", None, at, replicas := (ILL, 1) if at % 2 else (1, ILL),
            isr := (1,) if fact == "behind" or at in lost(fact) else replicas,
            isr[0], 0, 1, 1, ((1, 8 * MB),), (ILL,) if at in lost(fact) else (),
        )
        for at in range(8)
    ]  # fmt: skip
    gone = (ill._replace(fenced=True),) if fact == "fenced" else ()
    brokers = tuple(sorted(others if down else [*others, ill], key=lambda each: each.id))
    return Inventory("yard", 0, brokers, tuple(rows), fenced=gone)


def lost(fact: str) -> set[int]:
    """Partitions whose replica on the ill broker is offline; of a damaged broker those in the log dir that failed."""
    return {"dead": set(range(8)), "fenced": set(range(8)), "damaged": {6, 7}}.get(fact, set())


def planned(fact: str, scope: str, **asked: Any) -> dict[int, list[int]]:
    """The replicas of each partition at the end."""
    options = PlanOptions(scope=scope, ignore_racks=True, **asked)
    seen = world(fact)
    made = plan_raw(encode_plan_input(seen), "yard", options)
    changed = {row["partition"]: row["replicas"] for row in json.loads(made.reassignment)["partitions"]}
    return {each.partition: changed.get(each.partition, list(each.replicas)) for each in seen.partitions}


def leaving(fact: str, scope: str, **asked: Any) -> set[int]:
    return {at for at, row in planned(fact, scope, **asked).items() if ILL not in row}


ALL, NONE = set(range(8)), set[int]()


@pytest.mark.parametrize("fact", FACTS)
def test_what_leaves_the_broker(fact: str) -> None:
    ill = fact not in {"well", "behind"}
    assert bool(leaving(fact, "rebalance")) is not ill
    assert leaving(fact, "drain", brokers=(ILL,)) == ALL
    assert leaving(fact, "replace", brokers=(ILL,), replacements=(3,)) == ALL
    assert leaving(fact, "fix-racks") == NONE
    assert leaving(fact, "offline") == lost(fact)
    assert bool(leaving(fact, "empty-disks", disk_limit_percent=50.0)) is (fact not in {"dead", "fenced"})
    assert leaving(fact, "leaders") == leaving(fact, "demote", brokers=(1,)) == NONE


@pytest.mark.parametrize("asked", [
    {"scope": "rebalance"}, {"scope": "fill", "brokers": (3,)}, {"scope": "drain", "brokers": (1,)},
    {"scope": "replace", "brokers": (1,), "replacements": (3,)}, {"scope": "fix-racks"}, {"scope": "offline"},
    {"scope": "change-replication", "replication": 3}, {"scope": "leaders"}, {"scope": "demote", "brokers": (1,)},
], ids=lambda asked: asked["scope"])  # fmt: skip
def test_what_keeps_the_cordoned_broker_stays_as_it_is(asked: dict[str, Any]) -> None:
    assert planned("cordoned", **asked) == {
        each.partition: list(each.replicas) for each in world("cordoned").partitions
    }


@pytest.mark.parametrize("fact", FACTS)
def test_what_a_cut_drops(fact: str) -> None:
    cut = planned(fact, "change-replication", replication=1)
    assert all(len(row) == 1 for row in cut.values())
    assert fact == "well" or all(row == [1] for row in cut.values())


@pytest.mark.parametrize("fact", FACTS)
def test_what_comes_to_the_broker_is_refused_by_name(fact: str) -> None:
    for asked in ({"scope": "fill", "brokers": (ILL,)}, {"scope": "replace", "brokers": (3,), "replacements": (ILL,)}):
        if fact in {"well", "behind"}:
            planned(fact, **asked)
            continue
        with pytest.raises(PlanRefused, match=f"broker {ILL} .*: it may receive nothing"):
            planned(fact, **asked)
    filled = planned(fact, "fill", brokers=(3,))
    # Each partition has a replica on the broker: beside one that is offline or cordoned and stays, nothing changes.
    assert any(3 in row for row in filled.values()) is (fact not in {"dead", "fenced", "cordoned"})
    assert fact in {"well", "behind"} or all(ILL in row for row in filled.values()), "it gives nothing"


@pytest.mark.parametrize("fact", FACTS)
def test_what_leads(fact: str) -> None:
    # Beside a cordoned broker the order stays as it is.
    able = ALL if fact == "well" else ALL - lost(fact) if fact == "damaged" else NONE
    demoted = planned(fact, "demote", brokers=(1,))
    assert {at for at, row in demoted.items() if row[0] == ILL} == able | {1, 3, 5, 7}
    if fact != "cordoned":
        assert all(row[0] == 1 for row in planned(fact, "demote", brokers=(ILL,)).values())
    led = planned(fact, "leaders")
    assert {at for at, row in led.items() if row[0] == ILL} <= able | {1, 3, 5, 7}


def test_a_broker_that_is_dead_leads_nothing_new() -> None:
    """The order of partitions that do not change stays, so that a broker that returns leads there again."""
    assert planned("dead", "leaders") == {each.partition: list(each.replicas) for each in world("dead").partitions}
