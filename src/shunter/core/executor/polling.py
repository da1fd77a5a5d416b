"""When to look at the cluster again: often while something is about to happen, less often if looking costs much."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from shunter.core.executor.copies import holders, looked_ms
from shunter.core.executor.estimates.eta import size_unknown
from shunter.core.executor.ready import Collected, ListReassignments, ObserveLogDirs, ObserveTopics
from shunter.core.executor.state import LATE_MS, ExecutorState, Move, ObservedCluster
from shunter.core.executor.submission import SURE_MS, SubmittedPlan, involved_brokers, replicas_to_size
from shunter.core.executor.waits import WaitKind
from shunter.core.wording import counted
from shunter.model.execution import Direction
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, TopicPartition

LIST_MIN_MS = 100
LIST_MAX_MS = 2_000
LIST_SHARE = 24
"""Time between two lists, in multiples of one list's processor time. All shares together use below 15 % of a core."""
TOPICS_MS = 5_000
TOPICS_SHARE = 40
LOG_DIRS_MS = 2_000
LOG_DIRS_SHARE = 40
SIZES_MS = 30_000
"""The sizes of partitions that are copied, or will be, are looked at again after this time."""
FIRST_LOG_DIRS_MS = 1_500
"""A step's copies are looked at on disk only after this time, when short steps are over."""
FAILED_MS = 1_000
SILENT_MS = 15_000
"""A list that takes longer than this, while no broker answers anything else, means that the cluster does not answer."""
LOST_MS = 120_000
"""A question that was not answered within this time is asked again."""


@dataclass(slots=True)
class Polls:
    """When each kind of question was last asked, what it cost, and whether its answer is still awaited."""

    list_pending_ms: int | None = None
    list_due_ms: int = 0
    list_retry_ms: int = 0
    """No list is asked for before this moment, because the last question got no answer."""
    list_every_ms: int = LIST_MIN_MS
    list_cost_ms: int = 0
    topics_pending: dict[str, int] = field(default_factory=dict[str, int])
    topics_due_ms: int = 0
    stale_due_ms: int = 0
    """When metadata that a decision waits for may be asked for again."""
    topics_cost_ms: int = 0
    refused_until_ms: int = 0
    """No metadata are asked for before this moment, because the last question got no answer."""
    log_dirs_pending_ms: int | None = None
    log_dirs_due_ms: int = 0
    sizes_new: bool = False
    """Whether sizes came in that no decision has seen."""

    def hurry(self, now_ms: int) -> None:
        """Look again soon, because something was begun."""
        self.list_every_ms = LIST_MIN_MS
        self.list_due_ms = min(self.list_due_ms, now_ms + max(LIST_MIN_MS, self.list_cost_ms * LIST_SHARE))

    def on_listed(self, now_ms: int, cost_ms: int, *, changed: bool) -> None:
        """Note that a list came in."""
        self.list_pending_ms, self.list_cost_ms = None, cost_ms
        self.list_every_ms = LIST_MIN_MS if changed else min(LIST_MAX_MS, self.list_every_ms * 3 // 2)
        self.list_due_ms = now_ms + max(self.list_every_ms, cost_ms * LIST_SHARE)

    def on_topics(self, now_ms: int, cost_ms: int, names: Iterable[str]) -> None:
        """Note that metadata came in."""
        for name in names:
            self.topics_pending.pop(name, None)
        self.topics_cost_ms = max(cost_ms, self.topics_cost_ms // 2)
        self.topics_due_ms = now_ms + max(TOPICS_MS, self.topics_cost_ms * TOPICS_SHARE)
        self.stale_due_ms = now_ms + max(LIST_MIN_MS, cost_ms * LIST_SHARE)

    def on_log_dirs(self, now_ms: int, cost_ms: int) -> None:
        """Note that sizes came in."""
        self.log_dirs_pending_ms, self.sizes_new = None, True
        self.log_dirs_due_ms = now_ms + max(LOG_DIRS_MS, cost_ms * LOG_DIRS_SHARE)

    def log_dirs_pending(self, now_ms: int) -> bool:
        """Whether sizes are asked for already. Another question's answer would be taken for theirs."""
        return self.log_dirs_pending_ms is not None and now_ms < self.log_dirs_pending_ms + LOST_MS

    def on_failed(self, now_ms: int, what: str) -> None:
        """Note that a question got no answer."""
        if what == "list":
            self.list_pending_ms, self.list_due_ms = None, now_ms + FAILED_MS
            self.list_retry_ms = now_ms + FAILED_MS
        elif what == "topics":
            self.topics_pending.clear()
            self.topics_due_ms = self.refused_until_ms = now_ms + FAILED_MS
        elif what == "log-dirs":
            self.log_dirs_pending_ms, self.log_dirs_due_ms = None, now_ms + LOG_DIRS_MS


def poll(
    state: ExecutorState, polls: Polls, submissions: deque[SubmittedPlan], stale: set[str], now_ms: int, out: Collected
) -> None:
    """Ask the questions that are due; at most one of a kind is under way, except for topics, asked for by name."""
    if submissions:
        _poll_for(state, polls, submissions[0], now_ms, out)
    moves = state.open_moves()
    if not moves:
        if state.throttles:
            _ask_topics(polls, _throttled_topics(state) or {""}, now_ms, out, due=polls.topics_due_ms)
        return
    _list(state.cluster, polls, now_ms, out)
    _ask_topics(polls, stale, now_ms, out, due=polls.stale_due_ms)
    if not stale:
        names = {move.tp.topic for move in moves} | _throttled_topics(state)
        _ask_topics(polls, names, now_ms, out, due=polls.topics_due_ms)
    _poll_log_dirs(state, polls, now_ms, out)


def _throttled_topics(state: ExecutorState) -> set[str]:
    """Topics whose throttles can't be restored: perhaps they are gone."""
    return {
        key.name
        for key, throttle in state.throttles.items()
        if key.kind == "topic" and throttle.refused_since_ms is not None
    }


def _poll_for(state: ExecutorState, polls: Polls, submission: SubmittedPlan, now_ms: int, out: Collected) -> None:
    cluster = state.cluster
    if cluster.listed_at_ms < submission.since_ms:
        polls.list_due_ms = min(polls.list_due_ms, now_ms)
        _list(state.cluster, polls, now_ms, out)
    names = {order.tp.topic for order in submission.event.moves}
    unseen = {name for name in names if cluster.topics_at_ms.get(name, -1) < submission.since_ms}
    doubtful = submission.doubtful(state, now_ms)
    if unseen:
        sure = now_ms < submission.since_ms + SURE_MS
        _ask_topics(polls, unseen, now_ms, out, due=now_ms, sure=sure)
    elif doubtful:
        _ask_topics(polls, doubtful, now_ms, out, due=max(cluster.topics_at_ms[name] for name in doubtful) + FAILED_MS)
        out.wake(submission.judged_at_ms(now_ms))
        _tell_late(state, submission, now_ms, out)
    elif not submission.sizes_asked and not polls.log_dirs_pending(now_ms):
        submission.sizes_asked = True
        asked = replicas_to_size(state, submission.event)
        for broker in involved_brokers(state, submission.event):
            if broker in cluster.brokers:
                asked.setdefault(broker, [])
        live = {broker: tps for broker, tps in asked.items() if broker in cluster.brokers}
        if live:
            polls.log_dirs_pending_ms = now_ms
            out.reads.append(_log_dirs(live))
        else:
            submission.sizes_known = True
            out.wake(now_ms)  # No broker is asked, so no answer will come that causes the plan to be judged.


def _list(cluster: ObservedCluster, polls: Polls, now_ms: int, out: Collected) -> None:
    asked_ms = polls.list_pending_ms
    if asked_ms is not None and now_ms < asked_ms + LOST_MS:
        answered_ms = max(asked_ms, cluster.brokers_at_ms)
        if now_ms < answered_ms + SILENT_MS:
            out.wake(answered_ms + SILENT_MS)
        elif cluster.silent_since_ms is None:
            cluster.silent_since_ms = answered_ms
        return
    due = max(polls.list_due_ms, polls.list_retry_ms)
    if now_ms < due:
        out.wake(due)
        return
    polls.list_pending_ms = now_ms
    out.reads.append(ListReassignments())


def _tell_late(state: ExecutorState, submission: SubmittedPlan, now_ms: int, out: Collected) -> None:
    """Tell people, once for each plan, that it waits because the cluster's metadata are late."""
    late = [] if submission.told_late else submission.shown_late(state, now_ms)
    if not late:
        return
    submission.told_late = True
    told = f"metadata show {counted(len(late), 'partition')} of the plan as before the last move ended"
    told = f"{told}: they are asked for again, for {LATE_MS // 1000} s at most"
    out.notices.append(Notice("metadata-late", str(late[0]), told))


def _ask_topics(
    polls: Polls, names: Iterable[str], now_ms: int, out: Collected, *, due: int, sure: bool = False
) -> None:
    wanted = sorted(
        name for name in names if name not in polls.topics_pending or now_ms >= polls.topics_pending[name] + LOST_MS
    )
    if not wanted:
        return
    due = max(due, polls.refused_until_ms)
    if now_ms < due:
        out.wake(due)
        return
    polls.topics_pending.update((name, now_ms) for name in wanted)
    out.reads.append(ObserveTopics(tuple(name for name in wanted if name), sure))


def _poll_log_dirs(state: ExecutorState, polls: Polls, now_ms: int, out: Collected) -> None:
    if polls.log_dirs_pending(now_ms):
        return
    if now_ms < polls.log_dirs_due_ms:
        out.wake(polls.log_dirs_due_ms)
        return
    unknown = set(state.cluster.room_wanted_ms)
    if any(move.waits.kind is WaitKind.CORDON for move in state.open_moves()):
        unknown |= state.cluster.cordoned
    asked: dict[BrokerId, list[TopicPartition]] = {
        broker: [] for broker in sorted(unknown) if broker in state.cluster.brokers
    }
    first: int | None = None
    for move in state.open_moves():
        step = move.step
        wanted: tuple[BrokerId, ...] = ()
        if step is not None:
            begun = step.begun_at_ms + FIRST_LOG_DIRS_MS
            if now_ms < begun:
                first = begun if first is None else min(first, begun)
            else:
                wanted = step.adding
        elif move.waits.kind in (WaitKind.DISK, WaitKind.ROOM):
            # Disks may get room, or the partition may shrink: its leader reports how much is to be copied now.
            wanted = (*_leader(state, move), *(broker for broker in move.goal if broker not in move.current))
        if size_unknown(state, move) or _size_is_old(state, move, now_ms):
            wanted = (*_leader(state, move), *wanted)
        if move.names_log_dirs and not move.log_dir_status.done:
            wanted = (*wanted, *_looked_for(state, move))
        for broker in dict.fromkeys(wanted):
            if broker in state.cluster.brokers:
                asked.setdefault(broker, []).append(move.tp)
    if not asked:
        if first is not None:
            out.wake(first)
        return
    polls.log_dirs_pending_ms = now_ms
    out.reads.append(_log_dirs(asked))


def _size_is_old(state: ExecutorState, move: Move, now_ms: int) -> bool:
    """Whether the leader's replica, which grows and shrinks while it is copied, was not looked at for long."""
    seen_ms = (state.cluster.sizes_at_ms.get((leader, move.tp), -1) for leader in _leader(state, move))
    copies = move.direction is not Direction.STOP and any(broker not in move.current for broker in move.goal)
    return copies and any(now_ms - max(at_ms, move.accepted_at_ms) >= SIZES_MS for at_ms in seen_ms)


def _leader(state: ExecutorState, move: Move) -> tuple[BrokerId, ...]:
    seen = state.cluster.partition(move.tp)
    return () if seen is None or seen.leader < 0 else (seen.leader,)


def _looked_for(state: ExecutorState, move: Move) -> Iterator[BrokerId]:
    """Brokers that may copy a replica of a move from one log dir to another, or that were not looked at yet."""
    status = move.log_dir_status
    for broker in sorted({broker for broker, _path in move.asked_for}):
        key = (broker, move.tp)
        unseen = state.cluster.sizes_at_ms.get(key, -1) <= looked_ms(move, broker)
        going = (
            key in state.cluster.futures
            or broker in status.asked
            or broker in move.copies
            or broker not in dict(move.places)
        )
        if going or (unseen and broker in holders(state, move)):
            yield broker


def _log_dirs(asked: dict[BrokerId, list[TopicPartition]]) -> ObserveLogDirs:
    return ObserveLogDirs(tuple((broker, tuple(asked[broker])) for broker in sorted(asked)))
