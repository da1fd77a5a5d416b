"""Partition states as bytes, each encoded once.

UpdateMetadata and LeaderAndIsr begin a partition's state with the same fields: number, controller epoch, leader,
leader epoch, ISR, znode version, replicas. The fields after these (the tail) depend on few values: offline replicas in
one, adding, removing, new and recovering in the other. So the tail is encoded apart and remembered. One `struct.Struct`
per (ISR size, replica count, tail size) packs all fields in a single call.

A topic of a full UpdateMetadata is ONE bytes object, kept with the states that it was encoded from. If the states are
the same (the same objects, or equal ones), the bytes are used again. If a few states have changed, only these are
encoded anew and the rest is copied. The bytes of a topic are joined because an object per partition would cost as much
again as the 48 bytes that are in it.

Source: the KIP on the max broker epoch in control requests: memory follows partitions, not partitions times brokers.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from shunter.model.partition import PartitionState, Replicas, TopicPartition
from shunter.wire.primitives import NO_TAGS, array_length, string, uuid

OfflineReplicas = Mapping[int, Replicas]
"""One topic's offline replicas: partition number -> replicas. Other partitions are left out."""

NOBODY_OFFLINE: Final[OfflineReplicas] = {}
_SHAPES: Final = 4_096
_REENCODE_ALL: Final = 3
"""If more than one partition in three has changed, copying the rest in pieces costs more than it saves."""


class TopicStates(Protocol):
    """Some partitions of a topic, for one request."""

    @property
    def name(self) -> str:
        """The topic's name."""
        ...

    @property
    def topic_id(self) -> UUID | None:
        """None for a topic that has none (older than 2.8)."""
        ...

    @property
    def partitions(self) -> Sequence[tuple[int, PartitionState]]:
        """(number, state), in the order in which they are sent."""
        ...


class Layout(NamedTuple):
    """How a version writes topics: whether in compact forms, and whether with the topic's id."""

    flexible: bool
    topic_ids: bool


class CacheSize(NamedTuple):
    """The size of a cache. `held` is bytes of memory: pieces and their descriptions, without the shared states."""

    topics: int
    partitions: int
    held: int


_Packer = tuple[Callable[..., bytes], bytes, bytes]


@lru_cache(maxsize=_SHAPES)
def _packer(isr: int, replicas: int, tail: int, flexible: bool) -> _Packer:
    """Build (pack, length of the ISR, length of the replicas) for partition states of one shape."""
    isr_length = array_length(isr, flexible=flexible)
    replicas_length = array_length(replicas, flexible=flexible)
    layout = f">4i{len(isr_length)}s{isr}ii{len(replicas_length)}s{replicas}i{tail}s"
    return struct.Struct(layout).pack, isr_length, replicas_length


@lru_cache(maxsize=_SHAPES)
def _broker_ids(brokers: Replicas, flexible: bool) -> bytes:
    """Encode an array of broker ids."""
    return array_length(len(brokers), flexible=flexible) + struct.pack(f">{len(brokers)}i", *brokers)


@lru_cache(maxsize=_SHAPES)
def _metadata_tail(offline: Replicas, flexible: bool) -> bytes:
    """Encode the fields after the replicas in UpdateMetadata."""
    return _broker_ids(offline, flexible) + (NO_TAGS if flexible else b"")


@lru_cache(maxsize=_SHAPES)
def _leadership_tail(version: int, adding: Replicas, removing: Replicas, new: bool, recovering: bool) -> bytes:
    """Encode the fields after the replicas in LeaderAndIsr."""
    flexible = version >= 4
    parts = [_broker_ids(adding, flexible), _broker_ids(removing, flexible)] if version >= 3 else []
    parts.append(b"\x01" if new else b"\x00")
    if version >= 6:
        parts.append(b"\x01" if recovering else b"\x00")
    if flexible:
        parts.append(NO_TAGS)
    return b"".join(parts)


def metadata_states(
    partitions: Sequence[tuple[int, PartitionState]], offline: OfflineReplicas, *, flexible: bool
) -> list[bytes]:
    """Encode each partition's state for UpdateMetadata; b"" for a partition that never had a leader.

    Apache leaves such partitions out of its requests too.
    """
    fragments: list[bytes] = []
    add = fragments.append
    packers: dict[tuple[int, int, int], _Packer] = {}
    common_tail = _metadata_tail((), flexible)
    common_size = len(common_tail)
    for number, ((replicas, _, _), leadership) in partitions:
        if leadership is None:
            add(b"")
            continue
        leader, leader_epoch, isr, partition_epoch, controller_epoch, _, _ = leadership
        tail, size = common_tail, common_size
        if offline and number in offline:
            tail = _metadata_tail(tuple(offline[number]), flexible)
            size = len(tail)
        shape = (len(isr), len(replicas), size)
        packer = packers.get(shape)
        if packer is None:
            packer = packers[shape] = _packer(*shape, flexible)
        pack, isr_length, replicas_length = packer
        add(
            pack(
                number, controller_epoch, leader, leader_epoch,
                isr_length, *isr, partition_epoch, replicas_length, *replicas, tail,
            )
        )  # fmt: skip
    return fragments


def leadership_parts(
    topics: Collection[TopicStates], new: Collection[TopicPartition], version: int, heads: TopicNames
) -> list[bytes]:
    """Encode topics and their partitions' states for LeaderAndIsr; states that never had a leader are left out.

    Encoded states are not kept: encoding a state takes about a microsecond, and only a few brokers get it.
    """
    parts: list[bytes] = []
    add = parts.append
    packers: dict[tuple[int, int, int], _Packer] = {}
    flexible = version >= 4
    tags = NO_TAGS if flexible else b""
    common_tail = _leadership_tail(version, (), (), False, False)
    tail_size = len(common_tail)
    for topic in topics:
        name = topic.name
        add(heads.of(name, topic.topic_id))
        place = len(parts)
        add(b"")
        for number, ((replicas, adding, removing), leadership) in topic.partitions:
            if leadership is None:
                continue
            leader, leader_epoch, isr, partition_epoch, controller_epoch, recovering, _ = leadership
            tail = common_tail
            shape = (len(isr), len(replicas), tail_size)
            # A plain tuple equals and hashes like a TopicPartition and is made several times faster.
            created = new and (name, number) in new
            if created or recovering or adding or removing:
                tail = _leadership_tail(version, adding, removing, bool(created), recovering)
                shape = (len(isr), len(replicas), len(tail))
            packer = packers.get(shape)
            if packer is None:
                packer = packers[shape] = _packer(*shape, flexible)
            pack, isr_length, replicas_length = packer
            add(
                pack(
                    number, controller_epoch, leader, leader_epoch,
                    isr_length, *isr, partition_epoch, replicas_length, *replicas, tail,
                )
            )  # fmt: skip
        parts[place] = array_length(len(parts) - place - 1, flexible=flexible)
        add(tags)
    return parts


class TopicNames:
    """Names and ids of topics as bytes: a LeaderAndIsr for 1,500 partitions names nearly as many topics.

    Bounded by the topics of the cluster, because `forget` drops deleted topics.
    """

    __slots__ = ("_encoded", "_layout")

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._encoded: dict[str, tuple[UUID | None, bytes]] = {}

    def of(self, name: str, topic_id: UUID | None) -> bytes:
        """Encode a topic's name, and its id if the layout has ids."""
        known = self._encoded.get(name)
        if known is not None and known[0] is topic_id:
            return known[1]
        identity = uuid(topic_id) if self._layout.topic_ids else b""
        encoded = string(name, flexible=self._layout.flexible) + identity
        self._encoded[name] = (topic_id, encoded)
        return encoded

    def forget(self, name: str) -> None:
        """Drop what is kept of a topic."""
        self._encoded.pop(name, None)


def topic_head(name: str, topic_id: UUID | None, count: int, layout: Layout) -> bytes:
    """Encode the part of a topic before its partition states."""
    flexible = layout.flexible
    identity = uuid(topic_id) if layout.topic_ids else b""
    return string(name, flexible=flexible) + identity + array_length(count, flexible=flexible)


class _Piece:
    """One topic of an UpdateMetadata, and the values that it was encoded from.

    Invariant: `body` is a head of `head_size` bytes, then a fragment for each element of `sizes`, then the tags if any.
    """

    __slots__ = ("body", "head_size", "numbers", "offline", "sizes", "states", "topic_id")

    def __init__(self, topic: TopicStates, numbers: tuple[int, ...], states: tuple[PartitionState, ...]) -> None:
        self.topic_id = topic.topic_id
        self.numbers = numbers
        self.states = states
        self.offline: OfflineReplicas = NOBODY_OFFLINE
        self.sizes = array("I")
        self.head_size = 0
        self.body = b""


class FragmentCache:
    """Encoded topics of UpdateMetadata, kept as long as their partitions stay the same.

    Memory: per partition its fragment (48 bytes at three replicas), a reference to its state, to its number, and four
    bytes of size. Bounded by the topics of the cluster, because `forget` drops deleted topics. The cache can be cleared
    at any time.
    """

    __slots__ = ("_names", "_pieces")

    def __init__(self) -> None:
        self._pieces: dict[Layout, dict[str, _Piece]] = {}
        self._names: dict[Layout, TopicNames] = {}

    def metadata_topics(
        self, topics: Iterable[TopicStates], offline: Mapping[str, OfflineReplicas], layout: Layout
    ) -> Iterator[bytes]:
        """Encode each topic, or yield the kept bytes if its states are the same as before.

        A slice with fewer partitions than are kept is encoded and not kept: it would replace the whole topic.
        """
        pieces = self._pieces.setdefault(layout, {})
        for topic in topics:
            name = topic.name
            partitions = topic.partitions
            gone = offline.get(name, NOBODY_OFFLINE)
            piece = pieces.get(name)
            if piece is not None and len(partitions) < len(piece.numbers) and topic.topic_id == piece.topic_id:
                yield encode_metadata_topic(topic, gone, layout)
                continue
            numbers = tuple([number for number, _ in partitions])
            states = tuple([state for _, state in partitions])
            if piece is None or piece.numbers != numbers or piece.topic_id != topic.topic_id:
                piece = pieces[name] = _Piece(topic, numbers, states)
                _write(piece, topic, gone, layout)
            elif piece.states != states or piece.offline != gone:
                _mend(piece, topic, states, gone, layout)
            yield piece.body

    def names(self, layout: Layout) -> TopicNames:
        """Return the names and ids of topics as bytes, in a layout."""
        found = self._names.get(layout)
        if found is None:
            found = self._names[layout] = TopicNames(layout)
        return found

    def forget(self, topic: str) -> None:
        """Drop what is kept of a topic."""
        for pieces in self._pieces.values():
            pieces.pop(topic, None)
        for names in self._names.values():
            names.forget(topic)

    def clear(self) -> None:
        """Drop everything."""
        self._pieces.clear()
        self._names.clear()

    def size(self) -> CacheSize:
        """Count the kept topics of UpdateMetadata. Cost: O(topics)."""
        everything = [piece for pieces in self._pieces.values() for piece in pieces.values()]
        held = sum(
            sys.getsizeof(piece)
            + sys.getsizeof(piece.body)
            + sys.getsizeof(piece.sizes)
            + sys.getsizeof(piece.states)
            + sys.getsizeof(piece.numbers)
            for piece in everything
        )
        return CacheSize(len(everything), sum(len(piece.numbers) for piece in everything), held)


def encode_metadata_topic(topic: TopicStates, offline: OfflineReplicas, layout: Layout) -> bytes:
    """Encode a topic of an UpdateMetadata and keep nothing."""
    return b"".join(_metadata_parts(topic, offline, layout))


def _metadata_parts(topic: TopicStates, offline: OfflineReplicas, layout: Layout) -> list[bytes]:
    """Encode a topic of an UpdateMetadata: the head, a fragment for each partition, and the tags."""
    fragments = metadata_states(topic.partitions, offline, flexible=layout.flexible)
    head = topic_head(topic.name, topic.topic_id, len(fragments) - fragments.count(b""), layout)
    return [head, *fragments, NO_TAGS if layout.flexible else b""]


def _write(piece: _Piece, topic: TopicStates, offline: OfflineReplicas, layout: Layout) -> None:
    """Encode all partitions of a piece."""
    parts = _metadata_parts(topic, offline, layout)
    piece.offline = offline
    piece.sizes = array("I", map(len, parts[1:-1]))
    piece.head_size = len(parts[0])
    piece.body = b"".join(parts)


def _mend(
    piece: _Piece, topic: TopicStates, states: tuple[PartitionState, ...], offline: OfflineReplicas, layout: Layout
) -> None:
    """Encode the partitions that have changed and copy the rest."""
    changed = [
        position
        for position, (old, new) in enumerate(zip(piece.states, states, strict=True))
        if old is not new and old != new
    ]
    if piece.offline != offline:
        moved = {
            position
            for position, number in enumerate(piece.numbers)
            if piece.offline.get(number) != offline.get(number)
        }
        changed = sorted(moved.union(changed))
    piece.states = states
    if len(changed) * _REENCODE_ALL > len(states):
        _write(piece, topic, offline, layout)
        return
    starts = list(accumulate(piece.sizes, initial=piece.head_size))
    fragments = metadata_states([topic.partitions[position] for position in changed], offline, flexible=layout.flexible)
    sizes = piece.sizes
    parts: list[bytes] = [b""]
    copied = piece.head_size
    for position, fragment in zip(changed, fragments, strict=True):
        parts.append(piece.body[copied : starts[position]])
        parts.append(fragment)
        copied = starts[position + 1]
        sizes[position] = len(fragment)
    parts.append(piece.body[copied:])
    parts[0] = topic_head(topic.name, topic.topic_id, len(states) - sizes.count(0), layout)
    piece.offline = offline
    piece.head_size = len(parts[0])
    piece.body = b"".join(parts)
