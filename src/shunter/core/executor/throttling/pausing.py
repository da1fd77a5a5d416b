"""Decides which paused copies Kafka's throttle can hold, and which have to be cancelled (decision 0206).

A throttle is a rate by broker and lists of replicas by topic. A paused copy is held by a very low rate at the broker that
receives it. That is possible if the rate slows down no other copy: nothing else is copied to that broker, or no limit is
in force, so that no other copy is in a list; and if nobody else's rate or list puts ordinary replication under it.
Otherwise the copy is cancelled, and begun again when it is resumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shunter.core.executor.state import ExecutorState, Move
from shunter.core.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, UNLIMITED
from shunter.model.execution import Direction, ThrottleKey
from shunter.model.partition import BrokerId, TopicPartition

OTHERS_HELD = "a pause's rate would hold replicas in sync too, by somebody else's throttle"


def paused_copies(state: ExecutorState) -> list[Move]:
    """Paused moves whose copy runs in the cluster, or may run there until the step that ends it is taken on."""
    return [move for move in state.open_moves() if move.paused and move.copying]


def _copies(move: Move) -> bool:
    return move.open and move.step is not None and not move.step.cancels and bool(move.step.adding)


def paused_within(
    state: ExecutorState, paused: Collection[TopicPartition] | None = None
) -> tuple[frozenset[BrokerId], frozenset[BrokerId]]:
    """Brokers whose copies between log dirs are all paused, and those of which only some are.

    One broker's copies can only be slowed down together. So the paused ones of the latter are given up.

    Args:
        state: The executor's state.
        paused: Partitions to be treated as paused; None: those whose moves are paused.
    """
    held: set[BrokerId] = set()
    going: set[BrokerId] = set()
    for move in state.open_moves():
        if move.names_log_dirs and not move.log_dir_status.done:
            waits = move.paused if paused is None else move.tp in paused
            (held if waits else going).update(copying_within(move))
    return frozenset(held - going), frozenset(held & going)


def copying_within(move: Move) -> set[BrokerId]:
    """Brokers that copy a replica of a move between their log dirs, or will."""
    return {broker for broker, _path in move.places if broker in (*move.placing, *move.copies)}


def held_brokers(state: ExecutorState) -> frozenset[BrokerId]:
    """Brokers that receive paused copies: as long as one runs, the rate of what they receive is very low."""
    held = frozenset(broker for move in paused_copies(state) for broker in move.copying)
    return frozenset(broker for broker in held if not holds_others(state, (broker,)))


def note_others(state: ExecutorState, key: ThrottleKey, found: str | None, effective: str | None) -> None:
    """Note somebody else's follower rate or list, which holds under the executor's value or without it."""
    throttle = state.throttles.get(key)
    theirs = found or effective if throttle is None or found not in throttle.ours else throttle.before
    theirs = (theirs or "").strip()
    if key.setting in (FOLLOWER_REPLICAS, FOLLOWER_RATE) and theirs not in ("", str(UNLIMITED)):
        state.others[key] = theirs
    else:
        state.others.pop(key, None)


def holds_others(state: ExecutorState, brokers: Iterable[BrokerId]) -> bool:
    """Whether a very low rate at one of these brokers may hold replicas in sync, by somebody else's rate or list."""
    if any(value == "*" for value in state.others.values()):
        return True
    rates = (ThrottleKey("broker", str(broker), FOLLOWER_RATE) for broker in brokers)
    return any(key in state.others for key in rates)


def unheld(
    state: ExecutorState, paused: Collection[TopicPartition] | None = None, into: Iterable[BrokerId] = ()
) -> frozenset[TopicPartition]:
    """Partitions whose paused copies have to be cancelled, because to hold them would slow down other replicas.

    Args:
        state: The executor's state.
        paused: Partitions to be treated as paused; None: those whose moves are paused.
        into: Brokers that a plan which is not accepted yet would copy to.
    """
    opened = state.open_moves()
    waiting = {move.tp for move in opened if move.paused} if paused is None else paused
    if not waiting:
        return frozenset()
    going = {broker for move in opened if move.tp not in waiting for broker in destinations(move)} | set(into)
    return frozenset(
        move.tp for move in opened if move.tp in waiting and _copies(move) and _in_the_way(state, move, going)
    )


def why_unheld(state: ExecutorState, move: Move) -> str:
    """Why a paused copy is cancelled. Pre: it is unheld."""
    if holds_others(state, move.copying):
        return OTHERS_HELD
    return "it shares a broker or a bound with copies that go on"


def told_beside(state: ExecutorState, move: Move) -> str:
    """What becomes of an unheld copy, or of others, while it can't be cancelled."""
    if holds_others(state, move.copying):
        return f"its copy goes on, for {OTHERS_HELD}"
    return "what is copied to the same broker waits for it"


def _in_the_way(state: ExecutorState, move: Move, going: Collection[BrokerId]) -> bool:
    """Whether a paused copy takes a place from copies that go on, or its rate would hold others."""
    options = state.options
    assert move.step is not None
    if holds_others(state, move.step.adding):
        return True
    if going and (options.max_concurrent or options.max_out or options.max_per_rack):
        return True
    shared = any(broker in going for broker in move.step.adding)
    return shared and bool(state.limit is not None or options.max_in or options.max_per_log_dir)


def destinations(move: Move) -> set[BrokerId]:
    """Brokers that a move copies to, now or later."""
    if move.direction is Direction.STOP:
        return set()
    now = () if move.step is None else move.step.adding
    # A replica that the step copies but the goal does not name is being undone.
    return {broker for broker in move.goal if broker in now or broker not in move.current}
