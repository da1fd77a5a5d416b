"""What the executor wants done. A driver carries it out in the ORDER of the fields and decides nothing.

"Durable before sent, sent before answered": a request that depends on a journal entry does not exist until the
entry's batch is known to be durable (`JournalWritten`), so it can't be sent early.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from shunter.core.executor.events import Fatal, ReplyToken
from shunter.model.execution import JournalEntry, Outcome, ThrottleKey
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, Replicas, TopicPartition


@dataclass(frozen=True, slots=True)
class JournalBatch:
    """Entries that become durable together or not at all."""

    batch_id: int
    entries: tuple[JournalEntry, ...]


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    """RPC 45. Replicas None cancel. Answered by `ReassignmentsAnswered` or `AdminFailed`."""

    request_id: int
    targets: tuple[tuple[TopicPartition, Replicas | None], ...]


@dataclass(frozen=True, slots=True)
class AlterSettings:
    """IncrementalAlterConfigs: a value sets, None deletes. Answered by `SettingsAltered` or `AdminFailed`."""

    request_id: int
    settings: tuple[tuple[ThrottleKey, str | None], ...]


@dataclass(frozen=True, slots=True)
class AlterLogDirs:
    """AlterReplicaLogDirs: (broker, partition, log dir). Answered by `LogDirsAltered` or `AdminFailed`."""

    request_id: int
    replicas: tuple[tuple[BrokerId, TopicPartition, str], ...]


Request: TypeAlias = AlterReassignments | AlterSettings | AlterLogDirs


@dataclass(frozen=True, slots=True)
class ListReassignments:
    """Everything under way in the cluster; answered by `ReassignmentsListed`."""


@dataclass(frozen=True, slots=True)
class ObserveTopics:
    """Metadata of these topics; answered by `TopicsObserved`. `sure`: as several brokers tell them, in agreement."""

    topics: tuple[str, ...]
    sure: bool = False


@dataclass(frozen=True, slots=True)
class ObserveLogDirs:
    """Sizes of these partitions' replicas on these brokers; answered by `LogDirsObserved`."""

    partitions: tuple[tuple[BrokerId, tuple[TopicPartition, ...]], ...]


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """These settings as they are; answered by `SettingsRead`."""

    keys: tuple[ThrottleKey, ...]


Read: TypeAlias = ListReassignments | ObserveTopics | ObserveLogDirs | ReadSettings


@dataclass(frozen=True, slots=True)
class MoveResult:
    """Whether one move of a plan was taken on: `refused` says why not (None: it was).

    `instead`: what it takes the place of, if the partition was on its way elsewhere; "": nothing.
    """

    tp: TopicPartition
    refused: str | None
    instead: str = ""


@dataclass(frozen=True, slots=True)
class PlanReply:
    """To `PlanSubmitted`. `error` refuses the whole plan."""

    error: str | None
    moves: tuple[MoveResult, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandReply:
    """To `CommandReceived`: what will happen, in a sentence, or why not."""

    accepted: bool
    text: str


Reply: TypeAlias = PlanReply | CommandReply


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do, or nothing may be done any more (`fatal`: why, `kind`: what failed)."""

    outcomes: tuple[tuple[Outcome, int], ...] = ()
    fatal: str | None = None
    kind: Fatal = Fatal.CLUSTER


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything to be done now, in the order of the fields.

    Invariant: at most one `JournalBatch` is outstanding; none is handed out before the last one's outcome came in.
    Invariant: `requests` and `replies` follow only from what is already durable.
    """

    writes: JournalBatch | None = None
    """To be appended and synced; its outcome is the next thing that the core needs to hear."""
    requests: tuple[Request, ...] = ()
    """To be sent BEFORE any reply; they may run beside one another."""
    replies: tuple[tuple[ReplyToken, Reply], ...] = ()
    reads: tuple[Read, ...] = ()
    notices: tuple[Notice, ...] = ()
    wake_at_ms: int | None = None
    """Call again with `TimePassed` at this moment, whatever happens before; None: nothing is due."""
    finish: Finish | None = None


@dataclass(slots=True)
class Collected:
    """Collects what one event brings, until it is sealed into a `Ready`."""

    requests: list[Request] = field(default_factory=list[Request])
    replies: list[tuple[ReplyToken, Reply]] = field(default_factory=list[tuple[ReplyToken, Reply]])
    reads: list[Read] = field(default_factory=list[Read])
    notices: list[Notice] = field(default_factory=list[Notice])
    wake_at_ms: int | None = None
    finish: Finish | None = None

    def wake(self, at_ms: int) -> None:
        """Ask to be called at the earlier of this moment and what was asked before."""
        self.wake_at_ms = at_ms if self.wake_at_ms is None else min(self.wake_at_ms, at_ms)

    def seal(self, writes: JournalBatch | None) -> Ready:
        """Everything that was collected, in the order in which it is to be done."""
        return Ready(
            writes,
            tuple(self.requests),
            tuple(self.replies),
            tuple(self.reads),
            tuple(self.notices),
            self.wake_at_ms,
            self.finish,
        )
