"""A blocking Admin API for tools: `KafkaPythonAdmin`, run on its own event loop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from shunter.drivers.admin.cluster import KafkaPythonAdmin
from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import ReplicaSize, ThrottleKey
from shunter.model.log_dirs import ReplicaDir, ReplicaDirs
from shunter.model.partition import BrokerId, EligibleLeaders, Replicas, TopicPartition

if TYPE_CHECKING:
    from shunter.drivers.admin.reassignments import AlterOptions, PartitionReassignment

_Answer = TypeVar("_Answer")


class LiveNode(NamedTuple):
    """A live node of the cluster; Shunter's controller is one."""

    id: BrokerId
    rack: str | None


class PartitionInfo(NamedTuple):
    """A partition as clients see it."""

    replicas: Replicas
    isr: Replicas
    leader: BrokerId


class Connected(ABC):
    """A context manager that ends its connections when it is left."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End all connections. It may be called more than once."""


class BlockingAdmin(Connected):
    """A tool's connection to a cluster; a context manager. Calls raise `DriverError` if the cluster does not answer."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        """Connect.

        Raises:
            DriverError: no broker answers, or the login is refused.
        """
        self._runner = asyncio.Runner()
        self._open = True
        try:
            self._admin = self._runner.run(KafkaPythonAdmin.connect(configuration, patient=True))
        except BaseException:
            self._runner.close()
            raise

    def close(self) -> None:
        """Close all connections. It may be called again."""
        if self._open:
            self._open = False
            self._runner.run(self._admin.close())
            self._runner.close()

    def run(self, work: Callable[[KafkaPythonAdmin], Coroutine[Any, Any, _Answer]]) -> _Answer:
        """Run a coroutine that uses the same connections."""
        return self._runner.run(work(self._admin))

    # ---- nodes and topics

    def nodes(self) -> tuple[LiveNode, ...]:
        """Live nodes, by id."""
        return tuple(LiveNode(broker, rack) for broker, rack in self._runner.run(self._admin.brokers()).items())

    def is_shunter(self) -> bool:
        """Whether the controller is Shunter's."""
        return self._runner.run(self._admin.is_shunter())

    def topics(self, names: Collection[str]) -> dict[str, dict[int, PartitionInfo] | None]:
        """Partitions of topics; None for a topic that does not exist."""
        known: dict[str, dict[int, PartitionInfo] | None] = dict.fromkeys(sorted(names))
        for topic in self._runner.run(self._admin.describe_topics(sorted(names))):
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
        return tuple(self._runner.run(self._admin.topic_names()))

    def described(self, names: Collection[str]) -> list[dict[str, Any]]:
        """Metadata of topics as clients get it, by name; topics that do not exist are left out."""
        found = self._runner.run(self._admin.describe_topics(sorted(names)))
        return [topic for topic in found if topic["error_code"] == 0]

    def eligible_leaders(self, names: Collection[str]) -> dict[TopicPartition, EligibleLeaders]:
        """Replicas outside the ISR that may lead; {}: the cluster does not tell them."""
        ask = self._admin.ask
        return self._runner.run(
            ask("DescribeTopicPartitions", "Describe on Topic", lambda client: client.eligible_leaders(sorted(names)))
        )

    # ---- settings

    def topic_settings(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """Topics' effective settings, without those that are Kafka's defaults."""
        return self._runner.run(self._admin.topic_settings(sorted(names)))

    def read_settings(self, keys: Sequence[ThrottleKey]) -> dict[ThrottleKey, str | None]:
        """Settings as they are set at the resources themselves; None: not set there."""
        return self._runner.run(self._admin.read_settings(keys)).own

    def write_settings(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        """Set (None: delete) settings; return the settings that were not set, and why.

        Raises:
            DriverError: a permission is missing.
        """
        missing = self._runner.run(self._admin.write_patiently(settings))
        return {key: why.told for key, why in missing.items()}

    def not_in_force(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        """Wait until brokers report settings that were written; return those that were not reported in time."""
        return self._runner.run(self._admin.not_in_force(settings))

    # ---- reassignments

    def alter_moves(
        self, changes: Mapping[TopicPartition, Replicas | None], options: AlterOptions
    ) -> dict[TopicPartition, Exception | None]:
        """Begin moves, or (None) cancel them; return each partition's refusal. See `KafkaPythonAdmin.alter_moves`."""
        return self._runner.run(self._admin.alter_moves(changes, options))

    def cancel_whole(
        self, topics: Collection[str] | None, options: AlterOptions
    ) -> dict[TopicPartition, Exception | None]:
        """Cancel every reassignment of some topics, or (None) of all; only Shunter's controller can do that."""
        return self._runner.run(self._admin.cancel_whole(topics, options))

    def list_moves(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Reassignments under way; None: all."""
        return self._runner.run(self._admin.list_moves(partitions))

    # ---- log dirs

    def log_dirs(self, wanted: Iterable[tuple[BrokerId, TopicPartition]]) -> ReplicaDirs:
        """Log dirs of replicas; each broker is asked by itself."""
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        for broker, tp in wanted:
            by_broker.setdefault(broker, []).append(tp)
        seen = self._runner.run(self._admin.observe_log_dirs(by_broker))
        absent = ReplicaSize(0, "", future=False)
        return ReplicaDirs(
            {
                key: ReplicaDir(
                    seen.sizes[key].log_dir if key in seen.sizes else None,
                    seen.futures[key].log_dir if key in seen.futures else None,
                    seen.sizes.get(key, absent).bytes,
                    seen.futures.get(key, absent).bytes,
                )
                for key in seen.sizes.keys() | seen.futures.keys()
            },
            dict(seen.failed),
        )

    def alter_log_dirs(
        self, moves: Mapping[tuple[BrokerId, TopicPartition], str]
    ) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        """Ask brokers to move replicas between their log dirs."""
        replicas = [(broker, tp, path) for (broker, tp), path in moves.items()]
        return self._runner.run(self._admin.alter_log_dirs(replicas))
