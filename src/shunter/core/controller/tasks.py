"""Work that waits, taken in slices, so that no event holds the queue for long.

A task is a row of items. A slice of items is decided into a draft. When the draft is durable, the task moves on; if the
draft was refused, the slice is decided again. A decision changes nothing but its draft: a refusal needs no clean-up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol, TypeAlias, cast

from shunter.core.controller.draft import Draft
from shunter.core.controller.events import ReplyToken
from shunter.core.controller.ready import PartitionResultsReply, Reply
from shunter.errors import ErrorCode
from shunter.model.partition import BrokerId, TopicPartition


class Priority(IntEnum):
    """The order in which tasks are decided: lower numbers first; within one priority, first come, first served."""

    LIVENESS = 0
    """Deaths of brokers, controlled shutdowns, failed log dirs."""
    FOLLOWERS = 1
    """Dead followers leave the ISRs: nobody can write before partitions have leaders, so these come first."""
    CANCEL = 2
    ISR = 3
    """AlterPartition and producer ids: a broker waits for them."""
    NORMAL = 4
    """Everything that may wait for the barrier."""
    CLEANUP = 5
    """Bookkeeping that no caller waits for."""


WAITS_FOR_BARRIER = frozenset({Priority.NORMAL})
IN_ROUNDS = frozenset({Priority.LIVENESS, Priority.FOLLOWERS})
"""What is decided with one of these priorities goes out together (`Outbox.round`)."""

CANCELLED_TIMES = 2
"""A slice of a cancel is this many times as large as others, because every slice sends a request to every broker."""

EXAMINED_AT_MOST = 1_500
"""Items of one slice that may turn out to need no write; bounds the slice's work where `Draft.size` can't."""


PARKED_AT_MOST = 1_000
"""Items of one task that may wait for single brokers while others go on; less than `EXAMINED_AT_MOST`."""

Hold: TypeAlias = tuple[tuple[BrokerId, int], ...]
"""Brokers whose answers an item waits for, each up to a request id; empty: the item waits for no broker."""


class Barrier(Protocol):
    """Says which brokers' answers a partition waits for; see docs/decisions/0005-barrier.md."""

    releases: int
    """Counts how often a broker stopped being waited for."""

    def hold_of(self, tp: TopicPartition) -> Hold:
        """The answers that a decision about a partition has to wait for now."""
        ...

    def passed(self, hold: Hold) -> bool:
        """Whether all these answers came, or are not waited for any more."""
        ...


class NoBarrier:
    """A barrier that holds nothing back."""

    releases = 0

    def hold_of(self, tp: TopicPartition) -> Hold:  # noqa: ARG002 - as in `Barrier`
        """No answer is waited for."""
        return ()

    def passed(self, hold: Hold) -> bool:  # noqa: ARG002 - as in `Barrier`
        """No answer is waited for."""
        return True


@dataclass(slots=True)
class Task:
    """Items to be decided one by one, and what to do when all are durable.

    `decide` gets the draft and one item, and returns the item's result. `finish` gets all results, in the items' order.
    Items are decided in their order, except items that are parked because a broker that they concern owes an answer.

    Invariant: every index below `cursor` is in `results` or parked; `drafting` has those of the slice that is written.
    """

    priority: Priority
    items: Sequence[Any]
    decide: Callable[[Draft, Any], Any]
    finish: Callable[[list[Any]], list[tuple[ReplyToken, Reply]]] | None = None
    cause: str = ""
    """Id of the event that asked for the task."""
    reason: str = ""
    """Why the items are reviewed: name of a `review.Reason`; empty where the event itself asked for the task."""
    in_order: bool = False
    """The task waits for all earlier tasks of its priority, and later ones wait for it. Its items, too, wait for one
    another."""
    answered_late: bool = False
    """The caller would ask again at once, and in vain, so the reply waits a little (`machine.FORBIDDEN_TOLD_MS`)."""
    number: int = 0
    """The task's place among all tasks; the queue assigns it."""
    cursor: int = 0
    results: dict[int, Any] = field(default_factory=dict[int, Any])
    drafting: list[int] = field(default_factory=list[int])
    parked: list[tuple[int, Hold]] = field(default_factory=list[tuple[int, Hold]])
    held: Hold = ()
    """What the next item of a task `in_order` waits for: it is not parked, and no later item is decided before it."""
    looked_at_release: int = -1
    """`Barrier.releases` when all parked items were last looked at."""
    deciding: Any = None
    """The item that is being decided, or was last."""
    refuse: Callable[[Any, ErrorCode, str], Any] | None = None
    """If a caller asked for the task: makes the result of an item that can't be decided (a bug) or written.

    None: every item has to be decided."""

    @property
    def drafted(self) -> int:
        """How many items are decided, durable or not."""
        return len(self.results)

    @property
    def exhausted(self) -> bool:
        """Whether every item is decided."""
        return self.drafted >= len(self.items)

    def ready(self, barrier: Barrier) -> bool:
        """Whether there may be an item that can be decided now, or nothing is left to decide."""
        if self.exhausted:
            return True
        if self.held and not barrier.passed(self.held):
            return False
        if self.cursor < len(self.items) and len(self.parked) < PARKED_AT_MOST:
            return True
        return bool(self.parked) and self.looked_at_release != barrier.releases

    def draft_slice(
        self,
        draft: Draft,
        size_limit: int,
        examine_limit: int,
        barrier: Barrier | None = None,
        waiting: dict[TopicPartition, Hold] | None = None,
    ) -> int:
        """Decide items until the draft is full; returns how many were looked at.

        Args:
            waiting: partitions of older items that wait, with what they wait for: later items wait with them.
        """
        draft.cause, draft.reason, draft.part = self.cause, self.reason, ""
        barrier = barrier if barrier is not None else NoBarrier()
        waiting = waiting if waiting is not None else {}
        looked = self._try_parked(draft, size_limit, examine_limit, barrier)
        count = len(self.items)
        while self.cursor < count and not draft.is_full(size_limit) and looked < examine_limit:
            if len(self.parked) >= PARKED_AT_MOST:
                break
            index, looked = self.cursor, looked + 1
            tp = concern(self.items[index])
            hold = () if tp is None else _hold_of(tp, barrier, waiting)
            if self.in_order:
                self.held = self.held or hold
                if not barrier.passed(self.held):
                    break
                self.held = hold = ()
            self.cursor += 1
            if hold and tp is not None:
                waiting[tp] = hold
                self.parked.append((index, hold))
                self.looked_at_release = barrier.releases
            else:
                self._decide(draft, index)
        return looked

    def _try_parked(self, draft: Draft, size_limit: int, examine_limit: int, barrier: Barrier) -> int:
        if not self.parked or self.looked_at_release == barrier.releases:
            return 0
        kept: list[tuple[int, Hold]] = []
        looked = decided = 0
        for position, (index, hold) in enumerate(self.parked):
            # Items that are still held do not count here: with a small limit the same few would be looked at for ever.
            if draft.is_full(size_limit) or decided >= examine_limit:
                kept += self.parked[position:]
                break
            looked += 1
            if barrier.passed(hold):
                decided += 1
                self._decide(draft, index)
            else:
                kept.append((index, hold))
        else:
            self.looked_at_release = barrier.releases
        self.parked = kept
        return looked

    def _decide(self, draft: Draft, index: int) -> None:
        self.deciding = self.items[index]
        self.results[index] = self.decide(draft, self.deciding)
        self.drafting.append(index)

    def commit(self) -> list[tuple[ReplyToken, Reply]]:
        """The drafted items are durable; returns replies if they were the last ones."""
        self.drafting.clear()
        if self.exhausted and self.finish is not None:
            finish, self.finish = self.finish, None
            return finish([self.results[index] for index in range(len(self.items))])
        return []

    def roll_back(self) -> None:
        """The draft left no trace. Its items are decided again, before all later ones."""
        for index in self.drafting:
            del self.results[index]
        if self.drafting:
            self.parked = sorted([*self.parked, *((index, ()) for index in self.drafting)])
            self.looked_at_release = -1
        self.drafting.clear()

    def pass_over(self, error: ErrorCode, message: str) -> list[tuple[ReplyToken, Reply]]:
        """The draft can't be written: its items are refused, or stay as they are if no caller asked for them."""
        for index in self.drafting:
            self.results[index] = None if self.refuse is None else self.refuse(self.items[index], error, message)
        return self.commit()

    def split_off(self) -> Task | None:
        """Make a task of drafted items that can't be written now; None if a caller waits: it is refused instead."""
        if self.refuse is not None:
            return None
        items = [self.items[index] for index in self.drafting]
        return Task(self.priority, items, self.decide, cause=self.cause, reason=self.reason)

    def abandon(self, error: ErrorCode, message: str) -> list[tuple[ReplyToken, Reply]]:
        """Refuse all items that are not durable; returns replies. Only for tasks that have `refuse`."""
        self.roll_back()
        self.parked, self.held, self.cursor = [], (), len(self.items)
        if self.refuse is not None:
            for index, item in enumerate(self.items):
                if index not in self.results:
                    self.results[index] = self.refuse(item, error, message)
        return self.commit()


def _hold_of(tp: TopicPartition, barrier: Barrier, waiting: Mapping[TopicPartition, Hold]) -> Hold:
    """What an item about a partition waits for: the same as older items about it that wait, else what holds it now."""
    older = waiting.get(tp, ())
    return barrier.hold_of(tp) if barrier.passed(older) else older


def concern(item: object) -> TopicPartition | None:
    """The partition that an item is about, and whose brokers may hold it back; None: it is about no partition."""
    if isinstance(item, TopicPartition):
        return item
    if isinstance(item, tuple):
        first: object = next(iter(cast("tuple[object, ...]", item)), None)
        return first if isinstance(first, TopicPartition) else getattr(cast("object", item), "tp", None)
    tp: object = getattr(item, "tp", None)
    return tp if isinstance(tp, TopicPartition) else None


@dataclass(slots=True)
class TaskQueue:
    """Tasks by priority."""

    cause: str = ""
    """Id of the event that is being taken in: tasks that are queued meanwhile carry it."""
    next_number: int = 1
    waiting: dict[TopicPartition, Hold] = field(default_factory=dict[TopicPartition, Hold])
    """Partitions that parked items are about, with what they wait for; some of these answers may have come."""
    queues: dict[Priority, deque[Task]] = field(default_factory=lambda: {priority: deque() for priority in Priority})

    def add(self, task: Task) -> None:
        """Queue a task behind others of its priority."""
        task.cause = task.cause or self.cause
        task.number = self.next_number
        self.next_number += 1
        self.queues[task.priority].append(task)

    def put_back(self, tasks: Sequence[Task]) -> None:
        """Return tasks that are not done, or were refused, to their places; tasks that are in the queue stay there."""
        for priority in {task.priority for task in tasks}:
            there = set(map(id, self.queues[priority]))
            returned = [task for task in tasks if task.priority is priority and id(task) not in there]
            self.queues[priority] = deque(sorted((*returned, *self.queues[priority]), key=lambda task: task.number))

    def first(self, *, barrier_holds: bool, barrier: Barrier | None = None) -> Task | None:
        """The task that goes next, still in its queue; None when there is none or all have to wait."""
        barrier = barrier if barrier is not None else NoBarrier()
        for priority in Priority:
            queue = self.queues[priority]
            if not queue:
                continue
            if priority not in WAITS_FOR_BARRIER:
                return queue[0]
            if not barrier_holds:
                found = self._first_ready(queue, barrier)
                if found is not None:
                    return found
        return None

    def _first_ready(self, queue: deque[Task], barrier: Barrier) -> Task | None:
        for position, task in enumerate(queue):
            if task.in_order and position:
                return None
            if task.ready(barrier):
                return task
            if task.in_order or task.cursor < len(task.items):
                return None  # Items that it did not look at yet may be about the same partitions as later tasks.
        return None

    def draft(self, task: Task, draft: Draft, size_limit: int, examine_limit: int, barrier: Barrier) -> int:
        """Take a slice of a task that `first` gave and `take` removed; returns how many items were looked at."""
        if task.priority not in WAITS_FOR_BARRIER:
            return task.draft_slice(draft, size_limit, examine_limit)
        if not task.parked and not any(other.parked for other in self.queues[task.priority]):
            self.waiting.clear()
        return task.draft_slice(draft, size_limit, examine_limit, barrier, self.waiting)

    def take(self, task: Task) -> None:
        """Remove the task that `first` gave."""
        queue = self.queues[task.priority]
        if queue[0] is task:
            queue.popleft()
        else:
            queue.remove(task)

    def drop(self, task: Task) -> None:
        """Remove a task that was given up, wherever it is."""
        queue = self.queues[task.priority]
        self.queues[task.priority] = deque(each for each in queue if each is not task)

    def in_rounds(self, writing: Sequence[Task] = ()) -> Priority | None:
        """The most urgent priority, of those whose decisions go out in rounds, that has work left or being written."""
        left = {priority for priority in IN_ROUNDS if self.queues[priority]}
        return min(IN_ROUNDS & left.union(task.priority for task in writing), default=None)

    def waits_for_barrier(self) -> bool:
        """Whether a task waits that the barrier can hold back."""
        return any(self.queues[priority] for priority in WAITS_FOR_BARRIER)

    def pending(self) -> int:
        """How many items wait."""
        return sum(len(task.items) - task.drafted for queue in self.queues.values() for task in queue)


@dataclass(slots=True)
class PartitionResults:
    """Gathers per-partition results of one request that was split into several tasks; replies when all are in."""

    reply_to: ReplyToken
    order: tuple[TopicPartition, ...]
    open_tasks: int
    results: dict[TopicPartition, tuple[ErrorCode, str | None]] = field(
        default_factory=dict[TopicPartition, tuple[ErrorCode, str | None]]
    )

    def task_finished(
        self, results: list[tuple[TopicPartition, ErrorCode, str | None]]
    ) -> list[tuple[ReplyToken, Reply]]:
        """One of the tasks is finished, and durable."""
        for tp, error, message in results:
            self.results[tp] = (error, message)
        self.open_tasks -= 1
        if self.open_tasks or not self.reply_to:
            return []
        order = self.order or tuple(sorted(self.results))
        partitions = tuple((tp, *self.results[tp]) for tp in order if tp in self.results)
        return [(self.reply_to, PartitionResultsReply(ErrorCode.NONE, None, partitions))]
