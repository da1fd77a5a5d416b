"""The log dirs of replicas, copies from one log dir to another, and log dirs that fail.

Source: Apache 3.9, `ReplicaManager.alterReplicaLogDirs` and `LogManager.maybeUpdatePreferredLogDir`: a request for a
replica that the broker does not have is refused, and the log dir remembered until the broker ends. A replica that it
has is copied, and the copy replaces it once it is complete.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from lab.simulation.executor.partition import FOREIGN, SimulatedPartition
from lab.simulation.scheduler import SECOND
from shunter.core.throttles import LOG_DIR_RATE
from shunter.errors import ErrorCode
from shunter.model.execution import LogDirSpace, ReplicaSize, ThrottleKey
from shunter.model.partition import BrokerId, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.executor.cluster import SimulatedCluster


ROOM = 3.0
"""A log dir's size, as a multiple of the bytes of all partitions together: everything fits."""
PLENTY_BYTES = 10**12
ROOMS = (*(ROOM,) * 8, 0.4, 0.2)
"""The sizes that are drawn."""

Replica = tuple[BrokerId, TopicPartition]


@dataclass(slots=True)
class FutureLog:
    """A replica that is being copied to another log dir of its broker."""

    path: str
    by: str
    """The party that asked for it: `OURS` or `FOREIGN`."""
    began_us: int
    bytes: int = 0


class LogDirs:
    """All brokers' log dirs."""

    def __init__(self, cluster: SimulatedCluster, paths: tuple[str, ...], seed: int) -> None:
        """Begin with nothing in them; every broker has the same `paths`."""
        self._cluster = cluster
        self.paths = paths
        random = Random(f"rooms {seed}")
        self._rooms = {(broker, path): random.choice(ROOMS) for broker in cluster.shape.brokers for path in paths}
        self.totals: dict[tuple[BrokerId, str], int] = {}
        """The size of each log dir in bytes."""
        self.failed: set[tuple[BrokerId, str]] = set()
        self.failed_us: dict[tuple[BrokerId, str], int] = {}
        """When a log dir failed or was mended last."""
        self.places: dict[Replica, str] = {}
        self.futures: dict[Replica, FutureLog] = {}
        self.made_us: dict[Replica, int] = {}
        """When a replica was created."""
        self.foreign_us: dict[Replica, int] = {}
        """When another tool moved a replica last."""
        self.cancelled_us: dict[Replica, int] = {}
        """When another tool cancelled a copy of the executor's last."""
        self.arrived_us: dict[Replica, int] = {}
        """When a copy took the place of its replica last."""
        self._preferred: dict[Replica, str] = {}

    def online(self, broker: BrokerId) -> list[str]:
        """Log dirs of a broker that work."""
        return [path for path in self.paths if (broker, path) not in self.failed]

    def offline(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether a replica is in a failed log dir."""
        return (broker, self.places.get((broker, tp), "")) in self.failed

    def place(self, found: SimulatedPartition) -> None:
        """Give new replicas a log dir, and forget those that are gone."""
        for broker in found.have:
            key = (broker, found.tp)
            if key in self.places:
                continue
            able = self.online(broker)
            wanted = self._preferred.pop(key, "")
            self.places[key] = wanted if wanted in able else self._cluster.scheduler.random.choice(able)
            self.made_us[key] = self._cluster.scheduler.now_us
        for key in [key for key in self.places if key[1] == found.tp and key[0] not in found.have]:
            self._forget(key)

    def delete_topic(self, name: str) -> None:
        """Remove a topic's replicas."""
        for key in [key for key in self.places if key[1].topic == name]:
            self._forget(key)

    def _forget(self, key: Replica) -> None:
        del self.places[key]
        self.futures.pop(key, None)

    def broker_ended(self, broker: BrokerId) -> None:
        """Forget the log dirs that a broker's process only remembered."""
        self._preferred = {key: path for key, path in self._preferred.items() if key[0] != broker}

    # ---- requests

    def alter(self, broker: BrokerId, tp: TopicPartition, path: str, by: str) -> ErrorCode:
        """AlterReplicaLogDirs for one replica."""
        key = (broker, tp)
        if path not in self.paths:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if (broker, path) in self.failed or self.offline(broker, tp):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if by == FOREIGN:
            self.foreign_us[key] = self._cluster.scheduler.now_us
        future = self.futures.get(key)
        if future is not None and future.path != path:
            del self.futures[key]
            if by == FOREIGN and future.by != FOREIGN:
                self.cancelled_us[key] = self._cluster.scheduler.now_us
        self._preferred[key] = path
        if key not in self.places:
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if self.places[key] != path and key not in self.futures:
            self.futures[key] = FutureLog(path, by, self._cluster.scheduler.now_us)
        return ErrorCode.NONE

    def sizes(self, broker: BrokerId, tp: TopicPartition) -> tuple[ReplicaSize | None, ReplicaSize | None]:
        """A replica as DescribeLogDirs shows it, and its copy in another log dir."""
        found, path, future = self._cluster.partitions.get(tp), self.places.get((broker, tp)), None
        if found is None or path is None or (broker, path) in self.failed:
            return None, None
        copy = self.futures.get((broker, tp))
        if copy is not None:
            future = ReplicaSize(copy.bytes, copy.path, True)
        return ReplicaSize(found.have.get(broker, 0), path), future

    def measure(self) -> None:
        """Give each log dir its size, by the partitions that there are now."""
        whole = sum(found.size for found in self._cluster.partitions.values())
        self.totals = {key: int(whole * factor) + 1 for key, factor in self._rooms.items()}

    def make_room(self) -> None:
        """Every log dir gets room for everything, many times over."""
        self.totals = dict.fromkeys(self._rooms, PLENTY_BYTES)

    def used(self, broker: BrokerId) -> Counter[str]:
        """Bytes in each log dir of a broker."""
        used: Counter[str] = Counter()
        for (owner, tp), path in self.places.items():
            if owner == broker:
                used[path] += self._cluster.partitions[tp].have.get(broker, 0)
        for (owner, _tp), copy in self.futures.items():
            if owner == broker:
                used[copy.path] += copy.bytes
        return used

    def spaces(self, broker: BrokerId) -> dict[tuple[BrokerId, str], LogDirSpace]:
        """Room in a broker's log dirs."""
        used = self.used(broker)
        totals = {path: self.totals[broker, path] for path in self.online(broker)}
        cordoned = broker in self._cluster.cordoned
        return {(broker, path): LogDirSpace(size, max(0, size - used[path]), cordoned) for path, size in totals.items()}

    # ---- faults, and time that passes

    def fail(self, broker: BrokerId, path: str) -> None:
        """A disk fails: its replicas are offline, and copies into it and out of it are lost."""
        self.failed.add((broker, path))
        self.failed_us[broker, path] = self._cluster.scheduler.now_us
        for key in [key for key, copy in self.futures.items() if key[0] == broker and copy.path == path]:
            del self.futures[key]
        for key in [key for key in self.futures if key[0] == broker and self.places[key] == path]:
            del self.futures[key]

    def mend(self, broker: BrokerId, path: str) -> None:
        """The disk works again, with all that it had."""
        self.failed.discard((broker, path))
        self.failed_us[broker, path] = self._cluster.scheduler.now_us

    def copy(self, tick_us: int) -> None:
        """Let copies go on for `tick_us`, within the broker's throttle."""
        shares = Counter(broker for broker, _tp in self.futures if self._cluster.brokers[broker].serving)
        for key in [key for key in self.futures if key[0] in shares]:
            broker, tp = key
            known = self._cluster.brokers[broker].settings.get(ThrottleKey("broker", str(broker), LOG_DIR_RATE))
            limit = self._cluster.defaults.get(LOG_DIR_RATE) if known is None else known
            rate = self._cluster.shape.bandwidth if limit is None else min(int(limit), self._cluster.shape.bandwidth)
            future = self.futures[key]
            future.bytes += int(rate / shares[broker] * tick_us / SECOND) + 1
            if future.bytes >= self._cluster.partitions[tp].have.get(broker, 0):
                self.places[key] = future.path
                self.arrived_us[key] = self._cluster.scheduler.now_us
                del self.futures[key]
