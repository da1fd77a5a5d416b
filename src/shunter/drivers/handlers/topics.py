"""CreateTopics (19), DeleteTopics (20) and CreatePartitions (37)."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any
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
from shunter.drivers.handlers.context import Call, unexpected
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.partition import Replicas

DYNAMIC_TOPIC_CONFIG = 1
_SEED_BITS = 63


async def create_topics(request: Any, call: Call) -> Any:
    """Hand new topics to the core; ids and placement seeds are drawn here, for the core has no randomness."""
    repeated = {name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1}
    refused: list[TopicResult] = [_repeats(name) for name in sorted(repeated)]
    topics: list[NewTopic] = []
    for topic in request.topics:
        if topic.name in repeated:
            continue
        try:
            topics.append(_new_topic(topic))
        except RequestRejected as error:
            refused.append(TopicResult(topic.name, error.error_code, error.message))
    validate_only = getattr(request, "validate_only", False)
    results = await _ask_for_topics(
        call,
        [topic.name for topic in topics],
        lambda token: TopicsSubmitted(tuple(topics), validate_only, token),
        request.timeout,
    )
    configs = {topic.name: topic.configs for topic in topics}
    return call.answer(topics=[_created(result, configs.get(result.name, {})) for result in (*results, *refused)])


def _new_topic(topic: Any) -> NewTopic:
    """Read one topic of a CreateTopics.

    Raises:
        RequestRejected: what no core needs to see: contradictions within the request itself.
    """
    assigned = Counter(assignment.partition_index for assignment in topic.assignments)
    twice = sorted(number for number, count in assigned.items() if count > 1)
    if twice:
        told = f"topic {topic.name}: partitions {twice} are assigned more than once; assign each of them once"
        raise RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, told)
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        told = (
            f"topic {topic.name} has assignments and also {topic.num_partitions} partitions with replication factor"
            f" {topic.replication_factor}: with assignments both must be -1"
        )
        raise RequestRejected(ErrorCode.INVALID_REQUEST, told)
    nulls = sorted(config.name for config in topic.configs if config.value is None)
    if nulls:
        told = f"topic {topic.name}: configs {nulls} are null; leave out what is to have its default"
        raise RequestRejected(ErrorCode.INVALID_CONFIG, told)
    return NewTopic(
        name=topic.name,
        topic_id=uuid4(),
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={assignment.partition_index: tuple(assignment.broker_ids) for assignment in topic.assignments},
        configs={config.name: config.value for config in topic.configs},
        placement_seed=secrets.randbits(_SEED_BITS),
    )


def _created(result: TopicResult, configs: Mapping[str, str]) -> dict[str, Any]:
    """Put one topic's result into words. Configs are those that were asked for: Apache's tools need a list there."""
    succeeded = result.error is ErrorCode.NONE
    return {
        "name": result.name,
        "topic_id": result.topic_id,
        "error_code": result.error,
        "error_message": result.message,
        "topic_config_error_code": 0,
        "num_partitions": result.partition_count,
        "replication_factor": result.replication_factor,
        "configs": [
            {
                "name": name,
                "value": value,
                "read_only": False,
                "config_source": DYNAMIC_TOPIC_CONFIG,
                "is_sensitive": False,
            }
            for name, value in sorted(configs.items())
            if succeeded
        ],
    }


async def create_partitions(request: Any, call: Call) -> Any:
    """Hand new partitions to the core."""
    repeated = {name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1}
    asked: dict[str, tuple[int, tuple[Replicas, ...] | None]] = {
        topic.name: (topic.count, _new_assignments(topic)) for topic in request.topics if topic.name not in repeated
    }
    results = await _ask_for_topics(
        call, list(asked), lambda token: PartitionsSubmitted(asked, request.validate_only, token), request.timeout
    )
    told = [*results, *(_repeats(name) for name in sorted(repeated))]
    return call.answer(
        results=[{"name": one.name, "error_code": one.error, "error_message": one.message} for one in told]
    )


def _new_assignments(topic: Any) -> tuple[Replicas, ...] | None:
    if topic.assignments is None:
        return None
    return tuple(tuple(assignment.broker_ids) for assignment in topic.assignments)


async def delete_topics(request: Any, call: Call) -> Any:
    """Hand deletions to the core; topics by id are named here, and answered with id and name."""
    if call.version < 6:
        asked: list[tuple[str | None, UUID | None]] = [(name, None) for name in request.topic_names]
    else:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    names: list[str] = []
    unknown: list[TopicResult] = []
    for name, topic_id in asked:
        known = name if name is not None else call.view.topic_names.get(topic_id or UUID(int=0))
        if not call.view.active:
            names.append(known or "")
        elif known is None:
            told = f"no topic has the id {topic_id}"
            unknown.append(TopicResult("", ErrorCode.UNKNOWN_TOPIC_ID, told, topic_id))
        else:
            names.append(known)
    ids = {known: call.view.topics[known].topic_id for known in names if known in call.view.topics}
    unique = tuple(dict.fromkeys(names))
    results = await _ask_for_topics(
        call, list(unique), lambda token: TopicDeletionsSubmitted(unique, token), request.timeout
    )
    return call.answer(
        responses=[
            {
                "name": result.name or (None if call.version >= 6 else ""),
                "topic_id": result.topic_id or ids.get(result.name),
                "error_code": result.error,
                "error_message": result.message,
            }
            for result in (*results, *unknown)
        ]
    )


def _repeats(name: str) -> TopicResult:
    told = f"topic {name} is named more than once in the request; name it once"
    return TopicResult(name, ErrorCode.INVALID_REQUEST, told)


async def _ask_for_topics(
    call: Call, names: Iterable[str], make_event: Callable[[ReplyToken], Event], patience: timedelta
) -> tuple[TopicResult, ...]:
    """Ask the core and give a result for every topic, whatever went wrong."""
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
