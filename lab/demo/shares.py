"""The balance of a cluster, as the demo measures it: each broker's share of the mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from shunter.model.inventory import Inventory
from shunter.model.partition import BrokerId

Shares = Mapping[str, Mapping[BrokerId, float]]
"""By resource, then broker; 1.0 is the mean."""


def shares_of(taken: Inventory, topics: Collection[str] | None = None) -> Shares:
    """Return brokers' shares of the mean: `disk` from their log dirs, `replicas` and `leaders` from metadata.

    Args:
        topics: Those that count; None: all. A topic that was created after the plan is not balanced by it.
    """
    brokers = [broker.id for broker in taken.brokers]
    held = {what: dict.fromkeys(brokers, 0.0) for what in ("disk", "replicas", "leaders")}
    for partition in taken.partitions:
        if topics is not None and partition.topic not in topics:
            continue
        held["leaders"][partition.leader] += 1
        for broker in partition.replicas:
            held["replicas"][broker] += 1
        for broker, size in partition.sizes:
            held["disk"][broker] += size
    shares: dict[str, dict[BrokerId, float]] = {}
    for what, amounts in held.items():
        mean = sum(amounts.values()) / max(1, len(brokers))
        shares[what] = {broker: amount / mean if mean else 1.0 for broker, amount in amounts.items()}
    return shares


def told_shares(shares: Shares) -> str:
    """The least and the greatest share of each resource."""
    return ", ".join(f"{what} {min(of.values()):.2f}-{max(of.values()):.2f}" for what, of in shares.items())


def within(shares: Shares, band: float) -> bool:
    """Whether every share is no further from the mean than `band`."""
    return all(abs(share - 1) <= band + 1e-9 for of in shares.values() for share in of.values())
