"""Measures bytes really copied, and how fast. Progress, the ETA and the journal's rates come from these samples."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from shunter.core.executor.estimates.projection import Pair, Rates, shared
from shunter.core.executor.state import ExecutorState, yield_of
from shunter.core.executor.throttling.pausing import paused_copies
from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LOWEST_RATE
from shunter.model.execution import JournalRecord, RateObserved, ThrottleKey
from shunter.model.partition import BrokerId, TopicPartition

SAMPLES = 120
RECORD_EVERY_MS = 30_000
LEARN_MS = 20_000
"""The time of two bursts of Kafka's quotas: a shorter measurement says little about how much of a throttle is used."""
WITHIN_MS = 60_000
"""Copies between log dirs are measured over this time."""
STILL_MS = 10_000
"""A broker that received nothing for this long has received everything, or stands still."""


class Sample(NamedTuple):
    """Bytes that were copied up to a moment, as far as this process saw them: in all, and by receiving broker.

    `work_ms` counts milliseconds in which one broker received at the full rate of the throttle: two brokers at the same
    time count twice, two that share one sender count once. `worked_ms` has the same by broker. So bytes divided by work
    are a rate that does not depend on how many steps ran at the time.
    """

    at_ms: int
    total: int
    received: dict[BrokerId, int]
    work_ms: float
    worked_ms: dict[BrokerId, float]


class Within(NamedTuple):
    """Bytes that each broker was seen to copy between its log dirs, up to a moment."""

    at_ms: int
    copied: dict[BrokerId, int]


class Point(NamedTuple):
    """A moment, and the work done and bytes copied up to that moment."""

    at_ms: int
    work_ms: float
    bytes: int


def lower_rates(others: Mapping[ThrottleKey, int]) -> tuple[dict[BrokerId, float], dict[BrokerId, float]]:
    """Other tools' rates that hold in place of the executor's, in bytes per second: by receiver, and by sender."""
    rates = {key: max(float(rate), LOWEST_RATE) for key, rate in others.items()}
    into = {int(key.name): rate for key, rate in rates.items() if key.setting == FOLLOWER_RATE}
    return into, {int(key.name): rate for key, rate in rates.items() if key.setting == LEADER_RATE}


@dataclass(slots=True)
class Meter:
    """Samples of the bytes that all moves have copied."""

    samples: deque[Sample] = field(default_factory=lambda: deque[Sample](maxlen=SAMPLES))
    received: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """Bytes that each broker received for moves, as far as seen by this process."""
    present: dict[tuple[BrokerId, TopicPartition], int] = field(
        default_factory=dict[tuple[BrokerId, TopicPartition], int]
    )
    """The most bytes that each copy under way was seen to have."""
    ended: dict[TopicPartition, int] | None = None
    """Bytes of each move's ended steps that were counted; None: no sample was taken yet."""
    begun_at_ms: dict[tuple[BrokerId, TopicPartition], int] = field(
        default_factory=dict[tuple[BrokerId, TopicPartition], int]
    )
    """When the step began that each of these copies belongs to."""
    origin: Point | None = None
    """The point before the first sample: when the first step began, or the last sample under another throttle."""
    work_ms: float = 0.0
    worked_ms: dict[BrokerId, float] = field(default_factory=dict[BrokerId, float])
    held: frozenset[BrokerId] = frozenset()
    """Brokers into which others' throttles held copies at the last sample: their rates say nothing of the brokers."""
    limit: int | None = None
    paused: frozenset[TopicPartition] = frozenset()
    """Paused copies that still run very slowly. When they change, earlier samples are dropped."""
    throttle_yield: float | None = None
    """The rate of copies under the throttle before the present one, as a share of that throttle; None: unknown yet."""
    recorded_at_ms: int = 0
    within: deque[Within] = field(default_factory=lambda: deque[Within](maxlen=SAMPLES))
    """Samples of what was copied from one log dir to another."""
    futures: dict[tuple[BrokerId, TopicPartition], int] = field(
        default_factory=dict[tuple[BrokerId, TopicPartition], int]
    )
    """Bytes that each copy between log dirs had when it was seen last."""

    def _sample_within(self, state: ExecutorState, at_ms: int, seen: set[tuple[BrokerId, TopicPartition]]) -> None:
        """Take in how far copies between log dirs have got; one that is gone has arrived, or was given up."""
        copied = dict(self.within[-1].copied) if self.within else {}
        for key in seen & (self.futures.keys() | state.cluster.futures.keys()):
            before, future = self.futures.pop(key, 0), state.cluster.futures.get(key)
            if future is not None:
                self.futures[key] = future.bytes
                copied[key[0]] = copied.get(key[0], 0) + max(0, future.bytes - before)
        if self.futures or self.within:
            self.within.append(Within(at_ms, copied))

    def within_rates(self) -> dict[BrokerId, float]:
        """Bytes per second that brokers copied between their log dirs lately, of those that copied some."""
        if len(self.within) < 2:
            return {}
        last = self.within[-1]
        first = next(each for each in self.within if last.at_ms - each.at_ms <= WITHIN_MS)
        lasted_ms = last.at_ms - first.at_ms
        grown = {broker: copied - first.copied.get(broker, 0) for broker, copied in last.copied.items()}
        return {broker: more * 1000 / lasted_ms for broker, more in grown.items() if more > 0 and lasted_ms > 0}

    def sample(
        self,
        state: ExecutorState,
        at_ms: int,
        seen: set[tuple[BrokerId, TopicPartition]],
        others: Mapping[ThrottleKey, int] | None = None,
    ) -> None:
        """Take in sizes that were just observed. `others`: other tools' rates that hold in place of this executor's."""
        self._sample_within(state, at_ms, seen)
        self.held = frozenset(lower_rates(others or {})[0])
        copying, since_ms = self._take_in(state, seen)
        paused = frozenset(move.tp for move in paused_copies(state))
        if self.limit != state.limit or self.paused != paused:
            # Measurements under another throttle say only one thing about this one: how much of a throttle copies use.
            if not self.paused:
                self._learn_yield()
            self.paused = paused
            self.origin = _point(self.samples[-1]) if self.samples else None
            self.limit = state.limit
            self.samples.clear()
        if self.origin is None:
            begun = [move.step.begun_at_ms for move in state.stepping() if move.step is not None]
            self.origin = Point(min(begun, default=at_ms), self.work_ms, 0)
        last_ms = self.samples[-1].at_ms if self.samples else self.origin.at_ms
        self._count_work(copying, others or {}, at_ms - max(last_ms, since_ms))
        total = sum(self.received.values())
        self.samples.append(Sample(at_ms, total, dict(self.received), self.work_ms, dict(self.worked_ms)))

    def _take_in(self, state: ExecutorState, seen: set[tuple[BrokerId, TopicPartition]]) -> tuple[Counter[Pair], int]:
        """Count new bytes; returns the copies that ran since the last sample, and when the first of them began."""
        copying: Counter[Pair] = Counter()
        since: list[int] = []
        under_way = {(broker, move.tp) for move in state.stepping() for broker in move.copying}
        self._count_ended(state, under_way, copying)
        self.present = {key: had for key, had in self.present.items() if key in under_way}
        self.begun_at_ms = {key: at_ms for key, at_ms in self.begun_at_ms.items() if key in under_way}
        for move in state.stepping():
            assert move.step is not None
            partition = state.cluster.partition(move.tp)
            for broker in move.step.adding:
                key = (broker, move.tp)
                if self.begun_at_ms.get(key) != move.step.begun_at_ms:
                    self.begun_at_ms[key] = move.step.begun_at_ms
                    if not any(broker in after for after in move.step.redirected_from):
                        self.present.pop(key, None)  # It is copied anew.
                if key not in seen:
                    continue
                before, now = self.present.get(key, 0), state.cluster.sizes[key].bytes
                grown = max(0, now - before)
                self.present[key] = max(now, before)
                self.received[broker] = self.received.get(broker, 0) + grown
                if not move.paused and (grown or before < move.size_bytes):
                    copying[-1 if partition is None else partition.leader, broker] += 1
                    since.append(move.step.begun_at_ms)
        return copying, min(since, default=0)

    def _count_ended(
        self, state: ExecutorState, under_way: set[tuple[BrokerId, TopicPartition]], copying: Counter[Pair]
    ) -> None:
        """Count what steps that ended brought after they were seen last: small copies end between two looks."""
        known, self.ended = self.ended, {tp: move.copied_bytes for tp, move in state.moves.items() if move.copied_bytes}
        if known is None:
            return
        seen: dict[TopicPartition, list[BrokerId]] = {}
        for broker, tp in self.present.keys() - under_way:
            seen.setdefault(tp, []).append(broker)
        for tp, copied in self.ended.items():
            move, partition = state.moves[tp], state.cluster.partition(tp)
            brokers = seen.get(tp) or [each for each in move.current if each not in move.original][-1:]
            rest = copied - known.get(tp, 0) - sum(self.present.get((broker, tp), 0) for broker in brokers)
            if copied > known.get(tp, 0) and rest > 0:
                for broker in brokers:
                    self.received[broker] = self.received.get(broker, 0) + rest // len(brokers)
                    copying[-1 if partition is None else partition.leader, broker] += 1

    def _count_work(self, copying: Counter[Pair], others: Mapping[ThrottleKey, int], lasted_ms: int) -> None:
        if self.limit is None:
            rates = Rates(1.0, {}, {}, sends=False)
        else:
            into, out = lower_rates(others)
            rates = Rates(float(self.limit), into, out)
        for pair, rate in shared(copying, rates).items():
            work_ms = max(0, lasted_ms) * rate * copying[pair] / rates.each
            self.work_ms += work_ms
            self.worked_ms[pair[1]] = self.worked_ms.get(pair[1], 0.0) + work_ms

    def points(self) -> list[Point]:
        """The samples as points."""
        return [_point(sample) for sample in self.samples]

    def _learn_yield(self) -> None:
        if self.limit is None or len(self.samples) < 2:
            return
        first, last = self.samples[0], self.samples[-1]
        worked_ms = last.work_ms - first.work_ms
        if last.at_ms - first.at_ms < LEARN_MS or worked_ms <= 0:
            return
        share = yield_of((last.total - first.total) * 1000 / worked_ms, self.limit)
        if share is not None:
            self.throttle_yield = share


def _point(sample: Sample) -> Point:
    return Point(sample.at_ms, sample.work_ms, sample.total)


def usual_yield(state: ExecutorState, meter: Meter) -> float | None:
    """The usual rate of throttled copies as a share of the throttle: here, else in the journal; None: unknown."""
    if meter.throttle_yield is not None:
        return meter.throttle_yield
    return median(state.learnt_yields) if state.learnt_yields else None


def observe_rates(state: ExecutorState, meter: Meter, now_ms: int) -> list[JournalRecord]:
    """Write down the rate at which each broker received, every half minute while something is copied."""
    if len(meter.samples) < 2 or now_ms < meter.recorded_at_ms + RECORD_EVERY_MS:
        return []
    if meter.recorded_at_ms == 0:
        meter.recorded_at_ms = now_ms
        return []
    first, last = meter.samples[0], meter.samples[-1]
    if last.at_ms < first.at_ms + LEARN_MS:
        return []
    meter.recorded_at_ms = now_ms
    lately = next(sample.received for sample in meter.samples if sample.at_ms >= last.at_ms - STILL_MS)
    records: list[JournalRecord] = []
    for broker in sorted(last.received):
        # Count only the time in which the broker received: one that receives in the second step was idle in the first.
        worked_ms = last.worked_ms.get(broker, 0.0) - first.worked_ms.get(broker, 0.0)
        still = last.received[broker] <= lately.get(broker, 0)
        if not still and broker not in meter.held and worked_ms >= LEARN_MS:
            rate = int((last.received[broker] - first.received.get(broker, 0)) * 1000 / worked_ms)
            records.append(RateObserved(broker, rate, limited=state.limit is not None))
    return records
