"""Steps: when the cluster is asked for one, what is observed meanwhile, and what ends one if brokers are late."""

from collections.abc import Callable

import pytest
from apache_yard import SIZE, LateRig, Rig, Yard, go_on, planned, until, until_asked, until_begun

from shunter.core.executor import events as ev
from shunter.core.executor.judgement import LAG_MS, PATIENCE
from shunter.core.executor.ready import AlterReassignments, JournalBatch, ObserveLogDirs, PlanReply
from shunter.core.executor.step_status import Standing
from shunter.errors import ErrorCode
from shunter.model.execution import (
    CommandKind,
    DirectionChanged,
    ExecutionClosed,
    ExecutionOptions,
    MoveClosed,
    ObservedPartition,
    ObservedTopic,
    Outcome,
    StepAccepted,
    StepBegun,
    StepFinished,
)
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy

T0 = TopicPartition("t", 0)


def under_way(rig: Rig) -> list[AlterReassignments]:
    """Requests for steps that have no answer yet."""
    return [work for work in rig.pending if isinstance(work, AlterReassignments)]


def until_under_way(rig: Rig) -> AlterReassignments:
    """Go on until a step is being asked for; the request stays pending."""
    until(rig, lambda: bool(under_way(rig)), 200, "no step was asked for")
    return under_way(rig)[0]


def test_a_late_answer_is_not_taken_for_that_of_another_plans_step() -> None:
    """Both steps are the first step of their move. The first plan was left as it was before its answer came."""
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 4)))
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

    def turn(self, *, catching_up: bool = False) -> None:
        """Write the batch, or else deliver what is pending, or else let time pass."""
        if self.writing is not None:
            self.written()
        elif self.pending:
            self.deliver()
        else:
            if catching_up:
                self.yard.catch_up(T0)
            self.pass_time(250)

    def happen(self, reached: Callable[[JournalBatch], bool], *, catching_up: bool = False) -> None:
        """Go on until a batch for which `reached` holds is being written."""
        for _turn in range(1_000):
            if self.writing is not None and reached(self.writing):
                return
            self.turn(catching_up=catching_up)
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
    assert not under_way(rig)
    rig.written()
    rig.happen(lambda batch: any(isinstance(entry.record, ExecutionClosed) for entry in batch.entries))
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert (T0, (1, 2, 3)) not in rig.asked


def test_a_rollback_is_not_ended_by_the_refusal_of_the_step_before_it() -> None:
    """The fifth refusal of a step comes while the rollback of its move is being written."""
    rig = SlowJournal(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (3, 4)))
    rig.happen(lambda batch: any(isinstance(entry.record, StepFinished) for entry in batch.entries), catching_up=True)
    rig.yard.refuse[T0] = ErrorCode.POLICY_VIOLATION
    while not (under_way(rig) and rig.core.state.moves[T0].status.requests == PATIENCE):
        rig.turn()
    assert rig.writing is None
    rig.command(CommandKind.ROLL_BACK)
    rig.deliver(rig.pending.index(under_way(rig)[0]))
    rig.yard.refuse.clear()
    rig.happen(
        lambda batch: any(isinstance(entry.record, ExecutionClosed) for entry in batch.entries), catching_up=True
    )
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert rig.yard.partitions[T0].replicas == (1, 2)


def test_requests_without_an_answer_are_no_refusals() -> None:
    """World 97200317: after four requests in vain, one refusal of a broker that had just died ended the move."""
    rig = planned({"t": [(4,)]}, ("t", 0, (1,)))
    until_under_way(rig)
    rig.yard.refuse[T0] = ErrorCode.REQUEST_TIMED_OUT
    until(rig, lambda: rig.core.state.moves[T0].status.requests == PATIENCE, 2_000, "it was not asked for again")
    rig.yard.refuse[T0] = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    until(rig, lambda: bool(rig.core.state.moves[T0].status.refused), 2_000, "it was not refused")
    go_on(rig, 4)
    assert rig.outcomes() == {T0: None}
    rig.yard.refuse.clear()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_a_move_whose_topic_is_made_anew_waits_for_the_answer_of_its_request() -> None:
    """World 97100746: the next plan asked for a step of the new topic while the old one's request was under way."""
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 4)))
    asked = until_under_way(rig)
    rig.pending.remove(asked)
    rig.yard.delete("t")
    rig.yard.make("t", [(1, 2)])
    go_on(rig, 60)
    assert rig.outcomes() == {T0: None}
    rig.tell(ev.ReassignmentsAnswered(asked.request_id, {T0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")}))
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.GONE}


def test_a_broker_that_dies_as_its_step_is_asked_for_is_waited_for() -> None:
    """A controller in ZooKeeper mode refuses a broker that is down. That must not end the move (world 97000923)."""
    rig = planned({"t": [(1, 2)]}, ("t", 0, (1, 3)))
    asked = until_under_way(rig)
    rig.yard.kill(3)
    rig.yard.refuse[T0] = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    rig.deliver(rig.pending.index(asked))
    go_on(rig, 200)
    assert rig.outcomes() == {T0: None}
    assert rig.core.state.moves[T0].waits.text.startswith("waits: broker 3 ")
    rig.yard.refuse.clear()
    rig.yard.revive(3)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def asked_back_by_a_late_broker(again: Callable[[Rig], object]) -> Rig:
    """A rig whose executor turns back and dies. Meanwhile the step ends, and a late broker shows its old replicas."""
    rig = LateRig(Yard({"t": [(4, 2, 1)]}))
    rig.submit(("t", 0, (2, 3, 4)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    until_asked(rig)
    rig.settle(catching_up=False, rounds=4)
    again(rig)
    until_begun(rig, 2)
    rig.topic_shown = ObservedTopic(rig.yard.topic_ids["t"], {0: ObservedPartition((4, 2, 1), (4, 2, 1), 4)})
    rig.yard.catch_up(T0)
    assert rig.yard.partitions[T0].replicas == (2, 3, 4)
    rig.crash()
    rig.settle(rounds=20)
    rig.topic_shown = None
    rig.settle()
    return rig


def test_a_late_broker_does_not_end_a_move_back_to_the_original() -> None:
    """Found by simulation (seed 4000702): the move was closed as done while its replicas were elsewhere."""
    rig = asked_back_by_a_late_broker(lambda rig: rig.submit(("t", 0, (4, 2, 1))))
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.yard.partitions[T0].replicas == (4, 2, 1)


def test_a_late_broker_does_not_end_a_rollback_that_was_never_asked_for() -> None:
    rig = asked_back_by_a_late_broker(lambda rig: rig.command(CommandKind.ROLL_BACK))
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert rig.yard.partitions[T0].replicas == (4, 2, 1)


def test_a_step_begun_in_the_future_of_a_clock_that_was_set_back_goes_on() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 4)))
    until_asked(rig)
    rig.settle(catching_up=False, rounds=4)
    rig.now_ms -= 600_000
    rig.crash()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_a_stop_undoes_no_reassignment_of_others_that_took_the_place_of_a_step() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)))
    until_asked(rig)
    rig.settle(catching_up=False, rounds=6)
    rig.yard.alter(T0, (1, 2, 6))
    rig.command(CommandKind.STOP)
    rig.settle()
    assert len(rig.asked) == 1
    assert rig.outcomes() == {T0: Outcome.SUPERSEDED}
    assert rig.yard.partitions[T0].replicas == (1, 2, 6)


def test_a_step_that_was_given_up_before_it_was_asked_for_is_never_asked_for() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3,)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    while not any(isinstance(entry.record, StepBegun) for entry in rig.journal):
        rig.deliver() if rig.pending else rig.pass_time(250)
    rig.crash()
    rig.command(CommandKind.ROLL_BACK)
    rig.settle()
    assert (T0, (3,)) not in rig.asked
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}


def test_a_step_that_ended_behind_one_that_was_never_asked_for_is_still_ours() -> None:
    """Found by simulation (seed 4000242): the relaxed step was not asked for yet when another order came."""
    rig = Rig(Yard({"t": [(4, 2, 1)]}))
    options = ExecutionOptions(strategy=Strategy.ALL_AT_ONCE, relax_after_ms=5_000)
    rig.submit(("t", 0, (2, 6, 1)), options=options)
    until_asked(rig)
    rig.settle(catching_up=False, rounds=4)
    rig.yard.kill(2)
    rig.yard.catch_up(T0)
    until_begun(rig, 2)
    rig.crash()
    rig.command(CommandKind.ROLL_BACK)
    until_begun(rig, 3)
    assert rig.asked == [(T0, (2, 6, 1))]
    rig.yard.revive(2)
    rig.yard.catch_up(T0)
    assert rig.yard.partitions[T0].replicas == (2, 6, 1), "the first step has ended after all"
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert rig.yard.partitions[T0].replicas == (4, 2, 1)


def test_a_step_that_ended_without_an_answer_does_not_hold_up_another_target() -> None:
    """Found by simulation (seed 6003628): the partition had these replicas before, so metadata counted as late."""
    rig = planned({"t": [(2,)]}, ("t", 0, (3,)))
    rig.settle()
    rig.submit(("t", 0, (2,)))
    rig.deliver(rig.pending.index(until_under_way(rig)), lost=True)
    rig.yard.catch_up(T0)
    assert rig.yard.partitions[T0].replicas == (2,)
    rig.submit(("t", 0, (3,)))
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.yard.partitions[T0].replicas == (3,)


def test_a_step_that_came_too_late_for_the_one_before_it_does_not_hold_up_a_rollback() -> None:
    """Found by simulation (seed 7001846): the rollback waited for replicas to be in sync that no longer existed."""
    rig = Rig(Yard({"t": [(2, 4, 5)]}))
    rig.yard.min_isr["t"] = 2
    options = ExecutionOptions(strategy=Strategy.ALL_AT_ONCE)
    rig.submit(("t", 0, (3, 1, 5)), options=options)
    until_asked(rig)
    rig.settle(catching_up=False, rounds=4)
    rig.submit(("t", 0, (4, 5, 2)), options=options)
    until_under_way(rig)
    rig.crash()
    rig.yard.catch_up(T0)
    rig.yard.catch_up(T0)
    assert rig.yard.partitions[T0].replicas == (3, 1, 5)
    rig.command(CommandKind.ROLL_BACK)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert rig.yard.partitions[T0].replicas == (2, 4, 5)


def test_a_process_that_read_of_a_cancel_does_not_know_whether_there_was_anything_to_cancel() -> None:
    """World 98202598: the step was done before the stop, and the process that got that answer was killed.

    The next process took a late broker's word: the stop ended with the replicas from before the step.
    """
    rig = LateRig(Yard({"t": [(3, 1, 2)]}))
    before = ObservedPartition((3, 1, 2), (1, 3, 2), 3)
    rig.topic_shown = ObservedTopic(rig.yard.topic_ids["t"], {0: before})
    rig.submit(("t", 0, (3,)))
    until_asked(rig)
    assert rig.yard.partitions[T0].replicas == (3,)
    rig.command(CommandKind.STOP)
    until_asked(rig, 2)
    assert rig.asked[-1] == (T0, None)
    go_on(rig, 4)
    assert isinstance(rig.journal[-1].record, StepAccepted), "the journal does not say that nothing was left to cancel"
    rig.crash()
    began_ms = rig.now_ms
    while rig.now_ms < began_ms + LAG_MS - 1_000:
        go_on(rig, 1)
    assert isinstance(rig.journal[-1].record, StepAccepted)
    rig.topic_shown = None
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.STOPPED}
    assert rig.core.state.moves[T0].current == (3,)


@pytest.mark.parametrize(
    ("turn", "outcome"), [(CommandKind.ROLL_BACK, Outcome.ROLLED_BACK), (CommandKind.STOP, Outcome.STOPPED)]
)
@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_step_that_the_cluster_would_never_end_is_cancelled(
    turn: CommandKind, outcome: Outcome, strategy: Strategy
) -> None:
    """Kafka 4.3.1 and 4.4.0 go on adding what another target drops, and the reassignment never ends."""
    yard = Yard({"t": [(3, 2)]})
    yard.strands = True
    rig = Rig(yard)
    rig.submit(("t", 0, (1, 4)), options=ExecutionOptions(strategy=strategy))
    until(rig, lambda: bool(yard.partitions[T0].adding), 200, "no step is under way")
    found = yard.partitions[T0]
    found.isr = tuple(broker for broker in found.isr if broker not in found.adding)
    rig.command(turn)
    rig.settle(catching_up=False)
    assert (found.replicas, found.adding, found.removing) == ((3, 2), (), ())
    assert rig.outcomes() == {T0: outcome}


def stopped_amid(number: int, kill: Replicas, *, original: Replicas = (1, 2), target: Replicas = (3, 4)) -> Rig:
    """A move that is stopped when a step of it has begun and these brokers have died."""
    rig = planned({"t": [original]}, ("t", 0, target))

    def begun() -> bool:
        rig.yard.catch_up(T0)
        return any(isinstance(entry.record, StepBegun) and entry.record.number == number for entry in rig.journal)

    until(rig, begun, 800, "the step was not begun")
    for broker in kill:
        rig.yard.kill(broker)
    rig.command(CommandKind.STOP)
    rig.settle(catching_up=False)
    return rig


def reason_of(rig: Rig) -> str:
    return next(entry.record.reason for entry in rig.journal if isinstance(entry.record, MoveClosed))


def test_a_stop_leaves_no_addition_that_died_after_its_step_where_the_originals_are_whole() -> None:
    rig = stopped_amid(2, kill=(3,))
    assert (rig.outcomes(), rig.yard.partitions[T0].replicas) == ({T0: Outcome.STOPPED}, (1, 2))
    assert reason_of(rig) == "stopped; what was in sync stays"
    assert stopped_amid(2, kill=()).yard.partitions[T0].replicas == (1, 2, 3), "it is in sync"


def test_a_stop_keeps_an_addition_that_died_where_an_original_is_gone_or_dead_and_says_so() -> None:
    dead = stopped_amid(2, kill=(2, 3))
    assert (dead.outcomes(), dead.yard.partitions[T0].replicas) == ({T0: Outcome.STOPPED}, (1, 2, 3))
    assert reason_of(dead) == "stopped where it stands; broker 3 stays, although out of sync"
    gone = stopped_amid(3, kill=(4,), original=(1, 2, 3), target=(4, 5, 6))
    assert gone.yard.partitions[T0].replicas == (1, 3, 4, 5)
    assert reason_of(gone) == "stopped where it stands; broker 4 stays, although out of sync"


def test_a_plan_of_unknown_topics_is_answered() -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    token = rig.submit(("never", 0, ()))
    rig.settle(rounds=30)
    reply = rig.replies[token]
    assert isinstance(reply, PlanReply)
    assert "no topic never" in str(reply.error)


def test_questions_without_an_answer_are_asked_again_after_a_pause() -> None:
    rig = planned({"t": [(1, 2)], "u": [(1, 2)]}, ("t", 0, (3, 2)), ("u", 0, (3, 2)))
    asked = 0
    for _turn in range(40):
        while rig.pending:
            rig.deliver(lost=True)
            asked += 1
            assert asked < 200, "each failure asks more than it answers"
        rig.pass_time(250)
    assert asked <= 40


def test_a_plan_is_judged_by_the_sizes_that_it_asked_for() -> None:
    rig = planned({"t": [(1, 2)], "u": [(4, 5)]}, ("t", 0, (3, 2)))
    until(rig, lambda: _asks_for_sizes(rig) == 1 and bool(rig.core.state.stepping()), 400, "a copy's size is not read")
    token = rig.submit(("u", 0, (4, 6)))
    while len(rig.pending) > _asks_for_sizes(rig):
        rig.deliver(next(i for i, each in enumerate(rig.pending) if not isinstance(each, ObserveLogDirs)))
    assert _asks_for_sizes(rig) == 1  # The copy's sizes are still asked for, and the plan's not yet.
    until(rig, lambda: token in rig.replies, 40, "the plan is not answered")
    assert rig.core.state.moves[TopicPartition("u", 0)].size_bytes == SIZE


def _asks_for_sizes(rig: Rig) -> int:
    return sum(isinstance(each, ObserveLogDirs) for each in rig.pending)
