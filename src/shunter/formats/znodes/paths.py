"""Paths of the znodes of Kafka in ZooKeeper mode, and of Shunter's own, relative to the chroot.

Source: Apache Kafka 3.9, `kafka.zk.ZkData`; KIP-236 for `/admin/reassignments`.
"""

from __future__ import annotations

from collections.abc import Iterable

from shunter.model.partition import BrokerId, TopicPartition

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
MIGRATION = "/migration"
FEATURE = "/feature"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONFIGS = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "config_change_"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
LEGACY_REASSIGNMENTS = "/admin/reassign_partitions"
CANCEL = "/admin/reassign_cancel"
EXTRA_REASSIGNMENTS = "/admin/reassign_partitions_extra"
REASSIGNMENT_REQUESTS = "/admin/reassignment_requests"
REASSIGNMENT_REQUEST_PREFIX = f"{REASSIGNMENT_REQUESTS}/request_"
REASSIGNMENTS = "/admin/reassignments"
OWED_DELETIONS = "/admin/shunter/owed_deletions"
OWED_REPLICAS = "/admin/shunter/owed_replicas"
CONTROLLERS = "/admin/shunter/controllers"
CRASHES = "/admin/shunter/crashes"

CONFIG_TYPES = ("topics", "clients", "users", "brokers", "ips")
"""Entity types that have a folder under `/config`."""

CONSUMERS = "/consumers"
SENSITIVE = (f"{CONFIGS}/users", f"{CONFIGS}/brokers", "/delegation_token/tokens")
"""Beginnings of the paths that only their creator may read. Source: Apache 3.9, `ZkData.SensitiveRootPaths`."""

PERSISTENT = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"{CONFIGS}/{kind}" for kind in CONFIG_TYPES),
    REASSIGNMENTS,
    REASSIGNMENT_REQUESTS,
    OWED_DELETIONS,
    OWED_REPLICAS,
    CONTROLLERS,
)
"""Paths that must exist before a controller works: Apache's persistent paths, then Shunter's own."""


def with_parents(paths: Iterable[str]) -> tuple[str, ...]:
    """Return paths and all their parents, without doubles; each parent before its children."""
    wanted: dict[str, None] = {}
    for path in paths:
        names = path.strip("/").split("/")
        wanted.update(dict.fromkeys("/" + "/".join(names[:depth]) for depth in range(1, len(names) + 1)))
    return tuple(wanted)


def broker(broker_id: BrokerId) -> str:
    """Path of a broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """Path of a topic's assignment."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """Path of the folder of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(tp: TopicPartition) -> str:
    """Path of one partition's folder."""
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}"


def state(name: str, number: int) -> str:
    """Path of one partition's leader and ISR."""
    return f"{TOPICS}/{name}/partitions/{number}/state"


def config(entity_type: str, name: str) -> str:
    """Path of one entity's dynamic configuration."""
    return f"{CONFIGS}/{entity_type}/{name}"


def deletion(name: str) -> str:
    """Path of a topic's entry in the deletion queue."""
    return f"{DELETE_TOPICS}/{name}"


def topic_reassignments(name: str) -> str:
    """Path of the folder of a topic's durable moves."""
    return f"{REASSIGNMENTS}/{name}"


def reassignment(tp: TopicPartition) -> str:
    """Path of one partition's durable move (KIP-236)."""
    return f"{REASSIGNMENTS}/{tp.topic}/{tp.partition}"


def reassignment_request(name: str) -> str:
    """Path of one request to reassign partitions (KIP-236)."""
    return f"{REASSIGNMENT_REQUESTS}/{name}"


def owed_deletions(broker_id: BrokerId) -> str:
    """Path of the list of replicas that a broker still has to delete, because it was dead when they were dropped."""
    return f"{OWED_DELETIONS}/{broker_id}"


def owed_replicas(name: str) -> str:
    """Path of the list of replicas that a topic's partitions lack because a controller's id was chosen for them."""
    return f"{OWED_REPLICAS}/{name}"


def controller_id(broker_id: BrokerId) -> str:
    """Path of the znode which records that a Shunter with this id has been the controller."""
    return f"{CONTROLLERS}/{broker_id}"
