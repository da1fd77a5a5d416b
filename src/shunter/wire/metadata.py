"""The answer to Metadata: for a client that asks for everything, kio would hold up everybody else for about a second.

Source: Apache Kafka 3.9, message schema of Metadata; ZkMetadataCache for what stands in a partition.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from shunter.errors import ErrorCode, InvariantViolation
from shunter.model.broker import Broker
from shunter.model.partition import NO_LEADER, BrokerId, PartitionState, Replicas, TopicPartition
from shunter.wire.primitives import (
    INT16,
    INT32,
    NO_TAGS,
    NULL_UUID,
    array_length,
    compact_int32s,
    nullable_string,
    string,
    uuid,
)

OPERATIONS_OMITTED: Final = -(2**31)
"""Nobody asked which operations are authorized, or we can't tell."""

_Packer = tuple[Callable[..., bytes], bytes, bytes]


class MetadataTopic(NamedTuple):
    """A topic as a client is told of it. `name` may be null where a client asked by id; partitions as far as known."""

    name: str | None
    topic_id: UUID | None = None
    error: ErrorCode = ErrorCode.NONE
    internal: bool = False
    partitions: Sequence[tuple[int, PartitionState]] = ()


def metadata_parts(
    version: int,
    *,
    brokers: Sequence[Broker],
    listener: str,
    cluster_id: str,
    controller_id: BrokerId,
    topics: Collection[MetadataTopic],
    offline: Mapping[TopicPartition, Replicas],
) -> Iterator[bytes]:
    """Encode the body of a response to Metadata topic by topic, so that others can have a turn in between.

    A leader that the client can't reach on `listener` is told as none, with LEADER_NOT_AVAILABLE, as Apache does; a
    partition that never had a leader is left out.

    Args:
        version: 0 to 12.
        brokers: all that are live, ourselves too.
        listener: the one that the client came by; brokers without it are left out.
        cluster_id: from version 2 on.
        controller_id: from version 1 on.
        topics: with an error for those that are not served.
        offline: offline replicas, for partitions that have any; from version 5 on.

    Raises:
        InvariantViolation: a version that is not served, or a topic without a name below version 12.
    """
    if not 0 <= version <= 12:
        raise InvariantViolation("Metadata is served in versions 0 to 12", version=version)
    flexible = version >= 9
    tags = NO_TAGS if flexible else b""
    nodes = [(broker, endpoint) for broker in brokers for endpoint in broker.endpoints if endpoint.listener == listener]
    if version >= 3:
        yield INT32.pack(0)
    yield array_length(len(nodes), flexible=flexible)
    for broker, endpoint in nodes:
        yield INT32.pack(broker.id) + string(endpoint.host, flexible=flexible) + INT32.pack(endpoint.port)
        yield (nullable_string(broker.rack, flexible=flexible) if version >= 1 else b"") + tags
    if version >= 2:
        yield nullable_string(cluster_id, flexible=flexible)
    if version >= 1:
        yield INT32.pack(controller_id)
    yield array_length(len(topics), flexible=flexible)
    reachable = frozenset(broker.id for broker, _ in nodes)
    by_topic: dict[str, dict[int, Replicas]] = {}
    for (name, number), replicas in offline.items():
        by_topic.setdefault(name, {})[number] = replicas
    for topic in topics:
        yield _topic(version, topic, reachable, by_topic.get(topic.name or "", {}))
    if 8 <= version <= 10:
        yield INT32.pack(OPERATIONS_OMITTED)
    yield tags


def _topic(
    version: int, topic: MetadataTopic, reachable: Container[BrokerId], offline: Mapping[int, Replicas]
) -> bytes:
    flexible = version >= 9
    states = _partitions(version, topic.partitions, reachable, offline)
    parts = [INT16.pack(topic.error)]
    if version >= 12:
        parts.append(nullable_string(topic.name, flexible=True))
    elif topic.name is None:
        raise InvariantViolation("a topic has a name below version 12 of Metadata", version=version, topic=topic)
    else:
        parts.append(string(topic.name, flexible=flexible))
    if version >= 10:
        parts.append(uuid(topic.topic_id) if topic.topic_id else NULL_UUID)
    if version >= 1:
        parts.append(b"\x01" if topic.internal else b"\x00")
    parts.append(array_length(len(states), flexible=flexible))
    parts += states
    if version >= 8:
        parts.append(INT32.pack(OPERATIONS_OMITTED))
    if flexible:
        parts.append(NO_TAGS)
    return b"".join(parts)


def _partitions(
    version: int,
    partitions: Sequence[tuple[int, PartitionState]],
    reachable: Container[BrokerId],
    offline: Mapping[int, Replicas],
) -> list[bytes]:
    fragments: list[bytes] = []
    packers: dict[tuple[int, int, int], _Packer] = {}
    common_tail = _tail(version, ())
    for number, ((replicas, _, _), leadership) in partitions:
        if leadership is None:
            continue
        leader, leader_epoch, isr, _, _, _, _ = leadership
        error = 0
        if leader not in reachable:
            leader, error = NO_LEADER, 5
        tail = common_tail
        if offline and number in offline:
            tail = _tail(version, tuple(offline[number]))
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
    return fragments


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
    """Encode what follows the ISR."""
    if version >= 9:
        return compact_int32s(offline) + NO_TAGS
    if version >= 5:
        return INT32.pack(len(offline)) + struct.pack(f">{len(offline)}i", *offline)
    return b""
