"""The promises of the executor's core, one test for each sentence."""

import pytest
from apache_yard import SIZE, Rig, Yard, planned

from shunter.core.executor import events as ev
from shunter.core.executor.capacity import Capacity
from shunter.core.executor.choice import Begin, undo
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.events import PlanSubmitted
from shunter.core.executor.foresight.stuck import stuck
from shunter.core.executor.polling import SILENT_MS
from shunter.core.executor.ready import (
    AlterReassignments,
    CommandReply,
    ListReassignments,
    ObserveTopics,
    PlanReply,
)
from shunter.core.executor.waits import Wait, WaitKind
from shunter.core.spare_replicas import told_thin
from shunter.errors import ErrorCode
from shunter.model.execution import (
    CommandKind,
    ExecutionOptions,
    FloorRelaxed,
    LogDirSpace,
    MoveClosed,
    MoveOrder,
    ObservedPartition,
    Outcome,
    StepBegun,
    ThrottleKey,
)
from shunter.model.limits import Window
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def steps_of(rig: Rig, tp: TopicPartition = T0) -> list[tuple[int, ...]]:
    return [
        entry.record.after for entry in rig.journal if isinstance(entry.record, StepBegun) and entry.record.tp == tp
    ]


def reply_to(rig: Rig, token: int) -> PlanReply:
    reply = rig.replies[token]
    assert isinstance(reply, PlanReply)
    return reply


def begun(rig: Rig) -> Rig:
    """The rig after everything was delivered until the first step was asked for."""
    for _turn in range(50):
        if rig.asked:
            return rig
        if rig.pending:
            rig.deliver()
        else:
            rig.pass_time(250)
    raise AssertionError("nothing was asked for")


def test_a_plan_that_gives_a_move_under_way_another_target_says_so() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (4, 5)))
    rig.settle(catching_up=False, rounds=12)
    again = rig.submit(("t", 0, (4, 5)))
    rig.settle(catching_up=False, rounds=12)
    other = rig.submit(("t", 0, (4, 6)))
    rig.settle(catching_up=False, rounds=12)
    told = [[move.instead for move in reply_to(rig, token).moves] for token in (again, other)]
    assert told == [[""], ["it was on its way to [4, 5], and goes to [4, 6] instead"]]
    assert [notice.about for notice in rig.notices if notice.kind == "retargeted"] == ["t-0"]


def test_the_papers_example_takes_the_papers_steps_with_the_last_two_in_one_request() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 5, 6)))
    rig.settle()
    assert steps_of(rig) == [(1, 2, 3, 4), (1, 3, 4, 5), (4, 5, 6)]
    assert rig.yard.partitions[T0].replicas == (4, 5, 6)
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.finish is not None
    assert rig.finish.fatal is None


def test_all_at_once_is_one_request() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 5, 6)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    rig.settle()
    assert rig.asked == [(T0, (4, 5, 6))]


def test_the_order_alone_can_be_moved() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (3, 1, 2)))
    rig.settle()
    assert rig.yard.partitions[T0].replicas == (3, 1, 2)


def test_a_plan_that_is_already_true_asks_for_nothing() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (1, 2, 3)))
    rig.settle()
    assert rig.asked == []
    assert rig.outcomes() == {T0: Outcome.DONE}


@pytest.mark.parametrize("finished", range(3))
def test_a_rollback_from_any_step_restores_the_original_order(finished: int) -> None:
    rig = planned({"t": [(3, 1, 2)]}, ("t", 0, (4, 5, 6)))
    begun(rig)
    for _step in range(finished):
        count = len(rig.asked)
        rig.yard.catch_up(T0)
        while len(rig.asked) == count:
            rig.deliver() if rig.pending else rig.pass_time(250)
    token = rig.command(CommandKind.ROLL_BACK)
    rig.settle()
    assert rig.yard.partitions[T0].replicas == (3, 1, 2)
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    reply = rig.replies[token]
    assert isinstance(reply, CommandReply)
    assert ("it is instant" in reply.text) == (finished < 2)


def test_a_rollback_says_what_ended_before_it_and_stays() -> None:
    """An outsider's find: "5 moves are rolled back", in a drain of which nine had ended, with no word of these."""
    told: list[str] = []
    for named in ([T1], []):
        rig = planned({"t": [(1, 2), (1, 2)]}, ("t", 0, (2, 1)), ("t", 1, (4, 2)))
        rig.settle(catching_up=False, rounds=40)
        assert rig.outcomes() == {T0: Outcome.DONE, T1: None}
        reply = rig.replies[rig.command(CommandKind.ROLL_BACK, *named)]
        assert isinstance(reply, CommandReply)
        told.append(reply.text)
    assert told[0].startswith("1 move is rolled back")
    assert told[1] == f"{told[0]}; 1 move that is done stays: `shunter undo` takes it back"


def test_a_rollback_of_an_all_at_once_move_is_instant() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 5, 6)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    begun(rig)
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False)
    assert rig.asked == [(T0, (4, 5, 6)), (T0, (1, 2, 3))]
    assert rig.yard.partitions[T0].replicas == (1, 2, 3)


def test_a_stop_keeps_what_is_in_sync() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 5, 6)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    begun(rig)
    rig.yard.catch_up(T0)
    rig.pass_time(20_000)
    rig.settle(catching_up=False, rounds=30)
    rig.command(CommandKind.STOP)
    rig.settle(catching_up=False)
    assert rig.yard.partitions[T0].replicas == (1, 2, 3, 4)
    assert rig.outcomes() == {T0: Outcome.STOPPED}


def test_a_stop_between_steps_begins_nothing() -> None:
    rig = planned(
        {"t": [(1, 2, 3), (1, 2, 3)]},
        ("t", 0, (4, 2, 3)),
        ("t", 1, (4, 2, 3)),
        options=ExecutionOptions(max_concurrent=1),
    )
    begun(rig)
    rig.command(CommandKind.STOP)
    rig.settle(catching_up=False)
    assert set(rig.yard.replicas().values()) == {(1, 2, 3)}
    assert set(rig.outcomes().values()) == {Outcome.STOPPED}


def test_a_paused_move_begins_no_step_and_trickles() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 5, 6)))
    begun(rig)
    rig.command(CommandKind.PAUSE)
    rig.settle(catching_up=False, rounds=20)
    assert len(steps_of(rig)) == 1
    rate = ThrottleKey("broker", "4", "follower.replication.throttled.rate")
    assert rig.yard.settings[rate] == str(ExecutionOptions().pause_rate)
    rig.command(CommandKind.RESUME)
    rig.settle()
    assert rig.yard.partitions[T0].replicas == (4, 5, 6)
    assert rig.yard.settings == {}


def test_bounds_hold_at_every_moment_and_capacity_is_used_as_it_frees_up() -> None:
    moves = [("t", number, (4, 2, 3)) for number in range(12)]
    rig = planned({"t": [(1, 2, 3)] * 12}, *moves, options=ExecutionOptions(max_in=3))
    most = 0
    for _round in range(400):
        while rig.pending:
            rig.deliver()
            most = max(most, Capacity.of(rig.core.state, rig.now_ms).total)
        if rig.finish is not None:
            break
        stepping = [tp for tp in rig.yard.partitions if 4 in rig.yard.partitions[tp].adding]
        if stepping:
            rig.yard.catch_up(stepping[0])  # One at a time, because a freed place is taken at once.
        rig.pass_time(250)
    assert most == 3
    assert set(rig.outcomes().values()) == {Outcome.DONE}


def test_longest_moves_start_first() -> None:
    yard = Yard({"t": [(1, 2, 3), (1, 2, 3), (1, 2, 3)]})
    for number, size in enumerate((10, 30, 20)):
        yard.partitions[TopicPartition("t", number)].have[1] = size * SIZE
    rig = Rig(yard)
    options = ExecutionOptions(max_concurrent=1, disk_share=1.0)
    rig.submit(*[("t", number, (4, 2, 3)) for number in range(3)], options=options)
    rig.settle()
    assert [tp.partition for tp, _replicas in rig.asked] == [1, 2, 0]


def test_options_that_a_plan_leaves_at_their_defaults_are_told_where_it_joins() -> None:
    """A stranger's find: --disk-share 0.95, the default, changed nothing of an execution's 0.5, and nothing said so."""
    rig = Rig(Yard({"t": [(1, 2, 3), (1, 2, 3)]}))
    first = rig.submit(("t", 0, (4, 2, 3)), options=ExecutionOptions(max_in=2, bandwidth=5_000))
    begun(rig)
    second = rig.submit(("t", 1, (4, 2, 3)), options=ExecutionOptions(max_in=3))
    rig.settle()
    assert reply_to(rig, first).kept == ""
    told = "the plan joins an execution, whose options stay where the plan has the default: bandwidth 5000"
    assert reply_to(rig, second).kept == told


def test_what_others_move_is_refused_and_left_alone() -> None:
    yard = Yard({"t": [(1, 2, 3), (1, 2, 3)]})
    yard.alter(T0, (1, 2, 5))
    rig = Rig(yard)
    token = rig.submit(("t", 0, (4, 2, 3)), ("t", 1, (4, 2, 3)))
    rig.settle()
    refused = {move.tp: move.refused for move in reply_to(rig, token).moves}
    assert refused[T1] is None
    assert "already being moved to [1, 2, 5]" in str(refused[T0])
    assert [tp for tp, _replicas in rig.asked if tp == T0] == []


def test_taking_over_adopts_what_runs_and_can_roll_it_back() -> None:
    yard = Yard({"t": [(1, 2, 3)]})
    yard.alter(T0, (1, 2, 5))
    rig = Rig(yard)
    rig.submit(("t", 0, ()), options=ExecutionOptions(take_over=True))
    rig.settle(catching_up=False)
    assert yard.partitions[T0].replicas == (1, 2, 3)


def test_taking_over_with_another_target_turns_the_move() -> None:
    yard = Yard({"t": [(1, 2, 3)]})
    yard.alter(T0, (1, 2, 5))
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 2, 3)), options=ExecutionOptions(take_over=True))
    rig.settle()
    assert yard.partitions[T0].replicas == (4, 2, 3)


def test_taking_over_with_another_target_drops_nothing_that_it_wants() -> None:
    yard = Yard({"t": [(1, 2)]})
    yard.alter(T0, (3, 1))
    rig = Rig(yard)
    rig.submit(("t", 0, (3, 2)), options=ExecutionOptions(take_over=True))
    rig.settle(catching_up=False)
    assert rig.asked == [(T0, (3, 2))], "what is being copied goes on, and broker 2 stays"
    assert not any(notice.kind == "foreign-move" for notice in rig.notices)
    rig.settle()
    assert yard.partitions[T0].replicas == (3, 2)


def test_a_second_plan_turns_a_running_move_and_keeps_its_first_original() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)))
    begun(rig)
    rig.submit(("t", 0, (5, 2, 3)))
    rig.settle(rounds=6)
    assert rig.core.state.moves[T0].original == (1, 2, 3)
    rig.settle()
    assert rig.yard.partitions[T0].replicas == (5, 2, 3)


def test_what_a_second_plan_does_not_say_stays_as_the_first_said_it() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3), (1, 2, 3)]}))
    rig.now_ms = 12 * 3_600_000
    rig.submit(("t", 0, (4, 2, 3)), options=ExecutionOptions(window=Window(22 * 60, 6 * 60), throttle=1_000, max_in=2))
    rig.settle(rounds=6)
    rig.command(CommandKind.LIMIT, rate=700)
    rig.submit(("t", 1, (4, 2, 3)), options=ExecutionOptions(max_in=1, strategy=Strategy.ALL_AT_ONCE))
    rig.settle(rounds=6)
    state = rig.core.state
    assert (state.limit, state.options.window, state.options.max_in) == (700, Window(22 * 60, 6 * 60), 1)
    assert state.moves[T1].strategy is Strategy.ALL_AT_ONCE
    assert rig.asked == []


def test_a_step_that_somebody_cancels_is_reported_and_left() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)))
    begun(rig)
    rig.settle(catching_up=False, rounds=10)
    rig.yard.alter(T0, None)
    rig.settle(catching_up=False)
    assert rig.outcomes() == {T0: Outcome.SUPERSEDED}
    assert set(rig.yard.partitions[T0].replicas) == {1, 2, 3}
    assert len(rig.asked) == 1


def test_a_partition_that_somebody_changes_is_left_and_the_rest_goes_on() -> None:
    rig = planned({"t": [(1, 2, 3), (1, 2, 3)]}, ("t", 0, (4, 2, 3)), ("t", 1, (4, 2, 3)))
    begun(rig)
    rig.settle(catching_up=False, rounds=10)
    rig.yard.alter(T0, (1, 2, 6))
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.SUPERSEDED, T1: Outcome.DONE}
    assert rig.yard.partitions[T0].replicas == (1, 2, 6)


@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_goes_is_reported_and_the_rest_goes_on(anew: bool) -> None:
    rig = planned({"t": [(1, 2, 3)], "u": [(1, 2, 3)]}, ("t", 0, (4, 5, 6)), ("u", 0, (4, 5, 6)))
    begun(rig)
    rig.yard.delete("t")
    if anew:
        rig.yard.make("t", [(1, 2, 3)])
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.GONE, TopicPartition("u", 0): Outcome.DONE}
    closed = [entry.record for entry in rig.journal if isinstance(entry.record, MoveClosed)]
    told = {record.tp: record.reason for record in closed}[T0]
    assert ("made anew" in told) == anew


def test_a_topic_that_metadata_do_not_know_yet_is_asked_for_again() -> None:
    rig = Rig(Yard({"old": [(1, 2)]}))
    token = rig.submit(("new", 0, (1, 3)), ("never", 0, (1, 3)))
    rig.settle(rounds=4)
    rig.yard.make("new", [(1, 2)])
    rig.settle()
    results = {move.tp.topic: move.refused for move in reply_to(rig, token).moves}
    assert results == {"new": None, "never": "there is no topic never"}
    assert rig.outcomes() == {TopicPartition("new", 0): Outcome.DONE}


def test_replicas_that_a_late_broker_told_at_first_are_not_what_a_rollback_restores() -> None:
    rig = Rig(Yard({"t": [(1, 2), (2, 1)]}))
    late = rig.yard.partitions[T1]
    late.replicas = late.isr = (3, 2, 1)
    rig.submit(("t", 0, (4, 2)), ("t", 1, (3, 4)), options=ExecutionOptions(max_concurrent=1))
    begun(rig)
    assert rig.core.state.moves[T1].original == (3, 2, 1)
    late.replicas = late.isr = (2, 1)
    rig.settle(catching_up=False, rounds=40)
    assert rig.core.state.moves[T1].original == (2, 1)
    assert [notice.kind for notice in rig.notices if notice.about == str(T1)] == ["move-rebased"]
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE, T1: Outcome.DONE}


def test_a_plan_does_not_wait_for_an_order_that_no_step_asked_for() -> None:
    rig = planned({"t": [(1, 2, 3)], "u": [(1, 2)]}, ("t", 0, (2, 1, 3)))
    rig.settle()
    rig.submit(("u", 0, (2, 1)))
    rig.settle()
    rig.yard.partitions[T0].replicas = (3, 1, 2)  # As a cancel of Kafka may leave it.
    rig.submit(("t", 0, (3, 2, 4)))
    rig.settle(rounds=6)
    assert rig.core.state.moves[T0].original == (3, 1, 2)
    assert not [notice for notice in rig.notices if notice.kind == "metadata-late"]


def test_a_plan_waits_while_metadata_show_a_partition_as_before_its_last_move() -> None:
    rig = planned({"t": [(1, 2)], "u": [(1, 2)]}, ("t", 0, (2, 1)))
    rig.settle()
    rig.submit(("u", 0, (2, 1)))
    rig.settle()
    late = rig.yard.partitions[T0]
    late.replicas = (1, 2)
    rig.submit(("t", 0, (3, 2)))
    rig.settle(rounds=6)
    assert not rig.core.state.at_work, "the plan is not judged by what a late broker shows"
    assert [notice.about for notice in rig.notices if notice.kind == "metadata-late"] == [str(T0)]
    late.replicas = (2, 1)
    rig.settle()
    assert rig.core.state.moves[T0].original == (2, 1)
    assert rig.core.state.moves[T0].outcome is Outcome.DONE


def test_a_plan_waits_for_late_metadata_no_longer_than_brokers_can_be_late() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (2, 1)))
    rig.settle()
    ended_at_ms = rig.now_ms
    rig.yard.partitions[T0].replicas = (1, 2)
    rig.pass_time(250)
    rig.submit(("t", 0, (3, 2)))
    rig.settle()
    assert rig.core.state.moves[T0].original == (1, 2)
    assert rig.core.state.moves[T0].accepted_at_ms >= ended_at_ms + 30_000


def test_a_plan_is_judged_by_what_several_brokers_agree_on() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (1, 3)))
    asked = [work for work in rig.pending if isinstance(work, ObserveTopics)]
    assert asked == [ObserveTopics(("t",), sure=True)]


def test_a_dead_broker_of_the_target_is_waited_for_by_name() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (6, 2, 3)))
    rig.settle(catching_up=False, rounds=10)
    rig.yard.kill(6)
    rig.settle(catching_up=False, rounds=30)
    assert "broker 6" in (stuck(rig.core.state, rig.core.state.moves[T0]) or "")
    rig.yard.revive(6)
    rig.settle()
    assert rig.outcomes()[T0] is Outcome.DONE


def test_a_dead_broker_gets_no_new_replica_whichever_partitions_name_it() -> None:
    """An outsider's find: refused, or taken on without an end, by whether another partition still named that broker."""
    rig = Rig(Yard({"t": [(1, 2, 3)], "u": [(6, 2, 3)]}))
    rig.yard.kill(6)
    rig.submit(("t", 0, (6, 2, 3)), ("u", 0, (2, 6, 3)))
    rig.settle(rounds=30)
    told, stays = (move.refused for move in reply_to(rig, 1).moves)
    assert (
        told
        == "replicas [6, 2, 3] for t-0 name broker 6, which is not a live broker; live are [1, 2, 3, 4, 5]; start it first, or name a live one"
    )
    assert stays is None
    assert rig.outcomes() == {TopicPartition("u", 0): Outcome.DONE}


def test_what_of_a_plan_does_not_fit_is_refused_by_partition_and_the_rest_goes_on() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3), (2, 3, 1), (1, 2)], "done": [(1, 2)]}))
    orders = (
        MoveOrder(T0, (4, 2, 3), planned_from=(1, 2, 3)),
        MoveOrder(T1, (4, 2, 3), planned_from=(2, 1, 3)),
        MoveOrder(TopicPartition("t", 2), (99, 2)),
        MoveOrder(TopicPartition("t", 7), (1, 2)),
        MoveOrder(TopicPartition("gone", 0), (1, 2)),
        MoveOrder(TopicPartition("done", 0), (1, 2), planned_from=(3, 2)),
    )
    rig.tell(ev.PlanSubmitted("p", orders, ExecutionOptions(), 1))
    rig.settle()
    refused = [move.refused for move in reply_to(rig, 1).moves]
    assert refused == [
        None,
        "the plan was made when t-1 was on [2, 1, 3]; now it is on [2, 3, 1]: make the plan anew",
        "replicas [99, 2] for t-2 name broker 99, which is not a live broker; live are [1, 2, 3, 4, 5, 6]; start it first, or name a live one",
        "topic t has 3 partitions, and no 7",
        "there is no topic gone",
        None,
    ]
    assert rig.outcomes() == {T0: Outcome.DONE, TopicPartition("done", 0): Outcome.DONE}


def test_a_broker_that_is_known_to_nobody_is_refused() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    token = rig.submit(("t", 0, (99, 2, 3)))
    rig.settle()
    assert "99" in str(reply_to(rig, token).error)
    assert rig.journal == []


def test_a_dead_replica_that_stays_holds_a_step_until_the_floor_is_relaxed() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)), options=ExecutionOptions(relax_after_ms=60_000))
    begun(rig)
    rig.yard.kill(3)
    killed_at_ms = rig.now_ms
    rig.settle(rounds=100)
    assert rig.core.state.moves[T0].waits.kind is WaitKind.BROKERS
    assert "broker 3 has been down for at least" in rig.core.state.moves[T0].waits.text
    assert rig.yard.partitions[T0].adding == (4,)
    rig.settle(rounds=400)
    assert any(isinstance(entry.record, FloorRelaxed) for entry in rig.journal)
    assert 3 not in rig.yard.partitions[T0].replicas
    rig.yard.revive(3)
    down_s = (rig.now_ms - killed_at_ms) // 1000
    rig.settle()
    (back,) = [notice.text for notice in rig.notices if notice.kind == "broker-up"]
    least_s = int(back.removeprefix("broker 3 is back after at least ").removesuffix(" s"))
    assert 0 < least_s <= down_s
    assert rig.yard.partitions[T0].replicas == (4, 2, 3)


def test_a_floor_is_relaxed_once_its_copies_are_in_sync() -> None:
    """Only one original is in sync, so the running copy is what the partition needs most."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (1, 2, 4)), options=ExecutionOptions(relax_after_ms=10_000))
    begun(rig)
    rig.yard.kill(2)
    rig.yard.kill(3)
    rig.settle(catching_up=False, rounds=200)
    assert not any(isinstance(entry.record, FloorRelaxed) for entry in rig.journal)
    rig.command(CommandKind.RELAX)
    rig.settle(catching_up=False, rounds=60)
    rig.settle(rounds=60)
    rig.yard.revive(2)
    rig.settle()
    steps = [entry.record.after for entry in rig.journal if isinstance(entry.record, StepBegun)]
    assert steps == [(1, 2, 4), (1, 4), (1, 2, 4)]
    assert rig.yard.partitions[T0].replicas == (1, 2, 4)


def test_a_dead_replica_that_leaves_is_dropped_without_waiting() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.kill(1)
    rig.submit(("t", 0, (4, 2, 3)))
    rig.settle(rounds=60)
    assert rig.yard.partitions[T0].replicas == (4, 2, 3)


def test_throttles_are_set_before_anything_moves_and_given_back_exactly() -> None:
    yard = Yard({"t": [(1, 2, 3)]})
    theirs = ThrottleKey("topic", "t", "leader.replication.throttled.replicas")
    low = ThrottleKey("broker", "2", "leader.replication.throttled.rate")
    yard.settings = {theirs: "9:9", low: "10"}
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 5, 6)), options=ExecutionOptions(throttle=1_000))
    begun(rig)
    assert yard.settings[theirs] == "9:9,0:1,0:2,0:3,0:4,0:5,0:6"
    assert yard.settings[low] == "10"
    assert yard.settings[ThrottleKey("broker", "4", "follower.replication.throttled.rate")] == "1000"
    rig.command(CommandKind.LIMIT, rate=5_000)
    rig.settle(rounds=4, catching_up=False)
    assert yard.settings[ThrottleKey("broker", "4", "follower.replication.throttled.rate")] == "5000"
    rig.settle()
    assert yard.settings == {theirs: "9:9", low: "10"}
    (told,) = [notice.text for notice in rig.notices if notice.kind == "throttle-theirs-again"]
    assert "topic t leader.replication.throttled.replicas = 9:9" in told


def test_a_lower_throttle_of_others_is_told_and_ours_takes_its_place_when_it_goes() -> None:
    yard = Yard({"t": [(1, 2, 3)]})
    low = ThrottleKey("broker", "4", "follower.replication.throttled.rate")
    yard.settings = {low: "10"}
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 2, 3)), options=ExecutionOptions(throttle=1_000))
    rig.settle(catching_up=False, rounds=100)
    told = [notice.text for notice in rig.notices if notice.kind == "throttle-lower"]
    what = "somebody else's throttle holds broker 4 to 10 B/s, less than ours"
    assert told == [f"{what}: it stays, and `shunter throttles clear` removes it"]
    assert view_execution(rig.core.state, Meter(), 1_000, rig.now_ms, rig.core.book.lower_in_force).lower == (
        "broker 4 to 10 B/s"
    )
    del yard.settings[low]
    rig.settle(catching_up=False, rounds=100)
    assert yard.settings[low] == "1000"
    rig.settle()
    assert yard.settings == {}


def test_a_list_of_others_that_puts_ordinary_replication_under_ours_is_told_once() -> None:
    yard = Yard({"t": [(1, 2, 3)]})
    yard.settings = {ThrottleKey("topic", "t", "follower.replication.throttled.replicas"): "*"}
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 2, 3)), options=ExecutionOptions(throttle=1_000))
    rig.settle(catching_up=False, rounds=100)
    (told,) = [notice.text for notice in rig.notices if notice.kind == "throttle-shared"]
    assert told.startswith("topic t lists all replicas as throttled (somebody's `*`): ordinary replication shares")


def test_a_throttle_of_others_that_the_limit_is_raised_above_is_told() -> None:
    yard = Yard({"t": [(1, 2, 3)]})
    low = ThrottleKey("broker", "4", "follower.replication.throttled.rate")
    yard.settings = {low: "2000"}
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 2, 3)), options=ExecutionOptions(throttle=1_000))
    rig.settle(catching_up=False, rounds=100)
    assert not [notice for notice in rig.notices if notice.kind == "throttle-lower"]
    rig.command(CommandKind.LIMIT, rate=5_000)
    rig.settle(catching_up=False, rounds=100)
    assert yard.settings[low] == "2000"
    assert rig.core.book.lower_in_force == {low: 2_000}
    rig.notices.clear()
    rig.crash()
    rig.settle(catching_up=False, rounds=100)
    told = [notice.text for notice in rig.notices if notice.kind == "throttle-lower"]
    assert [each.partition("it stays, ")[2] for each in told] == ["and `shunter throttles clear` removes it"]


def test_settings_are_read_anew_for_each_execution() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)), options=ExecutionOptions(throttle=1_000))
    rig.settle()
    theirs = ThrottleKey("broker", "4", "follower.replication.throttled.rate")
    rig.yard.settings = {theirs: "5000"}
    rig.submit(("t", 0, (1, 2, 3)), options=ExecutionOptions(throttle=1_000))
    rig.settle()
    assert rig.yard.settings == {theirs: "5000"}


def test_a_throttle_that_somebody_changed_is_left_to_them() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 5, 6)), options=ExecutionOptions(throttle=1_000))
    begun(rig)
    key = ThrottleKey("broker", "4", "follower.replication.throttled.rate")
    rig.yard.settings[key] = "77"
    rig.settle()
    assert rig.yard.settings == {key: "77"}
    assert any(notice.kind == "throttle-left" for notice in rig.notices)


def test_a_step_that_the_cluster_refuses_for_good_is_given_up_and_the_rest_goes_on() -> None:
    yard = Yard({"t": [(1, 2, 3), (1, 2, 3)]})
    yard.refuse[T0] = ErrorCode.POLICY_VIOLATION
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 2, 3)), ("t", 1, (4, 2, 3)))
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.REFUSED, T1: Outcome.DONE}
    assert "POLICY_VIOLATION" in rig.core.state.moves[T0].reason


def test_a_factor_that_somebody_changed_before_a_step_is_not_changed_back() -> None:
    """KIP-860: the controller refuses a step that would. Without that, the step would undo the other tool's change."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)))
    while not any(isinstance(work, AlterReassignments) for work in rig.pending):
        rig.deliver()
    partition = rig.yard.partitions[T0]
    partition.replicas = partition.isr = (1, 2, 3, 5)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.SUPERSEDED}
    assert rig.yard.partitions[T0].replicas == (1, 2, 3, 5)
    assert "INVALID_REPLICATION_FACTOR" in "".join(notice.text for notice in rig.notices)


def test_a_cordoned_broker_is_refused_by_name_before_anything_is_asked() -> None:
    """Kafka 4.4.0 refuses a target with such a broker even if its replica is there already (KIP-1066)."""
    rig = Rig(Yard({"t": [(1, 2, 3), (1, 2, 3)]}))
    rig.yard.spaces = {path: LogDirSpace(100, 50, cordoned=True) for path in rig.yard.paths}
    rig.submit(("t", 0, (4, 2, 3)), ("t", 1, (1, 2, 3)))
    rig.settle()
    refused = {move.tp: move.refused for move in reply_to(rig, 1).moves}
    assert refused[T1] is None, "nothing is asked for"
    assert "broker 4 is cordoned, and Kafka takes no target for t-0 that names it" in str(refused[T0])
    assert rig.asked == []


def test_a_cordoned_log_dir_is_refused_unless_the_replica_is_there() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3), (1, 2, 3)]}))
    rig.yard.spaces["/fast"] = LogDirSpace(100, 50, cordoned=True)
    rig.yard.spaces["/d"] = LogDirSpace(100, 50, cordoned=True)
    orders = (MoveOrder(T0, (1, 2, 3), None, ((1, "/fast"),)), MoveOrder(T1, (1, 2, 3), None, ((1, "/d"),)))
    rig.tell(PlanSubmitted("p", orders, ExecutionOptions(), 1))
    rig.settle()
    refused = {move.tp: move.refused for move in reply_to(rig, 1).moves}
    assert refused[T1] is None
    assert "log dir /fast of broker 1 is cordoned" in str(refused[T0])


def test_a_request_that_is_lost_is_asked_again_only_if_it_did_not_arrive() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)))
    while not any(isinstance(work, AlterReassignments) for work in rig.pending):
        rig.deliver()
    rig.deliver(next(i for i, work in enumerate(rig.pending) if isinstance(work, AlterReassignments)), lost=True)
    rig.settle(catching_up=False, rounds=30)
    assert len(rig.asked) == 1
    rig.settle()
    assert rig.yard.partitions[T0].replicas == (4, 2, 3)


def test_a_rollback_with_too_few_originals_in_sync_waits() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 4)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    begun(rig)
    rig.yard.catch_up(T0)
    rig.yard.kill(2)
    rig.yard.kill(1)
    assert rig.yard.partitions[T0].leader == 3
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False, rounds=60)
    assert rig.yard.partitions[T0].replicas == (3, 4, 1, 2)
    assert "live and in sync" in rig.core.state.moves[T0].waits.text
    rig.yard.revive(1)
    rig.yard.revive(2)
    rig.settle()
    assert rig.yard.partitions[T0].replicas == (1, 2)


def test_steps_begin_only_in_the_time_window() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.now_ms = 12 * 3_600_000
    rig.submit(("t", 0, (4, 2, 3)), options=ExecutionOptions(window=Window(22 * 60, 6 * 60)))
    rig.settle(rounds=20)
    assert rig.asked == []
    assert rig.core.state.moves[T0].waits == Wait(WaitKind.WINDOW, "waits for its time window")
    rig.now_ms = 23 * 3_600_000
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_what_a_topic_weighed_is_forgotten_with_it() -> None:
    """Found by simulation: a move of a topic that was made anew waited for a disk with room for the former topic."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)))
    rig.settle()
    assert any(tp == T0 for _broker, tp in rig.core.state.cluster.sizes)
    rig.yard.delete("t")
    rig.yard.make("t", [(1, 2, 3)])
    rig.tell(ev.TopicsObserved({"t": rig.yard.topic("t")}, dict.fromkeys(rig.yard.up), rig.yard.controller, rig.now_ms))
    cluster = rig.core.state.cluster
    assert not any(tp == T0 for known in (cluster.sizes, cluster.sizes_at_ms, cluster.futures) for _broker, tp in known)


def test_a_pause_takes_back_no_step_that_has_ended_unseen() -> None:
    """Found by simulation: a paused move's step had ended, and another target copied dropped replicas unthrottled."""
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 4)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    begun(rig)
    running = ObservedPartition((3, 4, 1, 2), (1, 2), 1, ())
    put_off = undo(rig.core.state.moves[T0], running, frozenset({1, 2, 3, 4}), 1, put_off=True)
    assert isinstance(put_off, Begin)
    assert put_off.cancels, "a cancel of what is over does nothing"


def test_a_greater_target_takes_the_place_of_a_step_that_was_never_taken_on() -> None:
    """Found by simulation: a replica that stays was out of sync, so the former target's step was asked for again."""
    rig = planned({"t": [(1, 3)]}, ("t", 0, (2,)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    begun(rig)
    move = rig.core.state.moves[T0]
    move.target = (3, 2, 1)
    turned = undo(move, ObservedPartition((1, 3), (1,), 1, (3,)), frozenset({1, 2, 3}), 1, running=False)
    assert isinstance(turned, Begin)
    assert (turned.after, turned.cancels) == ((3, 2, 1), False)


def test_a_step_is_not_asked_for_again_that_drops_a_wanted_broker_that_is_down() -> None:
    """Found by simulation: the broker was back in sync just before the step ended, and the step dropped it."""
    rig = planned({"t": [(2, 1)]}, ("t", 0, (3, 2)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    begun(rig)
    move = rig.core.state.moves[T0]
    move.target = (1, 2, 3)
    down = ObservedPartition((2, 1), (2,), 2, (1,))
    turned = undo(move, down, frozenset({2, 3}), 1, running=False)
    assert isinstance(turned, Begin)
    assert (turned.after, turned.cancels) == ((1, 2, 3), False)
    assert undo(move, down, frozenset({2, 3}), 1) is None, "a step that the cluster carries out goes on"


def test_a_journal_of_another_cluster_is_refused() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)))
    begun(rig)
    stranger = Rig(Yard({"t": [(1, 2, 3)]}))
    stranger.journal = rig.journal
    stranger.core.__init__()
    stranger.tell(ev.JournalLoaded(tuple(rig.journal), "another"))
    assert stranger.finish is not None
    assert "belongs to cluster yard" in str(stranger.finish.fatal)


def test_a_cluster_whose_answer_does_not_come_is_silent_before_the_question_is_given_up() -> None:
    """An outsider's find: for 35 s after all brokers had died, the service "carried out" ten moves."""
    rig = waiting_for_a_list()
    asked_ms, cluster = rig.now_ms, rig.core.state.cluster
    rig.pass_time(SILENT_MS - 1)
    assert cluster.silent_since_ms is None
    assert rig.wake_at_ms is not None
    assert rig.wake_at_ms <= asked_ms + SILENT_MS
    rig.pass_time(1)
    assert cluster.silent_since_ms == asked_ms
    rig.settle()
    assert (cluster.silent_since_ms, rig.outcomes()) == (None, {T0: Outcome.DONE})


def test_a_cluster_that_answered_something_after_the_question_is_silent_once_that_is_long_ago() -> None:
    """An SRE's find: metadata came after a list was asked for, then all brokers died: for 43 s nothing was silent."""
    rig = waiting_for_a_list()
    rig.pass_time(2_000)
    cluster = rig.core.state.cluster
    cluster.brokers_at_ms = answered_ms = rig.now_ms
    rig.pass_time(SILENT_MS - 1)
    assert cluster.silent_since_ms is None
    assert rig.wake_at_ms is not None
    assert rig.wake_at_ms <= answered_ms + SILENT_MS
    rig.pass_time(1)
    assert cluster.silent_since_ms == answered_ms


def test_a_cluster_that_does_not_answer_is_told_and_asked_again() -> None:
    rig = waiting_for_a_list()
    rig.deliver(next(i for i, work in enumerate(rig.pending) if isinstance(work, ListReassignments)), lost=True)
    assert rig.core.state.cluster.silent_since_ms == rig.now_ms
    rig.settle()
    assert rig.core.state.cluster.silent_since_ms is None
    assert rig.outcomes() == {T0: Outcome.DONE}


def waiting_for_a_list() -> Rig:
    rig = begun(submitted())
    while not any(isinstance(work, ListReassignments) for work in rig.pending):
        rig.pass_time(250)
    return rig


def submitted() -> Rig:
    return planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)))


@pytest.mark.parametrize(
    ("name", "rule"),
    [("big/0", "other than ASCII alphanumerics"), ("n" * 250, "longer than the max allowed length 249")],
)
def test_a_name_that_no_topic_can_have_is_refused_by_kafkas_rule_and_the_rest_goes_on(name: str, rule: str) -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    token = rig.submit((name, 0, (3, 4)), ("t", 0, (3, 2)))
    rig.settle()
    reply = rig.replies[token]
    assert isinstance(reply, PlanReply)
    assert reply.error is None
    refused = {result.tp: result.refused for result in reply.moves}
    assert rule in (refused[TopicPartition(name, 0)] or "")
    assert refused[T0] is None
    assert rig.yard.partitions[T0].replicas == (3, 2)


def test_a_rollback_after_a_crash_does_not_call_itself_instant_while_a_dropping_step_may_have_ended() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 2)))
    begun(rig)
    rig.settle(catching_up=False, rounds=40)
    rig.start()
    token = rig.command(CommandKind.ROLL_BACK)
    reply = rig.replies[token]
    assert isinstance(reply, CommandReply)
    assert "at most" in reply.text
    assert "instant" not in reply.text


def test_while_a_process_stands_still_it_sees_nothing_that_is_strange() -> None:
    """World 97432703: the process stood still for fifteen seconds, and that time counted as time of strange looks."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)))
    begun(rig)
    rig.settle(catching_up=False, rounds=10)
    rig.yard.alter(T0, None)
    rig.settle(catching_up=False, rounds=20)
    assert rig.core.state.moves[T0].status.doubt is not None
    rig.pending.clear()
    rig.pass_time(60_000)
    assert rig.outcomes() == {T0: None}
    rig.settle(catching_up=False)
    assert rig.outcomes() == {T0: Outcome.SUPERSEDED}


def test_a_plan_says_which_partitions_it_leaves_without_a_spare_replica() -> None:
    """An outsider's find: a cut to one replica went through without a word."""
    yard = Yard({"t": [(1, 2, 3), (1, 2, 3), (1,)], "u": [(1, 2, 3)], "v": [(1, 2, 3)]})
    yard.min_isr["u"] = 3
    rig = Rig(yard)
    yard.min_isr["v"] = 2
    cuts = (("t", 0, (1,)), ("t", 1, (1, 2)), ("t", 2, (4,)), ("u", 0, (1, 2)), ("v", 0, (1, 2)))
    reply = rig.submit(*cuts, options=ExecutionOptions(force=True))
    rig.settle()
    assert list(told_thin((move.tp, move.thin) for move in reply_to(rig, reply).moves)) == [
        "1 partition is left with one replica: what it has is gone with its broker (t-0)",
        "1 partition is left with fewer replicas than min.insync.replicas (3): acks=all needs them all, and is always refused by old brokers (3.4) (u-0)",
        "1 partition is left with as many replicas as min.insync.replicas: one that is down stops acks=all (v-0)",
    ]
