"""A snapshot of a live cluster as the planner's input: the JSON of `plan_files`, sizes in KiB."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson

from shunter.formats.broker_facts import facts_row
from shunter.model.inventory import Inventory, InventoryPartition
from shunter.model.partition import BrokerId

KIB = 1024


def encode_plan_input(taken: Inventory) -> bytes:
    """Write a snapshot as a plan input, with all that is known of brokers and replicas; racks are null where unknown.

    Partitions without replicas are left out, because a plan can't move what is nowhere. Brokers that hold replicas and
    are not live are in it, as dead or fenced: each scope knows what that means for it.
    """
    live = {broker.id for broker in taken.brokers}
    held = {broker for partition in taken.partitions for broker in (*partition.replicas, *partition.isr)}
    fenced = {broker.id: broker.rack for broker in taken.fenced}
    brokers: dict[str, dict[str, Any]] = {
        str(broker.id): {"rack": broker.rack}
        | ({"disk_capacity": broker.disk_total_bytes / KIB} if broker.disk_total_bytes else {})
        | facts_row(broker.facts.in_units(KIB))
        for broker in taken.brokers
    }
    for broker in sorted(held - live):
        told = {"fenced": True} if broker in fenced else {}
        brokers[str(broker)] = {"rack": fenced.get(broker), "live": False, **told}
    known = {*live, *held}
    partitions = [_row(partition, known) for partition in taken.partitions if partition.replicas]
    return orjson.dumps({"brokers": brokers, "partitions": partitions}, option=orjson.OPT_APPEND_NEWLINE)


def size_of(partition: InventoryPartition) -> int | None:
    """Bytes of one replica: the leader's, else the greatest that is known; None if no broker reported one."""
    sizes = dict(partition.sizes)
    return sizes.get(partition.leader, max(sizes.values(), default=None))


def _row(partition: InventoryPartition, known: Collection[BrokerId]) -> dict[str, Any]:
    # A reassignment under way counts as done: else a plan would keep what it removes, and raise the number of replicas.
    replicas = tuple(broker for broker in partition.replicas if broker not in partition.removing) or partition.replicas
    isr = tuple(broker for broker in partition.isr if broker in replicas or broker not in partition.removing)
    if partition.isr and not isr:  # Its data are on what is removed alone, and will be on what is added.
        isr = tuple(broker for broker in partition.adding if broker in replicas and broker not in partition.offline)
    leader = partition.leader if partition.leader in known else -1
    if leader in partition.removing and leader not in replicas:
        leader = -1  # Who leads then is not known.
    lost = [broker for broker in partition.offline if broker in replicas]
    offline = {"offline": lost} if lost else {}
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": replicas,
        "size": (size_of(partition) or 0) / KIB,
        "min_isr": partition.min_insync,
        "isr": isr,
        "leader": leader,
        **offline,
    }
