"""DescribeConfigs (32), AlterConfigs (33) and IncrementalAlterConfigs (44): ours here, all others at a live broker.

A request that names our own node and others is split: our part is answered here, the rest is passed on as a request
of its own, and both answers are put together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from kio.serial import entity_reader

from shunter.drivers.handlers.context import Call
from shunter.errors import DriverError, ErrorCode
from shunter.wire.framing import read_response_head, request_frame_head, response_header_version
from shunter.wire.requests import encode_message, response_entity

BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
DYNAMIC_BROKER_CONFIG = 2
_OPERATIONS = range(4)
_Answered = dict[str, Any]


async def describe_configs(request: Any, call: Call) -> Any:
    """Answer DescribeConfigs."""
    return await _split(request, call, "results", lambda resource: _described(resource, call))


async def alter_configs(request: Any, call: Call) -> Any:
    """Answer AlterConfigs: for us, exactly these values from now on."""

    def ours(resource: Any) -> _Answered:
        if not request.validate_only:
            call.node.own_configs.replace({one.name: one.value for one in resource.configs if one.value is not None})
        return _altered(resource)

    return await _split(request, call, "responses", ours)


async def incremental_alter_configs(request: Any, call: Call) -> Any:
    """Answer IncrementalAlterConfigs."""

    def ours(resource: Any) -> _Answered:
        unknown = sorted({one.config_operation for one in resource.configs} - set(_OPERATIONS))
        if unknown:
            told = f"broker {resource.resource_name}: operations {unknown} are none of set, delete, append, subtract"
            return _altered(resource, ErrorCode.INVALID_REQUEST, told)
        if not request.validate_only:
            for one in resource.configs:
                call.node.own_configs.apply(one.name, one.config_operation, one.value)
        return _altered(resource)

    return await _split(request, call, "responses", ours)


async def _split(request: Any, call: Call, answers: str, ours: Callable[[Any], _Answered]) -> Any:
    """Answer our own resources by `ours`, and have a broker answer the others, in the field called `answers`."""
    own_name = str(call.view.controller_id)
    own: list[Any] = []
    others: list[Any] = []
    for resource in request.resources:
        is_node = resource.resource_type in {BROKER_RESOURCE, BROKER_LOGGER_RESOURCE}
        (own if is_node and resource.resource_name == own_name else others).append(resource)
    if not own:
        try:
            return await call.pass_on()
        except DriverError as failure:
            return call.answer(**{answers: [_unanswered(resource, failure) for resource in others]})
    passed: tuple[Any, ...] = ()
    unanswered: list[_Answered] = []
    if others:
        try:
            passed = getattr(await _pass_on(request, tuple(others), call), answers)
        except DriverError as failure:
            unanswered = [_unanswered(resource, failure) for resource in others]
    made = call.answer(**{answers: [*(ours(resource) for resource in own), *unanswered]})
    return type(made)(throttle_time=made.throttle_time, **{answers: getattr(made, answers) + tuple(passed)})


async def _pass_on(request: Any, resources: tuple[Any, ...], call: Call) -> Any:
    """Have a broker answer a part of a request, and decode what it says."""
    parsed = call.parsed
    body = encode_message(replace(request, resources=resources))
    frame = (
        request_frame_head(parsed.api_key, parsed.version, parsed.correlation_id, parsed.client_id, len(body)) + body
    )
    answer = memoryview(await call.node.relay.pass_on(frame[4:], call.listener))[4:]
    header = response_header_version(parsed.api_key, parsed.version)
    _, offset = read_response_head(answer, 0 if header is None else header)
    response, _ = _reader(response_entity(parsed))(answer, offset)
    return response


@cache
def _reader(schema: Any) -> Any:
    return entity_reader(schema)


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
    return _altered(resource, ErrorCode.BROKER_NOT_AVAILABLE, str(failure))
