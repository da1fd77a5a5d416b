"""Moves that can't end now: what each move waits for, and the way out.

Replies to plans and to orders that promise an end (stop, roll back, relax), dry runs and every view of an execution
name these moves. Otherwise the execution would wait silently for a broker that never comes back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from shunter.core.executor.choice import Begin, Choice, Waits, ahead, blockers, choose, undo
from shunter.core.executor.copies import unsettled
from shunter.core.executor.judgement import order_after_cancel
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.throttles import CORDONED_LOG_DIRS
from shunter.core.wording import counted, named
from shunter.model.execution import Direction, ObservedPartition
from shunter.model.partition import BrokerId, Replicas, TopicPartition

SHAPES = 1_000
"""Ways out of so many moves that stand differently are remembered."""
OFFLINE_FIRST = "`shunter plan --scope offline` gives offline replicas other brokers first"


def stuck(state: ExecutorState, move: Move) -> str | None:
    """Why a move can't end before a dead broker or log dir is back, or a cordon is lifted; None: it can, by all that was seen."""
    seen = state.cluster.partition(move.tp)
    live = frozenset(state.cluster.brokers)
    if not move.open or seen is None or not live:
        return None
    if shut := _shut(state, move, seen):
        return shut
    if move.direction is Direction.FORWARD and set(move.current) != set(move.goal):
        missing = _named(state, move, _needed(state, move, seen))
        return f"it can't end without {missing} and part of its target" if missing else None
    waits = _what_it_waits_for(state, move, seen)
    if waits is None:
        missing = _named(state, move, _unplaced(move))
        if missing:
            return f"it can't end without {missing} and due to be in another log dir"
        missing = _named(state, move, unsettled(state, move))
        return f"it can't end without {missing} and may still copy it to another log dir" if missing else None
    missing = _named(state, move, waits.brokers)
    able = len(_able(state, move, seen).intersection(waits.brokers))
    return f"it can't end without {missing}: {waits.reason}" if missing and able < waits.missing else None


def _shut(state: ExecutorState, move: Move, seen: ObservedPartition) -> str:
    """That a move has yet to name a closed broker in a target, and how its cordon is lifted; "": it has not.

    A cancel names none, but it does not keep the order of replicas.
    """
    if state.cluster.cordoned.union(dict(state.options.cordons)).isdisjoint((*move.original, *move.target)):
        return ""
    step, closed, left, wanted = move.step, state.closed(), seen.replicas, move.goal
    undone = None if step is None or move.turned_at_ms is None else _undone(state, move, seen)
    if step is not None and (step.cancels or (isinstance(undone, Begin) and undone.cancels)):
        left = order_after_cancel(step.before, seen.replicas)
    elif step is not None:
        left = step.after
    if move.direction is Direction.STOP:
        kept = move.order if step is None else step.before
        wanted = kept if set(kept) == set(left) else left
    shut = [] if wanted == left else [each for each in wanted if each in closed and not state.is_lifted(each, move)]
    if not shut:
        return ""
    which = f"broker{'s' if len(shut) > 1 else ''} {', '.join(map(str, shut))}"
    lifted = "; ".join(_told_lift(state, broker) for broker in shut)
    return f"it can't end while {which} has its log dirs cordoned: Kafka takes no target that names it; {lifted}"


def _told_lift(state: ExecutorState, broker: BrokerId) -> str:
    if broker not in state.cluster.brokers:
        return f"broker {broker} is down, and its cordon can't be lifted before it is up"
    if broker in state.cordoned() and not state.turned:
        return f"`shunter undrain {broker}` lifts that"
    change = f"--entity-type brokers --entity-name {broker} --delete-config {CORDONED_LOG_DIRS}"
    return f"`kafka-configs --alter {change}` lifts that"


def _undone(state: ExecutorState, move: Move, seen: ObservedPartition) -> Begin | Waits | None:
    live = frozenset(state.cluster.brokers)
    return undo(move, seen, live, state.least_in_sync(move), closed=state.closed())


def _needed(state: ExecutorState, move: Move, seen: ObservedPartition) -> Replicas:
    """The replicas of a move's goal without which the cluster does not end the move.

    That are all if a step makes the set smaller. Otherwise controllers from Kafka 4.3 on need those that are added
    alone; older ones need all. One whose version is not known shows that by a step that goes on although what it adds
    is in sync.

    Source: KAFKA-19975; tried on Kafka 4.1.0, 4.2.2, 4.3.1 and 4.4.0.
    """
    step = move.step
    before, after = (move.current, move.goal) if step is None else (step.before, step.after)
    hangs = step is not None and move.tp in state.cluster.ongoing and all(broker in seen.isr for broker in step.adding)
    if hangs or state.cluster.needs_all or len(after) < len(before):
        return move.goal
    return tuple(broker for broker in move.goal if broker not in move.current)


def held_up(state: ExecutorState, tp: TopicPartition, current: Replicas, target: Replicas) -> str:
    """What holds up a move from `current` to `target` that is about to begin; "": nothing that was seen does."""
    if set(current) == set(target):
        return ""  # A change of the order alone needs no replica in sync.
    missing = _named(state, tp, tuple(broker for broker in target if broker not in current))
    staying = _named(state, tp, tuple(broker for broker in target if broker in current))
    whole = state.cluster.needs_all
    if missing or (staying and (whole or len(target) < len(current))):
        without = " and ".join(filter(None, (missing, staying)))
        way_out = OFFLINE_FIRST if staying else "name another broker in its place"
        return f"it can't end without {without} and part of its target; {way_out}"
    if staying and whole is None:
        old = "controllers before Kafka 4.3 end it only when its whole target is in sync"
        return f"it may not end without {staying} and stays in its target: {old}; {OFFLINE_FIRST}"
    return told_unsure(state, tp, tuple(broker for broker in target if broker not in current))


def told_unsure(state: ExecutorState, tp: TopicPartition, comes: Iterable[BrokerId]) -> str:
    """That a broker may refuse a replica, because the log dir that failed there may have held one; "": none may.

    The broker keeps the replica in mind as offline, even if it went elsewhere since. Nothing tells which replicas a
    failed log dir held.
    """
    broken = [broker for broker in comes if broker in state.cluster.broken]
    if not broken:
        return ""
    return (
        f"it may not end: {_told_broken(state, broken[0])}, and if {tp} was there, the broker takes no replica of it"
        " before a restart; restart it with a disk that works or without that log dir, or name another broker"
    )


def _told_broken(state: ExecutorState, broker: BrokerId) -> str:
    paths = state.cluster.broken[broker]
    return f"log dir{'s' if len(paths) > 1 else ''} {', '.join(paths)} of broker {broker} failed"


def told_held_up(whys: Iterable[tuple[TopicPartition | str, str]]) -> str:
    """A sentence about the moves of a plan that dead brokers hold up, each with its reason; "": there are none."""
    found = list(whys)
    if not found:
        return ""
    which = named(tp for tp, _why in found)
    return f"dead brokers or log dirs hold up {counted(len(found), 'move')}, {which}: {found[0][1]}"


def endless_step(state: ExecutorState, move: Move) -> str:
    """That the cluster can't end the step under way, because a replica of its target is offline; "": it can.

    It "may not end" if that depends on the controller's version, which is not known.
    """
    step = move.step
    if step is None or step.cancels or (set(step.after) == set(step.before) and not step.redirected_from):
        return ""
    whole = state.cluster.needs_all or len(step.after) < len(step.before)
    if _named(state, move, step.after if whole else step.adding):
        return "can't end"
    return "may not end" if state.cluster.needs_all is None and _named(state, move, step.after) else ""


def _unplaced(move: Move) -> Replicas:
    """Brokers whose replicas have to be seen in their log dirs before the move ends."""
    refused, done = move.log_dir_status.refused, move.log_dir_status.done
    return tuple(broker for broker, _path in move.places if not done and broker in move.goal and broker not in refused)


def _able(state: ExecutorState, move: Move, seen: ObservedPartition) -> frozenset[BrokerId]:
    """Live brokers that can serve a move's partition, as far as was seen."""
    step = move.step
    adding = () if step is None else step.adding
    without = {
        broker for broker in adding if step is not None and state.cluster.keeps_none(broker, move.tp, step.begun_at_ms)
    }
    return frozenset(state.cluster.brokers).difference(seen.offline, without)


def _named(state: ExecutorState, move: Move | TopicPartition, brokers: Replicas) -> str:
    """Name those of these brokers that can't serve the partition, and why; "": each of them can."""
    tp, step = (move.tp, move.step) if isinstance(move, Move) else (move, None)
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
        elif step is not None and broker in step.adding and state.cluster.keeps_none(broker, tp, step.begun_at_ms):
            why = "which has none in any log dir (restart it with all its log dirs)"
            if broker in state.cluster.broken:
                why = (
                    f"which makes none: {_told_broken(state, broker)}, where {tp} may have been (restart it with a disk"
                    " that works or without that log dir)"
                )
            told.append(f"a replica on broker {broker}, {why}")
    return " and ".join(told)


def _what_it_waits_for(state: ExecutorState, move: Move, seen: ObservedPartition) -> Waits | None:
    """What a move waits for, now or at a later step, if dead brokers stay dead; None: it reaches its goal."""
    live, min_isr = frozenset(state.cluster.brokers), state.least_in_sync(move)
    step, able = move.step, _able(state, move, seen)
    chosen: Choice | None
    if step is None:
        chosen = choose(move, seen, live, min_isr, closed=state.closed())
    else:
        chosen = None if move.turned_at_ms is None else _undone(state, move, seen)
    if isinstance(chosen, Waits):
        return chosen
    late: Replicas = ()
    if isinstance(chosen, Begin):
        after = chosen.after
        if step is not None and not chosen.cancels:
            late = tuple(broker for broker in after if broker not in seen.isr)
    elif step is None:
        return None
    else:
        after = step.after
        if not step.cancels:
            late = (*blockers(move, seen), *(broker for broker in step.adding if broker not in seen.isr))
    dead = [broker for broker in late if broker not in able]
    if dead:
        return Waits(f"its step needs broker {', '.join(map(str, dead))} in sync", late, len(late))
    if isinstance(chosen, Begin) and chosen.cancels:
        # Apache's cancel keeps what an older target had added and this step's target removes.
        after += tuple(
            broker for broker in seen.replicas if broker not in after and broker not in _added_now(state, move)
        )
    steps, waits = ahead(replace(move, step=None), after, able, min_isr)
    for each in steps:
        dead = [broker for broker in each.after if broker not in able]
        if dead and len(each.after) < len(each.before):
            return Waits(
                f"a step to {list(each.after)} needs broker {', '.join(map(str, dead))} in sync",
                each.after,
                len(each.after),
            )
    return waits


def _added_now(state: ExecutorState, move: Move) -> Replicas:
    """Replicas that a cancel of a move's step takes back: those that the cluster lists as being added."""
    ongoing = state.cluster.ongoing.get(move.tp)
    if ongoing is not None:
        return ongoing.adding
    return () if move.step is None else move.step.copying


def way_out(state: ExecutorState, move: Move) -> str:
    """The orders by which an operator may end a move that can't end by itself.

    Cost: some hundred microseconds, but for one of thousands of moves that stand alike the answer is known.
    """
    shape, known = _shape(state, move), state.cluster.ways_out
    if shape is None:
        return _way_out(state, move)
    if len(known) >= SHAPES:
        known.clear()
    if shape not in known:
        known[shape] = _way_out(state, move)
    return known[shape]


def _shape(state: ExecutorState, move: Move) -> Hashable | None:
    """All that a move's way out depends on; None: on its replicas' log dirs, too."""
    seen, step, cluster = state.cluster.partition(move.tp), move.step, state.cluster
    if seen is None or move.names_log_dirs:
        return None
    live = frozenset(cluster.brokers)
    if _able(state, move, seen) != live.difference(seen.offline):
        return None
    if any(cluster.lost_log_dir(broker, move.tp) for broker in (*seen.replicas, *move.goal, *move.original)):
        return None
    run = None if step is None else (step.before, step.after, step.cancels, step.accepted, step.redirected_from)
    place = (move.original, move.target, move.current, move.order, move.direction, move.forced, move.relaxed)
    turned = move.turned_at_ms is not None
    back = turned_to(move, Direction.BACK)  # A way back may need a target that names a closed broker.
    closed = frozenset((broker, state.is_lifted(broker, back)) for broker in state.closed())
    return (
        live,
        seen,
        cluster.ongoing.get(move.tp),
        state.least_in_sync(move),
        move.strategy,
        place,
        run,
        turned,
        closed,
    )


def _way_out(state: ExecutorState, move: Move) -> str:
    leaving = "`shunter stop --leave` ends it as it is"
    if endless := endless_step(state, move):
        leaving = f"`shunter stop --leave` gives it up, and leaves a reassignment in the cluster that {endless}"
    if ways := _ways(state, move, forced=False):
        return f"{ways} ends it"
    if ways := _ways(state, move, forced=True):
        return f"{ways} ends it, although fewer replicas than min.insync.replicas are then in sync; {leaving}"
    return leaving


def _ways(state: ExecutorState, move: Move, *, forced: bool) -> str:
    """The orders that turn a move and then end it."""
    return " or ".join(
        f"`shunter {verb}{' --force' if forced else ''}`"
        for verb, direction in (("rollback", Direction.BACK), ("stop", Direction.STOP))
        if (forced or direction is not move.direction)
        and stuck(state, turned_to(move, direction, forced=forced)) is None
    )


def told_stuck(
    state: ExecutorState, moves: list[Move], *, direction: Direction | None = None, forced: bool = False
) -> str:
    """A sentence about the moves that can't end (if they were turned to `direction`, if given); "" if all can."""
    told: list[tuple[Move, str]] = []
    for move in moves:
        turned = move if direction is None else turned_to(move, direction, forced=forced)
        why = stuck(state, turned)
        if why is not None:
            told.append((turned, why))
    if not told:
        return ""
    first, why = told[0]
    return f"{len(told)} of them can't end now: {first.tp}: {why}; {way_out(state, first)}"


def turned_to(move: Move, direction: Direction, *, forced: bool = False) -> Move:
    """A copy of the move, turned to `direction`. It shares the step, because nothing here changes the step."""
    turned_at_ms = None if move.step is None else 0
    return replace(move, direction=direction, turned_at_ms=turned_at_ms, paused=False, forced=forced)
