"""The answer to Metadata is byte for byte what kio encodes, in every version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import kio_peer as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode

from shunter.errors import ErrorCode, InvariantViolation
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from shunter.wire.metadata import OPERATIONS_OMITTED, MetadataTopic, metadata_parts

topics = st.builds(
    MetadataTopic,
    peer.names,
    peer.topic_ids,
    st.sampled_from([ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    st.booleans(),
    peer.partition_lists,
)
topic_lists = st.lists(topics, max_size=4, unique_by=lambda one: one.name)


def by_kio(version: int, brokers: Any, listener: str, told: Any, offline: Any, controller_id: int) -> bytes:
    of = peer.entities(3, version, response=True)
    nodes = [(broker, point) for broker in brokers for point in broker.endpoints if point.listener == listener]
    reachable = {broker.id for broker, _ in nodes}

    def partition(topic: MetadataTopic, number: int, state: PartitionState) -> Any:
        leadership = state.leadership
        assert leadership is not None
        known = leadership.leader in reachable
        return peer.made(
            of.MetadataResponsePartition,
            error_code=KioErrorCode(0 if known else 5),
            partition_index=number,
            leader_id=leadership.leader if known else -1,
            leader_epoch=leadership.leader_epoch,
            replica_nodes=state.assignment.replicas,
            isr_nodes=leadership.isr,
            offline_replicas=offline.get(TopicPartition(topic.name or "", number), ()),
        )

    return peer.written(
        peer.made(
            of.MetadataResponse,
            throttle_time=timedelta(),
            brokers=tuple(
                peer.made(
                    of.MetadataResponseBroker, node_id=broker.id, host=point.host, port=point.port, rack=broker.rack
                )
                for broker, point in nodes
            ),
            cluster_id="cluster",
            controller_id=controller_id,
            cluster_authorized_operations=OPERATIONS_OMITTED,
            topics=tuple(
                peer.made(
                    of.MetadataResponseTopic,
                    error_code=KioErrorCode(int(topic.error)),
                    name=topic.name,
                    topic_id=topic.topic_id,
                    is_internal=topic.internal,
                    partitions=tuple(
                        partition(topic, number, state) for number, state in topic.partitions if state.leadership
                    ),
                    topic_authorized_operations=OPERATIONS_OMITTED,
                )
                for topic in told
            ),
        )
    )


@pytest.mark.parametrize("version", range(13))
@peer.FEW
@given(data=st.data(), brokers=peer.broker_lists, told=topic_lists, controller_id=peer.broker_ids)
def test_every_version_is_kios(version: int, data: Any, brokers: Any, told: Any, controller_id: int) -> None:
    places = [TopicPartition(topic.name or "", number) for topic in told for number, _ in topic.partitions]
    offline = data.draw(st.dictionaries(st.sampled_from(places), peer.replica_lists) if places else st.just({}))
    listeners = sorted({point.listener for broker in brokers for point in broker.endpoints}) or ["CLIENT"]
    listener = data.draw(st.sampled_from(listeners))
    got = metadata_parts(
        version,
        brokers=brokers,
        listener=listener,
        cluster_id="cluster",
        controller_id=controller_id,
        topics=told,
        offline=offline,
    )
    assert b"".join(got) == by_kio(version, brokers, listener, told, offline, controller_id)


def test_a_reachable_leader_is_told_and_another_is_not() -> None:
    brokers = [Broker(1, 1, (Endpoint("L", "PLAINTEXT", "h", 9),)), Broker(2, 1, (Endpoint("X", "PLAINTEXT", "h", 9),))]
    states = tuple(
        (leader, PartitionState(ReplicaAssignment((1, 2)), LeaderAndIsr(leader, 0, (1, 2)))) for leader in (1, 2)
    )
    told = [MetadataTopic("t", partitions=states)]
    asked: dict[str, Any] = {"brokers": brokers, "listener": "L", "cluster_id": "c", "controller_id": 1, "offline": {}}
    body = b"".join(metadata_parts(12, topics=told, **asked))
    assert body == by_kio(12, brokers, "L", told, {}, 1).replace(b"\x08cluster", b"\x02c")
    assert bytes.fromhex("0000 00000001 00000001 00000000") in body
    assert bytes.fromhex("0005 00000002 ffffffff 00000000") in body


def test_a_topic_without_a_name_needs_version_12() -> None:
    asked: dict[str, Any] = {"brokers": [], "listener": "L", "cluster_id": "c", "controller_id": 1, "offline": {}}
    unknown = [MetadataTopic(None, peer.UUID(int=4), ErrorCode.UNKNOWN_TOPIC_ID)]
    assert b"".join(metadata_parts(12, topics=unknown, **asked)).count(peer.UUID(int=4).bytes) == 1
    with pytest.raises(InvariantViolation, match="has a name"):
        list(metadata_parts(11, topics=unknown, **asked))
    with pytest.raises(InvariantViolation, match="versions 0 to 12"):
        list(metadata_parts(13, topics=[], **asked))
