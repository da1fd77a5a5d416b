"""The rolling schedule: which moves may begin a step now, within the bounds of brokers, racks and log dirs.

No move waits for a batch's slowest partition (KIP-236). The capacity that a finished step frees is given at once to the
first move, in the chained order, that fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from shunter.core.executor.copies import within
from shunter.core.executor.state import LATE_MS, ExecutorState, Move, ObservedCluster
from shunter.core.executor.waits import Wait, WaitKind
from shunter.core.wording import counted, told_bytes
from shunter.model.execution import Direction, ExecutionOptions, LogDirSpace, Order, ReplicaSize
from shunter.model.inventory import Disk
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.room import free_bytes, next_log_dirs

SEEN_MS = LATE_MS
"""A copy begins only if the room on its broker was seen within this time. A broker that does not answer for as long
leaves its room unknown."""

ALIKE = 0.001
"""Log dirs of one size whose usable bytes differ by a smaller share of it are taken for one volume: brokers don't say."""


@dataclass(slots=True)
class Capacity:
    """The copies that run, of steps and between log dirs: in all (`total`), by receiver, and by sending leader."""

    options: ExecutionOptions
    cluster: ObservedCluster
    now_ms: int
    total: int = 0
    incoming: Counter[BrokerId] = field(default_factory=Counter[BrokerId])
    outgoing: Counter[BrokerId] = field(default_factory=Counter[BrokerId])
    racks: Counter[str] = field(default_factory=Counter[str])
    log_dirs: Counter[tuple[BrokerId, str]] = field(default_factory=Counter[tuple[BrokerId, str]])
    coming: Counter[tuple[BrokerId, str]] = field(default_factory=Counter[tuple[BrokerId, str]])
    """Bytes that running copies will still add to a log dir; "": to one that the broker will choose."""
    log_dirs_of: dict[BrokerId, dict[str, LogDirSpace]] = field(default_factory=dict[BrokerId, dict[str, LogDirSpace]])
    """Each broker's log dirs that work."""
    _least: dict[BrokerId, dict[tuple[str | None, float], tuple[float, str]]] = field(
        default_factory=dict[BrokerId, dict[tuple[str | None, float], tuple[float, str]]]
    )
    """The least room at each broker, by log dir and headroom, until another copy is counted there; and its log dir."""
    unknown: set[BrokerId] = field(default_factory=set[BrokerId])
    """Brokers that steps were let begin at although they did not say how much room they have."""

    @classmethod
    def of(cls, state: ExecutorState, now_ms: int, *, without: Collection[TopicPartition] = ()) -> Capacity:
        """Count what the steps under way take: copies that were not seen to be in sync. `without`: moves left out."""
        capacity = cls(state.options, state.cluster, now_ms)
        # A cordon that the execution lifts was still there when the log dirs were looked at.
        lifted = state.cluster.cordoned - state.closed()
        for (broker, path), space in state.cluster.spaces.items():
            seen = space._replace(cordoned=False) if broker in lifted else space
            capacity.log_dirs_of.setdefault(broker, {})[path] = seen
        for broker, landed in state.cluster.landed.items():
            capacity.coming[broker, ""] += sum(added for _at_ms, added in landed)
        for move in state.stepping():
            if move.tp in without:
                continue
            unfinished = _unfinished(state.cluster, move)
            capacity.take(move, unfinished)
            for broker in move.copying:
                if broker not in unfinished:  # Its bytes may have come since its log dirs were looked at.
                    capacity.expect(move, broker, _log_dir(move, broker))
        for move in state.open_moves():
            for broker, path in within(state, move) if move.names_log_dirs else ():
                capacity.take_within(move, broker, path)
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
            self.expect(move, broker, log_dir)

    def take_within(self, move: Move, broker: BrokerId, path: str) -> None:
        """Count a copy from one log dir of a broker to another."""
        self.total += 1
        self.incoming[broker] += 1
        self.log_dirs[broker, path] += 1
        future = self.cluster.futures.get((broker, move.tp))
        present = future.bytes if future is not None and future.log_dir == path else 0
        self._add(broker, path, self._bytes_of(move) - present)

    def _add(self, broker: BrokerId, path: str, more: int) -> None:
        self.coming[broker, path] += max(0, more)
        self._least.pop(broker, None)

    def expect(self, move: Move, broker: BrokerId, named: str | None) -> None:
        """Note what a copy of a step will still add to a log dir."""
        seen = _arriving(self.cluster, move, broker)
        present, path = (0, named or "") if seen is None else (seen.bytes, seen.log_dir)
        self._add(broker, path, self._bytes_of(move) - present)

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

    def refusal_within(self, move: Move, broker: BrokerId) -> Wait | None:
        """The reason why a broker may not begin to copy its replica to the log dir of the plan; None if it may."""
        if _passes(self.total, 1, self.options.max_concurrent):
            return _turn(counted(self.total, "copy runs", "copies run"), 1, self.options.max_concurrent)
        return self._refusal_of(move, broker, ())

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
        return self.room_refusal(move, broker)

    def room_refusal(self, move: Move, broker: BrokerId) -> Wait | None:
        """The reason why a copy has no room at its broker; None: it has, or nobody knows."""
        if self.options.disk_share >= 1.0:
            return None
        cluster = self.cluster
        leader, room_seen = self._leader(move.tp), cluster.spaces_at_ms.get(broker, -SEEN_MS - 1)
        sized = move.size_bytes > 0 or (leader, move.tp) in cluster.sizes
        if not sized and self.now_ms - cluster.absent_at_ms.get((leader, move.tp), -SEEN_MS - 1) <= SEEN_MS:
            self.unknown.add(broker)  # Its leader answered, and does not tell its size.
            return None
        if not sized or self.now_ms - room_seen > SEEN_MS:
            since_ms = cluster.room_wanted_ms.setdefault(broker if sized else leader, self.now_ms)
            if self.now_ms - since_ms <= SEEN_MS:
                what = f"room the log dirs of broker {broker} have" if sized else "is to be copied"
                return Wait(WaitKind.ROOM, f"looks how much {what}")
            self.unknown.add(broker)
            return None
        # A rollback brings back what was there. So it may use the headroom, and no more than there is.
        headroom = 0.0 if move.direction is Direction.BACK else 1 - self.options.disk_share
        needed, named, least = self._bytes_of(move), _log_dir(move, broker), self._least.setdefault(broker, {})
        if (named, headroom) not in least:
            rooms = self._rooms(broker, named, headroom)
            known = [(room, path) for room, path in rooms if room is not None]
            if len(known) < len(rooms) or not rooms:
                self.unknown.add(broker)
            least[named, headroom] = min(known, default=(float("inf"), ""))
        room, path = least[named, headroom]
        return None if needed <= room else self._told_room(broker, path, needed, headroom, chosen=named is None)

    def _rooms(self, broker: BrokerId, named: str | None, headroom: float) -> list[tuple[float | None, str]]:
        """What each log dir that a copy may go to can take, without what is on its way there; None: unknown."""
        disks = [
            Disk(
                path,
                max(0, space.total),
                None if space.usable < 0 else space.usable - self._coming_to(broker, path),
                cordoned=space.cordoned,
            )
            for path, space in self.log_dirs_of.get(broker, {}).items()
            if named in (None, path)
        ]
        return [(free_bytes(each, headroom), each.path) for each in next_log_dirs(disks)]

    def _coming_to(self, broker: BrokerId, path: str) -> int:
        """Bytes that will still be added to a log dir, to those on the same volume, or to one that is not known yet."""
        log_dirs = self.log_dirs_of[broker]
        there = log_dirs[path]
        beside = [
            each
            for each, space in log_dirs.items()
            if space.total == there.total and abs(space.usable - there.usable) <= ALIKE * there.total
        ]
        return self.coming[broker, ""] + sum(self.coming[broker, each] for each in beside)

    def _told_room(self, broker: BrokerId, path: str, needed: int, headroom: float, *, chosen: bool) -> Wait:
        space, coming = self.cluster.spaces[broker, path], self._coming_to(broker, path)
        there = f"log dir {path} of broker {broker} has {told_bytes(space.usable)} usable"
        told = [f"{told_bytes(needed)} needed"]
        told += [f"{told_bytes(coming)} on their way"] if coming else []
        told += [f"{told_bytes(headroom * space.total)} stay free"] if headroom else []
        several = chosen and len(self.log_dirs_of[broker]) > 1
        why = " (the broker may choose it: a plan that names log dirs decides)" if several else ""
        out = "free some, or give the plan again with another log dir or --disk-share 1"
        return Wait(
            WaitKind.DISK, f"waits for disk: {there}: {', '.join(told)}{why}; {out}", f"waits for disk: {there}"
        )

    def _bytes_of(self, move: Move) -> int:
        """Bytes of the partition: the leader's last report, or the size at acceptance if no report is newer."""
        leader = self._leader(move.tp)
        whole_since_ms = (
            move.accepted_at_ms if leader in move.original else max(move.accepted_at_ms, move.stepped_at_ms)
        )
        if self.cluster.sizes_at_ms.get((leader, move.tp), -1) < whole_since_ms:
            return move.size_bytes
        return self.cluster.sizes[leader, move.tp].bytes

    def _leader(self, tp: TopicPartition) -> BrokerId:
        seen = self.cluster.partition(tp)
        return -1 if seen is None else seen.leader


def _unfinished(cluster: ObservedCluster, move: Move) -> Replicas:
    """The replicas that a step under way still copies: one that is in sync holds no place, whatever the step waits for."""
    step, seen = move.step, cluster.partition(move.tp)
    if step is None or seen is None or cluster.topics_at_ms.get(move.tp.topic, -1) <= step.begun_at_ms:
        return move.copying
    return tuple(broker for broker in move.copying if broker not in seen.isr)


def note_landed(state: ExecutorState, move: Move, now_ms: int) -> None:
    """Note that the copies of a step have ended: the last look at their brokers' log dirs did not see all of them."""
    assert move.step is not None
    for broker in move.step.adding:
        seen = _arriving(state.cluster, move, broker)
        added = max(move.size_bytes, 0 if seen is None else seen.bytes) - (0 if seen is None else seen.bytes)
        if added:
            state.cluster.landed.setdefault(broker, []).append((now_ms, added))


def copied_bytes(state: ExecutorState, move: Move) -> int:
    """Bytes of the step's new replicas as last seen, but for each at least the partition's size at acceptance."""
    assert move.step is not None
    sizes = state.cluster.sizes
    copied = 0
    for broker in move.step.adding:
        seen = sizes.get((broker, move.tp))
        copied += move.size_bytes if seen is None else max(seen.bytes, move.size_bytes)
    return copied


def _arriving(cluster: ObservedCluster, move: Move, broker: BrokerId) -> ReplicaSize | None:
    """What a step's new replica had when it was seen last; None: it was not seen since the step began."""
    key, step = (broker, move.tp), move.step
    return cluster.sizes[key] if step is not None and cluster.sizes_at_ms.get(key, -1) > step.begun_at_ms else None


def room_on_paper(
    state: ExecutorState, moves: Iterable[Move]
) -> tuple[dict[TopicPartition, str], tuple[BrokerId, ...]]:
    """What moves would wait for on disks if all copied at once, and the brokers whose room is unknown.

    Pre: the brokers were asked for their log dirs; one that did not answer has none in `state`.
    """
    cluster = state.cluster
    cluster.spaces_at_ms = dict.fromkeys(cluster.brokers, 0)
    capacity, waits = Capacity.of(state, 0), dict[TopicPartition, str]()
    for move in moves:
        for broker in move.goal:
            comes = broker not in (*move.current, *move.copying) or broker in move.placing
            if broker in cluster.brokers and comes:
                refusal = capacity.room_refusal(move, broker)
                if refusal is not None:
                    waits.setdefault(move.tp, refusal.text)
                capacity.expect(move, broker, _log_dir(move, broker))
    return waits, tuple(sorted(capacity.unknown))


def told_unknown(broker: BrokerId) -> str:
    """Say that nobody knows how much room a broker has."""
    return f"broker {broker} does not say how much room its log dirs have: copies to it are not held back for it"


def _passes(count: int, more: int, bound: int) -> bool:
    """Whether `count + more` exceeds the bound; False if nothing counts towards it yet, or if it is 0 (no bound)."""
    return bound > 0 and count > 0 and count + more > bound


def _turn(running: str, more: int, bound: int) -> Wait:
    """Say which copies a step waits for. `more`: the step's own copies that count towards the bound."""
    added = f", {more} would be added" if more > 1 else ""
    return Wait(WaitKind.TURN, f"waits for its turn: {running}{added}, the bound is {bound}")


def _copies(count: int) -> str:
    return counted(count, "copy", "copies")


def in_order(moves: Iterable[Move], state: ExecutorState) -> list[Move]:
    """Sort waiting moves.

    First are those of the topics that the driver itself needs, then those that have begun (they hold disk on two
    brokers), then by the chained orders.
    """

    def key(move: Move) -> tuple[float, ...]:
        return (
            move.tp.topic not in state.needed_topics,
            move.began_at_ms is None,
            *(_rank(order, move, state.cluster) for order in state.options.orders),
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
