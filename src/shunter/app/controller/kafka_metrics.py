"""The table of Kafka's own controller metrics, under the names that the JMX exporter's usual rules give them.

Rules: `kafka.controller<type=T, name=N><>Value` becomes the gauge `kafka_controller_T_N`, a meter's count
`kafka_controller_T_N_total` (without `PerSec`), a timer's count `kafka_controller_T_N_count` and its percentiles
`kafka_controller_T_N{quantile}`, in ms; all in small letters. Source: `jmx_exporter`, `example_configs/kafka-2_0_0.yml`;
Apache 3.9, `KafkaController`, `ControllerState`, `ControllerChannelManager`, `ControllerEventManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from shunter.app.controller.metric_rows import ControllerParts, MetricRow, Samples, counter, gauge
from shunter.drivers.brokers.channel_stats import QueueStats
from shunter.drivers.election.loop_stats import NEVER, Durations, together
from shunter.drivers.listener.handlers.audit import api_name

QUANTILES = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}
"""The labels that the rules write: Kafka's `50thPercentile` becomes `0.50`."""
ZK_MIGRATION_STATE = 4
"""Kafka's number for a controller that keeps everything in ZooKeeper."""
EVENTS: Mapping[str, tuple[str, ...]] = {
    "ControllerChange": ("Elected", "ClusterLoaded"),
    "ControllerShutdown": ("SessionExpired",),
    "LeaderElection": ("BrokersRead",),
    "TopicChange": ("TopicsRead", "TopicsSubmitted", "PartitionsSubmitted"),
    "TopicDeletion": ("TopicDeletionsFound", "TopicDeletionsSubmitted"),
    "PartitionReassignment": (
        "ReassignmentsSubmitted",
        "LegacyReassignmentsFound",
        "ExtraReassignmentsFound",
        "ReassignmentRequestsFound",
        "CancelZnodeFound",
    ),
    "ManualLeaderBalance": ("ElectionRequested",),
    "ControlledShutdown": ("ControlledShutdownRequested",),
    "IsrChange": ("AlterPartitionReceived", "PartitionsRead"),
    "LeaderAndIsrResponseReceived": ("RequestAnswered",),
    "LogDirChange": ("LogDirsFailed",),
    "TopicUncleanLeaderElectionEnable": ("ConfigsRead",),
    "UncleanLeaderElectionEnable": ("ConfigsRead",),
}
"""Kafka's name of a controller's state, and Shunter's events for it. Shunter's don't wait for ZooKeeper."""
SERVED = {"ListPartitionReassignment": "ListPartitionReassignments", "UpdateFeatures": "UpdateFeatures"}
"""States that are not events in Shunter but requests, which are answered without the core."""


def _timer(name: str, meaning: str, of: Callable[[ControllerParts], Durations]) -> tuple[MetricRow, MetricRow]:
    def quantiles(seen: ControllerParts) -> Samples:
        durations = of(seen)
        return [((label,), durations.quantile(share) * 1000) for label, share in QUANTILES.items()]

    return (
        gauge(f"{name}_count", f"{meaning}: how often, since the start", lambda seen: of(seen).count),
        MetricRow(name, f"{meaning}: ms, of the latest", quantiles, ("quantile",)),
    )


def _timers(events: Mapping[str, tuple[str, ...]]) -> Iterable[MetricRow]:
    for state, ours in events.items():

        def of(seen: ControllerParts, ours: tuple[str, ...] = ours) -> Durations:
            return together(seen.work.events.get(event, NEVER) for event in ours)

        yield from _timer(f"controllerstats_{state}RateAndTimeMs", f"{state} events", of)


def _counts() -> Iterable[MetricRow]:
    """Metrics of states whose time is not measured: only how often they occurred."""
    for state, api in SERVED.items():

        def of(seen: ControllerParts, api: str = api) -> float:
            return sum(count for key, count in seen.peers.requests.items() if api_name(key) == api)

        yield gauge(f"controllerstats_{state}RateAndTimeMs_count", f"{api} requests answered, since the start", of)
    yield gauge(
        "controllerstats_AutoLeaderBalanceRateAndTimeMs_count",
        "How often leaders were given back to preferred replicas, since the start",
        lambda seen: seen.work.notices.get("leaders-rebalanced", 0),
    )


def _if_active(value: Callable[[ControllerParts], float]) -> Callable[[ControllerParts], float]:
    """A standby reports 0, as in Kafka, so that sums over all controllers are right."""
    return lambda seen: value(seen) if seen.cluster.active else 0.0


def _controller(name: str, meaning: str, value: Callable[[ControllerParts], float]) -> MetricRow:
    return gauge(f"kafkacontroller_{name}", meaning, _if_active(value))


def _waits(seen: ControllerParts, queue: QueueStats) -> Durations:
    """How long the requests of a broker waited until they were sent."""
    return seen.channels.stats.queued.get(queue.broker, NEVER)


_STATE = (
    _controller("ActiveControllerCount", "1 on the active controller", lambda _: 1.0),
    _controller("OfflinePartitionsCount", "Partitions without a live leader", lambda s: s.census.offline),
    _controller(
        "PreferredReplicaImbalanceCount",
        "Partitions that another replica leads than the first",
        lambda s: s.census.imbalanced,
    ),
    _controller("GlobalTopicCount", "Topics", lambda s: s.cluster.topics),
    _controller("GlobalPartitionCount", "Partitions", lambda s: s.census.partitions),
    _controller("TopicsToDeleteCount", "Topics that are being deleted", lambda s: s.deletions.topics),
    _controller("ReplicasToDeleteCount", "Replicas of theirs that are not deleted yet", lambda s: s.deletions.replicas),
    _controller(
        "TopicsIneligibleToDeleteCount",
        "Topics whose deletion waits for a dead broker",
        lambda s: s.deletions.stuck_topics,
    ),
    _controller("ReplicasIneligibleToDeleteCount", "Replicas on such brokers", lambda s: s.deletions.stuck_replicas),
    _controller("ActiveBrokerCount", "Live brokers, this node not included", lambda s: max(0, s.cluster.brokers - 1)),
    _controller("FencedBrokerCount", "Always 0 in ZooKeeper mode", lambda _: 0.0),
    gauge("kafkacontroller_ControllerState", "Always 0: no event is being handled while this is read", lambda _: 0.0),
    gauge("kafkacontroller_ZkMigrationState", "Always 4: in ZooKeeper", lambda _: ZK_MIGRATION_STATE),
)
_CHANNELS = (
    gauge(
        "controllerchannelmanager_TotalQueueSize",
        "Control requests that wait to be sent",
        lambda s: sum(queue.queued for queue in s.queues),
    ),
    MetricRow(
        "controllerchannelmanager_QueueSize",
        "Control requests that wait to be sent, by broker",
        lambda s: [((str(queue.broker),), queue.queued) for queue in s.queues],
        ("broker_id",),
    ),
    MetricRow(
        "controllerchannelmanager_RequestRateAndQueueTimeMs_count",
        "Control requests sent, by broker, since the start",
        lambda s: [((str(queue.broker),), _waits(s, queue).count) for queue in s.queues],
        ("broker_id",),
    ),
    MetricRow(
        "controllerchannelmanager_RequestRateAndQueueTimeMs",
        "How long they waited, ms, of the latest",
        lambda s: [
            ((str(queue.broker), label), _waits(s, queue).quantile(share) * 1000)
            for queue in s.queues
            for label, share in QUANTILES.items()
        ],
        ("broker_id", "quantile"),
    ),
)
_EVENTS = (
    counter(
        "controllerstats_UncleanLeaderElections",
        "Leaders made of replicas that were out of sync, since the start",
        lambda s: s.work.notices.get("unclean-election", 0),
    ),
    *_timers(EVENTS),
    *_counts(),
    gauge("controllereventmanager_EventQueueSize", "Events that wait", lambda s: s.loop.waiting()),
    *_timer("controllereventmanager_EventQueueTimeMs", "Events' wait for their turn", lambda s: s.work.waits),
)

KAFKA_ROWS = tuple(row._replace(name=f"kafka_controller_{row.name}".lower()) for row in (*_STATE, *_EVENTS, *_CHANNELS))
"""The metrics, in the order of the page."""
