"""The steps that an open move has before it: the executor's own choices, played forward."""

from __future__ import annotations

from apache_yard import Rig, Yard
from hypothesis import given
from hypothesis import strategies as st

from shunter.core.executor.choice import ahead
from shunter.core.executor.state import Move
from shunter.model.execution import CommandKind, Direction, StepFinished
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

T0 = TopicPartition("t", 0)
replicas = st.lists(st.integers(1, 7), min_size=1, max_size=4, unique=True).map(tuple)


def a_move(original: tuple[int, ...], target: tuple[int, ...]) -> Move:
    return Move(T0, None, original, target, Strategy.INCREMENTAL, 1, (), False, 0, original)


def test_what_is_told_ahead_is_what_the_executor_does() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.submit(("t", 0, (4, 5, 3)))
    told, waits = ahead(a_move((1, 2, 3), (4, 5, 3)), (1, 2, 3), frozenset(range(1, 7)))
    rig.settle()
    done = [entry.record.replicas for entry in rig.journal if isinstance(entry.record, StepFinished)]
    assert ([step.after for step in told], waits) == (done, None)
    assert done[-1] == (4, 5, 3)


def test_a_dead_target_is_waited_for() -> None:
    steps, waits = ahead(a_move((1, 2), (1, 5)), (1, 2), frozenset({1, 2}))
    assert steps == ()
    assert waits is not None
    assert waits.brokers == (5,)


def test_a_rollback_and_a_stop() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.submit(("t", 0, (4, 5, 6)))
    rig.settle(catching_up=False, rounds=12)
    rig.yard.catch_up(T0)
    rig.settle(catching_up=False, rounds=30)
    rig.command(CommandKind.ROLL_BACK)
    move = rig.core.state.moves[T0]
    steps, waits = ahead(move, move.current, frozenset(range(1, 7)))
    assert (steps[-1].after if steps else move.current, waits) == ((1, 2, 3), None)
    move.direction = Direction.STOP
    assert ahead(move, (1, 2, 4), frozenset(range(1, 7))) == ((), None)


def test_nobody_is_alive() -> None:
    steps, waits = ahead(a_move((1, 2), (3, 4)), (1, 2), frozenset())
    assert steps == ()
    assert waits


@given(replicas, replicas, replicas, st.frozensets(st.integers(1, 7)), st.booleans(), st.sampled_from(Direction))
def test_it_ends_whoever_is_dead(
    original: tuple[int, ...],
    target: tuple[int, ...],
    now: tuple[int, ...],
    live: frozenset[int],
    relaxed: bool,
    direction: Direction,
) -> None:
    move = a_move(original, target)
    move.relaxed, move.direction = relaxed, direction
    steps, _waits = ahead(move, now, live)
    assert len(steps) <= 20
