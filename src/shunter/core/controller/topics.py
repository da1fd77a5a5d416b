"""Topics, decided into a draft: created, grown, deleted; by request and by znode."""

from __future__ import annotations

import re

from shunter.core.controller.draft import Draft
from shunter.core.controller.events import NewTopic
from shunter.core.controller.placement import place_partitions
from shunter.core.controller.ready import TopicResult
from shunter.core.controller.state import ControllerState
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.broker import Broker
from shunter.model.partition import ReplicaAssignment, Replicas, TopicPartition
from shunter.model.records import PutDeletionMark, PutTopic
from shunter.model.settings import ControllerSettings
from shunter.model.topic import Topic

LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
PARTITIONS_AT_MOST = 100_000
"""In one topic: its znode would not fit into a ZooKeeper request any more."""


def candidates(state: ControllerState) -> list[Broker]:
    """Brokers that may be given replicas: live ones, but never ourselves."""
    return [state.brokers[broker] for broker in sorted(state.brokers) if broker != state.controller_id]


def create_topic(draft: Draft, settings: ControllerSettings, new: NewTopic, *, validate_only: bool) -> TopicResult:
    """Accept a new topic into the draft, or say why not. Its partitions get leaders in later slices."""
    try:
        _check_name(draft, new.name)
        assignments = _assignments(draft.state, settings, new)
    except RequestRejected as refused:
        return TopicResult(new.name, refused.error_code, refused.message)
    if not validate_only:
        topic = Topic(
            new.name, new.topic_id, {number: ReplicaAssignment(replicas) for number, replicas in assignments.items()}
        )
        draft.new_topics[new.name] = PutTopic(topic, tuple(sorted(new.configs.items())))
    return TopicResult(
        new.name,
        ErrorCode.NONE,
        topic_id=new.topic_id,
        partition_count=len(assignments),
        replication_factor=len(assignments[0]),
    )


def _check_name(draft: Draft, name: str) -> None:
    if not LEGAL_NAME.fullmatch(name) or name in {".", ".."}:
        raise RequestRejected(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic name {name!r} is not legal: 1 to 249 of letters, digits, '.', '_' and '-', and not '.' or '..'",
        )
    if name in draft.state.topics or name in draft.new_topics:
        doomed = " It is being deleted." if name in draft.state.deleting else ""
        raise RequestRejected(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.{doomed}")
    if name in draft.state.left_out.topics:
        raise RequestRejected(
            ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists, but its znode can't be read."
        )
    if "." in name or "_" in name:
        folded = name.replace(".", "_")
        for other in (*draft.state.topics, *draft.new_topics):
            if other.replace(".", "_") == folded:
                raise RequestRejected(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r} collides with {other!r} in metric names"
                )


def _assignments(state: ControllerState, settings: ControllerSettings, new: NewTopic) -> dict[int, Replicas]:
    if new.assignments:
        return _check_assignments(state, new.name, dict(new.assignments))
    partitions = settings.default_partitions if new.partition_count == -1 else new.partition_count
    factor = settings.default_replication_factor if new.replication_factor == -1 else new.replication_factor
    if not 1 <= partitions <= PARTITIONS_AT_MOST:
        raise RequestRejected(
            ErrorCode.INVALID_PARTITIONS,
            f"{partitions} partitions for {new.name!r}: 1 to {PARTITIONS_AT_MOST} can be had",
        )
    brokers = candidates(state)
    if not 1 <= factor <= len(brokers):
        raise RequestRejected(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} for {new.name!r}: {len(brokers)} brokers are live",
        )
    placed = place_partitions(brokers, partitions, factor, seed=new.placement_seed)
    return dict(enumerate(placed))


def _check_assignments(state: ControllerState, name: str, asked: dict[int, Replicas]) -> dict[int, Replicas]:
    if sorted(asked) != list(range(len(asked))):
        raise RequestRejected(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partitions {sorted(asked)} of {name!r} do not count up from 0"
        )
    known = {broker.id for broker in candidates(state)}
    for number, replicas in sorted(asked.items()):
        check_replicas(replicas, f"{name}-{number}", known)
        if len(replicas) != len(asked[0]):
            raise RequestRejected(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"replicas {list(replicas)} for {name}-{number} are {len(replicas)}, those of {name}-0 {len(asked[0])}",
            )
    return asked


def check_replicas(replicas: Replicas, place: str, known: set[int]) -> None:
    """Refuse a manual assignment that is empty, repeats a broker or names one that can't hold data."""
    told = f"replicas {list(replicas)} for {place}"
    if not replicas or len(set(replicas)) != len(replicas):
        raise RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{told} are empty or repeat a broker")
    unknown = sorted(set(replicas) - known)
    if unknown:
        raise RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{told} name {unknown}, not live brokers")


def grow_topic(
    draft: Draft, item: tuple[str, int, tuple[Replicas, ...] | None], *, validate_only: bool, seed: int
) -> TopicResult:
    """Accept more partitions for a topic into the draft, or say why not."""
    name, total, asked = item
    topic = draft.state.topics.get(name)
    if topic is None or name in draft.state.deleting:
        return TopicResult(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    have = len(topic.partitions)
    if total <= have:
        told = f"topic {name!r} has {have} partitions already; {total} is no increase"
        return TopicResult(name, ErrorCode.INVALID_PARTITIONS, told)
    if any(tp.topic == name for tp in draft.state.reassignments):
        told = f"partitions of {name!r} are being reassigned; wait, or cancel that first"
        return TopicResult(name, ErrorCode.REASSIGNMENT_IN_PROGRESS, told)
    brokers = candidates(draft.state)
    try:
        if asked is not None:
            if len(asked) != total - have:
                raise RequestRejected(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{len(asked)} assignments for {total - have} new partitions"
                )
            for number, replicas in enumerate(asked, start=have):
                check_replicas(replicas, f"{name}-{number}", {broker.id for broker in brokers})
            placed = asked
        else:
            factor = len(topic.partitions[0].assignment.original)
            if factor > len(brokers):
                raise RequestRejected(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"replication factor {factor}: {len(brokers)} brokers are live",
                )
            placed = place_partitions(brokers, total - have, factor, seed=seed, first=have)
    except RequestRejected as refused:
        return TopicResult(name, refused.error_code, refused.message)
    if not validate_only:
        for number, replicas in enumerate(placed, start=have):
            draft.place(TopicPartition(name, number), ReplicaAssignment(replicas))
    return TopicResult(name, ErrorCode.NONE)


def mark_for_deletion(draft: Draft, settings: ControllerSettings, name: str) -> TopicResult:
    """Queue a topic for deletion, durably; its replicas are deleted next, its znodes when that is acknowledged."""
    topic = draft.state.topics.get(name)
    if topic is None:
        return TopicResult(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    if not settings.delete_topics:
        return TopicResult(
            name, ErrorCode.TOPIC_DELETION_DISABLED, "deletion of topics is switched off (delete-topics)"
        )
    if name not in draft.state.deleting:
        draft.other_records.append(PutDeletionMark(name))
    return TopicResult(name, ErrorCode.NONE, topic_id=topic.topic_id)
