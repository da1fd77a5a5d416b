"""A controller's metrics for Prometheus, collected from its parts at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from shunter.app.controller.broker_defaults import BrokerDefaults
from shunter.app.controller.kafka_metrics import KAFKA_ROWS
from shunter.app.controller.logs import ControllerLogs
from shunter.app.controller.metric_rows import ROWS
from shunter.core.controller.machine import ControllerMachine
from shunter.drivers.brokers.channel_stats import QueueStats
from shunter.drivers.brokers.channels import Channels
from shunter.drivers.election.loop import ControllerLoop
from shunter.drivers.election.loop_stats import Durations
from shunter.drivers.host.loop_lag import LoopLag
from shunter.drivers.listener.admission import GuestKind
from shunter.drivers.listener.handlers.audit import api_name
from shunter.drivers.listener.server import RpcServer
from shunter.views.census import Census
from shunter.views.metrics import (
    AnswerErrors,
    ApiTraffic,
    BrokerQueue,
    ControllerMetrics,
    FragmentCacheSize,
    Lag,
    LogCounts,
    Peers,
    Served,
    Timing,
    Workload,
    cluster_metrics,
    pending_deletions,
)
from shunter.wire.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

API_NAMES = {LEADER_AND_ISR: "LeaderAndIsr", STOP_REPLICA: "StopReplica", UPDATE_METADATA: "UpdateMetadata"}


def collect_metrics(
    machine: ControllerMachine,
    loop: ControllerLoop,
    channels: Channels,
    lag: LoopLag,
    server: RpcServer | None = None,
    census: Census | None = None,
    logs: ControllerLogs | None = None,
    defaults: BrokerDefaults | None = None,
    valid_until_s: Mapping[str, float] | None = None,
) -> ControllerMetrics:
    """Collect all metrics at one moment, between two events. Cost: O(topics, moves and queued requests)."""
    stats, sent = loop.stats, channels.stats
    cache = channels.cache_size()
    return ControllerMetrics(
        cluster=cluster_metrics(machine.view),
        work=Workload(
            events={event: _timing(each) for event, each in stats.events.items()},
            waits=_timing(stats.waits),
            notices=dict(stats.notices),
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
        queues=tuple(_queue(each, sent.queued.get(each.broker)) for each in channels.queues()),
        peers=Peers() if server is None else _peers_of(server),
        census=Census() if census is None else census,
        deletions=pending_deletions(machine.intake.deletions.remaining, machine.view.brokers.keys()),
        logs=() if logs is None else tuple(LogCounts(log.path.name, log.lines, log.lost) for log in logs.files),
        administrative={} if logs is None else dict(logs.outcomes),
        different_defaults=() if defaults is None else tuple(defaults.different),
        valid_until_s=dict(valid_until_s or {}),
    )


def _timing(durations: Durations) -> Timing:
    return Timing(durations.count, durations.seconds, tuple(durations.recent))


def _queue(stats: QueueStats, waited: Durations | None) -> BrokerQueue:
    return BrokerQueue(
        stats.broker,
        stats.connected,
        stats.queued,
        stats.in_flight,
        stats.oldest_seconds,
        stats.resident,
        Timing() if waited is None else _timing(waited),
    )


def _peers_of(server: RpcServer) -> Peers:
    """Count the connections, by kind."""
    house, stats = server.house, server.stats
    return Peers(
        connections={kind.value: server.count(kind) for kind in GuestKind},
        refused=dict(stats.refused),
        closed=dict(stats.closed),
        denied=dict(stats.denied),
        served=tuple(
            Served(api_name(key), count, stats.handling_seconds.get(key, 0.0))
            for key, count in sorted(stats.requests.items())
        ),
        by_principal={(api_name(key), principal): count for (key, principal), count in stats.by_principal.items()},
        bytes_in=stats.bytes_in,
        bytes_out=stats.bytes_out,
        begun=house.desk.begun + house.desk.brokers,
        waiting=house.desk.waiting,
        request_bytes=sum(house.pool_of(kind).held for kind in (GuestKind.CLIENT, GuestKind.BROKER)),
        answer_bytes=house.answers.held,
        metadata_builds=house.node.metadata.builds,
    )


class PrometheusPage:
    """Renders the metrics that `collect` returns."""

    def __init__(self, collect: Callable[[], ControllerMetrics]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Families(collect))

    def render(self) -> tuple[str, bytes]:
        """Return (content type, page)."""
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)


class _Families(Collector):
    def __init__(self, collect: Callable[[], ControllerMetrics]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        """Yield every family, from one look."""
        seen = self._collect()
        for row in (*ROWS, *KAFKA_ROWS):
            yield row.family(seen)
