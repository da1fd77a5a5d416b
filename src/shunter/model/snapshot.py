"""Everything that a new controller reads before it acts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Reassignment
from shunter.model.topic import TopicSnapshot


class LegacyReassignments(NamedTuple):
    """`/admin/reassign_partitions`: targets, and the original replicas where a tool gave them (KIP-236)."""

    targets: Mapping[TopicPartition, Replicas]
    originals: Mapping[TopicPartition, Replicas]
    version: int
    czxid: int = 0
    """The znode's creation; by it the znode is older or newer than a cancel znode."""


class ReassignmentRequest(NamedTuple):
    """One child of `/admin/reassignment_requests` (KIP-236): partitions to reassign, by name of the znode.

    `legacy`: the controller made it from `/admin/reassign_partitions`.
    """

    name: str
    targets: Mapping[TopicPartition, Replicas]
    legacy: bool = False
    czxid: int = 0
    version: int = 0


class OwedDeletions(NamedTuple):
    """Replicas to delete on a broker that was dead when they were dropped, with the leader epoch of the drop."""

    partitions: tuple[tuple[TopicPartition, int], ...]
    version: int


class OwedReplicas(NamedTuple):
    """Replicas that a topic's partitions miss, because they were placed on a controller and no broker was free."""

    topic_id: UUID | None
    partitions: tuple[tuple[int, int, Replicas], ...]
    """(partition, how many replicas were asked for, the replicas that it got), ascending."""
    version: int = -1


class LeftOut(NamedTuple):
    """What exists in ZooKeeper but can't be read. It must not be written again as if it did not exist."""

    topics: frozenset[str] = frozenset()
    moves: frozenset[TopicPartition] = frozenset()
    """Partitions whose durable record of a move can't be read."""
    owed: frozenset[BrokerId] = frozenset()
    """Brokers whose list of owed deletions can't be read."""
    producer_ids: bool = False
    """Whether the claimed block of producer ids can't be read: then it is not known which ids are free."""
    legacy: bool = False
    """Whether `/admin/reassign_partitions` can't be read."""
    owed_replicas: frozenset[str] = frozenset()
    """Topics whose list of owed replicas can't be read."""
    deleting: frozenset[str] = frozenset()
    """Topics of `topics` that the deletion queue names: once they can be read they are deleted, not served."""


class ClusterSnapshot(NamedTuple):
    """The cluster as read from ZooKeeper. `unreadable` names the znodes that were skipped: (path, why)."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    topics: tuple[TopicSnapshot, ...]
    reassignments: Mapping[TopicPartition, Reassignment]
    legacy: LegacyReassignments | None
    owed_deletions: Mapping[BrokerId, OwedDeletions]
    deleting_topics: tuple[str, ...]
    producer_id_block: tuple[int, int]
    """(next free producer id, znode version); (0, -1): no block was ever claimed."""
    broker_configs: Mapping[str, Mapping[str, str]]
    """Dynamic broker configs by broker id as text; '<default>' for the cluster's."""
    unreadable: tuple[tuple[str, str], ...] = ()
    cancel: int | None = None
    """czxid of `/admin/reassign_cancel`; None: there is no such znode (KIP-236)."""
    extra: LegacyReassignments | None = None
    """`/admin/reassign_partitions_extra`."""
    requests: tuple[ReassignmentRequest, ...] = ()
    """Children of `/admin/reassignment_requests`, by name."""
    owed_replicas: Mapping[str, OwedReplicas] = MappingProxyType({})
    """By topic."""
    left_out: LeftOut = LeftOut()
    controller_ids: frozenset[BrokerId] = frozenset()
    """Ids of Shunter processes that have been the controller, this one included: they hold no replicas."""
