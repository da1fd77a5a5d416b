"""The table of phases, with every pair of it, and the transitions of moves."""

from itertools import product
from types import SimpleNamespace

import pytest
from harness import Harness

from shunter.core.controller.draft import Draft
from shunter.core.controller.events import BatchRefused, ReassignmentChange, ReassignmentsSubmitted
from shunter.core.controller.moves.lifecycle import BEGUN, TABLE, Trigger, phase_after
from shunter.core.controller.state import ControllerState
from shunter.core.reassignment import WaitReason
from shunter.errors import InvariantViolation
from shunter.model.partition import ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Reassignment, Strategy

TP = TopicPartition("t", 0)
PAIRS = [(before, trigger) for before, trigger in product((None, *Phase), Trigger)]


def record(phase):
    return Reassignment(None, (1, 2), (3, 4), Strategy.INCREMENTAL, phase, ReplicaAssignment((1, 2)), 0)


@pytest.mark.parametrize(("before", "trigger"), PAIRS, ids=lambda value: getattr(value, "value", "none"))
def test_a_draft_writes_the_phase_that_the_table_gives_and_nothing_else(before, trigger):
    state = ControllerState(100)
    if before is not None:
        state.reassignments[TP] = record(before)
    draft = Draft(state, 1_000, cause="client-7")

    def turn():
        return draft.close(TP) if trigger is Trigger.ENDED else draft.transition(TP, trigger, record(Phase.PENDING))

    if trigger not in TABLE[before]:
        with pytest.raises(InvariantViolation, match="by the table alone"):
            turn()
        assert not draft.reassignments
        assert not draft.transitions
        return
    after = TABLE[before][trigger]
    turn()
    written = draft.reassignment(TP)
    assert (None if written is None else written.phase) is after
    [told] = draft.transitions
    assert (told.before, told.trigger, told.after, told.cause) == (before, trigger, after, "client-7")
    assert (None if before is None else state.reassignments[TP].phase) is before, "the state is as it was"


def test_every_phase_can_end_and_only_an_end_closes_a_record():
    assert all(row.get(Trigger.ENDED, row) is None for before, row in TABLE.items() if before is not None)
    assert {trigger for row in TABLE.values() for trigger, after in row.items() if after is None} == {Trigger.ENDED}


def test_a_rollback_is_not_paused_and_a_finished_move_not_resumed():
    assert [phase for phase in Phase if Trigger.PAUSED in TABLE[phase]] == [Phase.PENDING, Phase.MOVING, Phase.PAUSED]
    assert [phase for phase in Phase if Trigger.RESUMED in TABLE[phase]] == [Phase.PAUSED]
    assert {Phase.MOVING, Phase.ROLLING_BACK} == BEGUN


def test_an_unknown_pair_names_the_partition_the_phase_and_the_trigger():
    with pytest.raises(InvariantViolation) as caught:
        phase_after(Phase.DROPPING, Trigger.STEPPED, TP)
    assert "t-0" in str(caught.value) or "topic='t'" in str(caught.value)
    assert "DROPPING" in str(caught.value)
    assert "STEPPED" in str(caught.value)


class Told(Harness):
    """A harness that keeps the transitions that `Ready` told, and the events that were refused once."""

    def __init__(self, **settings):
        self.transitions = []
        super().__init__(**settings)
        handle = self.machine.handle
        self.machine = SimpleNamespace(handle=lambda envelope: self._keep(handle(envelope)), state=self.machine.state)

    def _keep(self, ready):
        self.transitions += ready.transitions
        return ready

    def story(self):
        return [(told.trigger.value, None if told.after is None else told.after.value) for told in self.transitions]


def test_a_move_tells_its_life_from_acceptance_to_end():
    world = Told().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (3, 4)})
    world.catch_up_all()
    assert world.replicas(TP) == (3, 4)
    assert world.story() == [
        ("accepted", "pending"),
        ("begun", "moving"),
        ("stepped", "moving"),
        ("stepped", "moving"),
        ("deletions-left", "dropping"),
        ("ended", None),
    ]
    steps = [told.step.replicas for told in world.transitions if told.step is not None]
    assert steps[0] == (1, 2, 3)
    assert steps[-1] == (3, 4)
    assert {told.cause for told in world.transitions} == {"test"}


def test_what_is_refused_is_not_told():
    world = Told().start()
    world.create("t", [(1, 2)])
    world.hold_writes = True
    world.reassign({TP: (3, 4)})
    [batch] = world.held_batches
    world.held_batches.clear()
    world.feed(BatchRefused(batch.batch_id, "lost", (), ()))
    assert world.transitions == []
    world.pass_time(1_000)
    world.release_writes()
    assert world.story()[:2] == [("accepted", "pending"), ("begun", "moving")]


def test_a_refused_batch_leaves_since_when_a_move_waits_as_it_was():
    """The floor of a move that waited long is relaxed in time, though a batch about it was refused in between."""
    world = Harness().start(t=[(1, 2)])
    world.reassign({TP: (3, 4)})
    world.kill(4)
    waiting = dict(world.machine.state.waiting)
    assert waiting[TP][0].reason is WaitReason.CATCHING_UP
    world.now_ms += 5_000
    world.hold_writes = True
    world.catch_up(TP, 3)
    [batch] = world.held_batches
    world.held_batches.clear()
    assert world.machine.state.waiting == waiting, "what is not durable has changed nothing"
    world.feed(BatchRefused(batch.batch_id, "lost", (), ()))
    assert world.machine.state.waiting == waiting


def test_a_cancel_that_is_refused_has_cancelled_nothing_that_waits():
    """The cancel's batch is lost. Until the cancel is decided again, the submission must stay as it was."""
    world = Harness(slice_partitions=1).start()
    other = TopicPartition("t", 1)
    world.create("t", [(1, 2), (1, 2)])
    world.hold_writes = True
    changes = tuple(ReassignmentChange(tp, (3, 4)) for tp in (TP, other))
    world.feed(ReassignmentsSubmitted(changes, reply_to=1))
    [first] = world.held_batches
    submission = world.machine.intake.submissions.open[0]
    world.feed(ReassignmentsSubmitted((ReassignmentChange(other, None, intervention=Intervention.STOP),), reply_to=2))
    world.release_writes()
    assert first is not None
    assert world.result(2) == {other: "NONE"}
    assert submission.interventions == {other: Intervention.STOP}
    world.answer_all()
    world.catch_up_all()
    assert world.replicas(other) == (1, 2)
    assert world.replicas(TP) == (3, 4)
