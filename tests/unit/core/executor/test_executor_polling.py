"""The questions to the cluster, and the times at which they are asked again."""

from __future__ import annotations

from apache_yard import SIZE, Rig, Yard, until

from shunter.core.executor.ready import ObserveLogDirs, PlanReply
from shunter.model.partition import TopicPartition


def test_a_plan_of_unknown_topics_is_answered() -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    token = rig.submit(("never", 0, ()))
    rig.settle(rounds=30)
    reply = rig.replies[token]
    assert isinstance(reply, PlanReply)
    assert "no topic never" in str(reply.error)


def test_questions_without_an_answer_are_asked_again_after_a_pause() -> None:
    rig = Rig(Yard({"t": [(1, 2)], "u": [(1, 2)]}))
    rig.submit(("t", 0, (3, 2)), ("u", 0, (3, 2)))
    asked = 0
    for _turn in range(40):
        while rig.pending:
            rig.deliver(lost=True)
            asked += 1
            assert asked < 200, "each failure asks more than it answers"
        rig.pass_time(250)
    assert asked <= 40


def test_a_plan_is_judged_by_the_sizes_that_it_asked_for() -> None:
    rig = Rig(Yard({"t": [(1, 2)], "u": [(4, 5)]}))
    rig.submit(("t", 0, (3, 2)))
    until(rig, lambda: _asks_for_sizes(rig) == 1 and bool(rig.core.state.stepping()), 400, "a copy's size is not read")
    token = rig.submit(("u", 0, (4, 6)))
    while len(rig.pending) > _asks_for_sizes(rig):
        rig.deliver(next(i for i, each in enumerate(rig.pending) if not isinstance(each, ObserveLogDirs)))
    assert _asks_for_sizes(rig) == 1  # The copy's sizes are still asked for, and the plan's not yet.
    until(rig, lambda: token in rig.replies, 40, "the plan is not answered")
    assert rig.core.state.moves[TopicPartition("u", 0)].size_bytes == SIZE


def _asks_for_sizes(rig: Rig) -> int:
    return sum(isinstance(each, ObserveLogDirs) for each in rig.pending)
