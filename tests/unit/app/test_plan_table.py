"""The table of scopes and facts in docs/planning.md, cell by cell; log dirs of a snapshot; brokers to be cordoned."""

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from shunter.app.executor.session import Target
from shunter.app.planning import cordons
from shunter.app.planning.cordons import cordons_of
from shunter.app.planning.disks import plan_seen
from shunter.app.planning.plan import PlanOptions, plan_raw
from shunter.cli import plan as plan_command
from shunter.core.planning.request import PlanRefused
from shunter.drivers.admin.answers import SettingsSeen
from shunter.errors import SettingsError
from shunter.formats.plan_inventory import encode_plan_input
from shunter.model.execution import ExecutionOptions, ThrottleKey
from shunter.model.inventory import BrokerDisks, Disk, DiskReplica, Inventory, InventoryBroker, InventoryPartition

MB = 1 << 20
ILL = 2
ROOMY = Disk("/a", 1_000 * MB, 900 * MB)
FULL = Disk("/a", 100 * MB, 10 * MB)
FACTS = ("well", "dead", "fenced", "cordoned", "damaged", "behind")
A, B, FAILED = Disk("/a", 1_000, 900), Disk("/b", 1_000, 900), Disk("/c", None, None, failed=True)


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
        way = {"cordoned": "lift its cordon", "damaged": "mend that log dir"}.get(fact, "bring it back")
        with pytest.raises(PlanRefused, match=f"broker {ILL} .*: it may receive nothing; {way}"):
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


def broker(number: int, *log_dirs: Disk, silent: bool | None = None) -> InventoryBroker:
    return InventoryBroker(number, "host", None, None, None, log_dirs=log_dirs or None, silent=silent)


HEAPED = tuple(DiskReplica("t", at, "/a", 100) for at in range(4))
SEEN = Inventory(
    "yard",
    0,
    (broker(1, A, B, FAILED), broker(2, A), broker(3, silent=True)),
    tuple(InventoryPartition("t", None, at, (2, 1), (2, 1), 2, 0, 1, 1, ()) for at in range(4)),
    ((1, "log dir /c failed"), (3, "it does not answer within 3 s")),
    (BrokerDisks(1, (A, B, FAILED), HEAPED),),
)


def test_each_fact_of_a_log_dir_is_told_and_obeyed() -> None:
    made = plan_seen(SEEN, (), (), 0.1, 0.2)
    rows = json.loads(made.reassignment)["partitions"]
    assert {tuple(row["log_dirs"]) for row in rows} == {("any", "/b")}
    assert len(rows) == 2
    assert made.plan.undone == (("broker 2 stays as it is", "it has no other log dir that works"),)
    failed, silent = made.notes
    assert failed.startswith("/c of broker 1 is left out: it failed")
    assert silent == "broker 3 did not report its log dirs: it does not answer within 3 s"


def test_a_broker_that_told_nothing_can_not_be_asked_for() -> None:
    with pytest.raises(PlanRefused, match="broker 3 reported no log dirs"):
        plan_seen(SEEN, (3,), (), 0.1, 0.2)


class Brokers:
    """Three live brokers; those before Kafka 4.3 do not know the setting."""

    def __init__(self, old: Sequence[int]) -> None:
        self.old = old

    async def brokers(self) -> dict[int, str | None]:
        return {1: None, 2: None, 3: None}

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        return SettingsSeen(dict.fromkeys(keys), {key: None if int(key.name) in self.old else "" for key in keys})

    async def close(self) -> None:
        pass


def asked(monkeypatch: pytest.MonkeyPatch, brokers: Sequence[int], *, old: Sequence[int] = ()) -> tuple[Any, ...]:
    async def connect(_target: Target) -> Brokers:
        return Brokers(old)

    monkeypatch.setattr(cordons, "connect", connect)
    return asyncio.run(cordons_of(Target("kafka1:9092"), brokers))


def test_live_brokers_get_all_their_log_dirs_cordoned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, (2, 9)) == ((2, "*"),), "broker 9 is dead"


def test_brokers_that_do_not_know_the_setting_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"broker 2, 3 can't be cordoned: cordoned\.log\.dirs came with Kafka 4\.3"):
        asked(monkeypatch, (1, 2, 3), old=(2, 3))


@pytest.mark.parametrize("cordon", [False, True])
def test_a_drain_cordons_the_brokers_that_it_names(monkeypatch: pytest.MonkeyPatch, cordon: bool) -> None:
    taken: list[ExecutionOptions] = []

    def carry_out(_made: Any, _asked: Any, _target: Any, options: ExecutionOptions, _how: Any) -> int:
        taken.append(options)
        return 0

    monkeypatch.setattr(
        plan_command, "_plan_live", lambda *_: (SimpleNamespace(plan=SimpleNamespace(moves=(1,))), "c", ())
    )
    monkeypatch.setattr(plan_command, "_tell", lambda *_: None)
    monkeypatch.setattr(plan_command, "_cordons", lambda _target, brokers: tuple((each, "*") for each in brokers))
    monkeypatch.setattr(plan_command, "_carry_out", carry_out)
    flags = ["--cordon"] if cordon else []
    done = CliRunner().invoke(plan_command.drain, ["3", "--bootstrap-server", "kafka1:9092", "--yes", *flags])
    assert done.exit_code == 0, done.output
    (options,) = taken
    assert options.cordons == (((3, "*"),) if cordon else ())
