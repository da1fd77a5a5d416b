"""A simulated broker decodes controllers' requests, answers as Kafka does, and fences as a real broker does."""

from uuid import UUID

import numpy as np
import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from lab.testbed.simulated_brokers.broker import Ears, Heard, PretendedBroker, Tally
from lab.testbed.simulated_brokers.knowledge import Catalogue, KnownState
from lab.testbed.simulated_brokers.messages import (
    IsrWish,
    alter_partition_body,
    alter_reassignments_body,
    api_versions,
    read_metadata,
)
from shunter.core.controller.ready import StopPartition, TopicSlice
from shunter.errors import ErrorCode
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from shunter.wire.answers import decode_control_response
from shunter.wire.control import leader_and_isr_body, live_brokers_fragment, stop_replica_body, update_metadata_parts
from shunter.wire.framing import request_frame_head
from shunter.wire.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

IDS = (1, 2, 3)
BROKERS = tuple(Broker(id_, 10 + id_, (Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9),), "rack") for id_ in IDS)


def state(leader: int, epoch: int, *replicas: int) -> PartitionState:
    return PartitionState(ReplicaAssignment(replicas), LeaderAndIsr(leader, epoch, replicas[:2], 7, 3))


TOPICS = (
    TopicSlice("a", UUID(int=1), ((0, state(1, 4, 1, 2, 3)), (1, state(2, 5, 2, 3)))),
    TopicSlice("b" * 200, UUID(int=2), tuple((n, state(3, n, 3, 1)) for n in range(150))),
)
HEAD = {"controller_id": 1000, "controller_epoch": 3, "broker_epoch": 20}


def metadata_body(version: int, topics=TOPICS, **head: int) -> bytes:
    live = live_brokers_fragment(version, BROKERS)
    offline = {TopicPartition("a", 0): (3,)}
    told = {**HEAD, **head, "topics": topics, "live": live, "offline": offline, "cache": None}
    return b"".join(update_metadata_parts(version, **told))


def leadership_body(version: int, **head: int) -> bytes:
    new = {TopicPartition("a", 1)}
    return leader_and_isr_body(
        version,
        **{**HEAD, **head},
        leaders=BROKERS,
        listener="PLAINTEXT",
        topics=TOPICS,
        new=new,
        full=True,
        cache=None,
    )


def stop_body(version: int, **head: int) -> bytes:
    stopped = [StopPartition(TopicPartition("a", 0), 4, True), StopPartition(TopicPartition("a", 1), 5, False)]
    return stop_replica_body(version, **{**HEAD, **head}, partitions=stopped)


class Listening:
    """A broker of epoch 20 that knows controller epoch 3, and the content that it passed to its callbacks."""

    def __init__(self) -> None:
        self.metadata: list[bytes] = []
        self.told = []
        self.stopped = []
        ears = Ears(
            lambda broker, heard, version, body: self.metadata.append(bytes(body)),
            lambda broker, heard, told: self.told.extend(told),
            lambda broker, stopped: self.stopped.extend(stopped),
        )
        self.tally = Tally()
        self.broker = PretendedBroker(1, ears, self.tally)
        self.broker.epoch, self.broker.controller_epoch = 20, 3

    def ask(self, api_key: int, version: int, body: bytes) -> tuple[int, dict[TopicPartition, int]]:
        frame = request_frame_head(api_key, version, 77, "test", len(body))[4:] + body
        answer = self.broker.answer(memoryview(frame))
        names = {topic.topic_id: topic.name for topic in TOPICS}
        correlation_id, error, errors = decode_control_response(api_key, version, answer[4:], lambda: names)
        assert correlation_id == 77
        return int(error), {tp: int(code) for tp, code in errors.items()}


def expected() -> list[tuple[TopicPartition, KnownState]]:
    return [
        (
            TopicPartition(topic.name, number),
            KnownState(
                known.leadership.leader,
                known.leadership.leader_epoch,
                known.leadership.isr,
                7,
                known.assignment.replicas,
            ),
        )
        for topic in TOPICS
        for number, known in topic.partitions
    ]


@pytest.mark.parametrize("version", [6, 7, 8])
def test_metadata_is_read_in_every_version(version: int) -> None:
    world = Listening()
    assert world.ask(UPDATE_METADATA, version, metadata_body(version)) == (0, {})
    told, live = read_metadata(version, world.metadata[0], 17 if version >= 8 else 16)
    assert [(each.tp, KnownState(*each[1:])) for each in told] == expected()
    assert live == frozenset(IDS)


@pytest.mark.parametrize("version", [5, 6, 7])
def test_leadership_is_read_and_answered_in_every_version(version: int) -> None:
    world = Listening()
    assert world.ask(LEADER_AND_ISR, version, leadership_body(version)) == (0, {})
    assert [(each.tp, KnownState(*each[1:])) for each in world.told] == expected()


@pytest.mark.parametrize("version", [3, 4])
def test_stops_are_read_and_answered(version: int) -> None:
    world = Listening()
    assert world.ask(STOP_REPLICA, version, stop_body(version)) == (0, {})
    assert world.stopped == [(TopicPartition("a", 0), True), (TopicPartition("a", 1), False)]


@pytest.mark.parametrize(("epochs", "error"), [
    ({"controller_epoch": 2}, ErrorCode.STALE_CONTROLLER_EPOCH),
    ({"broker_epoch": 19}, ErrorCode.STALE_BROKER_EPOCH),
    ({"broker_epoch": 21}, ErrorCode.NONE),
    ({"broker_epoch": -1}, ErrorCode.NONE),
    ({"controller_epoch": 4, "broker_epoch": 19}, ErrorCode.STALE_BROKER_EPOCH),
])  # fmt: skip
def test_obsolete_requests_are_refused(epochs: dict[str, int], error: ErrorCode) -> None:
    for api_key, version, body in (
        (UPDATE_METADATA, 8, metadata_body(8, **epochs)),
        (LEADER_AND_ISR, 7, leadership_body(7, **epochs)),
        (STOP_REPLICA, 4, stop_body(4, **epochs)),
    ):
        world = Listening()
        assert world.ask(api_key, version, body)[0] == error.value
        taken = bool(world.metadata or world.told or world.stopped)
        assert taken == (error is ErrorCode.NONE)
        assert world.tally.refusals == ({} if taken else {error.value: 1})


def test_what_it_asks_is_what_kio_reads() -> None:
    wish = IsrWish(UUID(int=5), 2, 4, ((1, 11), (2, -1)), 9)
    asked, _ = entity_reader(load_request_schema(56, 3))(alter_partition_body(7, 70, [wish]), 0)
    assert (asked.broker_id, asked.broker_epoch) == (7, 70)
    (partition,) = asked.topics[0].partitions
    assert (partition.partition_index, partition.leader_epoch, partition.partition_epoch) == (2, 4, 9)
    assert [(member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs] == [(1, 11), (2, -1)]

    body = alter_reassignments_body({TopicPartition("t", 1): (4, 5), TopicPartition("t", 2): None}, 1_000)
    moved, _ = entity_reader(load_request_schema(45, 0))(body, 0)
    assert [(each.partition_index, each.replicas) for each in moved.topics[0].partitions] == [(1, (4, 5)), (2, None)]

    for version in (0, 1, 2, 3):
        served, _ = entity_reader(load_response_schema(18, version))(api_versions(version), 0)
        assert {int(key.api_key) for key in served.api_keys} == {4, 5, 6, 18}


def test_brokers_that_heard_the_same_share_what_they_know() -> None:
    catalogue = Catalogue()
    catalogue.add(tp for tp, _ in expected())
    first = catalogue.update(catalogue.keep(8, memoryview(metadata_body(8))))
    again = catalogue.update(catalogue.keep(8, memoryview(metadata_body(8, broker_epoch=99))))
    assert first is again, "the same content, whatever its epochs"
    nothing = catalogue.nothing()
    known = catalogue.after(nothing, first)
    assert catalogue.after(nothing, again) is known
    assert np.array_equal(known, catalogue.truth(dict(expected())))
    later = TopicSlice("a", UUID(int=1), ((1, state(3, 6, 3, 2)),))
    changed = catalogue.after(known, catalogue.update(catalogue.keep(8, memoryview(metadata_body(8, (later,))))))
    place = catalogue.places[TopicPartition("a", 1)]
    assert np.flatnonzero(changed != known).tolist() == [place]
    assert catalogue.states[changed[place]].leader == 3


def test_a_heard_request_counts() -> None:
    tally = Tally()
    tally.note(Heard(5.0, 1, UPDATE_METADATA, 100))
    tally.note(Heard(7.5, 2, UPDATE_METADATA, 11))
    assert (tally.first_s, tally.last_s) == (5.0, 7.5)
    assert (tally.requests, tally.bytes) == ({UPDATE_METADATA: 2}, {UPDATE_METADATA: 111})
