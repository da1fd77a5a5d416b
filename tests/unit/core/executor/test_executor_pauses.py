"""A pause holds exactly the paused moves, whatever else moves (decision 0206)."""

from dataclasses import replace

import pytest
from apache_yard import Rig, Yard, planned

from shunter.core.executor.ready import CommandReply
from shunter.core.executor.throttling.pausing import unheld
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE
from shunter.errors import ErrorCode
from shunter.model.execution import CommandKind, ExecutionOptions, Outcome, ThrottleKey
from shunter.model.partition import TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
NEXT_TO_NOTHING = str(ExecutionOptions().pause_rate)
THROTTLED = ExecutionOptions(throttle=5_000_000)


def rate(broker: int, setting: str = FOLLOWER_RATE) -> ThrottleKey:
    return ThrottleKey("broker", str(broker), setting)


def copying(*targets: tuple[int, ...], options: ExecutionOptions) -> Rig:
    """A rig with one move for each target, all of them copying."""
    rig = planned(
        {"t": [(1, 2)] * len(targets)},
        *[("t", number, target) for number, target in enumerate(targets)],
        options=options,
    )
    rig.settle(catching_up=False, rounds=40)
    assert len(rig.asked) == len(targets)
    return rig


def answer(rig: Rig, token: int) -> str:
    reply = rig.replies[token]
    assert isinstance(reply, CommandReply)
    assert reply.accepted, reply.text
    return reply.text


def test_one_paused_copy_is_held_at_its_own_broker_and_the_other_runs_as_fast_as_before() -> None:
    rig = copying((3, 1), (4, 1), options=THROTTLED)
    assert "cancelled" not in answer(rig, rig.command(CommandKind.PAUSE, T0))
    rig.settle(catching_up=False, rounds=20)
    assert rig.yard.settings[rate(3)] == NEXT_TO_NOTHING
    assert rig.yard.settings[rate(4)] == "5000000"
    assert rig.yard.settings[rate(1, LEADER_RATE)] == "5000000", "whoever sends to both is not slowed down"
    assert rig.yard.partitions[T0].adding == (3,), "what is copied is kept"
    told = {str(move.tp): move.waits.text for move in rig.core.state.open_moves()}
    assert told == {"t-0": "is paused: next to nothing is copied to broker 3", "t-1": "broker 4 catches up"}
    rig.command(CommandKind.RESUME, T0)
    rig.settle(catching_up=False, rounds=20)
    assert rig.yard.settings[rate(3)] == "5000000"


def test_a_pause_tells_what_it_pauses_and_what_was_paused_already() -> None:
    rig = copying((3, 1), (4, 1), (5, 1), options=THROTTLED)
    assert answer(rig, rig.command(CommandKind.PAUSE, T0)).startswith(
        "1 move paused. No step of a paused move begins, and other moves go on; paused copies slow down"
    )
    assert answer(rig, rig.command(CommandKind.PAUSE)).startswith(
        "2 moves paused; 1 was paused already. No step begins; "
    )
    assert answer(rig, rig.command(CommandKind.PAUSE)).startswith("3 moves were paused already. No step begins; ")


def test_a_pause_of_a_move_that_copies_nothing_slows_nothing_down() -> None:
    """Found by hand: with one of five moves paused by name, the answer was that of the kill switch."""
    rig = planned({"t": [(1, 2)] * 2}, ("t", 0, (3, 1)), ("t", 1, (4, 1)), options=replace(THROTTLED, max_concurrent=1))
    rig.settle(catching_up=False, rounds=40)
    told = answer(rig, rig.command(CommandKind.PAUSE, T1))
    assert told == "1 move paused. No step of a paused move begins, and other moves go on"


def test_an_order_tells_which_of_the_moves_it_names_had_ended_before() -> None:
    rig = copying((3, 1), (4, 1), options=THROTTLED)
    rig.command(CommandKind.PAUSE, T1)
    rig.settle()
    assert not rig.core.state.moves[T0].open
    told = answer(rig, rig.command(CommandKind.STOP, T0, T1))
    assert told.endswith("; ended before, and left alone: t-0")
    assert "t-1" not in told


def test_an_order_to_moves_that_have_ended_does_not_say_that_nothing_is_under_way() -> None:
    rig = copying((3, 1), (4, 1), options=THROTTLED)
    rig.command(CommandKind.PAUSE, T1)
    rig.settle()
    reply = rig.replies[rig.command(CommandKind.STOP, T0)]
    assert isinstance(reply, CommandReply)
    assert reply.text == "nothing that was named is under way: all of it has ended; 1 other move is open"


def test_relaxing_tells_what_it_relaxes_and_what_was_relaxed_already() -> None:
    rig = copying((3, 1), (4, 1), (5, 1), options=THROTTLED)
    assert answer(rig, rig.command(CommandKind.RELAX, T0)) == "the floor of 1 move is relaxed"
    assert answer(rig, rig.command(CommandKind.RELAX)) == "the floor of 2 moves is relaxed; 1 was relaxed already"
    assert answer(rig, rig.command(CommandKind.RELAX)) == "3 moves were relaxed already"


def test_relaxing_tells_what_waits_all_the_same() -> None:
    """An outsider's find: "the floor of 1 move is relaxed", and nothing changed: min.insync.replicas holds."""
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.min_isr["t"] = 2
    rig.yard.partitions[T0].isr = (1, 3)
    rig.submit(("t", 0, (1, 2)))
    rig.settle(catching_up=False, rounds=20)
    told = answer(rig, rig.command(CommandKind.RELAX))
    assert told.startswith(
        "the floor of 1 move is relaxed. But 1 move still can't go on, t-0: it waits for broker 2 to be live and in sync"
    )
    assert told.endswith("; a relaxed floor is min.insync.replicas")


def test_without_a_limit_the_list_of_replicas_holds_what_is_paused_alone() -> None:
    rig = copying((3, 1), (3, 2), options=ExecutionOptions())
    assert "cancelled" not in answer(rig, rig.command(CommandKind.PAUSE, T1))
    rig.settle(catching_up=False, rounds=20)
    assert rig.yard.settings == {rate(3): NEXT_TO_NOTHING, ThrottleKey("topic", "t", FOLLOWER_REPLICAS): "1:3"}
    assert rig.yard.partitions[T1].adding == (3,)
    rig.command(CommandKind.RESUME, T1)
    rig.settle()
    assert rig.yard.settings == {}
    assert rig.outcomes() == {T0: Outcome.DONE, T1: Outcome.DONE}


def test_a_copy_that_a_throttle_can_not_hold_alone_is_cancelled_and_begun_again() -> None:
    rig = copying((3, 1), (3, 2), options=THROTTLED)
    assert "1 copy is cancelled" in answer(rig, rig.command(CommandKind.PAUSE, T0))
    rig.settle(catching_up=False, rounds=40)
    assert rig.yard.partitions[T0].replicas == (1, 2)
    assert rig.yard.partitions[T1].adding == (3,)
    assert rig.yard.settings[rate(3)] == "5000000", "what goes on goes as fast as before"
    assert any(notice.kind == "copy-put-off" and notice.about == str(T0) for notice in rig.notices)
    rig.settle(rounds=40)
    assert rig.outcomes() == {T0: None, T1: Outcome.DONE}
    rig.command(CommandKind.RESUME, T0)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE, T1: Outcome.DONE}


def test_a_second_plan_does_not_let_paused_copies_run() -> None:
    rig = copying((3, 1), (4, 1), options=THROTTLED)
    rig.command(CommandKind.PAUSE)
    rig.settle(catching_up=False, rounds=20)
    assert {rig.yard.settings[rate(3)], rig.yard.settings[rate(4)]} == {NEXT_TO_NOTHING}
    assert unheld(rig.core.state) == frozenset()
    rig.yard.make("u", [(1, 2)])
    rig.submit(("u", 0, (3, 2)), options=THROTTLED)
    rig.settle(catching_up=False, rounds=60)
    assert rig.yard.partitions[T0].replicas == (1, 2), "it shares broker 3 with the second plan: put off"
    assert rig.yard.partitions[T1].adding == (4,), "it shares its broker with nobody: held"
    assert rig.yard.settings[rate(4)] == NEXT_TO_NOTHING
    assert rig.yard.settings[rate(3)] == "5000000"


def test_rolling_one_back_lets_no_paused_copy_run() -> None:
    rig = copying((3, 1), (3, 2), options=THROTTLED)
    rig.command(CommandKind.PAUSE)
    rig.settle(catching_up=False, rounds=20)
    rig.command(CommandKind.ROLL_BACK, T0)
    rig.settle(catching_up=False, rounds=60)
    assert rig.outcomes()[T0] is Outcome.ROLLED_BACK
    assert rig.yard.settings[rate(3)] == NEXT_TO_NOTHING
    assert rig.yard.partitions[T1].adding == (3,)


def test_a_paused_copy_takes_no_place_from_what_goes_on() -> None:
    rig = planned({"t": [(1, 2)] * 2}, ("t", 0, (3, 1)), ("t", 1, (4, 1)), options=ExecutionOptions(max_concurrent=1))
    rig.settle(catching_up=False, rounds=40)
    ((first, _target),) = rig.asked
    other = T1 if first == T0 else T0
    rig.command(CommandKind.PAUSE, first)
    rig.settle(catching_up=False, rounds=60)
    assert rig.yard.partitions[first].adding == ()
    assert rig.yard.partitions[other].adding != ()


def test_a_paused_copy_that_can_not_be_cancelled_stays_held() -> None:
    rig = copying((3, 4), (3, 2), options=THROTTLED)
    rig.yard.min_isr["t"] = 2
    rig.yard.kill(2)
    rig.settle(catching_up=False, rounds=40)
    rig.command(CommandKind.PAUSE, T0)
    rig.settle(catching_up=False, rounds=60)
    assert rig.yard.partitions[T0].adding == (3,)
    assert rig.yard.settings[rate(3)] == NEXT_TO_NOTHING
    assert "it is paused" in rig.core.state.moves[T0].waits.text


@pytest.mark.parametrize("options", [THROTTLED, ExecutionOptions(max_in=1)])
def test_a_paused_copy_stays_held_until_the_cluster_takes_on_its_cancel(options: ExecutionOptions) -> None:
    """Found by simulation, seed 97203385: the rate limit was lifted as soon as the cancel was decided."""
    rig = copying((3, 1), options=options)
    rig.command(CommandKind.PAUSE)
    rig.settle(catching_up=False, rounds=20)
    assert rig.yard.settings[rate(3)] == NEXT_TO_NOTHING
    rig.yard.make("u", [(1, 2)])
    rig.yard.refuse[T0] = ErrorCode.NOT_CONTROLLER
    rig.submit(("u", 0, (3, 2)), options=options)
    rig.settle(catching_up=False, rounds=20)
    assert rig.yard.partitions[T0].adding == (3,)
    assert rig.yard.settings[rate(3)] == NEXT_TO_NOTHING
    assert "0:3" in rig.yard.settings[ThrottleKey("topic", "t", FOLLOWER_REPLICAS)]
    del rig.yard.refuse[T0]
    rig.settle(catching_up=False, rounds=60)
    assert rig.yard.partitions[T0].adding == ()
    assert rig.yard.settings.get(rate(3)) == (str(options.throttle) if options.throttle else None)


@pytest.mark.parametrize("options", [THROTTLED, ExecutionOptions()])
def test_a_pause_holds_a_copy_whose_rollback_is_refused(options: ExecutionOptions) -> None:
    """Found by simulation, seed 97201710: the former step copied on at full speed."""
    rig = copying((3, 1), options=options)
    rig.yard.refuse[T0] = ErrorCode.NOT_CONTROLLER
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False, rounds=20)
    rig.command(CommandKind.PAUSE)
    rig.settle(catching_up=False, rounds=20)
    assert rig.yard.partitions[T0].adding == (3,)
    assert rig.yard.settings[rate(3)] == NEXT_TO_NOTHING
    assert "0:3" in rig.yard.settings[ThrottleKey("topic", "t", FOLLOWER_REPLICAS)]


def test_a_copy_that_can_be_neither_held_nor_cancelled_is_said_to_go_on() -> None:
    """An outsider's find: "5 copies are cancelled", and of two more nothing was said, which copied on at full speed."""
    yard = Yard({"t": [(1, 2)]})
    yard.settings[rate(3)] = "20000"
    rig = Rig(yard)
    rig.submit(("t", 0, (3, 1)), options=THROTTLED)
    rig.settle(catching_up=False, rounds=40)
    yard.min_isr["t"], yard.partitions[T0].isr = 2, (1,)
    rig.settle(catching_up=False, rounds=40)
    why = "a pause's rate would hold replicas in sync too, by somebody else's throttle"
    told = answer(rig, rig.command(CommandKind.PAUSE))
    assert told.endswith(f"; 1 copy goes on, as it can't be cancelled now (t-0), and {why}")
    rig.settle(catching_up=False, rounds=20)
    assert rig.yard.partitions[T0].adding == (3,)
    assert rig.yard.settings[rate(3)] == "20000"
    assert rig.core.state.moves[T0].waits.text.endswith(f"it is paused, and its copy goes on, for {why}")


def test_a_copy_that_nobody_wants_any_more_is_throttled_until_the_cluster_ends_it() -> None:
    rig = copying((3, 1), options=THROTTLED)
    rig.yard.refuse[T0] = ErrorCode.NOT_CONTROLLER
    rig.submit(("t", 0, (4, 1)), options=THROTTLED)
    rig.settle(catching_up=False, rounds=60)
    assert rig.yard.partitions[T0].adding == (3,)
    assert rig.yard.settings[rate(3)] == "5000000"
    assert "0:3" in rig.yard.settings[ThrottleKey("topic", "t", FOLLOWER_REPLICAS)]
    assert rig.core.state.owed() == []
    del rig.yard.refuse[T0]
    rig.settle(rounds=200)
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.yard.settings == {}


def test_a_rollback_that_is_refused_for_good_says_that_the_copy_still_runs() -> None:
    rig = copying((3, 1), options=THROTTLED)
    rig.yard.refuse[T0] = ErrorCode.POLICY_VIOLATION
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False, rounds=400)
    assert rig.outcomes() == {T0: Outcome.REFUSED}
    assert "the reassignment to [3, 1] still runs" in rig.core.state.moves[T0].reason


def test_a_copy_that_nobody_wants_any_more_counts_until_the_cluster_ends_it() -> None:
    options = ExecutionOptions(max_in=1)
    rig = planned({"t": [(1, 2)] * 2}, ("t", 0, (3, 1)), options=options)
    rig.settle(catching_up=False, rounds=40)
    rig.yard.refuse[T0] = ErrorCode.NOT_CONTROLLER
    rig.submit(("t", 0, (4, 1)), ("t", 1, (3, 1)), options=options)
    rig.settle(catching_up=False, rounds=60)
    assert rig.yard.partitions[T0].adding == (3,)
    assert rig.yard.partitions[T1].adding == (), "broker 3 receives one copy, and one it may"
    del rig.yard.refuse[T0]
    rig.settle(rounds=200)
    assert rig.outcomes() == {T0: Outcome.DONE, T1: Outcome.DONE}
