"""A cluster as its Admin API shows it at one moment: the snapshot that `shunter pipeline collect` writes down."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from shunter.model.partition import BrokerId, Replicas


class Disk(NamedTuple):
    """A log dir. Room is None if the broker does not say (before Kafka 3.3, or of a log dir that failed)."""

    path: str
    total_bytes: float | None
    usable_bytes: float | None
    failed: bool = False
    cordoned: bool | None = None
    """Whether it gets no new replicas (KIP-1066); None: unknown, as before Kafka 4.3."""
    replicas: int | None = None
    """How many replicas are in it; None: unknown."""

    def in_units(self, unit: int) -> Disk:
        """The same with sizes in units of so many bytes."""
        total, usable = (None if size is None else size / unit for size in (self.total_bytes, self.usable_bytes))
        return self._replace(total_bytes=total, usable_bytes=usable)


OF_USE_BYTES_PER_S = 1_000_000
"""A throttle below it makes a broker slow: 10 GB would take more than two and a half hours."""


class BrokerFacts(NamedTuple):
    """What is known of a broker, apart from its replicas. None is unknown: neither healthy nor ill."""

    live: bool | None = None
    """False: it holds replicas and is not among the live brokers."""
    fenced: bool | None = None
    """Whether the controller has fenced it (KIP-1073): it can't lead, and its replicas are not in sync."""
    cordoned: bool | None = None
    """Whether it gets no new replicas, though no single log dir says so."""
    log_dirs: tuple[Disk, ...] | None = None
    silent: bool | None = None
    """Whether it is listed as live and answers nothing. Its replicas count as they are told until it is fenced."""
    needs_all: bool | None = None
    """Whether the controller of its cluster ends a step only when the whole target is in sync, as before Kafka 4.3."""
    throttle: float | None = None
    """Bytes per second to which somebody's throttle holds its replication: the lower of both sides. None: no throttle is known."""
    held_followers: tuple[str, ...] | None = None
    """The partitions that it holds as a follower, `topic-0`, or `topic-*` for all. None: any that the broker follows may be."""

    def holds(self, topic: str, partition: int) -> bool:
        """Whether the throttle may hold it as a follower of a partition."""
        held = self.held_followers
        return held is None or not {f"{topic}-{partition}", f"{topic}-*"}.isdisjoint(held)

    @property
    def slow(self) -> bool:
        """Whether a throttle holds it to less than is of use: it receives only what no other broker can take."""
        return self.throttle is not None and self.throttle < OF_USE_BYTES_PER_S

    @property
    def down(self) -> str:
        """Why it can lead nothing now; "": nothing is known against it."""
        return "is fenced" if self.fenced else "is dead" if self.live is False else ""

    @property
    def barred(self) -> str:
        """Why it may receive no replica; "": nothing is known against it.

        A broker with a failed log dir gets none: a replica that came to it might meet the next failure of its disks.
        """
        failed = [each.path for each in self.log_dirs or () if each.failed]
        if self.down or self.silent:
            return self.down or "is listed as live and does not answer"
        if failed:
            return f"has a failed log dir ({', '.join(failed)})"
        return "is cordoned" if self.closed else ""

    @property
    def closed(self) -> bool:
        """Whether all of its log dirs that work are known to be cordoned: Kafka takes no assignment that names it."""
        working = [each for each in self.log_dirs or () if not each.failed]
        return bool(self.cordoned) or (bool(working) and all(each.cordoned for each in working))

    def in_units(self, unit: int) -> BrokerFacts:
        """The same with sizes in units of so many bytes."""
        if self.log_dirs is None:
            return self
        return self._replace(log_dirs=tuple(each.in_units(unit) for each in self.log_dirs))

    def without_room(self) -> BrokerFacts:
        """The same for a time when the room on its disks is another one."""
        if self.log_dirs is None:
            return self
        bare = tuple(each._replace(total_bytes=None, usable_bytes=None) for each in self.log_dirs)
        return self._replace(log_dirs=bare)


NOTHING_KNOWN = BrokerFacts()


def unknown_rack(broker: BrokerId) -> str:
    """The rack of a broker that can't tell its own, as it is dead: one of its own, where nothing is placed."""
    return f"(unknown: broker {broker})"


class InventoryBroker(NamedTuple):
    """A broker that is registered. Room on its log dirs is None before Kafka 3.3 (KIP-827) and if a log dir failed."""

    id: BrokerId
    host: str
    rack: str | None
    disk_total_bytes: int | None
    disk_usable_bytes: int | None
    fenced: bool | None = None
    cordoned: bool | None = None
    log_dirs: tuple[Disk, ...] | None = None
    """Each of its log dirs; None: unknown."""
    silent: bool | None = None
    needs_all: bool | None = None
    throttle: float | None = None
    """Bytes per second, as in `BrokerFacts`, whoever set it."""
    held_followers: tuple[str, ...] | None = None

    @property
    def facts(self) -> BrokerFacts:
        """What is known of it. If its log dirs are not known one by one, their sum stands for one of them."""
        log_dirs = self.log_dirs
        if log_dirs is None and self.disk_total_bytes is not None:
            log_dirs = (Disk("", self.disk_total_bytes, self.disk_usable_bytes),)
        rest = self.silent, self.needs_all, self.throttle, self.held_followers
        return BrokerFacts(not self.fenced, self.fenced, self.cordoned, log_dirs, *rest)


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
    cleanup_policy: str | None = None
    """`cleanup.policy` of the topic, such as `compact,delete`; None: not known."""
    adding: Replicas = ()
    """Replicas that a reassignment was adding when the partition was read, before or after; they are not yet due.

    Snapshot files do not have them.
    """
    removing: Replicas = ()
    """Replicas that a reassignment was removing when the partition was read, before or after. Files do not have them."""

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
    """Wishes for one topic. 0 and () leave it as it is; its replicas may be on these racks and brokers.

    `partitions`: the wish is for these alone; (): for all.
    """

    topic: str
    replication: int = 0
    racks: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    partitions: tuple[int, ...] = ()


class OfflineReplica(NamedTuple):
    """A replica that can't be read: its broker is dead, or its log dir failed."""

    topic: str
    partition: int
    broker: int


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

    `brokers` are live. `unanswered` are brokers whose log dirs could not be read: (id, why). `disks` has the brokers with several log dirs,
    with the replicas there that are assigned to the broker; snapshot files do not have `disks`.
    """

    cluster_id: str
    taken_at_ms: int
    brokers: tuple[InventoryBroker, ...]
    partitions: tuple[InventoryPartition, ...]
    unanswered: tuple[tuple[BrokerId, str], ...] = ()
    disks: tuple[BrokerDisks, ...] = ()
    fenced: tuple[InventoryBroker, ...] = ()
    """Brokers that are registered and fenced, if the cluster tells that."""
    untold_throttles: tuple[tuple[BrokerId, str], ...] = ()
    """Live brokers of which it is not known whether a throttle holds them, and why. A plan's input does not have them."""

    @property
    def unsized(self) -> dict[BrokerId, str]:
        """Brokers that did not tell their log dirs, and why: sizes are unknown.

        A failed log dir is a fact of its broker: the leaders' sizes are known.
        """
        told = {broker.id for broker in self.brokers if broker.log_dirs}
        return {broker: why for broker, why in self.unanswered if broker not in told}

    def without_throttles(self, own: Collection[tuple[BrokerId, float]]) -> Inventory:
        """The same without rates at brokers that are Shunter's own: they end with the execution that needs them."""
        brokers = (
            each._replace(throttle=None, held_followers=None) if (each.id, each.throttle) in own else each
            for each in self.brokers
        )
        return self._replace(brokers=tuple(brokers))
