"""What becomes of the moves of one plan, whatever other plans its journal gets."""

from __future__ import annotations

from dataclasses import dataclass, field

from shunter.core.executor.state import ExecutorState, Move, MoveEnd
from shunter.model.execution import DirectionChanged, JournalEntry, MoveAccepted, Outcome, PlanAccepted
from shunter.model.partition import TopicPartition


@dataclass(slots=True)
class OwnMoves:
    """The moves of one plan; without a plan, those that were open when the journal was loaded."""

    plan_id: str = ""
    moves: dict[TopicPartition, Move] = field(default_factory=dict[TopicPartition, Move])
    back: set[TopicPartition] = field(default_factory=set[TopicPartition])
    """Those whose move the plan itself rolls back."""
    _batch: tuple[int, str] | None = None
    """The time and the cause of all entries by which the plan was taken on."""

    def take(self, state: ExecutorState, entry: JournalEntry) -> None:
        """Take an entry that was just applied to the state."""
        record, batch = entry.record, (entry.at_ms, entry.cause)
        if isinstance(record, PlanAccepted):
            self._batch = batch if record.plan_id == self.plan_id else None
        elif isinstance(record, MoveAccepted):
            before, now = self.moves.get(record.tp), state.moves[record.tp]
            if batch == self._batch or (before is not None and before.open and before.goal == now.goal):
                self.moves[record.tp] = now
            elif before is not None and before.open:
                told = f"a later plan sends it to {list(now.target)} instead"
                before.ended = MoveEnd(Outcome.SUPERSEDED, told, entry.at_ms)
        elif isinstance(record, DirectionChanged) and batch == self._batch:
            self.moves[record.tp] = state.moves[record.tp]
            self.back.add(record.tp)
