"""CreateTopics (19), DeleteTopics (20) and CreatePartitions (37)."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from shunter.core.controller.events import (
    Event,
    NewTopic,
    PartitionsSubmitted,
    ReplyToken,
    TopicDeletionsSubmitted,
    TopicsSubmitted,
)
from shunter.core.controller.ready import TopicResult, TopicResultsReply
from shunter.core.mutation_quotas import Allowance
from shunter.core.topic_configs import UNKNOWN_RELEASES, ConfigSource, Releases, shortened
from shunter.drivers.brokers.connection import ApiRanges
from shunter.drivers.listener.handlers.context import Call, unexpected
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.partition import Replicas
from shunter.model.security.acl import CLUSTER, Operation
from shunter.model.security.acl import topic as topic_of

FETCH = 1
_FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_RELEASES: Final[Mapping[int, Releases]] = {
    12: Releases((2, 8), (3, 0)),
    13: Releases((3, 1), (3, 4)),
    14: Releases((3, 5), (3, 5)),
    15: Releases((3, 5), (3, 6)),
    16: Releases((3, 7), (3, 8)),
    17: Releases((3, 9), (3, 9)),
}
"""Newest version of Fetch -> the releases that serve it. Of releases older than 2.8 no refused setting is known."""
_SOURCES: Final[Mapping[ConfigSource, int]] = {
    ConfigSource.TOPIC: 1,
    ConfigSource.CLUSTER: 3,
    ConfigSource.OURS: 4,
    ConfigSource.DEFAULT: 5,
}
"""Kafka's numbers: dynamic topic config, dynamic default broker config, static broker config, default config."""
_SEED_BITS = 63
_READ_AT_ONCE = 500
LISTED_AT_MOST = 300
"""Topics of one CreateTopics whose configuration is in the answer: each takes a fifth of a millisecond to encode."""
_DELETED_BY_ID_SINCE = 6
_DISABLED_SINCE = 3
_CREATION_STRICT_SINCE, _GROWTH_STRICT_SINCE, _DELETION_STRICT_SINCE = 6, 3, 5
"""The versions since which clients understand that a quota refuses their request (KIP-599)."""


async def create_topics(request: Any, call: Call) -> Any:
    """Hand new topics to the core. Ids and placement seeds are drawn here, because the core has no randomness."""
    repeated = {name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1}
    refused: list[TopicResult] = [_repeats(name, "Found multiple entries for this topic.") for name in sorted(repeated)]
    topics: list[NewTopic] = []
    may_create = call.allows(Operation.CREATE, CLUSTER, told=False)
    for place, topic in enumerate(request.topics, start=1):
        if place % _READ_AT_ONCE == 0:
            await asyncio.sleep(0)  # A request may name a hundred thousand topics: other tasks run in between.
        if topic.name in repeated:
            continue
        if not may_create and not call.allows(Operation.CREATE, topic_of(topic.name)):
            refused.append(TopicResult(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
            continue
        try:
            topics.append(_new_topic(topic))
        except RequestRejected as error:
            refused.append(TopicResult(topic.name, error.error_code, error.message))
    validate_only = getattr(request, "validate_only", False)
    allowance = await call.allowance(_CREATION_STRICT_SINCE)
    if not validate_only:
        asked = {new.name: _partitions_of(new, call.node.quotas.default_partitions()) for new in topics}
        throttled = _throttled(allowance, asked)
        refused += throttled.values()
        topics = [new for new in topics if new.name not in throttled]
    results = await _ask_for_topics(
        call,
        [topic.name for topic in topics],
        lambda token: TopicsSubmitted(
            tuple(topics), validate_only, token, releases_of(call.node.api_ranges().values())
        ),
        request.timeout,
    )
    allowance.give_back(_unchanged(results))
    told = [*results, *refused]
    return call.answer(
        throttle_time=allowance.throttle_ms,
        topics=[_created(result, call, listed=place < LISTED_AT_MOST) for place, result in enumerate(told)],
    )


def _partitions_of(new: NewTopic, default: int) -> int:
    """Return the number of partitions that a new topic would have."""
    if new.assignments:
        return len(new.assignments)
    return default if new.partition_count == -1 else new.partition_count


def _throttled(allowance: Allowance, asked: Mapping[str, int]) -> dict[str, TopicResult]:
    """Refuse topics that exceed the quota. `asked`: topic -> number of partitions to create or delete, in order."""
    return {
        name: TopicResult(name, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        for name, partitions in asked.items()
        if not allowance.admit(name, max(0, partitions))
    }


def _unchanged(results: Iterable[TopicResult]) -> list[str]:
    """List the topics that were refused. A topic that timed out is not among them: its change still happens."""
    return [one.name for one in results if one.error not in {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}]


def _new_topic(topic: Any) -> NewTopic:
    """Read one topic of a CreateTopics.

    Raises:
        RequestRejected: the request contradicts itself, so the core need not see it.
    """
    assigned = Counter(assignment.partition_index for assignment in topic.assignments)
    twice = sorted(number for number, count in assigned.items() if count > 1)
    if twice:
        numbers = shortened(", ".join(map(str, twice)))
        told = f"Partitions {numbers} are assigned more than once: partitions should be a consecutive 0-based integer sequence"
        raise RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, told)
    nulls = sorted(config.name for config in topic.configs if config.value is None)
    if nulls:
        told = f"Null value not supported for topic configs: {shortened(','.join(nulls))}"
        raise RequestRejected(ErrorCode.INVALID_CONFIG, told)
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        told = (
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time."
        )
        raise RequestRejected(ErrorCode.INVALID_REQUEST, told)
    return NewTopic(
        name=topic.name,
        topic_id=uuid4(),
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={assignment.partition_index: tuple(assignment.broker_ids) for assignment in topic.assignments},
        configs={config.name: config.value for config in topic.configs},
        placement_seed=secrets.randbits(_SEED_BITS),
    )


def _created(result: TopicResult, call: Call, *, listed: bool) -> dict[str, Any]:
    """Make one topic's part of the answer, with its effective configuration if that is `listed` and may be read."""
    hidden = result.configs and not call.allows(Operation.DESCRIBE_CONFIGS, topic_of(result.name), told=False)
    unlisted = ErrorCode.POLICY_VIOLATION if result.configs and not listed else ErrorCode.NONE
    if hidden:
        unlisted = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return {
        "name": result.name,
        "topic_id": result.topic_id,
        "error_code": result.error,
        "error_message": result.message,
        "topic_config_error_code": unlisted,
        "num_partitions": -1 if hidden else result.partition_count,
        "replication_factor": -1 if hidden else result.replication_factor,
        "configs": [
            {
                "name": name,
                "value": value,
                "read_only": False,
                "config_source": _SOURCES[source],
                "is_sensitive": False,
            }
            for name, value, source in (result.configs if listed and not hidden else ())
        ],
    }


async def create_partitions(request: Any, call: Call) -> Any:
    """Hand new partitions to the core."""
    repeated = {name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1}
    single = [topic for topic in request.topics if topic.name not in repeated]
    forbidden = [topic.name for topic in single if not call.allows(Operation.ALTER, topic_of(topic.name))]
    asked: dict[str, tuple[int, tuple[Replicas, ...] | None]] = {
        topic.name: (topic.count, _new_assignments(topic)) for topic in single if topic.name not in forbidden
    }
    allowance = await call.allowance(_GROWTH_STRICT_SINCE)
    throttled: dict[str, TopicResult] = {}
    if not request.validate_only:
        throttled = _throttled(allowance, {name: count - _partitions(call, name) for name, (count, _) in asked.items()})
        asked = {name: each for name, each in asked.items() if name not in throttled}
    results = await _ask_for_topics(
        call, list(asked), lambda token: PartitionsSubmitted(asked, request.validate_only, token), request.timeout
    )
    allowance.give_back(_unchanged(results))
    told = [
        *results,
        *throttled.values(),
        *(_repeats(name, "Duplicate topic in request.") for name in sorted(repeated)),
        *(TopicResult(name, _FORBIDDEN, "The topic authorization is failed.") for name in forbidden),
    ]
    return call.answer(
        throttle_time=allowance.throttle_ms,
        results=[{"name": one.name, "error_code": one.error, "error_message": one.message} for one in told],
    )


def _partitions(call: Call, name: str) -> int:
    known = call.view.topics.get(name)
    return 0 if known is None else len(known.partitions)


def _new_assignments(topic: Any) -> tuple[Replicas, ...] | None:
    if topic.assignments is None:
        return None
    return tuple(tuple(assignment.broker_ids) for assignment in topic.assignments)


async def delete_topics(request: Any, call: Call) -> Any:
    """Hand deletions to the core. Topic ids are resolved to names here; the answer has both id and name."""
    by_id = call.version >= _DELETED_BY_ID_SINCE
    asked = (
        [(topic.name, topic.topic_id) for topic in request.topics]
        if by_id
        else [(n, None) for n in request.topic_names]
    )
    refused: list[TopicResult] = []
    ids: dict[str, UUID | None] = {}
    unknown: set[str] = set()
    for name, topic_id in asked:
        if name is not None and topic_id:
            told = "Topic name and topic ID can not both be specified."
            refused.append(TopicResult(name, ErrorCode.INVALID_REQUEST, told, topic_id))
            continue
        known = name if name is not None else call.view.topic_names.get(topic_id or UUID(int=0))
        if known is not None and not call.allows(Operation.DELETE, topic_of(known)):
            # A client that may not describe a topic does not get the name that belongs to the topic's id.
            shown = known if name is not None or call.allows(Operation.DESCRIBE, topic_of(known)) else ""
            refused.append(TopicResult(shown, _FORBIDDEN, None, topic_id))
            continue
        if known is None:
            known = f"(id {topic_id})"  # This can't be a topic's name, so the core refuses it as unknown.
            unknown.add(known)
            ids[known] = topic_id
        else:
            ids[known] = call.view.topics[known].topic_id if known in call.view.topics else None
    allowance = await call.allowance(_DELETION_STRICT_SINCE)
    throttled = _throttled(allowance, {name: _partitions(call, name) for name in ids if name in call.view.topics})
    names = tuple(name for name in ids if name not in throttled)
    results = await _ask_for_topics(call, names, lambda token: TopicDeletionsSubmitted(names, token), request.timeout)
    allowance.give_back(_unchanged(results))
    results = (*results, *throttled.values())
    told_of = [_unknown_id(result, ids[result.name]) if result.name in unknown else result for result in results]
    return call.answer(
        throttle_time=allowance.throttle_ms,
        responses=[
            {
                "name": result.name or (None if by_id else ""),
                "topic_id": result.topic_id or ids.get(result.name),
                "error_code": _deletion_error(result.error, call.version),
                "error_message": result.message,
            }
            for result in (*told_of, *refused)
        ],
    )


def _unknown_id(result: TopicResult, topic_id: UUID | None) -> TopicResult:
    if result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        told = f"no topic has the id {topic_id}" if topic_id else "neither the name nor the id of a topic was given"
        return TopicResult("", ErrorCode.UNKNOWN_TOPIC_ID, told, topic_id)
    return TopicResult("", result.error, result.message, topic_id)


def _deletion_error(error: ErrorCode, version: int) -> ErrorCode:
    """Return an error that clients of this version know: the first versions have no error for disabled deletion."""
    disabled = error is ErrorCode.TOPIC_DELETION_DISABLED
    return ErrorCode.INVALID_REQUEST if disabled and version < _DISABLED_SINCE else error


def _repeats(name: str, told: str) -> TopicResult:
    return TopicResult(name, ErrorCode.INVALID_REQUEST, told)


def releases_of(brokers: Iterable[ApiRanges]) -> Releases:
    """Derive the brokers' oldest and newest release from the versions of Fetch that they serve."""
    known = [_RELEASES.get(ranges[FETCH][1], UNKNOWN_RELEASES) for ranges in brokers if FETCH in ranges]
    if not known:
        return UNKNOWN_RELEASES
    return Releases(min(each.oldest for each in known), max(each.newest for each in known))


async def _ask_for_topics(
    call: Call, names: Iterable[str], make_event: Callable[[ReplyToken], Event], patience: timedelta
) -> tuple[TopicResult, ...]:
    """Ask the core, and return a result for every topic, also if the whole request is refused."""
    names = tuple(names)
    if not names:
        return ()
    try:
        reply = await call.submit(make_event, int(patience.total_seconds() * 1000))
    except RequestRejected as refused:
        return tuple(TopicResult(name, refused.error_code, refused.message) for name in names)
    if not isinstance(reply, TopicResultsReply):
        raise unexpected(reply, TopicResultsReply)
    if reply.error is not ErrorCode.NONE:
        known = {result.name: result for result in reply.topics}
        return tuple(known.get(name, TopicResult(name, reply.error)) for name in names)
    return reply.topics
