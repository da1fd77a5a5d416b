"""Followers that somebody's throttle holds: at a new leader epoch they are no longer in sync to it.

Kafka does not throttle a replica that is in sync. But each follower begins anew at a leader epoch, and epochs begin where
a step drops a replica or the leader changes. If the throttle is used up then, acks=all waits until the follower is out of
the isr (`replica.lag.time.max.ms`), and is refused if fewer than min.insync.replicas are left.
"""

from __future__ import annotations

from collections.abc import Iterable

from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.waits import Wait, WaitKind
from shunter.core.throttles import FOLLOWER_RATE, is_listed, is_slow
from shunter.core.wording import counted, named, told_brokers, told_rate
from shunter.model.execution import Direction, ObservedPartition, ThrottleKey
from shunter.model.partition import BrokerId, Replicas, TopicPartition

LIFT = "`shunter throttles clear` lifts it"


def begins_epoch(seen: ObservedPartition, move: Move) -> bool:
    """Whether a leader epoch begins on a move's way: a replica is dropped, or another one elected."""
    return not set(seen.replicas) <= set(move.goal) or move.wanted_leader not in (None, seen.leader)


def held_followers(state: ExecutorState, tp: TopicPartition, brokers: Iterable[BrokerId]) -> dict[BrokerId, int]:
    """Those of these followers that somebody's throttle holds to less than is of use; bytes per second."""
    found: dict[BrokerId, int] = {}
    for broker in brokers:
        key = ThrottleKey("broker", str(broker), FOLLOWER_RATE)
        if is_slow(state.others.get(key)) and is_listed(state.others, tp, key):
            found[broker] = int(state.others[key])
    return found


def _whole(
    state: ExecutorState, move: Move, seen: ObservedPartition, after: Replicas
) -> tuple[list[BrokerId], dict[BrokerId, int]]:
    """The replicas that are in sync once a partition has come to `after`, and those of them that a throttle holds then."""
    live = state.cluster.brokers
    whole = [each for each in after if each not in seen.replicas or (each in seen.isr and each in live)]
    leader = seen.leader if seen.leader in whole else whole[0] if whole else None
    leader = move.wanted_leader if move.wanted_leader in whole else leader
    return whole, held_followers(state, move.tp, (each for each in whole if each != leader))


def held_up(state: ExecutorState, move: Move, seen: ObservedPartition, after: Replicas, *, known: bool) -> Wait | None:
    """Why a move does not begin a step to `after`: fewer than min.insync.replicas may be in sync at its end; None: it may.

    `known`: what others have set was read.
    """
    if not known:
        return Wait(WaitKind.OURSELVES, "looks whether somebody's throttle holds its replicas")
    if move.relaxed or move.direction is Direction.STOP or set(seen.replicas) <= set(after):
        return None
    whole, held = _whole(state, move, seen, after)
    least = min(state.least_in_sync(move), len(whole))
    left = len(whole) - len(held)
    if left >= least:
        return None
    rates = ", ".join(sorted({told_rate(rate) for rate in held.values()}))
    return Wait(
        WaitKind.THROTTLE,
        f"waits for somebody's throttle of {told_brokers(sorted(held))} ({rates}) to be lifted: at the new leader epoch only "
        f"{left} of min.insync.replicas {least} would be sure to stay in sync; {LIFT}, `shunter relax` goes on all the same",
    )


def told_followers(state: ExecutorState, moves: Iterable[Move]) -> str:
    """That moves take followers out of the isr for a while, by somebody's throttle; "": none does. Pre: it was read."""
    rates: dict[BrokerId, int] = {}
    leaves: list[TopicPartition] = []
    waits: list[TopicPartition] = []
    for move in moves:
        seen = state.cluster.partition(move.tp)
        if seen is None or not begins_epoch(seen, move):
            continue
        if held := _whole(state, move, seen, move.goal)[1]:
            rates |= held
            leaves.append(move.tp)
            waits += [move.tp] if held_up(state, move, seen, move.goal, known=True) is not None else []
    if not leaves:
        return ""
    brokers = ", ".join(f"broker {broker} to {told_rate(rate)}" for broker, rate in sorted(rates.items()))
    told = (
        f"somebody else's throttle holds {brokers}, replicas in sync too once a leader epoch begins: acks=all waits there until "
        f"they are out of the isr (30 s by replica.lag.time.max.ms), in {counted(len(leaves), 'partition')} ({named(leaves)})"
    )
    if waits:
        its = "its step waits" if len(waits) == 1 else "their steps wait"
        told += f"; {named(waits)} would have fewer than min.insync.replicas then, so {its} until it is lifted, or for `shunter relax`"
    return f"{told}; {LIFT}"
