"""Other tools' throttles on copies without a limit, and on followers that stay: read every ten seconds, only to be known.

Under a limit the executor reads the settings that it sets. Without one it sets none; then others' rates hold the copies
that others' lists name, and the ETA, the progress line and a notice have to say so. Followers: see `followers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.core.executor.ready import Collected, ReadSettings
from shunter.core.executor.state import ExecutorState
from shunter.core.executor.throttling.followers import begins_epoch
from shunter.core.executor.throttling.pausing import note_others
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, UNLIMITED, CopyEnds, limited, lower_anyway, of_live
from shunter.model.execution import ThrottleKey
from shunter.model.partition import TopicPartition

LOOK_AGAIN_MS = 10_000
"""Rates in force are read again after this time, both the executor's and those of other tools: they may have changed."""
KNOWN_WITHIN_MS = 3_000
FOLLOWERS = (FOLLOWER_REPLICAS, FOLLOWER_RATE)
MOST_TOPICS = 200
"""The lists of at most so many topics are read at a time, of copies under way first."""


@dataclass(slots=True)
class OthersThrottles:
    """What was read last of others' throttles on copies without a limit, and on followers that stay."""

    lower: dict[ThrottleKey, int] = field(default_factory=dict[ThrottleKey, int])
    """Rates that hold these copies, bytes per second."""
    own: Mapping[ThrottleKey, str | None] = field(default_factory=dict[ThrottleKey, str | None])
    """The settings as they are at each resource itself."""
    due_ms: int | None = None
    """When they are read again; None: there are no such replicas."""
    known: bool = False
    """Whether they were read, or can't be."""
    denied: bool = False
    """Whether this process may not read them."""

    def look(self, state: ExecutorState, now_ms: int, out: Collected) -> None:
        """Ask for the settings that may hold these replicas, if that is due."""
        looks = not self.denied
        if looks and self.due_ms is not None and now_ms < self.due_ms:
            # This is asked at every decision, and to go through all moves takes milliseconds.
            out.wake(self.due_ms if self.is_known(now_ms) else self.due_ms - LOOK_AGAIN_MS + KNOWN_WITHIN_MS)
            return
        keys = tuple(_watched(state) | watched_followers(state)) if looks else ()
        if not keys:
            self.lower, self.own, self.due_ms = {}, {}, None
            return
        self.due_ms = now_ms + LOOK_AGAIN_MS
        out.reads.append(ReadSettings(keys, of_others=True))
        out.wake(self.due_ms if self.known else now_ms + KNOWN_WITHIN_MS)

    def ask_anew(self) -> None:
        """Ask at the next look, as a move came: it may be of another topic."""
        self.due_ms, self.known = None, False

    def is_known(self, now_ms: int) -> bool:
        """Whether they were read, or a broker does not tell them: no step waits longer for that."""
        return self.known or self.due_ms is None or now_ms >= self.due_ms - LOOK_AGAIN_MS + KNOWN_WITHIN_MS

    def on_read(
        self,
        state: ExecutorState,
        own: Mapping[ThrottleKey, str | None],
        effective: Mapping[ThrottleKey, str | None],
        now_ms: int,
    ) -> None:
        """Take in what was read. A value that the executor set, as for a paused copy, is not theirs."""
        self.known = True
        for key, value in own.items():
            note_others(state, key, value, effective.get(key))
        ours = {key for key, value in own.items() if _is_ours(state, key, value, now_ms)}
        loans = state.throttles
        self.own = {
            key: (loans[key].before if key in loans else None) if key in ours else value for key, value in own.items()
        }
        in_force = {key: value for key, value in effective.items() if key not in ours}
        self.lower = lower_anyway(_watched(state), self.own, in_force)


def _is_ours(state: ExecutorState, key: ThrottleKey, value: str | None, now_ms: int) -> bool:
    loan, given = state.throttles.get(key), state.given_back.get(key)
    return (loan is not None and value in loan.ours) or (given is not None and given.may_be_shown(value, now_ms))


def _watched(state: ExecutorState) -> dict[ThrottleKey, str]:
    """The settings by which copies that go on would be held: the lists that name them, the rates of their brokers."""
    traffic: dict[TopicPartition, CopyEnds] = {}
    topics: set[str] = set()
    if state.limit is not None:
        return {}
    for move in sorted(state.open_moves(), key=lambda each: each.step is None):
        seen = state.cluster.partition(move.tp)
        if seen is None or seen.leader < 0 or move.paused:
            continue
        comes = frozenset(broker for broker in (*move.copying, *move.goal) if broker not in seen.isr)
        if comes and (move.tp.topic in topics or len(topics) < MOST_TOPICS):
            topics.add(move.tp.topic)
            traffic[move.tp] = CopyEnds(frozenset((seen.leader,)), comes)
    return of_live(limited(traffic, UNLIMITED), state.cluster.brokers)


def watched_followers(state: ExecutorState, *, needed: bool = True) -> dict[ThrottleKey, str]:
    """The settings that would hold followers in sync where a leader epoch is to begin.

    `needed`: only where min.insync.replicas may need them, so that a step may have to wait.
    """
    traffic: dict[TopicPartition, CopyEnds] = {}
    topics: set[str] = set()
    for move in state.open_moves():
        seen = state.cluster.partition(move.tp)
        if seen is None or move.paused or not begins_epoch(seen, move) or (needed and state.least_in_sync(move) <= 1):
            continue
        if move.tp.topic in topics or len(topics) < MOST_TOPICS:
            topics.add(move.tp.topic)
            traffic[move.tp] = CopyEnds(frozenset(), frozenset((*move.goal, *seen.isr)))
    settings = limited(traffic, UNLIMITED)
    return of_live({key: each for key, each in settings.items() if key.setting in FOLLOWERS}, state.cluster.brokers)
