"""The fleet's metrics for Prometheus, made from the view at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from shunter.views.service import STATES, FleetRow, KeptClusterView, MovesView
from shunter.web.reception import Reception

CONTENT_TYPE = CONTENT_TYPE_LATEST

ROWS: tuple[tuple[str, str, Callable[[FleetRow], float | None]], ...] = (
    ("brokers", "Live brokers at the last look.", lambda row: row.brokers),
    ("brokers_down", "Brokers that hold replicas and are not live.", lambda row: len(row.brokers_down)),
    ("partitions", "Partitions.", lambda row: row.partitions),
    ("under_replicated_partitions", "Partitions with replicas out of sync.", lambda row: row.under_replicated),
    (
        "under_min_isr_partitions",
        "Partitions with fewer replicas in sync than min.insync.replicas.",
        lambda row: row.under_min_isr,
    ),
    ("offline_partitions", "Partitions without a leader.", lambda row: row.offline),
    (
        "balance_distance",
        "Greatest distance of a broker from the mean in bytes, a share of the mean.",
        lambda row: row.balance,
    ),
    ("disk_used_share", "Share in use on the fullest broker.", lambda row: row.disk_used),
    (
        "disk_runway_days",
        "Days until the first broker is full at the growth that was seen.",
        lambda row: row.runway_days,
    ),
    ("conditions", "Conditions of the policy that hold.", lambda row: row.conditions),
    ("moves_open", "Moves that have not ended.", lambda row: row.moves_open),
    ("moves_done_share", "Share of the moves that is done, from 0 to 1.", lambda row: row.share),
    (
        "moves_left_seconds",
        "Estimated time until the moves under way end.",
        lambda row: None if row.left_ms is None else row.left_ms / 1000,
    ),
    ("proposals_waiting", "Proposals that wait for approval.", lambda row: row.proposals_waiting),
    ("paused", "1: the kill switch of the cluster is on.", lambda row: float(row.paused is not None)),
    (
        "looked_at_timestamp_seconds",
        "Time of the last successful look at the cluster, since 1970 UTC.",
        lambda row: None if row.health.looked_at_ms is None else row.health.looked_at_ms / 1000,
    ),
)
"""Name after `shunter_service_`, help text, and the value in the view. None: no sample."""


MOVE_ROWS: tuple[tuple[str, str, Callable[[MovesView], float | None]], ...] = (
    ("moves_stuck", "Moves that can't end now.", lambda view: sum(bool(row.stuck) for row in view.moves)),
    ("copy_bytes_per_second", "Bytes per second that are copied; no sample: unknown.", lambda view: view.bytes_per_s),
    ("throttle_bytes_per_second", "The throttle of a broker; no sample: there is none.", lambda view: view.limit),
    ("rollback_bytes", "Bytes that a rollback of all open moves would copy.", lambda view: view.rollback_bytes),
    (
        "executor_silent_seconds",
        "For how long the cluster has not answered the executor; 0: the cluster answers.",
        lambda view: view.silent_ms / 1000,
    ),
)
"""Like `ROWS`, for the moves of a cluster."""


class _Fleet(Collector):
    def __init__(self, reception: Reception) -> None:
        front = reception.front
        self._reception = reception
        self._view = front.fleet()
        names = [row.name for row in self._view.clusters]
        self._moves: Mapping[str, MovesView] = {name: front.moves(name) for name in names}
        self._pages: Mapping[str, KeptClusterView] = {name: front.cluster(name) for name in names}

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        for name, words, figure in ROWS:
            family = GaugeMetricFamily(f"shunter_service_{name}", words, labels=["cluster"])
            for row in self._view.clusters:
                value = figure(row)
                if value is not None:
                    family.add_metric([row.name], value)
            yield family
        for name, words, told in MOVE_ROWS:
            family = GaugeMetricFamily(f"shunter_service_{name}", words, labels=["cluster"])
            for cluster, moves in self._moves.items():
                value = told(moves)
                if value is not None:
                    family.add_metric([cluster], value)
            yield family
        yield self._move_states()
        left = GaugeMetricFamily(
            "shunter_service_throttles_left", "Throttles that no execution restores.", labels=["cluster"]
        )
        for cluster, page in self._pages.items():
            left.add_metric([cluster], len(page.throttles_left))
        yield left
        yield self._states()
        yield GaugeMetricFamily(
            "shunter_service_fleet_paused", "1: the whole fleet is paused.", float(self._view.paused is not None)
        )
        yield GaugeMetricFamily(
            "shunter_service_store_trouble",
            "1: the service's store can't be used.",
            float(bool(self._view.store_trouble)),
        )
        yield GaugeMetricFamily(
            "shunter_service_pages_open",
            "Pages and programs that follow the events.",
            float(self._reception.hub.subscribers),
        )
        yield from self._port()

    def _port(self) -> Iterator[Metric]:
        """Connections, what was refused, and tokens."""
        room = self._reception.room
        yield GaugeMetricFamily("shunter_service_http_connections", "Open connections of HTTP.", float(len(room)))
        refused = CounterMetricFamily(
            "shunter_service_http_refused",
            "Requests and connections that were refused, by reason.",
            labels=["reason"],
        )
        for reason, count in sorted(room.refused.items()):
            refused.add_metric([reason], count)
        yield refused
        yield CounterMetricFamily(
            "shunter_service_wrong_tokens", "Wrong tokens that were shown.", float(self._reception.wrong_tokens.count)
        )
        expiry = GaugeMetricFamily(
            "shunter_service_token_expires_timestamp_seconds",
            "Time from which a token is refused, since 1970 UTC.",
            labels=["name"],
        )
        tokens = self._reception.identity.tokens
        for token in () if tokens is None else tokens.current():
            if token.expires_ms is not None:
                expiry.add_metric([token.name], token.expires_ms / 1000)
        yield expiry

    def _move_states(self) -> Metric:
        family = GaugeMetricFamily(
            "shunter_service_moves",
            "Moves by state: pending, moving, paused, or how they ended; another's: begun by another tool.",
            labels=["cluster", "state"],
        )
        for cluster, view in self._moves.items():
            counts = Counter(row.state if row.whose == "ours" else "another's" for row in view.moves)
            for state, count in sorted(counts.items()):
                family.add_metric([cluster, state], count)
        return family

    def _states(self) -> Metric:
        family = GaugeMetricFamily(
            "shunter_service_cluster_state", "1 for the state that the cluster is in.", labels=["cluster", "state"]
        )
        for row in self._view.clusters:
            for state in STATES:
                family.add_metric([row.name, state], float(row.health.state == state))
        return family


def metrics_text(reception: Reception) -> bytes:
    """All metrics, in Prometheus' text form."""
    registry = CollectorRegistry()
    registry.register(_Fleet(reception))
    return generate_latest(registry)
