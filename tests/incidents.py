"""Clusters in an incident: brokers that are dead, fenced, cordoned, damaged or held by a throttle, disks without room."""

import json
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from hypothesis import strategies as st

from shunter.app.planning.plan import PlanOptions
from shunter.formats.broker_facts import facts_row
from shunter.formats.plan_inventory import size_of
from shunter.model.inventory import BrokerFacts, Disk, Inventory, InventoryBroker, InventoryPartition
from shunter.model.room import room_of

MB = 1 << 20
HEADROOM = 0.2
CUTS = ("change-replication", "topics")
LEAVING = ("drain", "replace")
KINDS = [
    ("cluster_id", pa.string()), ("topic", pa.string()), ("number", pa.int32()), ("rack", pa.string()),
    ("replicas", pa.list_(pa.int32())), ("size", pa.float64()), ("bytes_in", pa.float64()), ("bytes_out", pa.float64()),
    ("min_insync", pa.int32()), ("processors", pa.float64()), ("costs", pa.list_(pa.float64())),
    ("isr", pa.list_(pa.int32())), ("offline", pa.list_(pa.int32())), ("leader", pa.int32()), ("facts", pa.string()),
]  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn) -> Inventory:
    """Up to five brokers and six partitions; at least one broker is live. Any fact may be unknown or bad."""
    ids = list(range(1, draw(st.integers(2, 5)) + 1))
    dead = draw(st.sets(st.sampled_from(ids), max_size=len(ids) - 1))
    fenced = draw(st.sets(st.sampled_from(sorted(dead)))) if dead else set()
    damaged = draw(st.sets(st.sampled_from(ids), max_size=1)) - dead
    racked = draw(st.booleans())
    brokers = [_broker(draw, each, damaged, racked=racked) for each in ids if each not in dead]
    partitions: list[InventoryPartition] = []
    for at in range(draw(st.integers(1, 6))):
        held = draw(st.permutations(ids))[: draw(st.integers(1, min(3, len(ids))))]
        lost = tuple(b for b in held if b in dead or (b in damaged and draw(st.booleans())))
        up = [b for b in held if b not in lost]
        isr = tuple(b for b in up if draw(st.integers(0, 3)))
        leader = draw(st.sampled_from(isr)) if isr else -1
        size = draw(st.integers(0, 40)) * MB
        topic, least = draw(st.sampled_from("tu")), draw(st.integers(1, 2))
        sizes = tuple((b, size) for b in up)
        partitions.append(InventoryPartition(topic, None, at, tuple(held), isr, leader, 0, 1, least, sizes, lost))
    partitions.sort(key=lambda each: (each.topic, each.partition))
    needs_all = draw(st.sampled_from([None, True, False]))
    brokers = [each._replace(needs_all=needs_all) for each in brokers]
    gone = tuple(
        InventoryBroker(each, "h", "a" if racked else None, None, None, fenced=True) for each in sorted(fenced)
    )
    return Inventory("yard", 0, tuple(brokers), tuple(partitions), fenced=gone)


def _broker(draw: st.DrawFn, id_: int, damaged: set[int], *, racked: bool) -> InventoryBroker:
    rack = draw(st.sampled_from("ab")) if racked else None
    cordons = draw(st.sampled_from([(None, None), (False, False), (False, False), (True, True), (True, False)]))
    log_dirs = [_log_dir(draw, f"/{at}", cordons[at]) for at in range(draw(st.integers(0, 2)))]
    if id_ in damaged:
        log_dirs.append(Disk("/broken", None, None, failed=True))
    silent = draw(st.sampled_from([None, None, None, None, False, True]))
    throttle = draw(st.sampled_from([None, None, None, 20_000, 50_000_000]))
    if not log_dirs:
        return InventoryBroker(id_, "h", rack, None, None, silent=silent, throttle=throttle)
    known = all(each.total_bytes is not None for each in log_dirs)
    total, usable = (
        sum(int(getattr(each, name) or 0) for each in log_dirs) if known else None
        for name in ("total_bytes", "usable_bytes")
    )
    return InventoryBroker(id_, "h", rack, total, usable, False, None, tuple(log_dirs), silent, throttle=throttle)


def _log_dir(draw: st.DrawFn, path: str, cordoned: bool | None) -> Disk:
    if not draw(st.integers(0, 3)):
        return Disk(path, None, None, cordoned=cordoned)
    total = draw(st.sampled_from([100, 1_000])) * MB
    return Disk(path, total, round(total * draw(st.sampled_from([0.0, 0.21, 0.5, 1.0]))), False, cordoned, 3)


@st.composite
def questions(draw: st.DrawFn, seen: Inventory) -> PlanOptions:
    """A scope that a plan of the whole fleet may have, or offline, with what it is about."""
    ids = sorted({b.id for b in seen.brokers} | {b for each in seen.partitions for b in each.replicas})
    scope = draw(st.sampled_from([
        "rebalance", "drain", "fill", "replace", "fix-racks", "change-replication", "empty-disks", "leaders", "demote", "offline",
    ]))  # fmt: skip
    given: dict[str, Any] = {}
    if scope in {"drain", "fill", "replace", "demote"}:
        given["brokers"] = (draw(st.sampled_from(ids)),)
    if scope == "replace" and len(ids) < 2:
        scope, given = "leaders", {}
    if scope == "replace":
        given["replacements"] = (draw(st.sampled_from([b for b in ids if b not in given["brokers"]])),)
    if scope == "change-replication":
        given["replication"] = draw(st.integers(1, 4))
    if scope == "empty-disks":
        given["disk_limit_percent"] = 50.0
    if draw(st.integers(0, 3)) == 0 and len(ids) > 2:
        given["excluded_brokers"] = (draw(st.sampled_from(ids)),)
    rackless = not any(broker.rack for broker in seen.brokers)
    return PlanOptions(scope=scope, ignore_racks=rackless, **given)


def as_rows(seen: Inventory) -> pa.Table:
    """The rows that the pipeline makes of a snapshot of this cluster (`pipeline.fleet.fleet_rows`)."""
    brokers = [
        {
            "number": each.id, "rack": each.rack,
            "size": None if each.disk_total_bytes is None else float(each.disk_total_bytes),
            "facts": orjson.dumps(facts_row(each.facts)).decode(),
        }
        for each in (*seen.brokers, *seen.fenced)
    ]  # fmt: skip
    partitions = [
        {
            "topic": each.topic, "number": each.partition, "replicas": list(each.replicas),
            "size": float(size_of(each) or 0), "min_insync": each.min_insync, "isr": list(each.isr),
            "offline": list(each.offline), "leader": each.leader,
        }
        for each in seen.partitions
    ]  # fmt: skip
    return pa.Table.from_pylist([*brokers, *partitions], schema=pa.schema(KINDS))


@dataclass(frozen=True)
class Facts:
    """What the cluster shows, worked out anew and without the planner."""

    seen: Inventory

    def able(self, at: InventoryPartition) -> list[int]:
        """Replicas that can lead now."""
        up = {broker.id for broker in self.seen.brokers}
        return [b for b in at.replicas if b in up and b in at.isr and b not in at.offline]

    def standing(self, at: InventoryPartition, broker: int) -> tuple[bool, bool, bool]:
        """What speaks for a replica when others are dropped; greater is better."""
        lost = broker in at.offline or broker not in {each.id for each in self.seen.brokers}
        return broker in self.able(at), not lost, broker in self.takers()

    def takers(self) -> set[int]:
        """Brokers that may receive replicas."""
        ill = {b for each in self.seen.partitions for b in each.offline}
        found = set()
        for broker in self.seen.brokers:
            log_dirs = broker.log_dirs or ()
            shut = any(each.failed for each in log_dirs) or (log_dirs and all(each.cordoned for each in log_dirs))
            if broker.id not in ill and not shut and not broker.silent:
                found.add(broker.id)
        return found

    def closed(self) -> set[int]:
        """Brokers that Kafka takes no assignment with: all their log dirs that work are cordoned."""
        working = {each.id: [at for at in each.log_dirs or () if not at.failed] for each in self.seen.brokers}
        return {broker for broker, log_dirs in working.items() if log_dirs and all(at.cordoned for at in log_dirs)}

    def room(self, broker: int) -> float | None:
        """The bytes that may come to a broker, as the brokers tell it."""
        facts: BrokerFacts = next(each.facts for each in self.seen.brokers if each.id == broker)
        held = [(size_of(each) or 0) for each in self.seen.partitions for _ in each.replicas]
        found = room_of(facts.log_dirs or (), HEADROOM, sum(held) / len(held))
        return None if found is None else max(0.0, found.whole)


def assert_sound(reassignment: bytes, asked: PlanOptions, seen: Inventory) -> None:
    """Check a plan against what the cluster shows."""
    facts, coming = Facts(seen), dict[int, int]()
    known = {(each.topic, each.partition): each for each in seen.partitions}
    for row in json.loads(reassignment)["partitions"]:
        at, after = known[row["topic"], row["partition"]], row["replicas"]
        assert row["original_replicas"] == list(at.replicas)
        able, fresh = facts.able(at), [b for b in after if b not in at.replicas]
        assert able, f"no live replica in sync has the data of {row}"
        assert after == list(at.replicas) or not facts.closed() & set(after), f"{row} names a cordoned broker"
        assert set(fresh) <= facts.takers(), f"{row} gives a replica to a broker that can't take it"
        assert after[0] in {*able, *fresh}, f"{row} puts first what can't lead"
        in_sync = sum(b in able or b in fresh for b in after)
        least = min(len(able), len(after)) if asked.scope in CUTS else len(able)
        assert in_sync >= least, f"{row} leaves {in_sync} of {len(able)} in sync"
        assert in_sync >= min(at.min_insync, len(able))
        kept = [b for b in after if b in at.replicas]
        excluded = set(asked.excluded_brokers) - (set(asked.brokers) if asked.scope in LEAVING else set())
        assert not (set(at.replicas) - set(kept)) & excluded, f"{row} takes a replica from an excluded broker"
        assert not set(fresh) & set(asked.excluded_brokers)
        if asked.scope in CUTS and len(after) < len(at.replicas) and not fresh:
            dropped = [b for b in at.replicas if b not in after]
            worst = min(facts.standing(at, b) for b in kept if b not in excluded) if set(kept) - excluded else (9,)
            assert max(facts.standing(at, b) for b in dropped) <= worst, f"{row} drops a better replica than it keeps"
        if row.get("elect"):
            assert asked.scope in {"leaders", "demote"}
            assert after[0] in able
            assert asked.scope != "demote" or after[0] not in asked.brokers
        for broker in fresh:
            coming[broker] = coming.get(broker, 0) + (size_of(at) or 0)
    for broker, size in coming.items():
        room = facts.room(broker)
        assert room is None or size <= room * (1 + 1e-9) + 1, f"broker {broker} gets {size}, and has room for {room}"
