"""The controller's requests to brokers: the same bytes as kio's encoder makes, in a tenth of its time or less.

A body is made once and serves every broker of a version. Only the frame's head differs by broker, because it has the
correlation id (`framing.request_frame_head`). The `Type` of UpdateMetadata is a tagged field, and is left out as an
Apache controller does.

Source: Apache Kafka 3.9, message schemas of LeaderAndIsr, UpdateMetadata and StopReplica; ControllerChannelManager.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

from shunter.errors import InvariantViolation
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import Replicas, TopicPartition
from shunter.wire.fragments import (
    NOBODY_OFFLINE,
    FragmentCache,
    Layout,
    TopicNames,
    TopicStates,
    encode_metadata_topic,
    leadership_parts,
)
from shunter.wire.primitives import INT32, NO_TAGS, array_length, nullable_string, string

_EPOCHS: Final = struct.Struct(">iq")
_STOPPED_TAGGED: Final = struct.Struct(">ii?b")

_INCREMENTAL: Final = b"\x01"
_FULL: Final = b"\x02"
_BY_ZOOKEEPER: Final = b"\x00"
"""The field isKRaftController."""

_SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class StoppedReplica(Protocol):
    """One replica to stop, and to delete if `delete` says so."""

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The partition's leader epoch; -2 if the topic is being deleted."""
        ...

    @property
    def delete(self) -> bool:
        """Whether the broker deletes the replica's log too."""
        ...


def live_brokers_fragment(version: int, brokers: Sequence[Broker]) -> bytes:
    """Encode the live brokers of an UpdateMetadata: one fragment for all requests until the set of brokers changes.

    Args:
        version: of UpdateMetadata, 5 to 8.
        brokers: all live brokers, with all their endpoints.

    Raises:
        InvariantViolation: a version that is not served, or a security protocol that Kafka does not have.
    """
    flexible = _metadata_layout(version).flexible
    tags = NO_TAGS if flexible else b""
    parts = [array_length(len(brokers), flexible=flexible)]
    for broker in brokers:
        parts.append(INT32.pack(broker.id))
        parts.append(array_length(len(broker.endpoints), flexible=flexible))
        for endpoint in broker.endpoints:
            parts.append(_endpoint(endpoint, flexible=flexible))
            parts.append(tags)
        parts.append(nullable_string(broker.rack, flexible=flexible))
        parts.append(tags)
    return b"".join(parts)


def update_metadata_parts(
    version: int,
    *,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    topics: Collection[TopicStates],
    live: bytes,
    offline: Mapping[TopicPartition, Replicas],
    cache: FragmentCache | None,
) -> Iterator[bytes]:
    """Encode an UpdateMetadata topic by topic, so that the caller can let other tasks run in between.

    The joined parts are the body.

    Args:
        version: 5 to 8.
        controller_id: this controller's broker id.
        controller_epoch: this controller's.
        broker_epoch: the greatest epoch of all brokers, so that the body serves each of them.
        topics: partitions that never had a leader are left out, as Apache does.
        live: `live_brokers_fragment` of the SAME version. It always has all brokers, because a broker replaces its list
            by this one.
        offline: offline replicas, for partitions that have any.
        cache: keeps the topics for the next request; None keeps nothing.

    Raises:
        InvariantViolation: a version that is not served.
    """
    layout = _metadata_layout(version)
    kraft = _BY_ZOOKEEPER if version >= 8 else b""
    yield INT32.pack(controller_id) + kraft + _EPOCHS.pack(controller_epoch, broker_epoch)
    yield array_length(len(topics), flexible=layout.flexible)
    by_topic: dict[str, dict[int, Replicas]] = {}
    for (name, number), replicas in offline.items():
        by_topic.setdefault(name, {})[number] = replicas
    if cache is None:
        for topic in topics:
            yield encode_metadata_topic(topic, by_topic.get(topic.name, NOBODY_OFFLINE), layout)
    else:
        yield from cache.metadata_topics(topics, by_topic, layout)
    yield live
    if layout.flexible:
        yield NO_TAGS


def leader_and_isr_body(
    version: int,
    *,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    leaders: Sequence[Broker],
    listener: str,
    topics: Collection[TopicStates],
    new: Collection[TopicPartition],
    full: bool,
    cache: FragmentCache | None,
) -> bytes:
    """Encode a LeaderAndIsr for one broker.

    Args:
        version: 2 to 7.
        controller_id: this controller's broker id.
        controller_epoch: this controller's. Each state has in addition the controller epoch of its last write.
        broker_epoch: the greatest epoch of all brokers, or the receiver's own.
        leaders: live brokers that lead any of the partitions.
        listener: name of the inter-broker listener. The request has each leader's endpoint of this listener. A leader
            without such an endpoint is left out: no broker could reach it, and brokers from 2.8 on use their metadata.
        topics: the broker's partitions; those that never had a leader are left out.
        new: partitions that the broker must create.
        full: whether these are all partitions that the broker hosts (Type 2) or a part (Type 1); from version 5 on.
        cache: keeps the topics' names for the next broker; None keeps nothing.

    Raises:
        InvariantViolation: a version that is not served.
    """
    if not 2 <= version <= 7:
        raise InvariantViolation("LeaderAndIsr is served in versions 2 to 7", version=version)
    flexible = version >= 4
    tags = NO_TAGS if flexible else b""
    layout = Layout(flexible, version >= 5)
    parts = [INT32.pack(controller_id)]
    if version >= 7:
        parts.append(_BY_ZOOKEEPER)
    parts.append(_EPOCHS.pack(controller_epoch, broker_epoch))
    if version >= 5:
        parts.append(_FULL if full else _INCREMENTAL)
    parts.append(array_length(len(topics), flexible=flexible))
    names = TopicNames(layout) if cache is None else cache.names(layout)
    parts += leadership_parts(topics, new, version, names)
    nodes = [
        INT32.pack(broker.id) + string(endpoint.host, flexible=flexible) + INT32.pack(endpoint.port) + tags
        for broker in leaders
        for endpoint in broker.endpoints
        if endpoint.listener == listener
    ]
    parts.append(array_length(len(nodes), flexible=flexible))
    parts += nodes
    parts.append(tags)
    return b"".join(parts)


def stop_replica_body(
    version: int,
    *,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    partitions: Sequence[StoppedReplica],
) -> bytes:
    """Encode a StopReplica for one broker; partitions of a topic are put together.

    Args:
        version: 1 to 4. Below 3 there is no leader epoch, and one flag says whether all partitions are deleted: pass
            only partitions with the same `delete` (`stop_replica_bodies` does that).
        controller_id: this controller's broker id.
        controller_epoch: this controller's.
        broker_epoch: the greatest epoch of all brokers, or the receiver's own.
        partitions: replicas of the broker.

    Raises:
        InvariantViolation: a version that is not served, or partitions of two kinds below version 3.
    """
    if not 1 <= version <= 4:
        raise InvariantViolation("StopReplica is served in versions 1 to 4", version=version)
    flexible = version >= 2
    tags = NO_TAGS if flexible else b""
    kraft = _BY_ZOOKEEPER if version >= 4 else b""
    parts = [INT32.pack(controller_id), kraft, _EPOCHS.pack(controller_epoch, broker_epoch)]
    by_topic: dict[str, list[StoppedReplica]] = {}
    for stopped in partitions:
        by_topic.setdefault(stopped.tp.topic, []).append(stopped)
    if version < 3:
        kinds = {stopped.delete for stopped in partitions}
        if len(kinds) > 1:
            raise InvariantViolation("StopReplica below version 3 deletes all partitions or none", version=version)
        parts.append(b"\x01" if True in kinds else b"\x00")
    parts.append(array_length(len(by_topic), flexible=flexible))
    for name, stopping in by_topic.items():
        parts.append(string(name, flexible=flexible))
        if version < 3:
            parts.append(array_length(len(stopping), flexible=flexible))
            parts += [INT32.pack(stopped.tp.partition) for stopped in stopping]
        else:
            parts.append(array_length(len(stopping), flexible=True))
            parts += [
                _STOPPED_TAGGED.pack(stopped.tp.partition, stopped.leader_epoch, stopped.delete, 0)
                for stopped in stopping
            ]
        parts.append(tags)
    parts.append(tags)
    return b"".join(parts)


def stop_replica_bodies(
    version: int,
    *,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    partitions: Sequence[StoppedReplica],
) -> tuple[bytes, ...]:
    """Encode as many StopReplica as the version needs: two below version 3 if some replicas are deleted and some not.

    The request that deletes goes first, as from an Apache controller.
    """
    groups = [partitions]
    if version < 3:
        deleted = [stopped for stopped in partitions if stopped.delete]
        kept = [stopped for stopped in partitions if not stopped.delete]
        groups = [group for group in (deleted, kept) if group]
    return tuple(
        stop_replica_body(
            version,
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            partitions=group,
        )
        for group in groups
    )


def _metadata_layout(version: int) -> Layout:
    if not 5 <= version <= 8:
        raise InvariantViolation("UpdateMetadata is served in versions 5 to 8", version=version)
    return Layout(version >= 6, version >= 7)


def _endpoint(endpoint: Endpoint, *, flexible: bool) -> bytes:
    protocol = _SECURITY_PROTOCOLS.get(endpoint.security_protocol)
    if protocol is None:
        raise InvariantViolation("an endpoint's security protocol is one of Kafka's four", endpoint=endpoint)
    return b"".join(
        (
            INT32.pack(endpoint.port),
            string(endpoint.host, flexible=flexible),
            string(endpoint.listener, flexible=flexible),
            protocol.to_bytes(2, "big"),
        )
    )
