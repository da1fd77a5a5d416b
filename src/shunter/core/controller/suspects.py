"""Suspects: the input that a controller handled when it met a bug.

A bug in work that no caller asked for ends the process (docs/decisions/0021-too-much.md), and the next controller reads
the same cluster. So the input is named here, and a driver (`drivers/zookeeper/crash_guard.py`) keeps it from the next controllers
for a while.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from shunter.core.controller.events import (
    Event,
    ExtraReassignmentsFound,
    LegacyReassignmentsFound,
    PartitionsRead,
    ReassignmentRequestsFound,
    TopicsRead,
    TopicsSubmitted,
)
from shunter.core.controller.tasks import Task, concern
from shunter.model.partition import TopicPartition

SUSPECTS_AT_MOST = 100
"""If there are more suspects, none is named: to keep half a cluster from a controller is worse than another crash."""


class SuspectKind(Enum):
    """The kind of a suspected input. The value is the stable name in the crash's record."""

    PARTITION = "partition"
    """One partition, by `TOPIC-PARTITION`."""
    TOPIC = "topic"
    LEGACY = "legacy"
    """The legacy znode; the suspect's name is empty, as for `EXTRA`."""
    EXTRA = "extra"
    REQUEST_ZNODE = "request-znode"
    CALLER = "caller"
    """A caller's request, by its content."""


class Suspect(NamedTuple):
    """One input."""

    kind: SuspectKind
    name: str


@dataclass(frozen=True, slots=True)
class Crash:
    """A bug ended the controller while it handled something. `error` is for people."""

    cause: str
    error: str
    suspects: tuple[Suspect, ...]


def of_partition(tp: TopicPartition) -> Suspect:
    """Suspect a partition."""
    return Suspect(SuspectKind.PARTITION, str(tp))


def of_task(task: Task) -> tuple[Suspect, ...]:
    """Suspect the item that was being decided."""
    item = task.deciding
    tp = concern(item)
    if tp is not None:
        return (of_partition(tp),)
    return (Suspect(SuspectKind.TOPIC, item),) if isinstance(item, str) else ()


def of_draft(partitions: Collection[TopicPartition], topics: Collection[str]) -> tuple[Suspect, ...]:
    """Suspect partitions and topics that were written together; none if they are more than `SUSPECTS_AT_MOST`."""
    if len(partitions) + len(topics) > SUSPECTS_AT_MOST:
        return ()
    return (*map(of_partition, sorted(partitions)), *(Suspect(SuspectKind.TOPIC, name) for name in sorted(topics)))


def of_event(event: Event) -> tuple[Suspect, ...]:
    """Suspect the inputs that an event names; none if they are more than `SUSPECTS_AT_MOST`, or can't be left out."""
    found: list[Suspect] = []
    match event:
        case TopicsRead(topics, gone, unreadable):
            found = [Suspect(SuspectKind.TOPIC, name) for name in (*(each.topic.name for each in topics), *gone)]
            found += [Suspect(SuspectKind.TOPIC, name) for name in unreadable]
        case PartitionsRead(states):
            found = [of_partition(tp) for tp in sorted(states)] if len(states) <= SUSPECTS_AT_MOST else []
        case LegacyReassignmentsFound():
            found = [Suspect(SuspectKind.LEGACY, "")]
        case ExtraReassignmentsFound():
            found = [Suspect(SuspectKind.EXTRA, "")]
        case ReassignmentRequestsFound(requests):
            found = [Suspect(SuspectKind.REQUEST_ZNODE, request.name) for request in requests]
        case _:
            if getattr(event, "reply_to", 0):
                found = [Suspect(SuspectKind.CALLER, content_of(event))]
    return tuple(found) if len(found) <= SUSPECTS_AT_MOST else ()


def content_of(event: Event) -> str:
    """A caller's request as text. A repetition of the request has the same text."""
    if isinstance(event, TopicsSubmitted):
        same = tuple(replace(new, topic_id=UUID(int=0), placement_seed=0) for new in event.topics)
        event = replace(event, topics=same)
    asked: Any = event
    return repr(replace(asked, reply_to=0))
