"""The order in which moves run, the time that they take, and the least time of any order (docs/scheduling.md).

`Dispatcher` says which move to start next; `schedule` drives it with a model of bandwidth. In the model, a broker's
bandwidth is split evenly over its moves in each direction, and a move runs at the smaller of the rates that its source
and its target give it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shunter.core.planning.cluster import ABSENT, Flags, Floats, Ints
from shunter.core.planning.request import PlanRefused

_DONE = 1e-9
_LIGHTER_END = 0.01
"""The weight of the less busy end of a move, beside the busier end."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """The copies to be made; M rows. `source` is the broker that is read from, ABSENT if it does not matter."""

    source: Ints
    target: Ints
    size: Floats
    """(M,) bytes."""
    growth: Floats | None = None
    """(M,) bytes per second that are appended to the partition while the copy runs."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """(B,) bytes per second that each broker may send and receive for moves."""

    sent: Floats
    received: Floats


class Concurrency(NamedTuple):
    """How many moves may run at once: in all, and from or to one broker. 0 means no bound."""

    total: int = 0
    per_broker: int = 3


class ExpectedDuration(NamedTuple):
    """Seconds. `lower_bound` is proven; `least` to `most` is the interval from past moves, or from an assumption."""

    lower_bound: float
    least: float
    expected: float
    most: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """When each move starts and ends, in seconds from the start; inf for a move that never gets ahead of its growth."""

    start: Floats
    end: Floats
    makespan: float
    lower_bound: float


class Dispatcher:
    """Chooses the moves to start next: those of the busiest broker first, and of these the longest first.

    A broker's work is the time that it still has to send (or receive) at its bandwidth. The broker with most work
    decides when everything is done, so it must never idle. If per-broker bounds are equal everywhere, a broker with all
    its places taken uses its whole bandwidth, whichever brokers the other ends are.

    Invariants: a move is waiting, running or finished; places never exceed the bounds.
    """

    def __init__(self, transfers: Transfers, bandwidth: Bandwidth, limits: Concurrency) -> None:
        _check(transfers, bandwidth)
        brokers = len(bandwidth.sent)
        self.limits = limits
        self.size = transfers.size
        # A move without a source reads from an extra broker without bounds, behind the others.
        self.source = np.where(transfers.source == ABSENT, brokers, transfers.source)
        self.target = transfers.target
        self.sent = np.append(bandwidth.sent, np.inf)
        self.received = bandwidth.received
        count = len(self.size)
        self.waiting: Flags = np.ones(count, dtype=np.bool_)
        self.running: Flags = np.zeros(count, dtype=np.bool_)
        self._send_work = np.bincount(self.source, weights=self.size, minlength=brokers + 1) / self.sent
        self._receive_work = np.bincount(self.target, weights=self.size, minlength=brokers) / self.received
        most = limits.per_broker or count + 1
        self._send_places = np.append(np.full(brokers, most), count + 1)
        self._receive_places = np.full(brokers, most)
        self._total_places = limits.total or count + 1
        falling = np.argsort(-self.size, kind="stable")
        self._from = _by_broker(falling, self.source, brokers + 1)
        self._to = _by_broker(falling, self.target, brokers)
        # Ends of the moves that finished since the last call; None if any broker may have a free place.
        self._freed: list[tuple[int, int]] | None = None
        self._all = falling

    def next_moves(self) -> list[int]:
        """Start all moves that may start now; returns their indexes, the most urgent first."""
        started: list[int] = []
        while self._total_places > 0:
            candidates = self._candidates()
            if not len(candidates):
                break
            ahead, behind = self._send_work[self.source[candidates]], self._receive_work[self.target[candidates]]
            urgency = np.maximum(ahead, behind) + _LIGHTER_END * np.minimum(ahead, behind)
            move = int(candidates[int(urgency.argmax())])
            self._take(move)
            started.append(move)
        # A bound on the total holds back moves of any broker, so then all moves are candidates again.
        self._freed = None if self.limits.total else []
        return started

    def finished(self, move: int) -> None:
        """Note that a running move has ended, and free its places."""
        assert self.running[move]
        source, target = int(self.source[move]), int(self.target[move])
        self.running[move] = False
        self._send_work[source] -= self.size[move] / self.sent[source]
        self._receive_work[target] -= self.size[move] / self.received[target]
        self._send_places[source] += 1
        self._receive_places[target] += 1
        self._total_places += 1
        if self._freed is not None:
            self._freed.append((source, target))

    def _candidates(self) -> Ints:
        if self._freed is None:
            self._all = self._all[self.waiting[self._all]]
            found = self._all
        else:
            for source, target in self._freed:
                self._from[source] = self._from[source][self.waiting[self._from[source]]]
                self._to[target] = self._to[target][self.waiting[self._to[target]]]
            parts = [self._from[source] for source, _ in self._freed] + [self._to[target] for _, target in self._freed]
            found = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        free = (self._send_places[self.source[found]] > 0) & (self._receive_places[self.target[found]] > 0)
        return found[free]

    def _take(self, move: int) -> None:
        self.waiting[move] = False
        self.running[move] = True
        self._send_places[self.source[move]] -= 1
        self._receive_places[self.target[move]] -= 1
        self._total_places -= 1


def _by_broker(order: Ints, broker: Ints, brokers: int) -> list[Ints]:
    """Split moves by broker, each in the given order."""
    held = broker[order]
    by_broker = np.argsort(held, kind="stable")
    edges = np.searchsorted(held[by_broker], np.arange(1, brokers))
    return np.split(order[by_broker], edges)


def _check(transfers: Transfers, bandwidth: Bandwidth) -> None:
    brokers = len(bandwidth.sent)
    if len(transfers.target) and not (int(transfers.target.min()) >= 0 and int(transfers.target.max()) < brokers):
        raise PlanRefused(f"moves: a target is not among the {brokers} brokers")
    if len(transfers.source) and not (int(transfers.source.min()) >= ABSENT and int(transfers.source.max()) < brokers):
        raise PlanRefused(f"moves: a source is not among the {brokers} brokers")
    for name, values in (("sent", bandwidth.sent), ("received", bandwidth.received)):
        if not bool((values > 0).all()):
            broker = int(np.flatnonzero(~(values > 0))[0])
            raise PlanRefused(f"bandwidth {name} of broker at {broker} is {float(values[broker])}: must be above 0")


def lower_bound(transfers: Transfers, bandwidth: Bandwidth) -> float:
    """Bound the makespan: no broker sends or receives faster than its bandwidth, no move faster than both its ends.

    Proof in docs/scheduling.md. Growth makes it no smaller: each move is taken at the rate its two ends could give it
    alone, less its growth.
    """
    _check(transfers, bandwidth)
    if not len(transfers.size):
        return 0.0
    brokers = len(bandwidth.sent)
    known = transfers.source != ABSENT
    sending = np.bincount(transfers.source[known], weights=transfers.size[known], minlength=brokers) / bandwidth.sent
    receiving = np.bincount(transfers.target, weights=transfers.size, minlength=brokers) / bandwidth.received
    fastest = bandwidth.received[transfers.target].copy()
    fastest[known] = np.minimum(fastest[known], bandwidth.sent[transfers.source[known]])
    if transfers.growth is not None:
        fastest = fastest - transfers.growth
    if bool((fastest <= 0).any()):
        return float("inf")
    return float(max(sending.max(), receiving.max(), (transfers.size / fastest).max()))


def schedule(transfers: Transfers, bandwidth: Bandwidth, limits: Concurrency | None = None) -> Schedule:
    """Run the dispatcher against the model of bandwidth.

    Cost: O(moves * (moves per broker + running moves)).
    """
    run = _Run(transfers, bandwidth, Dispatcher(transfers, bandwidth, limits or Concurrency()))
    run.to_the_end()
    makespan = float(run.end.max(initial=0.0))
    return Schedule(run.start, run.end, makespan, lower_bound(transfers, bandwidth))


class _Run:
    """The model: running moves, the bytes that are left of each, and the time."""

    def __init__(self, transfers: Transfers, bandwidth: Bandwidth, dispatcher: Dispatcher) -> None:
        count = len(transfers.size)
        self.dispatcher = dispatcher
        self.growth = np.zeros(count) if transfers.growth is None else transfers.growth
        self.left = transfers.size.copy()
        self.start, self.end = np.full(count, np.inf), np.full(count, np.inf)
        self.running: Ints = np.zeros(0, dtype=np.int64)
        self.now = 0.0
        self._brokers = len(bandwidth.sent)

    def to_the_end(self) -> None:
        self._start()
        while len(self.running):
            rate = self._rates()
            with np.errstate(divide="ignore", invalid="ignore"):
                wait = np.where(rate > 0, self.left[self.running] / rate, np.inf)
            wait[self.left[self.running] <= 0] = 0.0
            step = float(wait.min())
            if not np.isfinite(step):
                return
            self.now += step
            self.left[self.running] -= rate * step
            over = (self.left[self.running] <= _DONE * self.dispatcher.size[self.running]) | (wait <= step)
            for move in self.running[over].tolist():
                self.end[move] = self.now
                self.dispatcher.finished(move)
            self.running = self.running[~over]
            self._start()

    def _start(self) -> None:
        fresh = self.dispatcher.next_moves()
        if fresh:
            self.start[fresh] = self.now
            self.running = np.concatenate([self.running, np.array(fresh, dtype=np.int64)])

    def _rates(self) -> Floats:
        dispatcher = self.dispatcher
        source, target = dispatcher.source[self.running], dispatcher.target[self.running]
        sending = np.bincount(source, minlength=self._brokers + 1)[source]
        receiving = np.bincount(target, minlength=self._brokers)[target]
        share = np.minimum(dispatcher.sent[source] / sending, dispatcher.received[target] / receiving)
        return np.asarray(share - self.growth[self.running])


def expected_duration(
    planned: Schedule, past_ratios: Floats | None = None, *, assumed_slowdown: float = 2.0
) -> ExpectedDuration:
    """Put an interval around a schedule's duration.

    Args:
        planned: The schedule.
        past_ratios: Real over planned duration of past moves; their 10th, 50th and 90th percentiles scale it.
        assumed_slowdown: How many times as long it may take, if there are no past moves. The least is then the lower
            bound.
    """
    if past_ratios is None or not len(past_ratios):
        longest = planned.makespan * assumed_slowdown
        return ExpectedDuration(planned.lower_bound, planned.lower_bound, planned.makespan, longest)
    least, middle, most = (float(q) for q in np.quantile(past_ratios, [0.1, 0.5, 0.9]))
    return ExpectedDuration(
        planned.lower_bound, planned.makespan * least, planned.makespan * middle, planned.makespan * most
    )
