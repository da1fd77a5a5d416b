"""The placement of a new topic's replicas: round robin over brokers, racks apart, as Apache places them.

Source: Kafka's `AdminUtils.assignReplicasToBrokers`: first replicas round robin, the others shifted ever further, no
rack twice before every rack has one. A topic that grows goes on where its first partition began, so that its preferred
leaders stay even.
"""

from __future__ import annotations

from collections.abc import Sequence

from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, Replicas


def place_partitions(
    brokers: Sequence[Broker], partition_count: int, replication_factor: int, *, start: int, shift: int, first: int = 0
) -> tuple[Replicas, ...]:
    """Choose replicas for `partition_count` partitions, numbered from `first`; replicas[0] leads.

    Args:
        brokers: Brokers that may hold data, at least `replication_factor` of them. Racks count if all have one.
        start: Place in the round of the broker that leads partition 0; any number.
        shift: How far from the leader the second replica of partition 0 is; any number.

    Cost: O(partitions * replication factor), and O(partitions * brokers) at the most where racks count.
    """
    if all(broker.rack is not None for broker in brokers):
        return _across_racks(brokers, partition_count, replication_factor, start, shift, first)
    ring = sorted(broker.id for broker in brokers)
    size = len(ring)
    placed: list[Replicas] = []
    for number in range(first, first + partition_count):
        if number and number % size == 0:
            shift += 1
        leader = (start + number) % size
        others = (ring[_other(leader, shift, step, size)] for step in range(replication_factor - 1))
        placed.append((ring[leader], *others))
    return tuple(placed)


def continued_from(brokers: Sequence[Broker], leader: BrokerId) -> int:
    """`start` and `shift` for a topic that grows: where its first partition's preferred leader is among the brokers."""
    ids = sorted(broker.id for broker in brokers)
    return next((place for place, broker in enumerate(ids) if broker >= leader), 0)


def _other(leader: int, shift: int, step: int, size: int) -> int:
    """Place in the round of a replica that does not lead."""
    return (leader + 1 + (shift + step) % (size - 1)) % size


def _across_racks(
    brokers: Sequence[Broker], partition_count: int, replication_factor: int, start: int, shift: int, first: int
) -> tuple[Replicas, ...]:
    ring = _alternate_racks(brokers)
    racks = {broker.id: broker.rack for broker in brokers}
    rack_count = len(set(racks.values()))
    size = len(ring)
    placed: list[Replicas] = []
    for number in range(first, first + partition_count):
        if number and number % size == 0:
            shift += 1
        leader = (start + number) % size
        chosen = [ring[leader]]
        used = {racks[ring[leader]]}
        step = 0
        while len(chosen) < replication_factor:
            broker = ring[_other(leader, shift * rack_count, step, size)]
            step += 1
            if broker not in chosen and (racks[broker] not in used or len(used) == rack_count):
                chosen.append(broker)
                used.add(racks[broker])
        placed.append(tuple(chosen))
    return tuple(placed)


def _alternate_racks(brokers: Sequence[Broker]) -> list[BrokerId]:
    """Order brokers so that neighbours are in different racks, as far as possible."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(broker.rack or "", []).append(broker.id)
    rows = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(len(row) for row in rows)
    return [row[depth] for depth in range(longest) for row in rows if depth < len(row)]
