"""Reads a cluster from ZooKeeper: by multi-reads, several portions in flight, each decoded as it comes.

Raw bytes are kept only for one portion at a time, and a portion is small enough not to block the event loop. A znode
that can't be read is skipped, and named by its path.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, ParamSpec, TypeVar

from shunter.drivers.zookeeper.client import CHUNK, ZooKeeperClient, chunks
from shunter.drivers.zookeeper.requests import NO_AUTH, Znode, ZooKeeperRefused
from shunter.errors import FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import decode_legacy_reassignments, decode_producer_id_block
from shunter.formats.znodes.brokers import decode_broker, decode_cluster_id, decode_controller_id, is_controller_only
from shunter.formats.znodes.configs import decode_config
from shunter.formats.znodes.reassignments import decode_owed_deletions, decode_owed_replicas, decode_reassignment
from shunter.formats.znodes.requests import decode_request
from shunter.formats.znodes.text import SharedReplicas, read_partition_number
from shunter.formats.znodes.topics import decode_state, decode_topic
from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, LeaderAndIsr, TopicPartition
from shunter.model.reassignment import Reassignment
from shunter.model.snapshot import (
    ClusterSnapshot,
    LeftOut,
    LegacyReassignments,
    OwedDeletions,
    OwedReplicas,
    ReassignmentRequest,
)
from shunter.model.topic import Topic, TopicSnapshot

logger = logging.getLogger(__name__)

TELL_EVERY_S = 2
_TOPICS_PER_PORTION = 200
_PORTIONS_IN_FLIGHT = 4
_MOST_SHARED = 200_000
_Arguments = ParamSpec("_Arguments")
_Decoded = TypeVar("_Decoded")


@dataclass(slots=True)
class Seen:
    """The last known transactions of znodes that other processes write too.

    They distinguish news of this controller's own writes from news of other writes. Use it on the event loop only.
    """

    topics: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    """Topics that this controller has deleted since the read under way began."""
    legacy: int = 0
    """Of `/admin/reassign_partitions`; 0: it does not exist."""
    extra: int = 0
    """Of `/admin/reassign_partitions_extra`; 0: it does not exist."""


class TopicsFound(NamedTuple):
    """Topics that were read. `gone`: requested topics that do not exist. `written`: last transactions of the others."""

    topics: tuple[TopicSnapshot, ...]
    gone: tuple[str, ...]
    written: Mapping[str, int]

    @property
    def unreadable(self) -> frozenset[str]:
        """Topics that exist and can't be read."""
        return frozenset(self.written).difference(each.topic.name for each in self.topics)

    def without(self, names: Collection[str]) -> TopicsFound:
        """Leave these topics out, as if they had not been requested."""
        return TopicsFound(
            tuple(each for each in self.topics if each.topic.name not in names),
            tuple(name for name in self.gone if name not in names),
            {name: zxid for name, zxid in self.written.items() if name not in names},
        )


class BrokersFound(NamedTuple):
    """All registrations at one moment. `zxid` is not later than that moment; `unreadable` has paths."""

    brokers: tuple[Broker, ...]
    zxid: int
    unreadable: tuple[str, ...] = ()


class ClusterFound(NamedTuple):
    """The whole cluster; `zxid` is a transaction that it includes."""

    snapshot: ClusterSnapshot
    zxid: int
    written: Mapping[str, int]
    legacy_written: int
    extra_written: int = 0


class Unreadable:
    """Collects znodes that can't be read, and logs them."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def attempt(
        self, decode: Callable[_Arguments, _Decoded], *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Decoded | None:
        """Decode; if that fails, note it and return None."""
        try:
            return decode(*arguments, **named)
        except FormatError as refusal:
            self._found[refusal.place] = refusal.rule
            logger.warning("skipped a znode that can't be read: %s", refusal)
            return None

    def note(self, path: str, why: str) -> None:
        """Note why the znode of a path can't be read."""
        self._found[path] = why
        logger.warning("skipped a znode that can't be read: %s: %s", path, why)

    @property
    def found(self) -> tuple[tuple[str, str], ...]:
        """(path, why), by path."""
        return tuple(sorted(self._found.items()))


class ClusterReader:
    """Reads through one client. Equal replica lists become one object, over all reads."""

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client
        self._shared: SharedReplicas = {}
        self._topics_read = 0
        self._registered: dict[str, Broker] = {}
        """Registrations as last read, by name: a broker whose registration becomes unreadable still counts."""

    async def cluster(self) -> ClusterFound:
        """Read everything. Arm the watches before, otherwise a change in between would be missed."""
        unreadable = Unreadable()
        (cluster_id,), zxid = await self._client.get_many((znodes.CLUSTER_ID,))
        # Read before the topics: then a name in the queue without a topic is a deleted topic, not a new one.
        deleting = await self.deleting_topics()
        listed = await self._client.children(znodes.TOPICS)
        names = listed[0] if listed is not None else ()
        self._topics_read = 0
        telling = asyncio.create_task(self._tell_progress(len(names)))
        try:
            return await self._cluster(names, deleting, cluster_id, zxid, unreadable)
        finally:
            telling.cancel()

    async def _tell_progress(self, topics: int) -> None:
        """Log the progress at intervals, because a large cluster takes long."""
        seconds = 0
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            seconds += TELL_EVERY_S
            logger.info("reading the cluster: %d of %d topics after %d s", self._topics_read, topics, seconds)

    async def _cluster(
        self,
        names: Sequence[str],
        deleting: tuple[str, ...],
        cluster_id: Znode | None,
        zxid: int,
        unreadable: Unreadable,
    ) -> ClusterFound:
        brokers, (moves, broken_moves), (owed, broken_owed), configs = await asyncio.gather(
            self.brokers(unreadable),
            self._reassignments(unreadable),
            self._owed_deletions(unreadable),
            self._broker_configs(unreadable),
        )
        missing, broken_missing = await self._owed_replicas(unreadable)
        controller_ids = await self._controller_ids(unreadable)
        cancel = await self.cancel()
        legacy, legacy_written = await self.legacy(unreadable)
        extra, extra_written = await self.extra_reassignments(unreadable)
        requests = await self.requests(unreadable)
        found = await self.topics(names, unreadable)
        producer_ids = await self._producer_id_block(unreadable)
        snapshot = ClusterSnapshot(
            cluster_id=unreadable.attempt(decode_cluster_id, cluster_id and cluster_id.data) or "",
            brokers=brokers.brokers,
            topics=found.topics,
            reassignments=moves,
            legacy=legacy,
            owed_deletions=owed,
            deleting_topics=deleting,
            producer_id_block=producer_ids or (0, -1),
            broker_configs=configs,
            unreadable=unreadable.found,
            cancel=cancel,
            extra=extra,
            requests=requests,
            owed_replicas=missing,
            controller_ids=controller_ids,
            left_out=LeftOut(
                topics=found.unreadable,
                moves=broken_moves,
                owed=broken_owed,
                owed_replicas=broken_missing,
                producer_ids=producer_ids is None,
                legacy=legacy is None and legacy_written != 0,
                deleting=found.unreadable.intersection(deleting),
            ),
        )
        return ClusterFound(snapshot, zxid, found.written, legacy_written, extra_written)

    async def topics(self, names: Iterable[str], unreadable: Unreadable | None = None) -> TopicsFound:
        """Read topics with their partitions' states and configurations, in the order of their names."""
        unreadable = unreadable if unreadable is not None else Unreadable()
        if len(self._shared) > _MOST_SHARED:
            self._shared.clear()
        portions = list(chunks(sorted(set(names)), _TOPICS_PER_PORTION))
        answers: list[TopicsFound | None] = [None] * len(portions)
        waiting = iter(enumerate(portions))

        async def work() -> None:
            for index, portion in waiting:
                answers[index] = await self._portion_of_topics(portion, unreadable)
                self._topics_read += len(portion)

        await asyncio.gather(*(work() for _ in range(_PORTIONS_IN_FLIGHT)))
        found = [answer for answer in answers if answer is not None]
        return TopicsFound(
            tuple(topic for each in found for topic in each.topics),
            tuple(name for each in found for name in each.gone),
            {name: zxid for each in found for name, zxid in each.written.items()},
        )

    async def states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr]:
        """Read partitions' states; those that do not exist or can't be read are left out."""
        unreadable = Unreadable()
        states: dict[TopicPartition, LeaderAndIsr] = {}
        for portion in chunks(sorted(set(partitions)), CHUNK):
            paths = [znodes.state(tp.topic, tp.partition) for tp in portion]
            found, _ = await self._client.get_many(paths)
            for tp, path, znode in zip(portion, paths, found, strict=True):
                state = self._state(path, znode, unreadable)
                if state is not None:
                    states[tp] = state
        return states

    async def brokers(self, unreadable: Unreadable | None = None, *, watch: bool = False) -> BrokersFound:
        """Read all registrations of ONE moment: a maximum over a torn read of the epochs would break the fence (0007).

        Another Shunter's registration, which a deposed controller may keep for a while, is left out: it holds no data,
        and would get replicas.

        ZooKeeper does not guarantee that a multi-read is of one moment. So the parent's stat is read first and last: if
        no child came or went between the two, the multi-read was of one moment.
        """
        unreadable = unreadable if unreadable is not None else Unreadable()
        while True:
            listed = await self._client.children(znodes.BROKER_IDS, watch=watch)
            names = sorted(listed[0]) if listed is not None else []
            paths = [znodes.BROKER_IDS, *(f"{znodes.BROKER_IDS}/{name}" for name in names), znodes.BROKER_IDS]
            found, _ = await self._client.get_many(paths)
            before, after = found[0], found[-1]
            if listed is None or before is None or after is None:
                return BrokersFound((), 0)
            if listed[1].pzxid == before.pzxid == after.pzxid and None not in found:
                break
        known: dict[str, Broker] = {}
        broken: list[str] = []
        for name, znode in zip(names, found[1:-1], strict=True):
            if znode is None or self._is_another_controller(name, znode):
                continue
            broker = unreadable.attempt(decode_broker, name, znode.data, znode.czxid)
            if broker is None:
                broken.append(f"{znodes.BROKER_IDS}/{name}")
                former = self._registered.get(name)
                # czxid 0: the znode may not be read, so it may or may not be the one that was read before.
                broker = former if former is not None and znode.czxid in {0, former.epoch} else None
            if broker is not None:
                known[name] = broker
        self._registered = known
        newest = max((znode.mzxid for znode in found[1:-1] if znode is not None), default=0)
        brokers = sorted(known.values(), key=lambda broker: broker.id)
        return BrokersFound(tuple(brokers), max(before.pzxid, newest), tuple(broken))

    def _is_another_controller(self, name: str, znode: Znode) -> bool:
        if znode.owner == self._client.session_id:
            return False
        try:
            return is_controller_only(znode.data, f"{znodes.BROKER_IDS}/{name}")
        except FormatError:
            return False

    async def legacy(self, unreadable: Unreadable | None = None) -> tuple[LegacyReassignments | None, int]:
        """Read `/admin/reassign_partitions`, and the transaction that wrote it; (None, 0) if it does not exist."""
        return await self._list_of_targets(znodes.LEGACY_REASSIGNMENTS, unreadable)

    async def extra_reassignments(self, unreadable: Unreadable | None = None) -> tuple[LegacyReassignments | None, int]:
        """Read `/admin/reassign_partitions_extra` in the same way (KIP-236)."""
        return await self._list_of_targets(znodes.EXTRA_REASSIGNMENTS, unreadable)

    async def _list_of_targets(
        self, path: str, unreadable: Unreadable | None
    ) -> tuple[LegacyReassignments | None, int]:
        unreadable = unreadable if unreadable is not None else Unreadable()
        znode = await self._client.get(path)
        if znode is None:
            return None, 0
        found = unreadable.attempt(decode_legacy_reassignments, znode.data, znode.version, path)
        return (None if found is None else found._replace(czxid=znode.czxid)), znode.mzxid

    async def cancel(self) -> int | None:
        """Read the czxid of `/admin/reassign_cancel`; None if it does not exist. Its data has no meaning."""
        znode = await self._client.get(znodes.CANCEL)
        return None if znode is None else znode.czxid

    async def requests(self, unreadable: Unreadable | None = None) -> tuple[ReassignmentRequest, ...]:
        """Read the requests of `/admin/reassignment_requests`, by name; those that can't be read are left out."""
        unreadable = unreadable if unreadable is not None else Unreadable()
        found: list[ReassignmentRequest] = []
        for name, znode in await self.children_with_data(znodes.REASSIGNMENT_REQUESTS):
            request = unreadable.attempt(decode_request, name, znode.data, czxid=znode.czxid, version=znode.version)
            if request is not None:
                found.append(request)
        return tuple(found)

    async def deleting_topics(self) -> tuple[str, ...]:
        """Read the names in the deletion queue, sorted."""
        listed = await self._client.children(znodes.DELETE_TOPICS)
        return () if listed is None else tuple(sorted(listed[0]))

    async def configs(self, entity_type: str, names: Iterable[str]) -> dict[str, Mapping[str, str]]:
        """Read entities' configurations; an absent one is empty, and one that can't be read is left out."""
        unreadable = Unreadable()
        configs: dict[str, Mapping[str, str]] = {}
        for portion in chunks(sorted(set(names)), CHUNK):
            paths = [znodes.config(entity_type, name) for name in portion]
            found, _ = await self._client.get_many(paths)
            for name, path, znode in zip(portion, paths, found, strict=True):
                config = self._config(path, znode, unreadable)
                if config is not None:
                    configs[name] = config
        return configs

    async def _portion_of_topics(self, names: Sequence[str], unreadable: Unreadable) -> TopicsFound:
        paths = [znodes.topic(name) for name in names]
        config_paths = [znodes.config("topics", name) for name in names]
        found, _ = await self._client.get_many(paths + config_paths)
        topics: dict[str, Topic] = {}
        configs: dict[str, Mapping[str, str]] = {}
        gone: list[str] = []
        written: dict[str, int] = {}
        for name, znode, path, config in zip(names, found, config_paths, found[len(names) :], strict=False):
            if znode is None:
                gone.append(name)
                continue
            written[name] = znode.mzxid
            topic = self._topic(name, znode, unreadable)
            if topic is not None:
                topics[name] = topic
                configs[name] = self._config(path, config, unreadable) or {}
        del found
        states, broken = await self._states_of(topics.values(), unreadable)
        snapshots = (
            TopicSnapshot(topic, states[name], configs[name], tuple(broken.get(name, ())))
            for name, topic in topics.items()
        )
        return TopicsFound(tuple(snapshots), tuple(gone), written)

    async def _states_of(
        self, topics: Iterable[Topic], unreadable: Unreadable
    ) -> tuple[dict[str, dict[int, LeaderAndIsr]], dict[str, list[int]]]:
        wanted = [(topic.name, number) for topic in topics for number in topic.assignments]
        states: dict[str, dict[int, LeaderAndIsr]] = {topic.name: {} for topic in topics}
        broken: dict[str, list[int]] = {}
        for portion in chunks(wanted, CHUNK):
            paths = [znodes.state(name, number) for name, number in portion]
            found, _ = await self._client.get_many(paths)
            for (name, number), path, znode in zip(portion, paths, found, strict=True):
                if znode is None:
                    continue
                state = self._state(path, znode, unreadable)
                if state is None:
                    broken.setdefault(name, []).append(number)
                else:
                    states[name][number] = state
        return states, broken

    async def _reassignments(
        self, unreadable: Unreadable
    ) -> tuple[dict[TopicPartition, Reassignment], frozenset[TopicPartition]]:
        """Read all moves' records; return also the partitions whose record can't be read."""
        listed = await self._client.children(znodes.REASSIGNMENTS)
        names = sorted(listed[0]) if listed is not None else []
        wanted: list[tuple[str, str]] = []
        for portion in chunks(names, CHUNK):
            found = await self._client.children_of_many([znodes.topic_reassignments(name) for name in portion])
            wanted += [(name, child) for name, children in zip(portion, found, strict=True) for child in children or ()]
        moves: dict[TopicPartition, Reassignment] = {}
        broken: set[TopicPartition] = set()
        for part in chunks(wanted, CHUNK):
            paths = [f"{znodes.REASSIGNMENTS}/{name}/{child}" for name, child in part]
            records, _ = await self._client.get_many(paths)
            for (name, child), path, znode in zip(part, paths, records, strict=True):
                number = unreadable.attempt(read_partition_number, child, path)
                if znode is None or number is None:
                    continue
                tp = TopicPartition(name, number)
                version, czxid = znode.version, znode.czxid
                record = unreadable.attempt(decode_reassignment, path, znode.data, version=version, czxid=czxid)
                if record is None:
                    broken.add(tp)
                else:
                    moves[tp] = record
        return dict(sorted(moves.items())), frozenset(broken)

    async def _owed_deletions(
        self, unreadable: Unreadable
    ) -> tuple[dict[BrokerId, OwedDeletions], frozenset[BrokerId]]:
        """Read brokers' owed deletions; return also the brokers whose list can't be read."""
        owed: dict[BrokerId, OwedDeletions] = {}
        broken: set[BrokerId] = set()
        for name, znode in await self.children_with_data(znodes.OWED_DELETIONS):
            path = f"{znodes.OWED_DELETIONS}/{name}"
            broker = unreadable.attempt(read_partition_number, name, path)
            found = unreadable.attempt(decode_owed_deletions, path, znode.data, znode.version)
            if broker is not None and found is not None:
                owed[broker] = found
            elif broker is not None:
                broken.add(broker)
        return owed, frozenset(broken)

    async def _owed_replicas(self, unreadable: Unreadable) -> tuple[dict[str, OwedReplicas], frozenset[str]]:
        """Read topics' owed replicas; return also the topics whose list can't be read."""
        owed: dict[str, OwedReplicas] = {}
        broken: set[str] = set()
        for name, znode in await self.children_with_data(znodes.OWED_REPLICAS):
            found = unreadable.attempt(decode_owed_replicas, znodes.owed_replicas(name), znode.data, znode.version)
            if found is None:
                broken.add(name)
            else:
                owed[name] = found
        return owed, frozenset(broken)

    async def _controller_ids(self, unreadable: Unreadable) -> frozenset[BrokerId]:
        """Read the ids of Shunters that have been the controller; those that can't be read are left out."""
        children = await self.children_with_data(znodes.CONTROLLERS)
        found = (unreadable.attempt(decode_controller_id, name, znode.data) for name, znode in children)
        return frozenset(id_ for id_ in found if id_ is not None)

    async def _broker_configs(self, unreadable: Unreadable) -> dict[str, Mapping[str, str]]:
        configs: dict[str, Mapping[str, str]] = {}
        parent = f"{znodes.CONFIGS}/brokers"
        try:
            children = await self.children_with_data(parent)
        except ZooKeeperRefused as refusal:
            if refusal.code != NO_AUTH:
                raise
            unreadable.note(parent, "its children may not be listed by us (NoAuth): the brokers' defaults hold")
            return configs
        for name, znode in children:
            config = self._config(znodes.config("brokers", name), znode, unreadable)
            if config is not None:
                configs[name] = config
        return configs

    async def _producer_id_block(self, unreadable: Unreadable) -> tuple[int, int] | None:
        znode = await self._client.get(znodes.PRODUCER_ID_BLOCK)
        if znode is None:
            return 0, -1
        if not znode.data:
            return 0, znode.version  # Created together with Kafka's other paths; no block was ever claimed.
        block = unreadable.attempt(decode_producer_id_block, znode.data)
        return None if block is None else (block.last + 1, znode.version)

    async def znode(self, path: str) -> Znode | None:
        """Read one znode; None if it does not exist."""
        return await self._client.get(path)

    async def children_with_data(self, parent: str) -> list[tuple[str, Znode]]:
        """Read a znode's children with their data, by name; those that are deleted meanwhile are left out."""
        listed = await self._client.children(parent)
        children: list[tuple[str, Znode]] = []
        for portion in chunks(sorted(listed[0]) if listed is not None else [], CHUNK):
            found, _ = await self._client.get_many([f"{parent}/{name}" for name in portion])
            children += [(name, znode) for name, znode in zip(portion, found, strict=True) if znode is not None]
        return children

    def _topic(self, name: str, znode: Znode, unreadable: Unreadable) -> Topic | None:
        odd: list[str] = []
        topic = unreadable.attempt(decode_topic, name, znode.data, znode.version, self._shared, odd)
        for told in odd:
            logger.warning("%s is not taken as it is written: %s", znodes.topic(name), told)
        return topic

    def _state(self, path: str, znode: Znode | None, unreadable: Unreadable) -> LeaderAndIsr | None:
        if znode is None:
            return None
        return unreadable.attempt(decode_state, path, znode.data, znode.version, self._shared)

    def _config(self, path: str, znode: Znode | None, unreadable: Unreadable) -> Mapping[str, str] | None:
        return {} if znode is None else unreadable.attempt(decode_config, path, znode.data)
