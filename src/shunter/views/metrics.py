"""Figures about the cluster that a controller leads, for its metrics and its status."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from shunter.core.controller.state import ClusterView
from shunter.model.partition import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class PendingDeletions:
    """Topics that are being deleted, and their replicas that are not deleted yet. `stuck`: some are on dead brokers."""

    topics: int = 0
    replicas: int = 0
    stuck_topics: int = 0
    stuck_replicas: int = 0


@dataclass(frozen=True, slots=True)
class ClusterMetrics:
    """The cluster that the controller leads. `moves` counts reassignments by phase."""

    active: bool
    controller_epoch: int
    brokers: int
    topics: int
    partitions: int
    moves: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Lag:
    """How late the event loop was: at the last probe, and at the worst since the last scrape; seconds."""

    last_s: float
    worst_s: float


def pending_deletions(
    deletions: Mapping[str, AbstractSet[tuple[TopicPartition, BrokerId]]], live: AbstractSet[BrokerId]
) -> PendingDeletions:
    """Count the replicas that have to be deleted. Cost: O(replicas of topics that are being deleted)."""
    stuck = [sum(broker not in live for _, broker in replicas) for replicas in deletions.values()]
    return PendingDeletions(
        len(deletions), sum(map(len, deletions.values())), sum(count > 0 for count in stuck), sum(stuck)
    )


def cluster_metrics(view: ClusterView) -> ClusterMetrics:
    """Count the parts of the cluster. Cost: O(topics and moves)."""
    moves: dict[str, int] = {}
    for move in view.reassignments.values():
        moves[move.phase.value] = moves.get(move.phase.value, 0) + 1
    return ClusterMetrics(
        active=view.active,
        controller_epoch=view.controller_epoch,
        brokers=len(view.brokers),
        topics=len(view.topics),
        partitions=sum(len(topic.partitions) for topic in view.topics.values()),
        moves=moves,
    )
