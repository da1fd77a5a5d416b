"""Throttles of reassignments: what Apache's tool sets, what it leaves behind, and how that is removed.

Source: Apache Kafka 3.9, `ReassignPartitionsCommand`: `calculateProposedMoveMap`, `calculateLeaderThrottles`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from shunter.drivers.admin.reassign_cluster import RATE_SETTINGS, REPLICA_SETTINGS, ReassignCluster
from shunter.drivers.admin.reassignments import PartitionReassignment
from shunter.errors import DriverError
from shunter.model.partition import BrokerId, Replicas, TopicPartition

LOG = logging.getLogger(__name__)
LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE = RATE_SETTINGS
LEADER_REPLICAS, FOLLOWER_REPLICAS = REPLICA_SETTINGS

Echo = Callable[[str], None]


class Traffic(NamedTuple):
    """Who sends and who receives a partition."""

    sources: frozenset[BrokerId]
    destinations: frozenset[BrokerId]


class Leftover(NamedTuple):
    """A throttle that is set: kind is 'broker' or 'topic'."""

    kind: str
    name: str
    setting: str
    value: str


def traffic_of(
    under_way: Mapping[TopicPartition, PartitionReassignment],
    proposed: Mapping[TopicPartition, Replicas],
    current: Mapping[TopicPartition, Replicas],
) -> dict[TopicPartition, Traffic]:
    """All movements there will be: those under way, and the proposed ones."""
    traffic = {
        tp: Traffic(frozenset(move.replicas) - frozenset(move.adding), frozenset(move.adding))
        for tp, move in under_way.items()
    }
    for tp, replicas in proposed.items():
        sources = traffic[tp].sources if tp in traffic else frozenset(current[tp])
        traffic[tp] = Traffic(sources, frozenset(replicas) - sources)
    return traffic


def replica_lists(traffic: Mapping[TopicPartition, Traffic]) -> dict[str, tuple[str, str]]:
    """By topic: the throttled replicas of leaders and of followers, as the settings are written."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for tp, (sources, destinations) in traffic.items():
        leaders.setdefault(tp.topic, set()).update(f"{tp.partition}:{broker}" for broker in sources)
        followers.setdefault(tp.topic, set()).update(f"{tp.partition}:{broker}" for broker in destinations - sources)
    return {name: (",".join(sorted(leaders[name])), ",".join(sorted(followers[name]))) for name in sorted(leaders)}


def throttle_moves(
    cluster: ReassignCluster, traffic: Mapping[TopicPartition, Traffic], rate: int, echo: Echo
) -> dict[str, str]:
    """Throttle moves between brokers; tells which brokers and topics could not be, and why."""
    topics = {
        name: {LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers}
        for name, (leaders, followers) in replica_lists(traffic).items()
    }
    failed = cluster.alter_settings("topic", topics)
    brokers = sorted({broker for one in traffic.values() for broker in one.sources | one.destinations})
    wanted = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
    failed |= _alter_live(cluster, dict.fromkeys(brokers, wanted))
    echo(f"The inter-broker throttle limit was set to {rate} B/s")
    return failed


def throttle_log_dirs(cluster: ReassignCluster, brokers: Iterable[BrokerId], rate: int, echo: Echo) -> dict[str, str]:
    """Throttle moves between log dirs of brokers."""
    failed = _alter_live(cluster, {broker: {LOG_DIR_RATE: str(rate)} for broker in brokers})
    echo(f"The replica-alter-dir throttle limit was set to {rate} B/s")
    return failed


def clear(cluster: ReassignCluster, brokers: Iterable[BrokerId], topics: Iterable[str]) -> dict[str, str]:
    """Remove every throttle of brokers and topics."""
    nothing: dict[str, str | None] = dict.fromkeys(RATE_SETTINGS)
    failed = _alter_live(cluster, dict.fromkeys(brokers, nothing))
    return failed | cluster.alter_settings("topic", {name: dict.fromkeys(REPLICA_SETTINGS) for name in topics})


def leftovers(cluster: ReassignCluster, topics: Iterable[str] | None = None) -> tuple[Leftover, ...]:
    """Throttles that are set on live brokers, and on topics (None: on all)."""
    names = cluster.topic_names() if topics is None else tuple(sorted(topics))
    found = {
        "broker": _rates(cluster),
        "topic": cluster.settings("topic", names, REPLICA_SETTINGS),
    }
    return tuple(
        Leftover(kind, name, setting, value)
        for kind, by_name in found.items()
        for name, settings in sorted(by_name.items())
        for setting, value in sorted(settings.items())
    )


def _rates(cluster: ReassignCluster) -> dict[str, dict[str, str]]:
    """Throttles of all brokers that answer: one that died a moment ago is still listed, and hides nobody else's."""
    brokers = [str(node.id) for node in cluster.nodes()]
    try:
        return cluster.settings("broker", brokers, RATE_SETTINGS)
    except DriverError:
        found: dict[str, dict[str, str]] = {}
        for broker in brokers:
            try:
                found |= cluster.settings("broker", [broker], RATE_SETTINGS)
            except DriverError as error:
                LOG.warning("broker %s does not say which throttles it has: %s", broker, error)
        return found


def _alter_live(
    cluster: ReassignCluster, wanted: Mapping[BrokerId, Mapping[str, str | None] | Mapping[str, str]]
) -> dict[str, str]:
    """Change settings of live brokers; a dead one can't be asked, and is not waited for (KAFKA-13392)."""
    live = {node.id for node in cluster.nodes()}
    dead = {str(broker): "it is not live; nothing was changed there" for broker in sorted(set(wanted) - live)}
    changed = {str(broker): dict(settings) for broker, settings in wanted.items() if broker in live}
    return dead | cluster.alter_settings("broker", changed)
