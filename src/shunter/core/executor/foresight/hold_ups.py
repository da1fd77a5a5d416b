"""What is said of moves that can't or may not end, and the way out, before they begin and under way.

Replies to plans and to orders that promise an end (stop, roll back, relax), dry runs and every view of an execution
name these moves. Otherwise the execution would wait silently for a broker that never comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from shunter.core.executor.choice import needed_by
from shunter.core.executor.foresight.stuck import (
    NO_SOURCE,
    endless_step,
    foretold,
    is_ill,
    named_missing,
    on_paper,
    sources_of,
    stuck,
    told_broken,
    turned_to,
    why_needed,
)
from shunter.core.executor.state import CurrentStep, ExecutorState, Move
from shunter.core.spare_replicas import OFFLINE_FIRST
from shunter.core.throttles import FOLLOWER_RATE
from shunter.core.under_way import told_stranded
from shunter.core.wording import counted, named, told_brokers
from shunter.model.execution import Direction, ThrottleKey
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Strategy


class HoldUp(NamedTuple):
    """What keeps a move that is under way from ending; "": nothing that was seen does."""

    stuck: str = ""
    """Why it can't end, and the way out."""
    doubt: str = ""
    """Why it may not end."""


def hold_up_of_others(state: ExecutorState, tp: TopicPartition) -> HoldUp:
    """What keeps a reassignment that another tool asked Apache's controller for from ending. Pre: it is under way."""
    ongoing = state.cluster.ongoing[tp]
    if ongoing.stranded:
        return HoldUp(f"it can't end: {told_stranded(ongoing)}; `shunter rollback {tp}` cancels it")
    before = tuple(broker for broker in ongoing.replicas if broker not in ongoing.adding)
    whole = Strategy.ALL_AT_ONCE
    move = Move(tp, None, before, ongoing.target, whole, 0, (), adopted=True, accepted_at_ms=0, current=before)
    move.step = CurrentStep(1, before, ongoing.target, "", cancels=False, begun_at_ms=0, accepted=True)
    return hold_up(state, move, ours=False)


def hold_up(state: ExecutorState, move: Move, *, ours: bool = True) -> HoldUp:
    """What keeps a move from ending, whoever began it. `ours`: this executor's; any other can only be cancelled."""
    why = stuck(state, move)
    if why is not None:
        return HoldUp(f"{why}; {way_out(state, move) if ours else _cancel(state, move)}")
    seen = state.cluster.partition(move.tp)
    if not move.open or seen is None or not state.cluster.brokers:
        return HoldUp()
    return HoldUp("", _doubt(state, move) if state.cluster.broken or is_ill(state, move, seen) else "")


def can_cancel(state: ExecutorState, move: Move) -> bool:
    """Whether Kafka takes a cancel of a step: a former replica is in sync.

    Otherwise Apache's KRaft controller refuses it, since that needs an unclean election.
    """
    step, seen = move.step, state.cluster.partition(move.tp)
    return step is None or seen is None or any(broker in step.before for broker in seen.isr)


def _cancel(state: ExecutorState, move: Move) -> str:
    """How a move that can't end, and that the executor does not drive, is ended."""
    seen = state.cluster.partition(move.tp)
    assert seen is not None, "of a partition that was not seen it is not known that its move can't end"
    if can_cancel(state, move):
        return f"`shunter rollback {move.tp}` cancels it"
    if sources := sources_of(state, move, seen):
        return f"{_told_start(state, sources)}; Kafka refuses a rollback until then"
    return f"Kafka refuses a rollback until one of its former replicas {list(move.current)} is in sync"


def _told_start(state: ExecutorState, sources: Replicas) -> str:
    """How one of these replicas, of which one has all records, comes back."""
    live = state.cluster.brokers
    ways = [f"start broker {broker}" for broker in sources if broker not in live]
    ways += [f"mend the log dir of broker {broker} that failed" for broker in sources if broker in live]
    return f"{' or '.join(ways)}, {'which has its data' if len(ways) == 1 else 'whichever has its data, as `shunter doctor` tells'}"


def _doubt(state: ExecutorState, move: Move) -> str:
    """Why a move that can end may not end; "": nothing that was seen says so."""
    step, cluster = move.step, state.cluster
    if step is None:
        return held_up(state, move) if move.direction is Direction.FORWARD else ""
    if endless_step(state, move) == "may not end":
        return _told_unknown(named_missing(state, move, needed_by(step, needs_all=True)), OFFLINE_FIRST)
    seen_at_ms = cluster.sizes_at_ms
    comes = (broker for broker in step.adding if seen_at_ms.get((broker, move.tp), -1) <= step.begun_at_ms)
    return "" if step.cancels else told_unsure(state, move.tp, comes)


def _told_unknown(missing: str, way: str) -> str:
    old = "controllers before Kafka 4.3 end it only when its whole target is in sync"
    return f"it may not end without {missing} and stays in its target: {old}; {way}"


def held_up(state: ExecutorState, move: Move) -> str:
    """What holds up a move that is about to begin; "": nothing that was seen does."""
    if set(move.current) == set(move.goal):
        return ""  # A change of the order alone needs no replica in sync.
    tp, known = move.tp, state.cluster.needs_all
    seen = state.cluster.partition(tp)
    ill = seen is not None and is_ill(state, move, seen)
    if seen is not None and ill and (sources := sources_of(state, move, seen)):
        one = "one of " if len(sources) > 1 else ""
        return (
            f"it can't end without {one}{named_missing(state, tp, sources)}: {NO_SOURCE}; {_told_start(state, sources)}"
        )
    for sure in (True, False) if ill else ():
        _steps, waits = on_paper(state, move, needs_all=bool(known) if sure else known is not False)
        missing = "" if waits is None else named_missing(state, tp, waits.brokers)
        if waits is None or not missing:
            continue
        stays = any(broker in move.current for broker in waits.brokers)
        way = OFFLINE_FIRST if stays else "name another broker in its place"
        if sure:
            return f"it can't end without {missing}{why_needed(move, waits, missing)}; {way}"
        return _told_unknown(missing, way)
    return told_unsure(state, tp, tuple(broker for broker in move.goal if broker not in move.current))


def told_unsure(state: ExecutorState, tp: TopicPartition, comes: Iterable[BrokerId]) -> str:
    """That a broker may refuse a replica, because the log dir that failed there may have held one; "": none may.

    The broker keeps the replica in mind as offline, even if it went elsewhere since. Nothing tells which replicas a
    failed log dir held.
    """
    broken = [broker for broker in comes if broker in state.cluster.broken]
    if not broken:
        return ""
    return (
        f"it may not end: {told_broken(state, broken[0])}, and if {tp} was there, the broker takes no replica of it"
        " before a restart; restart it with a disk that works, formatted if it is new, or without that log dir"
    )


def told_urgent(
    state: ExecutorState, moves: Iterable[Move], lower: Collection[ThrottleKey], *, begun: bool = False
) -> str:
    """That partitions without enough in sync wait for copies to brokers that others hold so low; "": none does.

    A sentence to be put behind the one about those brokers.

    Args:
        state: The executor's state.
        moves: The moves that are meant.
        lower: Others' rates that hold.
        begun: The moves are an execution's, so that another plan has to end them first.
    """
    slow = {int(key.name) for key in lower if key.setting == FOLLOWER_RATE}
    found: list[TopicPartition] = []
    for move in moves:
        topic, seen = state.cluster.topics.get(move.tp.topic), state.cluster.partition(move.tp)
        lacks = 0 if topic is None or seen is None else topic.min_isr - len(seen.isr)
        comes = [broker for broker in dict.fromkeys((*move.copying, *move.goal)) if broker not in move.current]
        if lacks > 0 and not slow.isdisjoint(comes[:lacks]):
            found.append(move.tp)
    if not found:
        return ""
    copies = counted(len(found), "partition")
    plan = f"`--exclude-brokers {','.join(map(str, sorted(slow)))}`"
    way = f"{plan} plans without it"
    if begun:
        way = f"`shunter stop --force {found[0]}` and then a plan with {plan} brings {'them' if len(found) > 1 else 'it'} elsewhere"
        way = way if len(found) == 1 else way.replace(str(found[0]), "PARTITIONS")
    return f"; {copies} with fewer in sync than min.insync.replicas go there, and acks=all may be refused until then ({named(found)}): {way}"


REASONS = 3
"""So many reasons are told of the moves of one plan."""


def told_held_up(whys: Iterable[tuple[TopicPartition | str, str]]) -> str:
    """A sentence about the moves of a plan that dead brokers hold up, each with its reason; "": there are none."""
    found: dict[str, dict[TopicPartition | str, str]] = {}
    for tp, why in whys:
        found.setdefault(why.replace(str(tp), "it"), {})[tp] = why
    if not found:
        return ""
    told = [
        f"{named(each)}: {shared if len(each) > 1 else next(iter(each.values()))}" for shared, each in found.items()
    ]
    rest = f"; and for {counted(len(told) - REASONS, 'other reason')}" if len(told) > REASONS else ""
    total = sum(map(len, found.values()))
    return f"dead brokers or log dirs hold up {counted(total, 'move')}, {'; '.join(told[:REASONS])}{rest}"


def way_out(state: ExecutorState, move: Move) -> str:
    """The orders by which an operator may end a move that can't end by itself; without names they would end all.

    Cost: some hundred microseconds, but for one of thousands of moves that stand alike the answer is known.
    """
    return foretold(state, move, _way_out)


def _way_out(state: ExecutorState, move: Move) -> str:
    leaving, seen = "`shunter stop --leave`, given its name, ends it as it is", state.cluster.partition(move.tp)
    sources = () if seen is None else sources_of(state, move, seen)
    if endless := endless_step(state, move):
        until = " until then" if sources else ""
        leaving = f"`shunter stop --leave`, given its name, gives it up, and leaves a reassignment in the cluster that {endless}{until}"
    if ways := _ways(state, move, forced=False):
        return f"{ways}, given its name, ends it"
    if ways := _ways(state, move, forced=True):
        return f"{ways}, given its name, ends it{_forced_loss(state, move)}; {leaving}"
    return f"{_told_start(state, sources)}; {leaving}" if sources else leaving


def _forced_loss(state: ExecutorState, move: Move) -> str:
    """What an end by force costs, to be put behind it: copies that are in sync, or min.insync.replicas."""
    step, seen = move.step, state.cluster.partition(move.tp)
    if step is None or seen is None:
        return ""
    stay, given_up = (
        [broker for broker in some if broker in seen.isr and broker in state.cluster.brokers]
        for some in (step.before, step.adding)
    )
    if len(stay) < min(state.cluster.min_isr(move.tp.topic), len(step.before)):
        return ", although fewer replicas than min.insync.replicas are then in sync"
    return f", and gives up the replica of {told_brokers(given_up)}, which is in sync" if given_up else ""


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
    found: dict[str, list[tuple[Move, str]]] = {}
    for move in moves:
        turned = move if direction is None else turned_to(move, direction, forced=forced)
        why = stuck(state, turned)
        if why is not None:
            found.setdefault(why.replace(str(move.tp), "it"), []).append((turned, why))
    if not found:
        return ""
    told = [
        f"{named(move.tp for move, _why in some)}: {shared if len(some) > 1 else some[0][1]}; {way_out(state, some[0][0])}"
        for shared, some in found.items()
    ]
    rest = f"; and for {counted(len(told) - REASONS, 'other reason')}" if len(told) > REASONS else ""
    return f"{sum(map(len, found.values()))} of them can't end now: {'; '.join(told[:REASONS])}{rest}"
