"""A cluster as its Admin API shows it at one moment: what `shunter pipeline collect` writes down."""

from __future__ import annotations

from typing import NamedTuple

from shunter.model.partition import BrokerId, Replicas


class InventoryBroker(NamedTuple):
    """A live broker. Room on its log dirs is None below Kafka 3.3 (KIP-827) and where a log dir failed."""

    id: BrokerId
    host: str
    rack: str | None
    disk_total_bytes: int | None
    disk_usable_bytes: int | None


class InventoryPartition(NamedTuple):
    """A partition. Offsets are of the leader's log, None: it has no leader; sizes are (broker, bytes) of brokers that answered."""

    topic: str
    topic_id: str | None
    partition: int
    replicas: Replicas
    isr: Replicas
    leader: BrokerId
    start_offset: int | None
    end_offset: int | None
    min_insync: int
    sizes: tuple[tuple[BrokerId, int], ...]
    offline: Replicas = ()
    """Its replicas that are offline: their broker is dead, or their log dir failed."""


class TopicWish(NamedTuple):
    """What is wanted of one topic. 0 and () leave it as it is; racks and brokers are where its replicas may be."""

    topic: str
    replication: int = 0
    racks: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()


class OfflineReplica(NamedTuple):
    """A replica that nobody can read: its broker is dead, or its log dir failed."""

    topic: str
    partition: int
    broker: int


class Disk(NamedTuple):
    """A log dir of a broker that works. Room is None where the broker does not tell (below Kafka 3.3)."""

    path: str
    total_bytes: int | None
    usable_bytes: int | None


class DiskReplica(NamedTuple):
    """A replica, and in which log dir it is."""

    topic: str
    partition: int
    log_dir: str
    size_bytes: int


class BrokerDisks(NamedTuple):
    """What a broker tells of its log dirs. A replica on its way to another log dir is where it goes."""

    broker: BrokerId
    disks: tuple[Disk, ...]
    replicas: tuple[DiskReplica, ...]
    coming: int = 0
    """How many replicas are on their way to another log dir."""


class Inventory(NamedTuple):
    """One snapshot. `taken_at_ms` is the middle of the time that reading took, milliseconds since 1970 UTC.

    `unanswered` are brokers whose log dirs could not be read: (id, why). `disks` are those of brokers with several log dirs,
    of which none failed, and the replicas there that are assigned to their broker; snapshot files do not have them.
    """

    cluster_id: str
    taken_at_ms: int
    brokers: tuple[InventoryBroker, ...]
    partitions: tuple[InventoryPartition, ...]
    unanswered: tuple[tuple[BrokerId, str], ...] = ()
    disks: tuple[BrokerDisks, ...] = ()
