"""Bytes really copied, and how fast: what progress, the ETA and the journal's learnt rates are made from."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from shunter.core.executor.pausing import paused_copies
from shunter.core.executor.state import ExecutorState, yield_of
from shunter.model.execution import JournalRecord, RateObserved
from shunter.model.partition import BrokerId, TopicPartition

SAMPLES = 120
RECORD_EVERY_MS = 30_000
LEARN_MS = 20_000
"""Two bursts of Kafka's quotas: less says little about how much of a throttle is used."""
STILL_MS = 10_000
"""Who received nothing for so long has all, or stands still."""


@dataclass(slots=True)
class Meter:
    """Samples of the bytes that all moves have copied: (ms, bytes in total, bytes per receiving broker)."""

    samples: deque[tuple[int, int, dict[BrokerId, int]]] = field(
        default_factory=lambda: deque[tuple[int, int, dict[BrokerId, int]]](maxlen=SAMPLES)
    )
    received: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """Bytes that each broker received for moves, as far as seen by this process."""
    present: dict[tuple[BrokerId, TopicPartition], int] = field(
        default_factory=dict[tuple[BrokerId, TopicPartition], int]
    )
    origin: tuple[int, int] | None = None
    """(ms, bytes) before the first sample: when the first step began, or the last sample under another throttle."""
    limit: int | None = None
    paused: frozenset[TopicPartition] = frozenset()
    """Paused copies that trickle beside the others: what was measured with them says nothing of what is without."""
    throttle_yield: float | None = None
    """What came through the throttle before the present one, as a share of it; None: nothing was learnt yet."""
    recorded_at_ms: int = 0

    def sample(self, state: ExecutorState, at_ms: int, seen: set[tuple[BrokerId, TopicPartition]]) -> None:
        """Take in sizes that were just observed."""
        for move in state.stepping():
            assert move.step is not None
            for broker in move.step.adding:
                key = (broker, move.tp)
                if key not in seen:
                    continue
                now = state.cluster.sizes[key].bytes
                grown = max(0, now - self.present.get(key, 0))
                self.present[key] = max(now, self.present.get(key, 0))
                self.received[broker] = self.received.get(broker, 0) + grown
        paused = frozenset(move.tp for move in paused_copies(state))
        if self.limit != state.limit or self.paused != paused:
            # What was measured under another throttle says nothing about this one, but for how much of it was used.
            if not self.paused:
                self._learn_yield()
            self.paused = paused
            self.origin = self.samples[-1][:2] if self.samples else None
            self.limit = state.limit
            self.samples.clear()
        if self.origin is None:
            begun = [move.step.begun_at_ms for move in state.stepping() if move.step is not None]
            self.origin = (min(begun, default=at_ms), 0)
        self.samples.append((at_ms, sum(self.received.values()), dict(self.received)))

    def _learn_yield(self) -> None:
        if self.limit is None or len(self.samples) < 2 or self.samples[-1][0] - self.samples[0][0] < LEARN_MS:
            return
        (first_ms, before_all, before), (last_ms, after_all, after) = self.samples[0], self.samples[-1]
        receiving = sum(after[broker] > before.get(broker, 0) for broker in sorted(after))
        rate = (after_all - before_all) * 1000 / (last_ms - first_ms) / max(1, receiving)
        share = yield_of(rate, self.limit)
        if share is not None:
            self.throttle_yield = share


def usual_yield(state: ExecutorState, meter: Meter) -> float | None:
    """What usually comes through a throttle here, as a share of it: of this process, else of the journal; None: unknown."""
    if meter.throttle_yield is not None:
        return meter.throttle_yield
    return median(state.learnt_yields) if state.learnt_yields else None


def observe_rates(state: ExecutorState, meter: Meter, now_ms: int) -> list[JournalRecord]:
    """Write down what each broker received, every half minute while something is copied."""
    if len(meter.samples) < 2 or now_ms < meter.recorded_at_ms + RECORD_EVERY_MS:
        return []
    if meter.recorded_at_ms == 0:
        meter.recorded_at_ms = now_ms
        return []
    (first_ms, _all, before), (last_ms, _total, after) = meter.samples[0], meter.samples[-1]
    if last_ms < first_ms + LEARN_MS:
        return []
    meter.recorded_at_ms = now_ms
    lately = next(sample[2] for sample in meter.samples if sample[0] >= last_ms - STILL_MS)
    records: list[JournalRecord] = []
    for broker in sorted(after):
        grown = after[broker] - before.get(broker, 0)
        if after[broker] > lately.get(broker, 0):
            rate = grown * 1000 // (last_ms - first_ms)
            records.append(RateObserved(broker, rate, limited=state.limit is not None))
    return records
