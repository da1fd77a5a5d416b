"""Chooses the handler of a request by its API, and refuses what the caller may not ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from shunter.drivers.brokers.relay import PASSED_ON
from shunter.drivers.listener.answer import Answer
from shunter.drivers.listener.handlers import (
    brokers,
    configs,
    credentials,
    features,
    metadata,
    node,
    reassignments,
    topics,
)
from shunter.drivers.listener.handlers.audit import is_audited
from shunter.drivers.listener.handlers.context import Call, PiecedBody, RawAnswer
from shunter.drivers.listener.handlers.refusals import NO_RIGHT, refusal_of, refused
from shunter.drivers.listener.handlers.rights import missing_right, why_not_passed_on
from shunter.errors import DriverError, ErrorCode, FormatError, RequestRejected
from shunter.wire import requests
from shunter.wire.alter_partition import ALTER_PARTITION
from shunter.wire.framing import response_frame_head
from shunter.wire.reassignments import ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS
from shunter.wire.requests import encode_response

Handler = Callable[[Any, Call], Awaitable[Any]]
"""(decoded request, call) -> kio's response of that version, a result of `wire`, a body, or a `RawAnswer`."""

HANDLERS: Final[Mapping[int, Handler]] = {
    requests.METADATA: metadata.metadata,
    requests.CONTROLLED_SHUTDOWN: brokers.controlled_shutdown,
    requests.FIND_COORDINATOR: node.find_coordinator,
    requests.LIST_GROUPS: node.list_groups,
    requests.SASL_HANDSHAKE: node.sasl_handshake,
    requests.API_VERSIONS: node.api_versions,
    requests.CREATE_TOPICS: topics.create_topics,
    requests.DELETE_TOPICS: topics.delete_topics,
    requests.DESCRIBE_CONFIGS: configs.describe_configs,
    requests.ALTER_CONFIGS: configs.alter_configs,
    requests.ALTER_REPLICA_LOG_DIRS: node.alter_replica_log_dirs,
    requests.DESCRIBE_LOG_DIRS: node.describe_log_dirs,
    requests.SASL_AUTHENTICATE: node.sasl_authenticate,
    requests.CREATE_PARTITIONS: topics.create_partitions,
    requests.ELECT_LEADERS: reassignments.elect_leaders,
    requests.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    ALTER_PARTITION_REASSIGNMENTS: reassignments.alter_partition_reassignments,
    LIST_PARTITION_REASSIGNMENTS: reassignments.list_partition_reassignments,
    requests.ALTER_USER_SCRAM_CREDENTIALS: credentials.alter_user_scram_credentials,
    ALTER_PARTITION: brokers.alter_partition,
    requests.UPDATE_FEATURES: features.update_features,
    requests.DESCRIBE_CLUSTER: metadata.describe_cluster,
    requests.LIST_TRANSACTIONS: node.list_transactions,
    requests.ALLOCATE_PRODUCER_IDS: brokers.allocate_producer_ids,
}

_ATTENDED: Final = frozenset({
    requests.CREATE_TOPICS, requests.DELETE_TOPICS, requests.CREATE_PARTITIONS, requests.ALTER_USER_SCRAM_CREDENTIALS,
    requests.UPDATE_FEATURES,
})  # fmt: skip
"""APIs whose handlers may wait for ZooKeeper, which may be out of reach for ever. The others wait for the core alone."""
UNTIMED_S = 20.0
"""How long a caller waits whose request has no timeout: clients wait for 30 s (`request.timeout.ms`)."""
GRACE_S = 0.5
"""How much longer than its request's timeout a caller waits, so that a handler's answer about each part comes first."""

_ASK_AGAIN: Final[Mapping[int, ErrorCode]] = {
    **dict.fromkeys((8, 9, 11, 12, 13, 14, 24, 25, 26, 28, 47), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    22: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""By relayed API: the error after which clients look for the coordinator again, or wait and ask again."""


def _refused(call: Call, error: ErrorCode) -> Any:
    """Refuse a request because its sender lacks a right.

    Raises:
        FormatError: the API's response has no field for an error: the connection ends.
    """
    answer = refused(call, error, NO_RIGHT.get(error))
    if answer is None:
        told = f"API {call.parsed.api_key} is not passed on for {call.principal}: ask a broker ({error.name})"
        raise FormatError(call.peer, told)
    return answer


async def respond(call: Call) -> Answer:
    """Answer a request with a whole frame. A request that meets a bug of Shunter is refused, and no other request is.

    Raises:
        FormatError: an API that is neither served nor relayed; as in Kafka, that ends the connection.
        DriverError: the request would be relayed, but no broker answered.
    """
    if not is_audited(call.parsed.api_key):
        return _framed(call, await _handle(call))
    began = time.monotonic()
    try:
        answer = await _handle(call)
    except (FormatError, DriverError) as failure:
        call.node.audit(call, None, str(failure), time.monotonic() - began)
        raise
    except asyncio.CancelledError:
        call.node.audit(call, None, "the caller hung up before the answer", time.monotonic() - began)
        raise
    call.node.audit(call, answer, None, time.monotonic() - began)
    return _framed(call, answer)


async def _handle(call: Call) -> Any:
    missing = missing_right(call)
    if missing is not None:
        return _refused(call, missing)
    handler = HANDLERS.get(call.parsed.api_key)
    if handler is not None:
        try:
            if call.parsed.api_key not in _ATTENDED:
                return await handler(call.parsed.message, call)
            async with call.node.callers.attended(_patience_s(call.parsed.message)):
                return await handler(call.parsed.message, call)
        except (FormatError, DriverError):
            raise
        except RequestRejected as why:
            answer = refused(call, why.error_code, why.message)
            if answer is None:
                raise
            return answer
        except Exception as bug:
            answer = refusal_of(call, bug)
            if answer is None:
                raise
            return answer
    if call.parsed.api_key in PASSED_ON:
        missing = why_not_passed_on(call)
        return await _passed_on(call) if missing is None else _refused(call, missing)
    raise FormatError(call.peer, f"API {call.parsed.api_key} is not served by this node")


def _patience_s(message: Any) -> float:
    """Return how long the sender of a request waits for its answer, in seconds."""
    timeout: timedelta = getattr(message, "timeout", timedelta())
    return timeout.total_seconds() + GRACE_S if timeout > timedelta() else UNTIMED_S


async def _passed_on(call: Call) -> Any:
    """Have a broker answer. If none does, clients get an error after which they ask again.

    Raises:
        DriverError: the same, and the API's response has no field for an error: the connection ends.
    """
    try:
        return await call.pass_on()
    except DriverError as failure:
        answer = refused(call, _ASK_AGAIN.get(call.parsed.api_key, ErrorCode.REQUEST_TIMED_OUT), str(failure))
        if answer is None:
            raise
        return answer


def _framed(call: Call, answer: Any) -> Answer:
    if isinstance(answer, RawAnswer):
        return Answer(answer.frame)
    if isinstance(answer, PiecedBody):
        length = len(answer.head) + answer.size + len(answer.tail)
        parsed = call.parsed
        head = response_frame_head(parsed.api_key, parsed.version, parsed.correlation_id, length)
        return Answer(head + answer.head, answer.pieces, answer.tail, answer.size)
    return Answer(encode_response(call.parsed, answer))
