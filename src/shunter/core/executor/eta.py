"""When it will be over: from bytes really copied, with an interval, or honestly unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from shunter.core.executor.rates import Meter, usual_yield
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.throttles import FOLLOWER_RATE, LEADER_RATE
from shunter.model.execution import Direction, ThrottleKey
from shunter.model.partition import BrokerId, TopicPartition

HALF_LIFE_MS = 60_000
"""Under a throttle a sample this much older counts half, or half of the time measured if that is longer: long enough for
some bursts of Kafka's quotas to even out."""
FREE_HALF_LIFE_MS = 5_000
"""The same without a throttle, where there are no bursts to even out, and brokers warm up and get in one another's way."""
STALL_MS = 10_000
"""A broker that received nothing for so long stood still; how fast it went while it went is what counts."""
LEAST_MS = 4_000
TRUST_MS = 30_000
"""After so long what was measured under a throttle counts as much as what is known of throttles."""
SHORT_MS = 15_000
"""Less than half of a throttle coming through for so long is not the throttle's doing."""
QUOTA_WINDOW_MS = 11_000
"""What a broker's quota looks back on, as brokers are by themselves (replication.quota.window.num of one second each):
who had more than his share in it gets so much less within the next."""
THROTTLE_YIELD = 0.9
"""What comes through a throttle, as a share of it: 0.88 to 0.95 on real brokers (docs/performance.md), for a throttled
follower looks again after a second. It is less where batches are a large part of a fetch: what a fetch cuts off of its
last batch counts, and comes again."""
MOST_YIELD = 0.95
"""More than this of a throttle comes through in bursts alone."""
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


def placing_left(state: ExecutorState, move: Move) -> dict[BrokerId, int]:
    """Bytes that brokers have still to copy from one of their log dirs to another, by broker."""
    if not move.open or move.direction is not Direction.FORWARD:
        return {}
    paths, cluster = dict(move.log_dirs), state.cluster
    left: dict[BrokerId, int] = {}
    for broker in move.placing:
        key = (broker, move.tp)
        there = key in cluster.sizes and cluster.sizes[key].log_dir == paths[broker] and key not in cluster.futures
        future = cluster.futures.get(key)
        if not there and broker not in move.log_dirs_refused:
            left[broker] = max(0, move.size_bytes - (0 if future is None else future.bytes))
    return left


def estimate(
    state: ExecutorState,
    meter: Meter,
    now_ms: int,
    *,
    moves: Iterable[Move] | None = None,
    others: Mapping[ThrottleKey, int] | None = None,
) -> Estimate | None:
    """Estimate the end from what was copied lately; None: unknown yet (nothing copied for long enough).

    Two models bound it: all bytes at the rate of all brokers together (brokers that finish leave their share to the
    others), and each broker's bytes at the rate of one (they don't: under a throttle). With a throttle the second is
    the estimate, without one the middle of both. The rate of one broker is the mean of all, for the greatest of noisy
    quotients would be too great. Where somebody else's lower throttle holds (`others`), it holds in the estimate too.
    `moves` are those that count; None: all that are open.
    """
    caps = _Caps.of(others or {})
    left: dict[BrokerId, float] = {}
    sent: dict[BrokerId, float] = {}
    for move in state.open_moves() if moves is None else moves:
        seen = state.cluster.partition(move.tp)
        for broker, missing in bytes_left(move, meter.present).items():
            left[broker] = left.get(broker, 0) + missing
            if seen is not None:
                sent[seen.leader] = sent.get(seen.leader, 0) + missing
    samples = list(meter.samples)
    if len(samples) < 3 or samples[-1][0] - samples[0][0] < LEAST_MS:
        return None
    points = [(at, received) for at, received, _by_broker in samples]
    receiving = max(1, sum(samples[-1][2][broker] > samples[0][2].get(broker, 0) for broker in sorted(samples[-1][2])))
    limit = None if state.limit is None else caps.lowered(state.limit, left)
    pace = _free(points, receiving) if limit is None else _throttled(state, meter, points, receiving, limit)
    if pace is None:
        return None
    remaining = sum(left.values())
    left = {broker: missing * max(0.0, 1 + pace.ahead / max(1, remaining)) for broker, missing in left.items()}
    remaining = sum(left.values())
    together = pace.each * (receiving if state.limit is None else max(1, sum(missing > 0 for missing in left.values())))
    shared = remaining / together
    alone = max(shared, max(left.values(), default=0) / pace.each, caps.longest_s(left, sent))
    middle = alone if state.limit is not None else (shared + alone) / 2
    share = sqrt(_spread(points) ** 2 + MODEL_ERROR**2 + (pace.guessed * PRIOR_ERROR) ** 2)
    gone = max(0, now_ms - samples[-1][0]) / 1000
    low = min(middle, shared) * (1 - share) - gone
    high = max(middle, alone) * (1 + share) - gone
    return Estimate(
        int(remaining), pace.measured, *(max(0, int(seconds * 1000)) for seconds in (middle - gone, low, max(high, 0)))
    )


class _Caps(NamedTuple):
    """Somebody else's rates that hold in place of ours, by who receives and by who sends, bytes per second."""

    into: dict[BrokerId, int]
    out: dict[BrokerId, int]

    @classmethod
    def of(cls, others: Mapping[ThrottleKey, int]) -> _Caps:
        into = {int(key.name): rate for key, rate in others.items() if key.setting == FOLLOWER_RATE}
        return cls(into, {int(key.name): rate for key, rate in others.items() if key.setting == LEADER_RATE})

    def lowered(self, limit: int, left: Mapping[BrokerId, float]) -> int:
        """The greatest rate that any broker with something left may receive at."""
        return max(
            (min(limit, self.into.get(broker, limit)) for broker, missing in left.items() if missing), default=limit
        )

    def longest_s(self, left: Mapping[BrokerId, float], sent: Mapping[BrokerId, float]) -> float:
        """Seconds that the slowest of these brokers takes, at the least."""
        into = [left[broker] / max(1.0, rate * THROTTLE_YIELD) for broker, rate in self.into.items() if broker in left]
        out = [sent[broker] / max(1.0, rate * THROTTLE_YIELD) for broker, rate in self.out.items() if broker in sent]
        return max([0.0, *into, *out])


class _Pace(NamedTuple):
    """How fast bytes come in, per second: of all as measured, of each broker as expected.

    `ahead` is by how many bytes all are ahead of that pace, `guessed` how much of it (0 to 1) is not measured but guessed.
    """

    measured: float
    each: float
    ahead: float = 0.0
    guessed: float = 0.0


def _free(points: list[tuple[int, int]], receiving: int) -> _Pace | None:
    measured = _rate(points, max(FREE_HALF_LIFE_MS, (points[-1][0] - points[0][0]) / 2))
    return None if measured <= 0 else _Pace(measured, measured / receiving)


def _throttled(
    state: ExecutorState, meter: Meter, points: list[tuple[int, int]], receiving: int, limit: int
) -> _Pace | None:
    if meter.origin is not None:
        # What came before the first sample may have been a burst, after which little comes, and that steadily.
        points = [meter.origin, *points]
    lasted_ms = points[-1][0] - points[0][0]
    measured = _rate(points, max(HALF_LIFE_MS, lasted_ms / 2))
    if measured <= 0:
        return None
    usual = usual_yield(state, meter)
    each, guessed = _throttled_rate(measured / receiving, _noise(points), limit, lasted_ms, usual)
    return _Pace(measured, each, _ahead(points, each * receiving), guessed)


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
    return guessed * expected + (1 - guessed) * min(measured, limit * MOST_YIELD), guessed


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


def _ahead(points: list[tuple[int, int]], bytes_per_s: float) -> float:
    """By how many bytes the last sample is above the steady line through those of one window of the quota."""
    last_ms, last = points[-1]
    steady = [found + bytes_per_s * (last_ms - at) / 1000 for at, found in points if last_ms - at <= QUOTA_WINDOW_MS]
    return last - sum(steady) / len(steady)


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
