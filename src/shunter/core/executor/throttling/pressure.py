"""How fast the execution may go right now: the operator's limit, adapted to the cluster's health, and time windows."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.core.executor.ready import Collected
from shunter.core.executor.state import ExecutorState
from shunter.core.wording import counted, told_rate
from shunter.model.execution import JournalRecord, LimitChanged
from shunter.model.notice import Notice

ADAPT_EVERY_MS = 30_000
SLOWER = 0.75
FASTER = 1.10
SLOW_MS = 2_000
"""A broker that takes this long to answer with reassignments or metadata has too much to do."""
SLOW_SHARE = 0.5
"""The share of answers since the last adaptation that have to be slow before they count: one may be a mere pause."""


@dataclass(slots=True)
class Pressure:
    """Signals that the cluster suffers, gathered since the last adaptation."""

    adapted_at_ms: int = 0
    answers: int = 0
    slow_answers: int = 0
    ceiling: int | None = None
    """The operator's limit, which adaptation never exceeds; noted when the operator's order is applied."""
    said: int | None = None
    """The rate that adaptation asked for last."""

    def on_answer(self, took_ms: int) -> None:
        """Note an answer: if brokers take long to answer the executor, they take long to answer clients."""
        self.answers += 1
        self.slow_answers += took_ms >= SLOW_MS

    @property
    def slow(self) -> bool:
        """Whether brokers took long to answer since the last adaptation."""
        return self.slow_answers > 1 and self.slow_answers >= self.answers * SLOW_SHARE


def decide_limit(state: ExecutorState, pressure: Pressure, now_ms: int, out: Collected) -> list[JournalRecord]:
    """Adapt the limit by a bounded step: down a quarter while other traffic suffers, up a tenth while it does not.

    Other traffic suffers if partitions that don't move are out of sync (new replicas of moves always are), or if
    brokers take long to answer.
    """
    floor = state.options.throttle_floor
    if floor is None or state.limit is None:
        return []
    if pressure.ceiling is None or state.limit != pressure.said:
        pressure.ceiling = pressure.said = state.limit
        pressure.adapted_at_ms = now_ms
    if now_ms < pressure.adapted_at_ms + ADAPT_EVERY_MS:
        out.wake(pressure.adapted_at_ms + ADAPT_EVERY_MS)
        return []
    pressure.adapted_at_ms = now_ms
    suffering, slow = _suffering(state), pressure.slow
    pressure.answers = pressure.slow_answers = 0
    wanted = int(state.limit * (SLOWER if suffering or slow else FASTER))
    wanted = max(floor, min(wanted, pressure.ceiling))
    if wanted == state.limit:
        return []
    pressure.said = wanted
    reason = "brokers take long to answer" if slow else "no other traffic suffers"
    if suffering:
        told = counted(suffering, "partition that doesn't move is", "partitions that don't move are")
        reason = f"{told} out of sync"
    out.notices.append(Notice("limit-adapted", "", f"{told_rate(wanted)}: {reason}"))
    return [LimitChanged(wanted, f"adapted: {reason}")]


def _suffering(state: ExecutorState) -> int:
    moving = {move.tp for move in state.open_moves()}
    count = 0
    for name, topic in state.cluster.topics.items():
        if topic is None:
            continue
        for number, seen in topic.partitions.items():
            out_of_sync = [broker for broker in seen.replicas if broker not in seen.isr]
            alive = any(broker in state.cluster.brokers for broker in out_of_sync)
            count += alive and (name, number) not in moving
    return count
