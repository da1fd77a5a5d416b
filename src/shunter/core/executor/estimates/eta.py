"""Estimates when an execution will be over, from bytes really copied and with an interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import inf, sqrt
from typing import NamedTuple

from shunter.core.executor.estimates.projection import (
    MOST_LINES,
    MOST_WAITING,
    START_S,
    Line,
    Places,
    Rates,
    grouped,
    least_seconds,
    seconds_left,
)
from shunter.core.executor.estimates.rates import Meter, Point, lower_rates, usual_yield
from shunter.core.executor.foresight.stuck import ends_with_its_step
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.waits import WaitKind
from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LOWEST_RATE, is_listed
from shunter.model.execution import Direction, JournalRecord, SizeObserved, ThrottleKey
from shunter.model.partition import BrokerId, TopicPartition
from shunter.model.reassignment import Strategy

HALF_LIFE_MS = 60_000
"""Half-life of samples under a throttle (or half of the time measured, if that is longer): long enough for some bursts
of Kafka's quotas to even out."""
FREE_HALF_LIFE_MS = 5_000
"""Half-life of samples without a throttle: there are no bursts to even out, and rates change as brokers warm up."""
STALL_MS = 10_000
"""If no byte arrived for this long, the copies stood still. Once bytes arrive again, such a stretch does not count for the
rate."""
LEAST_MS = 4_000
TRUST_MS = 30_000
"""After this time a measurement under a throttle counts as much as the general knowledge about throttles."""
SHORT_MS = 15_000
"""If the rate is below half of the throttle for this long, something other than the throttle slows the copies down."""
QUOTA_WINDOW_MS = 11_000
"""The time that a broker's quota looks back on by default (replication.quota.window.num of one second each). A broker
that used more than its share in one such window gets that much less in the next."""
THROTTLE_YIELD = 0.9
"""The rate of throttled copies as a share of the throttle: 0.88 to 0.95 on real brokers (docs/performance.md), because
a throttled follower looks again after a second. It is less if batches are a large part of a fetch: the part of its last
batch that a fetch cuts off counts, and is sent again."""
MOST_YIELD = 0.95
"""A greater share of a throttle is reached in bursts alone."""
PRIOR_ERROR = 0.15
"""How far `THROTTLE_YIELD` may be off, as a share: a busy broker does not use its throttle up."""
BLOCKS = 6
QUANTILE_80 = 1.476
"""Two-sided 80 % of Student's t with BLOCKS - 1 degrees of freedom."""
STEP_S = 0.5
"""Seconds between the last byte of a copy and the first byte of the move's next copy. The replica has to be in sync,
the executor has to see that, and it has to ask for the next step. All this takes about two seconds, but the quota's
burst for a new receiver makes up for most of it."""
FEWEST_SAMPLES = 5
"""Fewer samples say nothing about how steadily bytes come in."""
NORMAL_80 = 1.28
"""Two-sided 80 % of the normal distribution."""
WITHIN_ERROR = 0.3
"""How far the end of copies between log dirs may be off, as a share."""
MODEL_ERROR = 0.05
"""How far the model itself may be off, as a share: partitions grow meanwhile, and the last step copies nothing."""
TURN_ERROR = 0.1
"""The same where moves wait for their turn: a small copy takes as long as its requests, and no two take the same."""
OBSERVED_S = 1.0
"""How far the end may be off, in seconds, because an end is seen at the next observation."""


GROWN_BYTES = 100_000
GROWN_SHARE = 0.05
"""A partition whose size has changed by this share, and by so many bytes, has another size from then on."""


class Estimate(NamedTuple):
    """Remaining bytes, their measured rate (bytes per second), and milliseconds until the end with an 80 % interval."""

    remaining_bytes: int
    bytes_per_s: float
    left_ms: int
    low_ms: int
    high_ms: int


def bytes_left(
    state: ExecutorState, move: Move, sizes: Mapping[tuple[BrokerId, TopicPartition], int]
) -> dict[BrokerId, int]:
    """Bytes that a move's brokers have still to receive, by broker; `sizes`: bytes that copies under way have already.

    A stop cancels copies, but for those that can't be cancelled: they go on, and end the move.
    """
    if not move.open:
        return {}
    comes = [broker for broker in move.goal if broker not in move.current]
    if move.direction is Direction.STOP:
        comes = list(move.copying) if ends_with_its_step(state, move) else []
    left: dict[BrokerId, int] = {}
    for broker in comes:
        # What a broker had of a replica that was dropped since is gone.
        there = sizes.get((broker, move.tp), 0) if broker in move.copying else 0
        left[broker] = max(0, move.size_bytes - there)
    return left


def placing_left(state: ExecutorState, move: Move) -> dict[BrokerId, int]:
    """Bytes that brokers have still to copy from one of their log dirs to another, by broker."""
    if not move.open:
        return {}
    paths, cluster = dict(move.places), state.cluster
    left: dict[BrokerId, int] = {}
    for broker in sorted(move.placed & paths.keys()):
        key = (broker, move.tp)
        there = key in cluster.sizes and cluster.sizes[key].log_dir == paths[broker] and key not in cluster.futures
        future = cluster.futures.get(key)
        if not there and broker not in move.log_dir_status.refused:
            left[broker] = max(0, move.size_bytes - (0 if future is None else future.bytes))
    return left


def size_unknown(state: ExecutorState, move: Move) -> bool:
    """Whether nobody knows how much a move copies: no size was known at acceptance, and its leader has told none."""
    return not move.sized and bool(bytes_left(state, move, {}) or placing_left(state, move))


def observe_sizes(state: ExecutorState) -> list[JournalRecord]:
    """Write down the sizes of open moves' partitions that were unknown at acceptance, or that have changed a lot since."""
    records: list[JournalRecord] = []
    for move in state.open_moves():
        seen = state.cluster.partition(move.tp)
        if seen is None or seen.leader not in move.current or move.direction is Direction.STOP:
            continue
        # A replica that a step copied was not whole before that step ended.
        whole_since_ms = 0 if seen.leader in move.original else move.stepped_at_ms
        if state.cluster.sizes_at_ms.get((seen.leader, move.tp), -1) < whole_since_ms:
            continue
        now = state.cluster.sizes[seen.leader, move.tp].bytes
        if not move.sized or abs(now - move.size_bytes) >= max(GROWN_BYTES, move.size_bytes * GROWN_SHARE):
            records.append(SizeObserved(move.tp, now))
    return records


def estimate_within(state: ExecutorState, meter: Meter, moves: Iterable[Move]) -> Estimate | None:
    """Estimate the end of copies between log dirs, each broker at its own pace; None: a pace is unknown, or none is left.

    A broker that copied nothing yet has the others' mean pace, or that of the throttle.
    """
    left: dict[BrokerId, int] = {}
    for move in moves:
        for broker, missing in placing_left(state, move).items():
            left[broker] = left.get(broker, 0) + missing
    rates = meter.within_rates()
    usual = sum(rates.values()) / len(rates) if rates else state.options.log_dir_throttle
    remaining = sum(left.values())
    if not remaining or not usual:
        return None
    seconds = max(missing / rates.get(broker, usual) for broker, missing in left.items())
    low, high = (int(seconds * 1000 * (1 + sign * WITHIN_ERROR)) for sign in (-1, 1))
    return Estimate(remaining, sum(rates.values()), int(seconds * 1000), low, high)


def copies_left(
    state: ExecutorState, move: Move, sizes: Mapping[tuple[BrokerId, TopicPartition], int], sender: BrokerId
) -> Line | None:
    """The copies that a move has still to make, stage after stage; None if there are none."""
    left = {broker: float(missing) for broker, missing in bytes_left(state, move, sizes).items()}
    if not left:
        return None
    at_once = move.direction is Direction.FORWARD and move.strategy is Strategy.ALL_AT_ONCE
    now = left if at_once else () if move.step is None else move.step.adding
    stages = [{broker: left[broker] for broker in left if broker in now}]
    stages += [{broker: left[broker]} for broker in left if broker not in now]
    return Line(sender, [stage for stage in stages if stage])


def estimate(
    state: ExecutorState,
    meter: Meter,
    now_ms: int,
    *,
    moves: Iterable[Move] | None = None,
    others: Mapping[ThrottleKey, int] | None = None,
) -> Estimate | None:
    """Estimate the end from what was copied lately; None: unknown yet (nothing copied for long enough).

    Under a new throttle, or after a restart, the usual share of a throttle counts until enough was copied.

    Two models bound the estimate. In the first, all bytes are copied at the rate of all brokers together: a broker that
    finishes leaves its share to the others. In the second, each move's steps follow one another at the rate of one
    broker (`projection`): under a throttle no broker gets another's share. With a throttle the second model is the
    estimate, without one the middle of both models. The rate of one broker is the mean of all, because the greatest of
    noisy quotients would be too great. If another tool's lower throttle holds (`others`), it holds in the estimate too.
    `moves`: the moves that count; None: all open moves.
    """
    going = state.open_moves() if moves is None else list(moves)
    lines: list[Line] = []
    for move in going:
        seen = state.cluster.partition(move.tp)
        line = copies_left(state, move, meter.present, -1 if seen is None else seen.leader)
        if line is not None:
            line.waits = move.waits.kind is WaitKind.TURN
            lines.append(line)
    points = meter.points()
    into, out = lower_rates(others or {})
    held = None if state.limit is not None else _held(lines, into, out)
    if len(points) < 3 or points[-1].at_ms - points[0].at_ms < LEAST_MS:
        pace = _expected(state, meter, lines)
    else:
        limit = state.limit if held is None else int(held.each)
        pace = _free(points) if limit is None else _throttled(state, meter, points, limit)
    pace = pace or held
    if pace is None:
        return None
    remaining = sum(missing for line in lines for stage in line.stages for missing in stage.values())
    _scale(lines, max(0.0, 1 + pace.ahead / max(1.0, remaining)))
    remaining = max(0.0, remaining + pace.ahead) if remaining else 0.0
    yielded = {broker: max(1.0, rate * THROTTLE_YIELD) for broker, rate in into.items()}
    rates = Rates(pace.each, yielded, {broker: max(1.0, rate * THROTTLE_YIELD) for broker, rate in out.items()})
    rates = rates._replace(sends=state.limit is not None)
    # A rate far below the throttle, or one without a throttle, has the rests between copies in it already.
    full = 0.0 if state.limit is None else max(0.0, min(1.0, 2 * pace.each / (state.limit * THROTTLE_YIELD) - 1))
    alone = _alone(state, lines, rates, remaining / max(1.0, pace.each * pace.beside), rests=full)
    # What a throttle leaves free at one broker does not help another.
    together = alone if state.limit is not None or into or out else remaining / pace.measured
    model = TURN_ERROR if any(line.waits for line in lines) else MODEL_ERROR
    share = sqrt(_spread(points) ** 2 + model**2 + (pace.guessed * PRIOR_ERROR) ** 2)
    # While nothing was measured, no sample says how far the copies have got: the time that passed is all that is known.
    known = points[-1 if pace.measured else 0] if points else None
    gone = 0.0 if known is None else max(0, now_ms - known.at_ms) / 1000
    low = min(alone, together) * (1 - share) - OBSERVED_S - gone
    high = max(alone, together) * (1 + share) + OBSERVED_S - gone
    middle = (alone + together) / 2 - gone
    return Estimate(int(remaining), pace.measured, *(max(0, int(seconds * 1000)) for seconds in (middle, low, high)))


def _alone(state: ExecutorState, lines: list[Line], rates: Rates, beside_s: float, *, rests: float) -> float:
    """Seconds until all lines have ended, each broker at its own rate.

    Lines that wait for their turn begin as the executor begins them, the longest first. If there are too many lines to
    play them, as many copies run together as until now, which takes `beside_s`. `rests`: the share (0 to 1) of the usual
    rests of lines that wait.
    """
    if any(line.waits for line in lines) and len(lines) <= MOST_WAITING:
        options = state.options
        others = bool(options.max_per_rack or options.max_per_log_dir)
        running = sum(not line.waits for line in lines)
        total = options.max_concurrent or (max(1, running) if others else 0)
        places = Places(total, options.max_in, options.max_out, starts_s=START_S * rests)
        lines.sort(key=lambda line: -sum(missing for stage in line.stages for missing in stage.values()))
        return seconds_left(lines, rates, rest_s=STEP_S * rests, places=places)
    few = grouped(lines)
    if len(few) <= MOST_LINES and not any(line.waits for line in lines):
        return seconds_left(few, rates, rest_s=STEP_S)
    return max(beside_s, least_seconds(few, rates, rest_s=STEP_S))


def _scale(lines: Iterable[Line], factor: float) -> None:
    for line in lines:
        for stage in line.stages:
            for broker in stage:
                stage[broker] *= factor


class _Pace(NamedTuple):
    """Bytes per second that arrive: `measured` at all brokers together (0: nothing was), `each` as expected at one broker.

    `beside`: how many brokers were copied to at the same time. `ahead`: by how many bytes all copies are ahead of that
    pace. `guessed`: the share of `each` (0 to 1) that is guessed, not measured.
    """

    measured: float
    each: float
    beside: float
    ahead: float = 0.0
    guessed: float = 0.0


def _expected(state: ExecutorState, meter: Meter, lines: Iterable[Line]) -> _Pace | None:
    """The pace under a new throttle, or after a restart, before it is measured; None if no share of one is known."""
    usual = usual_yield(state, meter)
    receiving = {broker for line in lines if not line.waits and line.stages for broker in line.stages[0]}
    if state.limit is None or usual is None or not receiving:
        return None
    each = max(1.0, state.limit * usual)
    return _Pace(0.0, each, float(len(receiving)), guessed=1.0)


def _held(lines: Iterable[Line], into: Mapping[BrokerId, float], out: Mapping[BrokerId, float]) -> _Pace | None:
    """The pace of copies that others' throttles hold, before it is measured; None: one of them is not held."""
    each: dict[BrokerId, float] = {}
    for line in lines:
        for broker in line.stages[0] if line.stages else ():
            held = min(into.get(broker, inf), out.get(line.sender, inf))
            each[broker] = min(held, each.get(broker, inf))
    slowest = max(each.values(), default=inf)
    return None if slowest == inf else _Pace(0.0, slowest, float(len(each)), guessed=1.0)


def _free(points: list[Point]) -> _Pace | None:
    half_life_ms = max(FREE_HALF_LIFE_MS, (points[-1].at_ms - points[0].at_ms) / 2)
    measured, each = _rates(points, half_life_ms)
    return None if measured <= 0 or each <= 0 else _Pace(measured, each, measured / each)


def _throttled(state: ExecutorState, meter: Meter, points: list[Point], limit: int) -> _Pace | None:
    if meter.origin is not None:
        # Include the origin: there may have been a burst before the first sample, after which few bytes come steadily.
        points = [meter.origin, *points]
    lasted_ms = points[-1].at_ms - points[0].at_ms
    measured, alone = _rates(points, max(HALF_LIFE_MS, lasted_ms / 2))
    if measured <= 0 or alone <= 0:
        return None
    usual = usual_yield(state, meter)
    each, guessed = _throttled_rate(alone, _noise(points), limit, lasted_ms, usual)
    return _Pace(measured, each, measured / alone, _ahead(points, each), guessed)


def _throttled_rate(
    measured: float, noise: float, limit: int, lasted_ms: int, usual: float | None
) -> tuple[float, float]:
    """Bytes per second that one broker receives under a throttle, and the share of it (0 to 1) that is not measured.

    If one fetch is a large part of a quota, Kafka lets ten seconds' worth of bytes through at once and then nothing.
    Such a measurement is off by a constant number of bytes, so its precision grows with the square of its time. Until
    it is precise, the yield of the throttle before this one (`usual`, as a share) says more. A measurement is believed
    at once if bytes come in steadily, or if the rate is far below the throttle: then something else slows the copies
    down.
    """
    if measured < limit / 2 and lasted_ms >= SHORT_MS:
        return measured, 0.0
    expected = limit * (THROTTLE_YIELD if usual is None else usual)
    by_time = TRUST_MS**2 / (TRUST_MS**2 + lasted_ms**2)
    by_noise = noise**2 / (noise**2 + PRIOR_ERROR**2)
    guessed = min(by_time, by_noise)
    return guessed * expected + (1 - guessed) * min(measured, limit * MOST_YIELD), guessed


def _noise(points: list[Point]) -> float:
    """How far the mean rate may be off (80 %), as a share of it: bytes off the straight line, over all bytes that came.

    1 if the samples are too few to say.
    """
    count = len(points)
    grown = points[-1].bytes - points[0].bytes
    middle = sum(point.work_ms for point in points) / count
    height = sum(point.bytes for point in points) / count
    spread = sum((point.work_ms - middle) ** 2 for point in points)
    if count < FEWEST_SAMPLES or grown <= 0 or spread <= 0:
        return 1.0
    tilt = sum((point.work_ms - middle) * (point.bytes - height) for point in points) / spread
    off = sum((point.bytes - height - tilt * (point.work_ms - middle)) ** 2 for point in points)
    return NORMAL_80 * sqrt(2 * off / (count - 2)) / grown


def _ahead(points: list[Point], bytes_per_s: float) -> float:
    """Bytes by which the last sample is above the steady line through the samples of one window of the quota."""
    last = points[-1]
    window = [point for point in points if last.at_ms - point.at_ms <= QUOTA_WINDOW_MS]
    steady = [point.bytes + bytes_per_s * (last.work_ms - point.work_ms) / 1000 for point in window]
    return last.bytes - sum(steady) / len(steady)


def _rates(points: list[Point], half_life_ms: float) -> tuple[float, float]:
    """Bytes per second of all brokers, and of one. Late samples count most; past stretches without bytes are left out."""
    last_ms = points[-1].at_ms
    grown = lasted = worked = 0.0
    for before, after in _moving(points):
        weight = 0.5 ** ((last_ms - after.at_ms) / half_life_ms)
        grown += weight * (after.bytes - before.bytes)
        lasted += weight * (after.at_ms - before.at_ms)
        worked += weight * (after.work_ms - before.work_ms)
    return (0.0 if lasted <= 0 else grown * 1000 / lasted), (0.0 if worked <= 0 else grown * 1000 / worked)


def _moving(points: list[Point]) -> Iterable[tuple[Point, Point]]:
    still: list[tuple[Point, Point]] = []
    for before, after in pairwise(points):
        if after.bytes == before.bytes:
            still.append((before, after))
            continue
        if not _stalled(still):
            yield from still
        still = []
        yield before, after
    yield from still  # Nobody knows yet whether the copies go on: until then the rate falls.


def _stalled(still: list[tuple[Point, Point]]) -> bool:
    return bool(still) and still[-1][1].at_ms - still[0][0].at_ms >= STALL_MS


def _spread(points: list[Point]) -> float:
    """Half the width of the 80 % interval of the mean rate, as a share of it, from the rates of a few blocks."""
    steps = list(_moving(points))
    if len(steps) < BLOCKS:
        return 0.5
    size = len(steps) // BLOCKS
    rates: list[float] = []
    for block in range(BLOCKS):
        part = steps[len(steps) - (block + 1) * size : len(steps) - block * size]
        worked = sum(after.work_ms - before.work_ms for before, after in part)
        rates.append(sum(after.bytes - before.bytes for before, after in part) / max(1.0, worked))
    mean = sum(rates) / BLOCKS
    if mean <= 0:
        return 0.5
    deviation = sqrt(sum((rate - mean) ** 2 for rate in rates) / (BLOCKS - 1))
    return min(0.5, QUANTILE_80 * deviation / mean / sqrt(BLOCKS))


class Forecast(NamedTuple):
    """The forecast before the start: bytes to copy, the least seconds that this takes, and the assumed bandwidth."""

    total_bytes: int
    seconds: float
    bandwidth: int
    guessed: bool


MOST_AT_ONCE = 10
"""Partitions of 1 MB that one fetch brings, by Kafka's defaults."""
GUESSED_BANDWIDTH = 50_000_000
"""Bytes per second of a broker if nothing is known; the forecast then says that it is a guess."""


def forecast(
    moves: Iterable[Move],
    *,
    bandwidth: int,
    learnt: Mapping[BrokerId, list[int]],
    within: int | None = None,
    others: Mapping[ThrottleKey, int] | None = None,
    lists: Mapping[ThrottleKey, str | None] | None = None,
) -> Forecast:
    """The least time that a plan takes: the bytes of the broker that sends or receives most, over the bandwidth.

    No single move takes longer: one broker sends all its copies. Copies between log dirs cross no network, and go on
    beside the others.

    Args:
        moves: As accepted; `size_bytes` of each.
        bandwidth: Bytes per second that each broker can carry; 0: the median of what was learnt, else a guess.
        learnt: Rates of earlier executions, by broker.
        within: Bytes per second that each broker copies between its log dirs; None: as much as the bandwidth.
        others: Other tools' rates that hold in the bandwidth's place where they are lower.
        lists: Topics' lists, if those rates hold only what these name; None: they hold every copy.
    """
    known = sorted(rate for rates in learnt.values() for rate in rates)
    guessed, others = bandwidth == 0 and not known, others or {}
    speed = bandwidth or (known[len(known) // 2] if known else GUESSED_BANDWIDTH)
    loads: Counter[ThrottleKey] = Counter()
    """Bytes by broker and direction, named as the rates that may hold them."""
    held: Counter[ThrottleKey] = Counter()
    copies: Counter[ThrottleKey] = Counter()
    placed: Counter[BrokerId] = Counter()
    for move in moves:
        for broker in move.placing:
            placed[broker] += move.size_bytes
        for broker in move.goal:
            if broker in move.current:
                continue
            for end, setting in ((broker, FOLLOWER_RATE), (move.current[0], LEADER_RATE)):
                key = ThrottleKey("broker", str(end), setting)
                loads[key] += move.size_bytes
                if key in others and (lists is None or is_listed(lists, move.tp, key)):
                    held[key] += move.size_bytes
                    copies[key] += 1
    taken = [load / speed for load in loads.values()]
    # Under any throttle a fetch passes at a time, and it may bring ten partitions.
    least = {key: LOWEST_RATE * min(MOST_AT_ONCE, many) for key, many in copies.items()}
    taken += [size / min(speed, max(least[key], others[key])) for key, size in held.items()]
    busiest, total = max(taken, default=0.0), sum(loads.values()) // 2
    longest = max(placed.values(), default=0) / (within or speed)
    return Forecast(total + sum(placed.values()), max(busiest, longest), speed, guessed)
