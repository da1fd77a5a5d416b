"""The questions to the cluster, and the times at which they are asked again."""

from __future__ import annotations

from apache_yard import Rig, Yard

from shunter.core.executor.ready import PlanReply


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
