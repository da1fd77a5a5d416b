"""A second encoder to compare with: it encodes the same domain values by kio's entities, field by field."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.serial import entity_writer
from kio.static.constants import EntityType

from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment, Replicas, TopicPartition

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""No time limit for an example: a busy machine is slow without a bug."""

FEW = settings(PATIENT, max_examples=max(10, settings().max_examples // 5))
"""For tests that run once per version: a fifth of the profile's examples each."""

PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class Slice(NamedTuple):
    """A topic's slice, as the core makes them."""

    name: str
    topic_id: UUID | None
    partitions: tuple[tuple[int, PartitionState], ...]


class Stopped(NamedTuple):
    """A replica to stop, as the core makes them."""

    tp: TopicPartition
    leader_epoch: int
    delete: bool


def written(message: Any) -> bytes:
    """Encode by kio."""
    with io.BytesIO() as buffer:
        entity_writer(type(message))(buffer, message)
        return buffer.getvalue()


def entities(api_key: int, version: int, *, response: bool = False) -> Any:
    """Load kio's module of one API version."""
    return load_payload_module(api_key, version, EntityType.response if response else EntityType.request)


def made(entity: Any, **fields: Any) -> Any:
    """Make an entity of those fields that its version has."""
    known = entity.__dataclass_fields__
    return entity(**{name: value for name, value in fields.items() if name in known})


def update_metadata(
    version: int,
    topics: Sequence[Slice],
    live: Sequence[Broker],
    offline: Mapping[TopicPartition, Replicas],
    **head: Any,
) -> Any:
    """An UpdateMetadata as kio's entity."""
    of = entities(6, version)
    return made(
        of.UpdateMetadataRequest,
        **head,
        topic_states=tuple(
            made(
                of.UpdateMetadataTopicState,
                topic_name=topic.name,
                topic_id=topic.topic_id,
                partition_states=tuple(
                    of.UpdateMetadataPartitionState(
                        partition_index=number,
                        controller_epoch=state.leadership.controller_epoch,
                        leader=state.leadership.leader,
                        leader_epoch=state.leadership.leader_epoch,
                        isr=state.leadership.isr,
                        zk_version=state.leadership.partition_epoch,
                        replicas=state.assignment.replicas,
                        offline_replicas=offline.get(TopicPartition(topic.name, number), ()),
                    )
                    for number, state in topic.partitions
                    if state.leadership is not None
                ),
            )
            for topic in topics
        ),
        live_brokers=tuple(
            of.UpdateMetadataBroker(
                id_=broker.id,
                rack=broker.rack,
                endpoints=tuple(
                    of.UpdateMetadataEndpoint(
                        port=endpoint.port,
                        host=endpoint.host,
                        listener=endpoint.listener,
                        security_protocol=PROTOCOLS[endpoint.security_protocol],
                    )
                    for endpoint in broker.endpoints
                ),
            )
            for broker in live
        ),
    )


def leader_and_isr(
    version: int,
    topics: Sequence[Slice],
    leaders: Sequence[Broker],
    listener: str,
    new: frozenset[TopicPartition],
    **head: Any,
) -> Any:
    """A LeaderAndIsr as kio's entity."""
    of = entities(4, version)
    return made(
        of.LeaderAndIsrRequest,
        **head,
        topic_states=tuple(
            made(
                of.LeaderAndIsrTopicState,
                topic_name=topic.name,
                topic_id=topic.topic_id,
                partition_states=tuple(
                    made(
                        of.LeaderAndIsrPartitionState,
                        partition_index=number,
                        controller_epoch=state.leadership.controller_epoch,
                        leader=state.leadership.leader,
                        leader_epoch=state.leadership.leader_epoch,
                        isr=state.leadership.isr,
                        partition_epoch=state.leadership.partition_epoch,
                        replicas=state.assignment.replicas,
                        adding_replicas=state.assignment.adding,
                        removing_replicas=state.assignment.removing,
                        is_new=TopicPartition(topic.name, number) in new,
                        leader_recovery_state=int(state.leadership.recovering),
                    )
                    for number, state in topic.partitions
                    if state.leadership is not None
                ),
            )
            for topic in topics
        ),
        live_leaders=tuple(
            of.LeaderAndIsrLiveLeader(broker_id=broker.id, host_name=endpoint.host, port=endpoint.port)
            for broker in leaders
            for endpoint in broker.endpoints
            if endpoint.listener == listener
        ),
    )


def stop_replica(version: int, partitions: Sequence[Stopped], **head: Any) -> Any:
    """A StopReplica as kio's entity; below version 3 all partitions have the same `delete`."""
    of = entities(5, version)
    by_topic: dict[str, list[Stopped]] = {}
    for stopped in partitions:
        by_topic.setdefault(stopped.tp.topic, []).append(stopped)
    if version < 3:
        return of.StopReplicaRequest(
            **head,
            delete_partitions=bool(partitions) and partitions[0].delete,
            topics=tuple(
                of.StopReplicaTopicV1(name=name, partition_indexes=tuple(stopped.tp.partition for stopped in some))
                for name, some in by_topic.items()
            ),
        )
    return of.StopReplicaRequest(
        **head,
        topic_states=tuple(
            of.StopReplicaTopicState(
                topic_name=name,
                partition_states=tuple(
                    of.StopReplicaPartitionState(
                        partition_index=stopped.tp.partition,
                        leader_epoch=stopped.leader_epoch,
                        delete_partition=stopped.delete,
                    )
                    for stopped in some
                ),
            )
            for name, some in by_topic.items()
        ),
    )


int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30) | st.sampled_from(
    ["t", "topic-0", "x" * 200]
)
broker_ids = st.integers(0, 2**31 - 1)
replica_lists = st.lists(broker_ids, max_size=5).map(tuple) | st.just(tuple(range(130)))
topic_ids = st.none() | st.uuids().filter(lambda value: value.int != 0)
assignments = st.builds(ReplicaAssignment, replica_lists, replica_lists, replica_lists)
leaderships = st.builds(
    LeaderAndIsr,
    leader=st.sampled_from([-2, -1]) | broker_ids,
    leader_epoch=int32s,
    isr=replica_lists,
    partition_epoch=int32s,
    controller_epoch=int32s,
    recovering=st.booleans(),
)
states = st.builds(PartitionState, assignments, st.none() | leaderships)
partition_lists = st.dictionaries(st.integers(0, 2**31 - 1), states, max_size=6).map(lambda some: tuple(some.items()))
topic_lists = st.lists(
    st.builds(Slice, names, topic_ids, partition_lists), max_size=4, unique_by=lambda some: some.name
)
endpoints = st.builds(Endpoint, names, st.sampled_from(sorted(PROTOCOLS)), names, st.integers(0, 65_535))
brokers = st.builds(
    Broker,
    broker_ids,
    int64s,
    st.lists(endpoints, max_size=3, unique_by=lambda some: some.listener).map(tuple),
    st.none() | names,
)
broker_lists = st.lists(brokers, max_size=4)
