"""What brokers ask of their controller: AlterPartition (56), ControlledShutdown (7), AllocateProducerIds (67)."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from shunter.core.controller.events import (
    AlterPartitionReceived,
    ControlledShutdownRequested,
    IsrProposal,
    ProducerIdsRequested,
)
from shunter.core.controller.ready import AlterPartitionReply, ControlledShutdownReply, ProducerIdsReply
from shunter.drivers.handlers.context import Call, unexpected
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.partition import BrokerId, LeaderAndIsr, TopicPartition

BROKER_TIMEOUT_MS = 30_000
"""These requests carry no timeout: brokers wait for `request.timeout.ms`, 30 s, and ask again."""
UNREADABLE_SECONDS = 1.0
"""How long a leader waits for its answer where what it asks for can't be decided, because a znode can't be read."""
NOT_UNDERSTOOD_SECONDS = 0.1
"""How long a leader waits for a refusal that makes it ask again at once."""
_REFUSALS_UNDERSTOOD_SINCE = 1
_NOT_UNDERSTOOD = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INVALID_REQUEST})
"""Brokers before 3.2 (version 0) take these for unexpected, and ask again at once for as long as they are told so."""
_INELIGIBLE_SINCE = 2
"""Brokers before 3.3 don't know INELIGIBLE_REPLICA; Apache's controller tells them OPERATION_NOT_ATTEMPTED instead."""
_TOPIC_IDS_SINCE = 2
_ISR_EPOCHS_SINCE = 3
_Results = dict[TopicPartition, LeaderAndIsr | ErrorCode]


async def alter_partition(request: Any, call: Call) -> Any:
    """Hand a leader's ISR changes to the core; topics by id are named here."""
    names = call.view.topic_names
    by_id = call.version >= _TOPIC_IDS_SINCE
    known = [(topic, names.get(topic.topic_id) if by_id else topic.topic_name) for topic in request.topics]
    proposals = tuple(
        _proposal(name, partition, call.version)
        for topic, name in known
        if name is not None
        for partition in topic.partitions
    )
    results: _Results = {}
    try:
        # With nothing left to propose the core is asked all the same: it checks the broker's epoch.
        reply = await call.submit(
            lambda token: AlterPartitionReceived(request.broker_id, request.broker_epoch, proposals, token),
            BROKER_TIMEOUT_MS,
        )
    except RequestRejected as refused:
        return call.answer(error_code=refused.error_code)
    if not isinstance(reply, AlterPartitionReply):
        raise unexpected(reply, AlterPartitionReply)
    if reply.error is not ErrorCode.NONE:
        return call.answer(error_code=reply.error)
    results.update(reply.partitions)
    # An id that nobody knows may be that of a topic that can't be read.
    unknown = ErrorCode.LEADER_NOT_AVAILABLE if call.view.left_out.topics else ErrorCode.UNKNOWN_TOPIC_ID
    topics = [_altered(topic, name, results, unknown, call.version) for topic, name in known]
    errors = {each["error_code"] for topic in topics for each in topic["partitions"]}
    if ErrorCode.LEADER_NOT_AVAILABLE in errors:
        # It asks again at once, and for as long as nobody mends the znode.
        await asyncio.sleep(UNREADABLE_SECONDS)
    elif call.version < _REFUSALS_UNDERSTOOD_SINCE and not errors.isdisjoint(_NOT_UNDERSTOOD):
        await asyncio.sleep(NOT_UNDERSTOOD_SECONDS)
    return call.answer(error_code=ErrorCode.NONE, topics=topics)


def _proposal(name: str, partition: Any, version: int) -> IsrProposal:
    isr: tuple[tuple[BrokerId, int], ...]
    if version >= _ISR_EPOCHS_SINCE:
        isr = tuple((member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs)
    else:
        isr = tuple((member, -1) for member in partition.new_isr)
    return IsrProposal(
        TopicPartition(name, partition.partition_index),
        partition.leader_epoch,
        partition.partition_epoch,
        isr,
        getattr(partition, "leader_recovery_state", 0) == 1,
    )


def _altered(topic: Any, name: str | None, results: _Results, unknown: ErrorCode, version: int) -> dict[str, Any]:
    partitions = []
    for partition in topic.partitions:
        number = partition.partition_index
        found: LeaderAndIsr | ErrorCode = unknown
        if name is not None:
            found = results.get(TopicPartition(name, number), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if found is ErrorCode.INELIGIBLE_REPLICA and version < _INELIGIBLE_SINCE:
            found = ErrorCode.OPERATION_NOT_ATTEMPTED
        partitions.append(_altered_partition(number, found))
    topic_id: UUID | None = getattr(topic, "topic_id", None)
    return {"topic_name": name, "topic_id": topic_id, "partitions": partitions}


def _altered_partition(number: int, found: LeaderAndIsr | ErrorCode) -> dict[str, Any]:
    if isinstance(found, ErrorCode):
        return {"partition_index": number, "error_code": found, "leader_id": 0, "leader_epoch": 0, "partition_epoch": 0}
    return {
        "partition_index": number,
        "error_code": ErrorCode.NONE,
        "leader_id": found.leader,
        "leader_epoch": found.leader_epoch,
        "isr": found.isr,
        "leader_recovery_state": int(found.recovering),
        "partition_epoch": found.partition_epoch,
    }


async def controlled_shutdown(request: Any, call: Call) -> Any:
    """Hand a broker's wish to leave to the core."""
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
        return call.answer(error_code=refused.error_code, producer_id_start=-1, producer_id_len=0)
    if not isinstance(reply, ProducerIdsReply):
        raise unexpected(reply, ProducerIdsReply)
    return call.answer(error_code=reply.error, producer_id_start=reply.first, producer_id_len=reply.length)
