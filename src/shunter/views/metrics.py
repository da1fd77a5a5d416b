"""The figures of a controller process at one moment: the read model for Prometheus and other front ends."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from shunter.core.controller.state import ClusterView
from shunter.model.partition import BrokerId, TopicPartition
from shunter.views.census import Census


@dataclass(frozen=True, slots=True)
class Timing:
    """How often something was done, and its total duration in seconds, since the start. `recent`: latest durations."""

    count: int = 0
    seconds: float = 0.0
    recent: tuple[float, ...] = ()

    def quantile(self, share: float) -> float:
        """Return the duration that this share of the recent ones does not exceed; 0 if there are none."""
        ordered = sorted(self.recent)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def plus(self, other: Timing) -> Timing:
        """Add another timing to this one."""
        return Timing(self.count + other.count, self.seconds + other.seconds, self.recent + other.recent)


@dataclass(frozen=True, slots=True)
class PendingDeletions:
    """Topics that are being deleted, and their replicas that are not deleted yet. `stuck`: some are on dead brokers."""

    topics: int = 0
    replicas: int = 0
    stuck_topics: int = 0
    stuck_replicas: int = 0


@dataclass(frozen=True, slots=True)
class ApiTraffic:
    """Control requests of one kind, since the start: written (repeats included), their bytes, and answers."""

    api: str
    requests: int
    bytes: int
    answers: int


@dataclass(frozen=True, slots=True)
class AnswerErrors:
    """Errors in answers since the start. `of` is "request" or "partition"."""

    api: str
    error: str
    of: str
    count: int


@dataclass(frozen=True, slots=True)
class BrokerQueue:
    """One broker's queue now. `oldest_s`: age of the oldest unanswered request. `resident`: its bodies' bytes."""

    broker: int
    connected: bool
    queued: int
    in_flight: int
    oldest_s: float
    resident: int
    waits: Timing = field(default_factory=Timing)
    """How long requests waited until they were sent, since the start."""


@dataclass(frozen=True, slots=True)
class FragmentCacheSize:
    """The size of the cache of encoded metadata; `held` is bytes of memory."""

    topics: int
    partitions: int
    held: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that the controller leads. `moves` counts reassignments by phase."""

    active: bool
    controller_epoch: int
    brokers: int
    topics: int
    partitions: int
    moves: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Workload:
    """The event queue and the tasks behind it. Seconds and counts since the start, except what waits now.

    `events_waiting` and `oldest_event_s` are about events that were not handled yet. `items_waiting` counts decisions
    that wait for their slice, and `barrier` the brokers whose answers they wait for.
    """

    events: Mapping[str, Timing]
    waits: Timing
    notices: Mapping[str, int]
    handling_s: float
    longest_s: float
    events_waiting: int
    oldest_event_s: float
    items_waiting: int
    barrier: int
    tardy_brokers: int
    slow_brokers: int
    unreachable_brokers: int
    refusing_brokers: int
    requests_refused: int
    batches: int
    records: int
    writing_s: float


@dataclass(frozen=True, slots=True)
class Lag:
    """How late the event loop was: at the last probe, and at the worst since the last scrape; seconds."""

    last_s: float
    worst_s: float


@dataclass(frozen=True, slots=True)
class Served:
    """Requests of one API that were answered since the start, and the seconds from their turn to the answer."""

    api: str
    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Peers:
    """Connections to the controller, and the memory that they hold now; bytes, refusals and closings since the start.

    `connections` is by kind (client, newcomer, broker), `refused` and `closed` by reason.
    """

    connections: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)
    denied: Mapping[str, int] = field(default_factory=dict)
    """Requests that were refused because a permission was missing, by operation."""
    served: tuple[Served, ...] = ()
    by_principal: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Requests that were answered, by API and principal."""
    bytes_in: int = 0
    bytes_out: int = 0
    begun: int = 0
    waiting: int = 0
    request_bytes: int = 0
    answer_bytes: int = 0
    metadata_builds: int = 0


@dataclass(frozen=True, slots=True)
class LogCounts:
    """Lines that were written to a log, and events or requests whose lines could not be, since the start."""

    log: str
    lines: int
    lost: int


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """All figures. `encode_s`, `connections`, `lost`, `timeouts`, `superseded`, `dropped` count since the start."""

    cluster: Cluster
    work: Workload
    lag: Lag
    traffic: tuple[ApiTraffic, ...]
    errors: tuple[AnswerErrors, ...]
    encode_s: float
    connections: int
    lost: int
    timeouts: int
    superseded: int
    dropped: int
    resident: int
    cache: FragmentCacheSize
    queues: tuple[BrokerQueue, ...] = field(default=())
    peers: Peers = field(default_factory=Peers)
    census: Census = field(default_factory=Census)
    deletions: PendingDeletions = field(default_factory=PendingDeletions)
    logs: tuple[LogCounts, ...] = ()
    administrative: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Administrative requests by API and outcome."""
    different_defaults: tuple[str, ...] = ()
    """Kafka's settings whose defaults differ between brokers, or from the controller's."""
    valid_until_s: Mapping[str, float] = field(default_factory=dict)
    """When the dates of each of the controller's own certificates are over (Unix time), by what it is used for."""


def pending_deletions(
    deletions: Mapping[str, AbstractSet[tuple[TopicPartition, BrokerId]]], live: AbstractSet[BrokerId]
) -> PendingDeletions:
    """Count the replicas that have to be deleted. Cost: O(replicas of topics that are being deleted)."""
    stuck = [sum(broker not in live for _, broker in replicas) for replicas in deletions.values()]
    return PendingDeletions(
        len(deletions), sum(map(len, deletions.values())), sum(count > 0 for count in stuck), sum(stuck)
    )


def cluster_metrics(view: ClusterView) -> Cluster:
    """Count the parts of the cluster. Cost: O(topics and moves)."""
    moves: dict[str, int] = {}
    for move in view.reassignments.values():
        moves[move.phase.value] = moves.get(move.phase.value, 0) + 1
    return Cluster(
        active=view.active,
        controller_epoch=view.controller_epoch,
        brokers=len(view.brokers),
        topics=len(view.topics),
        partitions=sum(len(topic.partitions) for topic in view.topics.values()),
        moves=moves,
    )
