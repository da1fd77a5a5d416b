"""What Kafka's dashboards count of partitions, one topic at a time, for a cluster may have a hundred thousand.

Source: Apache 3.9, `KafkaController.updateMetrics` and `ControllerContext`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from shunter.core.controller.state import TopicState
from shunter.model.partition import BrokerId


class Census(NamedTuple):
    """Partitions, those without a live leader, and those that another replica leads than the first."""

    partitions: int = 0
    offline: int = 0
    imbalanced: int = 0

    def plus(self, other: Census) -> Census:
        """Add up."""
        return Census(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def count_topic(topic: TopicState, live: AbstractSet[BrokerId], *, deleting: bool) -> Census:
    """Count one topic's partitions; of one that is being deleted none is offline or out of balance.

    Cost: O(partitions).
    """
    if deleting:
        return Census(len(topic.partitions))
    offline = imbalanced = 0
    for assignment, leadership in topic.partitions.values():
        leader = -1 if leadership is None else leadership.leader
        offline += leader not in live
        imbalanced += bool(assignment.replicas) and leader != assignment.replicas[0]
    return Census(len(topic.partitions), offline, imbalanced)
