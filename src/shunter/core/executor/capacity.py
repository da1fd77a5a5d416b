"""The rolling schedule: which moves may begin a step now, within the bounds of brokers, racks and log dirs.

No move waits for a batch's slowest partition (KIP-236). The capacity that a finished step frees is given at once to the
first move, in the chained order, that fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from shunter.core.executor.state import ExecutorState, Move, ObservedCluster
from shunter.core.executor.waits import Wait, WaitKind
from shunter.core.wording import counted
from shunter.model.execution import ExecutionOptions, Order
from shunter.model.partition import BrokerId, Replicas, TopicPartition


@dataclass(slots=True)
class Capacity:
    """The copies of running steps: in all (`total`), by receiver, and by sending leader."""

    options: ExecutionOptions
    cluster: ObservedCluster
    total: int = 0
    incoming: Counter[BrokerId] = field(default_factory=Counter[BrokerId])
    outgoing: Counter[BrokerId] = field(default_factory=Counter[BrokerId])
    racks: Counter[str] = field(default_factory=Counter[str])
    log_dirs: Counter[tuple[BrokerId, str]] = field(default_factory=Counter[tuple[BrokerId, str]])
    reserved: Counter[BrokerId] = field(default_factory=Counter[BrokerId])
    """Bytes that running steps will still add to a broker's disks."""

    @classmethod
    def of(cls, state: ExecutorState) -> Capacity:
        """Count what the steps under way take."""
        capacity = cls(state.options, state.cluster)
        for move in state.stepping():
            capacity.take(move, move.copying)
        return capacity

    def take(self, move: Move, adding: Replicas) -> None:
        """Count a step that copies `adding`."""
        if not adding:
            return
        self.total += len(adding)
        leader = self._leader(move.tp)
        self.outgoing[leader] += len(adding)
        for broker in adding:
            self.incoming[broker] += 1
            rack = self.cluster.racks.get(broker)
            if rack is not None:
                self.racks[rack] += 1
            log_dir = _log_dir(move, broker)
            if log_dir is not None:
                self.log_dirs[broker, log_dir] += 1
            present = self.cluster.sizes.get((broker, move.tp))
            self.reserved[broker] += max(0, self._bytes_of(move) - (0 if present is None else present.bytes))

    @property
    def full(self) -> bool:
        """Whether not even a step with a single copy may begin, wherever it is."""
        return 0 < self.options.max_concurrent <= self.total

    def refusal(self, move: Move, adding: Replicas) -> Wait | None:
        """The reason why a step that copies `adding` may not begin now; None if it may.

        A step that exceeds a bound by itself begins when no other step counts towards that bound, because otherwise it
        would never begin.
        """
        if not adding:
            return None
        options = self.options
        more = len(adding)
        if _passes(self.total, more, options.max_concurrent):
            running = counted(self.total, "copy runs", "copies run")
            return _turn(running, more, options.max_concurrent)
        leader = self._leader(move.tp)
        if _passes(self.outgoing[leader], more, options.max_out):
            return _turn(f"broker {leader} sends {_copies(self.outgoing[leader])}", more, options.max_out)
        for broker in adding:
            refused = self._refusal_of(move, broker, adding)
            if refused is not None:
                return refused
        return None

    def _refusal_of(self, move: Move, broker: BrokerId, adding: Replicas) -> Wait | None:
        options = self.options
        received = self.incoming[broker]
        if _passes(received, 1, options.max_in):
            return _turn(f"broker {broker} receives {_copies(received)}", 1, options.max_in)
        rack = self.cluster.racks.get(broker)
        beside = sum(self.cluster.racks.get(other) == rack for other in adding)
        if rack is not None and _passes(self.racks[rack], beside, options.max_per_rack):
            return _turn(f"rack {rack} receives {_copies(self.racks[rack])}", beside, options.max_per_rack)
        log_dir = _log_dir(move, broker)
        received = self.log_dirs[broker, log_dir] if log_dir is not None else 0
        if _passes(received, 1, options.max_per_log_dir):
            return _turn(
                f"log dir {log_dir} of broker {broker} receives {_copies(received)}", 1, options.max_per_log_dir
            )
        return self._disk_refusal(move, broker)

    def _disk_refusal(self, move: Move, broker: BrokerId) -> Wait | None:
        if self.options.disk_share >= 1.0:
            return None
        total = used = 0
        for (owner, _path), space in self.cluster.spaces.items():
            if owner == broker and space.total > 0:
                total += space.total
                used += space.total - space.usable
        if total == 0:
            return None
        would = (used + self.reserved[broker] + self._bytes_of(move)) / total
        if would <= self.options.disk_share:
            return None
        told = f"broker {broker} would be {would:.1%} full, {self.options.disk_share:.1%} may be used"
        return Wait(WaitKind.DISK, f"waits for disk: with it {told}")

    def _bytes_of(self, move: Move) -> int:
        """Bytes of the partition: the leader's last report, or the size at acceptance if no report is newer."""
        key = (self._leader(move.tp), move.tp)
        if self.cluster.sizes_at_ms.get(key, -1) < move.accepted_at_ms:
            return move.size_bytes
        return self.cluster.sizes[key].bytes

    def _leader(self, tp: TopicPartition) -> BrokerId:
        seen = self.cluster.partition(tp)
        return -1 if seen is None else seen.leader


def _passes(count: int, more: int, bound: int) -> bool:
    """Whether `count + more` exceeds the bound; False if nothing counts towards it yet, or if it is 0 (no bound)."""
    return bound > 0 and count > 0 and count + more > bound


def _turn(running: str, more: int, bound: int) -> Wait:
    """Say which copies a step waits for. `more`: the step's own copies that count towards the bound."""
    added = f", {more} would be added" if more > 1 else ""
    return Wait(WaitKind.TURN, f"waits for its turn: {running}{added}, the bound is {bound}")


def _copies(count: int) -> str:
    return counted(count, "copy", "copies")


def in_order(moves: Iterable[Move], options: ExecutionOptions, cluster: ObservedCluster) -> list[Move]:
    """Sort waiting moves: those that have begun first (they hold disk on two brokers), then by the chained orders."""

    def key(move: Move) -> tuple[float, ...]:
        return (
            move.began_at_ms is None,
            *(_rank(order, move, cluster) for order in options.orders),
            move.accepted_at_ms,
        )

    return sorted(moves, key=key)


def _rank(order: Order, move: Move, cluster: ObservedCluster) -> float:
    if order is Order.LONGEST_FIRST:
        return -_bytes_left(move)
    if order is Order.SMALLEST_FIRST:
        return _bytes_left(move)
    seen = cluster.partition(move.tp)
    if seen is None:
        return 1
    if order is Order.UNDER_MIN_ISR_FIRST:
        return len(seen.isr) >= cluster.min_isr(move.tp.topic)
    return len(seen.isr) >= len(seen.replicas)


def _bytes_left(move: Move) -> int:
    """Bytes that a move has still to copy, in all: an incremental move copies its replicas one after another."""
    return move.size_bytes * sum(broker not in move.current for broker in move.goal)


def _log_dir(move: Move, broker: BrokerId) -> str | None:
    return next((path for owner, path in move.places if owner == broker), None)
