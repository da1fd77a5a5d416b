"""When the cluster is asked for a step, and which answer is of which step."""

from __future__ import annotations

from collections.abc import Callable

from apache_yard import Rig, Yard

from shunter.core.executor import events as ev
from shunter.core.executor.ready import AlterReassignments, JournalBatch
from shunter.core.executor.step_status import Standing
from shunter.errors import ErrorCode
from shunter.model.execution import CommandKind, DirectionChanged, Outcome, StepAccepted, StepBegun
from shunter.model.partition import TopicPartition

T0 = TopicPartition("t", 0)


def until_under_way(rig: Rig) -> AlterReassignments:
    """Let things happen until a step is being asked for; the request stays pending."""
    for _turn in range(200):
        for work in rig.pending:
            if isinstance(work, AlterReassignments):
                return work
        if rig.pending:
            rig.deliver()
        else:
            rig.pass_time(250)
    raise AssertionError("no step was asked for")


def test_a_late_answer_is_not_taken_for_that_of_another_plans_step() -> None:
    """Both are the first step of their move. The first plan was left as it was before its answer came."""
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (3, 4)))
    late = until_under_way(rig)
    rig.pending.remove(late)
    rig.command(CommandKind.LEAVE)
    rig.submit(("t", 0, (5, 6)))
    assert until_under_way(rig).targets == ((T0, (1, 2, 5)),)
    rig.tell(ev.ReassignmentsAnswered(late.request_id, {T0: (ErrorCode.NONE, "")}))
    assert not any(isinstance(entry.record, StepAccepted) for entry in rig.journal)
    assert rig.core.state.moves[T0].status.standing is Standing.ASKED
    rig.settle()
    assert rig.yard.partitions[T0].replicas == (5, 6)


class SlowJournal(Rig):
    """Batches become durable when the test says so; meanwhile anything else may happen."""

    writing: JournalBatch | None = None

    def tell(self, event: ev.Event, *, write: bool = True) -> None:
        ready = self.core.handle(ev.Envelope(self.now_ms, "test", event))
        self._take(ready)
        if ready.writes is not None:
            assert self.writing is None, "one batch is outstanding at a time"
            self.writing = ready.writes

    def written(self) -> None:
        batch, self.writing = self.writing, None
        assert batch is not None
        self._append(batch)
        self.tell(ev.JournalWritten(batch.batch_id))

    def happen(self, reached: Callable[[JournalBatch], bool]) -> None:
        """Let everything happen until such a batch is being written."""
        for _turn in range(200):
            if self.writing is not None and reached(self.writing):
                return
            if self.writing is not None:
                self.written()
            elif self.pending:
                self.deliver()
            else:
                self.pass_time(250)
        raise AssertionError("that was never written")


def begins_a_step(batch: JournalBatch) -> bool:
    return any(isinstance(entry.record, StepBegun) for entry in batch.entries)


def test_a_step_is_not_asked_for_while_its_rollback_is_being_written() -> None:
    """A rollback comes while the step's own entry is being written, and the journal takes its time with both."""
    rig = SlowJournal(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (3, 4)))
    rig.happen(begins_a_step)
    rig.command(CommandKind.ROLL_BACK)
    rig.written()
    assert rig.writing is not None
    assert any(isinstance(entry.record, DirectionChanged) for entry in rig.writing.entries)
    rig.pass_time(250)
    assert not any(isinstance(work, AlterReassignments) for work in rig.pending)
    rig.written()
    for _turn in range(400):
        if rig.writing is not None:
            rig.written()
        elif rig.pending:
            rig.deliver()
        else:
            rig.pass_time(250)
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert (T0, (1, 2, 3)) not in rig.asked
