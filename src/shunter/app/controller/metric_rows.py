"""The table of Shunter's own metrics: name, meaning, and the source of the number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from shunter.views.metrics import ControllerMetrics as Seen

Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float]]
"""Values by the labels' values."""


class MetricRow(NamedTuple):
    """One metric. A counter's name gets `_total` on the page."""

    name: str
    meaning: str
    samples: Callable[[Seen], Samples]
    labels: tuple[str, ...] = ()
    counter: bool = False

    def family(self, seen: Seen) -> Metric:
        """Read the metric's samples."""
        kind = CounterMetricFamily if self.counter else GaugeMetricFamily
        family = kind(self.name, self.meaning, labels=self.labels)
        for labels, value in self.samples(seen):
            family.add_metric(labels, value)
        return family


def gauge(name: str, meaning: str, value: Callable[[Seen], float]) -> MetricRow:
    """Describe a number that goes up and down."""
    return MetricRow(name, meaning, lambda seen: [((), float(value(seen)))])


def counter(name: str, meaning: str, value: Callable[[Seen], float]) -> MetricRow:
    """Describe a number that only grows, since the start."""
    return gauge(name, meaning, value)._replace(counter=True)


def by(label: str, row: str, meaning: str, values: Callable[[Seen], Mapping[str, float]], *, counts: bool) -> MetricRow:
    """Describe one number for each value of a label."""
    return MetricRow(
        row, meaning, lambda seen: [((key,), value) for key, value in sorted(values(seen).items())], (label,), counts
    )


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
    gauge("events_waiting", "Events that were not looked at yet", lambda s: s.work.events_waiting),
    gauge("events_oldest_seconds", "Age of the oldest event that waits", lambda s: s.work.oldest_event_s),
    by("kind", "notices", "Notices that were logged", lambda s: s.work.notices, counts=True),
    gauge("decisions_waiting", "Partitions and topics that wait for their slice", lambda s: s.work.items_waiting),
    gauge("barrier_brokers", "Brokers whose answers waiting work waits for", lambda s: s.work.barrier),
    gauge("tardy_brokers", "Brokers that hold up only work on their partitions", lambda s: s.work.tardy_brokers),
    gauge("slow_brokers", "Brokers that are no longer waited for", lambda s: s.work.slow_brokers),
    gauge("unreachable_brokers", "Brokers that live and have no connection", lambda s: s.work.unreachable_brokers),
    gauge(
        "refusing_brokers",
        "Brokers that refuse this controller's requests and are told again",
        lambda s: s.work.refusing_brokers,
    ),
    MetricRow(
        "broker_defaults_that_differ",
        "Kafka's settings whose defaults differ between brokers, or from this controller's: 1 for each",
        lambda s: [((name,), 1.0) for name in s.different_defaults],
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
        lambda s: s.work.requests_refused,
    ),
    counter("write_batches", "Batches written to ZooKeeper", lambda s: s.work.batches),
    counter("written_records", "Records in these batches", lambda s: s.work.records),
    counter("write_seconds", "Time until batches were durable", lambda s: s.work.writing_s),
    gauge("event_loop_lag_seconds", "How late the event loop was at the last probe", lambda s: s.lag.last_s),
    gauge("event_loop_lag_worst_seconds", "The longest lag since the last scrape", lambda s: s.lag.worst_s),
)
_CONTROL = (
    by(
        "api",
        "control_requests",
        "Control requests written",
        lambda s: {t.api: t.requests for t in s.traffic},
        counts=True,
    ),
    by(
        "api",
        "control_request_bytes",
        "Bytes of control requests written",
        lambda s: {t.api: t.bytes for t in s.traffic},
        counts=True,
    ),
    by(
        "api",
        "control_answers",
        "Control requests answered",
        lambda s: {t.api: t.answers for t in s.traffic},
        counts=True,
    ),
    MetricRow(
        "control_errors",
        "Errors in answers to control requests",
        lambda s: [((wrong.api, wrong.error, wrong.of), wrong.count) for wrong in s.errors],
        ("api", "error", "of"),
        counter=True,
    ),
    counter("encode_seconds", "Time spent on encoding control requests", lambda s: s.encode_s),
    counter("broker_connections", "Connections made to brokers", lambda s: s.connections),
    counter("broker_connections_lost", "Connections to brokers that were lost", lambda s: s.lost),
    counter("broker_timeouts", "Connections given up because a request was not answered in time", lambda s: s.timeouts),
    counter(
        "superseded_requests",
        "Metadata updates never sent because a newer one replaced them",
        lambda s: s.superseded,
    ),
    counter(
        "dropped_requests",
        "Requests discarded with the queue of a broker that went or bounced",
        lambda s: s.dropped,
    ),
    gauge("encoded_bytes", "Bytes of encoded requests that are held, each once", lambda s: s.resident),
    gauge("fragment_cache_topics", "Topics in the cache of encoded metadata", lambda s: s.cache.topics),
    gauge("fragment_cache_partitions", "Partitions in the cache of encoded metadata", lambda s: s.cache.partitions),
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
        lambda s: {str(q.broker): q.oldest_s for q in s.queues},
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
        lambda s: sorted(s.peers.by_principal.items()),
        ("api", "principal"),
        counter=True,
    ),
    MetricRow(
        "administrative_requests",
        "Administrative requests by the first error in their answers",
        lambda s: sorted(s.administrative.items()),
        ("api", "outcome"),
        counter=True,
    ),
    by("log", "log_lines", "Lines written to a log", lambda s: {log.log: log.lines for log in s.logs}, counts=True),
    by(
        "log",
        "log_lost",
        "Events and requests whose lines could not be written",
        lambda s: {log.log: log.lost for log in s.logs},
        counts=True,
    ),
)
_PEERS = (
    by("kind", "connections", "Connections that are open", lambda s: s.peers.connections, counts=False),
    by("reason", "connections_refused", "Connections not taken", lambda s: s.peers.refused, counts=True),
    by("reason", "connections_closed", "Connections that this node closed", lambda s: s.peers.closed, counts=True),
    by(
        "operation",
        "denied",
        "Requests, or parts of them, that their sender is not permitted",
        lambda s: s.peers.denied,
        counts=True,
    ),
    by("api", "requests", "Requests answered", lambda s: {o.api: o.requests for o in s.peers.served}, counts=True),
    by(
        "api",
        "request_seconds",
        "Time from their turn to the answer",
        lambda s: {o.api: o.seconds for o in s.peers.served},
        counts=True,
    ),
    counter("received_bytes", "Bytes received from clients, tools and brokers", lambda s: s.peers.bytes_in),
    counter("sent_bytes", "Bytes of answers sent to them", lambda s: s.peers.bytes_out),
    gauge("requests_begun", "Requests that are worked on", lambda s: s.peers.begun),
    gauge("requests_waiting", "Connections whose request waits for its turn", lambda s: s.peers.waiting),
    gauge("request_bytes", "Bytes of large requests that are held", lambda s: s.peers.request_bytes),
    gauge(
        "answer_bytes",
        "Bytes of answers that are held until their peers have read them",
        lambda s: s.peers.answer_bytes,
    ),
    counter("metadata_builds", "How often metadata of all topics were rebuilt", lambda s: s.peers.metadata_builds),
)

ROWS = tuple(row._replace(name=f"shunter_{row.name}") for row in (*_CLUSTER, *_WORK, *_CONTROL, *_PEERS, *_LOGS))
"""The metrics, in the order of the page."""
