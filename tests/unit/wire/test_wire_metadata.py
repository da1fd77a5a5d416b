"""The answer to Metadata has the same bytes as kio's encoding, in every version, whichever of its pieces were kept."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import kio_peer as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode

from shunter.errors import ErrorCode, InvariantViolation
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment
from shunter.wire.metadata import (
    NONE_UNREADABLE,
    NOTHING_FAILED,
    OPERATIONS_OMITTED,
    PIECE_PARTITIONS,
    Audience,
    MetadataPieces,
    listening_brokers,
    metadata_head,
    metadata_tail,
    unserved_topic,
)


@dataclass
class Known:
    name: str
    topic_id: UUID | None
    partitions: dict[int, PartitionState]


known_topics = st.builds(Known, peer.names, peer.topic_ids, peer.partition_lists.map(dict))
topic_lists = st.lists(known_topics, max_size=4, unique_by=lambda one: one.name)


def by_kio(
    version: int,
    brokers: Any,
    listener: str,
    told: Any,
    failed: Mapping[tuple[str, int], Any],
    operations: int,
    unreadable: Collection[int] = NONE_UNREADABLE,
) -> bytes:
    of = peer.entities(3, version, response=True)
    nodes = [(broker, point) for broker in brokers for point in broker.endpoints if point.listener == listener]
    live = {broker.id for broker in brokers}
    reachable = {broker.id for broker, _ in nodes}

    def partition(topic: Known, number: int, state: PartitionState) -> Any:
        leader = state.leadership.leader if state.leadership else -1
        isr = state.leadership.isr if state.leadership else ()
        replicas = state.assignment.replicas
        error = 0
        if leader not in reachable:
            error, leader = 72 if leader in live and version >= 6 else 5, -1
        bad = failed.get((topic.name, number), ())
        if version == 0:
            seen = tuple(one for one in replicas if one in reachable)
            error = 9 if not error and seen != replicas else error
            replicas, isr = seen, tuple(one for one in isr if one in reachable and one in replicas)
        return peer.made(
            of.MetadataResponsePartition,
            error_code=KioErrorCode(error),
            partition_index=number,
            leader_id=leader,
            leader_epoch=state.leadership.leader_epoch if state.leadership else -1,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=tuple(one for one in replicas if one not in live or one in bad),
        )

    made_of_brokers = tuple(
        peer.made(of.MetadataResponseBroker, node_id=broker.id, host=point.host, port=point.port, rack=broker.rack)
        for broker, point in nodes
    )
    made_of_topics = tuple(
        peer.made(
            of.MetadataResponseTopic,
            error_code=KioErrorCode(0),
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name == "__consumer_offsets",
            partitions=tuple(
                partition(topic, number, state)
                for number, state in sorted(topic.partitions.items())
                if state.leadership is not None or number in unreadable
            ),
            topic_authorized_operations=operations,
        )
        for topic in told
    )
    return peer.written(
        peer.made(
            of.MetadataResponse,
            throttle_time=timedelta(),
            brokers=made_of_brokers,
            cluster_id="cluster",
            controller_id=7,
            cluster_authorized_operations=OPERATIONS_OMITTED,
            topics=made_of_topics,
        )
    )


def by_us(
    pieces: MetadataPieces,
    brokers: Any,
    told: Any,
    failed: Mapping[tuple[str, int], Any],
    unreadable: Collection[int] = NONE_UNREADABLE,
) -> bytes:
    version, listener, _ = pieces.audience
    pieces.hear(listening_brokers(brokers, listener))
    head = metadata_head(
        version, brokers=brokers, listener=listener, cluster_id="cluster", controller_id=7, topics=len(told)
    )
    body = [head]
    for topic in told:
        bad_here = {number: bad for (name, number), bad in failed.items() if name == topic.name}
        body += pieces.topic(topic, bad_here, unreadable)
    return b"".join((*body, metadata_tail(version)))


@pytest.mark.parametrize("version", range(13))
@peer.FEW
@given(data=st.data(), brokers=peer.broker_lists, told=topic_lists)
def test_every_version_is_kios_cold_and_warm(version: int, data: Any, brokers: Any, told: list[Known]) -> None:
    listeners = sorted({point.listener for broker in brokers for point in broker.endpoints}) or ["CLIENT"]
    listener = data.draw(st.sampled_from(listeners))
    operations = data.draw(st.sampled_from([OPERATIONS_OMITTED, 3576]))
    pieces = MetadataPieces(Audience(version, listener, operations), {"__consumer_offsets"})
    places = [(topic.name, number) for topic in told for number in topic.partitions]
    for _ in range(3):
        failed = data.draw(
            st.dictionaries(st.sampled_from(places), st.frozensets(peer.broker_ids)) if places else st.just({})
        )
        unreadable = frozenset(data.draw(st.sets(st.sampled_from([number for _, number in places])))) if places else ()
        expected = by_kio(version, brokers, listener, told, failed, operations, unreadable)
        assert by_us(pieces, brokers, told, failed, unreadable) == expected
        assert by_us(pieces, brokers, told, failed, unreadable) == expected
        # What may happen between two answers: a state is replaced, a broker goes, an id is given, a topic is made anew.
        if places:
            name, number = data.draw(st.sampled_from(places))
            (topic,) = [one for one in told if one.name == name]
            ((_, state),) = data.draw(peer.partition_lists.filter(bool).map(lambda states: states[:1]))
            topic.partitions[number] = state
        if data.draw(st.booleans()):
            brokers = brokers[1:]
        if told and data.draw(st.booleans()):
            told[0].topic_id = UUID(int=data.draw(st.integers(1, 9)))
        if told and data.draw(st.booleans()):
            told[-1] = Known(told[-1].name, told[-1].topic_id, dict(told[-1].partitions))


def state(leader: int, epoch: int = 0) -> PartitionState:
    return PartitionState(ReplicaAssignment((1, 2)), LeaderAndIsr(leader, epoch, (1, 2)))


def test_of_a_large_topic_only_the_piece_with_the_change_is_made_anew() -> None:
    count = 3 * PIECE_PARTITIONS + 7
    topic = Known("large", UUID(int=1), {number: state(1) for number in range(count)})
    brokers = [Broker(number, 1, (Endpoint("L", "PLAINTEXT", "h", 9),)) for number in (1, 2)]
    pieces = MetadataPieces(Audience(12, "L"), ())
    pieces.hear(listening_brokers(brokers, "L"))
    before = list(pieces.topic(topic, NOTHING_FAILED))
    topic.partitions[PIECE_PARTITIONS + 1] = state(2, 5)
    after = list(pieces.topic(topic, NOTHING_FAILED))
    assert [one is other for one, other in zip(before[1:-1], after[1:-1], strict=True)] == [True, False, True, True]
    assert by_us(pieces, brokers, [topic], {}) == by_kio(12, brokers, "L", [topic], {}, OPERATIONS_OMITTED)
    # Partitions in other pieces lose and get their first leader: the number of partitions is that of all pieces.
    for changed in (PartitionState(ReplicaAssignment((3,)), None), state(1)):
        topic.partitions[2] = topic.partitions[2 * PIECE_PARTITIONS] = changed
        assert by_us(pieces, brokers, [topic], {}) == by_kio(12, brokers, "L", [topic], {}, OPERATIONS_OMITTED)


def test_pieces_of_topics_that_are_gone_are_dropped() -> None:
    pieces = MetadataPieces(Audience(12, "L"), ())
    for name in ("kept", "gone"):
        list(pieces.topic(Known(name, None, {0: state(1)}), NOTHING_FAILED))
    pieces.forget({"kept", "new"})
    assert len(pieces) == 1


def test_a_topic_without_a_name_needs_version_12() -> None:
    unknown = unserved_topic(Audience(12, "L"), ErrorCode.UNKNOWN_TOPIC_ID, None, UUID(int=4), internal=False)
    assert unknown.count(UUID(int=4).bytes) == 1
    with pytest.raises(InvariantViolation, match="has a name"):
        unserved_topic(Audience(11, "L"), ErrorCode.UNKNOWN_TOPIC_ID, None, UUID(int=4), internal=False)
    with pytest.raises(InvariantViolation, match="versions 0 to 12"):
        metadata_head(13, brokers=[], listener="L", cluster_id="c", controller_id=1, topics=0)
