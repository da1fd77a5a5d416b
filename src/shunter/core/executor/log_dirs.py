"""Copies between log dirs of one broker: begun within the bounds, followed to their end, and given up if unwanted.

A broker begins such a copy when it is asked for a log dir in which its replica is not, and gives the copy up when it is
asked for the log dir in which the replica is. A copy belongs to the move whose orders, by the journal, named its log
dir: a stop, a rollback, a plan that names the log dir no more, and an end before the goal give it up. Another tool's
copy, to a log dir that the move never named, is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from shunter.core.executor.capacity import Capacity, in_order
from shunter.core.executor.copies import holders, is_settled, looked_ms, unwanted
from shunter.core.executor.judgement import CONFIRM_MS
from shunter.core.executor.ready import AlterLogDirs, Collected
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.throttling.pausing import paused_within
from shunter.core.executor.throttling.throttles import Gate
from shunter.core.wording import told_bytes
from shunter.model.execution import CopySeen, CopySight
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, TopicPartition

ASK_AGAIN_MS = 10_000
Replica = tuple[BrokerId, TopicPartition, str]
"""A broker, a partition, and the log dir that its replica shall be in."""


def decide_log_dirs(state: ExecutorState, out: Collected) -> list[tuple[Move, CopySeen]]:
    """Find out which moves have all replicas in their log dirs; returns entries about copies that began or ended."""
    records: list[tuple[Move, CopySeen]] = []
    shared = paused_within(state)[1]
    for move in state.open_moves():
        if not move.names_log_dirs:
            continue
        for broker, path in move.places:
            if move.paused and broker in shared:
                record = _put_off(state, move, broker, out)
            else:
                record = _seen(state, move, broker, path, out)
            if record is not None:
                records.append((move, record))
        if move.step is None:
            done = _placed(state, move) if not move.log_dir_status.done else not _moved_on(state, move)
            move.log_dir_status = replace(
                move.log_dir_status, done=_all_came(state, move) and done and is_settled(state, move)
            )
    return records


def _all_came(state: ExecutorState, move: Move) -> bool:
    """Whether the replicas that have log dirs are there. One that was there, and has still to come again, is not.

    Another tool may have brought them.
    """
    seen = state.cluster.partition(move.tp)
    wanted = {broker for broker, _path in move.places if broker in move.goal}
    return wanted <= set(move.current) or (seen is not None and seen.replicas == move.goal)


def _seen(state: ExecutorState, move: Move, broker: BrokerId, path: str, out: Collected) -> CopySeen | None:
    """The entry about a copy that began, or that is not there any more though its replica did not arrive."""
    cluster, status, key = state.cluster, move.log_dir_status, (broker, move.tp)
    seen_ms = cluster.sizes_at_ms.get(key, -1)
    if seen_ms <= status.since_ms or broker not in cluster.brokers:
        return None
    future, size = cluster.futures.get(key), cluster.sizes[key]
    if broker not in move.copies:
        runs = future is not None and future.log_dir == path and broker in move.held
        return CopySeen(move.tp, broker, CopySight.RUNS) if runs else None
    missed = {each: since_ms for each, since_ms in status.missed.items() if each != broker}
    if size.log_dir == path or (future is not None and future.log_dir == path):
        move.log_dir_status = replace(status, missed=missed)
        return None
    failed = any((broker, each) not in cluster.spaces for each in (path, size.log_dir))
    if failed or broker not in move.held or (broker, size.log_dir) in status.given_up:
        return CopySeen(move.tp, broker, CopySight.LOST)
    # A broker may show neither copy nor outcome while it puts one in the place of the other.
    since_ms = status.missed.get(broker, seen_ms)
    move.log_dir_status = replace(status, missed={**missed, broker: since_ms})
    if seen_ms - since_ms < CONFIRM_MS:
        return None
    told = f"somebody else cancelled its copy to log dir {path} of broker {broker}: that holds"
    out.notices.append(Notice("copy-cancelled", str(move.tp), told))
    return CopySeen(move.tp, broker, CopySight.CANCELLED)


def _put_off(state: ExecutorState, move: Move, broker: BrokerId, out: Collected) -> CopySeen | None:
    """The entry about a paused copy that is to be given up: no throttle could hold it without holding others."""
    if broker not in move.copies:
        return None
    copy = state.cluster.futures.get((broker, move.tp))
    lost = told_bytes(0 if copy is None else copy.bytes)
    told = f"paused: broker {broker} gives up its copy between log dirs, because others go on; {lost} are copied again later"
    out.notices.append(Notice("copy-put-off", str(move.tp), told))
    return CopySeen(move.tp, broker, CopySight.LOST)


def _placed(state: ExecutorState, move: Move) -> bool:
    """Whether each replica was seen in its log dir since that was asked for; older observations may be out of date."""
    cluster, status = state.cluster, move.log_dir_status
    for broker, path in move.places:
        key = (broker, move.tp)
        if broker not in move.goal or broker in status.refused:
            continue
        seen = cluster.sizes_at_ms.get(key, -1) > max(status.since_ms, status.asked.get(broker, -1))
        if not seen or cluster.sizes[key].log_dir != path or key in cluster.futures:
            return False
    return True


def _moved_on(state: ExecutorState, move: Move) -> bool:
    """Whether a replica was seen in another log dir after it had arrived: another tool moved it meanwhile."""
    cluster, status = state.cluster, move.log_dir_status
    return any(
        broker in move.goal
        and broker not in status.refused
        and cluster.sizes_at_ms.get((broker, move.tp), -1) > max(status.since_ms, status.asked.get(broker, -1))
        and cluster.sizes[broker, move.tp].log_dir != path
        for broker, path in move.places
    )


def give_up_copies(state: ExecutorState, held: Collection[TopicPartition | None]) -> list[Replica]:
    """The log dirs to be asked for so that unwanted copies end. No bound, throttle or time window delays that.

    Args:
        held: Partitions about which an entry is being written, which may be an order.
    """
    due: list[Replica] = []
    shared = paused_within(state)[1]
    for move in state.open_moves():
        if not move.names_log_dirs or move.tp in held or move.asking:
            continue
        put_off = shared - move.copies if move.paused else ()
        wanted = {broker: path for broker, path in move.places if broker not in put_off}
        for broker in sorted({broker for broker, _path in move.asked_for}):
            # After each request, look first: if the copy has arrived meanwhile, the request has begun one back.
            looked = state.cluster.sizes_at_ms.get((broker, move.tp), -1) > move.answered_at_ms
            path = unwanted(state, move, broker, wanted) if looked and broker in state.cluster.brokers else None
            if path is not None:
                due.append((broker, move.tp, path))
    return due


def due_log_dirs(
    state: ExecutorState,
    held: Collection[TopicPartition | None],
    throttled: Gate,
    now_ms: int,
    out: Collected,
    *,
    begins: bool,
) -> list[Replica]:
    """The log dirs to be asked for now, and again from time to time: a replica may have come meanwhile.

    Pre: the time window is open, because a broker begins at once to copy a replica that it has.

    Args:
        held: Partitions about which an entry is being written, which may be an order.
        throttled: Which brokers' throttles let such copies begin.
        begins: Whether copies may begin now.
    """
    due: list[Replica] = []
    waiting = [move for move in state.open_moves() if move.places and not move.log_dir_status.done and not move.paused]
    capacity = Capacity.of(state, now_ms) if waiting else None
    for move in in_order(waiting, state):
        assert capacity is not None
        for broker, path in _askable(state, move, held, now_ms, out):
            if throttled.refusal([f"broker {broker}"]) is not None:
                continue
            if broker in holders(state, move):
                refusal = capacity.refusal_within(move, broker) if begins else None
                if refusal is not None and move.step is None and move.current == move.goal:
                    move.waits = refusal
                if refusal is not None or not begins:
                    continue
                capacity.take_within(move, broker, path)
            due.append((broker, move.tp, path))
    return due


def _askable(
    state: ExecutorState, move: Move, held: Collection[TopicPartition | None], now_ms: int, out: Collected
) -> Iterator[tuple[BrokerId, str]]:
    """The places of a move whose brokers don't put its replica there yet."""
    cluster, status = state.cluster, move.log_dir_status
    for broker, path in move.places:
        key = (broker, move.tp)
        if broker not in cluster.brokers or broker in status.refused or broker in (*move.copies, *move.copying):
            continue  # A step's new replica is looked at when it is complete.
        asked_ms = status.asked.get(broker)
        again_ms = None if asked_ms is None else asked_ms + _ask_again_ms(move)
        if again_ms is not None and now_ms < again_ms:
            out.wake(again_ms)
            continue
        if move.tp in held:
            continue
        if broker in holders(state, move):
            future, there = cluster.futures.get(key), key in cluster.sizes and cluster.sizes[key].log_dir == path
            unseen = cluster.sizes_at_ms.get(key, -1) <= looked_ms(move, broker)
            if unseen or there or (future is not None and future.log_dir == path):
                continue  # It is looked at first, because a copy that begins counts towards the bounds.
        yield broker, path


def note_asked(state: ExecutorState, request: AlterLogDirs, now_ms: int) -> None:
    """Note what a request asks for."""
    for broker, tp, path in request.replicas:
        move = state.moves[tp]
        status, one = move.log_dir_status, {broker: now_ms}
        move.asking.add(request.request_id)
        if broker in holders(state, move):
            move.begun_within[broker] = (path, now_ms)
        wanted = (broker, path) in move.places
        move.log_dir_status = replace(
            status,
            asked={**status.asked, **one} if wanted else status.asked,
            request_ids={**status.request_ids, broker: request.request_id},
            given_up=status.given_up if wanted else status.given_up | {(broker, path)},
        )


def _ask_again_ms(move: Move) -> int:
    arrived = move.step is None and move.current == move.goal
    return ASK_AGAIN_MS // 5 if arrived else ASK_AGAIN_MS
