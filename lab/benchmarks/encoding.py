"""The cost of encoding: kio's encoders and Shunter's side by side, in one run.

    python lab/benchmarks/encoding.py [--partitions 100000] [--brokers 200] [--topics 1000]

Times are CPU time of this process, the median of some runs. kio is timed over a sample and printed per partition,
because the whole would take minutes.
"""

from __future__ import annotations

import argparse
import gc
import io
import platform
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from shunter.errors import ErrorCode
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, PartitionState, ReplicaAssignment
from shunter.wire.answers import decode_control_response
from shunter.wire.control import leader_and_isr_body, live_brokers_fragment, update_metadata_parts
from shunter.wire.fragments import FragmentCache
from shunter.wire.metadata import NOTHING_FAILED, Audience, MetadataPieces, listening_brokers
from shunter.wire.reassignments import (
    ListReassignmentsResult,
    OngoingPartition,
    OngoingTopic,
    encode_list_response,
)

HEAD: dict[str, Any] = {"controller_id": 1000, "controller_epoch": 3, "broker_epoch": 1 << 33}
SAMPLE = 2_000
RUNS = 5


class Slice(NamedTuple):
    """A topic, as the core passes it to the encoders."""

    name: str
    topic_id: UUID
    partitions: tuple[tuple[int, PartitionState], ...]


class Known(NamedTuple):
    """A topic as the controller knows it."""

    name: str
    topic_id: UUID | None
    partitions: dict[int, PartitionState]


def seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    """Median CPU seconds of some runs."""
    taken: list[float] = []
    for _ in range(runs):
        gc.collect()
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def cluster(partitions: int, topics: int, brokers: int) -> list[Slice]:
    """A cluster with three replicas of each partition, all in sync."""
    each = partitions // topics
    made: list[Slice] = []
    for number in range(topics):
        states: list[tuple[int, PartitionState]] = []
        for index in range(each):
            first = number * each + index
            replicas = (first % brokers, (first + 1) % brokers, (first + 2) % brokers)
            state = PartitionState(ReplicaAssignment(replicas), LeaderAndIsr(replicas[0], 5, replicas, 7, 3))
            states.append((index, state))
        made.append(Slice(f"topic-{number:06}", UUID(int=number + 1), tuple(states)))
    return made


def by_broker(topics: list[Slice], brokers: int) -> list[list[Slice]]:
    """Each broker's partitions."""
    hosted: list[dict[str, list[tuple[int, PartitionState]]]] = [{} for _ in range(brokers)]
    for topic in topics:
        for number, state in topic.partitions:
            for broker in state.assignment.replicas:
                hosted[broker].setdefault(topic.name, []).append((number, state))
    ids = {topic.name: topic.topic_id for topic in topics}
    return [[Slice(name, ids[name], tuple(states)) for name, states in one.items()] for one in hosted]


def changed(topics: list[Slice], every: int) -> list[Slice]:
    """The same cluster with a new leader epoch in each partition whose number is a multiple of `every`."""
    return [
        Slice(
            topic.name,
            topic.topic_id,
            tuple(
                (number, PartitionState(state.assignment, state.leadership._replace(leader_epoch=6)))
                if number % every == 0 and state.leadership
                else (number, state)
                for number, state in topic.partitions
            ),
        )
        for topic in topics
    ]


def written(message: Any) -> bytes:
    """Encode a message with kio."""
    with io.BytesIO() as buffer:
        entity_writer(type(message))(buffer, message)
        return buffer.getvalue()


def told(what: str, figure: str) -> None:
    """Print one figure."""
    print(f"{what:<74} {figure}")


def kio_states(api_key: int, version: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Two pieces of work for kio: encode a sample of partition states; make that sample and encode it."""
    of: Any = load_payload_module(api_key, version, EntityType.request)
    entity = of.UpdateMetadataPartitionState if api_key == 6 else of.LeaderAndIsrPartitionState
    epoch = {"zk_version" if api_key == 6 else "partition_epoch": 7}
    write = entity_writer(entity)

    def make() -> list[Any]:
        return [
            entity(
                partition_index=number,
                controller_epoch=3,
                leader=1,
                leader_epoch=5,
                isr=(1, 2, 3),
                replicas=(1, 2, 3),
                **epoch,
            )
            for number in range(SAMPLE)
        ]

    ready = make()

    def encode() -> None:
        with io.BytesIO() as buffer:
            for state in ready:
                write(buffer, state)

    def both() -> None:
        with io.BytesIO() as buffer:
            for state in make():
                write(buffer, state)

    return encode, both


def measure_update_metadata(topics: list[Slice], partitions: int, brokers: int) -> None:
    """Measure a full UpdateMetadata v8."""
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "broker.example", 9092)
    live = live_brokers_fragment(8, [Broker(number, 1, (endpoint,)) for number in range(brokers)])
    encode, both = kio_states(6, 8)
    told("UpdateMetadata v8, kio: one partition, entity ready", f"{seconds(encode) / SAMPLE * 1e6:8.2f} us")
    told("UpdateMetadata v8, kio: one partition, entity made", f"{seconds(both) / SAMPLE * 1e6:8.2f} us")

    def full(cache: FragmentCache | None, some: list[Slice] = topics) -> bytes:
        return b"".join(update_metadata_parts(8, **HEAD, topics=some, live=live, offline={}, cache=cache))

    cold = seconds(lambda: full(FragmentCache()))
    told("UpdateMetadata v8, ours: one partition, cold", f"{cold / partitions * 1e6:8.2f} us")
    told(f"full UpdateMetadata of {partitions} partitions, cold", f"{cold * 1e3:8.1f} ms")
    told("  without a cache", f"{seconds(lambda: full(None)) * 1e3:8.1f} ms")
    cache = FragmentCache()
    size = len(full(cache))
    told("  warm", f"{seconds(lambda: full(cache)) * 1e3:8.1f} ms")
    rebuilt = [
        Slice(topic.name, topic.topic_id, tuple((number, state) for number, state in topic.partitions))
        for topic in topics
    ]
    told("  warm, slices made anew of the same states", f"{seconds(lambda: full(cache, rebuilt)) * 1e3:8.1f} ms")
    versions = [topics, changed(topics, 50)]

    def alternate() -> None:
        versions.reverse()
        full(cache, versions[0])

    told("  2 % of the partitions changed", f"{seconds(alternate) * 1e3:8.1f} ms")
    parts = list(update_metadata_parts(8, **HEAD, topics=topics, live=live, offline={}, cache=cache))
    told("  bytes of the body, parts it can be made in", f"{size} B, {len(parts)}")
    fresh = FragmentCache()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    body = full(fresh)
    del body
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    told("  cache, bytes per partition (tracemalloc; body left out)", f"{grown / partitions:8.1f} B")


def measure_leader_and_isr(topics: list[Slice], brokers: int) -> None:
    """Measure LeaderAndIsr v7 for all brokers."""
    encode, _ = kio_states(4, 7)
    told("LeaderAndIsr v7, kio: one partition, entity ready", f"{seconds(encode) / SAMPLE * 1e6:8.2f} us")
    hosted = by_broker(topics, brokers)
    states = sum(len(topic.partitions) for one in hosted for topic in one)

    def everybody() -> None:
        cache = FragmentCache()
        for one in hosted:
            leader_and_isr_body(7, **HEAD, leaders=[], listener="PLAINTEXT", topics=one, new=(), full=True, cache=cache)

    taken = seconds(everybody, 3)
    told("LeaderAndIsr v7, ours: one partition", f"{taken / states * 1e6:8.2f} us")
    told(f"  all {states} states of {brokers} brokers", f"{taken * 1e3:8.1f} ms")


def measure_answers() -> None:
    """Measure decoding of a LeaderAndIsr answer of 1,500 partitions without errors."""
    of: Any = load_payload_module(4, 7, EntityType.response)
    none = KioErrorCode(0)
    message = of.LeaderAndIsrResponse(
        error_code=none,
        topics=tuple(
            of.LeaderAndIsrTopicError(
                topic_id=UUID(int=topic + 1),
                partition_errors=tuple(
                    of.LeaderAndIsrPartitionError(partition_index=number, error_code=none) for number in range(15)
                ),
            )
            for topic in range(100)
        ),
    )
    body = written(message)
    payload = bytes(5) + body
    read = entity_reader(of.LeaderAndIsrResponse)
    kio = seconds(lambda: [read(body, 0) for _ in range(50)]) / 50
    ours = seconds(lambda: [decode_control_response(4, 7, payload, dict) for _ in range(50)]) / 50
    told("LeaderAndIsr v7 answer of 1500 partitions in 100 topics, kio", f"{kio * 1e6:8.1f} us")
    told("  ours", f"{ours * 1e6:8.1f} us")


def measure_metadata(topics: list[Slice], partitions: int, brokers: int) -> None:
    """Measure the Metadata answer for all topics."""
    of: Any = load_payload_module(3, 12, EntityType.response)
    write = entity_writer(of.MetadataResponsePartition)
    sample = [
        of.MetadataResponsePartition(
            error_code=KioErrorCode(0),
            partition_index=number,
            leader_id=1,
            leader_epoch=5,
            replica_nodes=(1, 2, 3),
            isr_nodes=(1, 2, 3),
            offline_replicas=(),
        )
        for number in range(SAMPLE)
    ]

    def by_kio() -> None:
        with io.BytesIO() as buffer:
            for one in sample:
                write(buffer, one)

    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "broker.example", 9092)
    nodes = [Broker(number, 1, (endpoint,)) for number in range(brokers)]
    known = [Known(topic.name, topic.topic_id, dict(topic.partitions)) for topic in topics]
    audience = Audience(12, "PLAINTEXT")
    kept = MetadataPieces(audience, ())
    kept.hear(listening_brokers(nodes, "PLAINTEXT"))

    def everything(pieces: MetadataPieces | None = None) -> int:
        if pieces is None:
            pieces = MetadataPieces(audience, ())
            pieces.hear(listening_brokers(nodes, "PLAINTEXT"))
        return sum(len(piece) for topic in known for piece in pieces.topic(topic, NOTHING_FAILED))

    told("Metadata v12 answer, kio: one partition, entity ready", f"{seconds(by_kio) / SAMPLE * 1e6:8.2f} us")
    taken = seconds(everything)
    told("Metadata v12 answer, ours: one partition", f"{taken / partitions * 1e6:8.2f} us")
    told(f"  all {partitions} partitions, {everything(kept)} bytes", f"{taken * 1e3:8.1f} ms")
    told("  all of them again, nothing changed", f"{seconds(lambda: everything(kept)) * 1e3:8.1f} ms")


def measure_list(count: int = 5_000) -> None:
    """Measure the list of reassignments."""
    of: Any = load_payload_module(46, 0, EntityType.response)
    ongoing = tuple(OngoingPartition(number, (1, 2, 3, 4), (4,), (1,)) for number in range(count))
    ours = ListReassignmentsResult(ErrorCode.NONE, None, (OngoingTopic("topic", ongoing),))

    def by_kio() -> bytes:
        return written(
            of.ListPartitionReassignmentsResponse(
                throttle_time=timedelta(),
                error_code=KioErrorCode(0),
                error_message=None,
                topics=(
                    of.OngoingTopicReassignment(
                        name="topic",
                        partitions=tuple(
                            of.OngoingPartitionReassignment(
                                partition_index=one.partition,
                                replicas=one.replicas,
                                adding_replicas=one.adding,
                                removing_replicas=one.removing,
                            )
                            for one in ongoing
                        ),
                    ),
                ),
            )
        )

    if by_kio() != encode_list_response(ours):
        raise SystemExit("the two encoders disagree on ListPartitionReassignments")
    told(f"ListPartitionReassignments answer of {count}, kio", f"{seconds(by_kio) * 1e3:8.1f} ms")
    told("  ours", f"{seconds(lambda: encode_list_response(ours)) * 1e3:8.1f} ms")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description="What encoding costs: kio and ours side by side.")
    options.add_argument("--partitions", type=int, default=100_000)
    options.add_argument("--brokers", type=int, default=200)
    options.add_argument("--topics", type=int, default=1_000)
    asked = options.parse_args()
    print(f"Python {sys.version.split()[0]} on {platform.machine()}; CPU time, median of {RUNS}")
    print(f"{asked.partitions} partitions of 3 replicas in {asked.topics} topics, {asked.brokers} brokers")
    topics = cluster(asked.partitions, asked.topics, asked.brokers)
    measure_update_metadata(topics, asked.partitions, asked.brokers)
    measure_leader_and_isr(topics, asked.brokers)
    measure_answers()
    measure_metadata(topics, asked.partitions, asked.brokers)
    measure_list()


if __name__ == "__main__":
    main()
