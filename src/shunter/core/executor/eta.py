"""When it will be over: from bytes really copied, with an interval, or honestly unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from shunter.core.executor.rates import Meter
from shunter.core.executor.state import ExecutorState, Move
from shunter.model.partition import BrokerId, TopicPartition

HALF_LIFE_MS = 20_000
"""A sample this much older counts half, or half of the time measured if that is longer: a changed cluster is believed
soon, and the bursts of Kafka's quotas (ten seconds' worth at once) even out."""
FREE_HALF_LIFE_MS = 5_000
"""The same without a throttle, where there are no bursts to even out, and brokers warm up and get in one another's way."""
STALL_MS = 10_000
"""A broker that received nothing for so long stood still; how fast it went while it went is what counts."""
LEAST_MS = 4_000
TRUST_MS = 30_000
"""After so long what was measured under a throttle counts as much as what is known of throttles."""
SHORT_MS = 15_000
"""Less than half of a throttle coming through for so long is not the throttle's doing."""
THROTTLE_YIELD = 0.9
"""What comes through a throttle, as a share of it: between 0.70 and 0.95 on real brokers (docs/performance.md), for
who was throttled looks again after half a second or one, and how far a fetch may overshoot depends on its size."""
PRIOR_ERROR = 0.15
"""What that may be off by, as a share: a busy broker does not use its throttle up."""
BLOCKS = 6
QUANTILE_80 = 1.476
"""Two-sided 80 % of Student's t with BLOCKS - 1 degrees of freedom."""
FEWEST_SAMPLES = 5
"""Fewer say nothing about how steadily bytes come in."""
NORMAL_80 = 1.28
"""Two-sided 80 % of the normal distribution."""
MODEL_ERROR = 0.05
"""What the model itself may be off by, as a share: sizes grow while they are copied, the last step is not a copy."""


class Estimate(NamedTuple):
    """Remaining bytes, their rate (bytes per second), and milliseconds until the end with an 80 % interval."""

    remaining_bytes: int
    bytes_per_s: float
    left_ms: int
    low_ms: int
    high_ms: int


def bytes_left(move: Move, sizes: Mapping[tuple[BrokerId, TopicPartition], int]) -> dict[BrokerId, int]:
    """Bytes that a move's brokers have still to receive, by broker; sizes are of what is there already."""
    if not move.open:
        return {}
    left: dict[BrokerId, int] = {}
    for broker in move.goal:
        if broker not in move.current:
            left[broker] = max(0, move.size_bytes - sizes.get((broker, move.tp), 0))
    return left


def estimate(state: ExecutorState, meter: Meter, now_ms: int) -> Estimate | None:
    """Estimate the end from what was copied lately; None: unknown yet (nothing copied for long enough).

    Two models bound it: all bytes at the rate of all brokers together (brokers that finish leave their share to the
    others), and each broker's bytes at the rate of one (they don't: under a throttle). With a throttle the second is
    the estimate, without one the middle of both. The rate of one broker is the mean of all, for the greatest of noisy
    quotients would be too great.
    """
    left: dict[BrokerId, float] = {}
    for move in state.open_moves():
        for broker, missing in bytes_left(move, meter.present).items():
            left[broker] = left.get(broker, 0) + missing
    remaining = sum(left.values())
    samples = list(meter.samples)
    if len(samples) < 3 or samples[-1][0] - samples[0][0] < LEAST_MS:
        return None
    everything = [(at, received) for at, received, _by_broker in samples]
    shortest = FREE_HALF_LIFE_MS if state.limit is None else HALF_LIFE_MS
    half_life = max(shortest, (samples[-1][0] - samples[0][0]) / 2)
    together = _rate(everything, half_life)
    if together <= 0:
        return None
    receiving = sum(samples[-1][2].get(broker, 0) > samples[0][2].get(broker, 0) for broker in sorted(samples[-1][2]))
    one = together / max(1, receiving)
    shared, alone = remaining / together, max(left.values(), default=0) / one
    guessed = 0.0
    if state.limit is not None:
        # What came before the first sample may have been a burst, after which little comes, and that steadily.
        noise = _noise(everything if meter.origin is None else [meter.origin, *everything])
        one, guessed = _throttled_rate(one, noise, state.limit, samples[-1][0] - samples[0][0], meter.throttle_yield)
        # Between two bursts the last sample is ahead of the throttle's steady line, or behind it.
        ahead = _ahead(everything, half_life)
        left = {broker: missing * max(0.0, 1 + ahead / max(1, remaining)) for broker, missing in left.items()}
        remaining = sum(left.values())
        waiting = sum(missing > 0 for missing in left.values())
        shared, alone = remaining / (one * max(1, waiting)), max(left.values(), default=0) / one
    alone = max(shared, alone)
    middle = alone if state.limit is not None else (shared + alone) / 2
    share = sqrt(_spread(everything) ** 2 + MODEL_ERROR**2 + (guessed * PRIOR_ERROR) ** 2)
    gone = max(0, now_ms - samples[-1][0]) / 1000
    low = min(middle, shared) * (1 - share) - gone
    high = max(middle, alone) * (1 + share) - gone
    return Estimate(
        int(remaining), together, *(max(0, int(seconds * 1000)) for seconds in (middle - gone, low, max(high, 0)))
    )


def _throttled_rate(
    measured: float, noise: float, limit: int, lasted_ms: int, usual: float | None
) -> tuple[float, float]:
    """What one broker receives under a throttle, and how much of that (0 to 1) is not measured but expected.

    Kafka's quotas let ten seconds' worth through at once and then nothing where a fetch is a large part of it: such a
    measurement is off by a constant number of bytes, so its precision grows with the square of its time. Before it has
    any, what came through the throttle before this one (`usual`, as a share) says more. What comes in steadily can be
    believed at once, and so can it where much less than the throttle comes through: something else holds.
    """
    if measured < limit / 2 and lasted_ms >= SHORT_MS:
        return measured, 0.0
    expected = limit * (THROTTLE_YIELD if usual is None else usual)
    by_time = TRUST_MS**2 / (TRUST_MS**2 + lasted_ms**2)
    by_noise = noise**2 / (noise**2 + PRIOR_ERROR**2)
    guessed = min(by_time, by_noise)
    return min(limit, guessed * expected + (1 - guessed) * measured), guessed


def _noise(points: list[tuple[int, int]]) -> float:
    """How far the mean rate may be off (80 %), as a share of it: bytes off the straight line, over all that grew.

    1: it can't be told yet.
    """
    count = len(points)
    grown = points[-1][1] - points[0][1]
    if count < FEWEST_SAMPLES or grown <= 0:
        return 1.0
    middle = sum(at for at, _bytes in points) / count
    height = sum(found for _at, found in points) / count
    spread = sum((at - middle) ** 2 for at, _bytes in points)
    tilt = sum((at - middle) * (found - height) for at, found in points) / spread
    off = sum((found - height - tilt * (at - middle)) ** 2 for at, found in points)
    return NORMAL_80 * sqrt(2 * off / (count - 2)) / grown


def _ahead(points: list[tuple[int, int]], half_life_ms: float) -> float:
    """By how many bytes the last sample is above the weighted least squares line through all."""
    last = points[-1][0]
    weights = [0.5 ** ((last - at) / half_life_ms) for at, _bytes in points]
    total = sum(weights)
    middle = sum(weight * at for weight, (at, _bytes) in zip(weights, points, strict=True)) / total
    height = sum(weight * found for weight, (_at, found) in zip(weights, points, strict=True)) / total
    spread = sum(weight * (at - middle) ** 2 for weight, (at, _bytes) in zip(weights, points, strict=True))
    tilt = sum(weight * (at - middle) * (found - height) for weight, (at, found) in zip(weights, points, strict=True))
    return points[-1][1] - float(height + tilt / spread * (last - middle))


def _rate(points: list[tuple[int, int]], half_life_ms: float) -> float:
    """Bytes per second, the latest counting most, stretches of standing still left out."""
    last = points[-1][0]
    grown = lasted = 0.0
    for (before_ms, before), (after_ms, after) in _moving(points):
        weight = 0.5 ** ((last - after_ms) / half_life_ms)
        grown += weight * (after - before)
        lasted += weight * (after_ms - before_ms)
    return 0.0 if lasted <= 0 else grown * 1000 / lasted


def _moving(points: list[tuple[int, int]]) -> Iterable[tuple[tuple[int, int], tuple[int, int]]]:
    still: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for before, after in pairwise(points):
        if after[1] == before[1]:
            still.append((before, after))
            continue
        if still and still[-1][1][0] - still[0][0][0] < STALL_MS:
            yield from still
        still = []
        yield before, after
    if still and still[-1][1][0] - still[0][0][0] < STALL_MS:
        yield from still


def _spread(points: list[tuple[int, int]]) -> float:
    """Half the width of the 80 % interval of the mean rate, as a share of it, from the rates of a few blocks."""
    steps = list(_moving(points))
    if len(steps) < BLOCKS:
        return 0.5
    size = len(steps) // BLOCKS
    rates: list[float] = []
    for block in range(BLOCKS):
        part = steps[len(steps) - (block + 1) * size : len(steps) - block * size]
        lasted = sum(after[0] - before[0] for before, after in part)
        rates.append(sum(after[1] - before[1] for before, after in part) / max(1, lasted))
    mean = sum(rates) / BLOCKS
    if mean <= 0:
        return 0.5
    deviation = sqrt(sum((rate - mean) ** 2 for rate in rates) / (BLOCKS - 1))
    return min(0.5, QUANTILE_80 * deviation / mean / sqrt(BLOCKS))


class Forecast(NamedTuple):
    """Before the start: bytes to copy, seconds at the least (bounds), and the bandwidth that this assumes."""

    total_bytes: int
    seconds: float
    bandwidth: int
    guessed: bool


GUESSED_BANDWIDTH = 50_000_000
"""Bytes per second of a broker of which nothing is known; said to be a guess wherever it is used."""


def forecast(moves: Iterable[Move], *, bandwidth: int, learnt: Mapping[BrokerId, list[int]]) -> Forecast:
    """How long a plan takes at the least: each broker's bytes in and out over its bandwidth, the longest chain.

    Args:
        moves: As accepted; `size_bytes` of each.
        bandwidth: Bytes per second that each broker can carry; 0: the median of what was learnt, else a guess.
        learnt: Rates of earlier executions, by broker.
    """
    known = sorted(rate for rates in learnt.values() for rate in rates)
    guessed = bandwidth == 0 and not known
    speed = bandwidth or (known[len(known) // 2] if known else GUESSED_BANDWIDTH)
    incoming: dict[BrokerId, int] = {}
    outgoing: dict[BrokerId, int] = {}
    longest = total = 0
    for move in moves:
        new = [broker for broker in move.goal if broker not in move.current]
        for broker in new:
            incoming[broker] = incoming.get(broker, 0) + move.size_bytes
        source = move.current[0]
        outgoing[source] = outgoing.get(source, 0) + move.size_bytes * len(new)
        total += move.size_bytes * len(new)
        longest = max(longest, move.size_bytes * len(new))
    busiest = max([longest, *incoming.values(), *outgoing.values()])
    return Forecast(total, busiest / speed, speed, guessed)
