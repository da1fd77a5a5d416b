"""Metadata (3) and DescribeCluster (60): answered from the view."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from functools import cache
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.serial import entity_reader

from shunter.core.controller.state import ClusterView, TopicState
from shunter.drivers.bodies import TURN_SECONDS
from shunter.drivers.handlers.context import INTERNAL_TOPICS, Call
from shunter.drivers.handlers.messages import Values, filled
from shunter.errors import DriverError, ErrorCode
from shunter.model.partition import BrokerId, PartitionState, TopicPartition
from shunter.wire.framing import request_frame_head
from shunter.wire.primitives import array_length
from shunter.wire.requests import METADATA, encode_message, response_entity, response_module

LISTENER_NOT_FOUND = 72
UNSUPPORTED_ENDPOINT_TYPE = 115
NOT_ASKED_FOR = -2147483648
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Bits of Kafka's AclOperation: what everybody may do where no authorizer is."""
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_RELAYED_VERSION = 4
"""The oldest version of Metadata that says whether topics may be created."""


async def metadata(request: Any, call: Call) -> Any:
    """Answer Metadata for clients of the listener on which it came in."""
    names, ids = _asked(request, call.version)
    view = call.view
    if names is None:
        topics: list[TopicState | Values] = [topic for name, topic in view.topics.items() if name not in view.deleting]
    else:
        topics = [*_named(names, view), *_identified(ids, view)]
    created = await _let_a_broker_create(topics, call) if getattr(request, "allow_auto_topic_creation", True) else {}
    operations = TOPIC_OPERATIONS if getattr(request, "include_topic_authorized_operations", False) else NOT_ASKED_FOR
    module = response_module(METADATA, call.version)
    encoded: list[bytes] = []
    listening = _listening(view, call.listener)
    began = time.perf_counter()
    for topic in topics:
        if isinstance(topic, TopicState):
            values = _topic(topic, view, listening, call.version)
        else:
            values = {**topic, "error_code": created.get(topic["name"], topic["error_code"])}
        made = filled(module.MetadataResponseTopic, {**values, "topic_authorized_operations": operations})
        encoded.append(encode_message(made))
        if time.perf_counter() - began > TURN_SECONDS:
            await asyncio.sleep(0)
            began = time.perf_counter()
            listening = _listening(view, call.listener)
    asked = getattr(request, "include_cluster_authorized_operations", False)
    head = call.answer(
        brokers=_brokers(view, call.listener),
        cluster_id=view.cluster_id,
        controller_id=_controller(view),
        topics=(),
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED_FOR,
    )
    return _with_topics(head, encoded, call)


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
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED_FOR,
    )


def _asked(request: Any, version: int) -> tuple[list[str] | None, list[UUID]]:
    """Tell names (None: all topics) and ids that a request asks for."""
    if request.topics is None or (version == 0 and not request.topics):
        return None, []
    names = [topic.name for topic in request.topics if topic.name is not None]
    return names, [topic.topic_id for topic in request.topics if topic.name is None and topic.topic_id is not None]


def _named(names: Iterable[str], view: ClusterView) -> list[TopicState | Values]:
    found: list[TopicState | Values] = []
    for name in dict.fromkeys(names):
        topic = view.topics.get(name)
        if topic is not None and name not in view.deleting:
            found.append(topic)
            continue
        legal = _LEGAL_NAME.fullmatch(name) is not None and name not in {".", ".."}
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
        found.append({"name": name, "error_code": error, "is_internal": name in INTERNAL_TOPICS})
    return found


def _identified(ids: Iterable[UUID], view: ClusterView) -> list[TopicState | Values]:
    found: list[TopicState | Values] = []
    for topic_id in dict.fromkeys(ids):
        topic = view.topics.get(view.topic_names.get(topic_id, ""))
        if topic is None or topic.name in view.deleting:
            found.append({"name": None, "topic_id": topic_id, "error_code": ErrorCode.UNKNOWN_TOPIC_ID})
        else:
            found.append(topic)
    return found


async def _let_a_broker_create(topics: list[TopicState | Values], call: Call) -> dict[str, int]:
    """Ask a broker for topics that are not there: whether they are created is its `auto.create.topics.enable`.

    Returns:
        The error that the broker gives, by name; nothing where no broker answers.
    """
    unknown = [
        topic["name"]
        for topic in topics
        if not isinstance(topic, TopicState) and topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    if not unknown or not call.view.active:
        return {}
    schema = load_request_schema(METADATA, _RELAYED_VERSION)
    asked = filled(schema, {"topics": [{"name": name} for name in unknown], "allow_auto_topic_creation": True})
    body = encode_message(asked)
    frame = request_frame_head(METADATA, _RELAYED_VERSION, 0, "shunter", len(body))[4:] + body
    try:
        answer = await call.node.relay.pass_on(frame, call.listener)
    except DriverError:
        return {}
    response, _ = _reader(_RELAYED_VERSION)(answer, 8)
    codes = {topic.name: int(topic.error_code) for topic in response.topics}
    return {name: code or int(ErrorCode.LEADER_NOT_AVAILABLE) for name, code in codes.items()}


@cache
def _reader(version: int) -> Any:
    return entity_reader(response_module(METADATA, version).MetadataResponse)


def _controller(view: ClusterView) -> BrokerId:
    return view.controller_id if view.active else -1


def _listening(view: ClusterView, listener: str) -> dict[BrokerId, bool]:
    """Tell live brokers, and whether clients of a listener can reach them."""
    return {
        broker.id: any(endpoint.listener == listener for endpoint in broker.endpoints)
        for broker in view.brokers.values()
    }


def _brokers(view: ClusterView, listener: str) -> list[Values]:
    return [
        {"node_id": broker.id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack}
        for _, broker in sorted(view.brokers.items())
        for endpoint in broker.endpoints
        if endpoint.listener == listener
    ]


def _topic(topic: TopicState, view: ClusterView, listening: dict[BrokerId, bool], version: int) -> Values:
    partitions = [
        _partition(TopicPartition(topic.name, number), state, view, listening, version)
        for number, state in sorted(topic.partitions.items())
    ]
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": partitions,
    }


def _partition(
    tp: TopicPartition, state: PartitionState, view: ClusterView, listening: dict[BrokerId, bool], version: int
) -> Values:
    replicas = state.assignment.replicas
    failed = view.offline_replicas.get(tp, frozenset())
    offline = tuple(replica for replica in replicas if replica not in listening or replica in failed)
    leadership = state.leadership
    leader = -1 if leadership is None else leadership.leader
    isr = () if leadership is None else leadership.isr
    error = 0
    if leader not in listening:
        error, leader = int(ErrorCode.LEADER_NOT_AVAILABLE), -1
    elif not listening[leader]:
        error, leader = LISTENER_NOT_FOUND if version >= 6 else int(ErrorCode.LEADER_NOT_AVAILABLE), -1
    if version == 0:
        # Clients that old fail on a replica that is not among the brokers.
        there = tuple(replica for replica in replicas if listening.get(replica))
        if not error and there != replicas:
            error = int(ErrorCode.REPLICA_NOT_AVAILABLE)
        replicas, isr = there, tuple(replica for replica in isr if replica in there)
    return {
        "error_code": error,
        "partition_index": tp.partition,
        "leader_id": leader,
        "leader_epoch": -1 if leadership is None else leadership.leader_epoch,
        "replica_nodes": replicas,
        "isr_nodes": isr,
        "offline_replicas": offline,
    }


def _with_topics(head: Any, topics: list[bytes], call: Call) -> bytes:
    """Put encoded topics into the encoded response without topics, where its empty array is."""
    flexible = response_entity(call.parsed).__flexible__
    encoded = encode_message(head)
    operations = 4 if 8 <= call.version <= 10 else 0
    tail = operations + (1 if flexible else 0)
    before = len(encoded) - tail - (1 if flexible else 4)
    return b"".join(
        (encoded[:before], array_length(len(topics), flexible=flexible), *topics, encoded[len(encoded) - tail :])
    )
