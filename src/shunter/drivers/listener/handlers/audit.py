"""The audit log: which principal asked for what, with which outcome. It has only administrative requests.

The event loop hands over the request and its answer unchanged (`Audited`); a thread of the log makes the line. Secrets
are not logged: of configurations only the names are, of credentials and tokens only their owners.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from kio.schema.index import api_key_map

from shunter.drivers.listener.handlers.context import Call, RawAnswer
from shunter.errors import ErrorCode, FormatError
from shunter.model.log_line import LogLine
from shunter.wire import requests
from shunter.wire.reassignments import ALTER_PARTITION_REASSIGNMENTS

Facts: TypeAlias = dict[str, Any]

ASKED_AT_MOST = 100
"""Topics, partitions, users … of one request that are listed; all are counted."""
REFUSED_AT_MOST = 20
"""Refusals of one request that are listed; all are counted, by error."""
EXAMINED_AT_MOST = 1_000
"""Results of one answer that the event loop examines to find the outcome for the metric."""
TEXT_AT_MOST = 300
"""Characters of a name or a message."""
PASSED_ON_UNREAD: Final = frozenset({21, 30, 31, 38, 39, 40, 42, 47, 49})
"""Administrative APIs that are relayed without being decoded: records, ACLs, tokens, groups, offsets, quotas."""


class Audited(NamedTuple):
    """A request and its answer, or `failure`: why it was not answered. `at_ms` is the time of either."""

    at_ms: int
    call: Call
    answer: Any
    failure: str | None
    took_ms: int


def is_audited(api_key: int) -> bool:
    """Whether requests of this API are administrative. Brokers' own requests are not."""
    return api_key in _ASKED or api_key in PASSED_ON_UNREAD


def outcome(answer: Any, failure: str | None) -> str:
    """Return the first error of an answer, or NONE, for the metric. A broker's relayed answer is not examined."""
    if failure is not None:
        return "NOT_ANSWERED"
    if isinstance(answer, RawAnswer):
        return "PASSED_ON"
    found = (error for _, error, _ in islice(_results(answer), EXAMINED_AT_MOST) if error)
    return _error_name(next(found, 0))


def audit_line(audited: Audited) -> LogLine:
    """Make the line of a request."""
    call = audited.call
    address, _, _ = call.peer.rpartition(":")
    facts: Facts = {
        "principal": _short(str(call.principal)),
        "address": address or call.peer,
        "client_id": None if call.parsed.client_id is None else _short(call.parsed.client_id),
        "listener": call.listener,
        "api": api_name(call.parsed.api_key),
        "version": call.parsed.version,
        "took_ms": audited.took_ms,
    }
    if call.parsed.message is not None:
        facts |= _asked(call.parsed.api_key, call.parsed.message)
    if audited.failure is not None:
        facts["not_answered"] = _short(audited.failure)
    else:
        facts |= _outcome(call, audited.answer)
    return LogLine(audited.at_ms, "request", facts)


@cache
def api_name(api_key: int) -> str:
    """Name an API as Kafka does; an unknown one by its number."""
    known = api_key_map.get(api_key)
    return str(api_key) if known is None else "".join(word.capitalize() for word in known.split("_"))


# ---- the request


def _asked(api_key: int, request: Any) -> Facts:
    asked = _ASKED[api_key](request)
    listed = list(islice(asked, ASKED_AT_MOST))
    facts: Facts = {"asked": listed, "asked_count": len(listed) + sum(1 for _ in asked)}
    if getattr(request, "validate_only", False):
        facts["validate_only"] = True
    return facts


def _new_topics(request: Any) -> Iterator[Facts]:
    for topic in request.topics:
        facts: Facts = {"topic": _short(topic.name)}
        if topic.assignments:
            facts["partitions"] = len(topic.assignments)
        else:
            facts |= {"partitions": topic.num_partitions, "replication_factor": topic.replication_factor}
        if topic.configs:
            facts["configs"] = [_short(config.name) for config in topic.configs[:ASKED_AT_MOST]]
        yield facts


def _deleted_topics(request: Any) -> Iterator[Facts]:
    for topic in getattr(request, "topics", None) or ():
        yield {"topic": _short(topic.name)} if topic.name is not None else {"topic_id": str(topic.topic_id)}
    for name in getattr(request, "topic_names", None) or ():
        yield {"topic": _short(name)}


def _grown_topics(request: Any) -> Iterator[Facts]:
    for topic in request.topics:
        yield {"topic": _short(topic.name), "partitions": topic.count}


def _elections(request: Any) -> Iterator[Facts]:
    kind = "unclean" if getattr(request, "election_type", 0) == 1 else "preferred"
    if request.topic_partitions is None:
        yield {"election": kind, "all": True}
        return
    for topic in request.topic_partitions:
        for partition in topic.partitions:
            yield {"topic": _short(topic.topic), "partition": partition, "election": kind}


def _reassignments(request: Any) -> Iterator[Facts]:
    whole = {} if request.intervention is None else {"intervention": request.intervention.name.lower()}
    if request.topics is None:
        yield {"all": True, "replicas": None, **whole}
        return
    for topic in request.topics:
        if topic.partitions is None:
            yield {"topic": _short(topic.name), "replicas": None, **whole}
            continue
        for each in topic.partitions:
            facts: Facts = {
                "topic": _short(topic.name),
                "partition": each.partition,
                "replicas": each.replicas,
                **whole,
            }
            if each.intervention is not None:
                facts["intervention"] = each.intervention.name.lower()
            if each.forced or request.forced:
                facts["forced"] = True
            yield facts


def _configs(request: Any) -> Iterator[Facts]:
    for resource in request.resources:
        names = [_short(config.name) for config in resource.configs[:ASKED_AT_MOST]]
        yield {"resource_type": resource.resource_type, "resource": _short(resource.resource_name), "configs": names}


def _credentials(request: Any) -> Iterator[Facts]:
    for each in request.upsertions:
        yield {"user": _short(each.name), "mechanism": each.mechanism, "iterations": each.iterations}
    for each in request.deletions:
        yield {"user": _short(each.name), "mechanism": each.mechanism, "deleted": True}


def _features(request: Any) -> Iterator[Facts]:
    for each in request.feature_updates:
        yield {"feature": _short(each.feature), "max_version_level": each.max_version_level}


def _log_dirs(request: Any) -> Iterator[Facts]:
    for each in request.dirs:
        for topic in each.topics:
            for partition in topic.partitions:
                yield {"topic": _short(topic.name), "partition": partition, "log_dir": _short(each.path)}


_ASKED: Final[Mapping[int, Callable[[Any], Iterator[Facts]]]] = {
    requests.CREATE_TOPICS: _new_topics,
    requests.DELETE_TOPICS: _deleted_topics,
    requests.CREATE_PARTITIONS: _grown_topics,
    requests.ELECT_LEADERS: _elections,
    ALTER_PARTITION_REASSIGNMENTS: _reassignments,
    requests.ALTER_CONFIGS: _configs,
    requests.INCREMENTAL_ALTER_CONFIGS: _configs,
    requests.ALTER_USER_SCRAM_CREDENTIALS: _credentials,
    requests.UPDATE_FEATURES: _features,
    requests.ALTER_REPLICA_LOG_DIRS: _log_dirs,
}


# ---- the outcome


def _outcome(call: Call, answer: Any) -> Facts:
    facts: Facts = {}
    if isinstance(answer, RawAnswer):
        facts["by_a_broker"] = True
        try:
            answer = requests.decode_response(call.parsed, answer.frame)
        except FormatError:
            return facts
    counts: Counter[str] = Counter()
    refused: list[Facts] = []
    for named, error, message in _results(answer):
        counts[_error_name(error)] += 1
        if error and len(refused) < REFUSED_AT_MOST:
            told = {"message": _short(message)} if message else {}
            refused.append({**named, "error": _error_name(error), **told})
    facts["outcome"] = dict(counts.most_common())
    if refused:
        facts["refused"] = refused
    return facts


_NAMES = (
    "name",
    "topic",
    "partition",
    "partition_index",
    "partition_id",
    "user",
    "feature",
    "resource_name",
    "group_id",
)


def _results(answer: Any, named: Facts | None = None) -> Iterator[tuple[Facts, int, str | None]]:
    """Yield every error field of an answer of any form: (names of its subject, error, message)."""
    named = dict(named or {})
    for field in _NAMES:
        value = getattr(answer, field, None)
        if isinstance(value, str | int) and not isinstance(value, bool):
            known = {"name": "topic", "partition_index": "partition", "partition_id": "partition"}.get(field, field)
            named[known] = _short(value) if isinstance(value, str) else int(value)
    if "topic" not in named and getattr(answer, "topic_id", None) is not None:
        named["topic_id"] = str(answer.topic_id)
    inner = [value for _, value in _fields(answer) if isinstance(value, tuple | list)]
    for field in ("error_code", "error"):
        error = getattr(answer, field, None)
        if error is not None:
            # The top-level error counts if it is not zero, or if the answer has no results.
            if int(error) or named or not any(inner):
                message = getattr(answer, "error_message", None) or getattr(answer, "message", None)
                yield named, int(error), message
            break
    for values in inner:
        for each in values:
            if dataclasses.is_dataclass(each) or hasattr(each, "_fields"):
                yield from _results(each, named)


def _fields(value: Any) -> Iterable[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return list(value._asdict().items()) if hasattr(value, "_asdict") else ()


def _error_name(error: int) -> str:
    try:
        return ErrorCode(error).name
    except ValueError:
        return str(error)


def _short(text: str) -> str:
    return text if len(text) <= TEXT_AT_MOST else f"{text[: TEXT_AT_MOST - 1]}…"
