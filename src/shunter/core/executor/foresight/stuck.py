"""Moves that can't end: what a move needs, now and at later steps, and which broker, log dir or cordon withholds it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from shunter.core.executor.choice import Begin, Waits, ahead, blockers, choose, needed_by, relax, undo
from shunter.core.executor.copies import unsettled
from shunter.core.executor.judgement import order_after_cancel
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.throttles import CORDONED_LOG_DIRS
from shunter.core.wording import told_brokers
from shunter.model.execution import Direction, ObservedPartition
from shunter.model.partition import NO_LEADER, BrokerId, Replicas, TopicPartition

_Told = TypeVar("_Told")
NO_SOURCE = "no live broker has all records"
SHAPES = 1_000
"""What is foretold of so many moves that stand differently is remembered."""


def stuck(state: ExecutorState, move: Move) -> str | None:
    """Why a move can't end before a dead broker or log dir is back, or a cordon is lifted; None: it can, by all that was seen."""
    seen = state.cluster.partition(move.tp)
    live = frozenset(state.cluster.brokers)
    if not move.open or seen is None or not live:
        return None
    if is_over(state, move, seen):
        move = replace(move, step=None)
    elif move.step is not None and is_unlisted(state, move):
        return None
    if _is_outdated(state, move, seen):
        return None
    if shut := _shut(state, move, seen):
        return shut
    waits = None
    if is_ill(state, move, seen):  # Of most moves no broker is: then their steps need not be played.
        waits = foretold(state, move, _what_it_waits_for)
    if waits is None:
        missing = named_missing(state, move, _unplaced(move))
        if missing:
            return f"it can't end without {missing} and due to be in another log dir"
        missing = named_missing(state, move, unsettled(state, move))
        return f"it can't end without {missing} and may still copy it to another log dir" if missing else None
    missing, able = named_missing(state, move, waits.brokers), _able(state, move, seen).intersection(waits.brokers)
    wanted = waits.missing - len(able)
    if not missing or wanted <= 0:
        return None
    some = "" if wanted >= len(waits.brokers) - len(able) else "one of " if wanted == 1 else f"{wanted} of "
    return f"it can't end without {some}{missing}{why_needed(move, waits, missing)}"


def is_over(state: ExecutorState, move: Move, seen: ObservedPartition) -> bool:
    """Whether the cluster shows a step's end, whatever the journal has yet."""
    return move.step is not None and move.tp not in state.cluster.ongoing and seen.replicas == move.step.after


def _is_outdated(state: ExecutorState, move: Move, seen: ObservedPartition) -> bool:
    """Whether a broker came back after the partition was looked at, which showed its replica as offline."""
    seen_at_ms, up = state.cluster.topics_at_ms.get(move.tp.topic, -1), state.cluster.up_since_ms
    return any(up.get(broker, -1) > seen_at_ms for broker in seen.offline)


def is_unlisted(state: ExecutorState, move: Move) -> bool:
    """Whether a step is no longer under way, and its partition was not looked at since: it may have reached its end."""
    cluster, step = state.cluster, move.step
    since_ms = None if step is None or move.tp in cluster.ongoing else step.unlisted_at_ms
    return since_ms is not None and cluster.topics_at_ms.get(move.tp.topic, -1) <= since_ms


def sources_of(state: ExecutorState, move: Move, seen: ObservedPartition) -> Replicas:
    """The replicas of which one has to come back, because no live broker has all records; (): one has them.

    With eligible leader replicas (KIP-966) the ISR may be empty. A live replica that is eligible would lead.
    """
    able = _able(state, move, seen)
    if seen.leader != NO_LEADER or not able.isdisjoint(seen.isr):
        return ()
    adding = () if move.step is None else move.step.adding
    known = seen.isr or tuple(broker for broker in seen.replicas if broker not in adding)
    return tuple(broker for broker in known if broker not in able)


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
    lifted = "; ".join(_told_lift(state, broker) for broker in shut)
    return f"it can't end while {told_brokers(shut)} has its log dirs cordoned: Kafka takes no target that names it; {lifted}"


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


def on_paper(
    state: ExecutorState, move: Move, *, needs_all: bool | None = None
) -> tuple[tuple[Begin, ...], Waits | None]:
    """The steps that a move has before it, and what it would wait for (None: it reaches its goal): see `ahead`.

    The first one is the step under way, or what becomes of it if the move was turned since.
    """
    seen = state.cluster.partition(move.tp)
    assert seen is not None, "a move is taken on only for a partition that was seen"
    whole = bool(state.cluster.needs_all) if needs_all is None else needs_all
    able, least = _able(state, move, seen), state.least_in_sync(move)
    paper = partial(ahead, live=able, min_isr=least, needs_all=whole, closed=state.closed(), leader=seen.leader)
    if move.step is None:
        return paper(move, move.current)
    turned = None if move.turned_at_ms is None else _undone(state, move, seen)
    if isinstance(turned, Waits):
        return (), turned
    first = turned or Begin(move.step.before, move.step.after, move.step.reason, move.step.cancels)
    steps, waits = paper(replace(move, step=None), first.after)
    return (first, *steps), waits


def waits_now(state: ExecutorState, move: Move) -> Waits | None:
    """What a move waits for before it takes or ends a step, by the replicas in sync as they were seen; None: nothing."""
    seen, live, least = state.cluster.partition(move.tp), frozenset(state.cluster.brokers), state.least_in_sync(move)
    if seen is None:
        return None
    if move.step is None:
        chosen = choose(move, seen, live, least, closed=state.closed())
        return chosen if isinstance(chosen, Waits) else None
    needs = needed_by(move.step, needs_all=_needs_all(state, move, seen))
    holding = tuple(broker for broker in blockers(move, seen) if broker in needs)
    if move.step.cancels or not holding or (move.relaxed and relax(move, seen, live, least) is not None):
        return None
    return Waits(f"waits for {told_brokers(holding)} to be live and in sync", holding, len(holding))


def told_behind(state: ExecutorState, move: Move) -> str | None:
    """Which live replicas that stay are out of sync now, so that a later drop may wait for them; None: none is."""
    seen, coming = state.cluster.partition(move.tp), () if move.step is None else move.step.copying
    if seen is None or set(move.current) <= set(move.goal):
        return None
    stay = [
        each for each in move.goal if each in seen.replicas and each in state.cluster.brokers and each not in coming
    ]
    if lost := tuple(broker for broker in stay if broker in seen.offline):
        if state.cluster.needs_all is False and len(move.goal) >= len(move.current):
            return None  # From Kafka 4.3 on a step ends beside a dead replica that stays, unless the set gets smaller.
        told = f"its replica on {told_brokers(lost)} is offline, in a log dir that failed: a drop may wait for that"
        return f"{told}; `shunter plan --scope offline` brings it elsewhere"
    late = tuple(broker for broker in stay if broker not in seen.isr)
    are = "are" if len(late) > 1 else "is"
    return f"{told_brokers(late)} of its target {are} out of sync now: a drop may wait for that" if late else None


def why_needed(move: Move, waits: Waits, missing: str) -> str:
    """Why a move needs the brokers that it waits for, to be put behind them (`missing`), unless they say it."""
    wanted = move.direction is Direction.FORWARD and set(waits.brokers) <= set(move.goal)
    if wanted:
        return "" if missing.endswith(")") else " and part of its target"
    # Who is waited for is said already.
    why = waits.reason.partition(": ")[2] if waits.reason.startswith("waits") else waits.reason
    return f": {why}" if why else ""


def told_broken(state: ExecutorState, broker: BrokerId) -> str:
    """Which log dirs of a broker failed, by path."""
    paths = state.cluster.broken[broker]
    return f"log dir{'s' if len(paths) > 1 else ''} {', '.join(paths)} of broker {broker} failed"


def endless_step(state: ExecutorState, move: Move) -> str:
    """That the cluster can't end the step under way, because a replica of its target is offline; "": it can.

    It "may not end" if that depends on the controller's version, which is not known.
    """
    step = move.step
    known, seen = state.cluster.needs_all, state.cluster.partition(move.tp)
    if step is None or step.cancels or (seen is not None and is_over(state, move, seen)):
        return ""
    late = (
        () if seen is None else tuple(each for each in needed_by(step, needs_all=bool(known)) if each not in seen.isr)
    )
    if seen is not None and late and sources_of(state, move, seen):
        return "can't end"
    if named_missing(state, move, needed_by(step, needs_all=bool(known))):
        return "can't end"
    return "may not end" if named_missing(state, move, needed_by(step, needs_all=known is not False)) else ""


def _unplaced(move: Move) -> Replicas:
    """Brokers whose replicas have to be seen in their log dirs before the move ends."""
    refused, done = move.log_dir_status.refused, move.log_dir_status.done
    return tuple(broker for broker, _path in move.places if not done and broker in move.goal and broker not in refused)


def _able(state: ExecutorState, move: Move, seen: ObservedPartition) -> frozenset[BrokerId]:
    """Live brokers that can serve a move's partition, as far as was seen."""
    step, cluster = move.step, state.cluster
    adding = () if step is None else step.adding
    without = {
        broker for broker in adding if step is not None and cluster.keeps_none(broker, move.tp, step.begun_at_ms)
    }
    lost = (broker for broker in {*seen.replicas, *move.goal} if cluster.lost_log_dir(broker, move.tp) is not None)
    return frozenset(cluster.brokers).difference(seen.offline, without, lost)


def named_missing(state: ExecutorState, move: Move | TopicPartition, brokers: Replicas) -> str:
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
                    f"which makes none: {told_broken(state, broker)}, where {tp} may have been (restart it with a disk"
                    " that works, formatted if it is new, or without that log dir)"
                )
            told.append(f"a replica on broker {broker}, {why}")
    return " and ".join(told)


def is_ill(state: ExecutorState, move: Move, seen: ObservedPartition) -> bool:
    """Whether a broker that a move has to do with can't serve its partition."""
    cluster, step = state.cluster, move.step
    involved = {*seen.replicas, *move.current, *move.goal, *(() if step is None else step.after)}
    return (
        not involved <= cluster.brokers.keys()
        or (bool(seen.offline) and not involved.isdisjoint(seen.offline))
        or (bool(cluster.spaces) and any(cluster.lost_log_dir(broker, move.tp) is not None for broker in involved))
        or (step is not None and any(cluster.keeps_none(each, move.tp, step.begun_at_ms) for each in step.adding))
    )


def _what_it_waits_for(state: ExecutorState, move: Move) -> Waits | None:
    """What a move waits for, now or at a later step, if dead brokers stay dead; None: it reaches its goal."""
    seen = state.cluster.partition(move.tp)
    assert seen is not None, "nothing is foretold of a partition that was not seen"
    live, min_isr = frozenset(state.cluster.brokers), state.least_in_sync(move)
    step, able = move.step, _able(state, move, seen)
    whole, closed = _needs_all(state, move, seen), state.closed()
    paper = partial(ahead, live=able, min_isr=min_isr, needs_all=whole, closed=closed, leader=seen.leader)
    sources = sources_of(state, move, seen)
    if step is None:
        chosen = choose(move, seen, live, min_isr, closed=closed)
        if sources and isinstance(chosen, Waits):
            return Waits(NO_SOURCE, sources, 1)
        return chosen if isinstance(chosen, Waits) else paper(move, seen.replicas)[1]
    turned = None if move.turned_at_ms is None else _undone(state, move, seen)
    if isinstance(turned, Waits):
        if sources:
            return Waits(NO_SOURCE, sources, 1)
        return None if ends_with_its_step(state, move) else turned
    after = step.after if turned is None else turned.after
    late: Replicas = ()
    if not (step if turned is None else turned).cancels:
        late = needed_by(step, needs_all=whole) if turned is None else after
    late = tuple(broker for broker in late if broker not in seen.isr)
    dead = [broker for broker in late if broker not in able]
    if dead:
        return Waits(f"its step needs broker {', '.join(map(str, dead))} in sync", late, len(late))
    if late and sources:
        return Waits(NO_SOURCE, sources, 1)
    if turned is not None and turned.cancels:
        # Apache's cancel keeps what an older target had added and this step's target removes.
        after += tuple(
            broker for broker in seen.replicas if broker not in after and broker not in _added_now(state, move)
        )
    return paper(replace(move, step=None), after)[1]


def ends_with_its_step(state: ExecutorState, move: Move) -> bool:
    """Whether a stop waits until what a step adds is in sync, because too few former replicas are for a cancel."""
    step, seen = move.step, state.cluster.partition(move.tp)
    if step is None or seen is None or step.cancels or move.direction is not Direction.STOP:
        return False
    can_end = _able(state, move, seen) >= {*needed_by(step, needs_all=_needs_all(state, move, seen))}
    return can_end and isinstance(_undone(state, move, seen), Waits)


def _needs_all(state: ExecutorState, move: Move, seen: ObservedPartition) -> bool:
    """Whether the cluster needs every replica of a step's target in sync.

    A controller whose version is not known shows that by a step that goes on although what it adds is in sync.
    """
    if state.cluster.needs_all is not None or move.step is None:
        return bool(state.cluster.needs_all)
    return move.tp in state.cluster.ongoing and all(broker in seen.isr for broker in move.step.adding)


def _added_now(state: ExecutorState, move: Move) -> Replicas:
    """Replicas that a cancel of a move's step takes back: those that the cluster lists as being added."""
    ongoing = state.cluster.ongoing.get(move.tp)
    if ongoing is not None:
        return ongoing.adding
    return () if move.step is None else move.step.copying


def foretold(state: ExecutorState, move: Move, foretell: Callable[[ExecutorState, Move], _Told]) -> _Told:
    """What a function foretells of a move, which is remembered for all moves that stand alike."""
    shape, known = _shape(state, move), state.cluster.foretold
    if shape is None:
        return foretell(state, move)
    if len(known) >= SHAPES:
        known.clear()
    key = (foretell.__name__, shape)
    if key not in known:
        known[key] = foretell(state, move)
    found: _Told = known[key]
    return found


def _shape(state: ExecutorState, move: Move) -> Hashable | None:
    """All that what is foretold of a move depends on; None: on its replicas' log dirs, too."""
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
        cluster.needs_all,
        seen,
        cluster.ongoing.get(move.tp),
        state.least_in_sync(move),
        move.strategy,
        place,
        run,
        turned,
        closed,
    )


def turned_to(move: Move, direction: Direction, *, forced: bool = False) -> Move:
    """A copy of the move, turned to `direction`. It shares the step, because nothing here changes the step."""
    turned_at_ms = None if move.step is None else 0
    return replace(move, direction=direction, turned_at_ms=turned_at_ms, paused=False, forced=forced)
