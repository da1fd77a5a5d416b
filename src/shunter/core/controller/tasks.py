"""Work that waits: what was asked for, taken in slices, so that no event holds the queue for long.

A task is a row of items. A slice of them is decided into a draft; when the draft is durable the task moves on, when it
was refused the slice is decided again. Nothing else about a task ever changes, so a refusal needs no clean-up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from shunter.core.controller.draft import Draft
from shunter.core.controller.events import ReplyToken
from shunter.core.controller.ready import PartitionResultsReply, Reply
from shunter.errors import ErrorCode
from shunter.model.partition import TopicPartition


class Priority(IntEnum):
    """What overtakes what; within one priority, first come, first served. Lower goes first."""

    LIVENESS = 0
    """Deaths of brokers, controlled shutdowns, failed log dirs."""
    CANCEL = 1
    ISR = 2
    """AlterPartition and producer ids: a broker waits for them."""
    NORMAL = 3
    """Everything that may wait for the barrier."""
    CLEANUP = 4
    """Bookkeeping that nobody waits for."""


WAITS_FOR_BARRIER = frozenset({Priority.NORMAL})

CANCELLED_TIMES = 2
"""A slice of a cancel is this many times as large as others: each slice tells every broker something."""

EXAMINED_AT_MOST = 1_500
"""Items of one slice that may turn out to need no write; bounds the slice's work where `Draft.size` can't."""


@dataclass(slots=True)
class Task:
    """Items to be decided one by one, and what to do when all are durable.

    `decide` gets the draft and one item, and returns the item's result. `finish` gets all results, in order.
    Invariant: done <= drafted <= len(items); `results[:done]` belong to durable decisions.
    """

    priority: Priority
    items: Sequence[Any]
    decide: Callable[[Draft, Any], Any]
    finish: Callable[[list[Any]], list[tuple[ReplyToken, Reply]]] | None = None
    cause: str = ""
    """Id of the event that asked for it."""
    done: int = 0
    results: list[Any] = field(default_factory=list[Any])

    @property
    def drafted(self) -> int:
        """How many items are decided, durable or not."""
        return len(self.results)

    @property
    def exhausted(self) -> bool:
        """Whether every item is decided."""
        return self.drafted >= len(self.items)

    def draft_slice(self, draft: Draft, size_limit: int, examine_limit: int) -> int:
        """Decide items until the draft is full; returns how many were looked at."""
        start = self.drafted
        draft.cause = self.cause
        while not self.exhausted and draft.size < size_limit and self.drafted - start < examine_limit:
            self.results.append(self.decide(draft, self.items[self.drafted]))
        return self.drafted - start

    def commit(self) -> list[tuple[ReplyToken, Reply]]:
        """What was drafted is durable; returns replies when that was the last of it."""
        self.done = self.drafted
        if self.exhausted and self.finish is not None:
            finish, self.finish = self.finish, None
            return finish(self.results)
        return []

    def roll_back(self) -> None:
        """What was drafted left no trace."""
        del self.results[self.done :]


@dataclass(slots=True)
class TaskQueue:
    """Tasks by priority."""

    cause: str = ""
    """Id of the event that is being taken in: tasks that are queued meanwhile carry it."""
    queues: dict[Priority, deque[Task]] = field(default_factory=lambda: {priority: deque() for priority in Priority})

    def add(self, task: Task) -> None:
        """Queue a task behind its equals."""
        task.cause = task.cause or self.cause
        self.queues[task.priority].append(task)

    def put_back(self, tasks: Sequence[Task]) -> None:
        """Return refused tasks to the front, in their order."""
        for task in reversed(tasks):
            self.queues[task.priority].appendleft(task)

    def first(self, *, barrier_holds: bool) -> Task | None:
        """The task that goes next, still in its queue; None when there is none or all have to wait."""
        for priority in Priority:
            queue = self.queues[priority]
            if queue and not (barrier_holds and priority in WAITS_FOR_BARRIER):
                return queue[0]
        return None

    def take(self, task: Task) -> None:
        """Remove the task that `first` gave."""
        self.queues[task.priority].popleft()

    def waits_for_barrier(self) -> bool:
        """Whether something waits that the barrier can hold back."""
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
        """One of the tasks is durable to its end."""
        for tp, error, message in results:
            self.results[tp] = (error, message)
        self.open_tasks -= 1
        if self.open_tasks or not self.reply_to:
            return []
        order = self.order or tuple(sorted(self.results))
        partitions = tuple((tp, *self.results[tp]) for tp in order if tp in self.results)
        return [(self.reply_to, PartitionResultsReply(ErrorCode.NONE, None, partitions))]
