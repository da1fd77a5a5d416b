"""What a client asks of one node and gets for ours: versions, log dirs, groups; and coordinators, which others know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shunter.drivers.handlers.context import Call
from shunter.errors import DriverError, ErrorCode
from shunter.model.acl import CLUSTER, AclResource, Operation, ResourceType

_KEYS_SINCE = 4
_COORDINATED = {
    0: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
"""By the type of a coordinator's key."""


async def api_versions(_request: Any, call: Call) -> Any:
    """Answer ApiVersions: what we serve, and what a live broker serves for us in versions that all of them take."""
    return call.node.versions.body(call.version, call.node.api_ranges())


async def sasl_handshake(_request: Any, call: Call) -> Any:
    """Refuse SaslHandshake: the client has logged in, or comes by a listener where nobody does."""
    return call.answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())


async def sasl_authenticate(_request: Any, call: Call) -> Any:
    """Answer SaslAuthenticate likewise."""
    told = "SaslAuthenticate request received after successful authentication"
    return call.answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=told, auth_bytes=b"")


async def describe_log_dirs(_request: Any, call: Call) -> Any:
    """Answer DescribeLogDirs: we have none."""
    return call.answer(error_code=ErrorCode.NONE, results=())


async def alter_replica_log_dirs(request: Any, call: Call) -> Any:
    """Answer AlterReplicaLogDirs: we hold no replica."""
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
    """Answer ListGroups: we coordinate none."""
    return call.answer(error_code=ErrorCode.NONE, groups=())


async def find_coordinator(request: Any, call: Call) -> Any:
    """Have a broker answer FindCoordinator; without one, clients are told to ask again.

    A broker would answer us for groups that whoever asks may not describe: those are refused here. Where a broker is asked
    by another listener, the addresses in its answer are exchanged for those of the listener that this came in on.
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
    """Ask a broker by any listener; by key."""
    answer = await call.ask_broker(asked)
    single = not hasattr(answer, "coordinators")
    return {
        (asked.key if single else one.key): _placed(one, call) for one in ((answer,) if single else answer.coordinators)
    }


def _placed(found: Any, call: Call) -> dict[str, Any]:
    """Give a coordinator's address on the listener that was asked."""
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
