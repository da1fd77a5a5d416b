"""The executor's output. A driver carries it out in the ORDER of the fields and decides nothing.

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
    """RPC 45. None as replicas cancels. Answered by `ReassignmentsAnswered` or `AdminFailed`.

    `keeps_factor`: no target has another number of replicas than its partition, and one that has is refused (KIP-860):
    somebody changed the partition meanwhile.
    """

    request_id: int
    targets: tuple[tuple[TopicPartition, Replicas | None], ...]
    keeps_factor: bool = False


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


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """ElectLeaders: the first replica of each partition. Answered by `LeadersElected` or `AdminFailed`."""

    request_id: int
    partitions: tuple[TopicPartition, ...]


Request: TypeAlias = AlterReassignments | AlterSettings | AlterLogDirs | ElectLeaders


@dataclass(frozen=True, slots=True)
class ListReassignments:
    """All reassignments under way in the cluster; answered by `ReassignmentsListed`."""


@dataclass(frozen=True, slots=True)
class ObserveTopics:
    """Metadata of these topics; answered by `TopicsObserved`. `sure`: several brokers have to agree on them."""

    topics: tuple[str, ...]
    sure: bool = False


@dataclass(frozen=True, slots=True)
class ObserveLogDirs:
    """Sizes of these partitions' replicas on these brokers; answered by `LogDirsObserved`."""

    partitions: tuple[tuple[BrokerId, tuple[TopicPartition, ...]], ...]


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The present values of these settings; answered by `SettingsRead`.

    `of_others`: they are read only to know what others have set.
    """

    keys: tuple[ThrottleKey, ...]
    of_others: bool = False


Read: TypeAlias = ListReassignments | ObserveTopics | ObserveLogDirs | ReadSettings


@dataclass(frozen=True, slots=True)
class MoveResult:
    """Whether one move of a plan was taken on: `refused` says why not (None: it was).

    `instead`: a sentence about the move that it takes the place of; "" if it takes the place of none.
    `held_up`: the dead broker or log dir that holds it up, and why; "": nothing that was seen does. `thin`: what
    having fewer replicas means for the partition; "": it has as many as before, or enough.
    """

    tp: TopicPartition
    refused: str | None
    instead: str = ""
    held_up: str = ""
    thin: str = ""


@dataclass(frozen=True, slots=True)
class PlanReply:
    """The reply to `PlanSubmitted`. `error` refuses the whole plan."""

    error: str | None
    moves: tuple[MoveResult, ...] = ()
    kept: str = ""
    """Which options stay as the execution has them that the plan joins, because the plan has their defaults."""


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The reply to `CommandReceived`: a sentence that says what will happen, or why nothing will.

    `partly`: it is done, and leaves something in the cluster that somebody has to end.
    """

    accepted: bool
    text: str
    partly: bool = False


Reply: TypeAlias = PlanReply | CommandReply


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do, or the executor has to stop (`fatal`: why, `kind`: what failed)."""

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
    """To be appended and synced; the outcome comes back as `JournalWritten` or `JournalRefused`."""
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
    """Collects the output of one event, until it is sealed into a `Ready`."""

    requests: list[Request] = field(default_factory=list[Request])
    replies: list[tuple[ReplyToken, Reply]] = field(default_factory=list[tuple[ReplyToken, Reply]])
    reads: list[Read] = field(default_factory=list[Read])
    notices: list[Notice] = field(default_factory=list[Notice])
    wake_at_ms: int | None = None
    finish: Finish | None = None

    def wake(self, at_ms: int) -> None:
        """Ask to be called at this moment, or earlier if that was asked before."""
        self.wake_at_ms = at_ms if self.wake_at_ms is None else min(self.wake_at_ms, at_ms)

    def seal(self, writes: JournalBatch | None) -> Ready:
        """Return everything that was collected, in the order in which it is to be done."""
        return Ready(
            writes,
            tuple(self.requests),
            tuple(self.replies),
            tuple(self.reads),
            tuple(self.notices),
            self.wake_at_ms,
            self.finish,
        )
