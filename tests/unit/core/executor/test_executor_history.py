"""Executions one after the other: history, the way back from one, and throttles that one owes."""

from apache_yard import Rig, Yard, planned

from shunter.app.executor.history import counts_of
from shunter.cli.execution.history import told_execution
from shunter.core.executor import events as ev
from shunter.core.executor.apply import apply
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.history import executions, reverse
from shunter.core.executor.ready import CommandReply
from shunter.core.executor.state import ExecutorState, Throttle
from shunter.core.executor.throttling.debts import told_way_out
from shunter.core.throttles import CORDONED_LOG_DIRS
from shunter.model.execution import (
    Command,
    CommandKind,
    ExecutionClosed,
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
from shunter.views.execution import view_execution

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
THROTTLED = ExecutionOptions(throttle=1_000)
RATE_OF_6 = ThrottleKey("broker", "6", "follower.replication.throttled.rate")


def test_each_plan_that_finds_nothing_under_way_begins_an_execution() -> None:
    rig = planned({"t": [(1, 2), (1, 2)]}, ("t", 0, (4, 2)))
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
    assert " copied by steps that ended" in told_execution(ended), "a step that was cancelled had copied more"
    assert " copied ·" in f"{told_execution(first)} ·"


def test_the_reverse_goes_from_where_it_ended_back_to_where_it_was_in_its_order() -> None:
    rig = planned({"t": [(1, 2), (2, 1)]}, ("t", 0, (4, 5)), ("t", 1, (2, 4)))
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
    rig = planned({"t": [(1, 2), (1, 2)]}, ("t", 0, (4, 5)), ("t", 1, (4, 2)))
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
    rig = planned({"t": [(1, 2), (1, 2)]}, ("t", 0, (4, 2)), options=ExecutionOptions(throttle=5_000_000))
    rig.settle(catching_up=False, rounds=12)
    rig.command(CommandKind.LIMIT, rate=2_000_000)
    rig.command(CommandKind.LIMIT, rate=2_000_000)
    rig.command(CommandKind.LIMIT)
    rig.settle(catching_up=False, rounds=12)
    rig.submit(("t", 1, (1, 5)), options=ExecutionOptions(throttle=1_000_000))
    rig.settle(catching_up=False, rounds=12)
    (found,) = executions(rig.journal)
    assert found.throttles == [5_000_000, 2_000_000, None, 1_000_000]
    assert "· 2 plans that joined: `undo` takes all of them back ·" in told_execution(found)


def test_what_was_not_taken_on_of_a_plan_is_counted() -> None:
    """An outsider's find: an execution with a partition that it refused had "1 done" alone."""
    rig = planned({"t": [(1, 2), (1, 2)]}, ("t", 0, (1, 3)), ("t", 1, (1, 9)))
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
    view = view_execution(rig.core.state, Meter(), None, rig.now_ms)
    assert view.counts == counts_of(joined) == {"done": 3}, "moves, as `history --moves` lists them, and no partitions"
    rig.submit(("t", 1, (1, 6)))
    rig.settle()
    assert rig.core.state.earlier == [], "another execution"


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
    assert not rig.core.state.given_back.keys() & {RATE_OF_6}, (
        "what the broker shows is nobody's, and is not waited for"
    )
