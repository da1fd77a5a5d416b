"""The controller redesign, "Long Running Process Handling": the table's partition t1p1, its scenarios and step 3."""

import pytest

from shunter.core.reassignment import Situation, Step, Waiting, WaitReason, next_step, roll_back, supersede
from shunter.model.partition import ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy

ORIGINAL, TARGET = (0, 1), (1, 2)


def begun(isr: Replicas, *, leader: int, dead: Replicas = ()) -> Situation:
    assignment = ReplicaAssignment((1, 2, 0), (2,), (0,))
    return Situation(assignment, isr, leader, frozenset(range(5)) - frozenset(dead), min_isr=1)


def decide(now: Situation, *, relaxed: bool = False) -> Step | Waiting | None:
    return next_step(now, original=ORIGINAL, target=TARGET, strategy=Strategy.ALL_AT_ONCE, relaxed=relaxed)


def test_the_target_broker_dies():
    """ "2.A … we may choose to remove broker 2 from replica list or we can just stop listening to ISR change" —
    departs: docs/decisions/0102-floor.md (the move waits, names the broker, and can be rolled back at once)
    """
    now = begun((0, 1), leader=0, dead=(2,))
    assert decide(now) == Waiting(WaitReason.DEAD, (2,))
    assert roll_back(now, original=ORIGINAL) == Step((2,), (), ReplicaAssignment(ORIGINAL), (0, 1), 0, final=True)


@pytest.mark.parametrize("strategy", Strategy)
def test_a_kept_broker_dies(strategy):
    """ "2.B … keep broker 2 in the replica list, and not remove broker 0 from isr after broker 2 enters isr so we do
    not expose to under replicated partition"
    """
    now = begun((0, 2), leader=0, dead=(1,))
    decided = next_step(now, original=ORIGINAL, target=TARGET, strategy=strategy)
    assert decided == Waiting(WaitReason.FLOOR, (1,), have=1, need=2)
    back = begun((0, 2, 1), leader=0)
    finished = next_step(back, original=ORIGINAL, target=TARGET, strategy=strategy)
    assert isinstance(finished, Step)
    assert finished.final


def test_another_reassignment_overrides_the_first():
    """ "if the reassigned topic partition in step 1 and step 3 are the same, the second … overrides the first one" """
    step = supersede(
        begun((0, 1), leader=0), original=ORIGINAL, new_target=(1, 3), top=2, strategy=Strategy.ALL_AT_ONCE
    )
    assert step.dropped == (2,)
    assert step.assignment == ReplicaAssignment((1, 3, 0), (3,), (0,))


def test_what_has_not_started_is_forgotten_without_a_trace():
    """ "we want to support cancellation of partition reassignment for those partitions whose reassignment hasn't
    started yet"
    """
    idle = Situation(ReplicaAssignment(ORIGINAL), ORIGINAL, 0, frozenset(range(5)), min_isr=1)
    assert roll_back(idle, original=ORIGINAL) is None
