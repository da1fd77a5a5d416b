"""The rolling schedule's bounds and orders, the throttle's adaptation, log dirs, and the ETA."""

import pytest
from apache_yard import SIZE, Rig, Yard, planned, until_asked

from shunter.core.executor import events as ev
from shunter.core.executor.apply import apply
from shunter.core.executor.estimates.eta import GUESSED_BANDWIDTH, STEP_S, estimate, forecast
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.orders import decide_command
from shunter.core.executor.ready import Collected
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.throttling.pressure import ADAPT_EVERY_MS, SLOW_MS, Pressure, decide_limit
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS
from shunter.model.execution import (
    Command,
    CommandKind,
    ExecutionOptions,
    JournalEntry,
    LimitChanged,
    MoveAccepted,
    MoveOrder,
    Order,
    Outcome,
    PlanAccepted,
    RateObserved,
    ReplicaSize,
    ThrottleKey,
)
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Strategy

T0 = TopicPartition("t", 0)


def until_quiet(rig: Rig, rounds: int = 12) -> Rig:
    rig.settle(catching_up=False, rounds=rounds)
    return rig


def test_a_bound_is_changed_while_copies_run_and_holds_after_a_crash() -> None:
    rig = Rig(Yard({"t": [(1, 2), (1, 2), (1, 2)]}))
    orders = tuple(MoveOrder(TopicPartition("t", n), (4, 2)) for n in range(3))
    rig.tell(ev.PlanSubmitted("p", orders, ExecutionOptions(max_in=1), 1))
    until_quiet(rig)
    assert len(rig.asked) == 1
    rig.tell(ev.CommandReceived(Command(CommandKind.BOUND, bounds=(("max_in", 2),)), 7))
    until_quiet(rig)
    assert len(rig.asked) == 2, "one more begins"
    rig.tell(ev.CommandReceived(Command(CommandKind.BOUND, bounds=(("max_in", 0),)), 8))
    until_quiet(rig)
    assert len(rig.asked) == 3
    state = ExecutorState()
    for entry in rig.journal:
        apply(state, entry)
    assert state.options.max_in == 0


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ((), "no name: one of max_concurrent,"),
        ((("disk_share", 1),), "disk_share: one of max_concurrent,"),
        ((("max_in", -1),), "max_in = -1 copies: a number from 0 (no bound) to 1,000,000 is wanted"),
    ],
)
def test_a_bound_that_is_none_is_refused(bounds: tuple[tuple[str, int], ...], told: str) -> None:
    state = ExecutorState()
    for number, record in enumerate(
        (
            PlanAccepted("p", "c", ExecutionOptions()),
            MoveAccepted(T0, None, (1,), (2,), Strategy.INCREMENTAL, 5),
        ),
        1,
    ):
        apply(state, JournalEntry(number, 0, "test", record))
    decided = decide_command(state, Command(CommandKind.BOUND, bounds=bounds))
    assert not decided.accepted
    assert decided.text.startswith(told)
    assert decided.records == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (ExecutionOptions(max_concurrent=1), "waits for its turn: 1 copy runs, the bound is 1"),
        (ExecutionOptions(max_out=1), "waits for its turn: broker 1 sends 1 copy, the bound is 1"),
        (ExecutionOptions(max_in=1), "waits for its turn: broker 4 receives 1 copy, the bound is 1"),
        (ExecutionOptions(max_per_rack=1), "waits for its turn: rack r receives 1 copy, the bound is 1"),
        (
            ExecutionOptions(max_per_log_dir=1),
            "waits for its turn: log dir /d1 of broker 4 receives 1 copy, the bound is 1",
        ),
    ],
)
def test_every_bound_holds_a_move_back_and_says_which(options: ExecutionOptions, told: str) -> None:
    yard = Yard({"t": [(1, 2), (1, 2)]})
    yard.racks = dict.fromkeys(range(1, 7), "r")
    rig = Rig(yard)
    orders = tuple(MoveOrder(TopicPartition("t", n), (4, 2), None, ((4, "/d1"),)) for n in range(2))
    rig.tell(ev.PlanSubmitted("p", orders, options, 1))
    until_quiet(rig)
    assert len(rig.asked) == 1
    waiting = next(move for move in rig.core.state.moves.values() if move.step is None)
    assert waiting.waits.text in (told, "waits for its turn")
    if options.max_concurrent == 0:
        assert waiting.waits.text == told


def test_topics_that_the_driver_needs_come_first() -> None:
    """An outsider's find: a heal left the journal's own topic below its min.insync.replicas until all else was copied."""
    yard = Yard({"a": [(1, 2)], "j": [(1, 2)], "__transaction_state": [(1, 2)]})
    yard.partitions[TopicPartition("a", 0)].isr = (1,)
    rig = Rig(yard)
    rig.core.state.needed_topics |= {"j"}
    options = ExecutionOptions(max_concurrent=1, orders=(Order.UNDER_REPLICATED_FIRST, Order.SMALLEST_FIRST))
    rig.submit(*[(topic, 0, (4, 1)) for topic in ("a", "j", "__transaction_state")], options=options)
    rig.settle()
    assert list(dict.fromkeys(tp.topic for tp, _replicas in rig.asked))[-1] == "a"


def test_orders_are_chained() -> None:
    yard = Yard({"t": [(1, 2), (1, 2), (1, 2), (1, 2)]})
    for number, size in enumerate((10, 40, 20, 30)):
        yard.partitions[TopicPartition("t", number)].have[1] = size * SIZE
    yard.partitions[TopicPartition("t", 2)].isr = (1,)
    rig = Rig(yard)
    chained = (Order.UNDER_MIN_ISR_FIRST, Order.UNDER_REPLICATED_FIRST, Order.SMALLEST_FIRST)
    rig.submit(
        *[("t", number, (4, 1)) for number in range(4)], options=ExecutionOptions(max_concurrent=1, orders=chained)
    )
    rig.settle()
    first = list(dict.fromkeys(tp.partition for tp, _replicas in rig.asked))
    assert first == [2, 0, 3, 1]


def test_a_partition_below_min_isr_goes_before_all_others() -> None:
    yard = Yard({"t": [(1, 2), (1, 2)], "u": [(1, 2)]})
    yard.partitions[TopicPartition("u", 0)].isr = (1,)
    yard.min_isr["u"] = 2
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 1)), ("t", 1, (4, 1)), ("u", 0, (4, 1)), options=ExecutionOptions(max_concurrent=1))
    until_quiet(rig)
    assert [tp.topic for tp, _replicas in rig.asked] == ["u"]


def test_the_throttle_gives_way_while_others_suffer_and_comes_back() -> None:
    yard = Yard({"t": [(1, 2, 3), (1, 2, 3)]})
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 5, 6)), options=ExecutionOptions(throttle=1_000, throttle_floor=500))
    until_quiet(rig)
    rate = ThrottleKey("broker", "4", "follower.replication.throttled.rate")
    yard.partitions[TopicPartition("t", 1)].isr = (1, 2)
    rig.settle(catching_up=False, rounds=ADAPT_EVERY_MS // 250 + 10)
    assert yard.settings[rate] == "750"
    rig.settle(catching_up=False, rounds=3 * ADAPT_EVERY_MS // 250)
    assert yard.settings[rate] == "500", "never below the floor"
    yard.partitions[TopicPartition("t", 1)].isr = (1, 2, 3)
    rig.settle(catching_up=False, rounds=ADAPT_EVERY_MS // 250 + 30)
    assert yard.settings[rate] == "550"
    rig.command(CommandKind.LIMIT, rate=800)
    rig.settle(catching_up=False, rounds=12 * ADAPT_EVERY_MS // 250)
    assert yard.settings[rate] == "800", "never above the operator's word"
    reasons = [entry.record.reason for entry in rig.journal if isinstance(entry.record, LimitChanged)]
    assert reasons[0] == "adapted: 1 partition that doesn't move is out of sync"


def test_the_throttle_gives_way_while_brokers_take_long_to_answer() -> None:
    state = ExecutorState(limit=1_000, options=ExecutionOptions(throttle=1_000, throttle_floor=500), running=True)
    pressure, out = Pressure(), Collected()
    assert decide_limit(state, pressure, 1_000, out) == []
    for took_ms in (100, 5_000, SLOW_MS):
        pressure.on_answer(took_ms)
    (slower,) = decide_limit(state, pressure, 1_000 + ADAPT_EVERY_MS, out)
    assert slower == LimitChanged(750, "adapted: brokers take long to answer")
    state.limit = 750
    pressure.on_answer(9_000)
    (faster,) = decide_limit(state, pressure, 1_000 + 2 * ADAPT_EVERY_MS, out)
    assert faster == LimitChanged(825, "adapted: no other traffic suffers"), "one slow answer may be a pause"


def test_log_dirs_are_asked_for_and_seen_through() -> None:
    yard = Yard({"t": [(1, 2)]})
    rig = Rig(yard)
    order = MoveOrder(T0, (4, 2), None, ((4, "/fast"),))
    rig.tell(ev.PlanSubmitted("p", (order,), ExecutionOptions(log_dir_throttle=700), 1))
    until_quiet(rig)
    assert yard.wanted_dirs == {(4, T0): "/fast"}
    assert yard.settings[ThrottleKey("broker", "4", "replica.alter.log.dirs.io.max.bytes.per.second")] == "700"
    yard.catch_up(T0)
    until_quiet(rig)
    assert rig.outcomes() == {T0: None}
    assert rig.core.state.moves[T0].waits.text == "waits for its log dirs"
    yard.log_dirs[4, T0] = "/fast"
    rig.settle(rounds=200)
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert yard.settings == {}


def test_a_move_whose_log_dir_is_refused_is_not_done() -> None:
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.tell(ev.PlanSubmitted("p", (MoveOrder(T0, (4, 2), None, ((4, "/nowhere"),)),), ExecutionOptions(), 1))
    rig.settle()
    assert rig.yard.partitions[T0].replicas == (4, 2)
    assert rig.outcomes() == {T0: Outcome.REFUSED}
    assert rig.core.state.moves[T0].reason == (
        "the target is reached, but broker 4 refuses its log dir: LOG_DIR_NOT_FOUND"
    )


@pytest.mark.parametrize(("each", "learnt"), [(2_000_000, True), (1_000, False)])
def test_what_brokers_received_is_written_down_and_learnt(each: int, *, learnt: bool) -> None:
    """An outsider's find: a copy that somebody's throttle held made every later dry run 250 times too slow."""
    rig = Rig(Yard({"t": [(1, 2)]}))
    rig.yard.partitions[T0].have[1] = 900 * each
    rig.submit(("t", 0, (4, 2)), options=ExecutionOptions(disk_share=1.0))
    for second in range(60):
        rig.yard.partitions[T0].have[4] = second * each
        rig.settle(catching_up=False, rounds=4)
    observed = [entry.record for entry in rig.journal if isinstance(entry.record, RateObserved)]
    assert observed
    assert observed[0].broker == 4
    assert 0.9 * each <= observed[0].bytes_per_s <= 1.05 * each
    assert rig.core.state.learnt_rates.get(4, []) == [record.bytes_per_s for record in observed if learnt]


def moving(*moves: tuple[Replicas, Replicas, int], limit: int | None = None) -> ExecutorState:
    """A state with open moves (original, target, size), and nothing copied yet."""
    state = ExecutorState(running=True, limit=limit)
    for number, (original, target, size) in enumerate(moves):
        tp = TopicPartition("t", number)
        state.moves[tp] = Move(tp, None, original, target, Strategy.INCREMENTAL, size, (), False, 0, original)
    return state


def copied(meter: Meter, state: ExecutorState, at_ms: int, bytes_by_broker: dict[BrokerId, int]) -> None:
    """Take a sample of the bytes that each move's new broker has."""
    from shunter.core.executor.state import CurrentStep

    for move in state.moves.values():
        broker = move.target[0]
        state.cluster.sizes[broker, move.tp] = ReplicaSize(bytes_by_broker[broker], "/d")
        move.step = CurrentStep(1, move.original, (*move.original, broker), "", False, 0)
    keys = {(move.target[0], move.tp) for move in state.moves.values()}
    meter.sample(state, at_ms, keys)


def test_the_end_is_unknown_before_anything_was_copied_for_a_while() -> None:
    state, meter = moving(((1,), (2,), 1_000_000)), Meter()
    assert estimate(state, meter, 0) is None
    copied(meter, state, 0, {2: 0})
    copied(meter, state, 2_000, {2: 20_000})
    assert estimate(state, meter, 2_000) is None


@pytest.mark.parametrize("limit", [None, 11_000])
def test_a_steady_rate_gives_the_end_and_covers_it(limit: int | None) -> None:
    state, meter = moving(((1,), (2,), 1_000_000), limit=limit), Meter()
    for second in range(0, 41, 2):
        copied(meter, state, second * 1000, {2: second * 10_000})
    found = estimate(state, meter, 40_000)
    assert found is not None
    assert found.remaining_bytes == 600_000
    assert found.left_ms == pytest.approx(60_000, rel=0.05)
    assert found.low_ms <= 60_000 <= found.high_ms
    later = estimate(state, meter, 41_000)
    assert later is not None
    assert later.left_ms == found.left_ms - 1000


def test_a_broker_that_stood_still_does_not_spoil_the_rate() -> None:
    state, meter = moving(((1,), (2,), 1_000_000)), Meter()
    received = 0
    for second in range(0, 101, 2):
        received += 0 if 40 <= second < 80 else 20_000
        copied(meter, state, second * 1000, {2: received})
    found = estimate(state, meter, 100_000)
    assert found is not None
    assert found.bytes_per_s == pytest.approx(10_000, rel=0.1)


def test_another_limit_counts_by_the_usual_share_until_it_is_measured() -> None:
    state, meter = moving(((1,), (2,), 1_000_000), limit=5_000), Meter()
    for second in range(0, 41, 2):
        copied(meter, state, second * 1000, {2: second * 4_500})
    state.limit = 50_000
    copied(meter, state, 42_000, {2: 189_000})
    found = estimate(state, meter, 42_000)
    assert found is not None
    assert found.left_ms == pytest.approx((811_000 / 45_000 + STEP_S) * 1000, rel=0.01)
    assert found.low_ms < found.left_ms / 2 < found.left_ms * 1.4 < found.high_ms, "nothing is measured yet"
    assert found.bytes_per_s == 0, "an outsider's find: a line of 0.0 % had the throttle's usual share as its rate"
    assert estimate(state, Meter(limit=50_000), 42_000) is None, "no share of a throttle is known"


def test_what_came_through_one_throttle_is_expected_of_the_next() -> None:
    state, meter = moving(((1,), (2,), 1_000_000), limit=10_000), Meter()
    for second in range(0, 41, 2):
        copied(meter, state, second * 1000, {2: second * 7_000})
    state.limit = 20_000
    # A burst of the quota right after the change says nothing about the rate that follows.
    for second, received in ((42, 280_000), (44, 380_000), (46, 380_000), (48, 380_000)):
        copied(meter, state, second * 1000, {2: received})
    found = estimate(state, meter, 48_000)
    assert found is not None
    assert meter.throttle_yield == pytest.approx(0.7)
    assert found.left_ms == pytest.approx(620_000 / 14, rel=0.1)


def test_what_comes_steadily_through_a_throttle_is_believed_at_once() -> None:
    state, meter = moving(((1,), (2,), 1_000_000), limit=10_000), Meter()
    for second in range(0, 9, 2):
        copied(meter, state, second * 1000, {2: second * 7_000})
    found = estimate(state, meter, 8_000)
    assert found is not None
    assert found.left_ms == pytest.approx(944_000 / 7, rel=0.02)


def test_who_was_ahead_of_a_throttle_gets_so_much_less_later() -> None:
    state, meter = moving(((1,), (2,), 1_000_000), limit=10_000), Meter()
    # Eleven seconds' worth in four seconds, as the quota of an idle broker lets through: 9,000 a second in the end.
    for second, received in ((0, 0), (2, 60_000), (4, 99_000), (6, 99_000), (8, 99_000)):
        copied(meter, state, second * 1000, {2: received})
    found = estimate(state, meter, 8_000)
    assert found is not None
    assert found.left_ms == pytest.approx(1_000_000 / 9 - 8_000, rel=0.1)


def test_what_came_through_throttles_is_learnt_from_the_journal() -> None:
    state, meter = moving(((1,), (2,), 1_000_000), limit=10_000), Meter()
    for sequence, rate in enumerate((7_000, 7_200, 6_800, 4_000), 1):
        apply(state, JournalEntry(sequence, 0, "", RateObserved(2, rate, limited=True)))
    assert state.learnt_yields == [0.7, 0.72, 0.68]  # At 4,000 something other than the throttle slowed the copy down.
    for second, received in ((0, 0), (2, 60_000), (4, 77_000), (6, 77_000), (8, 77_000)):
        copied(meter, state, second * 1000, {2: received})
    found = estimate(state, meter, 8_000)
    assert found is not None
    assert found.left_ms == pytest.approx(1_000_000 / 7 - 8_000, rel=0.1)


def test_a_forecast_counts_others_rate_only_for_what_their_lists_name() -> None:
    """An outsider's find: "at least 12 min" for a plan of which somebody's list named one small topic."""
    large, small = moving(((1,), (4,), 10_000_000), ((1,), (4,), 1_000_000)).moves.values()
    rate = {ThrottleKey("broker", "4", FOLLOWER_RATE): 500_000}
    listed = {ThrottleKey("topic", small.tp.topic, FOLLOWER_REPLICAS): f"{small.tp.partition}:4,7:7"}
    found = [
        forecast([large, small], bandwidth=10**7, learnt={}, others=rate, lists=lists).seconds
        for lists in (None, listed, {})
    ]
    assert found == pytest.approx([22, 2, 1.1])


def test_a_forecast_is_the_bytes_of_the_busiest_broker() -> None:
    state = moving(((1,), (4,), 600), ((1,), (5,), 600), ((2, 3), (6, 7), 1_000))
    moves = list(state.moves.values())
    assert forecast(moves, bandwidth=100, learnt={}).seconds == 20  # broker 2 sends 2 x 1000
    wide = forecast(moves[:2], bandwidth=100, learnt={})
    assert (wide.seconds, wide.total_bytes, wide.guessed) == (12, 1_200, False)  # both leave broker 1
    assert forecast(moves, bandwidth=0, learnt={1: [100, 300, 200]}).bandwidth == 200
    guess = forecast(moves, bandwidth=0, learnt={})
    assert (guess.bandwidth, guess.guessed) == (GUESSED_BANDWIDTH, True)


def test_a_step_that_copies_twice_counts_twice() -> None:
    yard = Yard({"t": [(1, 2), (1, 2)]})
    yard.racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "b", 6: "b"}
    rig = Rig(yard)
    options = ExecutionOptions(strategy=Strategy.ALL_AT_ONCE, max_per_rack=2)
    rig.submit(("t", 0, (1, 3)), ("t", 1, (4, 5)), options=options)
    until_asked(rig)
    rig.settle(catching_up=False, rounds=6)
    assert len(rig.asked) == 1, "three copies would go to rack b at once"
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE, TopicPartition("t", 1): Outcome.DONE}


def all_at_once(**bounds: int) -> ExecutionOptions:
    return ExecutionOptions(strategy=Strategy.ALL_AT_ONCE, **bounds)


def test_the_bound_of_the_cluster_counts_copies_and_not_steps() -> None:
    rig = planned({"t": [(1, 2), (1, 2)]}, ("t", 0, (3, 4)), ("t", 1, (5, 6)), options=all_at_once(max_concurrent=3))
    until_quiet(rig)
    assert len(rig.asked) == 1, "four copies would run at once"
    told = {move.waits.text for move in rig.core.state.moves.values() if move.step is None}
    assert told == {"waits for its turn: 2 copies run, 2 would be added, the bound is 3"}
    rig.settle()
    assert set(rig.outcomes().values()) == {Outcome.DONE}


@pytest.mark.parametrize("bound", ["max_concurrent", "max_out", "max_per_rack"])
def test_a_step_with_more_copies_than_the_bound_runs_alone(bound: str) -> None:
    yard = Yard({"t": [(1, 2), (1, 2)]})
    yard.racks = dict.fromkeys(range(1, 7), "r")
    rig = Rig(yard)
    rig.submit(("t", 0, (3, 4, 5)), ("t", 1, (3, 4, 6)), options=all_at_once(**{bound: 2}))
    until_quiet(rig)
    assert len(rig.asked) == 1
    assert len(yard.partitions[rig.asked[0][0]].adding) == 3
    rig.settle()
    assert set(rig.outcomes().values()) == {Outcome.DONE}


def test_a_copy_that_is_in_sync_holds_no_place_though_its_step_waits_for_a_dead_broker() -> None:
    """An outsider's find: moves that waited for a dead broker held the places of `--max-in`, and the others starved."""
    rig = Rig(Yard({"t": [(1, 2, 3), (2, 3, 5)]}))
    rig.yard.kill(1)
    orders = (MoveOrder(TopicPartition("t", 0), (4, 1, 2)), MoveOrder(TopicPartition("t", 1), (4, 2, 3)))
    rig.tell(ev.PlanSubmitted("p", orders, ExecutionOptions(max_in=1, relax_after_ms=10**9), 1))
    until_asked(rig)
    assert rig.asked[0][0] == T0, "what is under-replicated comes first"
    rig.settle()
    assert rig.yard.partitions[T0].adding == (4,), "its step waits for broker 1"
    assert rig.outcomes() == {T0: None, TopicPartition("t", 1): Outcome.DONE}


def beside_dead_copies(bound: ExecutionOptions) -> Rig:
    """A rig whose broker 6 dies while two moves copy to it within a bound; a third one waits for its turn."""
    rig = Rig(Yard({"t": [(1, 2), (1, 2), (1, 2)]}))
    orders = tuple(MoveOrder(TopicPartition("t", n), (target, 2)) for n, target in enumerate((6, 6, 5)))
    rig.tell(ev.PlanSubmitted("p", orders, bound, 1))
    until_asked(rig, 2)
    assert [target for _tp, target in rig.asked] == [(6, 2), (6, 2)]
    rig.settle(catching_up=False, rounds=20)
    rig.yard.kill(6)
    return rig


@pytest.mark.parametrize("bound", [ExecutionOptions(max_concurrent=2), ExecutionOptions(max_out=2)])
def test_a_copy_to_a_broker_that_stays_dead_gives_its_place_away_and_gets_it_back(bound: ExecutionOptions) -> None:
    rig = beside_dead_copies(bound)
    waiting = TopicPartition("t", 2)
    rig.settle(catching_up=False, rounds=160)
    assert waiting not in {tp for tp, _target in rig.asked}, "a restart loses nothing"
    rig.settle(rounds=200)
    assert rig.core.state.moves[waiting].outcome is Outcome.DONE
    cancelled = [tp for tp, target in rig.asked if target is None]
    assert len(cancelled) == 1, "no more places are given away than one move needs"
    assert any(each.kind == "copy-put-off" and "t-2 takes its place" in each.text for each in rig.notices)
    rig.yard.revive(6)
    rig.settle()
    assert set(rig.outcomes().values()) == {Outcome.DONE}


def test_the_bound_holds_when_the_dead_broker_is_back_before_the_others_end() -> None:
    rig = beside_dead_copies(ExecutionOptions(max_concurrent=2))
    rig.settle(catching_up=False, rounds=400)
    assert rig.yard.partitions[TopicPartition("t", 2)].adding == (5,)
    rig.yard.revive(6)
    rig.settle(catching_up=False, rounds=100)
    assert sum(len(each.adding) for each in rig.yard.partitions.values()) == 2
    rig.settle()
    assert set(rig.outcomes().values()) == {Outcome.DONE}


def test_a_copy_to_a_dead_broker_keeps_its_place_if_nobody_could_take_it() -> None:
    rig = Rig(Yard({"t": [(1, 2), (3, 2)]}))
    orders = (MoveOrder(T0, (6, 2)), MoveOrder(TopicPartition("t", 1), (5, 2)))
    rig.tell(ev.PlanSubmitted("p", orders, ExecutionOptions(max_in=1), 1))
    until_asked(rig, 2)
    rig.yard.kill(6)
    rig.settle(catching_up=False, rounds=600)
    assert [target for _tp, target in rig.asked if target is None] == []
