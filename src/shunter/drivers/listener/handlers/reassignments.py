"""AlterPartitionReassignments (45), ListPartitionReassignments (46) and ElectLeaders (43)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from shunter.core.controller.events import ElectionRequested, ReassignmentChange, ReassignmentsSubmitted
from shunter.core.controller.ready import PartitionResultsReply
from shunter.core.controller.state import ClusterView
from shunter.core.reassignment import Waiting, WaitReason, describe_waiting
from shunter.drivers.listener.handlers.context import Call, unexpected
from shunter.drivers.listener.handlers.refusals import no_reassignments
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.partition import PartitionState, ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Reassignment, unfinished
from shunter.wire.reassignments import (
    AlteredTopic,
    AlterReassignmentsRequest,
    AlterReassignmentsResult,
    ListReassignmentsRequest,
    ListReassignmentsResult,
    MoveDetail,
    OngoingPartition,
    OngoingTopic,
    PartitionResult,
    TopicResults,
)

IN_A_TURN = 2_000
"""Results of a large request that are sorted before other tasks have a turn."""
UNTIMED_MS = 60_000
"""The timeout of a request whose own timeout is not above 0."""
PREFERRED, UNCLEAN = 0, 1
"""ElectionType of ElectLeaders."""


async def alter_partition_reassignments(request: AlterReassignmentsRequest, call: Call) -> AlterReassignmentsResult:
    """Hand an RPC 45 to the core. A partition's own choices take precedence over those of the request."""
    topics = request.topics if request.topics is not None else ()
    event = ReassignmentsSubmitted(
        changes=tuple(change for topic in topics for change in _changes(topic, request)),
        cancel_topics=tuple(topic.name for topic in topics if topic.partitions is None),
        cancel_all=request.topics is None,
        intervention=_draft_intervention(request),
    )
    try:
        reply = await call.submit(
            lambda token: ReassignmentsSubmitted(
                event.changes, event.cancel_topics, event.cancel_all, event.intervention, token
            ),
            # Apache ignores the timeout and answers when it is done. A timeout of 0 can't mean "no answer" either.
            request.timeout_ms if request.timeout_ms > 0 else UNTIMED_MS,
        )
    except RequestRejected as refused:
        return no_reassignments(request, refused.error_code, refused.message)
    if not isinstance(reply, PartitionResultsReply):
        raise unexpected(reply, PartitionResultsReply)
    if reply.error is not ErrorCode.NONE and not reply.partitions:
        return no_reassignments(request, reply.error, reply.message)
    results = await _by_topic(reply)
    return AlterReassignmentsResult(reply.error, reply.message, results, changes_factor=request.changes_factor)


async def _by_topic(reply: PartitionResultsReply) -> tuple[TopicResults, ...]:
    """Sort results by topic and partition, in turns."""
    found: dict[str, list[PartitionResult]] = {}
    for count, (tp, error, told) in enumerate(reply.partitions, 1):
        found.setdefault(tp.topic, []).append(PartitionResult(tp.partition, error, told))
        if count % IN_A_TURN == 0:
            await asyncio.sleep(0)
    return tuple(
        TopicResults(name, tuple(sorted(results, key=lambda result: result.partition)))
        for name, results in sorted(found.items())
    )


def _draft_intervention(request: AlterReassignmentsRequest) -> Intervention | None:
    """Return the request's intervention; if it has none, but null topics or null partitions, a stop as in the draft."""
    drafted = request.topics is None or any(topic.partitions is None for topic in request.topics)
    return Intervention.STOP if drafted and request.intervention is None else request.intervention


def _changes(topic: AlteredTopic, request: AlterReassignmentsRequest) -> Iterable[ReassignmentChange]:
    """Read the change of each partition, without an await: no later request of the connection may overtake this one."""
    for altered in topic.partitions or ():
        yield ReassignmentChange(
            TopicPartition(topic.name, altered.partition),
            altered.replicas,
            altered.strategy or request.strategy,
            altered.intervention or request.intervention,
            altered.forced or request.forced,
            request.changes_factor,
        )


async def list_partition_reassignments(request: ListReassignmentsRequest, call: Call) -> ListReassignmentsResult:
    """List whole moves, from acceptance to end, as one consistent view: there is no await until all moves are read.

    A move that only waits for deletions is over for clients, and is not listed (decision 0004).
    """
    view = call.view
    if not view.active:
        try:
            call.refuse_as_standby()
        except RequestRejected as refused:
            return ListReassignmentsResult(refused.error_code, refused.message)
    if request.topics is None:
        wanted: Iterable[TopicPartition] = view.reassignments
    else:
        asked = {TopicPartition(name, number) for name, numbers in request.topics for number in numbers}
        wanted = (tp for tp in asked if tp in view.reassignments)
    by_topic: dict[str, list[OngoingPartition]] = {}
    for tp in sorted(wanted):
        state, move = view.partition(tp), view.reassignments[tp]
        if state is not None and unfinished(move):
            assignment = state.assignment
            detail = _detail(view, tp, state) if request.detailed else None
            ongoing = OngoingPartition(tp.partition, *whole_move(assignment, move), detail)
            by_topic.setdefault(tp.topic, []).append(ongoing)
    topics = tuple(OngoingTopic(name, tuple(partitions)) for name, partitions in by_topic.items())
    await asyncio.sleep(0)  # The list is complete; other tasks have a turn before it is encoded.
    return ListReassignmentsResult(ErrorCode.NONE, None, topics)


def _detail(view: ClusterView, tp: TopicPartition, state: PartitionState) -> MoveDetail:
    move, known = view.reassignments[tp], view.waiting.get(tp)
    waiting = None if known is None else known[0]
    if waiting is None and state.leadership is not None:
        # A step was just written, and the partition has not been reviewed since.
        fetching = tuple(broker for broker in state.assignment.adding if broker not in state.leadership.isr)
        waiting = Waiting(WaitReason.CATCHING_UP, fetching) if fetching else None
    told = "" if waiting is None or move.phase is Phase.PAUSED else describe_waiting(waiting)
    return MoveDetail(move.original, move.target, move.phase.value, told, state.assignment.replicas)


def whole_move(assignment: ReplicaAssignment, move: Reassignment) -> tuple[Replicas, Replicas, Replicas]:
    """Return (replicas, adding, removing) of a whole move: towards its final target, not of the step under way.

    `adding` has the replicas of the target that are not yet assigned permanently. `removing` has the assigned replicas
    that are not in the target. `replicas` has both the assigned replicas and `adding`: the target's first and in its
    order, as Apache's controller writes them. (In a rollback, the original replicas are the target.)

    `kafka-topics` takes |replicas| - |adding| for the replication factor, by which it calls a partition
    under-replicated; and `replicas` without `removing` is the target. So all replicas that the step under way adds
    count as `adding`, even if the target does not have them. If a step has dropped a dead replica before another one
    took its place, the dropped replica still counts as `removing`, because one replica is lacking.

    Source: Apache Kafka 3.9, TopicCommand.getReplicationFactor; KIP-455, ListPartitionReassignmentsResponse.
    """
    replicas = assignment.replicas
    end = move.original if move.phase is Phase.ROLLING_BACK else move.target
    settled = assignment.original if assignment.adding else replicas
    unwanted = [broker for broker in assignment.adding if broker not in end]
    adding = [broker for broker in end if broker not in settled] + unwanted
    removing = [broker for broker in replicas if broker not in end]
    lacking = min(len(move.original), len(move.target)) - len(settled)
    if lacking > 0:
        had = dict.fromkeys((*move.original, *move.target))
        gone = [broker for broker in had if broker not in replicas and broker not in end][:lacking]
        removing += gone
        adding = adding[: len(adding) - (lacking - len(gone))]
    return (*end, *removing), tuple(adding), tuple(removing)


async def elect_leaders(request: Any, call: Call) -> Any:
    """Hand an election to the core. Null partitions mean all partitions."""
    partitions: tuple[TopicPartition, ...] | None = None
    if request.topic_partitions is not None:
        partitions = tuple(
            TopicPartition(topic.topic, number) for topic in request.topic_partitions for number in topic.partitions
        )
    kind = getattr(request, "election_type", PREFERRED)
    if kind not in {PREFERRED, UNCLEAN}:
        told = f"election type {kind} is none of {PREFERRED} (preferred), {UNCLEAN} (unclean)"
        return _election_refused(RequestRejected(ErrorCode.UNKNOWN_SERVER_ERROR, told), partitions or (), call)
    unclean = kind == UNCLEAN
    timeout_ms = int(request.timeout.total_seconds() * 1000)
    try:
        reply = await call.submit(lambda token: ElectionRequested(partitions, unclean, token), timeout_ms)
    except RequestRejected as refused:
        return _election_refused(refused, partitions or (), call)
    if not isinstance(reply, PartitionResultsReply):
        raise unexpected(reply, PartitionResultsReply)
    return call.answer(error_code=reply.error, replica_election_results=_election_results(reply.partitions))


def _election_refused(refused: RequestRejected, partitions: Iterable[TopicPartition], call: Call) -> Any:
    results = tuple((tp, refused.error_code, refused.message) for tp in partitions)
    return call.answer(error_code=refused.error_code, replica_election_results=_election_results(results))


def _election_results(partitions: Iterable[tuple[TopicPartition, ErrorCode, str | None]]) -> list[dict[str, object]]:
    return [
        {
            "topic": name,
            "partition_result": [
                {"partition_id": tp.partition, "error_code": error, "error_message": told} for tp, error, told in found
            ],
        }
        for name, found in groupby(sorted(partitions, key=lambda result: result[0]), key=lambda result: result[0].topic)
    ]
