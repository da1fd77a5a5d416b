"""A controller's counters as Prometheus reads them, collected from its parts when it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from kio.schema.index import api_key_map
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from shunter.core.controller.machine import ControllerMachine
from shunter.drivers.channels import Channels
from shunter.drivers.controller_loop import ControllerLoop
from shunter.drivers.door import Kind
from shunter.drivers.loop_lag import LoopLag
from shunter.drivers.rpc_server import RpcServer
from shunter.views.metrics import (
    AnswerErrors,
    ApiTraffic,
    BrokerQueue,
    ControllerMetrics,
    FragmentCacheSize,
    Lag,
    Peers,
    Served,
    Work,
    cluster_metrics,
)
from shunter.wire.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

API_NAMES = {LEADER_AND_ISR: "LeaderAndIsr", STOP_REPLICA: "StopReplica", UPDATE_METADATA: "UpdateMetadata"}


def collect_metrics(
    machine: ControllerMachine,
    loop: ControllerLoop,
    channels: Channels,
    lag: LoopLag,
    server: RpcServer | None = None,
) -> ControllerMetrics:
    """Look at everything at once, between two events. Cost: O(topics, moves and queued requests)."""
    stats, sent = loop.stats, channels.stats
    cache = channels.cache_size()
    return ControllerMetrics(
        cluster=cluster_metrics(machine.view),
        work=Work(
            events=dict(stats.events),
            handling_s=stats.handling_s,
            longest_s=stats.longest_s,
            events_waiting=loop.waiting(),
            oldest_event_s=loop.oldest_s(),
            items_waiting=machine.intake.queue.pending(),
            barrier=len(machine.outbox.barrier),
            tardy_brokers=len(machine.outbox.tardy),
            slow_brokers=len(machine.outbox.slow),
            unreachable_brokers=len(machine.outbox.unreachable),
            refusing_brokers=len(machine.intake.answers.refusals),
            requests_refused=machine.requests_refused + loop.callers.bugs,
            batches=stats.batches,
            records=stats.records,
            writing_s=stats.writing_s,
        ),
        lag=Lag(lag.last_s, lag.take_worst()),
        traffic=tuple(
            ApiTraffic(name, sent.requests.get(key, 0), sent.bytes.get(key, 0), sent.answers.get(key, 0))
            for key, name in API_NAMES.items()
        ),
        errors=tuple(
            AnswerErrors(API_NAMES.get(key, str(key)), error, of, count)
            for (key, error, of), count in sorted(sent.errors.items())
        ),
        encode_s=sent.encode_seconds,
        connections=sent.connections,
        lost=sent.lost,
        timeouts=sent.timeouts,
        superseded=sent.superseded,
        dropped=sent.dropped,
        resident=channels.resident(),
        cache=FragmentCacheSize(cache.topics, cache.partitions, cache.held),
        queues=tuple(
            BrokerQueue(each.broker, each.connected, each.queued, each.in_flight, each.oldest_seconds, each.resident)
            for each in channels.queues()
        ),
        peers=Peers() if server is None else _peers_of(server),
    )


def _peers_of(server: RpcServer) -> Peers:
    """Look at who is connected."""
    house, stats = server.house, server.stats
    return Peers(
        connections={kind.value: server.count(kind) for kind in Kind},
        refused=dict(stats.refused),
        closed=dict(stats.closed),
        served=tuple(
            Served(_api_name(key), count, stats.handling_seconds.get(key, 0.0))
            for key, count in sorted(stats.requests.items())
        ),
        bytes_in=stats.bytes_in,
        bytes_out=stats.bytes_out,
        begun=house.desk.begun + house.desk.brokers,
        waiting=house.desk.waiting,
        request_bytes=sum(house.pool_of(kind).held for kind in (Kind.CLIENT, Kind.BROKER)),
        answer_bytes=house.answers.held,
        metadata_builds=house.node.metadata.builds,
    )


@cache
def _api_name(api_key: int) -> str:
    """Name an API as Kafka does; one that nobody knows by its number."""
    known = api_key_map.get(api_key)
    return str(api_key) if known is None else "".join(word.capitalize() for word in known.split("_"))


class PrometheusPage:
    """Renders the metrics that `collect` gives."""

    def __init__(self, collect: Callable[[], ControllerMetrics]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Families(collect))

    def render(self) -> tuple[str, bytes]:
        """Give (content type, page)."""
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)


class _Families(Collector):
    def __init__(self, collect: Callable[[], ControllerMetrics]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        """Give every family, from one look."""
        seen = self._collect()
        yield from _cluster(seen)
        yield from _work(seen)
        yield from _requests(seen)
        yield from _queues(seen)
        yield from _peers(seen.peers)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"shunter_{name}", help_text, value=value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"shunter_{name}", help_text, value=value)


def _cluster(seen: ControllerMetrics) -> Iterator[Metric]:
    cluster = seen.cluster
    yield _gauge("active", "1 while this process is the controller and has read the cluster", float(cluster.active))
    yield _gauge("controller_epoch", "Epoch of the last election that was won", cluster.controller_epoch)
    yield _gauge("brokers", "Live brokers, this node included", cluster.brokers)
    yield _gauge("topics", "Topics", cluster.topics)
    yield _gauge("partitions", "Partitions", cluster.partitions)
    moves = GaugeMetricFamily("shunter_reassignments", "Accepted reassignments by phase", labels=["phase"])
    for phase, count in sorted(cluster.moves.items()):
        moves.add_metric([phase], count)
    yield moves


def _work(seen: ControllerMetrics) -> Iterator[Metric]:
    work = seen.work
    events = CounterMetricFamily("shunter_events", "Events handled", labels=["event"])
    for event, count in sorted(work.events.items()):
        events.add_metric([event], count)
    yield events
    yield _counter("event_handling_seconds", "Time spent on handling events", work.handling_s)
    yield _gauge("event_handling_longest_seconds", "Longest time that one event took", work.longest_s)
    yield _gauge("events_waiting", "Events that were not looked at yet", work.events_waiting)
    yield _gauge("events_oldest_seconds", "Age of the oldest event that waits", work.oldest_event_s)
    yield _gauge("decisions_waiting", "Partitions and topics that wait for their slice", work.items_waiting)
    yield _gauge("barrier_brokers", "Brokers whose answers waiting work waits for", work.barrier)
    yield _gauge("tardy_brokers", "Brokers that hold what is about their partitions alone", work.tardy_brokers)
    yield _gauge("slow_brokers", "Brokers that are not waited for any more", work.slow_brokers)
    yield _gauge("unreachable_brokers", "Brokers that live and have no connection", work.unreachable_brokers)
    yield _gauge("refusing_brokers", "Brokers that refuse requests of ours and are told again", work.refusing_brokers)
    yield _counter(
        "requests_refused_for_bugs", "Requests refused because they met a bug of ours", work.requests_refused
    )
    yield _counter("write_batches", "Batches written to ZooKeeper", work.batches)
    yield _counter("written_records", "Records in these batches", work.records)
    yield _counter("write_seconds", "Time until batches were durable", work.writing_s)
    yield _gauge("event_loop_lag_seconds", "How late the event loop was at the last probe", seen.lag.last_s)
    yield _gauge("event_loop_lag_worst_seconds", "The longest lag since the last scrape", seen.lag.worst_s)


def _requests(seen: ControllerMetrics) -> Iterator[Metric]:
    requests = CounterMetricFamily("shunter_control_requests", "Control requests written", labels=["api"])
    sizes = CounterMetricFamily("shunter_control_request_bytes", "Bytes of control requests written", labels=["api"])
    answers = CounterMetricFamily("shunter_control_answers", "Control requests answered", labels=["api"])
    for traffic in seen.traffic:
        requests.add_metric([traffic.api], traffic.requests)
        sizes.add_metric([traffic.api], traffic.bytes)
        answers.add_metric([traffic.api], traffic.answers)
    errors = CounterMetricFamily(
        "shunter_control_errors", "Errors in answers to control requests", labels=["api", "error", "of"]
    )
    for wrong in seen.errors:
        errors.add_metric([wrong.api, wrong.error, wrong.of], wrong.count)
    yield from (requests, sizes, answers, errors)
    yield _counter("encode_seconds", "Time spent on encoding control requests", seen.encode_s)
    yield _counter("broker_connections", "Connections made to brokers", seen.connections)
    yield _counter("broker_connections_lost", "Connections to brokers that were lost", seen.lost)
    yield _counter("broker_timeouts", "Connections given up because a request was not answered in time", seen.timeouts)
    yield _counter(
        "superseded_requests", "Metadata updates never sent because a newer one stood for them", seen.superseded
    )
    yield _counter(
        "dropped_requests", "Requests thrown away with the queue of a broker that went or bounced", seen.dropped
    )
    yield _gauge("encoded_bytes", "Bytes of encoded requests that are held, each once", seen.resident)
    yield _gauge("fragment_cache_topics", "Topics in the cache of encoded metadata", seen.cache.topics)
    yield _gauge("fragment_cache_partitions", "Partitions in the cache of encoded metadata", seen.cache.partitions)
    yield _gauge("fragment_cache_bytes", "Memory of the cache of encoded metadata", seen.cache.held)


def _queues(seen: ControllerMetrics) -> Iterator[Metric]:
    queued = GaugeMetricFamily("shunter_broker_queue", "Requests that wait to be sent", labels=["broker"])
    flying = GaugeMetricFamily("shunter_broker_in_flight", "Requests sent and not answered", labels=["broker"])
    oldest = GaugeMetricFamily(
        "shunter_broker_oldest_seconds", "Age of the oldest unanswered request", labels=["broker"]
    )
    connected = GaugeMetricFamily("shunter_broker_connected", "1 while there is a connection", labels=["broker"])
    for queue in seen.queues:
        label = [str(queue.broker)]
        queued.add_metric(label, queue.queued)
        flying.add_metric(label, queue.in_flight)
        oldest.add_metric(label, queue.oldest_s)
        connected.add_metric(label, float(queue.connected))
    yield from (queued, flying, oldest, connected)


def _peers(peers: Peers) -> Iterator[Metric]:
    kinds = GaugeMetricFamily("shunter_connections", "Connections that are open", labels=["kind"])
    refused = CounterMetricFamily("shunter_connections_refused", "Connections not taken", labels=["reason"])
    closed = CounterMetricFamily("shunter_connections_closed", "Connections that we closed", labels=["reason"])
    for family, counts in ((kinds, peers.connections), (refused, peers.refused), (closed, peers.closed)):
        for name, count in sorted(counts.items()):
            family.add_metric([name], count)
    served = CounterMetricFamily("shunter_requests", "Requests answered", labels=["api"])
    seconds = CounterMetricFamily("shunter_request_seconds", "Time from their turn to the answer", labels=["api"])
    for each in peers.served:
        served.add_metric([each.api], each.requests)
        seconds.add_metric([each.api], each.seconds)
    yield from (kinds, refused, closed, served, seconds)
    yield _counter("received_bytes", "Bytes received from clients, tools and brokers", peers.bytes_in)
    yield _counter("sent_bytes", "Bytes of answers sent to them", peers.bytes_out)
    yield _gauge("requests_begun", "Requests that are worked on", peers.begun)
    yield _gauge("requests_waiting", "Connections whose request waits for its turn", peers.waiting)
    yield _gauge("request_bytes", "Bytes of large requests that are held", peers.request_bytes)
    yield _gauge("answer_bytes", "Bytes of answers that are held until their peers have read them", peers.answer_bytes)
    yield _counter("metadata_builds", "How often all topics were gone over for answers", peers.metadata_builds)
