"""Journals as an executor would have written them: one execution that is over, and one that goes on."""

from __future__ import annotations

from collections.abc import Iterable

from shunter.model.execution import (
    Command,
    CommandKind,
    CommandTaken,
    Direction,
    DirectionChanged,
    ExecutionClosed,
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    LimitChanged,
    MoveAccepted,
    MoveClosed,
    MovePaused,
    Outcome,
    PlanAccepted,
    StepAccepted,
    StepBegun,
    StepFinished,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.service import MoveView

GB = 10**9
MINUTE = 60_000


class Journal:
    """Entries, numbered as they come."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.entries: list[JournalEntry] = []

    def write(self, *records: JournalRecord, after_ms: int = 0) -> None:
        """Write what one event brings."""
        self.at_ms += after_ms
        for record in records:
            self.entries.append(JournalEntry(len(self.entries) + 1, self.at_ms, f"event-{self.at_ms}", record))


def past_and_present(cluster: str, now_ms: int, plan: str, moves: Iterable[MoveView]) -> list[JournalEntry]:
    """An execution of the day before, of three moves; and one of `moves`, as far as they are ours."""
    journal = Journal(now_ms - 24 * 60 * MINUTE)
    _past(journal, cluster)
    ours = [move for move in moves if move.whose == "ours"]
    if ours:
        journal.at_ms = now_ms - 20 * MINUTE
        journal.write(PlanAccepted(plan, f"id-of-{cluster}", ExecutionOptions(throttle=100 * 10**6)))
        journal.write(*(accepted(partition_of(m.partition), m.original, m.target, m.total_bytes or 0) for m in ours))
        for move in ours:
            if move.step is not None:
                tp = partition_of(move.partition)
                begun = StepBegun(tp, 1, move.original, move.step, f"forward: +{move.step[-1]}")
                journal.write(begun, StepAccepted(tp, 1), after_ms=1_000)
    return journal.entries


def _past(journal: Journal, cluster: str) -> None:
    done, back, other = (TopicPartition(f"topic-00{each}", 0) for each in (1, 2, 3))
    options = ExecutionOptions(throttle=100 * 10**6)
    journal.write(PlanAccepted("p-7", f"id-of-{cluster}", options))
    journal.write(
        accepted(done, (1, 2, 3), (4, 5, 3), 5 * GB),
        accepted(back, (2, 3, 4), (5, 3, 4), 2 * GB),
        accepted(other, (3, 4, 5), (6, 4, 5), GB),
    )
    journal.write(StepBegun(done, 1, (1, 2, 3), (1, 2, 3, 4), "forward: +4"), StepAccepted(done, 1), after_ms=MINUTE)
    journal.write(
        StepFinished(done, 1, (1, 2, 3, 4), (1, 2, 3, 4), 5 * GB),
        StepBegun(done, 2, (1, 2, 3, 4), (4, 5, 3), "forward: +5 -1 -2"),
        StepBegun(back, 1, (2, 3, 4), (5, 3, 4), "forward: +5 -2"),
        after_ms=9 * MINUTE,
    )
    journal.write(StepAccepted(done, 2), StepAccepted(back, 1), after_ms=200)
    limit = Command(CommandKind.LIMIT, bytes_per_s=50 * 10**6, given_by="anna")
    journal.write(CommandTaken(limit), LimitChanged(50 * 10**6, "asked for by anna"), after_ms=2 * MINUTE)
    journal.write(
        CommandTaken(Command(CommandKind.PAUSE, (back,), given_by="ben")), MovePaused(back, True), after_ms=90
    )
    journal.write(
        CommandTaken(Command(CommandKind.ROLL_BACK, (back,), given_by="anna")),
        DirectionChanged(back, Direction.BACK),
        after_ms=12 * MINUTE,
    )
    journal.write(StepBegun(back, 2, (2, 3, 4), (2, 3, 4), "roll back", cancels=True), StepAccepted(back, 2))
    journal.write(StepFinished(back, 2, (2, 3, 4), (2, 3, 4)), after_ms=900)
    journal.write(MoveClosed(back, Outcome.ROLLED_BACK, "its original replicas are back", (2, 3, 4)))
    journal.write(StepFinished(done, 2, (4, 5, 3), (3, 4, 5), 5 * GB), after_ms=8 * MINUTE)
    journal.write(MoveClosed(done, Outcome.DONE, "the target is reached", (4, 5, 3), 10 * GB))
    journal.write(MoveClosed(other, Outcome.GONE, "its topic was deleted", (3, 4, 5)), ExecutionClosed("3 moves ended"))


def accepted(tp: TopicPartition, original: tuple[int, ...], target: tuple[int, ...], size: int) -> MoveAccepted:
    """A move that is taken on as planned."""
    return MoveAccepted(tp, None, original, target, Strategy.INCREMENTAL, size)


def partition_of(name: str) -> TopicPartition:
    """A partition by its name, `orders-3`."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
