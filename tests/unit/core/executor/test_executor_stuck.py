"""A move that can't end reports what it waits for and the way out, and the way out exists."""

from __future__ import annotations

from apache_yard import Rig, Yard

from shunter.core.executor.rates import Meter
from shunter.core.executor.ready import CommandReply
from shunter.model.execution import CommandKind, ExecutionOptions, Outcome
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution

T0 = TopicPartition("t", 0)


def told(rig: Rig, token: int) -> str:
    reply = rig.replies[token]
    assert isinstance(reply, CommandReply)
    assert reply.accepted
    return reply.text


def stuck_row(rig: Rig) -> str:
    (row,) = view_execution(rig.core.state, Meter(), None, rig.now_ms).moves
    return row.stuck


def test_relaxing_promises_nothing_that_a_dead_broker_of_the_target_prevents() -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (6, 2)))
    rig.settle(catching_up=False, rounds=40)
    assert stuck_row(rig) == ""
    rig.yard.kill(6)
    rig.settle(catching_up=False, rounds=40)
    answer = told(rig, rig.command(CommandKind.RELAX))
    assert "can't end without broker 6, which is down and part of its target" in answer
    assert "`shunter rollback` or `shunter stop` ends it" in answer
    assert "broker 6" in stuck_row(rig)


def test_a_stop_that_a_dead_original_holds_up_names_it_and_leaving_ends_it_at_once() -> None:
    yard = Yard({"t": [(1, 2)]})
    yard.min_isr["t"] = 2
    rig = Rig(yard)
    rig.submit(("t", 0, (3, 4)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE, throttle=1_000))
    rig.settle(catching_up=False, rounds=40)
    rig.yard.kill(2)
    rig.settle(catching_up=False, rounds=40)
    answer = told(rig, rig.command(CommandKind.STOP))
    assert "can't end without broker 2, which is down" in answer
    assert "only 1 of the replicas [1, 2] are live and in sync and 2 must be" in answer
    assert "`shunter stop --leave`" in answer
    rig.settle(catching_up=False, rounds=300)
    assert rig.finish is None
    assert "`shunter stop --leave`" in stuck_row(rig)
    asked = len(rig.asked)
    assert "left as it is" in told(rig, rig.command(CommandKind.LEAVE))
    rig.settle(catching_up=False)
    assert rig.finish is not None
    assert rig.outcomes() == {T0: Outcome.LEFT}
    assert len(rig.asked) == asked, "the cluster is told nothing more"
    assert rig.yard.partitions[T0].adding == (3, 4)
    owed = {key.name for key in rig.core.state.throttles}
    assert owed <= {"2"}, "throttles are given back, but for the dead broker's"
