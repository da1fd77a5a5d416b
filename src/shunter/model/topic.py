"""A topic as ZooKeeper shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from shunter.model.partition import LeaderAndIsr, ReplicaAssignment


class Topic(NamedTuple):
    """One topic znode. `version` is the znode's; -1 before it exists. `topic_id` is None before Kafka 2.8."""

    name: str
    topic_id: UUID | None
    assignments: Mapping[int, ReplicaAssignment]
    version: int = -1


class TopicSnapshot(NamedTuple):
    """A topic with the partitions' states that were found, and its own configuration (only settings that were made).

    `unreadable` numbers the partitions whose state exists but is broken. They have to be named, because a partition
    without a state counts as new; unreadable ones are neither elected nor moved.
    """

    topic: Topic
    states: Mapping[int, LeaderAndIsr]
    configs: Mapping[str, str]
    unreadable: tuple[int, ...] = ()
