"""Moves that can't end now: what each move waits for, and the way out.

Replies to orders that promise an end (stop, roll back, relax) and every view of an execution name these moves.
Otherwise the execution would wait silently for a broker that never comes back.
"""

from __future__ import annotations

from dataclasses import replace

from shunter.core.executor.choice import Waits, blockers, choose, undo
from shunter.core.executor.copies import unsettled
from shunter.core.executor.state import ExecutorState, Move
from shunter.model.execution import Direction, ObservedPartition
from shunter.model.partition import BrokerId, Replicas, TopicPartition

_WAYS_OUT = {
    Direction.FORWARD: "`shunter rollback` or `shunter stop` ends it",
    Direction.STOP: "`shunter stop --leave` ends it as it is",
    Direction.BACK: "`shunter stop --leave` ends it as it is",
}


def stuck(state: ExecutorState, move: Move) -> str | None:
    """Why a move can't end before a dead broker or log dir is back; None: nothing that was seen keeps it from ending."""
    seen = state.cluster.partition(move.tp)
    live = frozenset(state.cluster.brokers)
    if not move.open or seen is None or not live:
        return None
    if move.direction is Direction.FORWARD and set(move.current) != set(move.goal):
        # The controller ends a step that adds or drops a replica only when all replicas that stay are in sync.
        missing = _named(state, move.tp, move.goal)
        return f"it can't end without {missing} and part of its target" if missing else None
    waits = _what_it_waits_for(move, seen, live, state.cluster.min_isr(move.tp.topic))
    if waits is None:
        missing = _named(state, move.tp, _unplaced(move))
        if missing:
            return f"it can't end without {missing} and due to be in another log dir"
        missing = _named(state, move.tp, unsettled(state, move))
        return f"it can't end without {missing} and may still copy it to another log dir" if missing else None
    missing = _named(state, move.tp, waits.brokers)
    able = sum(broker in live and broker not in seen.offline for broker in waits.brokers)
    return f"it can't end without {missing}: {waits.reason}" if missing and able < waits.missing else None


def _unplaced(move: Move) -> Replicas:
    """Brokers whose replicas have to be seen in their log dirs before the move ends."""
    refused, done = move.log_dir_status.refused, move.log_dir_status.done
    return tuple(broker for broker, _path in move.places if not done and broker in move.goal and broker not in refused)


def _named(state: ExecutorState, tp: TopicPartition, brokers: Replicas) -> str:
    """Name those of these brokers that can't serve the partition, and why; "": each of them can."""
    seen, live = state.cluster.partition(tp), state.cluster.brokers
    down = [str(broker) for broker in brokers if broker not in live]
    told: list[str] = []
    if down:
        listed = ", ".join(down)
        told.append(f"broker {listed}, which is down" if len(down) == 1 else f"brokers {listed}, which are down")
    for broker in brokers:
        if broker not in live:
            continue
        lost = state.cluster.lost_log_dir(broker, tp)
        if lost is not None:
            told.append(f"log dir {lost} of broker {broker}, which is offline")
        elif seen is not None and broker in seen.offline:
            told.append(f"a working log dir of broker {broker}, whose replica is offline")
    return " and ".join(told)


def _what_it_waits_for(move: Move, seen: ObservedPartition, live: frozenset[BrokerId], min_isr: int) -> Waits | None:
    step = move.step
    if step is None:
        chosen = choose(move, seen, live, min_isr)
        return chosen if isinstance(chosen, Waits) else None
    if move.turned_at_ms is not None:
        turned = undo(move, seen, live, min_isr)
        if turned is not None:
            return turned if isinstance(turned, Waits) else None
    if step.cancels:
        return None
    late = (*blockers(move, seen), *(broker for broker in step.adding if broker not in seen.isr))
    named = [broker for broker in late if broker not in live] or list(late)
    return Waits(f"its step needs broker {', '.join(map(str, named))} in sync", late, len(late))


def way_out(move: Move) -> str:
    """The orders by which an operator may end a move that can't end by itself."""
    return _WAYS_OUT[move.direction]


def told_stuck(state: ExecutorState, moves: list[Move], *, direction: Direction | None = None) -> str:
    """A sentence about the moves that can't end (if they were turned to `direction`, if given); "" if all can."""
    told: list[tuple[Move, str]] = []
    for move in moves:
        turned = move if direction is None else _turned(move, direction)
        why = stuck(state, turned)
        if why is not None:
            told.append((turned, why))
    if not told:
        return ""
    first, why = told[0]
    return f"{len(told)} of them can't end now: {first.tp}: {why}; {way_out(first)}"


def _turned(move: Move, direction: Direction) -> Move:
    """A copy of the move, turned to `direction`. It shares the step, because nothing here changes the step."""
    return replace(move, direction=direction, turned_at_ms=None if move.step is None else 0, paused=False)
