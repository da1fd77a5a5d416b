"""Who carries a verb out: the table of decision 0214, row by row."""

from __future__ import annotations

import pytest

from shunter.core.doers import (
    Doer,
    DoerRefused,
    Ground,
    Wanted,
    asked_for,
    foreign_to_controller,
    who_begins,
    who_turns,
)
from shunter.model.partition import TopicPartition

A0, A1, B0 = (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0))
BOTH = Ground(shunters=True, driver="process 7", journalled=frozenset({A0}), controlled=frozenset({A1, B0}))


@pytest.mark.parametrize(
    ("ground", "doer"),
    [
        (Ground(shunters=False), Doer.EXECUTOR),
        (Ground(shunters=True), Doer.CONTROLLER),
        (Ground(shunters=True, controlled=frozenset({A0})), Doer.CONTROLLER),
        (Ground(shunters=True, driver="process 7"), Doer.EXECUTOR),
        (Ground(shunters=True, journalled=frozenset({A0})), Doer.EXECUTOR),
    ],
)
def test_a_plan_goes_where_moves_are_journalled_already_and_else_to_the_controller(ground: Ground, doer: Doer) -> None:
    assert who_begins(ground).doer is doer


@pytest.mark.parametrize(
    ("wanted", "doer"),
    [
        (Wanted(), Doer.EXECUTOR),
        (Wanted(partitions=(A0,)), Doer.EXECUTOR),
        (Wanted(partitions=(A1, B0)), Doer.CONTROLLER),
        (Wanted(topics=("a",)), Doer.EXECUTOR),
        (Wanted(topics=("b",)), Doer.CONTROLLER),
        (Wanted(planned=(A0, B0)), Doer.EXECUTOR),
    ],
)
def test_a_move_is_turned_by_who_moves_it(wanted: Wanted, doer: Doer) -> None:
    assert who_turns(BOTH, wanted).doer is doer
    assert who_turns(BOTH._replace(shunters=False), wanted).doer is Doer.EXECUTOR


def test_what_goes_on_beside_is_told() -> None:
    assert who_turns(BOTH, Wanted()).why == (
        "its journal has 1 open move; 2 moves of the controller go on beside them: --by controller"
    )


def test_partitions_of_both_are_turned_by_nobody() -> None:
    with pytest.raises(DoerRefused, match="a-0 is moved by the executor, a-1, b-0 by the controller"):
        who_turns(BOTH, Wanted(partitions=(A0, A1, B0)))


def test_the_controller_is_not_asked_to_turn_a_step_of_the_executor() -> None:
    assert foreign_to_controller(BOTH, Wanted()) == [A0]
    assert foreign_to_controller(BOTH, Wanted(topics=("b",))) == []
    with pytest.raises(DoerRefused, match="a-0: moved by the executor"):
        foreign_to_controller(BOTH, Wanted(partitions=(A0,)))


def test_another_controller_is_told_apart_from_shunters() -> None:
    with pytest.raises(DoerRefused, match="the controller is not Shunter's"):
        asked_for(Ground(shunters=False), Doer.CONTROLLER)
    assert asked_for(BOTH, Doer.CONTROLLER).doer is Doer.CONTROLLER
