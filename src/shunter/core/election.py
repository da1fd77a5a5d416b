"""Elections of a partition's next leader, with its next ISR: pure functions, as Apache 3.9 elects.

`live` are the brokers that can serve the partition now. None means that no broker may lead.
Source: Apache Kafka 3.9, `PartitionLeaderElectionAlgorithms` and `Election`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from shunter.model.partition import BrokerId, Replicas


class NewLeadership(NamedTuple):
    """An election's result. `unclean`: the leader was out of sync, records may be lost, the partition is RECOVERING."""

    leader: BrokerId
    isr: Replicas
    unclean: bool = False


def elect_first(replicas: Replicas, live: Collection[BrokerId]) -> NewLeadership | None:
    """The first election of a new partition: all live replicas are in sync, and the first of them leads."""
    present = tuple(broker for broker in replicas if broker in live)
    return NewLeadership(present[0], present) if present else None


def elect_for_offline(
    replicas: Replicas, isr: Replicas, live: Collection[BrokerId], *, unclean_allowed: bool
) -> NewLeadership | None:
    """The leader is gone: the first live in-sync replica leads, and the ISR keeps its live members.

    If no replica in sync is live and `unclean_allowed`, the first live replica leads and is the only one in sync.
    """
    leader = _first(replicas, isr, live)
    if leader is not None:
        return NewLeadership(leader, tuple(broker for broker in isr if broker in live))
    stale = _first(replicas, replicas, live) if unclean_allowed else None
    return None if stale is None else NewLeadership(stale, (stale,), unclean=True)


def elect_preferred(replicas: Replicas, isr: Replicas, live: Collection[BrokerId]) -> NewLeadership | None:
    """The first replica leads if it is live and in sync; the ISR stays."""
    leader = _first(replicas[:1], isr, live)
    return None if leader is None else NewLeadership(leader, isr)


def elect_for_shutdown(
    replicas: Replicas, isr: Replicas, live: Collection[BrokerId], shutting_down: Collection[BrokerId]
) -> NewLeadership | None:
    """The leader is about to stop: the first live in-sync replica that stays leads; stopping brokers leave the ISR."""
    staying = tuple(broker for broker in isr if broker not in shutting_down)
    leader = _first(replicas, staying, live)
    return None if leader is None else NewLeadership(leader, staying)


def elect_for_reassignment(
    replicas: Iterable[BrokerId], isr: Replicas, live: Collection[BrokerId]
) -> NewLeadership | None:
    """The leader is being moved away: the first live in-sync member of the new replicas leads; the ISR stays."""
    leader = _first(replicas, isr, live)
    return None if leader is None else NewLeadership(leader, isr)


def _first(replicas: Iterable[BrokerId], isr: Replicas, live: Collection[BrokerId]) -> BrokerId | None:
    return next((broker for broker in replicas if broker in isr and broker in live), None)
