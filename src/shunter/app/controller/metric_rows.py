"""The table of Shunter's own metrics: name, meaning, and the source of the number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from shunter.app.controller.broker_defaults import BrokerDefaults
from shunter.app.controller.logs import ControllerLogs
from shunter.core.controller.machine import ControllerMachine
from shunter.drivers.brokers.channel_stats import QueueStats
from shunter.drivers.brokers.channels import Channels
from shunter.drivers.election.loop import ControllerLoop
from shunter.drivers.election.loop_stats import LoopStats
from shunter.drivers.host.log_files import LogFile
from shunter.drivers.host.loop_lag import LoopLag
from shunter.drivers.listener.admission import PeerKind
from shunter.drivers.listener.handlers.audit import api_name
from shunter.drivers.listener.server import RpcServer
from shunter.drivers.listener.server_stats import ServerStats
from shunter.views.census import Census
from shunter.views.metrics import ClusterMetrics, PendingDeletions, cluster_metrics, pending_deletions
from shunter.wire.fragments import CacheSize
from shunter.wire.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

API_NAMES = {LEADER_AND_ISR: "LeaderAndIsr", STOP_REPLICA: "StopReplica", UPDATE_METADATA: "UpdateMetadata"}

Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float]]
"""Values by the labels' values."""


@dataclass(frozen=True)
class ControllerParts:
    """A controller's parts, from which the rows read, for one scrape: between two events, so all figures fit together.

    Figures that cost O(topics, moves and queued requests) are counted once.
    """

    machine: ControllerMachine
    loop: ControllerLoop
    channels: Channels
    lag: LoopLag
    server: RpcServer
    census: Census = field(default_factory=Census)
    logs: ControllerLogs | None = None
    defaults: BrokerDefaults | None = None
    valid_until_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """When the dates of each of the controller's own certificates are over (Unix time), by what it is used for."""

    @property
    def work(self) -> LoopStats:
        """The counters of the event loop."""
        return self.loop.stats

    @property
    def peers(self) -> ServerStats:
        """The counters of the listener."""
        return self.server.stats

    @cached_property
    def cluster(self) -> ClusterMetrics:
        """The cluster that the controller leads."""
        return cluster_metrics(self.machine.view)

    @cached_property
    def queues(self) -> tuple[QueueStats, ...]:
        """The queue of each broker."""
        return tuple(self.channels.queues())

    @cached_property
    def cache(self) -> CacheSize:
        """The size of the cache of encoded metadata."""
        return self.channels.cache_size()

    @cached_property
    def deletions(self) -> PendingDeletions:
        """Topics that are being deleted."""
        return pending_deletions(self.machine.intake.deletions.remaining, self.machine.view.brokers.keys())


class MetricRow(NamedTuple):
    """One metric. A counter's name gets `_total` on the page."""

    name: str
    meaning: str
    samples: Callable[[ControllerParts], Samples]
    labels: tuple[str, ...] = ()
    counter: bool = False

    def family(self, seen: ControllerParts) -> Metric:
        """Read the metric's samples."""
        kind = CounterMetricFamily if self.counter else GaugeMetricFamily
        family = kind(self.name, self.meaning, labels=self.labels)
        for labels, value in self.samples(seen):
            family.add_metric(labels, value)
        return family


def gauge(name: str, meaning: str, value: Callable[[ControllerParts], float]) -> MetricRow:
    """Describe a number that goes up and down."""
    return MetricRow(name, meaning, lambda seen: [((), float(value(seen)))])


def counter(name: str, meaning: str, value: Callable[[ControllerParts], float]) -> MetricRow:
    """Describe a number that only grows, since the start."""
    return gauge(name, meaning, value)._replace(counter=True)


def by(
    label: str, row: str, meaning: str, values: Callable[[ControllerParts], Mapping[str, float]], *, counts: bool
) -> MetricRow:
    """Describe one number for each value of a label."""
    return MetricRow(
        row, meaning, lambda seen: [((key,), value) for key, value in sorted(values(seen).items())], (label,), counts
    )


def _by_api(counts: Mapping[int, float]) -> dict[str, float]:
    """Counts of the control requests; 0 for one that was never sent."""
    return {name: counts.get(key, 0) for key, name in API_NAMES.items()}


def _logs(seen: ControllerParts) -> tuple[LogFile[Any], ...]:
    return () if seen.logs is None else seen.logs.files


_CLUSTER = (
    gauge("active", "1 while this process is the controller and has read the cluster", lambda s: s.cluster.active),
    gauge("controller_epoch", "Epoch of the last election that was won", lambda s: s.cluster.controller_epoch),
    gauge("brokers", "Live brokers, this node included", lambda s: s.cluster.brokers),
    gauge("topics", "Topics", lambda s: s.cluster.topics),
    gauge("partitions", "Partitions", lambda s: s.cluster.partitions),
    by("phase", "reassignments", "Accepted reassignments by phase", lambda s: s.cluster.moves, counts=False),
)
_WORK = (
    by("event", "events", "Events handled", lambda s: {k: v.count for k, v in s.work.events.items()}, counts=True),
    by(
        "event",
        "event_seconds",
        "Time spent on handling events",
        lambda s: {k: v.seconds for k, v in s.work.events.items()},
        counts=True,
    ),
    counter("event_handling_seconds", "Time spent on handling events", lambda s: s.work.handling_s),
    gauge("event_handling_longest_seconds", "Longest time that one event took", lambda s: s.work.longest_s),
    gauge("events_waiting", "Events that were not looked at yet", lambda s: s.loop.waiting()),
    gauge("events_oldest_seconds", "Age of the oldest event that waits", lambda s: s.loop.oldest_s()),
    by("kind", "notices", "Notices that were logged", lambda s: s.work.notices, counts=True),
    gauge(
        "decisions_waiting",
        "Partitions and topics that wait for their slice",
        lambda s: s.machine.intake.queue.pending(),
    ),
    gauge("barrier_brokers", "Brokers whose answers waiting work waits for", lambda s: len(s.machine.outbox.barrier)),
    gauge("tardy_brokers", "Brokers that hold up only work on their partitions", lambda s: len(s.machine.outbox.tardy)),
    gauge("slow_brokers", "Brokers that are no longer waited for", lambda s: len(s.machine.outbox.slow)),
    gauge(
        "unreachable_brokers", "Brokers that live and have no connection", lambda s: len(s.machine.outbox.unreachable)
    ),
    gauge(
        "refusing_brokers",
        "Brokers that refuse this controller's requests and are told again",
        lambda s: len(s.machine.intake.answers.refusals),
    ),
    MetricRow(
        "broker_defaults_that_differ",
        "Kafka's settings whose defaults differ between brokers, or from this controller's: 1 for each",
        lambda s: [((name,), 1.0) for name in (s.defaults.different if s.defaults is not None else ())],
        ("setting",),
    ),
    by(
        "purpose",
        "certificate_expiry_timestamp_seconds",
        "When each of this process's own certificates expires, Unix time",
        lambda s: s.valid_until_s,
        counts=False,
    ),
    counter(
        "requests_refused_for_bugs",
        "Requests refused because of a bug in Shunter",
        lambda s: s.machine.requests_refused + s.loop.callers.bugs,
    ),
    counter("write_batches", "Batches written to ZooKeeper", lambda s: s.work.batches),
    counter("written_records", "Records in these batches", lambda s: s.work.records),
    counter("write_seconds", "Time until batches were durable", lambda s: s.work.writing_s),
    gauge("event_loop_lag_seconds", "How late the event loop was at the last probe", lambda s: s.lag.last_s),
    gauge("event_loop_lag_worst_seconds", "The longest lag since the last scrape", lambda s: s.lag.take_worst()),
)
_CONTROL = (
    by(
        "api",
        "control_requests",
        "Control requests written",
        lambda s: _by_api(s.channels.stats.requests),
        counts=True,
    ),
    by(
        "api",
        "control_request_bytes",
        "Bytes of control requests written",
        lambda s: _by_api(s.channels.stats.bytes),
        counts=True,
    ),
    by(
        "api",
        "control_answers",
        "Control requests answered",
        lambda s: _by_api(s.channels.stats.answers),
        counts=True,
    ),
    MetricRow(
        "control_errors",
        "Errors in answers to control requests",
        lambda s: [
            ((API_NAMES.get(key, str(key)), error, of), count)
            for (key, error, of), count in sorted(s.channels.stats.errors.items())
        ],
        ("api", "error", "of"),
        counter=True,
    ),
    counter("encode_seconds", "Time spent on encoding control requests", lambda s: s.channels.stats.encode_seconds),
    counter("broker_connections", "Connections made to brokers", lambda s: s.channels.stats.connections),
    counter("broker_connections_lost", "Connections to brokers that were lost", lambda s: s.channels.stats.lost),
    counter(
        "broker_timeouts",
        "Connections given up because a request was not answered in time",
        lambda s: s.channels.stats.timeouts,
    ),
    counter(
        "superseded_requests",
        "Metadata updates never sent because a newer one replaced them",
        lambda s: s.channels.stats.superseded,
    ),
    counter(
        "dropped_requests",
        "Requests discarded with the queue of a broker that went or bounced",
        lambda s: s.channels.stats.dropped,
    ),
    gauge("encoded_bytes", "Bytes of encoded requests that are held, each once", lambda s: s.channels.resident()),
    gauge("fragment_cache_topics", "Topics in the cache of encoded metadata", lambda s: s.cache.topics),
    gauge(
        "fragment_cache_partitions",
        "Partitions in the cache of encoded metadata",
        lambda s: s.cache.partitions,
    ),
    gauge("fragment_cache_bytes", "Memory of the cache of encoded metadata", lambda s: s.cache.held),
    by(
        "broker",
        "broker_queue",
        "Requests that wait to be sent",
        lambda s: {str(q.broker): q.queued for q in s.queues},
        counts=False,
    ),
    by(
        "broker",
        "broker_in_flight",
        "Requests sent and not answered",
        lambda s: {str(q.broker): q.in_flight for q in s.queues},
        counts=False,
    ),
    by(
        "broker",
        "broker_oldest_seconds",
        "Age of the oldest unanswered request",
        lambda s: {str(q.broker): q.oldest_seconds for q in s.queues},
        counts=False,
    ),
    by(
        "broker",
        "broker_connected",
        "1 while there is a connection",
        lambda s: {str(q.broker): float(q.connected) for q in s.queues},
        counts=False,
    ),
)
_LOGS = (
    MetricRow(
        "requests_by_principal",
        "Requests answered",
        lambda s: sorted(
            ((api_name(key), principal), count) for (key, principal), count in s.peers.by_principal.items()
        ),
        ("api", "principal"),
        counter=True,
    ),
    MetricRow(
        "administrative_requests",
        "Administrative requests by the first error in their answers",
        lambda s: () if s.logs is None else sorted(s.logs.outcomes.items()),
        ("api", "outcome"),
        counter=True,
    ),
    by(
        "log",
        "log_lines",
        "Lines written to a log",
        lambda s: {log.path.name: log.lines for log in _logs(s)},
        counts=True,
    ),
    by(
        "log",
        "log_lost",
        "Events and requests whose lines could not be written",
        lambda s: {log.path.name: log.lost for log in _logs(s)},
        counts=True,
    ),
)
_PEERS = (
    by(
        "kind",
        "connections",
        "Connections that are open",
        lambda s: {kind.value: s.server.count(kind) for kind in PeerKind},
        counts=False,
    ),
    by("reason", "connections_refused", "Connections not taken", lambda s: s.peers.refused, counts=True),
    by("reason", "connections_closed", "Connections that this node closed", lambda s: s.peers.closed, counts=True),
    by(
        "operation",
        "denied",
        "Requests, or parts of them, that their sender is not permitted",
        lambda s: s.peers.denied,
        counts=True,
    ),
    by(
        "api",
        "requests",
        "Requests answered",
        lambda s: {api_name(key): n for key, n in s.peers.requests.items()},
        counts=True,
    ),
    by(
        "api",
        "request_seconds",
        "Time from their turn to the answer",
        lambda s: {api_name(key): n for key, n in s.peers.handling_seconds.items()},
        counts=True,
    ),
    counter("received_bytes", "Bytes received from clients, tools and brokers", lambda s: s.peers.bytes_in),
    counter("sent_bytes", "Bytes of answers sent to them", lambda s: s.peers.bytes_out),
    gauge(
        "requests_begun",
        "Requests that are worked on",
        lambda s: s.server.resources.queue.begun + s.server.resources.queue.brokers,
    ),
    gauge(
        "requests_waiting", "Connections whose request waits for its turn", lambda s: s.server.resources.queue.waiting
    ),
    gauge(
        "request_bytes",
        "Bytes of large requests that are held",
        lambda s: sum(s.server.resources.pool_of(kind).held for kind in (PeerKind.CLIENT, PeerKind.BROKER)),
    ),
    gauge(
        "answer_bytes",
        "Bytes of answers that are held until their peers have read them",
        lambda s: s.server.resources.answers.held,
    ),
    counter(
        "metadata_builds",
        "How often metadata of all topics were rebuilt",
        lambda s: s.server.resources.node.metadata.builds,
    ),
)

ROWS = tuple(row._replace(name=f"shunter_{row.name}") for row in (*_CLUSTER, *_WORK, *_CONTROL, *_PEERS, *_LOGS))
"""The metrics, in the order of the page."""
