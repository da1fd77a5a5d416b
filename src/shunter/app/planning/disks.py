"""Plan log dirs within the brokers of a live cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shunter.app.client_configuration import configuration_of
from shunter.core.planning.disks import DisksPlan, plan_disks
from shunter.drivers.admin.inventory import take_inventory
from shunter.formats.reassignment_json import encode_plan
from shunter.model.execution import MoveOrder
from shunter.model.inventory import BrokerDisks, Inventory
from shunter.model.partition import BrokerId, TopicPartition


class DisksPlanned(NamedTuple):
    """A plan of log dirs: Kafka's reassignment JSON, the plan itself, and notes for people."""

    reassignment: bytes
    plan: DisksPlan
    notes: tuple[str, ...]


def plan_log_dirs(
    bootstrap: str,
    properties: Path | None,
    brokers: Sequence[BrokerId],
    emptied: Sequence[tuple[BrokerId, str]],
    band: float,
    headroom: float,
) -> DisksPlanned:
    """Look at a cluster's log dirs, and plan them.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        PlanRefused: a named broker or log dir does not exist.
    """
    seen = take_inventory(configuration_of(bootstrap, properties), offsets=False)
    return plan_seen(seen, brokers, emptied, band, headroom)


def plan_seen(
    seen: Inventory,
    brokers: Sequence[BrokerId],
    emptied: Sequence[tuple[BrokerId, str]],
    band: float,
    headroom: float,
) -> DisksPlanned:
    """Plan the log dirs that a snapshot shows; the other arguments as of `plan_disks`.

    Raises:
        PlanRefused: a named broker or log dir does not exist.
    """
    several = {each.broker for each in seen.disks}
    single = [
        BrokerDisks(each.id, each.log_dirs, ()) for each in seen.brokers if each.log_dirs and each.id not in several
    ]
    found = plan_disks([*seen.disks, *single], chosen=brokers, emptied=emptied, band=band, headroom=headroom)
    answered = several | {each.broker for each in single}
    silent = [(broker, why) for broker, why in seen.unanswered if broker not in answered]
    notes = (*found.notes, *(f"broker {broker} did not report its log dirs: {why}" for broker, why in silent))
    return DisksPlanned(encode_plan(_orders(found, seen)).encode(), found, notes)


def _orders(found: DisksPlan, seen: Inventory) -> list[MoveOrder]:
    """One order for each partition: its current replicas, and the new log dirs of replicas that move."""
    paths: dict[TopicPartition, dict[BrokerId, str]] = {}
    for move in found.moves:
        tp = TopicPartition(move.replica.topic, move.replica.partition)
        paths.setdefault(tp, {})[move.broker] = move.target
    replicas = {TopicPartition(each.topic, each.partition): each.replicas for each in seen.partitions}
    return [
        MoveOrder(tp, replicas[tp], None, tuple(sorted(log_dirs.items())), replicas[tp])
        for tp, log_dirs in sorted(paths.items())
    ]


__all__ = ["DisksPlanned", "plan_log_dirs", "plan_seen"]
