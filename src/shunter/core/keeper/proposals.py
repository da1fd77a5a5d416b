"""Proposals: what the planner would do about the conditions that hold, and whether the next look would undo it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shunter.core.keeper.guards import held_back, remaining
from shunter.core.keeper.memory import MINUTE_MS, Holding
from shunter.core.keeper.requests import MENDS, load_for, request_for, scopes_of
from shunter.core.keeper.sighting import KIB, Sighting, after
from shunter.core.keeper.sign import Sign
from shunter.core.keeper.signs import signs
from shunter.core.planning.balance import plan
from shunter.core.planning.moves import Assigned
from shunter.core.planning.request import PlanRefused, PlanRequest, Scope
from shunter.model.keeper import Condition, KeeperPolicy, Mode, Subject
from shunter.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would mend some conditions. Without `changes` the planner finds nothing, and `undone` says why."""

    scope: Scope
    mode: Mode
    conditions: tuple[Condition, ...]
    reasons: tuple[str, ...]
    changes: tuple[Assigned, ...]
    """By topic and partition."""
    moves: int
    """Replicas that are copied."""
    bytes: int
    leader_changes: int
    undone: tuple[str, ...]
    held_back: tuple[str, ...]
    """Why it may not be begun now, a sentence each."""

    @property
    def ready(self) -> bool:
        """Whether it may be begun now."""
        return bool(self.changes) and not self.held_back


def propose(sighting: Sighting, policy: KeeperPolicy, holding: Sequence[Holding]) -> tuple[Proposal, ...]:
    """Propose a plan for each scope that mends something, the most urgent first; at most one of them is ready."""
    asking = [each for each in holding if policy.proposes(each.sign.subject.condition)]
    found: list[Proposal] = []
    for scope in scopes_of([each.sign.subject.condition for each in asking]):
        made = _proposal(
            scope, sighting, policy, [each for each in asking if each.sign.subject.condition in MENDS[scope]]
        )
        first = next((each for each in found if each.ready), None)
        if first is not None and made.changes:
            told = (
                f"the proposal of scope {first.scope.value} comes first; this one is planned anew from what that leaves"
            )
            made = replace(made, held_back=(*made.held_back, told))
        elif made.ready and scope is not Scope.OFFLINE:
            subjects = [each.sign.subject for each in holding]
            made = replace(made, held_back=tuple(undone_next(made.changes, sighting, policy, subjects)))
        found.append(made)
    return tuple(found)


def _proposal(scope: Scope, sighting: Sighting, policy: KeeperPolicy, holding: Sequence[Holding]) -> Proposal:
    lasted = [each for each in holding if each.lasted]
    chosen = lasted or holding
    changes, undone = planned(scope, sighting, policy, [each.sign for each in chosen])
    new = [(each, len(set(each.replicas) - set(each.original))) for each in changes]
    sizes = sizes_of(sighting)
    conditions = {each.sign.subject.condition for each in chosen}
    return Proposal(
        scope=scope,
        mode=Mode.ACT if all(policy.mode(each) is Mode.ACT for each in conditions) else Mode.PROPOSE,
        conditions=tuple(each for each in MENDS[scope] if each in conditions),
        reasons=tuple(each.sign.text for each in chosen),
        changes=changes,
        moves=sum(copies for _, copies in new),
        bytes=round(sum(copies * sizes[TopicPartition(each.topic, each.partition)] for each, copies in new)),
        leader_changes=sum(each.replicas[0] != each.original[0] for each in changes),
        undone=undone,
        held_back=(*(() if lasted else (_too_short(holding),)), *held_back(sighting, scope, policy)),
    )


def sizes_of(sighting: Sighting) -> dict[TopicPartition, float]:
    """Bytes of one replica of each partition."""
    sizes = sighting.load.sizes.tolist()
    partitions = sighting.inventory.partitions
    return {
        TopicPartition(each.topic, each.partition): KIB * size for each, size in zip(partitions, sizes, strict=True)
    }


def _too_short(holding: Sequence[Holding]) -> str:
    longest = max(holding, key=lambda each: each.minutes - each.wanted_minutes)
    known = "this look is the first that saw it" if longest.since_ms is None else f"it is known for {longest.minutes}"
    return f"{longest.sign.subject.condition.value} has to hold for {longest.wanted_minutes} minutes, and {known}"


def planned(
    scope: Scope, sighting: Sighting, policy: KeeperPolicy, found: Sequence[Sign]
) -> tuple[tuple[Assigned, ...], tuple[str, ...]]:
    """What the planner changes within the guard rails, and what it leaves undone, a sentence each."""
    return planned_for(request_for(scope, found, sighting, policy), sighting, policy)


def planned_for(
    asked: PlanRequest, sighting: Sighting, policy: KeeperPolicy
) -> tuple[tuple[Assigned, ...], tuple[str, ...]]:
    """The same for a request."""
    scope = asked.scope
    load = load_for(scope, sighting, policy)
    request = _capped(asked, sighting, policy)
    told: list[str] = []
    while True:
        try:
            made = plan(load, request)
        except PlanRefused as error:
            return (), (str(error), *told)
        changes = made.assignments()
        staying = {at: why for at, each in enumerate(changes) if (why := _stays(each, scope, sighting, policy))}
        told += [f"{changes[at].topic}-{changes[at].partition} stays: {why}" for at, why in staying.items()]
        if scope is not Scope.REBALANCE or not staying:
            break
        # The rest of this plan counted on these moves: it is planned anew without their topics.
        topics = {changes[at].topic for at in staying}
        request = replace(request, excluded_topics=tuple(sorted({*request.excluded_topics, *topics})))
    undone = [f"{each.what}: {each.why}" for each in made.undone]
    return tuple(each for at, each in enumerate(changes) if at not in staying), tuple(told + undone)


def _capped(request: PlanRequest, sighting: Sighting, policy: KeeperPolicy) -> PlanRequest:
    allowed = remaining(sighting, policy.rails)
    total = float((sighting.load.sizes * sighting.load.replication).sum()) * KIB
    if allowed.bytes is None or total <= 0:
        return replace(request, max_moves=allowed.moves)
    # The planner rounds a cap up by a part in 10^12. What is left of that is less than a byte, and sizes are whole bytes.
    percent = 100 * allowed.bytes / total * (1 - 0.995e-12)
    return replace(request, max_moves=allowed.moves, max_bytes_percent=percent)


def _stays(change: Assigned, scope: Scope, sighting: Sighting, policy: KeeperPolicy) -> str:
    """Why a partition is left out of a plan; "": it is not."""
    frozen = _frozen_broker(change, policy)
    if frozen is not None:
        return f"broker {frozen} is frozen"
    if scope is not Scope.REBALANCE:
        return ""
    tp = TopicPartition(change.topic, change.partition)
    lately = sighting.at_ms - policy.rails.no_return_minutes * MINUTE_MS
    for past in sighting.past or ():
        if past.ended_at_ms is None or past.ended_at_ms > lately:
            for broker in sorted(set(change.replicas) - set(change.original)):
                if (tp, broker) in past.balanced_away:
                    return f"an earlier balance took it from broker {broker}, and this one would bring it back"
    return ""


def _frozen_broker(change: Assigned, policy: KeeperPolicy) -> int | None:
    """A frozen broker that a change would give something or take something from; None: there is none."""
    moved = set(change.replicas) ^ set(change.original)
    if change.replicas[0] != change.original[0]:
        moved |= {change.replicas[0], change.original[0]}
    return min(moved & set(policy.rails.frozen_brokers), default=None)


def undone_next(
    changes: Sequence[Assigned], sighting: Sighting, policy: KeeperPolicy, subjects: Sequence[Subject]
) -> Iterator[str]:
    """Look at the cluster as it would be, and see whether anything of a plan would be taken back.

    Pre: the sighting is in order, and no partition is being moved.
    """
    changed = {TopicPartition(each.topic, each.partition): each for each in changes}
    later = after(sighting, changes)
    found = [each for each in signs(later, policy, subjects) if policy.proposes(each.subject.condition)]
    for scope in scopes_of([sign.subject.condition for sign in found]):
        own = [sign for sign in found if sign.subject.condition in MENDS[scope]]
        for change in planned(scope, later, policy, own)[0]:
            tp = TopicPartition(change.topic, change.partition)
            if tp in changed and _takes_back(changed[tp], change):
                told = f"{tp} would go from {changed[tp].original} to {change.original} and on to {change.replicas}"
                yield f"the next look would undo it by scope {scope.value}: {told}"
                return


def _takes_back(first: Assigned, second: Assigned) -> bool:
    """Whether the second change brings back a replica or a preferred leader that the first took away, or the reverse."""
    returned = set(second.replicas) & (set(first.original) - set(first.replicas))
    grown = len(first.replicas) > len(first.original) > 0
    dropped = (set(first.replicas) - set(first.original)) - set(second.replicas) if grown else set[int]()
    led = first.original[0] != first.replicas[0] and second.replicas[0] == first.original[0]
    return bool(returned or (dropped and len(second.replicas) < len(first.replicas)) or led)
