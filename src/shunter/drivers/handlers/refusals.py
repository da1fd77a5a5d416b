"""The answer to a request whose handling met a bug of ours: UNKNOWN_SERVER_ERROR, in the form of its API.

Other requests, and the process, go on: a handler holds no state.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from shunter.drivers.handlers.context import Call
from shunter.errors import ErrorCode
from shunter.wire import requests
from shunter.wire.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterReassignmentsResult,
    ListReassignmentsResult,
)
from shunter.wire.requests import response_entity

_LOG = logging.getLogger(__name__)
_UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR


def refusal_of(call: Call, bug: Exception) -> Any | None:
    """Log and count the bug, and make the answer; None where the API has no place for an error."""
    _LOG.error("%s: refused, for it met a bug of ours", call.origin, exc_info=bug)
    call.node.callers.bugs += 1
    told = f"this controller met a bug of its own and refuses the request: {type(bug).__name__}"
    request, key = call.parsed.message, call.parsed.api_key
    if key == ALTER_PARTITION_REASSIGNMENTS:
        return AlterReassignmentsResult(_UNKNOWN, told)
    if key == LIST_PARTITION_REASSIGNMENTS:
        return ListReassignmentsResult(_UNKNOWN, told)
    if key in {requests.CREATE_TOPICS, requests.CREATE_PARTITIONS}:
        results = [{"name": topic.name, "error_code": _UNKNOWN, "error_message": told} for topic in request.topics]
        return call.answer(**{"topics" if key == requests.CREATE_TOPICS else "results": results})
    if key == requests.DELETE_TOPICS:
        asked = getattr(request, "topics", None) or [_Named(name) for name in request.topic_names]
        results = [
            {"name": one.name, "topic_id": one.topic_id, "error_code": _UNKNOWN, "error_message": told} for one in asked
        ]
        return call.answer(responses=results)
    if key == requests.ALTER_USER_SCRAM_CREDENTIALS:
        users = dict.fromkeys(one.name for one in (*request.deletions, *request.upsertions))
        return call.answer(results=[{"user": user, "error_code": _UNKNOWN, "error_message": told} for user in users])
    if any(field.name == "error_code" for field in dataclasses.fields(response_entity(call.parsed))):
        return call.answer(error_code=_UNKNOWN, error_message=told)
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Named:
    name: str
    topic_id: None = None
