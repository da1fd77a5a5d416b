"""What a client asks of one node and gets for ours: versions, log dirs, groups; and coordinators, which others know."""

from __future__ import annotations

from typing import Any

from shunter.drivers.handlers.context import Call
from shunter.errors import DriverError, ErrorCode

_KEYS_SINCE = 4


async def api_versions(_request: Any, call: Call) -> Any:
    """Answer ApiVersions: what we serve, and what a live broker serves for us in versions that all of them take."""
    return call.node.versions.body(call.version, call.node.api_ranges())


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
    """Have a broker answer FindCoordinator; without one, clients are told to ask again."""
    try:
        return await call.pass_on()
    except DriverError as failure:
        unknown = {
            "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "error_message": str(failure),
            "node_id": -1,
            "host": "",
            "port": -1,
        }
        keys = request.coordinator_keys if call.version >= _KEYS_SINCE else ()
        return call.answer(**unknown, coordinators=[{**unknown, "key": key} for key in keys])
