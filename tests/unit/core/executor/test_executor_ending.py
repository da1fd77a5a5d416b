"""Paused and stuck moves have a reason instead of an end; the end of moves without bytes is estimated by count."""

from dataclasses import replace

import pytest
from apache_yard import SIZE, LateRig, Rig, Yard, until

from shunter.cli.execution.display import told_view
from shunter.core.executor.apply import apply
from shunter.core.executor.ending import Ending, estimate_by_count, when_it_ends
from shunter.core.executor.estimates.eta import bytes_left, estimate
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.ready import CommandReply
from shunter.core.executor.state import CurrentStep, ExecutorState, Move, MoveEnd
from shunter.core.executor.waits import Wait, WaitKind
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LOWEST_RATE
from shunter.model.execution import (
    CommandKind,
    Direction,
    ExecutionOptions,
    JournalEntry,
    MoveAccepted,
    ObservedPartition,
    ObservedTopic,
    Outcome,
    PlanAccepted,
    ReplicaSize,
    SizeObserved,
    ThrottleKey,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import ExecutionView, told_eta, view_execution, view_of

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
GROWTH = 10_000
"""The rate of each copy, bytes per second."""


def copying(count: int, *, size: int, limit: int | None = None, growth: int = GROWTH) -> tuple[ExecutorState, Meter]:
    """This many copies into brokers 10, 11, … from broker 1, half a minute after they began."""
    state = ExecutorState(running=True, limit=limit)
    seen = {number: ObservedPartition((1,), (1,), 1) for number in range(count)}
    state.cluster.topics["t"] = ObservedTopic(None, seen)
    state.cluster.brokers = {1: None, **{10 + number: None for number in range(count)}}
    for number in range(count):
        tp = TopicPartition("t", number)
        move = Move(tp, None, (1,), (10 + number,), Strategy.INCREMENTAL, size, (), False, 0, current=(1,))
        move.step, move.began_at_ms = CurrentStep(1, (1,), (10 + number,), "", False, 0), 0
        state.moves[tp] = move
    meter = Meter()
    for second in range(0, 31, 2):
        for tp, move in state.moves.items():
            grown = 0 if move.paused else second * growth
            state.cluster.sizes[move.target[0], tp] = ReplicaSize(min(size, grown), "/d")
        meter.sample(state, second * 1000, {(move.target[0], tp) for tp, move in state.moves.items()})
    return state, meter


def ending(state: ExecutorState, meter: Meter) -> Ending:
    return when_it_ends(state, meter, 30_000, {})


def test_what_is_paused_has_no_end_and_what_goes_on_beside_it_has_its_own() -> None:
    state, meter = copying(2, size=600_000)
    state.moves[T0].paused = True
    found = ending(state, meter)
    assert found.held == "1 paused until `shunter resume`"
    assert found.estimate is not None
    assert found.estimate.remaining_bytes == 300_000, "of what goes on alone"
    state.moves[T1].paused = True
    assert ending(state, meter) == Ending(None, "no end: 2 paused until `shunter resume`")
    shown = told_eta(view_execution(state, meter, None, 30_000))
    assert shown == "no end: 2 paused until `shunter resume`"


def test_an_end_that_is_not_known_yet_says_when_it_will_be() -> None:
    state, _meter = copying(2, size=600_000)
    assert told_eta(view_execution(state, Meter(), None, 30_000)) == (
        "no ETA yet: it is known after about 4 s of copying"
    )
    state, _meter = copying(2, size=0)
    assert told_eta(view_execution(state, Meter(), None, 30_000)) == (
        "no ETA yet: it is known after 5 moves have ended"
    )


def test_what_a_dead_broker_blocks_has_no_end_but_a_reason_and_the_way_out() -> None:
    state, meter = copying(1, size=600_000)
    del state.cluster.brokers[10]
    found = ending(state, meter)
    assert found.estimate is None
    assert "can't end without broker 10, which is down" in found.held
    assert "`shunter rollback` or `shunter stop`" in found.held


def test_a_move_that_waits_for_a_leader_has_a_reason_instead_of_an_end() -> None:
    yard = Yard({"t": [(1, 2)]})
    yard.kill(1)
    yard.kill(2)
    rig = Rig(yard)
    rig.submit(("t", 0, (3, 4)), options=ExecutionOptions(strategy=Strategy.ALL_AT_ONCE))
    rig.settle(rounds=40)
    assert rig.asked == []
    found = when_it_ends(rig.core.state, Meter(), rig.now_ms, {})
    assert found.estimate is None
    assert found.held.startswith(
        "no end: 1 stuck: it can't end without broker 2, which is down: no live broker has all records"
    )


@pytest.mark.parametrize("kind", WaitKind)
def test_a_wait_that_the_executor_can_not_end_has_no_end(kind: WaitKind) -> None:
    state, meter = copying(1, size=600_000)
    state.moves[T0].waits = Wait(kind, "waits: broker 4 has been down for 7 s", "waits: broker 4 is down")
    endless = kind in (WaitKind.BROKERS, WaitKind.CORDON, WaitKind.DISK, WaitKind.THROTTLE, WaitKind.WINDOW)
    found = ending(state, meter)
    assert found.held == ("no end: 1 waiting: broker 4 is down" if endless else "")
    assert (found.estimate is None) is endless


@pytest.mark.parametrize("limit", [None, 50_000])
def test_nobody_knows_when_copies_under_somebodys_low_rate_end(limit: int | None) -> None:
    """An outsider's find: "ends in 15 s" of what was not there 80 s later: others' replicas shared the rate."""
    state, meter = copying(2, size=600_000, limit=limit)
    slow = {ThrottleKey("broker", "10", FOLLOWER_RATE): 20_000}
    if limit is None:
        state.others[ThrottleKey("topic", "t", FOLLOWER_REPLICAS)] = "0:10"
    found = when_it_ends(state, meter, 30_000, slow)
    assert found.held == "1 at somebody's rate, which others may share (broker 10 to 20.0 kB/s)"
    assert found.estimate is not None, "the other one ends"
    state.moves.pop(T1)
    assert when_it_ends(state, meter, 30_000, slow) == Ending(None, f"end unknown: {found.held}")
    fast = {ThrottleKey("broker", "10", FOLLOWER_RATE): 2_000_000}
    assert when_it_ends(state, meter, 30_000, fast).held == ""


def test_the_same_wait_of_many_moves_is_told_once_whatever_it_has_lasted() -> None:
    state, meter = copying(2, size=600_000)
    for tp, seconds in ((T0, 5), (T1, 9)):
        told = f"waits: broker 4 has been down for {seconds} s"
        state.moves[tp].waits = Wait(WaitKind.BROKERS, told, "waits: broker 4 is down")
    assert ending(state, meter).held == "no end: 2 waiting: broker 4 is down"


def test_a_copy_that_should_be_over_by_now_does_not_end_in_0_seconds() -> None:
    state, meter = copying(1, size=300_000)
    assert ending(state, meter) == Ending(None, "the last copies are about to be in sync")
    state, meter = copying(1, size=330_000)
    late = when_it_ends(state, meter, 60_000, {})
    assert late == Ending(None, "the end is overdue")


def goes_quiet(state: ExecutorState, meter: Meter, until_s: int) -> Ending:
    """The ending after looks that found no new byte from second 30 to `until_s`."""
    for second in range(32, until_s + 1, 2):
        meter.sample(state, second * 1000, {(move.target[0], tp) for tp, move in state.moves.items()})
    return when_it_ends(state, meter, until_s * 1000, {})


def rate_after(state: ExecutorState, meter: Meter, second: int) -> float:
    """The rate after a look that found no new byte."""
    meter.sample(state, second * 1000, {(move.target[0], tp) for tp, move in state.moves.items()})
    found = estimate(state, meter, second * 1000)
    assert found is not None
    return found.bytes_per_s


def test_a_rate_falls_while_nothing_is_copied() -> None:
    """An outsider's find: it rose from 767 kB/s to 1.6 MB/s while somebody's throttle let nothing through."""
    state, meter = copying(1, size=600_000, limit=GROWTH)
    rates = [rate_after(state, meter, second) for second in range(32, 57, 2)]
    assert rates == sorted(set(rates), reverse=True)


def test_copies_that_stand_still_have_no_end_and_no_rate() -> None:
    state, meter = copying(1, size=600_000)
    assert goes_quiet(state, meter, 58).estimate is not None, "copies may pause for a while"
    assert goes_quiet(state, meter, 62) == Ending(None, "end unknown: nothing was copied for 32 s")
    assert view_execution(state, meter, None, 62_000).bytes_per_s is None
    state.cluster.sizes[10, T0] = ReplicaSize(310_000, "/d")
    meter.sample(state, 64_000, {(10, T0)})
    assert when_it_ends(state, meter, 64_000, {}).estimate is not None, "bytes come again"


@pytest.mark.parametrize("direction", [Direction.STOP, Direction.BACK])
def test_turned_moves_that_copy_nothing_have_no_end_by_the_pace_of_copies(direction: Direction) -> None:
    """Found by hand: moves that were told to stop had 3 min 21 s left, and ended within 3 s."""
    state, meter = copying(8, size=600_000)
    for number, move in enumerate(state.moves.values()):
        if number < 6:
            move.ended, move.step = MoveEnd(Outcome.DONE, "", 1_000 * number), None
        else:
            move.direction = direction
    assert ending(state, meter) == Ending(None, "nothing is left to copy")


def test_a_stopped_move_that_ends_only_with_its_copy_has_that_to_copy() -> None:
    """An outsider's find: "0 B left" was said for minutes while nine stopped moves still copied 52 MB."""
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.yard.min_isr["t"] = 2
    rig.yard.partitions[T0].have[3] = SIZE // 4
    rig.submit(("t", 0, (1, 3)))
    rig.settle(catching_up=False, rounds=10)
    rig.yard.kill(2)
    rig.settle(catching_up=False, rounds=20)
    told = rig.command(CommandKind.STOP)
    rig.settle(catching_up=False, rounds=40)
    (move,) = rig.core.state.open_moves()
    assert "ends only when what it copies" in rig.replies[told].text
    assert bytes_left(rig.core.state, move, rig.core.meter.present) == {3: SIZE - SIZE // 4}
    view = view_execution(rig.core.state, rig.core.meter, None, rig.now_ms)
    assert view.to_copy == (SIZE - SIZE // 4, SIZE)
    assert "nothing is left" not in told_eta(view)


def test_copies_stand_still_only_since_they_began() -> None:
    """Found by hand: of an execution that was 3 s old nothing had been copied for 172 s."""
    state, meter = copying(1, size=600_000)
    goes_quiet(state, meter, 62)
    step = state.moves[T0].step
    assert step is not None
    state.moves[T0].step = replace(step, begun_at_ms=60_000)
    assert "nothing was copied" not in when_it_ends(state, meter, 62_000, {}).held


def test_a_low_throttle_explains_longer_pauses() -> None:
    state, meter = copying(1, size=600_000, limit=50_000)
    assert goes_quiet(state, meter, 62).estimate is not None, "three fetches take 33 s under any throttle"
    assert goes_quiet(state, meter, 64).held == "end unknown: nothing was copied for 34 s"


@pytest.mark.parametrize("setting", [FOLLOWER_RATE, LEADER_RATE])
def test_a_throttle_of_somebody_elses_that_holds_is_believed(setting: str) -> None:
    state, meter = copying(1, size=120_000_000, limit=2_000_000, growth=1_000_000)
    broker = "10" if setting == FOLLOWER_RATE else "1"
    # The measurement has a burst of the quota. The throttle that holds lets fewer bytes through.
    found = estimate(state, meter, 30_000, others={ThrottleKey("broker", broker, setting): 200_000})
    assert found is not None
    assert found.left_ms == pytest.approx(90_000_000 / (200_000 * 0.9) * 1000, rel=0.1)
    lowest = estimate(state, meter, 30_000, others={ThrottleKey("broker", broker, setting): 20_000})
    assert lowest is not None
    assert lowest.left_ms == pytest.approx(found.left_ms * 200_000 / LOWEST_RATE, rel=0.1), "one fetch in 11 s"


def test_moves_without_bytes_end_by_their_count() -> None:
    state = ExecutorState(running=True)
    for number in range(100):
        tp = TopicPartition("t", number)
        move = Move(tp, None, (1,), (2,), Strategy.INCREMENTAL, 0, (), False, 0, current=(1,))
        if number < 50:
            move.began_at_ms, move.ended = 0, MoveEnd(Outcome.DONE, "", 200 * (number + 1))
        state.moves[tp] = move
    found = when_it_ends(state, Meter(), 10_000, {})
    assert found.held == ""
    assert found.estimate is not None
    assert found.estimate.left_ms == pytest.approx(10_000, rel=0.01)
    assert found.estimate.low_ms < 10_000 < found.estimate.high_ms
    assert told_eta(view_execution(state, Meter(), None, 10_000)).startswith("ends in 10 s (")
    assert estimate_by_count(state, 50, 2_000) is None, "too early to tell"


def test_a_size_that_is_not_known_yet_is_asked_for_counted_and_kept() -> None:
    """An outsider's find: 5 MB of a broker that was frozen at the plan were left out of all progress."""
    rig = LateRig(Yard({"t": [(1, 2), (2, 1)]}))
    rig.silent_disks = frozenset({1})
    rig.yard.partitions[T0].have[3] = 400
    rig.submit(("t", 0, (1, 3)), ("t", 1, (2, 3)))
    until(rig, lambda: len(rig.asked) == 2, 2_000, "no step was asked for")
    for _ in range(40):
        until(rig, lambda: not rig.pending, 80, "no end of requests")
        rig.pass_time(250)

    def view() -> ExecutionView:
        return view_execution(rig.core.state, rig.core.meter, None, rig.now_ms)

    assert (view().unsized, view().to_copy[1], view().share) == (1, SIZE, 0.0)
    assert told_eta(view()) == "end unknown: the size of 1 move is not known yet"
    assert "0.0% · 2 moving · 0 B left of 1.0 kB, and 1 move of unknown size" in told_view(view())
    rig.silent_disks = frozenset()
    until(rig, lambda: not view().unsized, 80, "the size was not asked for")
    assert view().to_copy == (SIZE - 400, 2 * SIZE)
    rig.start()
    assert (rig.core.state.moves[T0].size_bytes, rig.core.state.moves[T0].sized) == (SIZE, True), "by the journal"


def test_a_partition_that_grows_while_it_is_copied_is_told_at_its_size_of_now() -> None:
    rig = Rig(Yard({"t": [(1, 2), (2, 1)]}))
    rig.submit(("t", 0, (1, 3)), ("t", 1, (2, 3)))
    rig.settle(catching_up=False, rounds=20)
    big = 50_000_000

    def to_copy() -> tuple[int, int]:
        return view_execution(rig.core.state, rig.core.meter, None, rig.now_ms).to_copy

    assert to_copy()[1] == 2 * SIZE
    rig.yard.partitions[T0].have |= {1: big, 3: big // 2}
    rig.settle(catching_up=False, rounds=200)
    assert to_copy() == (big - big // 2, big + SIZE)
    rig.yard.partitions[T0].have[1] = big + big // 50
    written = len(rig.journal)
    rig.settle(catching_up=False, rounds=400)
    sizes = [entry for entry in rig.journal[written:] if isinstance(entry.record, SizeObserved)]
    assert sizes == [], "a little growth is not written down"


def test_a_plan_made_anew_by_later_metadata_keeps_that_a_size_is_unknown() -> None:
    rig = LateRig(Yard({"t": [(1, 2), (2, 1)]}))
    rig.silent_disks = frozenset({1, 2, 3})
    late = rig.yard.partitions[T1]
    late.replicas = late.isr = (3, 2, 1)
    rig.submit(("t", 0, (4, 2)), ("t", 1, (3, 4)), options=ExecutionOptions(max_concurrent=1))
    until(rig, lambda: T1 in rig.core.state.moves, 2_000, "the plan was not taken on")
    late.replicas = late.isr = (2, 1)
    until(rig, lambda: rig.core.state.moves[T1].original == (2, 1), 2_000, "the move was not made anew")
    made = [entry.record for entry in rig.journal if isinstance(entry.record, MoveAccepted) and entry.record.tp == T1]
    assert [(each.size_bytes, each.sized) for each in made] == [(0, False), (0, False)]


def test_what_an_earlier_copy_had_does_not_count_for_the_next_one() -> None:
    """An outsider's find: drain, undo, drain again: 95 % was "done" by replicas that had been dropped since."""
    state, meter = ExecutorState(running=True), Meter()
    state.cluster.brokers = dict.fromkeys((1, 2, 3))
    for begun_at_ms, had in ((1_000, SIZE), (5_000, 10)):
        move = Move(T0, None, (1, 2), (1, 3), Strategy.INCREMENTAL, SIZE, (), False, 0, current=(1, 2))
        state.moves[T0] = move
        assert bytes_left(state, move, meter.present) == {3: SIZE}, "nothing of it is under way"
        move.step = CurrentStep(1, (1, 2), (1, 2, 3), "", cancels=False, begun_at_ms=begun_at_ms, accepted=True)
        state.cluster.sizes[3, T0] = ReplicaSize(had, "/d")
        meter.sample(state, begun_at_ms + 500, {(3, T0)})
        assert bytes_left(state, move, meter.present) == {3: SIZE - had}
    assert meter.received == {3: SIZE + 10}
    # A step that takes another one's place goes on with its copy.
    move.step = CurrentStep(2, (1, 2), (1, 3), "", cancels=False, begun_at_ms=7_000, redirected_from=((1, 2, 3),))
    state.cluster.sizes[3, T0] = ReplicaSize(20, "/d")
    meter.sample(state, 7_500, {(3, T0)})
    assert meter.received == {3: SIZE + 20}


def test_a_plan_anew_does_not_forget_a_size_or_that_it_is_unknown() -> None:
    state = ExecutorState()
    accepted = MoveAccepted(T0, None, (1,), (2,), Strategy.INCREMENTAL, 0, sized=False)
    empty, sized = accepted._replace(sized=True), SizeObserved(T0, 5)
    known = [(0, False), (0, False), (5, True), (5, True), (7, True), (0, True)]
    plans = (accepted, accepted, sized, accepted, accepted._replace(size_bytes=7, sized=True), empty)
    for number, record in enumerate((PlanAccepted("p", "c", ExecutionOptions()), *plans), 1):
        apply(state, JournalEntry(number, 0, "test", record))
        if number > 1:
            assert (state.moves[T0].size_bytes, state.moves[T0].sized) == known[number - 2]


def test_an_execution_that_only_gives_throttles_back_says_so() -> None:
    yard = Yard({"t": [(1, 2)]})
    rig = Rig(yard)
    rig.submit(("t", 0, (6, 2)), options=ExecutionOptions(throttle=1_000))
    rig.settle(catching_up=False, rounds=40)
    yard.kill(6)
    rig.settle(catching_up=False, rounds=30)
    rig.command(CommandKind.STOP)
    rig.settle(rounds=40)
    assert rig.finish is None
    view = view_execution(rig.core.state, Meter(), None, rig.now_ms)
    told = "all moves ended; throttles are owed to broker 6 until it is up"
    assert view.held == told, "nobody gives anything back to the dead"
    assert told in told_view(view)


def test_who_waits_for_throttles_keeps_its_own_moves_beside_a_plan_that_comes() -> None:
    """An outsider's find: the end of the first command was that of the plan which another shell gave meanwhile."""
    yard = Yard({"t": [(1, 2)], "u": [(1, 2)]})
    rig = Rig(yard)
    rig.core.own.plan_id = "plan-1"
    rig.submit(("t", 0, (6, 2)), options=ExecutionOptions(throttle=1_000))
    rig.settle(catching_up=False, rounds=40)
    yard.kill(6)
    rig.settle(catching_up=False, rounds=30)
    rig.command(CommandKind.STOP)
    rig.settle(rounds=40)
    assert rig.finish is None
    rig.submit(("u", 0, (3, 2)))
    rig.settle(rounds=80)
    until(rig, lambda: rig.finish is not None, 2_000, "the executor stays")
    state, own = rig.core.state, rig.core.own.moves
    whole = view_execution(state, Meter(), None, rig.now_ms)
    assert (whole.counts, view_of(whole, state, Meter(), own.values()).counts) == ({"done": 1}, {"stopped": 1})
    assert [each.kind for each in rig.notices].count("plan-joined") == 1


def test_stuck_moves_are_counted_together_whatever_their_reasons() -> None:
    """An outsider's find: "3 stuck" above six of them, and three sentences alike."""
    yard = Yard({"t": [(1, 2)] * 3, "u": [(1, 3)]})
    rig = Rig(yard)
    rig.submit(*(("t", at, (5, 2)) for at in range(3)), ("u", 0, (6, 3)))
    rig.settle(catching_up=False, rounds=40)
    yard.kill(5)
    rig.settle(catching_up=False, rounds=40)
    held = when_it_ends(rig.core.state, Meter(), rig.now_ms, {}).held
    assert held.startswith("3 stuck: they can't end without broker 5, which is down")
    yard.kill(6)
    rig.settle(catching_up=False, rounds=40)
    held = when_it_ends(rig.core.state, Meter(), rig.now_ms, {}).held
    assert held.startswith("no end: 4 stuck, of which 3 because: they can't end without broker 5, which is down")


def test_a_stop_says_what_ends_the_move_if_its_copy_gets_in_sync_meanwhile() -> None:
    """An outsider's find: the stop that was advised promised an end, and its copy had just ended."""
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.submit(("t", 0, (1, 5, 3)))
    rig.settle(catching_up=False, rounds=40)
    rig.yard.kill(3)
    rig.settle(catching_up=False, rounds=40)
    rig.yard.partitions[T0].isr += (5,)  # Nobody has seen that yet.
    token = rig.command(CommandKind.STOP)
    rig.settle(catching_up=False, rounds=1)
    reply = rig.replies[token]
    assert isinstance(reply, CommandReply)
    assert (
        "it stays, and its step waits for what is down (t-0): `shunter stop --force` then gives the copy up"
        in reply.text
    )
    rig.settle(catching_up=False, rounds=40)
    assert rig.outcomes() == {T0: None}
    rig.command(CommandKind.STOP, force=True)
    rig.settle(catching_up=False, rounds=40)
    assert rig.outcomes() == {T0: Outcome.STOPPED}
