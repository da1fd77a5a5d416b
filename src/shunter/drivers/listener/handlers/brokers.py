"""Brokers' requests to the controller: AlterPartition (56), ControlledShutdown (7), AllocateProducerIds (67)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from shunter.core.controller.events import (
    AlterPartitionReceived,
    ControlledShutdownRequested,
    IsrProposal,
    ProducerIdsRequested,
)
from shunter.core.controller.ready import AlterPartitionReply, ControlledShutdownReply, ProducerIdsReply
from shunter.drivers.listener.handlers.context import Call, unexpected
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.partition import TopicPartition
from shunter.wire.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResult,
    IsrResult,
    TopicIsrChanges,
    TopicIsrResults,
)

BROKER_TIMEOUT_MS = 30_000
"""These requests have no timeout: brokers wait for `request.timeout.ms`, 30 s, and ask again."""
UNREADABLE_SECONDS = 1.0
"""How long an answer is held back if a leader's request can't be decided because a znode can't be read."""
NOT_UNDERSTOOD_SECONDS = 0.1
"""How long a refusal is held back if the leader would ask again at once."""
_REFUSALS_UNDERSTOOD_SINCE = 1
_NOT_UNDERSTOOD = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INVALID_REQUEST})
"""Brokers before 3.2 (version 0) do not expect these errors, and ask again at once as long as they get them."""
_INELIGIBLE_SINCE = 2
"""Brokers before 3.3 don't know INELIGIBLE_REPLICA; Apache's controller sends them OPERATION_NOT_ATTEMPTED instead."""


async def alter_partition(request: AlterPartitionRequest, call: Call) -> AlterPartitionResult:
    """Hand a leader's ISR changes to the core. Topic ids are resolved to names here."""
    names = call.view.topic_names
    known = [(topic, topic.name if topic.topic_id is None else names.get(topic.topic_id)) for topic in request.topics]
    proposals = tuple(
        IsrProposal(
            TopicPartition(name, change.partition),
            change.leader_epoch,
            change.partition_epoch,
            change.isr,
            change.recovering,
        )
        for topic, name in known
        if name is not None
        for change in topic.partitions
    )
    # The core is asked even if there are no proposals: it checks the broker's epoch.
    try:
        reply = await call.submit(
            lambda token: AlterPartitionReceived(request.broker_id, request.broker_epoch, proposals, token),
            BROKER_TIMEOUT_MS,
        )
    except RequestRejected as refused:
        return AlterPartitionResult(refused.error_code)
    if not isinstance(reply, AlterPartitionReply):
        raise unexpected(reply, AlterPartitionReply)
    if reply.error is not ErrorCode.NONE:
        return AlterPartitionResult(reply.error)
    results = dict(reply.partitions)
    # An unknown id may be that of a topic whose znode can't be read.
    unknown = ErrorCode.LEADER_NOT_AVAILABLE if call.view.left_out.topics else ErrorCode.UNKNOWN_TOPIC_ID
    topics = tuple(_altered(topic, name, results, unknown, call.version) for topic, name in known)
    errors = {found for topic in topics for _, found in topic.partitions if isinstance(found, ErrorCode)}
    if ErrorCode.LEADER_NOT_AVAILABLE in errors:
        # The leader asks again at once, until the znode can be read.
        await asyncio.sleep(UNREADABLE_SECONDS)
    elif call.version < _REFUSALS_UNDERSTOOD_SINCE and not errors.isdisjoint(_NOT_UNDERSTOOD):
        await asyncio.sleep(NOT_UNDERSTOOD_SECONDS)
    return AlterPartitionResult(ErrorCode.NONE, topics)


def _altered(
    topic: TopicIsrChanges,
    name: str | None,
    results: Mapping[TopicPartition, IsrResult],
    unknown: ErrorCode,
    version: int,
) -> TopicIsrResults:
    partitions: list[tuple[int, IsrResult]] = []
    for change in topic.partitions:
        found: IsrResult = unknown
        if name is not None:
            found = results.get(TopicPartition(name, change.partition), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if found is ErrorCode.INELIGIBLE_REPLICA and version < _INELIGIBLE_SINCE:
            found = ErrorCode.OPERATION_NOT_ATTEMPTED
        partitions.append((change.partition, found))
    return TopicIsrResults(topic.name, topic.topic_id, tuple(partitions))


async def controlled_shutdown(request: Any, call: Call) -> Any:
    """Hand a broker's request for a controlled shutdown to the core."""
    epoch = getattr(request, "broker_epoch", -1)
    try:
        reply = await call.submit(
            lambda token: ControlledShutdownRequested(request.broker_id, epoch, token), BROKER_TIMEOUT_MS
        )
    except RequestRejected as refused:
        return call.answer(error_code=refused.error_code)
    if not isinstance(reply, ControlledShutdownReply):
        raise unexpected(reply, ControlledShutdownReply)
    remaining = [{"topic_name": tp.topic, "partition_index": tp.partition} for tp in reply.remaining]
    return call.answer(error_code=reply.error, remaining_partitions=remaining)


async def allocate_producer_ids(request: Any, call: Call) -> Any:
    """Ask the core for a block of producer ids."""
    try:
        reply = await call.submit(
            lambda token: ProducerIdsRequested(request.broker_id, request.broker_epoch, token), BROKER_TIMEOUT_MS
        )
    except RequestRejected as refused:
        return call.answer(error_code=refused.error_code, producer_id_start=0, producer_id_len=0)
    if not isinstance(reply, ProducerIdsReply):
        raise unexpected(reply, ProducerIdsReply)
    return call.answer(error_code=reply.error, producer_id_start=reply.first, producer_id_len=reply.length)
