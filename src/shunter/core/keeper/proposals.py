"""Proposals: plans that mend the conditions that hold, and whether the next look would undo them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shunter.core.keeper.guards import Remaining, held_back, held_back_whatever, remaining
from shunter.core.keeper.log_dirs import planned_log_dirs
from shunter.core.keeper.memory import MINUTE_MS, Holding
from shunter.core.keeper.requests import MENDS, load_for, request_for, scopes_of
from shunter.core.keeper.runway import filling
from shunter.core.keeper.sighting import KIB, Sighting, after, external, no_end
from shunter.core.keeper.sign import Sign
from shunter.core.keeper.signs import signs
from shunter.core.keeper.words import held_by_word
from shunter.core.planning.balance import plan
from shunter.core.planning.bounds import byte_bound
from shunter.core.planning.cluster import ClusterLoad
from shunter.core.planning.request import ORDER_ALONE, PlanRefused, PlanRequest, Scope
from shunter.core.throttles import told_unknown_throttles
from shunter.core.wording import counted
from shunter.model.execution import MoveOrder
from shunter.model.keeper import Condition, KeeperPolicy, Mode, Subject
from shunter.model.partition import TopicPartition
from shunter.model.service import PlannedChange

_ROUNDS = 8
"""How often partitions that swing are left out of a plan, before it is held back as a whole."""
_BOUNDED = (Scope.REBALANCE, Scope.FILL, Scope.EMPTY_DISKS, Scope.DRAIN, Scope.REPLACE, Scope.FIX_RACKS)
"""Scopes for which the planner knows a lower bound on the bytes that any plan copies, at today's sizes."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that would mend some conditions. Without `changes`, `undone` says why, or `behind` what comes first."""

    scope: Scope
    mode: Mode
    conditions: tuple[Condition, ...]
    reasons: tuple[str, ...]
    changes: tuple[PlannedChange, ...]
    """In the order of topic and partition."""
    moves: int
    """Replicas that are copied, to another broker or to another log dir."""
    bytes: int
    leader_changes: int
    undone: tuple[str, ...]
    held_back: tuple[str, ...]
    """Why it may not be begun now, a sentence each."""
    behind: Scope | None = None
    """The scope of the proposal that comes first. Once that is carried out, this one is planned from its outcome."""
    least_bytes: int | None = None
    """No plan that reaches everything that is asked for copies fewer bytes; None: no bound is known."""

    @property
    def ready(self) -> bool:
        """Whether it may be begun now."""
        return bool(self.changes) and not self.held_back


def propose(sighting: Sighting, policy: KeeperPolicy, holding: Sequence[Holding]) -> tuple[Proposal, ...]:
    """Propose a plan for each scope that mends something, the most urgent first; at most one of them is ready.

    Nothing is planned behind a plan that is ready, or that waits only for what every plan waits for. That plan is begun
    first, and a plan that was made beside it may contradict it.
    """
    asking = [each for each in holding if policy.proposes(each.sign.subject.condition)]
    whatever = held_back_whatever(sighting, policy.rails)
    found: list[Proposal] = []
    first: Proposal | None = None
    for scope in scopes_of([each.sign.subject.condition for each in asking]):
        own = [each for each in asking if each.sign.subject.condition in MENDS[scope]]
        if first is not None and not _immovable(scope, [each.sign for each in own]):
            found.append(_behind(first, scope, policy, own))
            continue
        made = _proposal(scope, sighting, policy, own)
        if made.ready and scope is not Scope.OFFLINE:
            made = _that_stays(made, sighting, policy, [each.sign.subject for each in holding])
        if made.changes and whatever.issuperset(made.held_back):
            first = made
        found.append(made)
    return tuple(found)


def _that_stays(made: Proposal, sighting: Sighting, policy: KeeperPolicy, subjects: Sequence[Subject]) -> Proposal:
    """The proposal without the partitions that the next look would take back; it is held back if nothing else is left."""
    changes, told = made.changes, dict[TopicPartition, str]()
    for _ in range(_ROUNDS):
        undone = undone_next(changes, sighting, policy, subjects)
        told |= undone
        changes = tuple(each for each in changes if TopicPartition(each.topic, each.partition) not in undone)
        if not undone or not changes:
            break
    else:
        changes = ()  # Each round found others: the plans contradict each other.
    if not changes:
        return replace(made, held_back=tuple(told.values())[:1])
    moves, size = copied(changes, sighting)
    return replace(
        made,
        changes=changes,
        moves=moves,
        bytes=size,
        leader_changes=_leader_changes(changes),
        undone=(*(f"{tp} stays: {why}" for tp, why in sorted(told.items())), *made.undone),
        held_back=out_of_hard_bands(made.scope, changes, sighting, policy),
    )


def _leader_changes(changes: Sequence[PlannedChange]) -> int:
    return sum(each.elect or each.replicas[0] != each.original[0] for each in changes)


def out_of_hard_bands(
    scope: Scope, changes: Sequence[PlannedChange], sighting: Sighting, policy: KeeperPolicy
) -> tuple[str, ...]:
    """Say which brokers a plan would take out of a band that the policy calls hard. What heals never waits for that."""
    hard = policy.balance.hard
    if not hard or not changes or scope is Scope.OFFLINE:
        return ()
    before = {each.subject for each in signs(sighting, policy, ()) if each.subject.condition in hard}
    broken = [
        sign
        for sign in signs(after(sighting, changes), policy, ())
        if sign.subject.condition in hard and sign.subject not in before
    ]
    return tuple(f"{each.subject.condition.value} is hard, and after this plan {each.text}" for each in broken[:1])


def _behind(first: Proposal, scope: Scope, policy: KeeperPolicy, holding: Sequence[Holding]) -> Proposal:
    """A proposal to be planned once another proposal was carried out, if it is still needed then."""
    told = f"the proposal of scope {first.scope.value} comes first; this one is planned from what that leaves"
    unplanned = _of(scope, policy, [each for each in holding if each.lasted] or holding)
    return replace(unplanned, held_back=(told,), behind=first.scope)


def _proposal(scope: Scope, sighting: Sighting, policy: KeeperPolicy, holding: Sequence[Holding]) -> Proposal:
    lasted = [each for each in holding if each.lasted]
    chosen = lasted or holding
    made = planned(scope, sighting, policy, [each.sign for each in chosen])
    moves, size = copied(made.changes, sighting)
    return replace(
        _of(scope, policy, chosen),
        changes=made.changes,
        moves=moves,
        bytes=size,
        leader_changes=_leader_changes(made.changes),
        undone=made.undone,
        held_back=(
            *held_by_word(scope, policy.rails, sighting.at_ms),
            *(() if lasted else (_too_short(holding),)),
            *held_back(sighting, scope, policy),
            *out_of_hard_bands(scope, made.changes, sighting, policy),
        ),
        least_bytes=made.least_bytes,
    )


def _of(scope: Scope, policy: KeeperPolicy, holding: Sequence[Holding]) -> Proposal:
    """A proposal that mends these conditions, without its plan."""
    conditions = {each.sign.subject.condition for each in holding}
    return Proposal(
        scope=scope,
        mode=Mode.ACT if all(policy.mode(each) is Mode.ACT for each in conditions) else Mode.PROPOSE,
        conditions=tuple(each for each in MENDS[scope] if each in conditions),
        reasons=tuple(each.sign.text for each in holding),
        changes=(),
        moves=0,
        bytes=0,
        leader_changes=0,
        undone=(),
        held_back=(),
    )


def order_of(change: PlannedChange) -> MoveOrder:
    """The order to the executor for a change."""
    log_dirs = tuple((each.broker, each.target) for each in change.log_dirs)
    tp = TopicPartition(change.topic, change.partition)
    return MoveOrder(tp, change.replicas, log_dirs=log_dirs, planned_from=change.original, elect=change.elect)


def copied(changes: Sequence[PlannedChange], sighting: Sighting) -> tuple[int, int]:
    """How many replicas a plan copies, to other brokers or within one, and their bytes."""
    sizes = sizes_of(sighting)
    new = [(each, len(set(each.replicas) - set(each.original))) for each in changes]
    across = sum(copies * sizes[TopicPartition(each.topic, each.partition)] for each, copies in new)
    within = [each.bytes for change in changes for each in change.log_dirs]
    return sum(copies for _, copies in new) + len(within), round(across) + sum(within)


def sizes_of(sighting: Sighting) -> dict[TopicPartition, float]:
    """Bytes of one replica of each partition."""
    sizes = sighting.load.sizes.tolist()
    partitions = sighting.inventory.partitions
    return {
        TopicPartition(each.topic, each.partition): KIB * size for each, size in zip(partitions, sizes, strict=True)
    }


def _too_short(holding: Sequence[Holding]) -> str:
    longest = max(holding, key=lambda each: each.minutes - each.wanted_minutes)
    known = (
        "this observation is the first that saw it"
        if longest.since_ms is None
        else f"it is known for {counted(longest.minutes, 'minute')}"
    )
    return f"{longest.sign.subject.condition.label} has to hold for {counted(longest.wanted_minutes, 'minute')}, and {known}"


class Made(NamedTuple):
    """The changes of a plan, and a sentence about everything that it leaves undone."""

    changes: tuple[PlannedChange, ...]
    undone: tuple[str, ...]
    least_bytes: int | None = None
    """No plan that reaches everything that was asked for copies fewer bytes; None: no bound is known."""


def planned(scope: Scope, sighting: Sighting, policy: KeeperPolicy, found: Sequence[Sign]) -> Made:
    """Plan for these signs, within the guard rails."""
    if _immovable(scope, found):
        return Made((), tuple(sign.text for sign in found))  # The texts say why nothing can be moved.
    return planned_for(request_for(scope, found, sighting, policy), sighting, policy)


def _immovable(scope: Scope, found: Sequence[Sign]) -> bool:
    """Whether nothing can be moved for these signs, because none names a broker that may give or take."""
    return scope in (Scope.DRAIN, Scope.REPLACE, Scope.FILL) and not any(sign.brokers for sign in found)


def planned_for(asked: PlanRequest, sighting: Sighting, policy: KeeperPolicy) -> Made:
    """Plan for a request, within the guard rails."""
    scope = asked.scope
    if scope is Scope.DISKS:
        replicas = {TopicPartition(each.topic, each.partition): each.replicas for each in sighting.inventory.partitions}
        return Made(*planned_log_dirs(asked, sighting.inventory.disks, replicas, *remaining(sighting, policy.rails)))
    load = load_for(scope, sighting, policy)
    request = _capped(asked, load, remaining(sighting, policy.rails))
    told: list[str] = []
    fenced = {broker.id for broker in sighting.inventory.fenced}
    while True:
        try:
            made = plan(load, request, fenced)
        except PlanRefused as error:
            return Made((), (str(error), *told))
        elected = made.elections()
        changes = [
            PlannedChange(
                each.topic,
                each.partition,
                tuple(each.replicas),
                tuple(each.original),
                elect=(each.topic, each.partition) in elected,
            )
            for each in made.assignments()
        ]
        staying = {at: why for at, each in enumerate(changes) if (why := _stays(each, scope, sighting, policy))}
        told += [f"{changes[at].topic}-{changes[at].partition} stays: {why}" for at, why in staying.items()]
        if scope is not Scope.REBALANCE or not staying:
            break
        # The rest of the plan relied on these changes, so plan anew without their topics.
        topics = {changes[at].topic for at in staying}
        request = replace(request, excluded_topics=tuple(sorted({*request.excluded_topics, *topics})))
    undone = [*(f"{each.what}: {each.why}" for each in made.undone), *made.notes]
    if scope is Scope.OFFLINE:  # The planner does not know what is being moved.
        others = sorted(
            {tp for tp, _move in external(sighting)}.difference(TopicPartition(e.topic, e.partition) for e in changes)
        )
        told += [f"{tp} stays: {_told_moved(tp, sighting)}" for tp in others]
    undone += [] if scope in ORDER_ALONE else told_unknown_throttles(sighting.inventory.untold_throttles)
    done = tuple(each for at, each in enumerate(changes) if at not in staying)
    if scope is Scope.FILLING_DISKS:
        return Made(done, (*_full_even_so(done, sighting, policy), *told, *undone))
    least = round(byte_bound(load, made.request, made.targets).size * KIB) if scope in _BOUNDED else None
    return Made(done, tuple(told + undone), least)


def _full_even_so(changes: Sequence[PlannedChange], sighting: Sighting, policy: KeeperPolicy) -> Iterator[str]:
    """Name the disks that would still be full too soon after a plan, and say what helps there."""
    days = policy.watches[Condition.DISK_RUNWAY].end
    for broker, found in sorted(filling(after(sighting, changes)).items()):
        if found.days < days and broker not in policy.rails.frozen_brokers:
            helps = "larger disks or another broker" + (", or less retention of these topics" if found.topics else "")
            yield f"the disks of broker {broker} stay {found.told}: what helps is {helps}"


def _capped(request: PlanRequest, load: ClusterLoad, allowed: Remaining) -> PlanRequest:
    total = float((load.sizes * load.replication).sum()) * KIB
    if allowed.bytes is None or total <= 0:
        return replace(request, max_moves=allowed.moves)
    # The planner rounds a cap up by a part in 10^12, so take that off. Less than a byte is lost, and sizes are whole.
    percent = 100 * allowed.bytes / total * (1 - 0.995e-12)
    return replace(request, max_moves=allowed.moves, max_bytes_percent=percent)


def _stays(change: PlannedChange, scope: Scope, sighting: Sighting, policy: KeeperPolicy) -> str:
    """Why a partition is left out of a plan; "": it is not."""
    frozen = _frozen_broker(change, policy)
    if frozen is not None:
        return f"broker {frozen} is frozen"
    tp = TopicPartition(change.topic, change.partition)
    if scope is Scope.OFFLINE and tp in sighting.check_up.ongoing:
        return _told_moved(tp, sighting)
    if scope is not Scope.REBALANCE:
        return ""
    lately = sighting.at_ms - policy.rails.no_return_minutes * MINUTE_MS
    for past in sighting.past or ():
        if past.ended_at_ms is None or past.ended_at_ms > lately:
            for broker in sorted(set(change.replicas) - set(change.original)):
                if (tp, broker) in past.balanced_away:
                    return f"an earlier balance took it from broker {broker}, and this one would bring it back"
    return ""


def _told_moved(tp: TopicPartition, sighting: Sighting) -> str:
    """Why a partition is left out that is being moved."""
    why = no_end(sighting, tp, sighting.check_up.ongoing[tp])
    return f"another tool moves it, and {why}" if why else "it is being moved"


def _frozen_broker(change: PlannedChange, policy: KeeperPolicy) -> int | None:
    """A frozen broker that a change would touch: give a replica or leadership to, or take it from. None: none."""
    moved = set(change.replicas) ^ set(change.original)
    if change.replicas[0] != change.original[0]:
        moved |= {change.replicas[0], change.original[0]}
    return min(moved & set(policy.rails.frozen_brokers), default=None)


def undone_next(
    changes: Sequence[PlannedChange], sighting: Sighting, policy: KeeperPolicy, subjects: Sequence[Subject]
) -> dict[TopicPartition, str]:
    """Judge the cluster as it would be after a plan; the partitions whose change the next plan would take back, and why.

    Pre: the sighting is in order, and no partition is being moved.
    """
    back: dict[TopicPartition, str] = {}
    changed = {TopicPartition(each.topic, each.partition): each for each in changes}
    later = after(sighting, changes)
    found = [each for each in signs(later, policy, subjects) if policy.proposes(each.subject.condition)]
    for scope in scopes_of([sign.subject.condition for sign in found]):
        if held_by_word(scope, policy.rails, later.at_ms):
            continue
        # A plan within brokers moves no replica to another broker, and only another such plan can undo it.
        if (scope is Scope.DISKS) is not any(each.log_dirs for each in changes):
            continue
        own = [sign for sign in found if sign.subject.condition in MENDS[scope]]
        for change in planned(scope, later, policy, own).changes:
            tp = TopicPartition(change.topic, change.partition)
            if tp in changed and _takes_back(changed[tp], change):
                told = f"the next observation would undo it by scope {scope.value}: {_told_return(changed[tp], change)}"
                back.setdefault(tp, told)
    return back


def _told_return(first: PlannedChange, second: PlannedChange) -> str:
    tp = TopicPartition(first.topic, first.partition)
    if second.log_dirs:
        return f"{tp} would go to another log dir and back"
    return f"{tp} would go from {[*first.original]} to {[*second.original]} and on to {[*second.replicas]}"


def _takes_back(first: PlannedChange, second: PlannedChange) -> bool:
    """Whether the second change brings back a replica or a preferred leader that the first took away, or the reverse."""
    left = {(each.broker, each.original) for each in first.log_dirs}
    if left & {(each.broker, each.target) for each in second.log_dirs}:
        return True
    returned = set(second.replicas) & (set(first.original) - set(first.replicas))
    grown = len(first.replicas) > len(first.original) > 0
    dropped = (set(first.replicas) - set(first.original)) - set(second.replicas) if grown else set[int]()
    led = first.original[0] != first.replicas[0] and second.replicas[0] == first.original[0]
    return bool(returned or (dropped and len(second.replicas) < len(first.replicas)) or led)
