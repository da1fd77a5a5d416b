"""The controller's one mutable container, and the read-only face of it that queries see.

Records that were written (`changes.apply_records`) and facts that were read change it; a decision never does.
Queries run between two applies on one thread, so what they see is consistent as long as they don't wait in the middle.
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
    """All that the controller knows. Keys of the dicts are what their names say."""

    controller_id: BrokerId
    controller_epoch: int = 0
    active: bool = False
    cluster_id: str = ""
    ourselves: Broker | None = None
    """Where others find us while we are the controller."""
    registered: bool = False
    """Whether `/brokers/ids` has us."""
    look_us_up: dict[BrokerId, tuple[int, bool]] = field(default_factory=dict[BrokerId, tuple[int, bool]])
    """A broker's epoch, and whether it looks our address up in ZooKeeper; by broker, once it told what it serves."""
    topic_ids: bool | None = None
    """Whether topics have ids, by the protocol that all live brokers speak; None while that is not known."""
    brokers: dict[BrokerId, Broker] = field(default_factory=dict[BrokerId, Broker])
    """Live brokers, ourselves included while we are the controller."""
    shutting_down: set[BrokerId] = field(default_factory=set[BrokerId])
    topics: dict[str, TopicState] = field(default_factory=dict[str, TopicState])
    topic_names: dict[UUID, str] = field(default_factory=dict[UUID, str])
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict[TopicPartition, Reassignment])
    """Accepted moves, pending ones included, until their end."""
    waiting: dict[TopicPartition, tuple[Waiting, int]] = field(
        default_factory=dict[TopicPartition, tuple[Waiting, int]]
    )
    """What a move waits for, and since when, ms; for people to see."""
    legacy: LegacyReassignments | None = None
    extra: LegacyReassignments | None = None
    requests: dict[str, ReassignmentRequest] = field(default_factory=dict[str, ReassignmentRequest])
    """Request znodes that have not been taken over."""
    cancel: int | None = None
    """czxid of the cancel znode: while it is there nothing new starts."""
    owed_deletions: dict[BrokerId, OwedDeletions] = field(default_factory=dict[BrokerId, OwedDeletions])
    owed_replicas: dict[str, OwedReplicas] = field(default_factory=dict[str, OwedReplicas])
    """By topic."""
    controller_ids: frozenset[BrokerId] = frozenset()
    """Ids of Shunters that have been the controller, as they were read."""
    impossible_ids: set[BrokerId] = field(default_factory=set[BrokerId])
    """Ids below 0 that assignments name."""
    deleting: set[str] = field(default_factory=set[str])
    offline_replicas: dict[TopicPartition, frozenset[BrokerId]] = field(
        default_factory=dict[TopicPartition, frozenset[BrokerId]]
    )
    """Replicas on failed log dirs of live brokers."""
    unreadable: set[TopicPartition] = field(default_factory=set[TopicPartition])
    """Partitions whose state znode can't be read: nothing is decided about them until somebody mends it."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """What else can't be read."""
    producer_id_block: tuple[int, int] = (0, -1)
    broker_configs: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    configs_read: int = 0
    """How often configuration was read again: a decision that was made before the last time may be out of date."""

    def reset(self) -> None:
        """Forget everything but who we are; those who hold a view of it see the emptiness."""
        fresh = ControllerState(self.controller_id)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    @property
    def controllers(self) -> frozenset[BrokerId]:
        """Ids that hold no replicas: ours, every controller's that no ordinary broker has now, and impossible ones.

        Apache lets people assign a new topic to -1; no broker can ever have it, or delete it.
        """
        return self.controller_ids.difference(self.brokers) | {self.controller_id} | self.impossible_ids

    @property
    def storing(self) -> frozenset[BrokerId]:
        """Live brokers that hold data: all but ourselves."""
        return frozenset(self.brokers) - {self.controller_id}

    def partition(self, tp: TopicPartition) -> PartitionState | None:
        """The partition's state, or None when there is no such topic or partition."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def why_missing(self, tp: TopicPartition) -> str:
        """Say in a sentence why there is no such partition."""
        if tp.topic in self.left_out.topics:
            return f"the znode of topic {tp.topic!r} can't be read; the topic is left out until somebody mends it"
        return "The partition does not exist."  # Apache's words, to the letter.


class ClusterView(Protocol):
    """What queries may read of `ControllerState`. Never keep a reference into it over an await."""

    @property
    def controller_id(self) -> BrokerId:
        """Our broker id."""
        ...

    @property
    def controller_epoch(self) -> int:
        """The epoch of our election; 0 before the first."""
        ...

    @property
    def active(self) -> bool:
        """Whether we are the controller and have read the cluster."""
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    @property
    def brokers(self) -> Mapping[BrokerId, Broker]:
        """Live brokers, ourselves included."""
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
        """What moves wait for, and since when, ms."""
        ...

    @property
    def left_out(self) -> LeftOut:
        """What can't be read."""
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
