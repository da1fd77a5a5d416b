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
    """A topic with what was found of its partitions' states and its own configuration (only what was set).

    `unreadable` numbers the partitions whose state exists but is broken. They have to be named, because a partition
    without a state counts as new; these are neither elected nor moved.
    """

    topic: Topic
    states: Mapping[int, LeaderAndIsr]
    configs: Mapping[str, str]
    unreadable: tuple[int, ...] = ()
