"""The records of a draft's batch, in an order in which every znode's parents come first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shunter.core.controller.draft import Draft
from shunter.errors import InvariantViolation
from shunter.model.partition import ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Phase, Reassignment
from shunter.model.records import (
    CheckTopic,
    CloseOwedDeletion,
    CloseReassignment,
    DeleteReassignmentRequest,
    PutExtraReassignments,
    PutLegacyReassignments,
    PutOwedDeletion,
    PutOwedReplicas,
    PutPartition,
    PutReassignment,
    PutReassignmentRequest,
    PutTopic,
    Record,
)
from shunter.model.snapshot import OwedDeletions, OwedReplicas
from shunter.model.topic import Topic


def records_of(draft: Draft) -> tuple[Record, ...]:
    """The batch, in an order in which every znode's parents come first."""
    return tuple(_records(draft))


def _records(draft: Draft) -> Iterator[Record]:
    yield from (draft.new_topics[name] for name in sorted(draft.new_topics))
    for name in sorted(draft.assignments):
        yield PutTopic(_whole_topic(draft, name, draft.assignments[name]))
    for tp, leadership in draft.leaderships.items():
        yield PutPartition(tp, leadership)
    yield from _originals_hold(draft)
    yield from _reassignment_records(draft)
    yield from _owed_records(draft)
    yield from _owed_replica_records(draft)
    if draft.legacy is not None and (draft.legacy or draft.state.legacy is not None):
        yield _legacy_record(draft, draft.legacy)
    if draft.extra is not None and draft.state.extra is not None:
        yield PutExtraReassignments(tuple(sorted(draft.extra.items())) or None, draft.state.extra.version)
    yield from _request_records(draft)
    yield from draft.other_records


def _request_records(draft: Draft) -> Iterator[Record]:
    for name in sorted(draft.requests):
        known = draft.state.requests[name]
        if left := draft.requests[name]:
            yield PutReassignmentRequest(name, tuple(left.items()), known.legacy, known.version)
        else:
            yield DeleteReassignmentRequest(name)


def _legacy_record(draft: Draft, targets: dict[TopicPartition, Replicas]) -> PutLegacyReassignments:
    known = draft.state.legacy
    version = known.version if known is not None else -1
    return PutLegacyReassignments(tuple(sorted(targets.items())) or None, version)


def _whole_topic(draft: Draft, name: str, changed: Mapping[int, ReplicaAssignment]) -> Topic:
    topic = draft.state.topics.get(name)
    if topic is None:
        raise InvariantViolation("an assignment is written only for a known topic", topic=name)
    assignments = {number: partition.assignment for number, partition in topic.partitions.items()}
    assignments.update(changed)
    return Topic(name, draft.topic_ids.get(name, topic.topic_id), assignments, topic.version)


def _originals_hold(draft: Draft) -> Iterator[Record]:
    """Check a new move's topic: its original replicas must be as they were read when it becomes durable (KIP-236).

    A new move's record may take the place of a record whose move has only deletions left.
    """
    accepted = {tp.topic for tp, move in draft.reassignments.items() if move is not None and _is_new(draft, tp, move)}
    for name in sorted(accepted - draft.assignments.keys()):
        yield CheckTopic(name, draft.state.topics[name].version)


def _is_new(draft: Draft, tp: TopicPartition, move: Reassignment) -> bool:
    known = draft.state.reassignments.get(tp)
    return known is None or (known.phase is Phase.DROPPING and move.phase is not Phase.DROPPING)


def _reassignment_records(draft: Draft) -> Iterator[Record]:
    closed = {tp for tp, reassignment in draft.reassignments.items() if reassignment is None}
    staying = {tp.topic for tp in draft.state.reassignments if tp not in closed} if closed else set[str]()
    for tp, reassignment in draft.reassignments.items():
        if reassignment is not None:
            staying.add(tp.topic)
            yield PutReassignment(tp, reassignment)
    last = {tp.topic: tp for tp in draft.reassignments if tp in closed and tp.topic not in staying}
    for tp in draft.reassignments:
        if tp in closed:
            known = draft.state.reassignments[tp]
            yield CloseReassignment(tp, known.version, last=last.get(tp.topic) == tp)


def _owed_records(draft: Draft) -> Iterator[Record]:
    for broker in sorted(draft.owed):
        known = draft.state.owed_deletions.get(broker, OwedDeletions((), -1))
        wanted = tuple(sorted(draft.owed[broker].items()))
        if wanted == known.partitions:
            continue
        if wanted:
            yield PutOwedDeletion(broker, wanted, known.version)
        elif known.version >= 0:
            yield CloseOwedDeletion(broker, known.version)


def _owed_replica_records(draft: Draft) -> Iterator[Record]:
    for name in sorted(draft.owed_replicas):
        known = draft.state.owed_replicas.get(name, OwedReplicas(None, ()))
        wanted = tuple((number, *owed) for number, owed in sorted(draft.owed_replicas[name].items()))
        if wanted != known.partitions:
            topic = draft.state.topics.get(name)
            topic_id = known.topic_id if topic is None else topic.topic_id
            yield PutOwedReplicas(name, topic_id, wanted, known.version)
