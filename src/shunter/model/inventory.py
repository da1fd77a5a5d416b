"""A cluster as its Admin API shows it at one moment: the snapshot that `shunter pipeline collect` writes down."""

from __future__ import annotations

from typing import NamedTuple

from shunter.model.partition import BrokerId, Replicas


class InventoryBroker(NamedTuple):
    """A live broker. Room on its log dirs is None before Kafka 3.3 (KIP-827) and if a log dir failed."""

    id: BrokerId
    host: str
    rack: str | None
    disk_total_bytes: int | None
    disk_usable_bytes: int | None


class InventoryPartition(NamedTuple):
    """A partition. Offsets are of the leader's log; None: no leader. `sizes`: (broker, bytes), if a broker answered."""

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
    """Replicas of the partition that are offline: their broker is dead, or their log dir failed."""
    adding: Replicas = ()
    """Replicas that a reassignment was adding when the partition was read, before or after; they are not yet due.

    Snapshot files do not have them.
    """

    @property
    def due(self) -> Replicas:
        """The replicas that have to be in sync."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def under_replicated(self) -> bool:
        """Whether a replica is out of sync that has to be in sync. A healthy move is none of it."""
        return any(broker not in self.isr for broker in self.due)

    @property
    def under_min_isr(self) -> bool:
        """Whether acks=all is refused because replicas are out of sync.

        A partition with fewer replicas than min.insync.replicas, all of them in sync, is not one of them.
        """
        return len(self.isr) < min(self.min_insync, len(self.replicas)) and self.under_replicated


class TopicWish(NamedTuple):
    """Wishes for one topic. 0 and () leave it as it is; its replicas may be on these racks and brokers."""

    topic: str
    replication: int = 0
    racks: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()


class OfflineReplica(NamedTuple):
    """A replica that can't be read: its broker is dead, or its log dir failed."""

    topic: str
    partition: int
    broker: int


class Disk(NamedTuple):
    """A log dir that works. Room is None if the broker does not say (before Kafka 3.3)."""

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
    """A broker's log dirs, as it describes them. A replica on its way to another log dir counts there already."""

    broker: BrokerId
    disks: tuple[Disk, ...]
    replicas: tuple[DiskReplica, ...]
    coming: int = 0
    """How many replicas are on their way to another log dir."""


class Inventory(NamedTuple):
    """One snapshot. `taken_at_ms` is the middle of the time that reading took, milliseconds since 1970 UTC.

    `unanswered` are brokers whose log dirs could not be read: (id, why). `disks` has the brokers with several log dirs,
    of which none failed, with the replicas there that are assigned to the broker; snapshot files do not have `disks`.
    """

    cluster_id: str
    taken_at_ms: int
    brokers: tuple[InventoryBroker, ...]
    partitions: tuple[InventoryPartition, ...]
    unanswered: tuple[tuple[BrokerId, str], ...] = ()
    disks: tuple[BrokerDisks, ...] = ()
