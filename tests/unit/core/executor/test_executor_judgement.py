"""A step that Shunter's controller lists while it waits for its turn is under way, and nobody else's."""

from __future__ import annotations

import pytest

from shunter.core.executor.judgement import Sight, sight
from shunter.core.executor.state import Step
from shunter.model.execution import ObservedPartition, OngoingReassignment
from shunter.model.partition import Replicas


def step(before: Replicas, after: Replicas) -> Step:
    return Step(1, before, after, "", cancels=False, begun_at_ms=0)


def seen(replicas: Replicas) -> ObservedPartition:
    return ObservedPartition(replicas, replicas, replicas[0])


@pytest.mark.parametrize(
    ("before", "after", "listed"),
    [
        ((3, 4), (3, 4, 2), OngoingReassignment((3, 4), (2,), ())),
        ((4, 3), (1, 3), OngoingReassignment((4, 3), (1,), (4,))),
        ((3, 4), (3, 4, 2), OngoingReassignment((3, 4, 2), (2,), ())),
    ],
)
def test_a_step_that_waits_for_its_turn_is_under_way(
    before: Replicas, after: Replicas, listed: OngoingReassignment
) -> None:
    assert sight(step(before, after), seen(before), listed) is Sight.RUNNING


def test_another_set_is_somebody_elses_also_while_it_waits() -> None:
    listed = OngoingReassignment((3, 4), (1,), ())
    assert sight(step((3, 4), (3, 4, 2)), seen((3, 4)), listed) is Sight.OTHER


def test_the_order_counts_once_it_is_written() -> None:
    listed = OngoingReassignment((3, 1, 4), (1,), (4,))
    assert sight(step((4, 3), (1, 3)), seen((3, 1, 4)), listed) is Sight.OTHER
