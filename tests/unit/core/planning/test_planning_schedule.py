"""The order of moves, the makespan and its lower bound; and the best start of a week."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.benchmarks.makespan import fixed_batches
from shunter.core.planning.cluster import ABSENT
from shunter.core.planning.request import PlanRefused
from shunter.core.planning.schedule import (
    Bandwidth,
    Concurrency,
    Dispatcher,
    Transfers,
    expected_duration,
    lower_bound,
    schedule,
)
from shunter.core.planning.week import HOURS, hour_name, quietest_start


def transfers_of(*rows: tuple[int, int, float], growth: list[float] | None = None) -> Transfers:
    source, target, size = zip(*rows, strict=True)
    grown = None if growth is None else np.array(growth)
    return Transfers(np.array(source), np.array(target), np.array(size, dtype=np.float64), grown)


def even(brokers: int, rate: float = 10.0) -> Bandwidth:
    return Bandwidth(np.full(brokers, rate), np.full(brokers, rate))


def drawn_transfers(brokers: int, moves: int, seed: int) -> Transfers:
    drawn = np.random.default_rng(seed)
    source = drawn.integers(0, brokers, moves)
    target = (source + drawn.integers(1, brokers, moves)) % brokers
    return Transfers(source, target, np.exp(drawn.normal(5, 1.6, moves)))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Transfers, Bandwidth, Concurrency]:
    brokers = draw(st.integers(2, 6))
    moves = draw(st.integers(1, 40))
    drawn = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    source = drawn.integers(0, brokers, moves)
    target = (source + drawn.integers(1, brokers, moves)) % brokers
    source[drawn.random(moves) < 0.1] = ABSENT
    sizes = np.exp(drawn.normal(3, 1.5, moves))
    bandwidth = Bandwidth(drawn.uniform(1, 10, brokers), drawn.uniform(1, 10, brokers))
    return Transfers(source, target, sizes), bandwidth, Concurrency(draw(st.integers(0, 5)), draw(st.integers(0, 4)))


def test_the_bound_of_one_move_is_its_slower_end() -> None:
    bandwidth = Bandwidth(np.array([10.0, 1.0]), np.array([1.0, 4.0]))
    assert lower_bound(transfers_of((0, 1, 100)), bandwidth) == 25


def test_the_bound_adds_up_what_one_broker_receives() -> None:
    assert lower_bound(transfers_of((0, 2, 100), (1, 2, 50)), even(3)) == 15


def test_the_bound_adds_up_what_one_broker_sends() -> None:
    assert lower_bound(transfers_of((0, 1, 100), (0, 2, 50)), even(3)) == 15


def test_growth_makes_a_move_longer() -> None:
    moves = transfers_of((0, 1, 100), growth=[5.0])
    assert schedule(moves, even(2)).makespan == pytest.approx(20)
    assert lower_bound(moves, even(2)) == pytest.approx(20)


def test_a_move_that_grows_as_fast_as_it_runs_never_ends() -> None:
    planned = schedule(transfers_of((0, 1, 100), (0, 1, 30), growth=[10.0, 0.0]), even(2), Concurrency(per_broker=1))
    assert planned.makespan == float("inf")
    assert planned.lower_bound == float("inf")


def test_a_move_without_a_source_is_bound_by_its_target_alone() -> None:
    planned = schedule(transfers_of((ABSENT, 0, 100), (ABSENT, 1, 50)), even(2))
    assert planned.end.tolist() == [10, 5]


@given(problems())
def test_every_move_runs_once_within_the_bounds_and_not_below_the_lower_bound(
    problem: tuple[Transfers, Bandwidth, Concurrency],
) -> None:
    transfers, bandwidth, limits = problem
    planned = schedule(transfers, bandwidth, limits)
    assert np.isfinite(planned.end).all()
    assert (planned.end > planned.start).all()
    assert planned.makespan >= planned.lower_bound * (1 - 1e-9)
    for moment in planned.start.tolist():
        running = (planned.start <= moment) & (planned.end > moment)
        assert not limits.total or running.sum() <= limits.total
        for broker in range(len(bandwidth.sent)):
            for side in (transfers.source, transfers.target):
                assert not limits.per_broker or (running & (side == broker)).sum() <= limits.per_broker


@given(problems())
def test_no_place_idles_while_a_move_could_take_it(problem: tuple[Transfers, Bandwidth, Concurrency]) -> None:
    transfers, bandwidth, limits = problem
    dispatcher = Dispatcher(transfers, bandwidth, limits)
    running = dispatcher.next_moves()
    while running:
        assert dispatcher.next_moves() == [], "asking again without an end starts nothing"
        dispatcher.finished(running.pop(0))
        running += dispatcher.next_moves()
        waiting = np.flatnonzero(dispatcher.waiting)
        if limits.total and len(running) >= limits.total:
            continue
        for move in waiting.tolist():
            out = sum(transfers.source[other] == transfers.source[move] for other in running)
            into = sum(transfers.target[other] == transfers.target[move] for other in running)
            source_full = transfers.source[move] != ABSENT and limits.per_broker and out >= limits.per_broker
            assert source_full or (limits.per_broker and into >= limits.per_broker)
    assert not dispatcher.waiting.any()


def test_many_ends_between_two_questions_free_all_their_places() -> None:
    transfers = drawn_transfers(10, 200, 3)
    dispatcher = Dispatcher(transfers, even(10), Concurrency(per_broker=2))
    running = dispatcher.next_moves()
    started = len(running)
    while running:
        for move in running:
            dispatcher.finished(move)
        running = dispatcher.next_moves()
        started += len(running)
    assert started == 200


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_stays_within_five_percent_of_the_bound_and_ahead_of_batches(seed: int) -> None:
    transfers = drawn_transfers(40, 1_500, seed)
    planned = schedule(transfers, even(40))
    assert planned.makespan <= planned.lower_bound * 1.05
    batches = min(fixed_batches(transfers, even(40), batch) for batch in (20, 50, 100, 200, 500))
    assert planned.makespan < batches


def test_past_moves_scale_the_interval() -> None:
    planned = schedule(transfers_of((0, 1, 100)), even(2))
    guess = expected_duration(planned, np.array([1.0, 1.0, 1.5, 2.0, 2.0]))
    assert (guess.lower_bound, guess.expected) == (10, 15)
    assert 10 <= guess.least < guess.expected < guess.most <= 20


def test_without_past_moves_the_interval_starts_at_the_bound() -> None:
    guess = expected_duration(schedule(transfers_of((0, 1, 100)), even(2)), assumed_slowdown=3)
    assert guess == (10, 10, 10, 30)


@pytest.mark.parametrize(
    ("moves", "bandwidth", "said"),
    [
        (transfers_of((0, 5, 1)), even(2), "a target is not among the 2 brokers"),
        (transfers_of((7, 1, 1)), even(2), "a source is not among the 2 brokers"),
        (transfers_of((0, 1, 1)), even(2, 0.0), "bandwidth sent of broker at 0 is 0.0"),
    ],
)
def test_what_fits_no_broker_is_refused(moves: Transfers, bandwidth: Bandwidth, said: str) -> None:
    with pytest.raises(PlanRefused, match=said):
        schedule(moves, bandwidth)


def test_moves_wait_for_the_night() -> None:
    week = np.full((2, HOURS), 20.0)
    # Broker 0 is busy from 8 to 20 o'clock, broker 1 on Sunday night.
    week[0, [day * 24 + hour for day in range(7) for hour in range(8, 20)]] = 80.0
    week[1, 6 * 24 : 6 * 24 + 8] = 90.0
    copying = np.full((2, 6), 30.0)
    found = quietest_start(copying, week, np.array([100.0, 100.0]), now=10)
    assert (found.wait_hours, hour_name(10 + found.wait_hours)) == (10, "Monday 20:00 UTC")
    assert found.then.share == 0.5
    assert (found.now.share, found.now.row, found.now.hour) == (1.1, 0, 10)
    night = quietest_start(copying, week, np.array([100.0, 100.0]), now=6 * 24)
    assert hour_name((6 * 24 + night.wait_hours) % HOURS) == "Sunday 20:00 UTC"
    assert quietest_start(copying, week * 0, np.array([100.0, 100.0]), now=5).wait_hours == 0, "all hours are alike"


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(0, HOURS - 1))
def test_no_start_is_better(seed: int, lasts: int, now: int) -> None:
    drawn = np.random.default_rng(seed)
    week, copying = drawn.random((3, HOURS)), drawn.random((3, lasts)) * (drawn.random((3, lasts)) < 0.7)
    limit = drawn.random(3) + 0.5
    found = quietest_start(copying, week, limit, now)

    def worst(start: int) -> float:
        return max(
            float(week[row, (start + at) % HOURS] + copying[row, at]) / float(limit[row])
            for row in range(3)
            for at in range(lasts)
        )

    every = [worst(start) for start in range(HOURS)]
    assert found.then.share <= min(every) + 0.01 + 1e-12
    assert abs(found.then.share - every[(now + found.wait_hours) % HOURS]) < 1e-12
    assert abs(found.now.share - every[now]) < 1e-12
    assert all(every[(now + wait) % HOURS] > min(every) + 0.01 - 1e-12 for wait in range(found.wait_hours))
