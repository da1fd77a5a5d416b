"""A move that can't end reports what it waits for and the way out, and the way out exists."""

from dataclasses import replace

import pytest
from apache_yard import Rig, Yard, planned, until

from shunter.core.executor.choice import Begin, Waits, choose, undo
from shunter.core.executor.ending import when_it_ends
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.events import Envelope, LogDirsObserved, TopicsObserved
from shunter.core.executor.foresight.hold_ups import hold_up_of_others, told_held_up, told_urgent, way_out
from shunter.core.executor.foresight.stuck import stuck, told_behind, turned_to
from shunter.core.executor.orders import decide_command
from shunter.core.executor.ready import CommandReply, ObserveTopics, PlanReply
from shunter.core.executor.state import CurrentStep, ExecutorState, Move
from shunter.core.throttles import FOLLOWER_RATE
from shunter.model.execution import (
    Command,
    CommandKind,
    Direction,
    ExecutionOptions,
    LogDirSpace,
    ObservedPartition,
    ObservedTopic,
    OngoingReassignment,
    Outcome,
    ReplicaSize,
    ThrottleKey,
)
from shunter.model.partition import Replicas, TopicPartition
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
    rig = planned({"t": [(1, 2)]}, ("t", 0, (6, 2)))
    rig.settle(catching_up=False, rounds=40)
    assert stuck_row(rig) == ""
    rig.yard.kill(6)
    rig.settle(catching_up=False, rounds=40)
    answer = told(rig, rig.command(CommandKind.RELAX))
    assert "1 of them can't end now: t-0: it can't end without broker 6, which is down and part of its target" in answer
    assert "`shunter rollback` or `shunter stop`, given its name, ends it" in answer
    assert "broker 6" in stuck_row(rig)


def test_each_reason_of_a_plan_names_its_own_moves() -> None:
    """An outsider's find: the reason of the first move stood for all."""
    found = told_held_up([("a-0", "it may not end"), ("b-0", "it can't end"), ("c-0", "it may not end")])
    assert found == "dead brokers or log dirs hold up 3 moves, a-0, c-0: it may not end; b-0: it can't end"
    many = told_held_up((f"t-{number}", f"reason {number}") for number in range(5))
    assert many.endswith("; t-2: reason 2; and for 2 other reasons")


def test_a_live_broker_whose_log_dir_failed_is_not_waited_for_as_a_dead_one() -> None:
    """An outsider's find: "waits for brokers 5, 6 to come back", while 5 was up."""
    move = Move(T0, None, (5, 6), (1, 2), Strategy.INCREMENTAL, 1, (), False, 0, current=(5, 6))
    found = choose(move, ObservedPartition((5, 6), (5, 6), -1, (5, 6)), frozenset({1, 2, 5}), 1)
    assert isinstance(found, Waits)
    assert found.reason.endswith("; the log dir on broker 5 failed")


@pytest.mark.parametrize("leaves", [True, False])
def test_a_stop_beside_a_dead_original_ends_with_the_copy_and_leaving_ends_it_at_once(*, leaves: bool) -> None:
    """An outsider's find: it was called stuck, and `--force`, which was advised, gives up the copy."""
    yard = Yard({"t": [(1, 2)]})
    yard.min_isr["t"] = 2
    rig = Rig(yard)
    rig.submit(("t", 0, (3, 4)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE, throttle=1_000))
    rig.settle(catching_up=False, rounds=40)
    rig.yard.kill(2)
    rig.settle(catching_up=False, rounds=40)
    answer = told(rig, rig.command(CommandKind.STOP))
    assert (
        "1 of them ends only when what it copies is in sync, because too few former replicas are for a cancel" in answer
    )
    assert "(t-0); `shunter stop --leave` leaves that to the cluster" in answer
    assert "can't end" not in answer
    rig.settle(catching_up=False, rounds=300)
    assert rig.finish is None
    assert stuck_row(rig) == ""
    assert rig.core.state.moves[T0].waits.text == "broker 3, 4 catches up", "as the answer to the order says"
    asked = len(rig.asked)
    if not leaves:
        rig.settle()
        assert rig.yard.partitions[T0].replicas == (3, 4)
        assert len(rig.asked) == asked, "no cancel"
        return
    assert "left as it is" in told(rig, rig.command(CommandKind.LEAVE))
    rig.settle(catching_up=False)
    assert rig.finish is not None
    assert rig.outcomes() == {T0: Outcome.LEFT}
    assert len(rig.asked) == asked, "the cluster is told nothing more"
    assert rig.yard.partitions[T0].adding == (3, 4)
    owed = {key.name for key in rig.core.state.throttles}
    assert owed <= {"2"}, "throttles are given back, but for the dead broker's"


def test_a_failed_log_dir_of_the_target_is_named_until_it_works_again() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (6, 2)))
    rig.settle(catching_up=False, rounds=40)
    state, (move,) = rig.core.state, rig.core.state.moves.values()
    seen = state.cluster.topics["t"].partitions[0]
    state.cluster.topics["t"].partitions[0] = seen._replace(offline=(6,))
    assert stuck(state, move) == (
        "it can't end without a working log dir of broker 6, whose replica is offline and part of its target"
    )
    state.cluster.topics["t"].partitions[0] = seen
    assert stuck(state, move) is None
    # In KRaft mode metadata may go on for long without telling: then the broker's own answer does.
    state.cluster.sizes[6, T0] = ReplicaSize(5, "/disk1")
    for working, told in ((("/disk1", "/disk2"), None), (("/disk2",), "log dir /disk1 of broker 6, which is offline")):
        spaces = {(6, path): LogDirSpace(100, 50) for path in working}
        rig.core.handle(Envelope(rig.now_ms, "test", LogDirsObserved({}, spaces, (6,), rig.now_ms)))
        found = stuck(state, move)
        assert found == (told and f"it can't end without {told} and part of its target")


def stopping(*, dead: int, out_of_sync: int) -> Rig:
    """A rig whose one move, all at once from (1, 2) to (3, 4), is told to stop, and needs 1 and 2 in sync for that."""
    yard = Yard({"t": [(1, 2)]})
    yard.min_isr["t"] = 2
    rig = Rig(yard)
    rig.submit(("t", 0, (3, 4)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    rig.settle(catching_up=False, rounds=40)
    assert yard.partitions[T0].adding == (3, 4)
    yard.kill(dead)
    yard.partitions[T0].isr = tuple(broker for broker in yard.partitions[T0].isr if broker != out_of_sync)
    rig.settle(catching_up=False, rounds=40)
    return rig


def test_a_stop_does_not_need_a_dead_broker_of_the_target() -> None:
    rig = stopping(dead=3, out_of_sync=2)
    assert "can't end" not in told(rig, rig.command(CommandKind.STOP))
    rig.settle(catching_up=False, rounds=40)
    assert "only 1 of the replicas [1, 2] are live and in sync" in rig.core.state.moves[T0].waits.text
    assert stuck_row(rig) == "", "broker 2 is live and may come into sync"
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.STOPPED}


def test_a_stop_names_the_dead_replica_that_it_needs_and_no_other() -> None:
    rig = stopping(dead=2, out_of_sync=2)
    rig.yard.kill(3)
    rig.settle(catching_up=False, rounds=40)
    answer = told(rig, rig.command(CommandKind.STOP))
    assert "it can't end without broker 2, which is down: only 1" in answer


@pytest.mark.parametrize(
    ("live", "told_dead"),
    [
        ({1, 2, 4}, None),
        (
            {1, 4},
            "it can't end without one of brokers 2, 3, which are down: 1 of the 2 original replicas that a rollback needs are",
        ),
    ],
)
def test_a_rollback_can_end_if_enough_of_the_originals_are_live(live: set[int], told_dead: str | None) -> None:
    state = ExecutorState(running=True)
    state.cluster.brokers = dict.fromkeys(sorted(live))
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((1, 2, 3, 4), (1, 4), 1)}, min_isr=2)
    originals = (1, 2, 3)
    move = Move(T0, None, originals, (4, 5, 6), Strategy.INCREMENTAL, 1, (), False, 0, current=(1, 2, 3, 4))
    move.direction = Direction.BACK
    why = stuck(state, move)
    assert (why or "").startswith(told_dead or "")
    assert (why is None) is (told_dead is None), "one of 2 and 3 is enough"


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("relaxed", [False, True])
def test_a_change_of_the_order_needs_no_dead_follower(strategy: Strategy, *, relaxed: bool) -> None:
    """An outsider's find: "stuck, rollback or stop ends it", and it was done a second later."""
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.kill(3)
    rig.submit(("t", 0, (2, 1, 3)), options=ExecutionOptions(strategy=strategy))
    seen: set[str] = set()
    for turn in range(400):
        if rig.finish is not None:
            break
        if T0 in rig.core.state.moves:
            if relaxed and turn % 50 == 0 and rig.core.state.moves[T0].open:
                rig.command(CommandKind.RELAX)
            seen.add(stuck_row(rig) + rig.core.state.moves[T0].waits.text)
        rig.deliver() if rig.pending else rig.pass_time(250)
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert not any("down" in text for text in seen)
    assert [target for _tp, target in rig.asked] == [(2, 1, 3)], "a relaxed floor drops nobody for an order"


def test_a_rollback_that_only_restores_the_order_needs_no_dead_follower() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (2, 1, 4)))
    rig.settle(catching_up=False, rounds=40)
    rig.yard.kill(3)
    assert "can't end" not in told(rig, rig.command(CommandKind.ROLL_BACK))
    seen: set[str] = set()
    for _turn in range(400):
        if rig.finish is not None:
            break
        seen.add(stuck_row(rig) + rig.core.state.moves[T0].waits.text.replace("broker 4 catches up", ""))
        rig.deliver() if rig.pending else rig.pass_time(250)
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert rig.asked[-1] == (T0, (1, 2, 3)), "the cancel left another order"
    assert not any("down" in text for text in seen)


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACK])
def test_a_move_between_log_dirs_needs_the_brokers_of_these_log_dirs_alone(direction: Direction) -> None:
    state = ExecutorState(running=True)
    state.cluster.brokers = {1: None, 2: None}
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((1, 2, 3), (1, 2), 1)})
    move = Move(T0, None, (1, 2, 3), (1, 2, 3), Strategy.INCREMENTAL, 1, ((2, "/b"),), False, 0, current=(1, 2, 3))
    move.origins, move.direction = ((2, "/a"), (3, "/a")), direction
    state.moves[T0] = move
    assert stuck(state, move) is None
    del state.cluster.brokers[2]
    assert stuck(state, move) == "it can't end without broker 2, which is down and due to be in another log dir"


def beside_a_dead_one(*, min_isr: int = 1, catches_up: bool = True, dead: tuple[int, ...] = (1,)) -> Rig:
    """A rig whose one move adds broker 4 beside broker 1, which stays, and is dead."""
    yard = Yard({"t": [(1, 2, 3)]})
    yard.min_isr["t"] = min_isr
    rig = Rig(yard)
    for broker in dead:
        yard.kill(broker)
    rig.submit(("t", 0, (4, 1, 2)), options=ExecutionOptions(relax_after_ms=10**9))
    rig.settle(catching_up=catches_up, rounds=40)
    assert yard.partitions[T0].adding == (4,)
    return rig


def test_a_plan_says_at_once_which_copies_can_not_end_and_what_does_end_them() -> None:
    """An outsider's find: nothing said that a copy beside an offline replica that stays never ends."""
    rig = Rig(Yard({"t": [(1, 2, 3), (1, 2, 3), (2, 3, 4)]}))
    rig.yard.kill(1)
    reply = rig.submit(("t", 0, (4, 1, 2)), ("t", 1, (2, 3, 1)), ("t", 2, (2, 3, 5)))
    rig.settle(catching_up=False, rounds=40)
    answer = rig.replies[reply]
    assert isinstance(answer, PlanReply)
    why = "it may not end without broker 1, which is down and stays in its target: controllers before Kafka 4.3 end it"
    assert [bool(move.held_up) for move in answer.moves] == [True, False, False], "an order needs no replica in sync"
    assert answer.moves[0].held_up.startswith(why)
    told = told_held_up((move.tp, move.held_up) for move in answer.moves if move.held_up)
    assert told.startswith(f"dead brokers or log dirs hold up 1 move, t-0: {why}")
    assert "`shunter plan --scope offline`" in told
    assert told_held_up(()) == ""


@pytest.mark.parametrize(
    ("target", "needs_all", "held"),
    [
        ((1, 2), None, "it can't end without broker 1"),
        ((1, 2), False, "it can't end without broker 1"),
        ((4, 1, 2), None, "it may not end without broker 1"),
        ((4, 1, 2), True, "it can't end without broker 1"),
        ((4, 1, 2), False, ""),
        ((2, 3), True, ""),
    ],
)
def test_a_smaller_set_needs_its_offline_replica_under_any_controller(
    target: Replicas, held: str, *, needs_all: bool | None
) -> None:
    """KAFKA-19975: newer controllers end a step without a replica that stays, but not if the set gets smaller.

    An outsider's find: on 4.4.0 a plan was told what may happen before Kafka 4.3.
    """
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.needs_all = needs_all
    rig.yard.kill(1)
    reply = rig.submit(("t", 0, target))
    rig.settle(catching_up=False, rounds=12)
    answer = rig.replies[reply]
    assert isinstance(answer, PlanReply)
    assert answer.moves[0].held_up[: len(held) or None] == held


def test_a_copy_beside_a_dead_replica_is_stuck_only_once_the_controller_shows_that() -> None:
    rig = beside_a_dead_one(catches_up=False)
    assert stuck_row(rig) == "", "what is added may come into sync, and a newer controller ends it then"
    rig.settle(rounds=40)
    assert "it can't end without broker 1, which is down and part of its target" in stuck_row(rig)


def test_only_orders_that_end_a_stuck_move_are_named_and_they_do_end_it() -> None:
    """An outsider's find: "`shunter rollback` or `shunter stop`, given its name, ends it", and the stop never ended."""
    rig = beside_a_dead_one()
    assert stuck_row(rig).endswith("; `shunter rollback`, given its name, ends it")
    answer = told(rig, rig.command(CommandKind.ROLL_BACK))
    assert answer == "1 move is rolled back; it is instant"
    rig.settle(catching_up=False)
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert rig.yard.partitions[T0].replicas == (1, 2, 3)


def test_a_stop_that_keeps_what_is_in_sync_waits_for_the_dead_broker_and_by_force_does_not() -> None:
    rig = beside_a_dead_one()
    answer = told(rig, rig.command(CommandKind.STOP))
    assert "1 of them can't end now: t-0: it can't end without broker 1, which is down" in answer
    assert answer.endswith("`shunter rollback`, given its name, ends it")
    rig.settle(catching_up=False, rounds=40)
    assert rig.outcomes() == {T0: None}
    assert "can't end" not in told(rig, rig.command(CommandKind.STOP, force=True))
    rig.settle(catching_up=False)
    assert rig.outcomes() == {T0: Outcome.STOPPED}
    assert rig.yard.partitions[T0].replicas == (1, 2, 3)
    assert 4 not in rig.yard.partitions[T0].isr


@pytest.mark.parametrize("kind", [CommandKind.STOP, CommandKind.ROLL_BACK])
def test_below_min_isr_a_move_is_cancelled_by_force_alone_and_that_is_said(kind: CommandKind) -> None:
    """An outsider's find: kafka-reassign-partitions --cancel always worked."""
    rig = beside_a_dead_one(min_isr=3)
    plain = told(rig, rig.command(kind))
    assert "can't end" in plain
    assert "instant" not in plain
    assert (
        "`shunter rollback --force` or `shunter stop --force`, given its name, ends it, although fewer replicas"
        in plain
    )
    rig.settle(catching_up=False, rounds=40)
    assert rig.outcomes() == {T0: None}
    forced = told(rig, rig.command(kind, force=True))
    assert "producers with acks=all are refused until more replicas are in sync: t-0 (2 of 3 in sync" in forced
    assert "can't end" not in forced
    rig.crash()
    rig.settle(catching_up=False)
    assert rig.outcomes() == {T0: Outcome.STOPPED if kind is CommandKind.STOP else Outcome.ROLLED_BACK}
    assert rig.yard.partitions[T0].replicas == (1, 2, 3)


def test_force_never_leaves_a_partition_without_a_live_replica_in_sync() -> None:
    rig = beside_a_dead_one()
    for broker in (2, 3):
        rig.yard.kill(broker)
    rig.settle(catching_up=False, rounds=40)
    answer = told(rig, rig.command(CommandKind.ROLL_BACK, force=True))
    assert "only 0 of the replicas [1, 2, 3] are live and in sync and 1 must be" in answer
    asked = len(rig.asked)
    rig.settle(catching_up=False, rounds=40)
    assert [target for _tp, target in rig.asked[asked:] if target is None] == []
    rig.yard.revive(2)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}


def test_leaving_a_step_that_does_not_end_says_so() -> None:
    rig = beside_a_dead_one()
    token = rig.command(CommandKind.LEAVE)
    assert "1 of them may not end before offline replicas are back: t-0; `kafka-reassign-partitions --cancel`" in told(
        rig, token
    )
    reply = rig.replies[token]
    assert isinstance(reply, CommandReply)
    assert reply.partly
    rig.settle(catching_up=False)
    assert "may not end before an offline replica of it is back" in rig.core.state.moves[T0].reason
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 1, 2)))
    rig.settle(catching_up=False, rounds=40)
    reply = rig.replies[rig.command(CommandKind.LEAVE)]
    assert isinstance(reply, CommandReply)
    assert not reply.partly


def test_leaving_a_step_of_a_known_version_says_only_what_is_true_there() -> None:
    rig = beside_a_dead_one()
    for needs_all, said in ((True, "1 of them can't end before offline replicas are back: t-0"), (False, "")):
        rig.core.state.cluster.needs_all = needs_all
        decided = decide_command(rig.core.state, Command(CommandKind.LEAVE))
        assert said in decided.text
        assert decided.partly == bool(said)


def test_a_rollback_whose_later_steps_need_a_dead_broker_promises_nothing() -> None:
    """The cancel of the step under way is instant; the original that was dropped before is dead."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 5, 6)))

    def has_dropped_one() -> bool:
        partition = rig.yard.partitions[T0]
        if not {1, 2, 3} <= set(partition.replicas):
            return bool(partition.adding)
        rig.yard.catch_up(T0)
        return False

    until(rig, has_dropped_one, 400, "an original is dropped, and a step runs")
    (dropped,) = {1, 2, 3}.difference(rig.yard.partitions[T0].replicas)
    rig.yard.kill(dropped)
    rig.settle(catching_up=False, rounds=40)
    answer = told(rig, rig.command(CommandKind.ROLL_BACK))
    told_dead = f"it can't end without broker {dropped}, which is down"
    assert f"1 move is turned back. But 1 of them can't end now: t-0: {told_dead}" in answer


@pytest.mark.parametrize("back", [False, True])
def test_a_live_broker_that_makes_no_replica_is_named(*, back: bool) -> None:
    """An outsider's find: a broker was restarted without a log dir, Kafka lists none as offline, and it "catches up"."""
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    if back:
        rig.submit(("t", 0, (4, 5, 6)))

        def has_dropped_one() -> bool:
            rig.yard.catch_up(T0)
            return not {1, 2, 3} <= set(rig.yard.partitions[T0].replicas)

        until(rig, has_dropped_one, 600, "an original is dropped")
        (bad,) = {1, 2, 3}.difference(rig.yard.partitions[T0].replicas)
        rig.yard.without_log.add(bad)
        rig.command(CommandKind.ROLL_BACK)
    else:
        bad = 6
        rig.yard.without_log.add(bad)
        rig.submit(("t", 0, (6, 2, 3)))
    rig.settle(rounds=120)
    assert stuck_row(rig) == "", "it may be slow"
    rig.settle(rounds=300)
    assert f"it can't end without a replica on broker {bad}, which has none in any log dir" in stuck_row(rig)
    rig.yard.without_log.clear()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK if back else Outcome.DONE}


def test_a_step_whose_end_is_not_seen_is_doubted_after_five_seconds_only() -> None:
    """A stranger's find: "somebody may have cancelled it" of steps that had just ended."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 5, 6)))
    rig.settle(catching_up=False, rounds=10)
    move, partition = rig.core.state.moves[T0], rig.yard.partitions[T0]

    def in_the_second_step() -> bool:
        if move.steps == 1:
            rig.yard.catch_up(T0)
        return move.steps == 2 and partition.in_motion

    until(rig, in_the_second_step, 600, "the second step is under way")
    rig.settle(catching_up=False, rounds=20)
    partition.replicas, partition.adding, partition.removing = (1, 2, 3), (), ()
    first_ms, told = rig.now_ms, list[int]()
    for _round in range(60):
        rig.settle(catching_up=False, rounds=1)
        held = when_it_ends(rig.core.state, Meter(), rig.now_ms, {}).held
        told += [rig.now_ms - first_ms] if "1 whose step no longer runs" in held else []
    assert told
    assert min(told) >= 5_000


def test_a_replica_of_a_cancelled_step_is_not_missed() -> None:
    """An SRE's find: somebody cancelled a reassignment, and people were told to restart the healthy broker."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (6, 2, 3)))
    rig.settle(catching_up=False, rounds=400)
    move = rig.core.state.moves[T0]
    rig.yard.alter(T0, None)
    rig.yard.without_log.add(6)
    while move.open:
        rig.settle(catching_up=False, rounds=1)
        assert (stuck_row(rig), "makes no replica" in move.waits.text) == ("", False)
    assert rig.outcomes() == {T0: Outcome.SUPERSEDED}


@pytest.mark.parametrize("needs_all", [True, None, False])
def test_a_copy_beside_a_dead_replica_waits_for_it_only_once_it_has_caught_up(*, needs_all: bool | None) -> None:
    """An outsider's find: "waits: broker 3 is down" of copies that went on, and ended by themselves on 4.4.0."""
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.needs_all = needs_all
    rig.yard.kill(1)
    rig.submit(("t", 0, (4, 1, 2)), options=ExecutionOptions(relax_after_ms=10**9))
    rig.settle(catching_up=False, rounds=40)
    move = rig.core.state.moves[T0]
    assert move.waits.text == "broker 4 catches up"
    assert bool(stuck_row(rig)) == bool(needs_all), "by its version it is known at once"
    rig.yard.catch_up(T0)
    rig.settle(catching_up=False, rounds=40)
    assert move.waits.text.startswith("waits: broker 1 is down") == (needs_all is not False)


@pytest.mark.parametrize("back", [False, True])
def test_a_broker_whose_log_dir_failed_may_refuse_a_replica_and_that_is_said(*, back: bool) -> None:
    """An outsider's find on Kafka 4.4.0: `undo` sent a replica back, and the broker logged that it "resides in an
    offline log directory"."""
    rig, broken = Rig(Yard({"t": [(1, 2, 3)]})), 2 if back else 6
    rig.yard.broken = {broken: ("/disk1",)}
    unsure = "it may not end: log dir /disk1 of broker"
    if back:
        rig.submit(("t", 0, (1, 4, 3)))
        rig.settle(catching_up=False, rounds=40)
        rig.submit(("t", 0, (5, 4, 3)))

        def is_dropped() -> bool:
            rig.yard.catch_up(T0)
            return 2 not in rig.core.state.moves[T0].held

        until(rig, is_dropped, 600, "broker 2 is dropped")
        rig.yard.without_log.add(2)
        told_first = told(rig, rig.command(CommandKind.ROLL_BACK))
        assert "1 move is rolled back" in told_first
    else:
        rig.yard.without_log.add(6)
        reply = rig.submit(("t", 0, (6, 2, 3)))
        rig.settle(catching_up=False, rounds=12)
        answer = rig.replies[reply]
        assert isinstance(answer, PlanReply)
        told_first = told_held_up((move.tp, move.held_up) for move in answer.moves)
        assert "`shunter plan --scope offline`" not in told_first, "that is no way out here"
    assert f"{unsure} {broken} failed, and if t-0 was there, the broker takes no replica of it" in told_first
    assert "restart it with a disk that works, formatted if it is new, or without that log dir" in told_first
    rig.settle(rounds=200)
    row = stuck_row(rig)
    assert f"a replica on broker {broken}, which makes none: log dir /disk1 of broker {broken} failed, where t-0" in row
    assert ") and part of its target" not in row
    assert rig.core.state.moves[T0].waits.text == f"waits: broker {broken} makes no replica"
    rig.yard.without_log.clear()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK if back else Outcome.DONE}


def test_a_name_that_the_execution_does_not_have_keeps_no_other_from_its_order() -> None:
    """An outsider's find: `stop a b` stopped nothing, because a had gone."""
    rig = planned({"t": [(1, 2)]}, ("t", 0, (1, 3)))
    until(rig, lambda: bool(rig.core.state.moves), 200, "the plan was not taken on")
    strange = TopicPartition("u", 0)
    decided = decide_command(rig.core.state, Command(CommandKind.STOP, (TopicPartition("t", 0), strange)))
    assert (decided.accepted, decided.partly) == (True, True)
    assert decided.text.endswith("; not in the execution: u-0")
    refused = decide_command(rig.core.state, Command(CommandKind.STOP, (strange,)))
    assert (refused.accepted, refused.text) == (False, "not in the execution: u-0")


def test_a_rollback_to_a_broker_that_others_cordoned_is_told_as_stuck() -> None:
    """An outsider's find: such a rollback was called instant, and Kafka refused it."""
    state, tp = ExecutorState(running=True), TopicPartition("t", 0)
    move = Move(tp, None, (1, 2, 3), (4, 2, 3), Strategy.INCREMENTAL, 1_000, (), False, 0, current=(4, 2, 3))
    state.moves[tp] = move
    state.cluster.brokers = dict.fromkeys((1, 2, 3, 4))
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((4, 2, 3), (4, 2, 3), 4)})
    assert stuck(state, turned_to(move, Direction.BACK)) is None
    state.cluster.see_spaces((1,), {(1, "/d"): LogDirSpace(100, 50, cordoned=True)})
    told = "it can't end while broker 1 has its log dirs cordoned: Kafka takes no target that names it; "
    lifts = "`kafka-configs --alter --entity-type brokers --entity-name 1 --delete-config cordoned.log.dirs` lifts that"
    assert stuck(state, turned_to(move, Direction.BACK)) == told + lifts
    assert stuck(state, turned_to(move, Direction.STOP)) is None


def test_a_copy_from_a_dead_broker_names_it_and_what_is_left_in_the_cluster() -> None:
    rig = planned({"t": [(5,)]}, ("t", 0, (2,)))
    rig.settle(catching_up=False, rounds=40)
    assert rig.yard.partitions[T0].adding == (2,)
    assert stuck_row(rig) == ""
    rig.yard.kill(5)
    rig.settle(catching_up=False, rounds=40)
    assert stuck_row(rig) == (
        "it can't end without broker 5, which is down: no live broker has all records; start broker 5, which"
        " has its data; `shunter stop --leave`, given its name, gives it up, and leaves a reassignment in the cluster that can't end until"
        " then"
    )
    left = decide_command(rig.core.state, Command(CommandKind.LEAVE)).text
    assert "once a former replica is in sync, `kafka-reassign-partitions --cancel` ends such a reassignment" not in left
    rig.core.state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((5, 2), (), -1, (5,))})
    left = decide_command(rig.core.state, Command(CommandKind.LEAVE)).text
    assert "once a former replica is in sync, `kafka-reassign-partitions --cancel` ends such a reassignment" in left
    rig.yard.revive(5)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


@pytest.mark.parametrize("looks", [False, True])
def test_a_step_that_is_over_in_the_cluster_waits_for_a_look_and_for_no_broker(*, looks: bool) -> None:
    """An outsider's find: while looks failed, a move that had ended was told as stuck for half a minute."""
    rig = planned({"t": [(1, 2)]}, ("t", 0, (1, 3)))
    rig.settle(catching_up=False, rounds=40)
    rig.yard.kill(3)
    rig.settle(catching_up=False, rounds=40)
    assert "broker 3" in stuck_row(rig)
    rig.yard.revive(3)
    rig.yard.catch_up(T0)
    rig.yard.kill(3)
    state, (move,) = rig.core.state, rig.core.state.moves.values()
    assert (rig.yard.partitions[T0].replicas, rig.yard.partitions[T0].adding) == ((1, 3), ())
    for _turn in range(400):
        shown = state.cluster.partition(T0)
        if T0 not in state.cluster.ongoing and (not looks or (shown is not None and shown.replicas == (1, 3))):
            break
        wanted = [at for at, each in enumerate(rig.pending) if looks or not isinstance(each, ObserveTopics)]
        if wanted:
            rig.deliver(wanted[0])
        else:
            rig.pass_time(250)
    assert T0 not in state.cluster.ongoing
    assert move.step is not None
    assert (stuck(state, move), stuck_row(rig)) == (None, "")
    assert "its step is over in the cluster" in move.waits.text
    rig.settle(catching_up=False)
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_where_one_of_several_replicas_has_all_records_not_all_of_them_are_asked_for() -> None:
    """An outsider's find: with an eligible leader (KIP-966) and an empty ISR the move was called hopeless."""
    state = ExecutorState(running=True)
    state.cluster.brokers, state.cluster.needs_all = dict.fromkeys((4, 5, 6)), False
    seen = ObservedPartition((6, 5, 1, 3), (), -1, (1, 3, 5))
    state.cluster.topics["t"] = ObservedTopic(None, {0: seen}, min_isr=1)
    move = Move(T0, None, (5, 3, 1), (6, 5, 1), Strategy.INCREMENTAL, 1, (), False, 0, current=(5, 3, 1))
    move.step = CurrentStep(1, (5, 3, 1), (6, 5, 1), "", cancels=False, begun_at_ms=0, accepted=True)
    state.moves[T0], state.cluster.ongoing[T0] = move, OngoingReassignment((6, 5, 1, 3), (6,), (3,))
    for turned in (move, *(turned_to(move, each) for each in (Direction.BACK, Direction.STOP))):
        why = stuck(state, turned)
        assert why is not None
        assert why.startswith(
            "it can't end without one of brokers 1, 3, which are down and a working log dir of broker 5"
        )
        assert why.endswith("no live broker has all records")
        out = way_out(state, turned)
        assert "start broker 1 or start broker 3 or mend the log dir of broker 5" in out
        assert "as `shunter doctor` tells; `shunter stop --leave`, given its name, gives it up" in out
        assert out.endswith("that can't end until then")


def test_a_stop_ends_once_what_the_step_adds_is_in_sync_though_former_replicas_are_dead() -> None:
    """An outsider's find: it was called stuck, and `--force` was advised, which gives up the copy."""
    state = ExecutorState(running=True)
    state.cluster.brokers, state.cluster.needs_all = dict.fromkeys((2, 3, 6)), False
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((4, 5, 6, 3), (6,), 6, (4, 5))}, min_isr=2)
    move = Move(T0, None, (4, 5, 6), (3, 2, 6), Strategy.INCREMENTAL, 1, (), False, 0, current=(4, 5, 6))
    move.step = CurrentStep(1, (4, 5, 6), (4, 5, 6, 3), "", cancels=False, begun_at_ms=0, accepted=True)
    state.moves[T0], state.cluster.ongoing[T0] = move, OngoingReassignment((4, 5, 6, 3), (3,), ())
    assert stuck(state, turned_to(move, Direction.STOP)) is None
    back = stuck(state, turned_to(move, Direction.BACK))
    assert back is not None
    assert back.startswith("it can't end without one of brokers 4, 5, which are down: only 1 of the replicas")
    del state.cluster.brokers[3]
    for direction in (Direction.STOP, Direction.BACK):
        turned = turned_to(move, direction)
        undone = undo(turned, state.cluster.topics["t"].partitions[0], frozenset({2, 6}), 2)  # type: ignore[union-attr]
        assert isinstance(undone, Begin), "what it adds is dead and was never in sync: it need not wait, and for nobody"
        assert undone.cancels
        assert stuck(state, turned) is None


def test_a_replica_that_was_offline_before_its_broker_came_back_is_no_failed_log_dir() -> None:
    """An outsider's find: right after a frozen broker went on, "it can't end without a working log dir of broker 6"."""
    rig = planned({"t": [(1, 2)], "u": [(1, 2)]}, ("t", 0, (1, 3)), ("u", 0, (1, 3)))
    rig.settle(catching_up=False, rounds=40)
    rig.yard.kill(3)
    rig.settle(catching_up=False, rounds=40)
    state = rig.core.state
    told = {each.tp.topic: stuck(state, each) for each in state.moves.values()}
    assert all("broker 3, which is down" in (each or "") for each in told.values()), told
    rig.yard.revive(3)
    seen = ObservedTopic(None, {0: ObservedPartition((1, 2, 3), (1, 2), 1)}, 1)
    gone = ObservedTopic(None, {0: ObservedPartition((1, 2, 3), (1, 2), 1, (3,))}, 1)
    live: dict[int, str | None] = dict.fromkeys((1, 2, 3))
    rig.core.handle(
        Envelope(rig.now_ms, "test", TopicsObserved({"t": gone, "u": gone}, dict.fromkeys((1, 2)), 1, rig.now_ms))
    )
    rig.pass_time(10)
    rig.core.handle(Envelope(rig.now_ms, "test", TopicsObserved({"t": seen}, live, 1, rig.now_ms)))
    assert [stuck(state, each) for each in state.moves.values()] == [None, None], "u was not looked at since"
    rig.pass_time(10)
    rig.core.handle(Envelope(rig.now_ms, "test", TopicsObserved({"u": gone}, live, 1, rig.now_ms)))
    assert "a working log dir of broker 3" in (stuck(state, state.moves[TopicPartition("u", 0)]) or "")


def test_a_step_names_the_dead_broker_that_it_waits_for_and_not_the_one_that_stays() -> None:
    """An outsider's find: "waits: broker 1 is down", and the move waited for broker 2."""
    rig = Rig(Yard({"t": [(1, 5, 6)]}))
    rig.yard.needs_all = False
    rig.yard.kill(1)
    rig.submit(("t", 0, (2, 1, 6)))
    rig.settle(catching_up=False, rounds=40)
    rig.yard.kill(2)
    rig.settle(catching_up=False, rounds=40)
    (move,) = rig.core.state.moves.values()
    assert "broker 2" in move.waits.text
    assert "broker 1" not in move.waits.text


@pytest.mark.parametrize(
    ("least", "cost"), [(3, "although fewer replicas than min.insync"), (1, "replica of broker 3")]
)
def test_what_an_end_by_force_costs_is_told_as_it_is(least: int, cost: str) -> None:
    """An outsider's find: "although fewer replicas than min.insync.replicas are then in sync": it was 1, and 3 were."""
    state = ExecutorState(running=True)
    state.cluster.brokers, state.cluster.needs_all = dict.fromkeys((1, 2, 3, 4)), True
    seen = ObservedPartition((1, 3, 6, 2, 4), (2, 3, 4), 2, (6,))
    state.cluster.topics["t"] = ObservedTopic(None, {0: seen}, min_isr=least)
    move = Move(T0, None, (6, 2, 4), (1, 3, 6), Strategy.INCREMENTAL, 1, (), False, 0, current=(6, 2, 4))
    move.step = CurrentStep(1, (6, 2, 4), (6, 2, 4, 3), "", cancels=False, begun_at_ms=0, accepted=True)
    state.moves[T0], state.cluster.ongoing[T0] = move, OngoingReassignment((6, 2, 4, 3), (3,), ())
    out = way_out(state, turned_to(move, Direction.STOP))
    assert "--force`, given its name, ends it" in out
    assert cost in out


def test_of_a_move_that_drops_nothing_no_drop_is_said_to_wait() -> None:
    state = ExecutorState(running=True)
    state.cluster.brokers = dict.fromkeys((3, 4, 5))
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((5, 3), (3,), 3)})
    move = Move(T0, None, (5, 3), (3, 5, 4), Strategy.INCREMENTAL, 1, (), False, 0, current=(5, 3))
    assert told_behind(state, move) is None
    assert "a drop may wait" in (told_behind(state, replace(move, target=(5, 4))) or "")


def test_a_drop_that_may_wait_for_an_offline_replica_is_told_with_what_brings_that_elsewhere() -> None:
    """Two outsiders' find: a replica in a failed log dir was "out of sync now", as if it could catch up."""
    state = ExecutorState(running=True)
    state.cluster.brokers = dict.fromkeys((3, 4, 5))
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((5, 3), (3,), 3, (5,))})
    move = Move(T0, None, (5, 3), (5, 4), Strategy.INCREMENTAL, 1, (), False, 0, current=(5, 3))
    assert told_behind(state, move) == (
        "its replica on broker 5 is offline, in a log dir that failed: a drop may wait for that; `shunter plan --scope "
        "offline` brings it elsewhere"
    )


def test_a_stop_names_what_it_leaves_with_fewer_replicas() -> None:
    """An outsider's find: a stop between two steps cut the replication, and nothing said so."""
    state = ExecutorState(running=True)
    state.cluster.brokers = dict.fromkeys((1, 2, 4))
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((1, 2), (1, 2), 1)}, min_isr=1)
    move = Move(T0, None, (1, 2, 3), (1, 2, 4), Strategy.INCREMENTAL, 1, (), False, 0, current=(1, 2))
    state.moves[T0] = move
    answer = decide_command(state, Command(CommandKind.STOP)).text
    assert "what is in sync stays; 1 partition has fewer replicas than before (t-0), unless" in answer
    move.current = (1, 2, 3)
    assert "fewer" not in decide_command(state, Command(CommandKind.STOP)).text


@pytest.mark.parametrize(("least", "first"), [(1, (1, 3)), (2, (4, 3, 1))])
def test_beside_a_dead_replica_nothing_goes_that_min_insync_replicas_needs(least: int, first: Replicas) -> None:
    """An outsider's find on 4.4.0: [4, 3] → [1, 3] beside a dead 3 ended with ISR {1}; {4, 1} could be written."""
    rig = Rig(Yard({"t": [(4, 3)]}))
    rig.yard.needs_all = False
    rig.yard.min_isr["t"] = least
    rig.yard.kill(3)
    token = rig.submit(("t", 0, (1, 3)))
    rig.settle(rounds=40)
    reply = rig.replies[token]
    assert isinstance(reply, PlanReply)
    (move,) = reply.moves
    assert ("it can't end without broker 3, which is down" in move.held_up) is (least == 2)
    assert rig.asked[0] == (T0, first)
    assert ("broker 3" in stuck_row(rig)) is (least == 2)


def test_one_death_in_the_middle_takes_no_replica_that_min_insync_replicas_needs() -> None:
    rig = Rig(Yard({"t": [(1, 3)]}))
    rig.yard.min_isr["t"] = 2
    rig.submit(("t", 0, (4, 3)))
    rig.settle()
    assert rig.asked == [(T0, (1, 3, 4)), (T0, (4, 3))], "adds, and drops by a step of its own, which needs all in sync"
    assert rig.outcomes() == {T0: Outcome.DONE}


@pytest.mark.parametrize(
    ("least", "target", "lower", "told"),
    [
        (2, (2, 5), 5, True),
        (1, (2, 5), 5, False),
        (2, (2, 5), 4, False),
        (2, (2, 4, 5), 5, False),
        (2, (2, 5, 4), 5, True),
        (3, (2, 4, 5), 5, True),
    ],
)
def test_what_refuses_acks_all_and_goes_to_a_broker_that_others_hold_low_is_told(
    least: int, target: tuple[int, ...], lower: int, *, told: bool
) -> None:
    """Two outsiders' find: partitions below min.insync.replicas went to a broker at 20 kB/s, for 40 minutes."""
    state = ExecutorState(running=True)
    state.cluster.brokers = dict.fromkeys((1, 2, 4, 5))
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((2, 3), (2,), 2)}, min_isr=least)
    state.moves[T0] = Move(T0, None, (2, 3), target, Strategy.INCREMENTAL, 1, (), False, 0, current=(2, 3))
    held = {ThrottleKey("broker", str(lower), FOLLOWER_RATE)}
    found = told_urgent(state, state.open_moves(), held)
    assert ("acks=all may be refused until then (t-0): `--exclude-brokers 5` plans without it" in found) is told
    assert told_urgent(state, [], held) == "", "the moves of another plan"
    way = "`shunter stop --force t-0` and then a plan with `--exclude-brokers 5` brings it elsewhere"
    assert (way in told_urgent(state, state.open_moves(), held, begun=True)) is told


def test_another_tools_reassignment_that_is_stranded_is_said_to_have_no_end() -> None:
    """An outsider's find: broker 4 was added and removed at once for six minutes, and `status` said only `moving`."""
    state, tp = ExecutorState(), TopicPartition("t", 3)
    state.cluster.ongoing[tp] = OngoingReassignment((1, 2, 3, 4), (4,), (4,))
    never = "broker 4 is being added and removed at once, and Kafka from 4.3 on never ends that"
    assert hold_up_of_others(state, tp).stuck == f"it can't end: {never}; `shunter rollback t-3` cancels it"
