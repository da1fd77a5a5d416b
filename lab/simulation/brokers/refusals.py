"""Requests about topics that Apache's controller refuses, each with Apache's error and words of its message.

Tools and people match on both. Source: Apache Kafka 3.9, `ZkAdminManager.createTopics` and `createPartitions`,
`AdminZkClient.validateTopicCreate` and `validateReplicaAssignment`, `KafkaApis.handleCreateTopicsRequest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from shunter.drivers.listener.handlers.topics import create_partitions, create_topics
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.partition import Replicas

if TYPE_CHECKING:
    from lab.simulation.world import World


TOPICS_AT_MOST = 8
PATIENCE = timedelta(seconds=20)
ABSENT = 77
"""An id that no broker has."""
HARMLESS = {
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REASSIGNMENT_IN_PROGRESS,
}
"""Errors for other reasons, which are checked before the content of the request."""


class Creation(NamedTuple):
    """One topic of a CreateTopics, and Apache's answer: the error, and words of its message."""

    expected: ErrorCode
    words: str
    name: str = ""
    partitions: int = -1
    factor: int = -1
    placed: Sequence[tuple[int, Replicas]] = ()
    configs: Sequence[tuple[str, str | None]] = ()
    times: int = 1


class Growth(NamedTuple):
    """One topic of a CreatePartitions, and Apache's answer. `more` is added to the present number of partitions."""

    expected: ErrorCode
    words: str
    more: int = 1
    placed: Sequence[Replicas] | None = None


CREATIONS = {
    "a name with a blank": Creation(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid", "no good", 1, 1),
    "the metadata topic": Creation(ErrorCode.INVALID_REQUEST, "is prohibited", "__cluster_metadata", 1, 1),
    "twice in one request": Creation(ErrorCode.INVALID_REQUEST, "", partitions=1, factor=1, times=2),
    "counted and placed": Creation(
        ErrorCode.INVALID_REQUEST, "Both cannot be used at the same time", partitions=1, factor=1, placed=((0, (1,)),)
    ),
    "no partitions": Creation(ErrorCode.INVALID_PARTITIONS, "must be larger than 0", partitions=0, factor=1),
    "no replicas": Creation(ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0", partitions=1, factor=0),
    "more replicas than brokers": Creation(
        ErrorCode.INVALID_REPLICATION_FACTOR, "larger than available brokers", partitions=1, factor=6
    ),
    "one broker twice": Creation(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate replica assignment found", placed=((0, (2, 2)),)
    ),
    "uneven partitions": Creation(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the same number of replicas", placed=((0, (1, 2)), (1, (3,)))
    ),
    "a missing number": Creation(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based integer sequence", placed=((0, (1,)), (2, (2,)))
    ),
    "a null value": Creation(
        ErrorCode.INVALID_CONFIG, "Null value not supported", partitions=1, factor=1, configs=(("retention.ms", None),)
    ),
    "brokers that may be down": Creation(ErrorCode.NONE, "", placed=((0, (2,)), (1, (3,)))),
}
GROWTHS = {
    "as many": Growth(ErrorCode.INVALID_PARTITIONS, "Topic already has", 0),
    "fewer": Growth(ErrorCode.INVALID_PARTITIONS, "which is higher than the requested", -1),
    "an unknown broker": Growth(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Unknown broker(s)", placed=((ABSENT,),)),
    "more replicas": Growth(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "", placed=((1, 2, 3, 4, 5, 6),)),
    "one replica": Growth(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "", placed=((1,),)),
    "one broker twice": Growth(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "", placed=((1, 1),)),
    "too few lists": Growth(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "", 2, placed=((1,),)),
}


class Refusals:
    """Sends requests that Apache refuses, and compares the answers."""

    def __init__(self, world: World) -> None:
        """Begin without requests."""
        self.world = world
        self._made = 0

    def odd_creation(self, random: Random) -> bool:
        """CreateTopics with several topics that Apache refuses, or accepts although a refusal might be expected."""
        process = self.world.active_process()
        if process is None or len(self.world.truth.topics) >= TOPICS_AT_MOST:
            return False
        asked: dict[str, str] = {}
        topics: list[SimpleNamespace] = []
        for kind in random.sample(tuple(CREATIONS), 3):
            creation = CREATIONS[kind]
            self._made += 1
            name = creation.name or f"o{self._made}"
            asked[name] = kind
            topics += [_new_topic(name, creation)] * creation.times
            self.world.coverage.count("odd creation", kind)

        def told(answer: Any) -> None:
            for each in () if isinstance(answer, RequestRejected) else answer["topics"]:
                self._judge(asked[each["name"]], CREATIONS[asked[each["name"]]], each)

        request = SimpleNamespace(topics=topics, validate_only=False, timeout=PATIENCE)
        process.serve(create_topics, request, told)
        return True

    def odd_growth(self, random: Random) -> bool:
        """Two CreatePartitions that Apache refuses."""
        done = [self._grow(random, kind) for kind in random.sample(tuple(GROWTHS), 2)]
        return any(done)

    def _grow(self, random: Random, kind: str) -> bool:
        process, topics = self.world.active_process(), self.world.truth.topics
        growth = GROWTHS[kind]
        factors = {name: len(topic.assignments[0].original) for name, topic in topics.items() if 0 in topic.assignments}
        names = [name for name, factor in factors.items() if kind != "one replica" or factor > 1]
        if process is None or not names:
            return False
        name = random.choice(names)
        grown = SimpleNamespace(
            name=name,
            count=len(topics[name].assignments) + growth.more,
            assignments=None
            if growth.placed is None
            else [SimpleNamespace(broker_ids=list(to)) for to in growth.placed],
        )
        request = SimpleNamespace(topics=[grown], validate_only=False, timeout=PATIENCE)
        about = (topics[name].topic_id, factors[name])
        counts = (len(topics[name].assignments), grown.count)
        version = topics[name].version
        alone = not self.world.growing[name]

        def told(answer: Any) -> None:
            known = self.world.truth.topics.get(name)
            placed = known.assignments if known is not None else {}
            factor = len(placed[0].original) if 0 in placed else 0
            if known is None or (known.topic_id, factor) != about or len(placed) not in counts:
                return  # Another request has changed the topic meanwhile.
            if known.version > version + 1 or not alone:
                return  # Another request and this one may both have made the topic grow, in two writes or in one.
            for each in () if isinstance(answer, RequestRejected) else answer["results"]:
                self._judge(kind, growth, each)

        request = SimpleNamespace(topics=[grown], validate_only=False, timeout=PATIENCE)
        process.serve(create_partitions, request, told)
        self.world.coverage.count("odd growth", kind)
        return True

    def _judge(self, kind: str, asked: Creation | Growth, told: Mapping[str, Any]) -> None:
        error, message = told["error_code"], told["error_message"] or ""
        if error in HARMLESS or (error is asked.expected and asked.words in message):
            return
        if error is ErrorCode.UNKNOWN_SERVER_ERROR and message.startswith("ZooKeeper refused"):
            return  # An ACL forbids the write, as it would forbid Apache's controller.
        if error is not ErrorCode.INVALID_TOPIC_EXCEPTION or "queued for deletion" not in message:
            said = f"{kind} is answered {error.name} ({message}), Apache says {asked.expected.name} ({asked.words})"
            self.world.violate("Apache's refusals", said)


def _new_topic(name: str, creation: Creation) -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        num_partitions=creation.partitions,
        replication_factor=creation.factor,
        assignments=[SimpleNamespace(partition_index=number, broker_ids=list(to)) for number, to in creation.placed],
        configs=[SimpleNamespace(name=name, value=value) for name, value in creation.configs],
    )
