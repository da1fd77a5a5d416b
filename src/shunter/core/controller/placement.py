"""Where a new topic's replicas go: round robin over brokers, racks apart, started at a random place.

Source: Kafka's `AdminUtils.assignReplicasToBrokers`: first replicas round robin, the others shifted ever further, no
rack twice before every rack has one.
"""

from __future__ import annotations

from collections.abc import Sequence

from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, Replicas


def place_partitions(
    brokers: Sequence[Broker], partition_count: int, replication_factor: int, *, seed: int, first: int = 0
) -> tuple[Replicas, ...]:
    """Choose replicas for `partition_count` partitions, numbered from `first`; replicas[0] leads.

    `brokers` are those that may hold data, at least `replication_factor` of them; `seed` is any number: which broker
    and which shift the round begins with.

    Cost: O(partitions * brokers).
    """
    ring = _alternate_racks(brokers)
    racks = {broker.id: broker.rack for broker in brokers}
    rack_count = len(set(racks.values())) if None not in racks.values() else 0
    start, shift = seed % len(ring), (seed // len(ring)) % len(ring)
    placed: list[Replicas] = []
    for number in range(first, first + partition_count):
        if number and number % len(ring) == 0:
            shift += 1
        leader = (start + number) % len(ring)
        order = [ring[leader]] + [
            ring[(leader + 1 + (shift + step) % (len(ring) - 1)) % len(ring)] for step in range(len(ring) - 1)
        ]
        placed.append(_spread(order, racks, rack_count, replication_factor))
    return tuple(placed)


def _spread(
    order: list[BrokerId], racks: dict[BrokerId, str | None], rack_count: int, replication_factor: int
) -> Replicas:
    """Take from `order`, passing over brokers whose rack has a replica already while other racks have none."""
    chosen: list[BrokerId] = []
    used: set[str | None] = set()
    for broker in order:
        if len(chosen) == replication_factor:
            break
        if rack_count and racks[broker] in used and len(used) < rack_count:
            continue
        chosen.append(broker)
        used.add(racks[broker])
    for broker in order:
        if len(chosen) == replication_factor:
            break
        if broker not in chosen:
            chosen.append(broker)
    return tuple(chosen)


def _alternate_racks(brokers: Sequence[Broker]) -> list[BrokerId]:
    """Brokers so ordered that neighbours are in different racks as far as that goes."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(broker.rack or "", []).append(broker.id)
    rows = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(len(row) for row in rows)
    return [row[depth] for depth in range(longest) for row in rows if depth < len(row)]
