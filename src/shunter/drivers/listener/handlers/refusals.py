"""The answer to a request that is refused as a whole, in the form of its API.

The request met a bug of Shunter (UNKNOWN_SERVER_ERROR), or its sender lacks a right. Other requests and the process go
on, because a handler holds no state.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from shunter.drivers.listener.handlers.context import Call
from shunter.drivers.listener.handlers.messages import Values
from shunter.drivers.listener.handlers.rights import ALTER_CLIENT_QUOTAS, CREATE_ACLS, DELETE_ACLS, decoded
from shunter.errors import ErrorCode
from shunter.wire import requests
from shunter.wire.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterReassignmentsRequest,
    AlterReassignmentsResult,
    ListReassignmentsResult,
    PartitionResult,
    TopicResults,
)
from shunter.wire.requests import response_entity

_LOG = logging.getLogger(__name__)


def refusal_of(call: Call, bug: Exception) -> Any | None:
    """Log and count the bug, and make the answer; None if the API's response has no field for an error."""
    _LOG.error("%s: refused, for it met a bug of ours", call.origin, exc_info=bug)
    call.node.callers.bugs += 1
    told = f"this controller met a bug of its own and refuses the request: {type(bug).__name__}"
    return refused(call, ErrorCode.UNKNOWN_SERVER_ERROR, told)


def refused(call: Call, error: ErrorCode, told: str | None) -> Any | None:
    """Make an answer with the error in each field for errors; None if the API's response has no such field."""
    request, key = call.parsed.message, call.parsed.api_key
    why = {"error_code": error, "error_message": told}
    if key == ALTER_PARTITION_REASSIGNMENTS:
        return no_reassignments(request, error, told)
    if key == LIST_PARTITION_REASSIGNMENTS:
        return ListReassignmentsResult(error, told)
    if key in {requests.CREATE_TOPICS, requests.CREATE_PARTITIONS}:
        results = [{"name": topic.name, **why} for topic in request.topics]
        return call.answer(**{"topics" if key == requests.CREATE_TOPICS else "results": results})
    if key == requests.DELETE_TOPICS:
        asked = getattr(request, "topics", None) or [_Named(name) for name in request.topic_names]
        return call.answer(responses=[{"name": one.name, "topic_id": one.topic_id, **why} for one in asked])
    if key == requests.ALTER_USER_SCRAM_CREDENTIALS:
        users = dict.fromkeys(one.name for one in (*request.deletions, *request.upsertions))
        return call.answer(results=[{"user": user, **why} for user in users])
    if key == requests.ELECT_LEADERS:
        return call.answer(**why, replica_election_results=_not_elected(request, why))
    if key == requests.ALTER_REPLICA_LOG_DIRS:
        return call.answer(results=_not_moved(request, why))
    if key in _OF_PARTS:
        return _OF_PARTS[key](call, why)
    fields = dataclasses.fields(response_entity(call.parsed))
    if any(field.name == "error_code" for field in fields):
        nothing = {field.name: _NOTHING.get(field.metadata.get("kafka_type")) for field in fields if _is_needed(field)}
        return call.answer(**{**nothing, **why})
    return None


def no_reassignments(
    request: AlterReassignmentsRequest, error: ErrorCode, told: str | None
) -> AlterReassignmentsResult:
    """Make the answer to an RPC 45 that is refused as a whole.

    Apache's clients look for the error at each partition, unless another node is to be asked.
    """
    if error is ErrorCode.NOT_CONTROLLER:
        return AlterReassignmentsResult(error, told, changes_factor=request.changes_factor)
    named = ((topic.name, topic.partitions or ()) for topic in request.topics or ())
    parts = ((name, tuple(PartitionResult(each.partition, error, told) for each in found)) for name, found in named)
    topics = tuple(TopicResults(name, results) for name, results in parts if results)
    return AlterReassignmentsResult(error, told, topics, changes_factor=request.changes_factor)


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    without = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return without and field.metadata.get("kafka_type") in _NOTHING


def _not_elected(request: Any, why: Values) -> list[Values]:
    return [
        {"topic": topic.topic, "partition_result": [{"partition_id": number, **why} for number in topic.partitions]}
        for topic in request.topic_partitions or ()
    ]


def _not_moved(request: Any, why: Values) -> list[Values]:
    return [
        {"topic_name": topic.name, "partitions": [{"partition_index": number, **why} for number in topic.partitions]}
        for log_dir in request.dirs
        for topic in log_dir.topics
    ]


def _no_acls_made(call: Call, why: Values) -> Any:
    return call.answer(results=[why for _ in decoded(call).creations])


def _no_acls_deleted(call: Call, why: Values) -> Any:
    return call.answer(filter_results=[{**why, "matching_acls": ()} for _ in decoded(call).filters])


def _no_quotas_altered(call: Call, why: Values) -> Any:
    entries = [
        {**why, "entity": [{"entity_type": one.entity_type, "entity_name": one.entity_name} for one in entry.entity]}
        for entry in decoded(call).entries
    ]
    return call.answer(entries=entries)


_NOTHING: Final[Mapping[Any, Any]] = {
    "int16": -1,
    "int32": -1,
    "int64": -1,
    "string": "",
    "bytes": b"",
    "datetime_i64": datetime.fromtimestamp(0, UTC),
}
"""By kio's type: the value of a required field in an answer with an error."""
_OF_PARTS: Final[Mapping[int, Callable[[Call, Values], Any]]] = {
    CREATE_ACLS: _no_acls_made,
    DELETE_ACLS: _no_acls_deleted,
    ALTER_CLIENT_QUOTAS: _no_quotas_altered,
}
"""Relayed APIs whose responses have an error for each part only."""
NO_RIGHT: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation tokens are made by brokers: ask one of them.",
}
"""Kafka's messages, except the last one."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Named:
    name: str
    topic_id: None = None
