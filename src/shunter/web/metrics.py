"""The fleet's metrics for Prometheus, made from the view at each scrape."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from shunter import __version__
from shunter.model.service import KillSwitch
from shunter.views.service import (
    CURRENT,
    OURS,
    SEVERITIES,
    STATES,
    ClusterSituation,
    FleetRow,
    KeptBrokerView,
    KeptClusterView,
    MovesView,
)
from shunter.web.reception import Reception

CONTENT_TYPE = CONTENT_TYPE_LATEST

ROWS: tuple[tuple[str, str, Callable[[FleetRow], float | None]], ...] = (
    ("brokers", "Live brokers.", lambda row: row.brokers),
    (
        "brokers_down",
        "Brokers that hold replicas or are registered, and are not live.",
        lambda row: len(row.brokers_down),
    ),
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
)
"""Name after `shunter_service_`, help text, and the value in the view. No sample: not known, or no longer current."""
PROGRESS: tuple[tuple[str, str, Callable[[FleetRow], float | None]], ...] = (
    ("moves_open", "Moves of the journal that have not ended.", lambda row: row.moves_open),
    ("moves_done_share", "Share of the moves that is done, from 0 to 1.", lambda row: row.share),
    (
        "moves_left_seconds",
        "Estimated time until the moves under way end.",
        lambda row: _seconds(row.left_ms),
    ),
)
"""Like `ROWS`, for figures of moves."""
KNOWN: tuple[tuple[str, str, Callable[[FleetRow], float | None]], ...] = (
    ("proposals_waiting", "Proposals that wait for approval.", lambda row: row.proposals_waiting),
    ("paused", "1: the kill switch of the cluster is on.", lambda row: _in_force(row.paused)),
    (
        "looked_at_timestamp_seconds",
        "Time of the last successful observation of the cluster, since 1970 UTC.",
        lambda row: _seconds(row.situation.observed_at_ms),
    ),
    (
        "claim_unconfirmed_timestamp_seconds",
        "Since when it is not confirmed that who drove the cluster still does, since 1970 UTC; no sample: it is confirmed.",
        lambda row: _seconds(row.situation.unclaimed_since_ms),
    ),
)
"""Like `ROWS`, for what this service knows whether the cluster answers or not."""


SILENCE = "executor_silent_seconds"
MOVE_ROWS: tuple[tuple[str, str, Callable[[MovesView], float | None]], ...] = (
    (
        "moves_stuck",
        "Moves that can't end now; no sample: another process drives them.",
        lambda view: None if view.silent_ms is None else sum(bool(row.stuck) for row in view.moves),
    ),
    (
        "copy_bytes_per_second",
        "Bytes per second that are copied; no sample: unknown.",
        lambda view: view.copy_bytes_per_s,
    ),
    (
        "throttle_bytes_per_second",
        "The throttle of a broker; no sample: there is none.",
        lambda view: view.throttle_bytes_per_s,
    ),
    ("rollback_bytes", "Bytes that a rollback of all open moves would copy.", lambda view: view.rollback_bytes),
    (
        SILENCE,
        "For how long the cluster has not answered the executor; 0: the cluster answers.",
        lambda view: _seconds(view.silent_ms),
    ),
)
"""Like `ROWS`, for the moves of a cluster."""


BROKER_ROWS: tuple[tuple[str, str, Callable[[KeptBrokerView], float | None]], ...] = (
    ("live", "1: the broker is live.", lambda broker: float(broker.live)),
    ("replicas", "Replicas on the broker.", lambda broker: broker.replicas),
    ("replica_bytes", "Bytes of replicas on the broker; no sample: not known.", lambda broker: broker.replica_bytes),
    ("leaders", "Partitions that the broker leads.", lambda broker: broker.leaders),
    ("preferred_leaders", "Partitions whose preferred leader it is.", lambda broker: broker.preferred),
    ("offline_replicas", "Its replicas that are offline.", lambda broker: broker.offline),
    ("receives", "Open moves that bring a replica to it.", lambda broker: broker.receives),
    ("gives", "Open moves that take a replica from it.", lambda broker: broker.gives),
    ("disk_bytes", "Bytes of its log dirs; no sample: not known.", lambda broker: broker.disk_total),
    ("disk_usable_bytes", "Bytes that are free there; no sample: not known.", lambda broker: broker.disk_usable),
)
"""Name after `shunter_service_broker_`, for each broker of a cluster."""


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
        for rows, current in ((ROWS, _figures_are_current), (PROGRESS, _moves_are_current), (KNOWN, _always)):
            for name, words, figure in rows:
                family = GaugeMetricFamily(f"shunter_service_{name}", words, labels=["cluster"])
                for row in self._view.clusters:
                    value = figure(row)
                    if value is not None and current(row.situation):
                        family.add_metric([row.name], value)
                yield family
        for name, words, told in MOVE_ROWS:
            family = GaugeMetricFamily(f"shunter_service_{name}", words, labels=["cluster"])
            for cluster, moves in self._moves.items():
                value = told(moves)
                # The silence itself is known while the figures of moves are old because of it.
                if value is not None and (name == SILENCE or _moves_are_current(moves.situation)):
                    family.add_metric([cluster], value)
            yield family
        yield self._move_states()
        yield from self._brokers()
        yield from self._counters()
        left = GaugeMetricFamily(
            "shunter_service_throttles_left",
            "Throttles that no execution restores, while nothing is being moved.",
            labels=["cluster"],
        )
        for cluster, page in self._pages.items():
            if _figures_are_current(page.row.situation):
                left.add_metric([cluster], len(page.throttles_left))
        yield left
        yield self._one_hot("cluster_state", "1 for the state that the cluster is in.", STATES, _state)
        yield self._one_hot("cluster_severity", "1 for how bad it is, by all that is known.", SEVERITIES, _severity)
        yield GaugeMetricFamily(
            "shunter_service_fleet_paused",
            "1: the kill switch of the fleet is on.",
            _in_force(self._view.paused),
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

    def _brokers(self) -> Iterator[Metric]:
        for name, words, told in BROKER_ROWS:
            family = GaugeMetricFamily(f"shunter_service_broker_{name}", words, labels=["cluster", "broker"])
            for cluster, page in self._pages.items():
                for broker in page.brokers if _figures_are_current(page.row.situation) else ():
                    value = told(broker)
                    if value is not None:
                        family.add_metric([cluster, str(broker.id)], value)
            yield family

    def _counters(self) -> Iterator[Metric]:
        """What was counted since the service began."""
        build = GaugeMetricFamily("shunter_build_info", "1, with the version that runs.", labels=["version", "python"])
        build.add_metric([__version__, platform.python_version()], 1.0)
        yield build
        observations = CounterMetricFamily(
            "shunter_service_observations", "Looks at a cluster, by how they ended.", labels=["cluster", "outcome"]
        )
        moves = CounterMetricFamily(
            "shunter_service_ended_moves",
            "Moves that this service drove to their end, by how they ended.",
            labels=["cluster", "outcome"],
        )
        copied = CounterMetricFamily(
            "shunter_service_copied_bytes", "Bytes that moves driven by this service copied.", labels=["cluster"]
        )
        for cluster in self._pages:
            counts = self._reception.front.counts(cluster)
            observations.add_metric([cluster, "seen"], counts.observations)
            observations.add_metric([cluster, "failed"], counts.failed_observations)
            copied.add_metric([cluster], counts.copied_bytes)
            for outcome, many in sorted(counts.moves.items()):
                moves.add_metric([cluster, outcome], many)
        sent = CounterMetricFamily(
            "shunter_service_notifications",
            "Messages to a receiver, by outcome; left-out: events that it never got.",
            labels=["receiver", "outcome"],
        )
        for each in self._reception.front.notifiers():
            for outcome, many in (("sent", each.sent), ("failed", each.failed), ("left-out", each.left_out)):
                sent.add_metric([each.receiver, outcome], many)
        requests = CounterMetricFamily(
            "shunter_service_http_requests", "Requests that were answered.", labels=["method", "status"]
        )
        for (method, status), many in sorted(self._reception.requests.items()):
            requests.add_metric([method, str(status)], many)
        yield from (observations, moves, copied, sent, requests)

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
            "Moves by state: pending, moving, paused, or how they ended; external: begun by another tool.",
            labels=["cluster", "state"],
        )
        for cluster, view in self._moves.items():
            if not _moves_are_current(view.situation):
                continue
            counts = Counter(row.state if row.whose == OURS else row.whose for row in view.moves)
            for state, count in sorted(counts.items()):
                family.add_metric([cluster, state], count)
        return family

    def _one_hot(self, name: str, words: str, values: Sequence[str], of: Callable[[ClusterSituation], str]) -> Metric:
        label = name.removeprefix("cluster_")
        family = GaugeMetricFamily(f"shunter_service_{name}", words, labels=["cluster", label])
        for row in self._view.clusters:
            for value in values:
                family.add_metric([row.name, value], float(of(row.situation) == value))
        return family


def _in_force(switch: KillSwitch | None) -> float | None:
    """Whether a kill switch is on; None: this host alone has it, so that is not known."""
    return None if switch is not None and switch.unsent else float(switch is not None)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _figures_are_current(situation: ClusterSituation) -> bool:
    return situation.figures is CURRENT


def _moves_are_current(situation: ClusterSituation) -> bool:
    return situation.moves is CURRENT


def _always(_situation: ClusterSituation) -> bool:
    return True


def _state(situation: ClusterSituation) -> str:
    return situation.state


def _severity(situation: ClusterSituation) -> str:
    return situation.severity.value


def metrics_text(reception: Reception) -> bytes:
    """All metrics, in Prometheus' text form."""
    registry = CollectorRegistry()
    registry.register(_Fleet(reception))
    return generate_latest(registry)
