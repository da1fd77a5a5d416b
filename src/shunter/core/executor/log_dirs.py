"""Moves between log dirs of one broker: asked for before a replica comes, and followed after it is there.

A rollback asks for the log dirs that the originals were in. A broker that is still copying then gives its copy up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from shunter.core.executor.ready import AlterLogDirs, Collected
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.throttles import Gate
from shunter.model.partition import BrokerId, TopicPartition

ASK_AGAIN_MS = 10_000


def decide_log_dirs(state: ExecutorState) -> None:
    """Find out which moves have all their replicas in the log dirs that they shall be in."""
    for move in state.open_moves():
        if not move.places or move.step is not None:
            continue
        if not move.log_dir_status.done and _placed(state, move):
            move.log_dir_status = replace(move.log_dir_status, done=True)
        elif move.log_dir_status.done and _moved_on(state, move):
            move.log_dir_status = replace(move.log_dir_status, done=False)


def _placed(state: ExecutorState, move: Move) -> bool:
    """Whether each replica was seen in its log dir since that was asked for; older observations may be out of date."""
    cluster, status = state.cluster, move.log_dir_status
    for broker, path in move.places:
        key = (broker, move.tp)
        if broker not in move.goal or broker in status.refused:
            continue
        seen = status.asked_at_ms is not None and cluster.sizes_at_ms.get(key, -1) > status.asked_at_ms
        if not seen or cluster.sizes[key].log_dir != path or key in cluster.futures:
            return False
    return True


def _moved_on(state: ExecutorState, move: Move) -> bool:
    """Whether a replica was seen in another log dir after it had arrived: another tool moved it meanwhile."""
    cluster, status = state.cluster, move.log_dir_status
    return any(
        broker in move.goal
        and broker not in status.refused
        and cluster.sizes_at_ms.get((broker, move.tp), -1) > (status.asked_at_ms or 0)
        and not _is_there(state, move, broker, path)
        for broker, path in move.places
    )


def send_log_dirs(
    state: ExecutorState,
    held: Collection[TopicPartition | None],
    throttled: Gate,
    now_ms: int,
    new_id: Callable[[], int],
    out: Collected,
) -> None:
    """Ask brokers to put replicas into their log dirs, and again from time to time: a replica may have come meanwhile.

    Pre: the time window is open, because a broker begins at once to copy a replica that it has.

    Args:
        held: Partitions about which an entry is being written, which may be an order.
        throttled: Which brokers' throttles let such copies begin.
    """
    due: list[tuple[BrokerId, TopicPartition, str]] = []
    asking: list[Move] = []
    for move in state.open_moves():
        if not move.places or move.log_dir_status.done or move.paused:
            continue
        wanted = [each for each in move.places if _askable(state, move, each[0])]
        if move.tp in held:
            continue
        asked = move.log_dir_status.asked_at_ms
        again = None if asked is None else asked + _ask_again_ms(move)
        if again is not None and now_ms < again:
            out.wake(again)
            continue
        if asked is not None:  # A replica that was seen in its log dir is left alone.
            wanted = [each for each in wanted if not _is_there(state, move, *each)]
        if wanted and throttled.refusal([f"broker {broker}" for broker, _path in wanted]) is None:
            due += [(broker, move.tp, path) for broker, path in wanted]
            asking.append(move)
    if due:
        request = AlterLogDirs(new_id(), tuple(due))
        for move in asking:
            status = move.log_dir_status
            move.log_dir_status = replace(status, asked_at_ms=now_ms, request_id=request.request_id)
        out.requests.append(request)


def _askable(state: ExecutorState, move: Move, broker: BrokerId) -> bool:
    return broker in state.cluster.brokers and broker not in move.log_dir_status.refused


def _is_there(state: ExecutorState, move: Move, broker: BrokerId, path: str) -> bool:
    size = state.cluster.sizes.get((broker, move.tp))
    return size is not None and size.log_dir == path


def _ask_again_ms(move: Move) -> int:
    arrived = move.step is None and move.current == move.goal
    return ASK_AGAIN_MS // 5 if arrived else ASK_AGAIN_MS
