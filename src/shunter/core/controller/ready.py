"""The controller's orders to its driver, which carries them out in the ORDER of the fields and decides nothing.

"Durable before sent, sent before answered": requests and replies that depend on a batch of writes do not exist until
the batch's outcome (`BatchWritten`) came back, so they can't be sent early; within one `Ready` requests go out
before replies, and replies before the next batch is begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from shunter.core.controller.decisions import Decision
from shunter.core.controller.events import ReplyToken
from shunter.core.controller.moves.lifecycle import Transition
from shunter.core.topic_configs import EffectiveConfig
from shunter.errors import ErrorCode
from shunter.model.broker import Broker
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, LeaderAndIsr, PartitionState, TopicPartition
from shunter.model.records import Record


class TopicSlice(NamedTuple):
    """Some partitions of a topic, for one request. A named tuple, because a start-up makes one per topic and broker."""

    name: str
    topic_id: UUID | None
    partitions: tuple[tuple[int, PartitionState], ...]


@dataclass(frozen=True, slots=True)
class SendUpdateMetadata:
    """The same metadata to each of `brokers`, with all live brokers (a broker replaces its list by it).

    `broker_epoch` is the greatest of all brokers' epochs at the moment of the decision (decision record 0007), or the
    one broker's own, by the setting `control_request_epoch`. `full` says that `topics` is the whole cluster.
    `offline` has (topic, partition) -> offline replicas, where there are any.
    """

    request_id: int
    brokers: tuple[BrokerId, ...]
    controller_epoch: int
    broker_epoch: int
    live: tuple[Broker, ...]
    topics: tuple[TopicSlice, ...]
    offline: Mapping[TopicPartition, tuple[BrokerId, ...]]
    full: bool = False


@dataclass(frozen=True, slots=True)
class SendLeaderAndIsr:
    """One broker's replicas. `new` names the replicas that the broker must create. `full`: all that it hosts."""

    request_id: int
    broker: BrokerId
    controller_epoch: int
    broker_epoch: int
    leaders: tuple[Broker, ...]
    topics: tuple[TopicSlice, ...]
    new: frozenset[TopicPartition]
    full: bool = False


@dataclass(frozen=True, slots=True)
class StopPartition:
    """One replica to stop; `leader_epoch` -2 says that its topic is being deleted."""

    tp: TopicPartition
    leader_epoch: int
    delete: bool


@dataclass(frozen=True, slots=True)
class SendStopReplica:
    """Replicas for one broker to stop, and to delete where `StopPartition.delete` says so."""

    request_id: int
    broker: BrokerId
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[StopPartition, ...]


@dataclass(frozen=True, slots=True)
class ConnectBrokers:
    """The live brokers from now on, without the controller. Channels to others close, and their queues are dropped.

    A broker with another epoch has bounced: its queue is dropped too, because it was decided for the former epoch.
    """

    brokers: tuple[Broker, ...]


Request: TypeAlias = ConnectBrokers | SendUpdateMetadata | SendLeaderAndIsr | SendStopReplica


@dataclass(frozen=True, slots=True)
class AlterPartitionReply:
    """To AlterPartition: a top-level error, or per partition the state that now holds, or an error."""

    error: ErrorCode
    partitions: tuple[tuple[TopicPartition, LeaderAndIsr | ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionResultsReply:
    """To AlterPartitionReassignments and ElectLeaders: per partition an error and a sentence that says why."""

    error: ErrorCode
    message: str | None = None
    partitions: tuple[tuple[TopicPartition, ErrorCode, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicResult:
    """One topic of CreateTopics, CreatePartitions or DeleteTopics."""

    name: str
    error: ErrorCode
    message: str | None = None
    topic_id: UUID | None = None
    partition_count: int = -1
    replication_factor: int = -1
    configs: tuple[EffectiveConfig, ...] = ()
    """The configuration of a topic that was created, or could be."""


@dataclass(frozen=True, slots=True)
class TopicResultsReply:
    """To CreateTopics, CreatePartitions and DeleteTopics."""

    error: ErrorCode
    topics: tuple[TopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedReply:
    """To any request: it is not carried out, because it met a bug of the controller."""

    error: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class ControlledShutdownReply:
    """To ControlledShutdown: the partitions that the broker still leads."""

    error: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ProducerIdsReply:
    """To AllocateProducerIds: `length` ids from `first`."""

    error: ErrorCode
    first: int = 0
    length: int = 0


Reply: TypeAlias = (
    AlterPartitionReply
    | PartitionResultsReply
    | TopicResultsReply
    | ControlledShutdownReply
    | ProducerIdsReply
    | RefusedReply
)


@dataclass(frozen=True, slots=True)
class LoadCluster:
    """Read everything; answered by `ClusterLoaded`."""


@dataclass(frozen=True, slots=True)
class ReadPartitions:
    """Read these partitions' states; answered by `PartitionsRead`."""

    partitions: tuple[TopicPartition, ...]


Read: TypeAlias = LoadCluster | ReadPartitions


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Records that become durable together or not at all, checked against the controller epoch."""

    batch_id: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything to be done now, in the order of the fields.

    Invariant: `requests` and `replies` follow only from what is already durable.
    Invariant: at most one `WriteBatch` is outstanding; none is handed out before the last one's outcome came in.
    """

    requests: tuple[Request, ...] = ()
    """To be queued to their brokers' channels, in this order, BEFORE any reply is sent."""
    replies: tuple[tuple[ReplyToken, Reply], ...] = ()
    """To be sent to waiting callers."""
    reads: tuple[Read, ...] = ()
    writes: WriteBatch | None = None
    """To be made durable; its outcome is the next thing that the core needs to hear."""
    notices: tuple[Notice, ...] = ()
    transitions: tuple[Transition, ...] = ()
    """The transitions of moves that became durable with this event, in order."""
    decisions: tuple[Decision, ...] = ()
    """The decisions about single partitions that became durable with this event, and by which rules."""
    written: tuple[Record, ...] = ()
    """All records that became durable with this event."""
    wake_at_ms: int | None = None
    """Call again with `TimePassed` at this moment, whatever happens before; None: nothing is due."""
    more: bool = False
    """There is more work that could be done at once: call again with `TimePassed` as soon as others had a turn."""
    resigned: str = ""
    """Why this process is not the controller any more: drop channels and waiting callers, and give `/controller` back
    if this process still holds it. Empty: it has not resigned."""
    reloads: bool = False
    """Everything is read again within the same term: drop channels and waiting callers, keep `/controller`."""
