"""The partition counts of Kafka's dashboards, made one topic at a time, because a cluster may have 100,000 partitions.

Source: Apache 3.9, `KafkaController.updateMetrics` and `ControllerContext`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from shunter.core.controller.state import TopicState
from shunter.model.partition import BrokerId


class Census(NamedTuple):
    """Partitions, those without a live leader, and those that are not led by their first replica."""

    partitions: int = 0
    offline: int = 0
    imbalanced: int = 0

    def plus(self, other: Census) -> Census:
        """Add another census to this one."""
        return Census(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def count_topic(topic: TopicState, live: AbstractSet[BrokerId], *, deleting: bool) -> Census:
    """Count one topic's partitions. In a topic that is being deleted none counts as offline or out of balance.

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
