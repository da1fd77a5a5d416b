"""The cost of a byte: made brokers with known costs, noise, unlike machines; and plans that aim at processors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planning_clusters import cluster_of

from shunter.core.planning.balance import plan
from shunter.core.planning.cluster import ProcessorCosts, Resource
from shunter.core.planning.processors import BrokerWindows, ProcessorFit, fit_processors
from shunter.core.planning.request import PlanRequest
from shunter.core.planning.what_if import ClusterChange, answer, fewest_brokers

IDLING, RECEIVED, LED, SENT = 0.03, 0.0020, 0.0010, 0.0008
"""Shares of an average broker's processors: at rest, and for each MB/s."""


def made(powers: list[float], *, noise: float = 0.0, windows: int = 400, seed: int = 1) -> list[BrokerWindows]:
    """Brokers that receive 20 to 120 MB/s by the hour, lead a part of it and send one to four times that."""
    drawn = np.random.default_rng(seed)
    found = []
    for broker, power in enumerate(powers):
        day = 70 + 50 * np.sin(np.arange(windows) / 24 * 2 * np.pi + broker)
        led = day * drawn.uniform(0.2, 0.6, windows)
        received, sent = day, led * drawn.uniform(1, 4, windows)
        busy = (IDLING + RECEIVED * received + LED * led + SENT * sent) / power
        busy = np.maximum(busy * (1 + noise * drawn.standard_normal(windows)), 0)
        rows = np.stack([np.ones(windows), received, led, sent, busy], axis=1)
        cut = windows * 3 // 4
        found.append(BrokerWindows(broker, rows[:cut].T @ rows[:cut], rows[cut:].T @ rows[cut:]))
    return found


def fitted(brokers: list[BrokerWindows]) -> ProcessorFit:
    fit = fit_processors(brokers)
    assert fit is not None
    return fit


def test_costs_without_noise_are_found_exactly() -> None:
    fit = fitted(made([1.0, 1.0, 1.0]))
    assert (fit.idling, fit.received, fit.led, fit.sent) == pytest.approx((IDLING, RECEIVED, LED, SENT), rel=1e-3)
    assert not fit.fitted_powers
    assert fit.relative_error < 1e-3
    assert fit.share(0, 100, 40, 80) == pytest.approx(IDLING + 0.2 + 0.04 + 0.064, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_told_as_the_error_and_changes_costs_little(seed: int) -> None:
    fit = fitted(made([1.0] * 4, noise=0.1, seed=seed))
    assert 0.05 < fit.relative_error < 0.15
    for told, real in ((fit.received, RECEIVED), (fit.sent, SENT)):
        assert told == pytest.approx(real, rel=0.25)


def test_machines_that_are_not_alike() -> None:
    powers = [0.5, 0.5, 1.0, 2.0]
    fit = fitted(made(powers, noise=0.05))
    assert fit.fitted_powers
    assert fit.powers == pytest.approx(powers, rel=0.05)
    assert fit.relative_error < 0.1
    # Given numbers of processors are believed, as long as the counters don't contradict them.
    told = [one._replace(processors=8.0 * power) for one, power in zip(made(powers, noise=0.05), powers, strict=True)]
    known = fitted(told)
    assert (known.fitted_powers, known.powers) == (False, tuple(powers))


def test_what_always_goes_together_shares_its_cost_and_no_cost_is_below_zero() -> None:
    """Sent is twice led, and led is half of received, so the three columns are proportional."""
    rows = np.array([[1.0, 2 * x, x, 2 * x, 0.1 + 0.01 * x] for x in range(1, 41)])
    one = BrokerWindows(1, rows.T @ rows, rows.T @ rows)
    fit = fitted([one])
    assert min(fit.idling, fit.received, fit.led, fit.sent) >= 0
    assert 2 * fit.received + fit.led + 2 * fit.sent == pytest.approx(0.01, rel=1e-3)


def test_too_few_windows_tell_nothing() -> None:
    few = np.ones((5, 5))
    assert fit_processors([BrokerWindows(1, few, few)]) is None
    assert fit_processors([]) is None


def test_cruise_controls_static_shares_miss_by_more() -> None:
    """Its defaults share a broker's processors by 0.7 (leaders' bytes in), 0.15 (leaders' out), 0.15 (followers' in).

    As a model of another moment: the shares of the earlier windows' totals, told for the later ones.
    """
    brokers = made([1.0] * 4, noise=0.05)
    fit = fitted(brokers)
    earlier = sum(one.fitted for one in brokers)
    busy, led, sent = earlier[0, 4], earlier[0, 2], earlier[0, 3]
    followed = earlier[0, 1] - led
    # busy = 0.7 busy/led x led + ... : as costs of (1, received, led, sent).
    static = np.array([0.0, 0.15 * busy / followed, 0.7 * busy / led - 0.15 * busy / followed, 0.15 * busy / sent])
    miss = np.append(static, -1.0)
    later = sum(one.held_back for one in brokers)
    error = float(np.sqrt(miss @ later @ miss / later[0, 0])) / fit.mean
    assert fit.relative_error < error / 2


def loads(made_plan: Any, resource: Resource) -> list[float]:
    found: list[float] = made_plan.after[:, made_plan.targets.column(resource)].tolist()
    return found


def test_a_plan_gives_unlike_brokers_their_part_of_the_work() -> None:
    """Broker 0 has twice the power of the others, and all partitions are read alike."""
    rows = [("t", [at % 4, (at + 1) % 4], 10.0) for at in range(48)]
    cluster = replace(
        cluster_of(["r"] * 4, rows, rates=[(1e6, 3e6)] * 48),
        processor_costs=ProcessorCosts(2e-9, 1e-9, 1e-9),
        processor_capacity=np.array([1.6, 0.8, 0.8, 0.8]),
    )
    aims = (Resource.PROCESSORS, Resource.DISK)
    work = loads(plan(cluster, PlanRequest(aims=aims)), Resource.PROCESSORS)
    shares = np.array(work) / cluster.processor_capacity
    assert shares.max() / shares.min() < 1.25
    assert sum(work) == pytest.approx(48 * (2 * 2e-3 + 1e-3 + 4e-3)), "two receive, one leads, 3 + 1 MB/s are sent"
    # A broker that is full by its processors gets nothing more.
    full = replace(cluster, processor_capacity=np.array([1.6, 0.1, 0.8, 0.8]))
    after = loads(plan(full, PlanRequest(headroom=0.2)), Resource.PROCESSORS)
    before = loads(plan(full, PlanRequest(excluded_topics=("t",))), Resource.PROCESSORS)
    assert after[1] <= before[1]


def test_what_if_counts_processors() -> None:
    rows = [("t", [at % 3, (at + 1) % 3], 10.0) for at in range(30)]
    cluster = replace(
        cluster_of(["r"] * 3, rows, rates=[(1e6, 3e6)] * 30),
        processor_costs=ProcessorCosts(2e-9, 1e-9, 1e-9),
        processor_capacity=np.full(3, 0.1),
    )
    # 30 x 9 thousandths are 0.27 of the 0.3 that there are; twice the traffic needs 0.54 at 80 %: seven brokers.
    now = answer(cluster, ClusterChange(), PlanRequest(headroom=0.05))
    assert {one.resource for one in now.fills()} == {"processors"}
    assert now.fits
    found = fewest_brokers(cluster, ClusterChange(traffic=2.0), PlanRequest(headroom=0.2))
    assert found.fits
    assert len(found.added) in (4, 5)
