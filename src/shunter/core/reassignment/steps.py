"""The way to a target: one replica at a time (KAFKA-6794), or all at once (KIP-455), never below the floor."""

from __future__ import annotations

from shunter.core.election import elect_for_reassignment
from shunter.core.reassignment.situation import Situation, Step, Waiting, WaitReason
from shunter.model.partition import NO_LEADER, BrokerId, ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy


def next_step(
    situation: Situation, *, original: Replicas, target: Replicas, strategy: Strategy, relaxed: bool = False
) -> Step | Waiting | None:
    """Choose the next step towards the target; None when it is reached and nothing is left to be written.

    A move waits for three things only: a leader, a new replica that has to catch up (or whose broker is dead), and the
    floor. With the incremental strategy at most one new replica catches up at a time, so a move asks one broker for
    one copy, whichever other brokers are dead.

    Args:
        situation: The partition as it stands now.
        original: Replicas before the partition's first reassignment, in order.
        target: Where it shall be (FTR), in order; not empty, no repeats.
        strategy: One replica at a time, or all together with the originals kept to the end.
        relaxed: The floor is relaxed (`reassignment.relax-after` has passed, or the operator said so).

    Source: KAFKA-6794, "Calculating A Reassignment Step"; docs/decisions/0101-steps.md and 0102-floor.md.
    Cost: O(replicas²), a handful.
    """
    if not situation.in_sync:
        return waiting_for_a_leader(situation)
    floor = relaxed_floor(situation, original, target) if relaxed else len(target)
    if strategy is Strategy.ALL_AT_ONCE:
        return _all_at_once(situation, original, target, floor)
    limit = max(0, len(situation.replicas) - len(target))
    return one_at_a_time(situation, original, target, limit=limit, floor=floor, blocked=WaitReason.FLOOR)


def relaxed_floor(situation: Situation, original: Replicas, target: Replicas) -> int:
    """How many live in-sync replicas must stay once the floor is relaxed; at least 1, at most size(target).

    Source: docs/decisions/0102-floor.md.
    """
    return min(len(target), max(1, situation.min_isr, healthy_originals(situation, original)))


def healthy_originals(situation: Situation, original: Replicas) -> int:
    """How many replicas the original set would have in sync now, had the move never begun.

    An original that was dropped, or is being fetched again, would be in sync if its broker is live.
    """
    moved = [broker for broker in original if broker not in situation.replicas or broker in situation.assignment.adding]
    return sum(broker in situation.in_sync or (broker in moved and broker in situation.live) for broker in original)


def one_at_a_time(
    situation: Situation, original: Replicas, target: Replicas, *, limit: int, floor: int, blocked: WaitReason
) -> Step | Waiting | None:
    """Drop up to `limit` excess replicas as far as `floor` allows, and add one replica on a live broker.

    Pre: at least one replica is live and in sync. `blocked` is the reason to give when only the floor is in the way.
    """
    pending = _pending(situation, original, target)
    missing = tuple(broker for broker in target if broker not in situation.replicas)
    excess = excess_replicas(situation, target)
    if (pending or missing) and len(situation.in_sync) < floor:
        # A replica that is down or behind may only be restarting, and Kafka counts no addition as under-replicated.
        excess = tuple(broker for broker in excess if broker in situation.assignment.adding)
    dropped = affordable(situation, excess[:limit], floor)
    fetching = tuple(broker for broker in pending if broker in situation.live)
    added = () if fetching else tuple(broker for broker in missing if broker in situation.live)[:1]
    replicas = tuple(broker for broker in situation.replicas if broker not in dropped) + added
    reached = set(replicas) == set(target)
    assignment = ReplicaAssignment(target if reached else replicas, pending + added)
    final = reached and not assignment.adding
    if assignment.replicas != situation.replicas or (final and situation.assignment.in_motion):
        return _step(situation, assignment, target, dropped, added, final=final)
    if final:
        return None
    if fetching:
        return Waiting(WaitReason.CATCHING_UP, fetching)
    if pending or missing:
        return Waiting(WaitReason.DEAD, tuple(broker for broker in target if broker in pending + missing))
    return _waiting_for_health(situation, target, floor, blocked)


def excess_replicas(situation: Situation, target: Replicas) -> Replicas:
    """Replicas that the target doesn't want (ER), first to go first: not live, out of sync, in order, the leader.

    Source: KAFKA-6794, "Sort the ER set in an order where the leader is the last"; docs/decisions/0101-steps.md.
    """

    def urgency(broker: BrokerId) -> tuple[bool, bool, bool]:
        return (broker == situation.serving_leader, broker in situation.in_sync, broker in situation.live)

    return tuple(sorted((broker for broker in situation.replicas if broker not in target), key=urgency))


def affordable(situation: Situation, candidates: Replicas, floor: int) -> Replicas:
    """The candidates that can go, from the front. A replica that is dead or out of sync always can."""
    spare = len(situation.in_sync) - floor
    in_sync = tuple(broker for broker in candidates if broker in situation.in_sync)
    kept = in_sync[max(0, spare) :]
    return tuple(broker for broker in candidates if broker not in kept)


def _pending(situation: Situation, original: Replicas, target: Replicas) -> Replicas:
    """Wanted replicas that this move has added and that are not in sync yet (or any more), in order."""
    return tuple(
        broker
        for broker in situation.replicas
        if broker in target
        and broker not in situation.isr
        and (broker in situation.assignment.adding or broker not in original)
    )


def _all_at_once(situation: Situation, original: Replicas, target: Replicas, floor: int) -> Step | Waiting | None:
    """KIP-455: all replicas are added in one write, and the originals go in another when the target is in sync.

    The order is the target's, then the removing replicas. Apache reads the target as the replicas without the removing
    ones, so its controller would finish in the right order.
    """
    excess = excess_replicas(situation, target)
    added = tuple(broker for broker in target if broker not in situation.replicas)
    pending = _pending(situation, original, target)
    adding = tuple(
        broker
        for broker in target
        if broker in added or broker not in original or broker in situation.assignment.adding
    )
    in_sync = sum(broker in situation.in_sync for broker in target)
    if not added and (in_sync >= floor if excess else not pending):
        assignment = ReplicaAssignment(target, adding if pending else ())
        if assignment == situation.assignment:
            return None
        return _step(situation, assignment, target, excess, (), final=not pending)
    leaving = tuple(broker for broker in situation.replicas if broker not in target)
    assignment = ReplicaAssignment(target + leaving, adding, leaving)
    if assignment != situation.assignment:
        return _step(situation, assignment, target, (), added, final=False)
    fetching = tuple(broker for broker in pending if broker in situation.live)
    if fetching:
        return Waiting(WaitReason.CATCHING_UP, fetching)
    if pending:
        return Waiting(WaitReason.DEAD, pending)
    return _waiting_for_health(situation, target, floor, WaitReason.FLOOR)


def _step(
    situation: Situation,
    assignment: ReplicaAssignment,
    target: Replicas,
    dropped: Replicas,
    added: Replicas,
    *,
    final: bool,
) -> Step:
    """The write that makes `assignment` true, with a leader for it."""
    isr = tuple(broker for broker in situation.isr if broker in assignment.replicas and broker not in added)
    leader = situation.serving_leader
    if leader in dropped or leader == NO_LEADER:
        # The target's order first: then the new leader need not be replaced when the last original goes.
        elected = elect_for_reassignment(target + assignment.replicas, isr, situation.live)
        assert elected is not None, "a step that leaves nobody in sync must not have been chosen"
        leader = elected.leader
    return Step(dropped, added, assignment, isr, leader, final)


def waiting_for_a_leader(situation: Situation) -> Waiting:
    """No replica in sync is live: name the replicas that were in sync last, or all of them if that is not known."""
    last = tuple(broker for broker in situation.replicas if broker in situation.isr)
    return Waiting(WaitReason.NO_LEADER, last or situation.replicas)


def _waiting_for_health(situation: Situation, target: Replicas, need: int, reason: WaitReason) -> Waiting:
    """Only live in-sync replicas are missing: name the members of the target that are not."""
    unhealthy = tuple(broker for broker in target if broker not in situation.in_sync)
    return Waiting(reason, unhealthy, have=len(target) - len(unhealthy), need=need)
