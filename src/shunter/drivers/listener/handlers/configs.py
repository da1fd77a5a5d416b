"""DescribeConfigs (32), AlterConfigs (33) and IncrementalAlterConfigs (44), for this node and for other resources.

A request that names this node and other resources is split: the part about this node is answered here, the rest is sent
to a live broker as a request of its own, and both answers are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from shunter.drivers.listener.handlers.context import Call
from shunter.drivers.listener.own_configs import SET, refusal_of_operations
from shunter.errors import DriverError, ErrorCode
from shunter.model.partition import BrokerId
from shunter.model.security.acl import CLUSTER, Operation, topic

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
_OF_THE_CLUSTER = frozenset({BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE})
DYNAMIC_BROKER_CONFIG = 2
_OPERATIONS = range(4)
_Answered = dict[str, Any]


async def describe_configs(request: Any, call: Call) -> Any:
    """Answer DescribeConfigs."""
    read = Operation.DESCRIBE_CONFIGS
    return await _split(request, call, read, "results", lambda resource: _described(resource, call))


async def alter_configs(request: Any, call: Call) -> Any:
    """Answer AlterConfigs: the values replace all configs of this node."""

    def ours(resource: Any) -> _Answered:
        refused = _refused(resource, ((one.name, SET, one.value) for one in resource.configs))
        if refused is None and not request.validate_only:
            call.node.own_configs.replace({one.name: one.value for one in resource.configs})
        return refused or _altered(resource)

    return await _split(request, call, Operation.ALTER_CONFIGS, "responses", ours)


async def incremental_alter_configs(request: Any, call: Call) -> Any:
    """Answer IncrementalAlterConfigs."""

    def ours(resource: Any) -> _Answered:
        unknown = sorted({one.config_operation for one in resource.configs} - set(_OPERATIONS))
        if unknown:
            told = f"broker {resource.resource_name}: operations {unknown} are none of set, delete, append, subtract"
            return _altered(resource, ErrorCode.INVALID_REQUEST, told)
        refused = _refused(resource, ((one.name, one.config_operation, one.value) for one in resource.configs))
        if refused is not None:
            return refused
        if not request.validate_only:
            for one in resource.configs:
                call.node.own_configs.apply(one.name, one.config_operation, one.value)
        return _altered(resource)

    return await _split(request, call, Operation.ALTER_CONFIGS, "responses", ours)


def _refused(resource: Any, asked: Iterable[tuple[str, int, str | None]]) -> _Answered | None:
    """Refuse what can't be changed on this node, or return None."""
    asked = tuple(asked)
    if resource.resource_type == BROKER_LOGGER_RESOURCE:
        told = f"Logger {asked[0][0]} does not exist!" if asked else ""
        return _altered(resource, ErrorCode.INVALID_CONFIG, told) if asked else None
    refused = refusal_of_operations(asked)
    return None if refused is None else _altered(resource, *refused)


async def _split(request: Any, call: Call, operation: Operation, answers: str, ours: Callable[[Any], _Answered]) -> Any:
    """Answer for this node by `ours`, and have a broker answer for the other resources, in the field called `answers`.

    Resources that the sender may not read or alter are refused here, and are not sent to a broker.
    """
    own_name = str(call.view.controller_id)
    own: list[Any] = []
    others: list[Any] = []
    unanswered: list[_Answered] = []
    for resource in request.resources:
        error = _forbidden(resource, operation, call)
        if error is not ErrorCode.NONE:
            unanswered.append(_altered(resource, error))
            continue
        is_node = resource.resource_type in {BROKER_RESOURCE, BROKER_LOGGER_RESOURCE}
        (own if is_node and resource.resource_name == own_name else others).append(resource)
    if not own and not unanswered:
        try:
            return await call.pass_on(_named_broker(others))
        except DriverError as failure:
            return call.answer(**{answers: [_unanswered(resource, failure) for resource in others]})
    passed: tuple[Any, ...] = ()
    if others:
        asked = replace(request, resources=tuple(others))
        try:
            passed = getattr(await call.ask_broker(asked, _named_broker(others)), answers)
        except DriverError as failure:
            unanswered += [_unanswered(resource, failure) for resource in others]
    made = call.answer(**{answers: [*(ours(resource) for resource in own), *unanswered]})
    return type(made)(throttle_time=made.throttle_time, **{answers: getattr(made, answers) + tuple(passed)})


def _named_broker(resources: list[Any]) -> BrokerId | None:
    """Return the broker that a request is about: only this broker answers for its own configs. None: any broker does."""
    kinds = {BROKER_RESOURCE, BROKER_LOGGER_RESOURCE}
    names = {one.resource_name for one in resources if one.resource_type in kinds and one.resource_name}
    name = names.pop() if len(names) == 1 else ""
    return int(name) if name.isascii() and name.isdigit() else None


def _forbidden(resource: Any, operation: Operation, call: Call) -> ErrorCode:
    """Return the error that a resource is refused with, or NONE.

    For other kinds of resources the required right is not known: only a sender without limits may ask about them.
    """
    if resource.resource_type == TOPIC_RESOURCE:
        allowed = call.allows(operation, topic(resource.resource_name))
        return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if resource.resource_type in _OF_THE_CLUSTER:
        return ErrorCode.NONE if call.allows(operation, CLUSTER) else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.NONE if call.unlimited else ErrorCode.INVALID_REQUEST


def _described(resource: Any, call: Call) -> _Answered:
    wanted = getattr(resource, "configuration_keys", None)
    values = call.node.own_configs.values if resource.resource_type == BROKER_RESOURCE else {}
    configs = [
        {
            "name": name,
            "value": value,
            "read_only": False,
            "is_default": False,
            "config_source": DYNAMIC_BROKER_CONFIG,
            "is_sensitive": False,
        }
        for name, value in sorted(values.items())
        if wanted is None or name in wanted
    ]
    return {**_altered(resource), "configs": configs}


def _altered(resource: Any, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> _Answered:
    return {
        "error_code": error,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": (),
    }


def _unanswered(resource: Any, failure: DriverError) -> _Answered:
    return _altered(resource, ErrorCode.REQUEST_TIMED_OUT, str(failure))
