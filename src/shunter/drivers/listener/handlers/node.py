"""Requests about one node, answered for this node: versions, log dirs, groups. Brokers are asked for coordinators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shunter.drivers.listener.handlers.context import Call
from shunter.errors import DriverError, ErrorCode
from shunter.model.broker import CONTROLLERS_LOG_DIR
from shunter.model.security.acl import CLUSTER, AclResource, Operation, ResourceType

_KEYS_SINCE = 4
_COORDINATED = {
    0: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
"""Type of a coordinator's key -> kind of resource, and the error without a right on it."""


async def api_versions(_request: Any, call: Call) -> Any:
    """Answer ApiVersions: the APIs served here, and relayed APIs in the versions that all live brokers support."""
    return call.node.versions.body(call.version, call.node.api_ranges())


async def sasl_handshake(_request: Any, call: Call) -> Any:
    """Refuse SaslHandshake: the client has logged in already, or its listener has no login."""
    return call.answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())


async def sasl_authenticate(_request: Any, call: Call) -> Any:
    """Refuse SaslAuthenticate, for the same reason."""
    told = "SaslAuthenticate request received after successful authentication"
    return call.answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=told, auth_bytes=b"")


async def describe_log_dirs(_request: Any, call: Call) -> Any:
    """Answer DescribeLogDirs: this node has one log dir in name only, with no replica in it."""
    shown = {"error_code": ErrorCode.NONE, "log_dir": CONTROLLERS_LOG_DIR, "topics": ()}
    return call.answer(error_code=ErrorCode.NONE, results=[shown])


async def alter_replica_log_dirs(request: Any, call: Call) -> Any:
    """Answer AlterReplicaLogDirs: this node holds no replicas."""
    partitions: dict[str, list[int]] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            partitions.setdefault(topic.name, []).extend(topic.partitions)
    error = ErrorCode.REPLICA_NOT_AVAILABLE
    return call.answer(
        results=[
            {"topic_name": name, "partitions": [{"partition_index": one, "error_code": error} for one in numbers]}
            for name, numbers in partitions.items()
        ]
    )


async def list_groups(_request: Any, call: Call) -> Any:
    """Answer ListGroups: this node coordinates no groups."""
    return call.answer(error_code=ErrorCode.NONE, groups=())


async def list_transactions(_request: Any, call: Call) -> Any:
    """Answer ListTransactions: this node coordinates none, and clients ask every node for its own."""
    return call.answer(error_code=ErrorCode.NONE, unknown_state_filters=(), transaction_states=())


async def find_coordinator(request: Any, call: Call) -> Any:
    """Have a broker answer FindCoordinator. If no broker answers, clients get an error that makes them ask again.

    A broker would answer Shunter also for groups that the client may not describe: these are refused here. If a broker
    is asked by another listener, the addresses in its answer are replaced by those of the client's listener.
    """
    batched = call.version >= _KEYS_SINCE
    keys: tuple[str, ...] = request.coordinator_keys if batched else (request.key,)
    found = {key: _nowhere(error) for key in keys if (error := _hidden(request, key, call)) is not None}
    allowed = tuple(key for key in keys if key not in found)
    try:
        if allowed and not found and not call.guarded:
            return await call.pass_on()
        if allowed:
            asked = replace(request, coordinator_keys=allowed) if batched else request
            found |= await _coordinators(asked, call)
    except DriverError as failure:
        found |= {key: _nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(failure)) for key in allowed}
    if not batched:
        return call.answer(**found[keys[0]])
    return call.answer(coordinators=[{**found[key], "key": key} for key in keys if key in found])


def _hidden(request: Any, key: str, call: Call) -> ErrorCode | None:
    kind, error = _COORDINATED.get(getattr(request, "key_type", 0), (None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if kind is None:
        return None if call.allows(Operation.CLUSTER_ACTION, CLUSTER) else error
    return None if call.allows(Operation.DESCRIBE, AclResource(kind, key)) else error


def _nowhere(error: int, told: str | None = None) -> dict[str, Any]:
    return {"error_code": error, "error_message": told, "node_id": -1, "host": "", "port": -1}


async def _coordinators(asked: Any, call: Call) -> dict[str, dict[str, Any]]:
    """Ask a broker by any listener; return the coordinators by key."""
    answer = await call.ask_broker(asked)
    single = not hasattr(answer, "coordinators")
    return {
        (asked.key if single else one.key): _placed(one, call) for one in ((answer,) if single else answer.coordinators)
    }


def _placed(found: Any, call: Call) -> dict[str, Any]:
    """Return a coordinator with its address on the client's listener."""
    if found.error_code:
        return _nowhere(int(found.error_code), found.error_message)
    broker = call.view.brokers.get(found.node_id)
    endpoints = () if broker is None else broker.endpoints
    there = next((endpoint for endpoint in endpoints if endpoint.listener == call.listener), None)
    if there is None:
        told = f"its coordinator, broker {found.node_id}, has no listener {call.listener}"
        return _nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE, told)
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "node_id": found.node_id,
        "host": there.host,
        "port": there.port,
    }
