"""The Admin API as the executor needs it, behind a protocol, and kafka-python's client behind that.

kafka-python blocks; every call runs in a thread. Its private face is touched here and in `client` alone: the
controller that it remembers must be forgotten when that broker dies, which it does not do by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from shunter.drivers.admin.answers import (
    FEATURE,
    LogDirsSeen,
    SettingsSeen,
    TopicsSeen,
    code_of,
    gather_log_dirs,
    setting_seen,
    take_log_dirs,
    topic_seen,
    translated,
)
from shunter.drivers.admin.bootstrap_probe import probe
from shunter.drivers.admin.client import connected
from shunter.drivers.admin.settings_in_force import not_seen_in_force
from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import (
    ObservedTopic,
    OngoingReassignment,
    ThrottleKey,
)
from shunter.model.partition import BrokerId, Replicas, TopicPartition

Answer = TypeVar("Answer")

SETTINGS_FRESH_S = 60.0
"""min.insync.replicas of a topic is read again after this."""
QUORUM_FRESH_S = 5.0
SHUNTER_FRESH_S = 15.0
CONFIGS_PER_REQUEST = 500
ASKED_FOR_AGREEMENT = 3
"""So many other brokers have to tell the same replicas before a plan is taken on."""
THREADS = 16
CLOSE_WITHIN_S = 5.0
READ_WITHIN_S = 12.0
WRITE_WITHIN_S = 25.0
"""The library waits for ever for a broker that refuses connections; whoever does not answer by then is given up."""
BROKER_WITHIN_S = 8.0
"""A broker that does not tell its log dirs by then is passed over until the next time."""

_RESOURCES = {"broker": ConfigResourceType.BROKER, "topic": ConfigResourceType.TOPIC}


StillOurs = Callable[[], Awaitable[None]]
"""Raises if whoever asks may not any more: it may have stood still since its last request."""


async def always() -> None:
    """Nobody takes our place."""


class AdminClient(Protocol):
    """What the executor asks of a cluster. Every call raises `DriverError`, which says whether to try again."""

    async def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    async def is_shunter(self) -> bool:
        """Whether the controller is Shunter's own, which understands its tagged fields."""
        ...

    async def topic_names(self) -> list[str]:
        """Names of all topics, sorted."""
        ...

    async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
        """Everything under way."""
        ...

    async def observe_topics(self, names: Sequence[str], *, sure: bool = False) -> TopicsSeen:
        """Metadata of topics, and who is up; `sure`: refused, to be tried again, while brokers disagree."""
        ...

    async def observe_log_dirs(self, asked: Mapping[BrokerId, Sequence[TopicPartition]]) -> LogDirsSeen:
        """Sizes of replicas and space of log dirs, broker by broker; who does not answer is left out."""
        ...

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        """Settings of brokers and topics."""
        ...

    async def alter_reassignments(
        self, targets: Sequence[tuple[TopicPartition, Replicas | None]]
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """RPC 45."""
        ...

    async def alter_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, str]:
        """IncrementalAlterConfigs; returns what went wrong. `still_ours` is asked before each request of it."""
        ...

    async def alter_log_dirs(
        self, replicas: Sequence[tuple[BrokerId, TopicPartition, str]]
    ) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        """AlterReplicaLogDirs."""
        ...

    async def close(self) -> None:
        """End all connections."""
        ...


@dataclass(slots=True)
class _Remembered:
    """What need not be asked at every turn."""

    min_isr: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    controller: tuple[float, BrokerId] = (-1e9, -1)
    shunter: tuple[float, bool] = (-1e9, False)
    """When the controller was asked who it is, and whether it is Shunter's."""
    quorum: bool | None = None
    """Whether the cluster has a KRaft quorum to ask for its leader; None: not tried yet."""


def _resources(keys: Sequence[ThrottleKey]) -> list[ConfigResource]:
    wanted: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        wanted.setdefault((key.kind, key.name), []).append(key.setting)
    return [ConfigResource(_RESOURCES[kind], name, settings) for (kind, name), settings in wanted.items()]


class KafkaPythonAdmin:
    """`AdminClient` over kafka-python 3."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        """Connect.

        Args:
            configuration: kafka-python's names (`formats.client_properties` makes them from Apache's).

        Raises:
            DriverError: nobody answers, or who answers does not let us in.
        """
        self._configuration = dict(configuration)
        self._client: Any = connected(configuration)
        self._replacing = False
        self._background: set[asyncio.Task[None]] = set()
        self._remembered = _Remembered()
        # Threads of our own: calls that hang on a dead broker must not keep the journal from being written.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="admin")

    @classmethod
    async def connect(cls, configuration: Mapping[str, Any]) -> KafkaPythonAdmin:
        """Connect without blocking the loop.

        Raises:
            DriverError: no broker answers, which is told within seconds; or who answers does not let us in.
        """
        servers = configuration["bootstrap_servers"]
        named = [servers] if isinstance(servers, str) else list(servers)
        await asyncio.to_thread(probe, named, str(configuration.get("security_protocol", "PLAINTEXT")))
        return await asyncio.to_thread(cls, configuration)

    async def _call(
        self, what: str, permission: str, work: Callable[[], Answer], *, within_s: float = READ_WITHIN_S
    ) -> Answer:
        client = self._client
        try:
            # Not wait_for: under Python 3.11 it swallows a cancellation that comes when the work is just done.
            async with asyncio.timeout(within_s):
                return await self._in_thread(work)
        except TimeoutError as error:
            await self._replace(client)
            raise DriverError(f"{what} was not answered within {within_s:.0f} s", retriable=True) from error
        except DriverError:
            raise
        except Exception as error:
            if not isinstance(error, kafka_errors.AuthorizationError):
                client._controller_id = None  # noqa: SLF001  it remembers a dead controller for ever
                client.pinned = None
            if isinstance(error, kafka_errors.UnknownBrokerIdError):
                await self._learn_brokers(client)
            raise translated(what, permission, error) from error

    async def _learn_brokers(self, client: Any) -> None:
        """Let the library look who is there: it would take minutes to hear of a broker that came back."""
        manager = client._manager  # noqa: SLF001  its metadata are refreshed every five minutes, or when it stumbles
        with contextlib.suppress(TimeoutError, kafka_errors.KafkaError, RuntimeError, OSError):
            async with asyncio.timeout(BROKER_WITHIN_S):
                await self._in_thread(lambda: manager.run(manager.cluster.refresh_metadata))

    async def _replace(self, stuck: Any) -> None:
        """Take a new client for one that waits for a dead broker; closing the old one sets its threads free."""
        if self._client is not stuck or self._replacing:
            return
        self._replacing = True
        try:
            async with asyncio.timeout(WRITE_WITHIN_S):
                self._client = await self._in_thread(lambda: connected(self._configuration))
        except Exception:  # noqa: BLE001  whatever it is, the old client may still come round
            return
        finally:
            self._replacing = False
        # It may wait for the dead broker too, so nobody waits for it.
        threading.Thread(target=stuck.close, daemon=True).start()

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _learn_servers(self, described: Mapping[str, Any]) -> None:
        """Remember all brokers, for the ones that were named may be the ones that die."""
        named = self._configuration.get("bootstrap_servers", ())
        known = [f"{broker['host']}:{broker['port']}" for broker in described["brokers"]]
        servers = [named] if isinstance(named, str) else list(named)
        self._configuration["bootstrap_servers"] = list(dict.fromkeys([*servers, *known]))

    async def cluster_id(self) -> str:
        """The cluster's id."""
        described = await self._call("DescribeCluster", "Describe on Cluster", self._client.describe_cluster)
        return str(described["cluster_id"])

    async def is_shunter(self) -> bool:
        """Whether the controller names the feature `shunter` in its ApiVersions; looked at again after a while.

        A controller may change between the look and a request: Apache's passes over tagged fields that it does not
        know, and what is left of ours means the same to it.
        """
        now = time.monotonic()
        asked_at, known = self._remembered.shunter
        if now - asked_at < SHUNTER_FRESH_S:
            return known

        def ask() -> bool:
            try:
                return FEATURE in self._client.describe_features(send_request_to_controller=True)
            except (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError):
                return False  # Features came with Kafka 2.7.

        known = await self._call("ApiVersions", "", ask)
        self._remembered.shunter = (now, known)
        return known

    async def topic_names(self) -> list[str]:
        """Names of all topics, sorted."""
        names = await self._call("Metadata", "Describe on Topic", self._client.list_topics)
        return sorted(str(name) for name in names)

    async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
        """Everything under way."""

        def ask() -> dict[TopicPartition, OngoingReassignment]:
            return {
                TopicPartition(tp.topic, tp.partition): OngoingReassignment(
                    tuple(found["replicas"]), tuple(found["adding_replicas"]), tuple(found["removing_replicas"])
                )
                for tp, found in self._client.list_partition_reassignments().items()
            }

        return await self._call("ListPartitionReassignments", "Describe on Cluster", ask)

    async def observe_topics(self, names: Sequence[str], *, sure: bool = False) -> TopicsSeen:
        """Metadata of topics, and who is up; `sure`: refused, to be tried again, while brokers disagree."""
        return await self._call("Metadata", "Describe on Topic", lambda: self._observe_topics(names, sure=sure))

    def _observe_topics(self, names: Sequence[str], *, sure: bool) -> TopicsSeen:
        topics: dict[str, ObservedTopic | None] = dict.fromkeys(names)
        if self._client.pinned is None:
            self._client.pinned = self._least_late()
        if names:
            found = self._client.describe_topics(list(names))
            present = [str(topic["name"]) for topic in found if topic["error_code"] == 0]
            min_isr = self._min_isr(present)
            for topic in found:
                topics[str(topic["name"])] = topic_seen(topic, min_isr)
        described = self._client.describe_cluster()
        self._learn_servers(described)
        brokers = {
            int(broker["broker_id"]): broker.get("rack")
            for broker in described["brokers"]
            if not broker.get("is_fenced", False)
        }
        self._doubt([name for name, topic in topics.items() if topic is None], brokers)
        if sure:
            self._agree(topics, brokers)
        return TopicsSeen(topics, brokers, self._controller(int(described["controller_id"])))

    def _doubt(self, absent: Sequence[str], brokers: Iterable[BrokerId]) -> None:
        """A topic that was just made is known to some brokers seconds before others, when they have much to do.

        Raises:
            DriverError: another broker knows a topic that the one we ask does not: ask again.
        """
        others = [broker for broker in sorted(brokers) if broker != self._client.pinned]
        for broker in others[:1] if absent and self._client.pinned is not None else ():
            known = self._client.known_to(broker, absent)
            if known:
                told = f"broker {broker} knows topic {known[0]}, and broker {self._client.pinned} does not yet"
                raise DriverError(f"Metadata: {told}", retriable=True)

    def _agree(self, topics: Mapping[str, ObservedTopic | None], brokers: Iterable[BrokerId]) -> None:
        """After thousands of moves a broker may be late by seconds, the controller's own too: others are asked as well.

        Raises:
            DriverError: another broker tells other replicas: ask again.
        """
        told = {
            TopicPartition(name, number): partition.replicas
            for name, topic in topics.items()
            if topic is not None
            for number, partition in topic.partitions.items()
        }
        names = sorted({tp.topic for tp in told})
        others = [broker for broker in sorted(brokers) if broker != self._client.pinned]
        for broker in others[:ASKED_FOR_AGREEMENT] if names else ():
            for tp, replicas in self._client.replicas_at(broker, names).items():
                if told.get(tp, replicas) != replicas:
                    where = f"broker {broker} tells replicas {list(replicas)} of {tp}"
                    raise DriverError(f"Metadata: {where}, and another broker {list(told[tp])}", retriable=True)

    def _least_late(self) -> BrokerId | None:
        """The broker to ask for metadata: of a KRaft cluster who has read most of the metadata log, else the controller."""
        described = self._client.describe_cluster()
        live = {int(broker["broker_id"]) for broker in described["brokers"] if not broker.get("is_fenced", False)}
        if self._controller(int(described["controller_id"])) < 0 or not self._remembered.quorum:
            controller = int(described["controller_id"])
            return controller if controller in live else None
        try:
            partition = self._client.describe_metadata_quorum()["topics"][0]["partitions"][0]
        except (kafka_errors.KafkaError, LookupError):
            return None
        read = {
            int(replica["replica_id"]): int(replica["log_end_offset"])
            for replica in (*partition["current_voters"], *partition["observers"])
        }
        leader = int(partition["leader_id"])
        if leader in live:
            return leader
        return max(sorted(live), key=lambda broker: read.get(broker, -1), default=None)

    def _controller(self, said: BrokerId) -> BrokerId:
        """The controller: of a KRaft cluster the quorum's leader, for there brokers name any of themselves."""
        remembered = self._remembered
        if remembered.quorum is False:
            return said
        asked_at, known = remembered.controller
        now = time.monotonic()
        if now - asked_at < QUORUM_FRESH_S:
            return known
        try:
            quorum = self._client.describe_metadata_quorum()
            known, remembered.quorum = int(quorum["topics"][0]["partitions"][0]["leader_id"]), True
        except (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError):
            remembered.quorum = False
            return said
        except (kafka_errors.KafkaError, LookupError):
            known = -1
        remembered.controller = (now, known)
        return known

    def _min_isr(self, names: Iterable[str]) -> dict[str, int]:
        now = time.monotonic()
        known = self._remembered.min_isr
        due = [name for name in names if name not in known or now - known[name][0] > SETTINGS_FRESH_S]
        for first in range(0, len(due), CONFIGS_PER_REQUEST):
            some = due[first : first + CONFIGS_PER_REQUEST]
            resources = [ConfigResource(ConfigResourceType.TOPIC, name, ["min.insync.replicas"]) for name in some]
            found = self._client.describe_configs(resources, config_filter="all").get("topic", {})
            for name in some:
                value = found.get(name, {}).get("min.insync.replicas", {}).get("value")
                known[name] = (now, int(value) if value else 1)
        return {name: known[name][1] for name in names}

    async def observe_log_dirs(self, asked: Mapping[BrokerId, Sequence[TopicPartition]]) -> LogDirsSeen:
        """Sizes of replicas and space of log dirs, broker by broker; who does not answer is left out."""
        return await gather_log_dirs(asked, lambda broker: self._log_dirs_of(broker, asked[broker]), take_log_dirs)

    async def _log_dirs_of(self, broker: BrokerId, partitions: Sequence[TopicPartition]) -> list[dict[str, Any]] | str:
        """What a broker tells, or why it does not."""
        try:
            async with asyncio.timeout(BROKER_WITHIN_S):
                return await self._call(
                    "DescribeLogDirs", "Describe on Cluster", lambda: self._describe_log_dirs(broker, partitions)
                )
        except TimeoutError:
            return f"broker {broker} did not answer within {BROKER_WITHIN_S:.0f} s"
        except DriverError as error:
            if not error.retriable:
                raise
            return str(error)

    def _describe_log_dirs(self, broker: BrokerId, partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        answered = self._client.describe_log_dirs(topics, brokers=[broker])
        found: list[dict[str, Any]] = answered[0]["log_dirs"]
        return found

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        """Settings of brokers and topics."""
        return await self._call(
            "DescribeConfigs",
            "DescribeConfigs on Cluster (brokers) and on Topic (topics)",
            lambda: self._read_settings(keys),
        )

    def _read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        resources = _resources(keys)
        found: dict[str, dict[str, Any]] = {}
        for first in range(0, len(resources), CONFIGS_PER_REQUEST):
            some = resources[first : first + CONFIGS_PER_REQUEST]
            answered = self._client.describe_configs(some, include_synonyms=True, config_filter="all")
            for kind, by_name in answered.items():
                found.setdefault(kind, {}).update(by_name)
        seen = SettingsSeen({}, {})
        for key in keys:
            setting = found.get(key.kind, {}).get(key.name, {}).get(key.setting)
            seen.own[key], seen.effective[key] = setting_seen(key, setting)
        return seen

    async def alter_reassignments(
        self, targets: Sequence[tuple[TopicPartition, Replicas | None]]
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """RPC 45; the controller is found anew when it moved."""
        if await self.is_shunter():
            # Its codec costs half a second to import, which others need not wait for.
            from shunter.drivers.admin.reassignments import alter_under_shunter  # noqa: PLC0415

            return await self._call(
                "AlterPartitionReassignments",
                "Alter on Cluster",
                lambda: alter_under_shunter(self._client, targets),
                within_s=WRITE_WITHIN_S,
            )
        asked = {
            KafkaTopicPartition(tp.topic, tp.partition): None if replicas is None else list(replicas)
            for tp, replicas in targets
        }
        answered = await self._call(
            "AlterPartitionReassignments",
            "Alter on Cluster",
            lambda: self._client.alter_partition_reassignments(asked),
            within_s=WRITE_WITHIN_S,
        )
        return {TopicPartition(tp.topic, tp.partition): code_of(error) for tp, error in answered.items()}

    async def alter_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, str]:
        """IncrementalAlterConfigs, and brokers seen to have applied it; returns what went wrong.

        Topics come first, for `settings_in_force` says why. Each broker is asked by itself, so a dead one fails alone.
        """
        by_resource: dict[tuple[str, str], dict[str, tuple[AlterConfigOp, str | None]]] = {}
        for key, value in settings:
            operation = (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
            by_resource.setdefault((key.kind, key.name), {})[key.setting] = operation
        errors: dict[ThrottleKey, str] = {}
        groups = [[item for item in by_resource.items() if item[0][0] != "broker"]]
        groups += [[item] for item in by_resource.items() if item[0][0] == "broker"]
        for group in groups:
            if group:
                await still_ours()
                errors.update(await self._alter_some(group))
        taken = {key: value for key, value in settings if key not in errors}
        return errors | (await not_seen_in_force(taken, await self._up(), self._settings_at) if taken else {})

    async def _up(self) -> list[BrokerId]:
        described = await self._call("DescribeCluster", "Describe on Cluster", self._client.describe_cluster)
        return [int(broker["broker_id"]) for broker in described["brokers"] if not broker.get("is_fenced", False)]

    async def _settings_at(self, broker: BrokerId, keys: Sequence[ThrottleKey]) -> dict[ThrottleKey, str | None]:
        """What one broker tells of settings; those that it does not tell of are left out."""
        try:
            async with asyncio.timeout(BROKER_WITHIN_S):
                found = await self._call(
                    "DescribeConfigs", "DescribeConfigs", lambda: self._client.described_by(broker, _resources(keys))
                )
        except TimeoutError as error:
            raise DriverError(f"broker {broker} did not tell its settings in time", retriable=True) from error
        told = {key: found.get(key.kind, {}).get(key.name, {}).get(key.setting) for key in keys}
        return {key: setting_seen(key, setting)[0] for key, setting in told.items() if setting is not None}

    async def _alter_some(
        self, group: Sequence[tuple[tuple[str, str], dict[str, tuple[AlterConfigOp, str | None]]]]
    ) -> dict[ThrottleKey, str]:
        resources = [ConfigResource(_RESOURCES[kind], name, dict(values)) for (kind, name), values in group]
        errors: dict[ThrottleKey, str] = {}
        try:
            answered = await self._call(
                "IncrementalAlterConfigs",
                "AlterConfigs on Cluster (brokers) and on Topic (topics)",
                lambda: self._client.alter_configs(resources, raise_on_unknown=False, incremental=True),
                within_s=WRITE_WITHIN_S,
            )
        except DriverError as error:
            if not error.retriable:
                raise
            answered = {kind: {name: str(error)} for (kind, name), _values in group}
        for (kind, name), values in group:
            told = answered.get(kind, {}).get(name, "the answer does not name it")
            if "AuthorizationFailed" in told:
                raise DriverError(
                    f"not allowed to change settings of {kind} {name}: needs AlterConfigs on "
                    f"{'Cluster' if kind == 'broker' else 'Topic'}",
                    retriable=False,
                )
            if told != "OK":
                errors.update({ThrottleKey(kind, name, setting): told for setting in values})
        return errors

    async def alter_log_dirs(
        self, replicas: Sequence[tuple[BrokerId, TopicPartition, str]]
    ) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        """AlterReplicaLogDirs."""
        asked = {(tp.topic, tp.partition, broker): path for broker, tp, path in replicas}
        answered = await self._call(
            "AlterReplicaLogDirs", "Alter on Cluster", lambda: self._client.alter_replica_log_dirs(asked)
        )
        return {
            (tpr.broker_id, TopicPartition(tpr.topic, tpr.partition)): code_of(error)[0]
            for tpr, error in answered.items()
        }

    async def close(self) -> None:
        """End all connections."""
        for task in self._background:
            task.cancel()
        closing = threading.Thread(target=self._client.close, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSE_WITHIN_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
