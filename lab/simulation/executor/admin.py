"""The Admin API as a simulated executor reaches it: requests take time, and may be lost or doubled.

It behaves as `drivers.admin.cluster.KafkaPythonAdmin` does towards the executor: one broker is asked for metadata as
long as it answers, each broker's settings are read from that broker, and a request without an answer in time is given
up, whether it was carried out or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.simulation.executor.cluster import SimulatedCluster
from lab.simulation.executor.cluster_broker import ClusterBroker
from lab.simulation.executor.partition import OURS
from lab.simulation.network import Delays
from lab.simulation.scheduler import MS
from shunter.drivers.admin.answers import NotSet, SettingsSeen, TopicsSeen
from shunter.drivers.admin.cluster import (
    BROKER_WITHIN_S,
    READ_WITHIN_S,
    WRITE_WITHIN_S,
)
from shunter.drivers.admin.log_dirs import LogDirsSeen, gather_log_dirs
from shunter.drivers.admin.metadata import ASKED_FOR_AGREEMENT
from shunter.drivers.admin.protocol import StillOurs, always
from shunter.drivers.admin.settings import not_seen_in_force
from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import ObservedTopic, OngoingReassignment, ThrottleKey
from shunter.model.partition import BrokerId, Replicas, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.executor.process import SimulatedExecutor


CLUSTER_ID = "simulated"

Answer = Callable[[Any], None]
Reach = Callable[[Callable[[], Any], Answer], None]


@dataclass(slots=True)
class Network:
    """The network between executors and the cluster. `lost`, `unanswered` and `doubled` are shares of what is sent."""

    delays: Delays
    lost: float = 0.0
    """Requests that never arrive."""
    unanswered: float = 0.0
    """Requests that are carried out, and whose answer never arrives."""
    doubled: float = 0.0
    """Requests that the client library sends again, and that are carried out twice."""
    reachable: bool = True
    forbidden: bool = False
    """Whether a permission was withdrawn."""
    mended_us: int = -1
    """When it was mended last."""

    @property
    def steady(self) -> bool:
        """Whether nothing is lost or refused on the way."""
        return self.reachable and not self.forbidden and not (self.lost or self.unanswered or self.doubled)


class SimulatedAdmin:
    """`AdminClient` for one process."""

    def __init__(self, process: SimulatedExecutor, cluster: SimulatedCluster, network: Network) -> None:
        """Connect."""
        self._process = process
        self._cluster = cluster
        self._network = network
        self._scheduler = cluster.scheduler
        self._pinned: BrokerId | None = None

    # ---- requests and answers on their way

    async def _call(self, what: str, reach: Reach, work: Callable[[], Any], within_s: float = READ_WITHIN_S) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._send(reach, work, future)
        try:
            async with asyncio.timeout(within_s):
                return await future
        except TimeoutError as error:
            self._pinned = None
            raise DriverError(f"{what} was not answered within {within_s:.0f} s", retriable=True) from error
        except DriverError:
            self._pinned = None
            raise

    def _send(self, reach: Reach, work: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        network, scheduler = self._network, self._scheduler
        lost = scheduler.chance(network.lost)
        unanswered = scheduler.chance(network.unanswered)

        def answer(value: Any) -> None:
            if not unanswered:
                scheduler.after(network.delays.draw(scheduler), self._process.loop.deliver, _settle, future, value)

        if not network.reachable:
            if scheduler.chance(0.5):  # Otherwise no answer comes.
                answer(DriverError("NodeNotReadyError: nobody is reached", retriable=True))
            return
        if network.forbidden:
            answer(DriverError("not allowed: needs Alter on Cluster", retriable=False))
            return
        if lost:
            return
        if scheduler.chance(network.doubled):
            first = work

            def twice() -> Any:
                first()
                return first()

            work = twice
        scheduler.after(network.delays.draw(scheduler), reach, work, answer)

    def _broker(self, broker: BrokerId) -> Reach:
        def reach(work: Callable[[], Any], answer: Answer) -> None:
            host = self._cluster.brokers[broker]
            if not host.running:
                answer(DriverError(f"broker {broker}: KafkaConnectionError: refused", retriable=True))
                return
            host.serve(lambda: answer(work()))

        return reach

    def _somebody(self) -> BrokerId:
        able = [broker.id for broker in self._cluster.brokers.values() if broker.running]
        return self._scheduler.random.choice(able or list(self._cluster.brokers))

    # ---- reads

    async def cluster_id(self) -> str:
        """The cluster's id."""
        return str(await self._call("DescribeCluster", self._broker(self._somebody()), lambda: CLUSTER_ID))

    async def is_shunter(self) -> bool:
        """Whether the controller is Shunter's: never in this world."""
        return False

    async def topic_names(self) -> list[str]:
        """Names of all topics, sorted."""
        return sorted(self._cluster.topic_ids)

    async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
        """All reassignments that the controller lists as under way."""
        found: dict[TopicPartition, OngoingReassignment] = await self._call(
            "ListPartitionReassignments", self._cluster.ask_controller, self._cluster.list_ongoing
        )
        return found

    async def observe_topics(self, names: Sequence[str], *, sure: bool = False) -> TopicsSeen:
        """Topics' metadata and the live brokers, as one broker knows them; `sure`: refused while others disagree."""
        if self._pinned is None:
            self._pinned = self._least_late()
        host = self._cluster.brokers[self._pinned]
        seen: TopicsSeen = await self._call("Metadata", self._broker(host.id), lambda: self._metadata(host, names))
        absent = [name for name, topic in seen.topics.items() if topic is None]
        others = [broker for broker in self._cluster.brokers.values() if broker is not host and broker.serving]
        if absent and others and any(name in others[0].topics for name in absent):
            raise DriverError(f"Metadata: broker {others[0].id} knows a topic of {absent}", retriable=True)
        for other in others[:ASKED_FOR_AGREEMENT] if sure else ():
            for name, topic in seen.topics.items():
                known = other.topics.get(name)
                if topic is not None and known is not None and _replicas(known) != _replicas(topic):
                    raise DriverError(f"Metadata: broker {other.id} tells other replicas of {name}", retriable=True)
        return seen

    def _least_late(self) -> BrokerId:
        """The controller's own broker, else the one that lags least (KRaft: that has read most of the metadata log)."""
        able = [broker for broker in self._cluster.brokers.values() if broker.serving]
        if any(broker.id == self._cluster.controller for broker in able):
            return self._cluster.controller
        return min(able, key=lambda broker: (broker.lag, broker.id)).id if able else self._somebody()

    def _metadata(self, host: ClusterBroker, names: Sequence[str]) -> TopicsSeen:
        topics: dict[str, ObservedTopic | None] = {name: host.topics.get(name) for name in names}
        return TopicsSeen(topics, dict(host.live), self._cluster.controller)

    async def observe_log_dirs(self, asked: Mapping[BrokerId, Sequence[TopicPartition]]) -> LogDirsSeen:
        """Sizes of replicas; a broker that does not answer is left out."""

        def take(seen: LogDirsSeen, _broker: BrokerId, told: LogDirsSeen) -> None:
            seen.sizes.update(told.sizes)
            seen.futures.update(told.futures)
            seen.spaces.update(told.spaces)

        return await gather_log_dirs(asked, lambda broker: self._log_dirs_of(broker, asked[broker]), take)

    async def _log_dirs_of(self, broker: BrokerId, tps: Sequence[TopicPartition]) -> LogDirsSeen | str:
        def look() -> LogDirsSeen:
            dirs = self._cluster.log_dirs
            seen = LogDirsSeen({}, {}, dirs.spaces(broker), {}, ())
            for tp in tps:
                size, future = dirs.sizes(broker, tp)
                if size is not None:
                    seen.sizes[broker, tp] = size
                if future is not None:
                    seen.futures[broker, tp] = future
            return seen

        try:
            found: LogDirsSeen = await self._call("DescribeLogDirs", self._broker(broker), look, BROKER_WITHIN_S)
        except DriverError as error:
            if not error.retriable:
                raise
            return str(error)
        return found

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        """Settings of brokers and topics, as the brokers that are asked know them."""
        seen = SettingsSeen({}, {})
        for name in dict.fromkeys(key.name for key in keys if key.kind == "broker"):
            await self._read_from(int(name), [key for key in keys if key.kind == "broker" and key.name == name], seen)
        topics = [key for key in keys if key.kind == "topic"]
        if topics:
            await self._read_from(self._somebody(), topics, seen)
        return seen

    async def _read_from(self, broker: BrokerId, keys: Sequence[ThrottleKey], seen: SettingsSeen) -> None:
        host = self._cluster.brokers[broker]
        found = await self._call(
            "DescribeConfigs", self._broker(broker), lambda: {key: host.settings.get(key) for key in keys}
        )
        for key in keys:
            seen.own[key] = found[key]
            seen.effective[key] = self._cluster.default_of(key.setting) if found[key] is None else found[key]

    # ---- writes

    async def alter_reassignments(
        self, targets: Sequence[tuple[TopicPartition, Replicas | None]], *, keeps_factor: bool = False
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """RPC 45. Its controller is older than KIP-860."""
        del keeps_factor
        world = self._process.world
        world.rules.reassignments_sent(self._process, targets)

        def work() -> dict[TopicPartition, tuple[ErrorCode, str]]:
            return {tp: (world.alter(self._process, tp, target), "") for tp, target in targets}

        try:
            answered: dict[TopicPartition, tuple[ErrorCode, str]] = await self._call(
                "AlterPartitionReassignments", self._cluster.ask_controller, work, WRITE_WITHIN_S
            )
        finally:
            world.rules.reassignments_answered(self._process, targets)
        return answered

    async def alter_settings(
        self, settings: Sequence[tuple[ThrottleKey, str | None]], still_ours: StillOurs = always
    ) -> dict[ThrottleKey, NotSet]:
        """IncrementalAlterConfigs; each broker gets a request of its own, so only a dead broker's request fails."""
        self._process.world.rules.settings_sent(self._process, settings)

        async def alter_some(reach: Reach, some: Sequence[tuple[ThrottleKey, str | None]]) -> None:
            await still_ours()
            self._process.world.rules.may_act(self._process)
            await self._alter_some(reach, some, errors)

        errors: dict[ThrottleKey, NotSet] = {}
        topics = [item for item in settings if item[0].kind == "topic"]
        if topics:
            await alter_some(self._cluster.ask_controller, topics)
        for name in dict.fromkeys(key.name for key, _ in settings if key.kind == "broker"):
            mine = [item for item in settings if item[0].kind == "broker" and item[0].name == name]
            await alter_some(self._broker(int(name)), mine)
        taken = {key: value for key, value in settings if key not in errors}
        up = [broker.id for broker in self._cluster.brokers.values() if broker.registered]
        late = await not_seen_in_force(taken, up, self._settings_at) if taken else {}
        return errors | {key: NotSet(told, refused=False) for key, told in late.items()}

    async def _settings_at(self, broker: BrokerId, keys: Sequence[ThrottleKey]) -> dict[ThrottleKey, str | None]:
        known = self._cluster.brokers[broker].settings
        told: dict[ThrottleKey, str | None] = await self._call(
            "DescribeConfigs", self._broker(broker), lambda: {key: known.get(key) for key in keys}, BROKER_WITHIN_S
        )
        return told

    async def _alter_some(
        self, reach: Reach, settings: Sequence[tuple[ThrottleKey, str | None]], errors: dict[ThrottleKey, NotSet]
    ) -> None:
        def work() -> dict[ThrottleKey, NotSet]:
            self._process.world.rules.settings_arrive(self._process, [key for key, _ in settings])
            told = {key: self._cluster.set_setting(key, value, OURS) for key, value in settings}
            return {key: NotSet(error, refused=True) for key, error in told.items() if error is not None}

        try:
            errors.update(await self._call("IncrementalAlterConfigs", reach, work, WRITE_WITHIN_S))
        except DriverError as error:
            if not error.retriable:
                raise
            errors.update((key, NotSet(str(error), refused=False)) for key, _ in settings)

    async def elect_preferred(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """ElectLeaders, at the controller."""
        world = self._process.world
        world.rules.elections_sent(self._process, partitions)

        def work() -> dict[TopicPartition, tuple[ErrorCode, str]]:
            return {tp: (world.elect(tp), "") for tp in partitions}

        answered: dict[TopicPartition, tuple[ErrorCode, str]] = await self._call(
            "ElectLeaders", self._cluster.ask_controller, work
        )
        return answered

    async def alter_log_dirs(
        self, replicas: Sequence[tuple[BrokerId, TopicPartition, str]]
    ) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        """AlterReplicaLogDirs, to all brokers at once; a broker that does not answer fails the whole call."""
        self._process.world.rules.log_dirs_sent(self._process, replicas)
        answers = await asyncio.gather(
            *(self._alter_log_dirs_of(broker, replicas) for broker in sorted({broker for broker, _, _ in replicas}))
        )
        return {key: code for answer in answers for key, code in answer.items()}

    async def _alter_log_dirs_of(
        self, broker: BrokerId, replicas: Sequence[tuple[BrokerId, TopicPartition, str]]
    ) -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
        world = self._process.world

        def work() -> dict[tuple[BrokerId, TopicPartition], ErrorCode]:
            return {
                (owner, tp): world.alter_log_dir(owner, tp, path) for owner, tp, path in replicas if owner == broker
            }

        answered: dict[tuple[BrokerId, TopicPartition], ErrorCode] = await self._call(
            "AlterReplicaLogDirs", self._broker(broker), work
        )
        return answered

    async def close(self) -> None:
        """End all connections."""


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if future.done():
        return
    if isinstance(value, DriverError):
        future.set_exception(value)
    else:
        future.set_result(value)


QUICK = Delays(low_us=MS // 4, high_us=5 * MS, rarely_us=150 * MS)


def _replicas(topic: ObservedTopic) -> dict[int, Replicas]:
    return {number: partition.replicas for number, partition in topic.partitions.items()}
