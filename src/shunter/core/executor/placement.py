"""Moves between log dirs of one broker: asked for before a replica comes, and seen through after it is there."""

from __future__ import annotations

from collections.abc import Callable

from shunter.core.executor.ready import AlterLogDirs, Outbox
from shunter.core.executor.state import ExecutorState, Move
from shunter.model.execution import Direction
from shunter.model.partition import BrokerId, TopicPartition

ASK_AGAIN_MS = 10_000


def decide_log_dirs(state: ExecutorState) -> None:
    """See which moves have all their replicas in the log dirs that the plan names."""
    for move in state.open_moves():
        if move.log_dirs and not move.log_dirs_done and move.step is None and _placed(state, move):
            move.log_dirs_done = True


def _placed(state: ExecutorState, move: Move) -> bool:
    if state.cluster.log_dirs_at_ms < (move.log_dirs_asked_at_ms or 0) or move.log_dirs_asked_at_ms is None:
        return False
    for broker, path in move.log_dirs:
        if broker not in move.goal:
            continue
        size = state.cluster.sizes.get((broker, move.tp))
        if size is None or size.log_dir != path or (broker, move.tp) in state.cluster.futures:
            return False
    return True


def send_log_dirs(state: ExecutorState, now_ms: int, new_id: Callable[[], int], out: Outbox) -> None:
    """Ask brokers to put replicas where the plan says; again from time to time, for a replica that came meanwhile."""
    due: list[tuple[BrokerId, TopicPartition, str]] = []
    for move in state.open_moves():
        if not move.log_dirs or move.log_dirs_done or move.paused or move.direction is not Direction.FORWARD:
            continue
        asked = move.log_dirs_asked_at_ms
        arrived = move.step is None and move.current == move.goal
        if asked is not None and now_ms < asked + (ASK_AGAIN_MS if not arrived else ASK_AGAIN_MS // 5):
            out.wake(asked + ASK_AGAIN_MS)
            continue
        wanted = [(broker, path) for broker, path in move.log_dirs if broker in state.cluster.brokers]
        for broker, path in wanted:
            size = state.cluster.sizes.get((broker, move.tp))
            if size is None or size.log_dir != path:
                due.append((broker, move.tp, path))
        move.log_dirs_asked_at_ms = now_ms
    if due:
        out.requests.append(AlterLogDirs(new_id(), tuple(due)))
