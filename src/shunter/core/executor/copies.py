"""Copies between log dirs of one broker, as last seen: which run for a move, and which of them the move does not want."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.waits import Wait, WaitKind
from shunter.model.partition import BrokerId


def within(state: ExecutorState, move: Move) -> Iterator[tuple[BrokerId, str]]:
    """The copies that run for a move within brokers, or may run: each broker with the log dir that it copies to."""
    cluster, wanted = state.cluster, dict(move.places)
    ours = move.asked_for | move.log_dir_status.given_up
    for broker in sorted({broker for broker, _path in move.asked_for} & holders(state, move)):
        key = (broker, move.tp)
        future, begun = cluster.futures.get(key), move.begun_within.get(broker)
        if future is not None and (broker, future.log_dir) in ours:
            yield broker, future.log_dir
        elif begun is not None and (move.asking or cluster.sizes_at_ms.get(key, -1) <= begun[1]):
            yield broker, begun[0]
        elif broker in cluster.brokers and key not in cluster.sizes_at_ms and key not in cluster.absent_at_ms:
            yield broker, wanted.get(broker, "")  # A former process may have begun one.


def holders(state: ExecutorState, move: Move) -> frozenset[BrokerId]:
    """Brokers that have a replica of a move's partition, by the journal or by metadata."""
    seen = state.cluster.partition(move.tp)
    return move.held.union(() if seen is None else seen.replicas)


def looked_ms(move: Move, broker: BrokerId) -> int:
    """A look at a broker's replica of a move counts if it is newer than this: than the order, and what was asked for."""
    status = move.log_dir_status
    return max(status.since_ms, status.asked.get(broker, -1), move.answered_at_ms)


def is_settled(state: ExecutorState, move: Move) -> bool:
    """Whether no copy of a move goes on that it does not want, as far as was seen since its last request."""
    return not move.names_log_dirs or (not move.asking and not unsettled(state, move))


def unsettled(state: ExecutorState, move: Move) -> tuple[BrokerId, ...]:
    """Brokers that may still have a copy of a move which the move does not want, sorted."""
    cluster, wanted = state.cluster, dict(move.places)
    since_ms = max(move.log_dir_status.since_ms, move.answered_at_ms)
    found: list[BrokerId] = []
    for broker in sorted({broker for broker, _path in move.asked_for} & holders(state, move)):
        key = (broker, move.tp)
        if cluster.absent_at_ms.get(key, -1) > max(since_ms, cluster.sizes_at_ms.get(key, -1)):
            continue
        looked = cluster.sizes_at_ms.get(key, -1) > since_ms
        if not (looked or broker in wanted) or unwanted(state, move, broker, wanted) is not None:
            found.append(broker)
    return tuple(found)


def unwanted(state: ExecutorState, move: Move, broker: BrokerId, wanted: Mapping[BrokerId, str]) -> str | None:
    """The log dir where a replica is that a broker copies elsewhere for this move, unwanted; None: it does not."""
    key = (broker, move.tp)
    future, size = state.cluster.futures.get(key), state.cluster.sizes.get(key)
    if future is None or size is None or future.log_dir == wanted.get(broker):
        return None
    ours = (broker, future.log_dir) in move.asked_for | move.log_dir_status.given_up
    return size.log_dir if ours else None


def told_unsettled(brokers: Collection[BrokerId]) -> Wait:
    """The wait for brokers that may still copy a replica for a move which does not want that."""
    told = f"broker {', '.join(str(broker) for broker in brokers)}" if brokers else "an answer"
    return Wait(WaitKind.OURSELVES, f"gives up its copy between log dirs: waits for {told}")
