"""Past executions and the way back from one, as the journal has them."""

from __future__ import annotations

from apache_yard import Rig, Yard

from shunter.cli.execution.history import told_execution
from shunter.core.executor.apply import apply
from shunter.core.executor.history import executions, reverse
from shunter.core.executor.state import ExecutorState, Throttle
from shunter.core.throttles import CORDONED_LOG_DIRS
from shunter.model.execution import (
    CommandKind,
    ExecutionOptions,
    JournalEntry,
    MoveAccepted,
    MoveOrder,
    Outcome,
    PlanAccepted,
    ThrottleKey,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def test_each_plan_that_finds_nothing_under_way_begins_an_execution() -> None:
    rig = Rig(Yard({"t": [(1, 2), (1, 2)]}))
    rig.submit(("t", 0, (4, 2)))
    rig.settle(catching_up=False, rounds=12)
    rig.submit(("t", 1, (1, 5)))
    rig.settle()
    rig.start()
    rig.submit(("t", 0, (6, 2)))
    rig.settle(catching_up=False, rounds=12)
    first, second = executions(rig.journal)
    assert (first.number, len(first.plans), sorted(first.moves)) == (1, 2, [T0, T1]), "the second plan joined"
    assert first.ended_at_ms is not None
    assert (second.number, second.ended_at_ms, sorted(second.moves)) == (2, None, [T0])
    rig.command(CommandKind.ROLL_BACK)
    rig.settle()
    _first, ended = executions(rig.journal)
    assert [order.kind for order in ended.turned] == [CommandKind.ROLL_BACK]
    assert ended.moves[T0].outcome is Outcome.ROLLED_BACK
    assert reverse(ended).moves == (), "what was rolled back is where it was"


def test_the_reverse_goes_from_where_it_ended_back_to_where_it_was_in_its_order() -> None:
    rig = Rig(Yard({"t": [(1, 2), (2, 1)]}))
    rig.submit(("t", 0, (4, 5)), ("t", 1, (2, 4)))
    rig.settle()
    (done,) = executions(rig.journal)
    found = reverse(done)
    assert found.moves == (
        MoveOrder(T0, (1, 2), Strategy.INCREMENTAL, planned_from=(4, 5)),
        MoveOrder(T1, (2, 1), Strategy.INCREMENTAL, planned_from=(2, 4)),
    )
    assert found.told == ()
    size = done.moves[T0].size_bytes
    assert found.copied_bytes == 3 * size > 0


def test_what_was_stopped_on_its_way_goes_back_and_what_others_changed_stays() -> None:
    rig = Rig(Yard({"t": [(1, 2), (1, 2)]}))
    rig.submit(("t", 0, (4, 5)), ("t", 1, (4, 2)))
    rig.settle(catching_up=False, rounds=12)
    rig.yard.catch_up(T0)
    rig.settle(catching_up=False, rounds=30)
    rig.yard.alter(T1, None)
    rig.settle(catching_up=False)
    rig.command(CommandKind.STOP)
    rig.settle()
    (stopped,) = executions(rig.journal)
    assert {tp: move.outcome for tp, move in stopped.moves.items()} == {T0: Outcome.STOPPED, T1: Outcome.SUPERSEDED}
    found = reverse(stopped)
    assert [(order.tp, order.target, order.planned_from) for order in found.moves] == [
        (T0, (1, 2), stopped.moves[T0].current)
    ]
    assert stopped.moves[T0].current != (1, 2)
    assert found.told == ("t-1 stays: somebody else cancelled the step under way",)


def test_every_throttle_that_was_asked_for_is_told() -> None:
    rig = Rig(Yard({"t": [(1, 2), (1, 2)]}))
    rig.submit(("t", 0, (4, 2)), options=ExecutionOptions(throttle=5_000_000))
    rig.settle(catching_up=False, rounds=12)
    rig.command(CommandKind.LIMIT, rate=2_000_000)
    rig.command(CommandKind.LIMIT, rate=2_000_000)
    rig.command(CommandKind.LIMIT)
    rig.settle(catching_up=False, rounds=12)
    rig.submit(("t", 1, (1, 5)), options=ExecutionOptions(throttle=1_000_000))
    rig.settle(catching_up=False, rounds=12)
    (found,) = executions(rig.journal)
    assert found.throttles == [5_000_000, 2_000_000, None, 1_000_000]


def test_what_was_not_taken_on_of_a_plan_is_counted() -> None:
    """An outsider's find: an execution with a partition that it refused had "1 done" alone."""
    rig = Rig(Yard({"t": [(1, 2), (1, 2)]}))
    rig.submit(("t", 0, (1, 3)), ("t", 1, (1, 9)))
    rig.settle()
    (execution,) = executions(rig.journal)
    assert (execution.refused, rig.outcomes()) == (1, {T0: Outcome.DONE})
    assert "· 1 done, 1 not taken on ·" in told_execution(execution)


def test_the_reverse_goes_back_before_all_plans_that_joined_an_execution() -> None:
    """An outsider's find: a rebalance joined a drain, and `undo` stopped half-way."""
    rig = Rig(Yard({"t": [(1, 2), (1, 2)]}))
    rig.submit(("t", 0, (4, 2)), ("t", 1, (1, 5)))
    rig.settle(catching_up=False, rounds=12)
    rig.yard.catch_up(T0)
    rig.settle(catching_up=False, rounds=30)
    assert rig.core.state.moves[T0].outcome is Outcome.DONE
    rig.submit(("t", 0, (6, 2)))
    rig.settle()
    (joined,) = executions(rig.journal)
    assert [(move.tp, move.original, move.current) for move in joined.every_move if move.tp == T0] == [
        (T0, (1, 2), (4, 2)),
        (T0, (4, 2), (6, 2)),
    ]
    found = {order.tp: order for order in reverse(joined).moves}
    assert found[T0] == MoveOrder(T0, (1, 2), Strategy.INCREMENTAL, planned_from=(6, 2))
    assert found[T1].target == (1, 2)


def test_a_cordon_is_named_by_the_plan_that_asked_for_it_not_by_one_that_joined() -> None:
    state, options = ExecutorState(), ExecutionOptions(cordons=((5, "*"),))
    records = [
        PlanAccepted("drain", "c", options),
        MoveAccepted(T0, None, (1, 5), (1, 2), Strategy.INCREMENTAL, 1),
        PlanAccepted("rebalance", "c", options),
    ]
    for number, record in enumerate(records, start=1):
        apply(state, JournalEntry(number, number, "", record))
    state.throttles[ThrottleKey("broker", "5", CORDONED_LOG_DIRS)] = Throttle(None, "*", {"*"})
    assert state.cordoned() == {5: "drain"}
