"""The answer to Metadata, made of encoded pieces that are kept: a client can ask for all topics in thirty bytes.

A topic is one piece; a large topic has one piece for every five hundred partitions. A piece is used again as long as
the states that it was made of, the live brokers and the failed replicas are the same. If a few partitions changed, only
their pieces are encoded anew. All answers share the pieces: a thousand clients that ask for all topics need the memory
of one.

Source: Apache Kafka 3.9, message schema of Metadata; ZkMetadataCache for the fields of a partition.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from shunter.errors import ErrorCode, InvariantViolation
from shunter.model.broker import Broker
from shunter.model.partition import NO_LEADER, BrokerId, PartitionState, Replicas
from shunter.wire.primitives import (
    INT16,
    INT32,
    NO_TAGS,
    NULL_UUID,
    array_length,
    nullable_string,
    string,
    uuid,
)

OPERATIONS_OMITTED: Final = -(2**31)
"""The client did not ask which operations are authorized, or the controller can't tell."""
LISTENER_NOT_FOUND: Final = 72
LEADER_NOT_AVAILABLE: Final = 5
REPLICA_NOT_AVAILABLE: Final = 9
PIECE_PARTITIONS: Final = 500
"""One piece takes about half a millisecond to encode, and has 21 KB."""

_REMEMBERED: Final = 50_000
"""Number of assignments whose dead replicas are remembered."""

Failed = Mapping[int, Collection[BrokerId]]
"""One topic's replicas on failed log dirs: partition number -> replicas. Other partitions are left out."""
NOTHING_FAILED: Final[Failed] = {}
NONE_UNREADABLE: Final[frozenset[int]] = frozenset()

_Packer = tuple[Callable[..., bytes], bytes, bytes]
_Item = tuple[int, PartitionState]


class Audience(NamedTuple):
    """What pieces depend on: the request's version, its listener, and the operations that the client may do."""

    version: int
    listener: str
    operations: int = OPERATIONS_OMITTED


class TopicMetadata(Protocol):
    """A topic as the controller knows it."""

    @property
    def name(self) -> str:
        """The topic's name."""
        ...

    @property
    def topic_id(self) -> UUID | None:
        """None for a topic that has none (older than 2.8)."""
        ...

    @property
    def partitions(self) -> Mapping[int, PartitionState]:
        """States by partition number; a state is never changed, but replaced."""
        ...


def listening_brokers(brokers: Collection[Broker], listener: str) -> dict[BrokerId, bool]:
    """Map each live broker to whether clients of a listener can reach it."""
    return {broker.id: any(endpoint.listener == listener for endpoint in broker.endpoints) for broker in brokers}


def metadata_head(
    version: int, *, brokers: Sequence[Broker], listener: str, cluster_id: str, controller_id: BrokerId, topics: int
) -> bytes:
    """Encode the part of the answer before the topics.

    Args:
        version: 0 to 12.
        brokers: all live brokers, the controller included. Brokers without the listener are left out.
        listener: the listener that the client uses.
        cluster_id: written from version 2 on.
        controller_id: written from version 1 on.
        topics: the number of topics that follow.

    Raises:
        InvariantViolation: a version that is not served.
    """
    if not 0 <= version <= 12:
        raise InvariantViolation("Metadata is served in versions 0 to 12", version=version)
    flexible = version >= 9
    tags = NO_TAGS if flexible else b""
    nodes = [(broker, endpoint) for broker in brokers for endpoint in broker.endpoints if endpoint.listener == listener]
    parts = [INT32.pack(0)] if version >= 3 else []
    parts.append(array_length(len(nodes), flexible=flexible))
    for broker, endpoint in nodes:
        parts.append(INT32.pack(broker.id) + string(endpoint.host, flexible=flexible) + INT32.pack(endpoint.port))
        parts.append((nullable_string(broker.rack, flexible=flexible) if version >= 1 else b"") + tags)
    if version >= 2:
        parts.append(nullable_string(cluster_id, flexible=flexible))
    if version >= 1:
        parts.append(INT32.pack(controller_id))
    parts.append(array_length(topics, flexible=flexible))
    return b"".join(parts)


def metadata_tail(version: int, operations: int = OPERATIONS_OMITTED) -> bytes:
    """Encode the part of the answer after the topics. `operations` are those on the cluster, in versions 8 to 10."""
    return (INT32.pack(operations) if 8 <= version <= 10 else b"") + (NO_TAGS if version >= 9 else b"")


def unserved_topic(
    audience: Audience, error: ErrorCode | int, name: str | None, topic_id: UUID | None = None, *, internal: bool
) -> bytes:
    """Encode a topic that is not described, with the error that says why.

    Args:
        audience: of the answer.
        error: why the topic is not described.
        name: None if the client asked by id, from version 12 on.
        topic_id: None if the client asked by name.
        internal: whether the name is that of one of Kafka's internal topics.

    Raises:
        InvariantViolation: a topic without a name below version 12.
    """
    head = _topic_head(audience.version, error, name, topic_id, internal=internal)
    return head + array_length(0, flexible=audience.version >= 9) + _topic_tail(audience)


def _topic_head(
    version: int, error: ErrorCode | int, name: str | None, topic_id: UUID | None, *, internal: bool
) -> bytes:
    flexible = version >= 9
    parts = [INT16.pack(error)]
    if version >= 12:
        parts.append(nullable_string(name, flexible=True))
    elif name is None:
        raise InvariantViolation("a topic has a name below version 12 of Metadata", version=version, topic=topic_id)
    else:
        parts.append(string(name, flexible=flexible))
    if version >= 10:
        parts.append(uuid(topic_id) if topic_id else NULL_UUID)
    if version >= 1:
        parts.append(b"\x01" if internal else b"\x00")
    return b"".join(parts)


def _topic_tail(audience: Audience) -> bytes:
    version = audience.version
    return (INT32.pack(audience.operations) if version >= 8 else b"") + (NO_TAGS if version >= 9 else b"")


class _Kept:
    """One encoded topic, and the values that it was encoded from."""

    __slots__ = ("failed", "pieces", "states", "topic", "topic_id", "unreadable")

    def __init__(
        self,
        topic: TopicMetadata,
        states: tuple[PartitionState, ...],
        failed: Failed,
        unreadable: Collection[int],
        pieces: tuple[bytes, ...],
    ) -> None:
        self.topic = topic
        self.topic_id = topic.topic_id
        self.states = states
        self.failed = failed
        self.unreadable = unreadable
        self.pieces = pieces


class MetadataPieces:
    """Encoded topics for one audience, kept as long as they stay the same.

    Memory: the pieces (42 bytes for a partition of three replicas) and a reference to each state. Bounded by the
    topics of the cluster, because `forget` drops deleted topics.
    """

    __slots__ = ("_encoder", "_internal", "_kept", "audience", "listening")

    def __init__(self, audience: Audience, internal: Collection[str]) -> None:
        self.audience = audience
        self.listening: dict[BrokerId, bool] = {}
        self._internal = internal
        self._kept: dict[str, _Kept] = {}
        self._encoder = _Encoder(audience.version, self.listening)

    def hear(self, listening: dict[BrokerId, bool]) -> None:
        """Take in which brokers are live and can be reached. If that has changed, all pieces are dropped."""
        if listening != self.listening:
            self.listening = listening
            self._encoder = _Encoder(self.audience.version, listening)
            self._kept = {}

    def forget(self, names: Collection[str]) -> None:
        """Drop all topics whose names are not in `names`."""
        for gone in self._kept.keys() - names:
            del self._kept[gone]

    def __len__(self) -> int:
        return len(self._kept)

    def topic(
        self, topic: TopicMetadata, failed: Failed, unreadable: Collection[int] = NONE_UNREADABLE
    ) -> Iterator[bytes]:
        """Yield a topic piece by piece, so that the caller can let other tasks run in between.

        A partition that never had a leader is left out, because no broker knows it: brokers hear of a partition when it
        gets its first leader. Clients ask now a broker, now the controller, and would see the number of partitions go
        up and down. `unreadable` has the partitions whose leader is not known though they may have one: they are told.

        The pieces describe the topic at the moment when the first piece is asked for. Cost: O(partitions of the topic),
        some ten nanoseconds each if nothing has changed.
        """
        kept = self._kept.get(topic.name)
        states = tuple(topic.partitions.values())
        if (
            kept is not None
            and kept.topic is topic
            and kept.topic_id == topic.topic_id
            and kept.failed == failed
            and kept.unreadable == unreadable
            and kept.states == states
        ):
            yield from kept.pieces
            return
        into, encoder = self._kept, self._encoder
        pieces: list[bytes] = []
        for piece in self._encoded(topic, states, failed, unreadable, kept, encoder):
            pieces.append(piece)
            yield piece
        into[topic.name] = _Kept(topic, states, failed, unreadable, tuple(pieces))

    def _encoded(
        self,
        topic: TopicMetadata,
        states: tuple[PartitionState, ...],
        failed: Failed,
        unreadable: Collection[int],
        kept: _Kept | None,
        encoder: _Encoder,
    ) -> Iterator[bytes]:
        audience = self.audience
        name = topic.name
        numbers = list(topic.partitions)
        items: list[_Item] = list(zip(numbers, states, strict=True))
        in_order = numbers == sorted(numbers)
        if not in_order:
            items.sort(key=lambda item: item[0])
        head = _topic_head(audience.version, 0, name, topic.topic_id, internal=name in self._internal)
        told = sum(state.leadership is not None or number in unreadable for number, state in items)
        head += array_length(told, flexible=audience.version >= 9)
        tail = _topic_tail(audience)
        if len(items) <= PIECE_PARTITIONS:
            yield b"".join((head, encoder.encode(items, failed, unreadable), tail))
            return
        same = (
            kept is not None
            and in_order
            and kept.topic is topic
            and kept.failed == failed
            and kept.unreadable == unreadable
            and len(kept.states) == len(states)
        )
        yield head
        for place, first in enumerate(range(0, len(items), PIECE_PARTITIONS), start=1):
            last = first + PIECE_PARTITIONS
            if same and kept is not None and kept.states[first:last] == states[first:last]:
                yield kept.pieces[place]
            else:
                yield encoder.encode(items[first:last], failed, unreadable)
        yield tail


class _Encoder:
    """Encodes partitions for one version and one set of live brokers."""

    def __init__(self, version: int, listening: Mapping[BrokerId, bool]) -> None:
        self._version = version
        self._listening = listening
        self._dead: dict[Replicas, Replicas] = {}
        self._packers: dict[tuple[int, int, int], _Packer] = {}

    def encode(self, items: Sequence[_Item], failed: Failed, unreadable: Collection[int]) -> bytes:
        """Encode partitions one after the other, without those that never had a leader."""
        version, listening, dead, packers = self._version, self._listening, self._dead, self._packers
        fragments: list[bytes] = []
        common_tail = _tail(version, ())
        unreachable = LISTENER_NOT_FOUND if version >= 6 else LEADER_NOT_AVAILABLE
        for number, ((assigned, _, _), leadership) in items:
            if leadership is None and number not in unreadable:
                continue
            replicas: Replicas = assigned
            offline = dead.get(replicas)
            if offline is None:
                if len(dead) >= _REMEMBERED:
                    dead.clear()
                offline = dead[replicas] = tuple(replica for replica in replicas if replica not in listening)
            if failed and number in failed:
                bad = failed[number]
                offline = tuple(replica for replica in replicas if replica not in listening or replica in bad)
            leader, leader_epoch = NO_LEADER, -1
            isr: Replicas = ()
            if leadership is not None:
                leader, leader_epoch, isr, _, _, _, _ = leadership
            error = 0
            if not listening.get(leader):
                error, leader = unreachable if leader in listening else LEADER_NOT_AVAILABLE, NO_LEADER
            if version == 0:
                error, replicas, isr = self._of_old(error, replicas, isr)
            tail = _tail(version, offline) if offline else common_tail
            shape = (len(replicas), len(isr), len(tail))
            packer = packers.get(shape)
            if packer is None:
                packer = packers[shape] = _packer(*shape, version >= 7, version >= 9)
            pack, replicas_length, isr_length = packer
            if version >= 7:
                fragments.append(
                    pack(error, number, leader, leader_epoch, replicas_length, *replicas, isr_length, *isr, tail)
                )
            else:
                fragments.append(pack(error, number, leader, replicas_length, *replicas, isr_length, *isr, tail))
        return b"".join(fragments)

    def _of_old(self, error: int, replicas: Replicas, isr: Replicas) -> tuple[int, Replicas, Replicas]:
        """Leave out replicas that are not among the listed brokers: clients of version 0 fail on such a replica."""
        there = tuple(replica for replica in replicas if self._listening.get(replica))
        if not error and there != replicas:
            error = REPLICA_NOT_AVAILABLE
        return error, there, tuple(replica for replica in isr if replica in there)


@lru_cache(maxsize=4_096)
def _packer(replicas: int, isr: int, tail: int, leader_epoch: bool, flexible: bool) -> _Packer:
    """Build (pack, length of the replicas, length of the ISR) for partitions of one shape."""
    replicas_length = array_length(replicas, flexible=flexible)
    isr_length = array_length(isr, flexible=flexible)
    head = "hiii" if leader_epoch else "hii"
    layout = f">{head}{len(replicas_length)}s{replicas}i{len(isr_length)}s{isr}i{tail}s"
    return struct.Struct(layout).pack, replicas_length, isr_length


@lru_cache(maxsize=4_096)
def _tail(version: int, offline: Replicas) -> bytes:
    """Encode the fields of a partition after its ISR."""
    if version < 5:
        return b""
    flexible = version >= 9
    packed = array_length(len(offline), flexible=flexible) + struct.pack(f">{len(offline)}i", *offline)
    return packed + NO_TAGS if flexible else packed
