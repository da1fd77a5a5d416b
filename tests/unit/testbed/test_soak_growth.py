"""`./test --soak`: the slope of a series, its error, and the verdict."""

import math
import random

import pytest

from lab.soak.controlled import Expected
from lab.soak.gauges import BOUNDS, Judged, Series, table_of
from lab.soak.growth import Reading, Slope, growth_of
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Intervention

EVERY_S = 10.0


def series(*values: float) -> list[Reading]:
    return [Reading(at * EVERY_S, value) for at, value in enumerate(values)]


def test_a_straight_line_has_its_slope_and_no_error() -> None:
    found = growth_of(series(*(100 + 0.5 * at for at in range(100))))
    assert found.per_hour == pytest.approx(0.05 * 3_600)
    assert found.error == pytest.approx(0, abs=1e-6)
    assert found.verdict == "grows by 180 per hour"


def test_the_warm_up_does_not_count() -> None:
    found = growth_of(series(*range(50), *([50] * 51)))
    assert found == Slope(50, 0, 0)
    assert found.verdict == "flat"


def test_the_error_is_that_of_least_squares() -> None:
    """By hand: of 1, 2, 2, 3 at 0, 1, 2, 3 the slope is 0.6, the rest 0.2, the error sqrt(0.2 / 2 / 5)."""
    early = [Reading(-3.0, 99)]
    found = growth_of([*early, Reading(0, 1), Reading(1, 2), Reading(2, 2), Reading(3, 3)])
    assert found.level == 2
    assert found.per_hour / 3_600 == pytest.approx(0.6)
    assert found.error / 3_600 == pytest.approx(math.sqrt(0.2 / 2 / 5))


def test_noise_is_flat_and_growth_under_noise_is_found() -> None:
    chance = random.Random(1)
    noise = [chance.gauss(0, 1) for _ in range(360)]
    assert not growth_of(series(*(100 + each for each in noise))).grows
    assert growth_of(series(*(100 + 0.01 * at + each for at, each in enumerate(noise)))).grows


@pytest.mark.parametrize(
    ("per_hour", "error", "grows"), [(0.9, 0.1, False), (1.1, 0.1, True), (1.1, 0.6, False), (-50, 0.1, False)]
)
def test_what_counts_as_growth(per_hour: float, error: float, grows: bool) -> None:
    """More than two errors, and one per cent of the level in an hour."""
    assert Slope(100, per_hour, error).grows is grows


def test_too_few_samples_have_no_slope() -> None:
    assert growth_of(series(1, 5)).verdict == "flat"
    assert growth_of([Reading(3, 1)] * 5).error == math.inf
    with pytest.raises(ValueError, match="without samples"):
        growth_of([])


def test_what_may_grow_names_its_bound() -> None:
    growth = Slope(100, 50, 1)
    journal = Judged(Series("files", 0, "journal"), 60, 50, 150, growth, BOUNDS["journal"])
    memory = Judged(Series("service", 2, "memory, MiB"), 50, 50, 150, growth, "")
    assert (journal.holds, memory.holds) == (True, False)
    assert BOUNDS["journal"] in table_of([journal, memory])
    assert "service #2: memory, MiB" in table_of([journal, memory])


ORDERS = TopicPartition("orders", 0)


def test_a_move_that_is_neither_done_nor_cancelled_is_lost() -> None:
    expected = Expected()
    expected.rests(ORDERS, (1, 2))
    expected.moves(ORDERS, (3, 1), surely=True)
    expected.rests(ORDERS, (1, 2))
    assert expected.lost == ["orders-0 is at [1, 2], expected: [(3, 1)]"]


def test_a_rollback_restores_the_original_also_of_a_replaced_move() -> None:
    expected = Expected()
    expected.rests(ORDERS, (1, 2))
    expected.moves(ORDERS, (3, 1), surely=True)
    expected.moves(ORDERS, (2, 3), surely=True)
    expected.turns(ORDERS, Intervention.ROLL_BACK, surely=True)
    expected.rests(ORDERS, (1, 2))
    expected.moves(ORDERS, (3, 1), surely=False)
    expected.rests(ORDERS, (1, 2))
    expected.moves(ORDERS, (3, 1), surely=True)
    expected.turns(ORDERS, Intervention.STOP, surely=True)
    expected.rests(ORDERS, (3, 1, 2))
    assert expected.lost == []
