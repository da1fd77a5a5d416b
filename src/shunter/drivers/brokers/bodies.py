"""Bodies of control requests: encoded once for each version in use, shared by all channels, freed with the last user.

A body is encoded when the first channel is about to send it, in slices between which other tasks run. It is freed with
the last queue that holds it. So memory depends on the number of waiting requests, not of brokers that they are for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from uuid import UUID

from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata, TopicSlice
from shunter.drivers.brokers.channel_stats import ChannelStats
from shunter.drivers.listener.turns import Turns
from shunter.model.broker import Broker
from shunter.model.partition import LEADER_DURING_DELETE, BrokerId
from shunter.wire.control import (
    leader_and_isr_body,
    live_brokers_fragment,
    stop_replica_bodies,
    update_metadata_parts,
)
from shunter.wire.fragments import FragmentCache
from shunter.wire.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, ControlVersions

TURN_SECONDS = 0.01
"""How long encoding goes on before other tasks have a turn: well under the limit of 50 ms for one pass of the loop."""


class Encoder:
    """Encodes bodies, and keeps fragments from one body to the next."""

    def __init__(self, controller_id: BrokerId, stats: ChannelStats) -> None:
        self.controller_id = controller_id
        self.stats = stats
        self.cache = FragmentCache()
        self.turns = Turns()
        self._live: dict[int, tuple[tuple[Broker, ...], bytes]] = {}
        self._topics: set[str] = set()

    def live(self, version: int, brokers: tuple[Broker, ...]) -> bytes:
        """Return the fragment with all live brokers; it is encoded again only when they have changed."""
        kept = self._live.get(version)
        if kept is None or kept[0] != brokers:
            kept = self._live[version] = (brokers, live_brokers_fragment(version, brokers))
        return kept[1]

    def _prune(self, request: SendUpdateMetadata) -> None:
        """Forget the fragments of topics that a full update no longer names."""
        topics = {topic.name for topic in request.topics}
        if request.full:
            for gone in self._topics - topics:
                self.cache.forget(gone)
            self._topics = topics
        else:
            self._topics |= topics

    async def update_metadata(self, request: SendUpdateMetadata, version: int) -> bytes:
        """Encode an UpdateMetadata in slices."""
        self._prune(request)
        parts: list[bytes] = []
        began = time.perf_counter()
        for part in update_metadata_parts(
            version,
            controller_id=self.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topics=request.topics,
            live=self.live(version, request.live),
            offline=request.offline,
            cache=self.cache,
        ):
            parts.append(part)
            spent = time.perf_counter() - began
            if spent > TURN_SECONDS:
                self.stats.encode_seconds += spent
                await asyncio.sleep(0)
                began = time.perf_counter()
        body = b"".join(parts)
        if not request.full:
            for topic in request.topics:
                if _going(topic):
                    self.cache.forget(topic.name)
        self.stats.encode_seconds += time.perf_counter() - began
        return body

    async def leader_and_isr(self, request: SendLeaderAndIsr, version: int, listener: str) -> bytes:
        """Encode one broker's LeaderAndIsr, in turns: at the start those of 200 brokers are due at the same time."""
        await self.turns.mine()
        return self._leader_and_isr(request, version, listener)

    def _leader_and_isr(self, request: SendLeaderAndIsr, version: int, listener: str) -> bytes:
        began = time.perf_counter()
        body = leader_and_isr_body(
            version,
            controller_id=self.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            leaders=request.leaders,
            listener=listener,
            topics=request.topics,
            new=request.new,
            full=request.full,
            cache=self.cache,
        )
        self.stats.encode_seconds += time.perf_counter() - began
        return body

    def stop_replica(self, request: SendStopReplica, version: int) -> tuple[bytes, ...]:
        """Encode one broker's StopReplica: two bodies if an old version can't have all in one."""
        return stop_replica_bodies(
            version,
            controller_id=self.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            partitions=request.partitions,
        )


def _going(topic: TopicSlice) -> bool:
    """Whether a topic's partitions are being deleted."""
    return any(
        leadership is not None and leadership.leader == LEADER_DURING_DELETE for _, (_, leadership) in topic.partitions
    )


class SharedBody:
    """One request and its encoded bodies, shared by every queue that it is in."""

    __slots__ = ("__weakref__", "_bodies", "_encoder", "_lock", "api_key", "request")

    def __init__(self, request: SendUpdateMetadata | SendLeaderAndIsr | SendStopReplica, encoder: Encoder) -> None:
        self.request = request
        self._encoder = encoder
        self._bodies: dict[int, tuple[bytes, ...]] = {}
        self._lock = asyncio.Lock()
        if isinstance(request, SendUpdateMetadata):
            self.api_key = UPDATE_METADATA
        elif isinstance(request, SendLeaderAndIsr):
            self.api_key = LEADER_AND_ISR
        else:
            self.api_key = STOP_REPLICA

    def topic_names(self) -> Mapping[UUID, str]:
        """Return the names of a LeaderAndIsr's topics by id. They are needed only if its answer has an error."""
        if not isinstance(self.request, SendLeaderAndIsr):
            return {}
        return {topic.topic_id: topic.name for topic in self.request.topics if topic.topic_id is not None}

    def version(self, versions: ControlVersions) -> int:
        """Choose this request's version."""
        if self.api_key == UPDATE_METADATA:
            return versions.update_metadata
        return versions.leader_and_isr if self.api_key == LEADER_AND_ISR else versions.stop_replica

    async def encoded(self, version: int, listener: str) -> tuple[bytes, ...]:
        """Return the bodies of this request in a version; the first caller encodes them.

        Args:
            version: of the API.
            listener: name of the inter-broker listener, for the leaders in a LeaderAndIsr.
        """
        bodies = self._bodies.get(version)
        if bodies is not None:
            return bodies
        async with self._lock:
            bodies = self._bodies.get(version)
            if bodies is None:
                bodies = self._bodies[version] = await self._encode(version, listener)
        return bodies

    async def _encode(self, version: int, listener: str) -> tuple[bytes, ...]:
        request = self.request
        if isinstance(request, SendUpdateMetadata):
            return (await self._encoder.update_metadata(request, version),)
        if isinstance(request, SendLeaderAndIsr):
            return (await self._encoder.leader_and_isr(request, version, listener),)
        return self._encoder.stop_replica(request, version)

    @property
    def resident(self) -> int:
        """Bytes held by encoded bodies."""
        return sum(len(body) for bodies in self._bodies.values() for body in bodies)
