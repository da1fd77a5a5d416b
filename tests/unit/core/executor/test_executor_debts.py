"""Each execution is on its own, and throttles that it owes to a broker that is down are kept apart (decision 0205)."""

from __future__ import annotations

from apache_yard import Rig, Yard

from shunter.core.executor import events as ev
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.ready import CommandReply
from shunter.core.executor.throttling.debts import told_way_out
from shunter.model.execution import Command, CommandKind, ExecutionClosed, ExecutionOptions, Outcome, ThrottleKey
from shunter.model.partition import TopicPartition
from shunter.views.execution import view_execution

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
THROTTLED = ExecutionOptions(throttle=1_000)
RATE_OF_6 = ThrottleKey("broker", "6", "follower.replication.throttled.rate")


def closed(rig: Rig) -> list[str]:
    return [entry.record.summary for entry in rig.journal if isinstance(entry.record, ExecutionClosed)]


def left_with_a_dead_broker(yard: Yard) -> Rig:
    """A rig in which broker 6 dies in the middle and stays dead, and the move is stopped."""
    rig = Rig(yard)
    rig.submit(("t", 0, (6, 2, 3)), options=THROTTLED)
    rig.settle(catching_up=False, rounds=40)
    assert rig.asked
    yard.kill(6)
    rig.settle(catching_up=False, rounds=40)
    rig.command(CommandKind.STOP)
    rig.settle()
    assert rig.finish is not None
    return rig


def test_an_execution_ends_without_a_dead_broker_and_says_what_it_owes() -> None:
    rig = left_with_a_dead_broker(Yard({"t": [(1, 2, 3), (1, 2, 3)]}))
    assert rig.outcomes() == {T0: Outcome.STOPPED}
    assert closed(rig) == ["1 stopped"]
    assert not rig.core.state.running
    (told,) = [notice for notice in rig.notices if notice.kind == "throttles-owed"]
    assert told.about == "broker 6"
    assert "shunter throttles forget --broker 6" in told.text
    assert view_execution(rig.core.state, Meter(), None, rig.now_ms).owed == "broker 6"
    assert set(rig.yard.settings) == {RATE_OF_6, RATE_OF_6._replace(setting="leader.replication.throttled.rate")}


def test_resume_is_no_way_out_while_an_executor_is_at_work() -> None:
    """`shunter resume` would be refused, since nothing is under way; the throttles are given back without it."""
    assert "shunter resume" in told_way_out([RATE_OF_6])
    driven = told_way_out([RATE_OF_6], driven=True)
    assert "shunter resume" not in driven
    assert "gives them back" in driven
    assert "shunter throttles forget --broker 6" in driven


def test_throttles_of_a_broker_that_is_up_are_not_to_be_struck_off() -> None:
    """An outsider's find: "… if that never comes back" of a broker that was up."""
    assert told_way_out([RATE_OF_6], driven=True, live={6}) == "the executor's next turn gives them back"
    assert told_way_out([RATE_OF_6], live={6}).startswith("the executor's next turn gives them back: `shunter resume`")
    both = told_way_out([RATE_OF_6, RATE_OF_6._replace(name="5")], live={5})
    assert "forget --broker 6 strikes" in both.replace("`", "")


def test_the_next_plan_is_an_execution_of_its_own_and_waits_for_nobody() -> None:
    rig = left_with_a_dead_broker(Yard({"t": [(1, 2, 3), (1, 2, 3)]}))
    rig.start()
    began_ms = rig.now_ms
    rig.submit(("t", 1, (4, 2, 3)), options=THROTTLED)
    rig.settle()
    assert rig.finish is not None
    assert rig.finish.outcomes == ((Outcome.DONE, 1),), "its counts are those of its own moves"
    assert rig.outcomes() == {T1: Outcome.DONE}
    assert rig.now_ms - began_ms < 30_000
    assert closed(rig) == ["1 stopped", "1 done"]


def test_a_plan_that_comes_while_throttles_are_given_back_begins_an_execution_of_its_own() -> None:
    yard = Yard({"t": [(1, 2, 3), (1, 2, 3)]})
    rig = Rig(yard)
    rig.submit(("t", 0, (6, 2, 3)), options=THROTTLED)
    rig.settle(catching_up=False, rounds=40)
    yard.kill(6)
    rig.settle(catching_up=False, rounds=30)
    rig.command(CommandKind.STOP)
    rig.settle(rounds=20)
    assert rig.finish is None, "broker 6 may be starting again"
    assert rig.core.state.running
    rig.submit(("t", 1, (4, 2, 3)))
    rig.settle()
    assert rig.outcomes() == {T1: Outcome.DONE}
    assert rig.core.state.options.throttle is None, "it inherits nothing"
    assert closed(rig) == ["1 stopped", "1 done"]


def test_a_debt_is_paid_when_the_broker_is_back_though_nothing_moves() -> None:
    rig = left_with_a_dead_broker(Yard({"t": [(1, 2, 3), (1, 2, 3)]}))
    rig.yard.revive(6)
    rig.start()
    rig.settle()
    assert rig.finish is not None
    assert rig.yard.settings == {}
    assert rig.core.state.throttles == {}
    assert not rig.core.worked


def test_a_debt_is_forgotten_at_an_operators_word_but_not_of_a_broker_that_is_up() -> None:
    rig = left_with_a_dead_broker(Yard({"t": [(1, 2, 3), (1, 2, 3)]}))
    for broker, accepted, told in ((5, False, "is up"), (9, False, "no throttle is owed"), (6, True, "forgotten")):
        rig.tell(ev.CommandReceived(Command(CommandKind.FORGET, brokers=(broker,)), 100 + broker))
        reply = rig.replies[100 + broker]
        assert isinstance(reply, CommandReply)
        assert (reply.accepted, told in reply.text) == (accepted, True), reply
    assert rig.core.state.throttles == {}
    rig.yard.revive(6)
    rig.start()
    rig.settle()
    assert RATE_OF_6 in rig.yard.settings, "it was struck off"
