"""The controller's events. Every event comes in an `Envelope`; nothing else reaches the core.

The controller redesign names eight event types; each is here under the name of what happened (Kafka's in brackets).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from shunter.core.topic_configs import UNKNOWN_RELEASES, Releases
from shunter.errors import ErrorCode
from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, LeaderAndIsr, Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Strategy
from shunter.model.settings import ControllerSettings
from shunter.model.snapshot import ClusterSnapshot, LegacyReassignments, ReassignmentRequest
from shunter.model.topic import TopicSnapshot

ReplyToken: TypeAlias = int
"""Names a waiting caller; 0: no caller waits."""


@dataclass(frozen=True, slots=True)
class Elected:
    """This process created `/controller`: its epoch, and the version of `/controller_epoch` that fences every write."""

    controller_epoch: int
    epoch_version: int
    ourselves: Broker | None = field(default=None, compare=False)
    """Where others find the controller, its rack if one was configured, and the epoch of its registration in ZooKeeper.

    None: everything as it is registered there.
    """


@dataclass(frozen=True, slots=True)
class BrokerIdentified:
    """A broker said what it serves. `looks_us_up`: it is so old that it looks the controller up in ZooKeeper."""

    broker: BrokerId
    epoch: int
    looks_us_up: bool


@dataclass(frozen=True, slots=True)
class TopicIdsAgreed:
    """Whether topics have ids: they have, if no live broker speaks a protocol from before Kafka 2.8.

    The event comes when that is known, and when it changes. Requests to brokers from now on have ids, or have none.
    """

    used: bool


@dataclass(frozen=True, slots=True)
class ClusterLoaded:
    """Start-up: everything was read. The answer to `LoadCluster`."""

    snapshot: ClusterSnapshot


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """Resignation: another process is the controller, or may be. Nothing may be sent or answered as controller."""

    reason: str


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """[BrokerChange] All live brokers with their epochs, from one consistent read."""

    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """[TopicChange, AddPartition] Topics that are new or whose znode changed, and the names of those that are gone.

    `unreadable`: topics that exist, and can't be read.
    """

    topics: tuple[TopicSnapshot, ...]
    gone: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionsRead:
    """State znodes as they were read, after brokers announced ISR changes of their own, or by `ReadPartitions`."""

    states: Mapping[TopicPartition, LeaderAndIsr]


@dataclass(frozen=True, slots=True)
class TopicDeletionsFound:
    """[DeleteTopic] Names in `/admin/delete_topics`."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigsRead:
    """Dynamic configurations that changed: by topic, and by broker id as text ('<default>' for all)."""

    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    brokers: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])


@dataclass(frozen=True, slots=True)
class ElectionRequested:
    """[PreferredReplicaElection] Elect leaders; `partitions` None means all; `unclean` is never implied."""

    partitions: tuple[TopicPartition, ...] | None
    unclean: bool = False
    reply_to: ReplyToken = 0
    queue_entry: bool = False
    """The request came through `/admin/preferred_replica_election`, which is deleted when the elections are done."""


@dataclass(frozen=True, slots=True)
class ReassignmentChange:
    """A partition of an AlterPartitionReassignments. `replicas` None cancels; () is refused: a target is not empty."""

    tp: TopicPartition
    replicas: Replicas | None
    strategy: Strategy | None = None
    intervention: Intervention | None = None
    forced: bool = False
    changes_factor: bool = True
    """False: refused if the target has another number of replicas than the partition will have (KIP-860)."""


@dataclass(frozen=True, slots=True)
class ReassignmentsSubmitted:
    """[PartitionReassigned] An AlterPartitionReassignments (API key 45).

    `cancel_topics`: cancel every move of these topics; `cancel_all`: cancel every move.
    """

    changes: tuple[ReassignmentChange, ...]
    cancel_topics: tuple[str, ...] = ()
    cancel_all: bool = False
    intervention: Intervention | None = None
    reply_to: ReplyToken = 0


@dataclass(frozen=True, slots=True)
class LegacyReassignmentsFound:
    """[PartitionReassigned] `/admin/reassign_partitions` was written; None when it is gone."""

    legacy: LegacyReassignments | None


@dataclass(frozen=True, slots=True)
class CancelZnodeFound:
    """[PartitionReassigned] `/admin/reassign_cancel` was created: its czxid; None when it is gone (KIP-236)."""

    czxid: int | None


@dataclass(frozen=True, slots=True)
class ExtraReassignmentsFound:
    """[PartitionReassigned] `/admin/reassign_partitions_extra` was written; None when it is gone (KIP-236)."""

    extra: LegacyReassignments | None


@dataclass(frozen=True, slots=True)
class ReassignmentRequestsFound:
    """[PartitionReassigned] All children of `/admin/reassignment_requests` that are there now (KIP-236)."""

    requests: tuple[ReassignmentRequest, ...]


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """One partition of an AlterPartition; `isr` is (broker, broker epoch or -1)."""

    tp: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[BrokerId, int], ...]
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class AlterPartitionReceived:
    """[ReassignedPartitionIsrChange] A leader asks for ISR changes. Topics by id are resolved before (`by_id`)."""

    broker: BrokerId
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]
    reply_to: ReplyToken


@dataclass(frozen=True, slots=True)
class ControlledShutdownRequested:
    """[ControlledShutdown] A broker asks to be relieved of its leaderships."""

    broker: BrokerId
    broker_epoch: int
    reply_to: ReplyToken


@dataclass(frozen=True, slots=True)
class ProducerIdsRequested:
    """A broker asks for a block of producer ids."""

    broker: BrokerId
    broker_epoch: int
    reply_to: ReplyToken


@dataclass(frozen=True, slots=True)
class NewTopic:
    """One topic to create. Either `assignments`, or partitions and replication factor (-1: the default).

    `topic_id` is drawn by the driver (the core has no randomness), as is `placement_seed`.
    """

    name: str
    topic_id: UUID
    partition_count: int
    replication_factor: int
    assignments: Mapping[int, Replicas]
    configs: Mapping[str, str]
    placement_seed: int = 0


@dataclass(frozen=True, slots=True)
class TopicsSubmitted:
    """A CreateTopics."""

    topics: tuple[NewTopic, ...]
    validate_only: bool
    reply_to: ReplyToken
    releases: Releases = UNKNOWN_RELEASES
    """The known releases of the live brokers: they decide which configuration a topic may have."""


@dataclass(frozen=True, slots=True)
class PartitionsSubmitted:
    """A CreatePartitions: topic -> (new total, assignments of the new ones or None)."""

    topics: Mapping[str, tuple[int, tuple[Replicas, ...] | None]]
    validate_only: bool
    reply_to: ReplyToken


@dataclass(frozen=True, slots=True)
class TopicDeletionsSubmitted:
    """A DeleteTopics, names resolved."""

    names: tuple[str, ...]
    reply_to: ReplyToken


@dataclass(frozen=True, slots=True)
class LogDirsFailed:
    """Brokers announced that a log dir of theirs went offline; they are asked which replicas were on it."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ReplicasFailed:
    """A live broker can't serve these replicas, because their log dir failed.

    Only an observer beside Apache's controller infers this. A controller learns it from answers (`RequestAnswered`).
    """

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """A broker answered a control request. `partition_errors` holds only what went wrong.

    The answer has no consequence if nobody awaits it any more: the request is of an earlier term, or the broker was
    restarted since.
    """

    request_id: int
    broker: BrokerId
    error: ErrorCode = ErrorCode.NONE
    partition_errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict[TopicPartition, ErrorCode])


@dataclass(frozen=True, slots=True)
class ConnectionChanged:
    """A broker of this epoch can't be reached, or can be again. A broker is reachable until this event says otherwise.

    ZooKeeper says which brokers live; this event says which brokers' answers can be waited for (redesign:
    `checkNodeLivenessAndIgnoreDeadNode`).
    """

    broker: BrokerId
    broker_epoch: int
    reachable: bool


@dataclass(frozen=True, slots=True)
class BatchWritten:
    """The outstanding batch of writes is durable. `versions` has the new version of each record, in order.

    A record that deletes has version -1; `czxids` has the czxid of each created reassignment record, else 0.
    """

    batch_id: int
    versions: tuple[int, ...]
    czxids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchRefused:
    """The outstanding batch left no trace. `reason` is 'fenced', 'too-great', 'failed' or one of two with more facts.

    'version': another process wrote. 'forbidden': an ACL forbids to write the znode that `told` names.
    After 'version' the other fields have the topics, legacy znode and extra znode of the batch, as they were read anew.
    """

    batch_id: int
    reason: str
    topics: tuple[TopicSnapshot, ...] = ()
    gone: tuple[str, ...] = ()
    legacy: LegacyReassignments | None = None
    extra: LegacyReassignments | None = None
    legacy_unreadable: bool = False
    """If `legacy` is None: whether the legacy znode exists, and can't be read."""
    told: str = ""


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """The operator changed the settings. What was decided stays. `broker_id` never changes."""

    settings: ControllerSettings


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The moment that `Ready.wake_at_ms` asked for has come, or there is more work (`Ready.more`)."""


Event: TypeAlias = (
    Elected
    | BrokerIdentified
    | TopicIdsAgreed
    | ClusterLoaded
    | SessionExpired
    | BrokersRead
    | TopicsRead
    | PartitionsRead
    | TopicDeletionsFound
    | ConfigsRead
    | ElectionRequested
    | ReassignmentsSubmitted
    | LegacyReassignmentsFound
    | CancelZnodeFound
    | ExtraReassignmentsFound
    | ReassignmentRequestsFound
    | AlterPartitionReceived
    | ControlledShutdownRequested
    | ProducerIdsRequested
    | TopicsSubmitted
    | PartitionsSubmitted
    | TopicDeletionsSubmitted
    | LogDirsFailed
    | ReplicasFailed
    | RequestAnswered
    | ConnectionChanged
    | BatchWritten
    | BatchRefused
    | SettingsChanged
    | TimePassed
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """An event with what the core may not find out by itself: the time, and a cause that all its consequences carry."""

    now_ms: int
    cause: str
    event: Event
