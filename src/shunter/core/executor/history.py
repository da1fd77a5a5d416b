"""Past executions, as a journal tells of them: what each moved, what came of it, and the way back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shunter.core.executor.apply import apply
from shunter.core.executor.state import ExecutorState, Move
from shunter.model.execution import (
    Command,
    CommandKind,
    CommandTaken,
    ExecutionOptions,
    JournalEntry,
    MoveOrder,
    Outcome,
    PlanAccepted,
)
from shunter.model.partition import TopicPartition

_TURNING = (CommandKind.STOP, CommandKind.ROLL_BACK, CommandKind.LEAVE)
_OTHERS = (Outcome.SUPERSEDED, Outcome.FOREIGN, Outcome.GONE)
"""After these, what stands there is somebody else's."""


@dataclass(slots=True)
class Execution:
    """One execution: from its first plan to the end of its last move. `number` counts from 1, as people name it."""

    number: int
    began_at_ms: int
    plans: list[str]
    options: ExecutionOptions
    moves: dict[TopicPartition, Move]
    turned: list[Command] = field(default_factory=list[Command])
    """Orders that stopped it, rolled it back or left it, all of it or a part."""

    @property
    def ended_at_ms(self) -> int | None:
        """When its last move ended; None: it goes on."""
        ends = [move.ended for move in self.moves.values()]
        return None if None in ends else max((ended.at_ms for ended in ends if ended is not None), default=0)

    @property
    def copied_bytes(self) -> int:
        """What was copied in all steps that were seen to their end."""
        return sum(move.copied_bytes for move in self.moves.values())


@dataclass(frozen=True, slots=True)
class Undoing:
    """The reverse of an execution: what is to be moved back, and why some of it is not (a sentence each)."""

    moves: tuple[MoveOrder, ...]
    told: tuple[str, ...]
    copied_bytes: int = 0
    """What it copies again, by the sizes of then."""


def executions(entries: Iterable[JournalEntry]) -> tuple[Execution, ...]:
    """All executions of a journal, the first one first.

    Raises:
        InvariantViolation: the entries are no journal.
    """
    state = ExecutorState()
    found: list[Execution] = []
    for entry in entries:
        record = entry.record
        begins = isinstance(record, PlanAccepted) and not state.at_work
        apply(state, entry)
        if isinstance(record, PlanAccepted):
            if begins:
                found.append(Execution(len(found) + 1, entry.at_ms, [], record.options, state.moves))
            found[-1].plans.append(record.plan_id)
        elif isinstance(record, CommandTaken) and found and record.command.kind in _TURNING:
            found[-1].turned.append(record.command)
    return tuple(found)


def reverse(execution: Execution) -> Undoing:
    """The way back from what an execution came to. Pre: all its moves have ended.

    Each partition is to be taken back only from where the execution left it: whoever moved it since is right.
    """
    moves: list[MoveOrder] = []
    told: list[str] = []
    copied = 0
    for tp in sorted(execution.moves):
        move = execution.moves[tp]
        if move.outcome in _OTHERS:
            told.append(f"{tp} stays: {move.reason}")
            continue
        if move.placing and move.outcome is Outcome.DONE:
            told.append(f"{tp}: its log dirs stay as they are, for the journal does not know those before")
        if not move.current or move.current == move.original:
            continue
        if move.adopted:
            told.append(f"{tp}: it was taken over, so the order of its original replicas is a guess")
        copied += move.size_bytes * sum(broker not in move.current for broker in move.original)
        moves.append(MoveOrder(tp, move.original, move.strategy, planned_from=move.current))
    return Undoing(tuple(moves), tuple(told), copied)
