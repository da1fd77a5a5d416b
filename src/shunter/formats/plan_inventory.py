"""A snapshot of a live cluster as the planner's input: the JSON of `plan_files`, sizes in KiB."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.model.inventory import Inventory, InventoryPartition
from shunter.model.partition import BrokerId

KIB = 1024


def encode_plan_input(taken: Inventory, leaving: Collection[BrokerId], gone: str) -> bytes:
    """Write a snapshot as a plan input; racks are null where brokers have none.

    Partitions without replicas are left out, because a plan can't move what is nowhere.

    Args:
        taken: The snapshot.
        leaving: Brokers that the plan takes everything from. Such a broker may be dead.
        gone: The rack that is written for dead brokers.

    Raises:
        FormatError: a broker holds replicas and is not live, and the plan leaves them there.
    """
    live = {broker.id for broker in taken.brokers}
    held = {broker for partition in taken.partitions for broker in partition.replicas}
    dead = sorted(held - live)
    staying = [broker for broker in dead if broker not in leaving]
    if staying:
        rule = f"it holds replicas and is not live: bring it back, or plan it away (--scope drain --brokers {staying[0]}, or replace)"
        raise FormatError(f"cluster {taken.cluster_id}, broker {staying[0]}", rule)
    brokers: dict[str, dict[str, Any]] = {
        str(broker.id): {"rack": broker.rack}
        | ({"disk_capacity": broker.disk_total_bytes / KIB} if broker.disk_total_bytes else {})
        for broker in taken.brokers
    }
    brokers |= {str(broker): {"rack": gone} for broker in dead}
    partitions = [_row(partition) for partition in taken.partitions if partition.replicas]
    return orjson.dumps({"brokers": brokers, "partitions": partitions}, option=orjson.OPT_APPEND_NEWLINE)


def size_of(partition: InventoryPartition) -> int | None:
    """Bytes of one replica: the leader's, else the greatest that is known; None if no broker reported one."""
    sizes = dict(partition.sizes)
    return sizes.get(partition.leader, max(sizes.values(), default=None))


def _row(partition: InventoryPartition) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": partition.replicas,
        "size": (size_of(partition) or 0) / KIB,
        "min_isr": partition.min_insync,
    }
