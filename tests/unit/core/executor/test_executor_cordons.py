"""Somebody cordons a broker during an execution: Kafka 4.4 takes no target that names it (KIP-1066, KAFKA-20832)."""

from __future__ import annotations

import pytest
from apache_yard import Rig, Yard, until, until_asked

from shunter.core.executor.apply import apply
from shunter.core.executor.choice import Begin, choose
from shunter.core.executor.ending import when_it_ends
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.waits import WaitKind
from shunter.model.execution import (
    CommandKind,
    Direction,
    ExecutionOptions,
    ObservedPartition,
    Outcome,
    StepDropped,
    ThrottleRestored,
)
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution

T0 = TopicPartition("t", 0)
LIFTS_4 = "`kafka-configs --alter --entity-type brokers --entity-name 4 --delete-config cordoned.log.dirs` lifts that"


def stuck_row(rig: Rig) -> str:
    (row,) = view_execution(rig.core.state, Meter(), None, rig.now_ms).moves
    return row.stuck


def refused(rig: Rig) -> int:
    return sum(notice.kind == "step-refused" for notice in rig.notices)


@pytest.mark.parametrize("looked_lately", [True, False])
def test_a_move_whose_next_step_names_a_cordoned_broker_waits_and_goes_on(looked_lately: bool) -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (3, 4)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the first step does not run")
    rig.yard.cordon(4)
    if not looked_lately:
        rig.settle(catching_up=False, rounds=200)
    rig.settle(rounds=600)
    assert rig.asked[0] == (T0, (1, 2, 3))
    assert len(rig.asked) == 1 + refused(rig)
    assert refused(rig) == looked_lately, "a look from before the cordon does not show it"
    waits = rig.core.state.moves[T0].waits
    assert (waits.kind, waits.text) == (
        WaitKind.CORDON,
        "waits: broker 4 is cordoned, and Kafka takes no target that names such a broker",
    )
    why = "it can't end while broker 4 has its log dirs cordoned: Kafka takes no target that names it"
    assert stuck_row(rig) == f"{why}; {LIFTS_4}; `shunter rollback` or `shunter stop` ends it"
    held = when_it_ends(rig.core.state, Meter(), rig.now_ms, {}).held
    assert held == f"no end: 1 stuck: {stuck_row(rig)}"
    assert rig.finish is None
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.yard.partitions[T0].replicas == (3, 4)


@pytest.mark.parametrize(
    ("kind", "outcome", "left"),
    [(CommandKind.ROLL_BACK, Outcome.ROLLED_BACK, (1, 2)), (CommandKind.STOP, Outcome.STOPPED, (1, 2, 3))],
)
def test_the_ways_out_end_a_move_that_a_cordon_holds(kind: CommandKind, outcome: Outcome, left: Replicas) -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (3, 4)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the first step does not run")
    rig.yard.cordon(4)
    rig.settle(rounds=100)
    rig.command(kind)
    rig.settle()
    assert (rig.outcomes(), rig.yard.partitions[T0].replicas) == ({T0: outcome}, left)


def test_a_move_that_only_takes_a_replica_from_a_cordoned_broker_goes_on_in_one_step() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.submit(("t", 0, (4, 5, 3)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the first step does not run")
    assert rig.asked == [(T0, (1, 2, 3, 4))]
    rig.yard.cordon(2)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.asked[-1] == (T0, (4, 5, 3))
    move = Move(T0, None, (1, 2), (3, 4), Strategy.INCREMENTAL, 1, (), False, 0, current=(1, 2))
    seen, live = ObservedPartition((1, 2), (1, 2), 1), frozenset({1, 2, 3, 4})
    stepwise, whole = (choose(move, seen, live, 1, closed=frozenset(closed)) for closed in ((), (1,)))
    assert isinstance(stepwise, Begin)
    assert isinstance(whole, Begin)
    assert (stepwise.after, whole.after) == ((1, 2, 3), (3, 4))


def test_another_order_of_replicas_waits_as_well() -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (2, 1)))
    until(rig, lambda: bool(rig.core.state.moves), 80, "the plan was not taken on")
    rig.yard.cordon(1)
    rig.settle(rounds=600)
    assert "broker 1 has its log dirs cordoned" in stuck_row(rig)
    assert refused(rig) == len(rig.asked) <= 1
    rig.crash()
    rig.settle(rounds=100)
    assert refused(rig) <= 2, "another process knows no cordon at first"
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_a_cancel_loses_the_order_and_waits_for_the_cordon_to_restore_it() -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (3, 2)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the step does not run")
    rig.settle(catching_up=False, rounds=20)
    rig.yard.cordon(2)
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False, rounds=600)
    assert not rig.yard.ongoing()
    assert rig.yard.partitions[T0].replicas == (2, 1)
    assert "broker 2 has its log dirs cordoned" in stuck_row(rig)
    assert rig.core.state.moves[T0].order == (1, 2), "a step that was refused is not forgotten"
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert rig.yard.partitions[T0].replicas == (1, 2)


def test_a_redirection_that_a_cordon_prevents_is_a_cancel() -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (3, 2)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the step does not run")
    rig.yard.cordon(2)  # Nobody has looked yet, so the rollback asks for another target.
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False, rounds=300)
    assert not rig.yard.ongoing()
    assert [target for _tp, target in rig.asked[:3]] == [(3, 2), (1, 2), None]
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}


def test_a_rollback_waits_until_the_executions_own_cordon_is_given_back() -> None:
    rig = Rig(Yard({"t": [(1, 2)], "u": [(1, 5)]}))
    rig.submit(("t", 0, (1, 3)))
    until_asked(rig)
    rig.submit(("u", 0, (6, 5)), options=ExecutionOptions(cordons=((2, "*"),)))
    rig.settle(catching_up=False, rounds=100)
    rig.command(CommandKind.ROLL_BACK, T0)
    rig.settle()
    assert rig.outcomes()[T0] is Outcome.ROLLED_BACK
    assert rig.yard.partitions[T0].replicas == (1, 2)


def test_a_forward_move_that_an_own_cordon_holds_names_undrain() -> None:
    rig = Rig(Yard({"t": [(1, 2)], "u": [(4, 5)]}))
    rig.submit(("t", 0, (3, 4)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the first step does not run")
    rig.submit(("u", 0, (6, 5)), options=ExecutionOptions(cordons=((4, "*"),)))
    rig.settle(rounds=300)
    rows = {row.partition: row.stuck for row in view_execution(rig.core.state, Meter(), None, rig.now_ms).moves}
    assert "; `shunter undrain 4` lifts that; `shunter rollback` or `shunter stop` ends it" in rows["t-0"]
    assert refused(rig) == 0
    rig.command(CommandKind.UNCORDON, brokers=(4,))
    rig.settle()
    assert set(rig.outcomes().values()) == {Outcome.DONE}


def test_a_journal_with_a_cordon_that_was_given_back_closes_no_broker() -> None:
    """An outsider's find: after `drain --cordon` and `undrain`, every dry run that named the broker was refused."""
    rig = Rig(Yard({"u": [(4, 5)]}))
    rig.submit(("u", 0, (6, 5)), options=ExecutionOptions(cordons=((4, "*"),)))
    rig.settle(rounds=300)
    rig.command(CommandKind.UNCORDON, brokers=(4,))
    rig.settle()
    assert any(isinstance(entry.record, ThrottleRestored) for entry in rig.journal)
    state = ExecutorState()
    for entry in rig.journal:
        apply(state, entry)
    assert state.closed() == frozenset()


def test_a_refused_step_is_dropped_once_and_numbered_on() -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (3, 2)))
    until(rig, lambda: bool(rig.core.state.moves), 80, "the plan was not taken on")
    rig.yard.cordon(3)
    rig.settle(rounds=300)
    assert sum(isinstance(entry.record, StepDropped) for entry in rig.journal) == 1
    assert rig.core.state.moves[T0].direction is Direction.FORWARD
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
