"""Looks a live cluster over for a check-up: each part by itself, for what can't be read must not hide the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.metadata import MetadataRequest

from shunter.drivers.admin.answers import FEATURE, translated
from shunter.drivers.admin.bootstrap_probe import look, probe
from shunter.drivers.admin.client import connected
from shunter.model.check_up import CheckedBroker, CheckedListener, CheckedLogDir, CheckedTopic, CheckUp
from shunter.model.execution import ObservedPartition, OngoingReassignment
from shunter.model.partition import BrokerId, TopicPartition

Answer = TypeVar("Answer")

_LISTENERS = (
    "advertised.listeners",
    "listeners",
    "listener.security.protocol.map",
    "controller.listener.names",
)
_AT_ONCE = 500
_NO_TOPICS: tuple[CheckedTopic, ...] = ()
_NO_LOG_DIRS: tuple[CheckedLogDir, ...] = ()
_NO_MOVES: dict[TopicPartition, OngoingReassignment] = {}
_OPERATIONS = {3: "READ", 7: "ALTER", 8: "DESCRIBE", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS"}
"""Those of Kafka's operations that commands need, by their codes."""
_ABSENT = (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError)


@dataclass(slots=True)
class _Visit:
    """One visit to a cluster, and what could not be read in it."""

    client: Any
    unread: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def part(self, what: str, permission: str, work: Callable[[], Answer], otherwise: Answer) -> Answer:
        """One part; where it can't be read, why, and something in its place."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001  whatever it is, the other parts are worth telling
            self.unread.append((what, str(translated(what, permission, error))))
            return otherwise


def take_check_up(configuration: Mapping[str, Any]) -> CheckUp:
    """Look a cluster over once. Blocks; asks each broker, and knocks at each listener.

    Raises:
        DriverError: nobody answers, or who answers does not let us in.
    """
    servers = configuration["bootstrap_servers"]
    named = [servers] if isinstance(servers, str) else list(servers)
    probe(named, str(configuration.get("security_protocol", "PLAINTEXT")))
    client = connected(configuration)
    try:
        described = client.describe_cluster()
        return _visit(_Visit(client), described)
    except kafka_errors.KafkaError as error:
        raise translated("DescribeCluster", "Describe on Cluster", error) from error
    finally:
        client.close()


def _visit(visit: _Visit, described: Mapping[str, Any]) -> CheckUp:
    client = visit.client
    up = [broker for broker in described["brokers"] if not broker.get("is_fenced", False)]
    ids = sorted(int(broker["broker_id"]) for broker in up)
    addresses = {int(broker["broker_id"]): f"{broker['host']}:{broker['port']}" for broker in up}
    listeners = _listeners(visit, addresses)
    racks = {int(broker["broker_id"]): broker.get("rack") or None for broker in up}
    brokers = tuple(_broker(visit, broker, racks[broker], listeners.get(broker, ())) for broker in ids)
    topics = visit.part("topics", "Describe on Topic", partial(_topics, visit), _NO_TOPICS)
    ongoing = visit.part("moves", "Describe on Cluster", partial(_ongoing, client), _NO_MOVES)
    quorum = visit.part("the quorum", "Describe on Cluster", partial(_quorum, client), None)
    shunter = visit.part("features", "", partial(_is_shunter, client), False)
    own = described.get("authorized_operations")
    return CheckUp(
        cluster_id=str(described["cluster_id"]),
        controller=int(described["controller_id"]) if quorum is None else quorum[0],
        controlled_by="Shunter" if shunter else "Apache (ZooKeeper)" if quorum is None else "Apache (KRaft)",
        brokers=brokers,
        topics=topics,
        ongoing=ongoing,
        operations=None if own is None else frozenset(str(name) for name in own),
        clock_ahead_ms=None if quorum is None else quorum[1],
        unread=tuple(visit.unread),
    )


def _broker(visit: _Visit, broker: BrokerId, rack: str | None, listeners: tuple[CheckedListener, ...]) -> CheckedBroker:
    release = visit.part(f"the version of broker {broker}", "", partial(_release, visit.client, broker), "")
    what = f"log dirs of broker {broker}"
    log_dirs = visit.part(what, "Describe on Cluster", partial(_log_dirs, visit.client, broker), _NO_LOG_DIRS)
    return CheckedBroker(broker, rack, release, listeners, log_dirs)


def _release(client: Any, broker: BrokerId) -> str:
    """The release of Kafka whose APIs a broker has: the greatest that the library knows and that it suits."""
    return ".".join(str(number) for number in client.get_broker_version_data(broker).broker_version)


def _listeners(visit: _Visit, addresses: Mapping[BrokerId, str]) -> dict[BrokerId, tuple[CheckedListener, ...]]:
    """What each broker advertises, knocked at from here all at the same time."""
    asked: list[tuple[BrokerId, str, str, bool]] = []
    for broker, address in sorted(addresses.items()):
        told = visit.part(
            f"listeners of broker {broker}",
            "DescribeConfigs on Cluster",
            partial(_advertised, visit.client, broker),
            [("the one that clients are sent to", address, False)],
        )
        asked += [(broker, name, where, secured) for name, where, secured in told]
    with ThreadPoolExecutor(max(1, min(32, len(asked)))) as pool:
        found = list(pool.map(lambda row: look(row[2], knock=row[3]), asked))
    listeners: dict[BrokerId, tuple[CheckedListener, ...]] = {}
    for (broker, name, where, _secured), problem in zip(asked, found, strict=True):
        seen = CheckedListener(name, where, problem or "", where == addresses[broker])
        listeners[broker] = (*listeners.get(broker, ()), seen)
    return listeners


def _advertised(client: Any, broker: BrokerId) -> list[tuple[str, str, bool]]:
    """Name, address, and whether it speaks TLS, of each listener that a broker advertises."""
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker), list(_LISTENERS))
    found = client.describe_configs([resource], config_filter="all")["broker"][str(broker)]
    values = {name: str(setting["value"] or "") for name, setting in found.items()}
    secured = dict(pair.split(":", 1) for pair in values.get("listener.security.protocol.map", "").split(",") if pair)
    control = {name.strip() for name in values.get("controller.listener.names", "").split(",")}
    told: list[tuple[str, str, bool]] = []
    for listener in (values.get("advertised.listeners") or values.get("listeners", "")).split(","):
        name, _mark, where = listener.strip().partition("://")
        if where and name not in control:
            told.append((name, where, "SSL" in secured.get(name, name)))
    return told


def _log_dirs(client: Any, broker: BrokerId) -> tuple[CheckedLogDir, ...]:
    found = client.describe_log_dirs(brokers=[broker], topic_partitions={})[0]["log_dirs"]
    return tuple(
        CheckedLogDir(
            str(log_dir["log_dir"]),
            int(log_dir.get("total_bytes", -1)),
            int(log_dir.get("usable_bytes", -1)),
            "" if log_dir["error_code"] == 0 else kafka_errors.for_code(log_dir["error_code"]).__name__,
        )
        for log_dir in found
    )


def _topics(visit: _Visit) -> tuple[CheckedTopic, ...]:
    client = visit.client
    request = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
    found = [topic for topic in client._manager.run(client._manager.send, request).topics if topic.error_code == 0]  # noqa: SLF001
    names = [str(topic.name) for topic in found]
    min_isr = visit.part(
        "min.insync.replicas", "DescribeConfigs on Topic", partial(_min_isr, client, names), dict[str, int]()
    )
    return tuple(
        CheckedTopic(
            str(topic.name),
            min_isr.get(str(topic.name), 1),
            _partitions(topic),
            named_operations(topic.authorized_operations),
        )
        for topic in sorted(found, key=lambda topic: str(topic.name))
    )


def _partitions(topic: Any) -> dict[int, ObservedPartition]:
    return {
        int(part.partition_index): ObservedPartition(
            tuple(part.replica_nodes), tuple(part.isr_nodes), int(part.leader_id), tuple(part.offline_replicas or ())
        )
        for part in topic.partitions
    }


def named_operations(codes: Iterable[int] | None) -> frozenset[str] | None:
    """The names of those of Kafka's operations that commands need; None: it is not told what we may do."""
    return None if codes is None else frozenset(_OPERATIONS[code] for code in codes if code in _OPERATIONS)


def _min_isr(client: Any, names: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        resources = [ConfigResource(ConfigResourceType.TOPIC, name, ["min.insync.replicas"]) for name in some]
        for name, settings in client.describe_configs(resources, config_filter="all").get("topic", {}).items():
            found[str(name)] = int(settings["min.insync.replicas"]["value"])
    return found


def _ongoing(client: Any) -> dict[TopicPartition, OngoingReassignment]:
    return {
        TopicPartition(tp.topic, tp.partition): OngoingReassignment(
            tuple(found["replicas"]), tuple(found["adding_replicas"]), tuple(found["removing_replicas"])
        )
        for tp, found in client.list_partition_reassignments().items()
    }


def _quorum(client: Any) -> tuple[BrokerId, int | None] | None:
    """The leader of the metadata quorum, and how far its clock is ahead of ours; None: there is no quorum.

    The leader tells by its own clock when each voter fetched last, which each of them does every half second or so.
    """
    try:
        before = time.time()
        partition = client.describe_metadata_quorum()["topics"][0]["partitions"][0]
        now_ms = int((before + time.time()) / 2 * 1000)
    except _ABSENT:
        return None
    fetched = [int(voter.get("last_fetch_timestamp", -1)) for voter in partition["current_voters"]]
    latest = max(fetched, default=-1)
    return int(partition["leader_id"]), latest - now_ms if latest > 0 else None


def _is_shunter(client: Any) -> bool:
    try:
        return FEATURE in client.describe_features(send_request_to_controller=True)
    except _ABSENT:
        return False
