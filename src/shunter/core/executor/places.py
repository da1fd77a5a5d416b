"""Places of copies to dead brokers: a move that could go on takes such a place, and the copy is cancelled.

A copy to a broker that is down counts towards the bounds, because it goes on as soon as the broker is back. So its place
is given away only by a cancel. The cancelled move takes its turn again like any other, and no bound is ever exceeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shunter.core.executor.capacity import Capacity
from shunter.core.executor.choice import Begin, undo
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.step_status import Standing
from shunter.model.partition import BrokerId, Replicas

DEAD_MS = 60_000
"""A copy keeps its place for so long after its broker was missed. Most restarts take less, and lose nothing."""
TRIED = 100
"""So many moves that wait for their turn are tried, in their order."""


class Awaiting(NamedTuple):
    """A move that a bound keeps from beginning a step that copies `adding`."""

    move: Move
    adding: Replicas


def note_missed(state: ExecutorState, now_ms: int) -> int | None:
    """Note since when brokers of running copies are missed; returns when the next of them is given up, None: never."""
    cluster, missed = state.cluster, state.cluster.missed_since_ms
    wanted = {broker for move in state.stepping() for broker in move.copying if broker not in cluster.brokers}
    for broker in sorted(missed.keys() - wanted):
        del missed[broker]
    for broker in sorted(wanted):
        missed.setdefault(broker, now_ms)
    return min((at_ms + DEAD_MS for at_ms in missed.values() if at_ms + DEAD_MS > now_ms), default=None)


def dead_copies(state: ExecutorState, now_ms: int) -> list[Move]:
    """Moves whose step copies to a broker that has been missed for `DEAD_MS`; those that copied least come first."""
    missed, cluster = state.cluster.missed_since_ms, state.cluster
    dead = {broker for broker, at_ms in missed.items() if now_ms - at_ms >= DEAD_MS}
    found = [move for move in state.stepping() if dead.intersection(move.copying) and _is_settled(state, move)]

    def copied(move: Move) -> int:
        return sum(
            cluster.sizes[broker, move.tp].bytes for broker in move.copying if (broker, move.tp) in cluster.sizes
        )

    return sorted(found, key=copied) if dead else []


def _is_settled(state: ExecutorState, move: Move) -> bool:
    """Whether the step is known to run, and nothing else is being decided about it."""
    step, status = move.step, move.status
    runs = step is not None and step.accepted and not step.cancels and move.tp in state.cluster.ongoing
    return runs and status.standing is Standing.SEEN and status.doubt is None and move.turned_at_ms is None


def given_up(
    state: ExecutorState, live: frozenset[BrokerId], refused: Sequence[Awaiting], now_ms: int
) -> tuple[Move, list[tuple[Move, Begin]]] | None:
    """The cancels of copies to dead brokers that let a move begin, after that move; None: no cancel does."""
    if any(move.step is not None and move.step.cancels for move in state.stepping()):
        return None  # Its place becomes free first.
    cancels: list[tuple[Move, Begin]] = []
    for move in dead_copies(state, now_ms):
        seen = state.cluster.partition(move.tp)
        undone = None if seen is None else undo(move, seen, live, state.least_in_sync(move), put_off=True)
        if isinstance(undone, Begin):
            cancels.append((move, undone))
    for waiting in refused[:TRIED]:
        for some in [[each] for each in cancels] + ([cancels] if len(cancels) > 1 else []):
            left = Capacity.of(state, now_ms, without={move.tp for move, _cancel in some})
            if left.refusal(waiting.move, waiting.adding) is None:
                return waiting.move, some
    return None


def asked_before(move: Move, broker: BrokerId) -> bool:
    """Whether a broker knows the log dir of a replica that is to come, or refused it. Else it would choose one."""
    status = move.log_dir_status
    return broker in status.refused or (broker in status.asked and not move.asking)
