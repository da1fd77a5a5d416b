"""Records that the core asks to be made durable: domain values with the version that they expect.

Drivers turn them into paths and bytes through `formats`; the core never sees either. Every batch is one atomic
ZooKeeper multi that also checks the controller epoch (the fence), whatever its records are.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias
from uuid import UUID

from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, LeaderAndIsr, Replicas, TopicPartition
from shunter.model.reassignment import Reassignment
from shunter.model.topic import Topic


class PutTopic(NamedTuple):
    """Write a whole topic. `topic.version` is the expected version (-1: create, with the znode of its configs)."""

    topic: Topic
    configs: tuple[tuple[str, str], ...] = ()


class CheckTopic(NamedTuple):
    """Write nothing, but refuse the batch if the topic's znode has another version: a decision rests on this one."""

    name: str
    version: int


class DeleteTopic(NamedTuple):
    """Remove everything of a topic: states, topic, configuration, and its entry in the deletion queue."""

    name: str
    partitions: tuple[int, ...]


class PutPartition(NamedTuple):
    """Write a partition's leader and ISR. `leadership.partition_epoch` is the expected version (-1: create)."""

    tp: TopicPartition
    leadership: LeaderAndIsr


class PutReassignment(NamedTuple):
    """Write a move's durable record. `reassignment.version` is the expected version (-1: create)."""

    tp: TopicPartition
    reassignment: Reassignment


class CloseReassignment(NamedTuple):
    """Remove a move's durable record. `last` says that no other partition of its topic has one."""

    tp: TopicPartition
    version: int
    last: bool = False


class PutOwedDeletion(NamedTuple):
    """Remember that a dead broker still holds a replica that was dropped; deleted when the broker returns."""

    broker: BrokerId
    partitions: tuple[tuple[TopicPartition, int], ...]
    """(partition, leader epoch at which it was dropped)."""
    version: int


class CloseOwedDeletion(NamedTuple):
    """Remove a broker's list of owed deletions: all are done."""

    broker: BrokerId
    version: int


class PutOwedReplicas(NamedTuple):
    """Remember that partitions of a topic miss replicas until a broker is free for them; none: nothing is owed."""

    topic: str
    topic_id: UUID | None
    partitions: tuple[tuple[int, int, Replicas], ...]
    """(partition, how many replicas were asked for, the replicas that it has)."""
    version: int


class PutRegistration(NamedTuple):
    """Register the controller among the brokers in ZooKeeper, while its session lasts, or withdraw the registration."""

    ourselves: Broker
    registered: bool
    at_ms: int


class PutLegacyReassignments(NamedTuple):
    """Rewrite `/admin/reassign_partitions` with the entries that are left; None deletes it."""

    targets: tuple[tuple[TopicPartition, Replicas], ...] | None
    version: int


class PutExtraReassignments(NamedTuple):
    """Rewrite `/admin/reassign_partitions_extra` with the entries not taken over yet; None deletes it."""

    targets: tuple[tuple[TopicPartition, Replicas], ...] | None
    version: int


class CreateReassignmentRequest(NamedTuple):
    """Queue the legacy znode's entries as `/admin/reassignment_requests/request_NNNN` (KIP-236's bridge)."""

    targets: tuple[tuple[TopicPartition, Replicas], ...]
    legacy: bool = True


class PutReassignmentRequest(NamedTuple):
    """Write a request without the entries that were cancelled before their turn came."""

    name: str
    targets: tuple[tuple[TopicPartition, Replicas], ...]
    legacy: bool
    version: int


class DeleteReassignmentRequest(NamedTuple):
    """Remove a request that was taken over, or must not be taken over."""

    name: str


class PutDeletionMark(NamedTuple):
    """Queue a topic for deletion (`/admin/delete_topics/$topic`), as brokers and tools expect it."""

    name: str


class PutProducerIdBlock(NamedTuple):
    """Claim producer ids up to and including `last`."""

    broker: BrokerId
    first: int
    last: int
    version: int


class DeleteQueueEntry(NamedTuple):
    """Remove an entry of one of the admin queues: kind is 'delete_topics' or 'preferred_replica_election'."""

    kind: str
    name: str


class ForgetControllerId(NamedTuple):
    """Delete `/admin/shunter/controllers/<id>`: an ordinary broker has that id now."""

    id: BrokerId


Record: TypeAlias = (
    PutTopic
    | CheckTopic
    | DeleteTopic
    | PutPartition
    | PutReassignment
    | CloseReassignment
    | PutOwedDeletion
    | CloseOwedDeletion
    | PutOwedReplicas
    | PutRegistration
    | PutLegacyReassignments
    | PutExtraReassignments
    | CreateReassignmentRequest
    | PutReassignmentRequest
    | DeleteReassignmentRequest
    | PutDeletionMark
    | PutProducerIdBlock
    | DeleteQueueEntry
    | ForgetControllerId
)
