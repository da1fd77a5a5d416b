"""Metadata (3) and DescribeCluster (60): answered from the view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.serial import entity_reader

from shunter.core.controller.state import ClusterView
from shunter.core.topic_names import illegal_name
from shunter.drivers.listener.handlers.context import Call, PiecedBody
from shunter.drivers.listener.handlers.messages import Values, filled
from shunter.drivers.listener.metadata_answers import INTERNAL_TOPICS, Topics
from shunter.errors import DriverError, ErrorCode
from shunter.model.partition import BrokerId
from shunter.model.security.acl import CLUSTER, Operation, topic
from shunter.wire.framing import request_frame_head
from shunter.wire.metadata import OPERATIONS_OMITTED as NOT_ASKED_FOR
from shunter.wire.metadata import Audience, metadata_head, metadata_tail, unserved_topic
from shunter.wire.requests import METADATA, encode_message, response_module

UNSUPPORTED_ENDPOINT_TYPE = 115
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Bits of Kafka's AclOperation: the operations on a topic that every client may do if there is no authorizer."""
_FORBIDDEN = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_IDS_WITHOUT_MEANING = frozenset({10, 11})
"""Versions of Metadata whose requests have topic ids, and in which Apache refuses ids."""
_RELAYED_VERSION = 4
"""The oldest version of Metadata that says whether topics may be created."""


async def metadata(request: Any, call: Call) -> Any:
    """Answer Metadata for clients of the listener that the request came by."""
    if call.version in _IDS_WITHOUT_MEANING and _names_by_id(request):
        return _refuse_ids(request, call)
    names, ids = _asked(request, call.version)
    told = getattr(request, "include_topic_authorized_operations", False)
    audience = Audience(call.version, call.listener, TOPIC_OPERATIONS if told else NOT_ASKED_FOR)
    may_create = getattr(request, "allow_auto_topic_creation", True)
    if names is None and call.unlimited:
        topics = await call.node.metadata.everything(call.view, audience)
    elif names is None:
        seen = await call.node.visible.among(call.view.topics, call.requester)
        topics = _joined((await _served(seen, audience, call)).values())
    else:
        topics = await _some(names, ids, audience, call, may_create=may_create)
    view = call.view
    asked = getattr(request, "include_cluster_authorized_operations", False)
    head = metadata_head(
        call.version,
        brokers=[broker for _, broker in sorted(view.brokers.items())],
        listener=call.listener,
        cluster_id=view.cluster_id,
        controller_id=_controller(view),
        topics=topics.served,
    )
    tail = metadata_tail(call.version, _cluster_operations(call) if asked else NOT_ASKED_FOR)
    return PiecedBody(head, topics.pieces, tail, topics.size)


def _names_by_id(request: Any) -> bool:
    return any(topic.name is None or topic.topic_id for topic in request.topics or ())


def _refuse_ids(request: Any, call: Call) -> Any:
    """Refuse ids in versions that have a field for ids but can't answer by id. Source: Apache's `KafkaApis`."""
    view = call.view
    return call.answer(
        brokers=_brokers(view, call.listener),
        cluster_id=view.cluster_id,
        controller_id=_controller(view),
        topics=[{"error_code": ErrorCode.INVALID_REQUEST, "name": topic.name or ""} for topic in request.topics],
    )


async def _some(names: list[str], ids: list[UUID], audience: Audience, call: Call, *, may_create: bool) -> Topics:
    """Gather the topics that were asked for by name or id, and errors for topics that are not served."""
    names = list(dict.fromkeys(names))
    by_id = {topic_id: call.view.topic_names.get(topic_id, "") for topic_id in dict.fromkeys(ids)}
    hidden = {name for name in (*names, *by_id.values()) if name and not call.allows(Operation.DESCRIBE, topic(name))}
    served = await _served([name for name in (*names, *by_id.values()) if name not in hidden], audience, call)
    errors = {name: _error(name) for name in names if name not in served}
    errors |= {name: _FORBIDDEN for name in names if name in hidden}
    if may_create:
        errors |= _may_not_be_made(errors, call)
        errors |= await _let_a_broker_create(
            [
                name
                for name, error in errors.items()
                if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name not in call.view.topics
            ],
            call,
        )
    pieces: list[bytes] = []
    for name in names:
        if name in served:
            pieces.append(served[name])
        else:
            internal = name in INTERNAL_TOPICS and name not in hidden
            pieces.append(unserved_topic(audience, errors[name], name, internal=internal))
    for topic_id, name in by_id.items():
        if name in served:
            pieces.append(served[name])
        else:
            error = _FORBIDDEN if name in hidden else ErrorCode.UNKNOWN_TOPIC_ID
            pieces.append(unserved_topic(audience, error, None, topic_id, internal=False))
    return _joined(pieces)


def _joined(pieces: Iterable[bytes]) -> Topics:
    found = tuple(pieces)
    return Topics(len(found), found, sum(map(len, found)))


async def _served(names: list[str], audience: Audience, call: Call) -> dict[str, bytes]:
    """Return the topics of these names. If the client asks for it, each has the operations that the client may do."""
    if audience.operations == NOT_ASKED_FOR or call.unlimited:
        return await call.node.metadata.some(call.view, audience, names)
    alike: dict[int, list[str]] = {}
    for name in names:
        alike.setdefault(call.operations(topic(name)), []).append(name)
    found: dict[str, bytes] = {}
    for operations, some in alike.items():
        found |= await call.node.metadata.some(call.view, audience._replace(operations=operations), some)
    return {name: found[name] for name in names if name in found}


def _may_not_be_made(errors: Mapping[str, int], call: Call) -> dict[str, int]:
    """Refuse unknown topics that the client may not create: a broker would create them under Shunter's identity."""
    unknown = [name for name, error in errors.items() if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    if not unknown or call.allows(Operation.CREATE, CLUSTER, told=False):
        return {}
    return {name: _FORBIDDEN for name in unknown if not call.allows(Operation.CREATE, topic(name))}


def _cluster_operations(call: Call) -> int:
    return call.operations(CLUSTER) if call.allows(Operation.DESCRIBE, CLUSTER) else 0


async def describe_cluster(request: Any, call: Call) -> Any:
    """Answer DescribeCluster."""
    view = call.view
    if getattr(request, "endpoint_type", 1) != 1:
        return call.answer(
            error_code=UNSUPPORTED_ENDPOINT_TYPE,
            error_message="a ZooKeeper-mode cluster has no controller endpoints: ask for brokers (endpoint type 1)",
            cluster_id=view.cluster_id,
            endpoint_type=request.endpoint_type,
        )
    asked = request.include_cluster_authorized_operations
    return call.answer(
        cluster_id=view.cluster_id,
        controller_id=_controller(view),
        brokers=[{**broker, "broker_id": broker["node_id"]} for broker in _brokers(view, call.listener)],
        cluster_authorized_operations=_cluster_operations(call) if asked else NOT_ASKED_FOR,
    )


def _asked(request: Any, version: int) -> tuple[list[str] | None, list[UUID]]:
    """Return the names (None: all topics) and the ids that a request asks for.

    If a request has an id, its names are ignored: Java's client sends an empty name beside each id. Source: Apache's
    `KafkaApis.handleTopicMetadataRequest` (`useTopicId`).
    """
    if request.topics is None or (version == 0 and not request.topics):
        return None, []
    ids = [topic.topic_id for topic in request.topics if getattr(topic, "topic_id", None) is not None]
    return ([] if ids else [topic.name for topic in request.topics if topic.name is not None]), ids


def _error(name: str) -> int:
    """Return the error for a name that is not served."""
    illegal = illegal_name(name) is not None
    return int(ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def _let_a_broker_create(unknown: list[str], call: Call) -> dict[str, int]:
    """Ask a broker for topics that do not exist: its `auto.create.topics.enable` says whether it creates them.

    Returns:
        The broker's error by name, LEADER_NOT_AVAILABLE for a topic that now exists; empty if no broker answers.
    """
    if not unknown or not call.view.active:
        return {}
    schema = load_request_schema(METADATA, _RELAYED_VERSION)
    asked = filled(schema, {"topics": [{"name": name} for name in unknown], "allow_auto_topic_creation": True})
    body = encode_message(asked)
    frame = request_frame_head(METADATA, _RELAYED_VERSION, 0, "shunter", len(body))[4:] + body
    try:
        answer = await call.relayed(frame)
    except DriverError:
        return {}
    response, _ = _reader(_RELAYED_VERSION)(answer, 8)
    codes = {topic.name: int(topic.error_code) for topic in response.topics}
    return {name: codes[name] or int(ErrorCode.LEADER_NOT_AVAILABLE) for name in unknown if name in codes}


@cache
def _reader(version: int) -> Any:
    return entity_reader(response_module(METADATA, version).MetadataResponse)


def _controller(view: ClusterView) -> BrokerId:
    return view.controller_id if view.active else -1


def _brokers(view: ClusterView, listener: str) -> list[Values]:
    return [
        {"node_id": broker.id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack}
        for _, broker in sorted(view.brokers.items())
        for endpoint in broker.endpoints
        if endpoint.listener == listener
    ]
