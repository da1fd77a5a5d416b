"""When the cluster is asked for a step, and which answer is of which step."""

from __future__ import annotations

from apache_yard import Rig, Yard

from shunter.core.executor import events as ev
from shunter.core.executor.ready import AlterReassignments
from shunter.core.executor.step_status import Standing
from shunter.errors import ErrorCode
from shunter.model.execution import CommandKind, StepAccepted
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
