"""When brokers' disks are full at their present growth, and the cluster as it would be after a number of days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shunter.core.keeper.growth import DAY_MS, UNKNOWN, DiskGrowth
from shunter.core.keeper.sighting import KIB, Sighting, held_bytes
from shunter.core.planning.cluster import ClusterLoad, Floats
from shunter.core.wording import told_bytes
from shunter.model.partition import BrokerId
from shunter.model.service import LookGist

FAR_DAYS = 3_650
NAMED = 3


class Filling(NamedTuple):
    """How a broker's disks fill: bytes in all, in use, and added each day."""

    total: int
    used: int
    held: float
    """The part of `used` that replicas take, as the planner counts them."""
    other_per_day: float
    per_day: float
    """Growth of replicas and of other data together."""
    topics: tuple[str, ...]
    """The topics whose replicas on this broker grow most, the fastest first."""

    @property
    def days(self) -> float:
        """Days until the disks are full; infinite if they do not grow."""
        return max(0.0, self.total - self.used) / self.per_day if self.per_day > 0 else float("inf")

    @property
    def told(self) -> str:
        """When the disks are full, and because of which topics, as the end of a sentence."""
        by = f" (most by {', '.join(self.topics)})" if self.topics else ""
        return f"full in {self.days:.1f} days at their growth of {told_bytes(self.per_day)} a day{by}"


class DiskRunway(NamedTuple):
    """Days until the first broker's disks are full, and that broker; `why`: the reason why there is no such day."""

    days: float | None
    broker: BrokerId | None
    why: str


def gist_of(sighting: Sighting, conditions: tuple[str, ...]) -> LookGist:
    """The summary of a look that is kept. A topic counts if the size of each of its partitions is known."""
    taken = sighting.inventory
    held: dict[BrokerId, int] = {}
    sizes: dict[str, int] = {}
    partly: set[str] = set()
    for each, kib in zip(taken.partitions, sighting.load.sizes.tolist(), strict=True):
        sizes[each.topic] = sizes.get(each.topic, 0) + round(kib * KIB)
        if not each.sizes:
            partly.add(each.topic)
        for broker_id, size in each.sizes:
            held[broker_id] = held.get(broker_id, 0) + size
    disks = tuple(
        (broker.id, broker.disk_total_bytes - broker.disk_usable_bytes, broker.disk_total_bytes)
        for broker in taken.brokers
        if broker.disk_total_bytes and broker.disk_usable_bytes is not None
    )
    return LookGist(
        sighting.at_ms,
        disks,
        len(taken.partitions),
        sum(each.under_replicated for each in taken.partitions),
        conditions,
        tuple((topic, size) for topic, size in sizes.items() if topic not in partly),
        tuple((broker_id, used - held.get(broker_id, 0)) for broker_id, used, _total in disks),
    )


def filling(sighting: Sighting) -> Mapping[BrokerId, Filling]:
    """How disks fill, of brokers that report their size; empty if no growth is known. Pre: `sighting` is in order."""
    growth = sighting.growth
    if growth is None or growth.why or not sighting.load.brokers:
        return {}
    load = sighting.load
    grows = _rates(load, growth) * load.sizes * KIB
    held, found = held_bytes(sighting), dict[BrokerId, Filling]()
    at_broker = {broker: at for at, broker in enumerate(load.brokers)}
    for broker in sighting.inventory.brokers:
        if not broker.disk_total_bytes or broker.disk_usable_bytes is None:
            continue
        rows = (load.replicas == at_broker[broker.id]).any(axis=1) if broker.id in at_broker else np.zeros(0, np.bool_)
        by_topic = (
            np.bincount(load.topic_of[rows], weights=grows[rows], minlength=len(load.topics)) if rows.any() else None
        )
        most = () if by_topic is None else tuple(np.argsort(-by_topic, kind="stable")[:NAMED].tolist())
        other = growth.others.get(broker.id, 0.0)
        found[broker.id] = Filling(
            broker.disk_total_bytes,
            broker.disk_total_bytes - broker.disk_usable_bytes,
            held.get(broker.id, 0.0),
            other,
            other + (0.0 if by_topic is None else float(by_topic.sum())),
            tuple(load.topics[at] for at in most if by_topic is not None and by_topic[at] > 0),
        )
    return found


def _rates(load: ClusterLoad, growth: DiskGrowth) -> Floats:
    """(P,) growth a day as a share of the size. It is the whole topic's, because a partition's own is noisier."""
    whole = np.bincount(load.topic_of, weights=load.sizes, minlength=len(load.topics)) * KIB
    grows = np.array([growth.topics.get(topic, 0.0) for topic in load.topics], np.float64)
    return np.divide(grows, whole, out=np.zeros_like(grows), where=whole > 0)[load.topic_of]


def disk_runway(sighting: Sighting) -> DiskRunway:
    """The broker whose disks are full first, and when."""
    growth = UNKNOWN if sighting.growth is None else sighting.growth
    if not any(broker.disk_total_bytes for broker in sighting.inventory.brokers):
        return DiskRunway(None, None, "brokers do not tell the size of their disks (they do from Kafka 3.3 on)")
    if growth.why:
        return DiskRunway(None, None, growth.why)
    days, broker = min(((each.days, broker) for broker, each in filling(sighting).items()), default=(float("inf"), -1))
    return DiskRunway(days, broker, "") if days < FAR_DAYS else DiskRunway(None, None, "no disk grows")


def load_ahead(sighting: Sighting, days: float, most: float) -> ClusterLoad:
    """The planner's input after a number of days: sizes have grown, and capacities are the room for replicas then.

    A broker that will not be full then receives no more than keeps its disks within `most`, because a plan must not
    fill one disk to save another. Such a broker gives no replicas: its capacity is at least what it will hold.

    Args:
        sighting: A sighting in order whose growth is known.
        days: Days from now.
        most: The share of its disks up to which a broker may receive replicas.
    """
    assert sighting.growth is not None, "there is no condition without growth"
    load = sighting.load
    later = replace(sighting, load=replace(load, sizes=load.sizes * (1 + _rates(load, sighting.growth) * days)))
    held, room = held_bytes(later), dict[BrokerId, float]()
    for broker, each in filling(sighting).items():
        beside = each.used - each.held
        by_then = each.total - beside - each.other_per_day * days
        room[broker] = by_then
        if held.get(broker, 0.0) <= by_then:
            room[broker] = max(min(by_then, most * each.total - beside), held.get(broker, 0.0))
    capacity = [max(room.get(broker, np.inf), 1.0) / KIB for broker in load.brokers]
    # These capacities stand for the room; today's is gone by then.
    facts = tuple(each.without_room() for each in load.facts)
    return replace(later.load, disk_capacity=np.array(capacity, np.float64), facts=facts)


__all__ = ["DAY_MS", "DiskRunway", "Filling", "disk_runway", "filling", "gist_of", "load_ahead"]
