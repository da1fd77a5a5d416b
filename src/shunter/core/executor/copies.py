"""Copies between log dirs of one broker, as last seen: which run for a move, and which of them the move does not want."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.waits import Wait, WaitKind
from shunter.model.partition import BrokerId


def within(state: ExecutorState, move: Move) -> Iterator[tuple[BrokerId, str]]:
    """The copies that run for a move within brokers, or may run: each broker with the log dir that it copies to."""
    cluster, status = state.cluster, move.log_dir_status
    wanted = dict(move.places)
    for broker, path in move.places:
        key = (broker, move.tp)
        asked_ms, looked_ms = status.asked.get(broker), cluster.sizes_at_ms.get(key, -1)
        future = cluster.futures.get(key)
        unseen = looked_ms <= max(status.since_ms, asked_ms or -1, move.answered_at_ms if asked_ms is not None else -1)
        begun = asked_ms is not None or broker in move.copies
        runs = (begun and unseen) or (future is not None and future.log_dir == path)
        if runs and broker not in status.refused and is_held(state, move, broker):
            yield broker, path
    for broker in sorted({broker for broker, _path in move.asked_for}):
        if unwanted(state, move, broker, wanted) is not None:
            yield broker, state.cluster.futures[broker, move.tp].log_dir


def is_held(state: ExecutorState, move: Move, broker: BrokerId) -> bool:
    """Whether a broker has a replica, so that it begins to copy it when it is asked for another log dir."""
    return broker in move.held or (
        broker in move.copying and state.cluster.sizes_at_ms.get((broker, move.tp), -1) > move.log_dir_status.since_ms
    )


def is_settled(state: ExecutorState, move: Move) -> bool:
    """Whether no copy of a move goes on that it does not want, as far as was seen since its last request."""
    return not move.asked_for or (not move.asking and not unsettled(state, move))


def unsettled(state: ExecutorState, move: Move) -> tuple[BrokerId, ...]:
    """Brokers that may still have a copy of a move which the move does not want, sorted."""
    cluster, wanted = state.cluster, dict(move.places)
    since_ms = max(move.log_dir_status.since_ms, move.answered_at_ms)
    found: list[BrokerId] = []
    for broker in sorted({broker for broker, _path in move.asked_for if broker in move.held}):
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
