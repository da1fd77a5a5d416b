"""The controller's one mutable container, and the read-only view of it that queries get.

Records that were written (`changes.apply_records`) and facts that were read change the state; a decision never does.
Queries run between two applies on one thread, so their view is consistent as long as they don't wait in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from shunter.core.reassignment.situation import Waiting
from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, PartitionState, TopicPartition
from shunter.model.reassignment import Reassignment
from shunter.model.snapshot import LeftOut, LegacyReassignments, OwedDeletions, OwedReplicas, ReassignmentRequest


@dataclass(slots=True)
class TopicState:
    """A topic: its znode's version, and its partitions by number."""

    name: str
    topic_id: UUID | None
    version: int
    partitions: dict[int, PartitionState] = field(default_factory=dict[int, PartitionState])
    configs: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class ControllerState:
    """Everything that the controller knows."""

    controller_id: BrokerId
    controller_epoch: int = 0
    active: bool = False
    cluster_id: str = ""
    ourselves: Broker | None = None
    """The controller as a broker: where others find it during its term."""
    registered: bool = False
    """Whether the controller is registered in `/brokers/ids`."""
    look_us_up: dict[BrokerId, tuple[int, bool]] = field(default_factory=dict[BrokerId, tuple[int, bool]])
    """By broker that has said what it serves: its epoch, and whether it looks the controller up in ZooKeeper."""
    topic_ids: bool | None = None
    """Whether topics have ids, by the protocol that all live brokers speak; None while that is not known."""
    brokers: dict[BrokerId, Broker] = field(default_factory=dict[BrokerId, Broker])
    """Live brokers, including the controller during its term."""
    shutting_down: set[BrokerId] = field(default_factory=set[BrokerId])
    topics: dict[str, TopicState] = field(default_factory=dict[str, TopicState])
    topic_names: dict[UUID, str] = field(default_factory=dict[UUID, str])
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict[TopicPartition, Reassignment])
    """Accepted moves, pending ones included, until their end."""
    waiting: dict[TopicPartition, tuple[Waiting, int]] = field(
        default_factory=dict[TopicPartition, tuple[Waiting, int]]
    )
    """By partition: what its move waits for, and since when, ms."""
    legacy: LegacyReassignments | None = None
    extra: LegacyReassignments | None = None
    requests: dict[str, ReassignmentRequest] = field(default_factory=dict[str, ReassignmentRequest])
    """Request znodes that have not been taken over."""
    cancel: int | None = None
    """czxid of the cancel znode. While the znode exists, no move starts."""
    owed_deletions: dict[BrokerId, OwedDeletions] = field(default_factory=dict[BrokerId, OwedDeletions])
    owed_replicas: dict[str, OwedReplicas] = field(default_factory=dict[str, OwedReplicas])
    """By topic."""
    controller_ids: frozenset[BrokerId] = frozenset()
    """Ids of Shunter processes that have been the controller, as they were read."""
    impossible_ids: set[BrokerId] = field(default_factory=set[BrokerId])
    """Ids below 0 that assignments name."""
    deleting: set[str] = field(default_factory=set[str])
    offline_replicas: dict[TopicPartition, frozenset[BrokerId]] = field(
        default_factory=dict[TopicPartition, frozenset[BrokerId]]
    )
    """Replicas on failed log dirs of live brokers."""
    unreadable: set[TopicPartition] = field(default_factory=set[TopicPartition])
    """Partitions whose state znode can't be read: nothing is decided about them until the znode is mended."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """Everything else that can't be read."""
    producer_id_block: tuple[int, int] = (0, -1)
    broker_configs: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    configs_read: int = 0
    """How often configuration was read again. A decision from before the last reading may be out of date."""

    def reset(self) -> None:
        """Forget everything but the controller's id. Every view of this state is then empty, too."""
        fresh = ControllerState(self.controller_id)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    @property
    def controllers(self) -> frozenset[BrokerId]:
        """Ids that hold no replicas: this controller's, other controllers' that no broker has now, and ids below 0.

        Apache lets people assign a new topic to -1. No broker can ever have such a replica, or delete it.
        """
        return self.controller_ids.difference(self.brokers) | {self.controller_id} | self.impossible_ids

    @property
    def storing(self) -> frozenset[BrokerId]:
        """Live brokers that hold data: all but the controller."""
        return frozenset(self.brokers) - {self.controller_id}

    def partition(self, tp: TopicPartition) -> PartitionState | None:
        """The partition's state, or None when there is no such topic or partition."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def owes(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether a broker owes the deletion of a replica of this partition, or of an older one of that name."""
        owed = self.owed_deletions.get(broker)
        return owed is not None and any(tp == known for known, _ in owed.partitions)

    def why_missing(self, tp: TopicPartition) -> str:
        """Say in a sentence why there is no such partition."""
        if tp.topic in self.left_out.topics:
            return f"the znode of topic {tp.topic!r} can't be read; the topic is left out until somebody mends it"
        return "The partition does not exist."  # Apache's words, to the letter.


class ClusterView(Protocol):
    """The part of `ControllerState` that queries may read. Never keep a reference into it over an await."""

    @property
    def controller_id(self) -> BrokerId:
        """The controller's broker id."""
        ...

    @property
    def controller_epoch(self) -> int:
        """The epoch of this controller's election; 0 before the first."""
        ...

    @property
    def active(self) -> bool:
        """Whether this process is the controller and has read the cluster."""
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    @property
    def brokers(self) -> Mapping[BrokerId, Broker]:
        """Live brokers, including the controller."""
        ...

    @property
    def topics(self) -> Mapping[str, TopicState]:
        """Topics by name, those being deleted included."""
        ...

    @property
    def topic_names(self) -> Mapping[UUID, str]:
        """Names by topic id."""
        ...

    @property
    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Accepted moves until their end."""
        ...

    @property
    def waiting(self) -> Mapping[TopicPartition, tuple[Waiting, int]]:
        """By partition: what its move waits for, and since when, ms."""
        ...

    @property
    def left_out(self) -> LeftOut:
        """What exists in ZooKeeper but can't be read, except partitions' states."""
        ...

    @property
    def unreadable(self) -> set[TopicPartition]:
        """Partitions whose state znode can't be read."""
        ...

    @property
    def deleting(self) -> set[str]:
        """Topics that are being deleted."""
        ...

    @property
    def offline_replicas(self) -> Mapping[TopicPartition, frozenset[BrokerId]]:
        """Replicas on failed log dirs."""
        ...

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        """Dynamic configs by broker id as text."""
        ...

    def partition(self, tp: TopicPartition) -> PartitionState | None:
        """A partition, or None."""
        ...
