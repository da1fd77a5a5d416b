"""The executor's events. Every event comes in an `Envelope`; nothing else reaches the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from shunter.errors import ErrorCode
from shunter.model.execution import (
    Command,
    ExecutionOptions,
    JournalEntry,
    LogDirSpace,
    MoveOrder,
    ObservedTopic,
    OngoingReassignment,
    ReplicaSize,
    ThrottleKey,
)
from shunter.model.partition import BrokerId, TopicPartition

ReplyToken: TypeAlias = int
"""Names a waiting caller; 0 if no caller waits."""


class Fatal(Enum):
    """The reason why the executor may do nothing more."""

    CLUSTER = "cluster"
    """The cluster does not answer, or refuses the executor."""
    TAKEN = "taken"
    """Another executor has the journal."""
    CLAIMED = "claimed"
    """Another executor has the cluster; its journal may be another one."""
    FORSAKEN = "forsaken"
    """Another executor had the journal, and no executor has it now."""
    JOURNAL = "journal"
    """The journal is damaged, or belongs to another cluster."""
    UNWRITTEN = "unwritten"
    """The journal is whole, but can't be written: a full disk, or a missing right."""


@dataclass(frozen=True, slots=True)
class JournalLoaded:
    """Start-up: all entries that the journal holds, in order, and the cluster that it belongs to."""

    entries: tuple[JournalEntry, ...]
    cluster_id: str


@dataclass(frozen=True, slots=True)
class JournalWritten:
    """The outstanding batch is durable."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class JournalRefused:
    """The outstanding batch left no trace, and no request may be sent from now on."""

    batch_id: int
    reason: str
    fatal: Fatal


@dataclass(frozen=True, slots=True)
class PlanSubmitted:
    """A plan to take on."""

    plan_id: str
    moves: tuple[MoveOrder, ...]
    options: ExecutionOptions
    reply_to: ReplyToken = 0


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """An operator's order."""

    command: Command
    reply_to: ReplyToken = 0


@dataclass(frozen=True, slots=True)
class ReassignmentsListed:
    """All reassignments under way in the cluster, of any tool. `asked_at_ms`: when they were asked for.

    `cost_ms` is the processor time that asking took: the more it takes, the less often the executor asks.
    """

    ongoing: Mapping[TopicPartition, OngoingReassignment]
    asked_at_ms: int
    cost_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicsObserved:
    """Topics that were asked for (None: there is no such topic), live brokers with their racks, the controller.

    `asked_at_ms`: when they were asked for; `controller` -1: no broker named it.
    """

    topics: Mapping[str, ObservedTopic | None]
    brokers: Mapping[BrokerId, str | None]
    controller: BrokerId
    asked_at_ms: int
    cost_ms: int = 0
    needs_all: bool | None = None
    """See `ObservedCluster.needs_all`."""


@dataclass(frozen=True, slots=True)
class LogDirsObserved:
    """Sizes of the replicas that were asked for, space of log dirs, and the brokers that answered."""

    sizes: Mapping[tuple[BrokerId, TopicPartition], ReplicaSize]
    spaces: Mapping[tuple[BrokerId, str], LogDirSpace]
    brokers: tuple[BrokerId, ...]
    asked_at_ms: int
    cost_ms: int = 0
    futures: Mapping[tuple[BrokerId, TopicPartition], ReplicaSize] = field(
        default_factory=dict[tuple[BrokerId, TopicPartition], ReplicaSize]
    )
    """Replicas that a broker is copying to another of its log dirs."""
    asked: Mapping[BrokerId, Sequence[TopicPartition]] = field(default_factory=dict[BrokerId, Sequence[TopicPartition]])
    """The partitions that brokers were asked about, whether they answered or not."""
    broken: Mapping[BrokerId, tuple[str, ...]] = field(default_factory=dict[BrokerId, tuple[str, ...]])
    """Log dirs that have failed, of brokers that answered."""


@dataclass(frozen=True, slots=True)
class SettingsRead:
    """Settings as set at each resource itself (None: not set there), and the values in force, wherever they are set."""

    own: Mapping[ThrottleKey, str | None]
    effective: Mapping[ThrottleKey, str | None] = field(default_factory=dict[ThrottleKey, str | None])
    of_others: bool = False


@dataclass(frozen=True, slots=True)
class ReassignmentsAnswered:
    """The answer to `AlterReassignments`: per partition an error with its sentence; NONE is success."""

    request_id: int
    results: Mapping[TopicPartition, tuple[ErrorCode, str]]


@dataclass(frozen=True, slots=True)
class SettingsAltered:
    """The answer to `AlterSettings`: an error message for each setting that failed.

    `refused`: those of them that a broker refused, so that nothing was changed. The others may have been changed: no
    broker answered, or one does not show the new value yet.
    """

    request_id: int
    errors: Mapping[ThrottleKey, str] = field(default_factory=dict[ThrottleKey, str])
    refused: frozenset[ThrottleKey] = frozenset()


@dataclass(frozen=True, slots=True)
class LogDirsAltered:
    """The answer to `AlterLogDirs`: per replica an error; NONE is success."""

    request_id: int
    results: Mapping[tuple[BrokerId, TopicPartition], ErrorCode]


@dataclass(frozen=True, slots=True)
class LeadersElected:
    """The answer to `ElectLeaders`: per partition an error with its sentence; NONE: its first replica leads."""

    request_id: int
    results: Mapping[TopicPartition, tuple[ErrorCode, str]]


@dataclass(frozen=True, slots=True)
class AdminFailed:
    """A request (its id) or a read (0, named by `what`) failed. Not retriable: it would fail again.

    `settings`: of a read, those that could not be read; of a request, those that the executor may not change.
    """

    request_id: int
    what: str
    message: str
    retriable: bool
    settings: tuple[ThrottleKey, ...] = ()


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The moment that `Ready.wake_at_ms` asked for has come."""


Event: TypeAlias = (
    JournalLoaded
    | JournalWritten
    | JournalRefused
    | PlanSubmitted
    | CommandReceived
    | ReassignmentsListed
    | TopicsObserved
    | LogDirsObserved
    | SettingsRead
    | ReassignmentsAnswered
    | SettingsAltered
    | LogDirsAltered
    | LeadersElected
    | AdminFailed
    | TimePassed
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """An event with values that the core may not find out by itself: the time, the local clock's offset, the cause."""

    now_ms: int
    cause: str
    event: Event
    utc_offset_minutes: int = 0
