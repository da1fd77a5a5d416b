"""Plan log dirs within the brokers of a live cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from shunter.app.executor.session import Target, connect
from shunter.core.planning.disks import DisksPlan, plan_disks
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.formats.reassignment_json import encode_plan
from shunter.model.execution import MoveOrder, ObservedTopic
from shunter.model.inventory import BrokerDisks, Disk, DiskReplica
from shunter.model.partition import BrokerId, TopicPartition


class DisksPlanned(NamedTuple):
    """A plan of log dirs: Kafka's reassignment JSON, the plan itself, and notes for people."""

    reassignment: bytes
    plan: DisksPlan
    notes: tuple[str, ...]


def plan_log_dirs(
    target: Target, brokers: Sequence[BrokerId], emptied: Sequence[tuple[BrokerId, str]], band: float, headroom: float
) -> DisksPlanned:
    """Look at a cluster's log dirs, and plan them.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        PlanRefused: a named broker or log dir does not exist.
    """
    seen, topics = asyncio.run(_look(target))
    found = plan_disks(_disks(seen), chosen=brokers, emptied=emptied, band=band, headroom=headroom)
    notes = tuple(f"broker {broker} did not report its log dirs: {why}" for broker, why in seen.failed)
    return DisksPlanned(encode_plan(_orders(found, topics)).encode(), found, notes)


async def _look(target: Target) -> tuple[LogDirsSeen, dict[str, ObservedTopic | None]]:
    admin = await connect(target)
    try:
        names = await admin.topic_names()
        topics = (await admin.observe_topics(names)).topics
        held: dict[BrokerId, list[TopicPartition]] = {broker: [] for broker in await admin.brokers()}
        for name, topic in topics.items():
            for number, partition in () if topic is None else topic.partitions.items():
                for broker in partition.replicas:
                    held.setdefault(broker, []).append(TopicPartition(name, number))
        return await admin.observe_log_dirs({broker: some for broker, some in held.items() if some}), dict(topics)
    finally:
        await admin.close()


def _disks(seen: LogDirsSeen) -> list[BrokerDisks]:
    """Each broker's log dirs. A replica on its way to another log dir counts there."""
    replicas: dict[BrokerId, list[DiskReplica]] = {}
    for (broker, tp), size in {**seen.sizes, **seen.futures}.items():
        replicas.setdefault(broker, []).append(DiskReplica(tp.topic, tp.partition, size.log_dir, size.bytes))
    disks: dict[BrokerId, list[Disk]] = {}
    for (broker, path), space in seen.spaces.items():
        known = space.total >= 0
        total, usable = (space.total, space.usable) if known else (None, None)
        disks.setdefault(broker, []).append(Disk(path, total, usable, cordoned=space.cordoned))
    return [BrokerDisks(broker, tuple(found), tuple(replicas.get(broker, ()))) for broker, found in disks.items()]


def _orders(found: DisksPlan, topics: dict[str, ObservedTopic | None]) -> list[MoveOrder]:
    """One order for each partition: its current replicas, and the new log dirs of replicas that move."""
    paths: dict[TopicPartition, dict[BrokerId, str]] = {}
    for move in found.moves:
        tp = TopicPartition(move.replica.topic, move.replica.partition)
        paths.setdefault(tp, {})[move.broker] = move.target
    orders: list[MoveOrder] = []
    for tp in sorted(paths):
        topic = topics.get(tp.topic)
        assert topic is not None, "brokers were asked only about topics that were listed"
        replicas = topic.partitions[tp.partition].replicas
        orders.append(MoveOrder(tp, replicas, None, tuple(sorted(paths[tp].items())), replicas))
    return orders


__all__ = ["DisksPlanned", "plan_log_dirs"]
