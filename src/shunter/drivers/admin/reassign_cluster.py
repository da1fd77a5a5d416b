"""A cluster as the reassignment tools ask it: who is there, where partitions are, throttles, log dirs. Blocking.

A broker that is dead fails by itself: settings of brokers are written broker by broker, and only to those that the
cluster names as live (KAFKA-13392). A broker answers a change of its settings before it applies it: changes count as
done when they are seen in force.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kafka import errors as kafka_errors
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from shunter.drivers.admin.client import connected
from shunter.errors import DriverError, ErrorCode, RequestRejected
from shunter.model.partition import BrokerId, Replicas, TopicPartition

RATE_SETTINGS = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
REPLICA_SETTINGS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
IN_FORCE_TIMEOUT_S = 10.0
IN_FORCE_POLL_S = 0.1
_Answer = TypeVar("_Answer")


class Node(NamedTuple):
    """A live node of the cluster; Shunter's controller is one."""

    id: BrokerId
    rack: str | None


class PartitionInfo(NamedTuple):
    """A partition as clients see it."""

    replicas: Replicas
    isr: Replicas
    leader: BrokerId


class ReplicaDir(NamedTuple):
    """Where a replica is, and where it is being moved to; its size in bytes."""

    current: str | None
    future: str | None
    size: int


class ReassignCluster:
    """One connected client."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        """Connect.

        Raises:
            DriverError: nobody answers, or we are not let in.
        """
        self.client: Any = connected(configuration)

    def close(self) -> None:
        """End all connections."""
        self.client.close()

    def nodes(self) -> tuple[Node, ...]:
        """Live nodes, by id."""
        described = _asked("DescribeCluster", self.client.describe_cluster)
        found = (
            Node(int(node["broker_id"]), node.get("rack")) for node in described["brokers"] if not node.get("is_fenced")
        )
        return tuple(sorted(found))

    def cluster_id(self) -> str:
        """As Kafka names itself."""
        return str(_asked("DescribeCluster", self.client.describe_cluster)["cluster_id"])

    def topics(self, names: Collection[str]) -> dict[str, dict[int, PartitionInfo] | None]:
        """Partitions of topics; None for one that does not exist."""
        if not names:
            return {}
        found = _asked("Metadata", lambda: self.client.describe_topics(sorted(names)))
        known: dict[str, dict[int, PartitionInfo] | None] = dict.fromkeys(sorted(names))
        for topic in found:
            code = int(topic["error_code"])
            if code == 0:
                known[str(topic["name"])] = {
                    int(one["partition_index"]): PartitionInfo(
                        tuple(one["replica_nodes"]), tuple(one["isr_nodes"]), int(one["leader_id"])
                    )
                    for one in topic["partitions"]
                }
            elif code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
                raise DriverError(f"Metadata of topic {topic['name']}: error {code}", retriable=True)
        return known

    def partitions(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, PartitionInfo]:
        """Those of the partitions that exist."""
        topics = self.topics({tp.topic for tp in tps})
        found = {tp: (topics[tp.topic] or {}).get(tp.partition) for tp in tps}
        return {tp: info for tp, info in found.items() if info is not None}

    def topic_names(self) -> tuple[str, ...]:
        """All topics, sorted."""
        return tuple(sorted(_asked("Metadata", self.client.list_topics)))

    def described(self, names: Collection[str]) -> list[dict[str, Any]]:
        """Metadata of topics as clients get it, by name; those that are gone are left out."""
        found: list[dict[str, Any]] = (
            _asked("Metadata", lambda: self.client.describe_topics(sorted(names))) if names else []
        )
        return sorted((topic for topic in found if topic["error_code"] == 0), key=lambda topic: str(topic["name"]))

    # ---- settings

    def configs_of_topics(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """Settings in force of topics, where they are not Kafka's defaults."""
        if not names:
            return {}
        wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in sorted(names)]
        answered = _asked("DescribeConfigs", lambda: self.client.describe_configs(wanted, config_filter="all"))
        return {
            str(name): {
                str(key): str(entry["value"])
                for key, entry in settings.items()
                if entry.get("config_source") != "DEFAULT_CONFIG"
            }
            for name, settings in answered.get("topic", {}).items()
        }

    def settings(self, kind: str, names: Iterable[str], keys: Collection[str]) -> dict[str, dict[str, str]]:
        """Settings that are set at the resource itself: kind is 'topic' or 'broker'; dead brokers are left out."""
        resource_type = ConfigResourceType.TOPIC if kind == "topic" else ConfigResourceType.BROKER
        wanted = [ConfigResource(resource_type, name, list(keys)) for name in names]
        if not wanted:
            return {}
        own = "DYNAMIC_TOPIC_CONFIG" if kind == "topic" else "DYNAMIC_BROKER_CONFIG"
        answered = _asked(
            "DescribeConfigs",
            lambda: self.client.describe_configs(wanted, include_synonyms=False, config_filter="all"),
        )
        found: dict[str, dict[str, str]] = {}
        for name, settings in answered.get(kind, {}).items():
            found[str(name)] = {
                key: str(entry["value"])
                for key, entry in settings.items()
                if key in keys and entry.get("value") is not None and entry.get("config_source") == own
            }
        return found

    def alter_settings(self, kind: str, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Set (None: delete) settings of resources by IncrementalAlterConfigs, and see them in force.

        Returns:
            What went wrong, by resource: a broker that does not answer fails by itself.
        """
        failed = self._write_settings(kind, changes)
        return failed | self._await_settings(kind, {name: changes[name] for name in changes if name not in failed})

    def _await_settings(self, kind: str, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Wait until resources tell of their changes themselves; tells which did not in `IN_FORCE_TIMEOUT_S`."""
        deadline_s = time.monotonic() + IN_FORCE_TIMEOUT_S
        late = list(changes)
        while late := self._not_in_force(kind, {name: changes[name] for name in late}):
            if time.monotonic() >= deadline_s:
                break
            time.sleep(IN_FORCE_POLL_S)
        return dict.fromkeys(late, f"taken, but not seen in force within {IN_FORCE_TIMEOUT_S:g} s")

    def _not_in_force(self, kind: str, changes: Mapping[str, Mapping[str, str | None]]) -> list[str]:
        """Look once: all topics by one request, brokers one by one, for a dead one fails by itself."""
        late: list[str] = []
        for group in _groups(kind, changes):
            keys = {setting for name in group for setting in changes[name]}
            try:
                found = self.settings(kind, group, keys)
            except DriverError:
                late += group
                continue
            late += [name for name in group if not _holds(found.get(name, {}), changes[name])]
        return late

    def _write_settings(self, kind: str, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        resource_type = ConfigResourceType.TOPIC if kind == "topic" else ConfigResourceType.BROKER
        failed: dict[str, str] = {}
        for group in _groups(kind, changes):
            resources = [
                ConfigResource(
                    resource_type,
                    name,
                    {
                        key: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
                        for key, value in changes[name].items()
                    },
                )
                for name in group
            ]
            if not resources:
                continue
            try:
                answered = _asked(
                    "IncrementalAlterConfigs",
                    lambda resources=resources: self.client.alter_configs(  # type: ignore[misc]
                        resources, raise_on_unknown=False, incremental=True
                    ),
                )
            except DriverError as error:
                failed.update(dict.fromkeys(group, str(error)))
                continue
            told = answered.get(kind, {})
            failed.update({name: str(told[name]) for name in group if name in told and told[name] != "OK"})
        return failed

    # ---- log dirs

    def log_dirs(
        self, wanted: Iterable[tuple[BrokerId, TopicPartition]]
    ) -> dict[tuple[BrokerId, TopicPartition], ReplicaDir]:
        """Where replicas are; those that their broker does not name are left out.

        Raises:
            DriverError: a broker does not answer.
        """
        by_broker: dict[BrokerId, dict[str, list[int]]] = {}
        for broker, tp in wanted:
            by_broker.setdefault(broker, {}).setdefault(tp.topic, []).append(tp.partition)
        found: dict[tuple[BrokerId, TopicPartition], ReplicaDir] = {}
        for broker in sorted(by_broker):
            answered = _asked(
                "DescribeLogDirs",
                lambda broker=broker: self.client.describe_log_dirs(by_broker[broker], brokers=[broker]),  # type: ignore[misc]
            )
            for log_dir in answered[0]["log_dirs"]:
                if log_dir["error_code"] == 0:
                    _take_log_dir(found, broker, log_dir)
        return found

    def alter_log_dirs(
        self, moves: Mapping[tuple[BrokerId, TopicPartition], str]
    ) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        """Ask brokers to move replicas between their log dirs."""
        asked = {(tp.topic, tp.partition, broker): path for (broker, tp), path in moves.items()}
        answered = _asked("AlterReplicaLogDirs", lambda: self.client.alter_replica_log_dirs(asked))
        codes = {code.value: code for code in ErrorCode}
        return {
            (replica.broker_id, TopicPartition(replica.topic, replica.partition)): codes.get(
                int(error.errno), ErrorCode.UNKNOWN_SERVER_ERROR
            )
            for replica, error in answered.items()
        }


def _groups(kind: str, names: Iterable[str]) -> list[list[str]]:
    """Who is asked together: all topics, and each broker by itself."""
    return [[name] for name in names] if kind == "broker" else [list(names)]


def _holds(found: Mapping[str, str], wanted: Mapping[str, str | None]) -> bool:
    return all(found.get(setting) == value for setting, value in wanted.items())


def _take_log_dir(
    found: dict[tuple[BrokerId, TopicPartition], ReplicaDir], broker: BrokerId, log_dir: Mapping[str, Any]
) -> None:
    for topic in log_dir["topics"]:
        for one in topic["partitions"]:
            key = (broker, TopicPartition(str(topic["name"]), int(one["partition_index"])))
            known = found.get(key, ReplicaDir(None, None, 0))
            path = str(log_dir["log_dir"])
            if one["is_future_key"]:
                found[key] = known._replace(future=path)
            else:
                found[key] = known._replace(current=path, size=int(one["partition_size"]))


def _asked(what: str, work: Callable[[], _Answer]) -> _Answer:
    try:
        return work()
    except (DriverError, RequestRejected):
        raise
    except (RuntimeError, OSError, kafka_errors.KafkaError) as error:
        raise DriverError(f"{what} failed: {type(error).__name__}: {error}", retriable=True) from error
