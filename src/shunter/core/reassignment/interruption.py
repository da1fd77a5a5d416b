"""How a move that is under way is interrupted: stop, rollback, and another target for the same partition."""

from __future__ import annotations

from shunter.core.reassignment.situation import Situation, Step, Waiting, WaitReason
from shunter.core.reassignment.steps import (
    affordable,
    healthy_originals,
    next_step,
    one_at_a_time,
    waiting_for_a_leader,
)
from shunter.model.partition import NO_LEADER, BrokerId, ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy


def stop(situation: Situation, *, original: Replicas) -> Step:
    """End a move where it stands: additions in sync stay, those out of sync go, nothing else changes.

    A stop never waits. It never changes the leader, because a leader is in sync and so it stays.

    Source: KIP-455 (draft), "Cancellation": "This is not a revert."
    """
    adding = situation.assignment.adding
    dropped = tuple(
        broker
        for broker in situation.replicas
        if broker not in situation.isr and (broker in adding or broker not in original)
    )
    # If no replica is in sync any more, it is not known which replica has the records: then all replicas stay.
    return _without(situation, dropped if set(situation.isr).intersection(situation.replicas) else (), final=True)


def roll_back(situation: Situation, *, original: Replicas) -> Step | Waiting | None:
    """Choose the next step back to the original replicas, in their ORDER; None when they are reached.

    Additions out of sync go at once. Additions in sync go as soon as the originals alone are as safe as if the move had
    never begun. That is at once, unless originals were dropped meanwhile: these are fetched again one by one, and
    additions stand in for them. No addition in sync goes while fewer originals can be in sync than min.insync.replicas
    asks for (at least one); the `Waiting` names the brokers. Never unclean, never leaderless (KAFKA-14424).

    Source: KIP-236, "it's like the opposite of doing reassignments"; docs/decisions/0104-rollback.md.
    """
    if not situation.in_sync:
        return waiting_for_a_leader(situation)
    need = max(1, min(situation.min_isr, len(original)))
    healthy = healthy_originals(situation, original)
    everything = len(situation.replicas)
    floor = healthy if healthy >= need else everything
    decided = one_at_a_time(situation, original, original, limit=everything, floor=floor, blocked=WaitReason.ORIGINALS)
    if isinstance(decided, Waiting) and decided.reason is WaitReason.ORIGINALS:
        return decided._replace(need=need)
    return decided


def drop_set(assigned: Replicas, isr: Replicas, leader: BrokerId, top: int, *, wanted: Replicas = ()) -> Replicas:
    """The replicas that a changed reassignment lets go of at once, in assignment order.

    KIP-236 keeps `existing[0:top-1]`, read as inclusive: the first `top` of leader, ISR, then the rest. Replicas of the
    new target stay too. The leader always stays, since it is the first (KAFKA-14808), even for a `top` below 1.

    Args:
        assigned: Current replicas, additions included.
        isr: In-sync replicas.
        leader: The leader; -1: there is none.
        top: Number of original replicas.
        wanted: The new target.

    Source: KIP-236, "Change to the KafkaController.onPartitionReassignment() algorithm".
    """
    ranked = (leader, *isr, *assigned)
    existing = tuple(broker for broker in dict.fromkeys(ranked) if broker in assigned)
    kept = existing[: max(1, top)]
    return tuple(broker for broker in assigned if broker not in kept and broker not in wanted)


def supersede(situation: Situation, *, original: Replicas, new_target: Replicas, top: int, strategy: Strategy) -> Step:
    """Turn a moving partition towards another target in one write: KIP-236's "cancel / rollback", then submit.

    The drop set says which additions go that the new target doesn't want. An addition that both targets want goes on
    being copied. If the first step towards the new target need not wait, it is part of the same write. The drop set
    never takes originals away: a rollback of an all-at-once move would have to fetch them again. The floor is that of
    a rollback, but no more than the new target's size: as many live in-sync replicas stay as there were at first.

    Source: KIP-236, `/admin/reassign_partitions_extra`, "conflict resolution"; docs/decisions/0105-supersede.md.
    """
    # KIP-236 expects the originals first and the additions behind. Apache's controller writes the target first.
    ranked = tuple(sorted(situation.replicas, key=lambda broker: broker not in original))
    unwanted = drop_set(ranked, situation.isr, situation.leader, top, wanted=new_target)
    additions = tuple(broker for broker in unwanted if broker not in original)
    dropped = affordable(situation, additions, min(len(new_target), top))
    turned = _without(situation, dropped, final=False)
    following = next_step(situation.after(turned), original=original, target=new_target, strategy=strategy)
    if isinstance(following, Step):
        return following._replace(dropped=dropped + following.dropped)
    return turned._replace(final=following is None)


def _without(situation: Situation, dropped: Replicas, *, final: bool) -> Step:
    """The same leader and order, without `dropped`, none of which leads or is the last in sync."""
    assignment = situation.assignment
    replicas = tuple(broker for broker in assignment.replicas if broker not in dropped)
    adding = () if final else tuple(broker for broker in assignment.adding if broker in replicas)
    isr = tuple(broker for broker in situation.isr if broker in replicas)
    leader = situation.leader if situation.leader in isr else NO_LEADER
    return Step(dropped, (), ReplicaAssignment(replicas, adding), isr, leader, final)
