"""Chooses the next step of one move, for a controller that carries out each step by itself.

Apache's controllers keep the replicas that a step removes until every replica that stays is in sync. So the floor holds
within a step by itself, but a step never ends while a replica that stays is out of sync. Steps therefore leave out
replicas that are unhealthy and not wanted in the end. Once the floor is relaxed, they leave out all unhealthy replicas;
wanted ones are added again later.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from shunter.core.executor.state import CurrentStep, Move
from shunter.core.reassignment import Situation, Waiting, WaitReason, describe_waiting, next_step, roll_back
from shunter.core.wording import told_brokers
from shunter.errors import InvariantViolation
from shunter.model.execution import Direction, ObservedPartition
from shunter.model.partition import NO_LEADER, BrokerId, ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy


class Begin(NamedTuple):
    """Begin a step: ask for exactly `after`, or cancel by null (`cancels`), which must lead to the same replicas."""

    before: Replicas
    after: Replicas
    reason: str
    cancels: bool = False


class Reached(NamedTuple):
    """Nothing is left to be done. The partition has these replicas. `sick`: additions out of sync that a stop leaves."""

    replicas: Replicas
    sick: Replicas = ()


class Waits(NamedTuple):
    """Nothing can be done now, for this reason, until `missing` of `brokers` are live and in sync."""

    reason: str
    brokers: Replicas
    missing: int


Choice: TypeAlias = Begin | Reached | Waits


def choose(
    move: Move,
    seen: ObservedPartition,
    live: frozenset[BrokerId],
    min_isr: int,
    *,
    closed: frozenset[BrokerId] = frozenset(),
) -> Choice:
    """Choose what a move without a step under way does next.

    Args:
        move: An open move whose `step` is None.
        seen: The partition as last seen; no reassignment of it is under way.
        live: Brokers that are up.
        min_isr: The topic's min.insync.replicas.
        closed: Brokers that Kafka takes in no target (`ExecutorState.closed`). If the goal names none, nor do the steps.
    """
    if move.order and set(move.order) == set(seen.replicas) and move.order != seen.replicas:
        return Begin(seen.replicas, move.order, "a cancel did not keep the order of replicas")
    if move.direction is Direction.STOP:
        return _stop(move, seen, live, closed)
    if seen.replicas == move.goal:
        return Reached(seen.replicas)
    if move.direction is Direction.FORWARD and move.strategy is Strategy.ALL_AT_ONCE:
        return _all_at_once(move, seen, live)
    situation = _situation(seen, live, min_isr)
    if move.direction is Direction.BACK:
        decided = roll_back(situation, original=move.original)
    else:
        decided = next_step(
            situation, original=move.original, target=move.target, strategy=Strategy.INCREMENTAL, relaxed=move.relaxed
        )
    if decided is None:
        return Reached(seen.replicas)
    if isinstance(decided, Waiting):
        failed = tuple(broker for broker in decided.brokers if broker in live and broker in seen.offline)
        return Waits(describe_waiting(decided._replace(failed=failed)), decided.brokers, _missing(decided))
    after = _folded_if_safe(decided.replicas, move.goal, seen, live, min_isr)
    if closed.isdisjoint(move.goal) and not closed.isdisjoint(after):
        return _all_at_once(move, seen, live)
    if set(after) != set(seen.replicas):  # A change of the order alone needs no replica in sync.
        after = completable(move, after, seen, live, min_isr)
    if after == seen.replicas:
        return _waits_for_health(seen, live)
    return Begin(seen.replicas, after, _reason(move, seen.replicas, after))


def _stop(move: Move, seen: ObservedPartition, live: frozenset[BrokerId], closed: frozenset[BrokerId]) -> Choice:
    """Additions in sync stay. The others go if all original replicas are there and in sync."""
    sick = tuple(each for each in seen.replicas if each not in move.original and not _healthy(each, seen, live))
    after = tuple(broker for broker in seen.replicas if broker not in sick)
    whole = all(broker in seen.replicas and _healthy(broker, seen, live) for broker in move.original)
    if sick and whole and closed.isdisjoint(after):
        return Begin(seen.replicas, after, _reason(move, seen.replicas, after))
    return Reached(seen.replicas, sick)


STEPS_AT_MOST = 1_000
"""No move has more steps, because each step adds or drops a replica, or writes the order."""


def needed(before: Replicas, after: Replicas, *, needs_all: bool) -> Replicas:
    """The replicas that have to be in sync before the cluster ends a step.

    That are all if the step makes the set smaller. Otherwise controllers from Kafka 4.3 on need those that are added
    alone; older ones need all (`needs_all`). A change of the order alone needs none.

    Source: KAFKA-19975; tried on Kafka 4.1.0, 4.2.2, 4.3.1 and 4.4.0.
    """
    if set(after) == set(before):
        return ()
    return after if needs_all or len(after) < len(before) else tuple(broker for broker in after if broker not in before)


def needed_by(step: CurrentStep, *, needs_all: bool) -> Replicas:
    """The replicas without which the cluster does not end a step that it may have.

    The cluster may count the replicas of a step that took another one's place from there, so it may need all.
    """
    return step.after if step.redirected_from else needed(step.before, step.after, needs_all=needs_all)


def ahead(
    move: Move,
    replicas: Replicas,
    live: frozenset[BrokerId],
    min_isr: int = 1,
    *,
    needs_all: bool = False,
    closed: frozenset[BrokerId] = frozenset(),
    leader: BrokerId = NO_LEADER,
) -> tuple[tuple[Begin, ...], Waits | None]:
    """The steps that an open move has before it, and what it would wait for in the last (None: it reaches its goal).

    This assumes that dead brokers stay dead, and that every live replica is in sync before the next step. A step that
    the cluster can't end without a dead broker is the last.

    Args:
        move: An open move; its direction says where it heads.
        replicas: The partition's replicas when the step under way, if there is one, has ended.
        live: Brokers that are up.
        min_isr: The live in-sync replicas that have to stay at the least.
        needs_all: See `needed`.
        closed: See `choose`.
        leader: Who leads now; NO_LEADER: the first live replica does.

    Raises:
        InvariantViolation: the steps would not end.
    """
    steps: list[Begin] = []
    for _ in range(STEPS_AT_MOST):
        isr = tuple(broker for broker in replicas if broker in live)
        leader = leader if leader in isr else isr[0] if isr else NO_LEADER
        seen = ObservedPartition(replicas, isr, leader)
        chosen = choose(move, seen, live, min_isr, closed=closed)
        if not isinstance(chosen, Begin):
            return tuple(steps), chosen if isinstance(chosen, Waits) else None
        # Each step but the last adds or drops a replica, and no later step undoes that. So the loop ends.
        steps.append(chosen)
        if dead := tuple(
            broker for broker in needed(replicas, chosen.after, needs_all=needs_all) if broker not in live
        ):
            told = f"a step to {list(chosen.after)} needs {told_brokers(dead)} in sync"
            return tuple(steps), Waits(told, dead, len(dead))
        replicas = chosen.after
    raise InvariantViolation("the steps of a move end", tp=move.tp, replicas=replicas, goal=move.goal)


def folded(after: Replicas, goal: Replicas) -> Replicas:
    """Fold the step that adds the last new replica and the last step, which only drops and orders, into one request.

    So the folded step does the same as the two: one copy at a time, and a rollback before the end is as cheap. It saves
    each partition a round through the controller, a leader epoch and a journal entry. Controllers from Kafka 4.3 on end
    it beside a replica that stays and is dead (see `needed`): then the floor is the relaxed one.
    """
    return goal if set(goal) <= set(after) else after


def _folded_if_safe(
    after: Replicas, goal: Replicas, seen: ObservedPartition, live: frozenset[BrokerId], min_isr: int
) -> Replicas:
    """`folded`, unless that could end with fewer in sync than min.insync.replicas, now or if one more replica dies.

    A step of its own that drops ends only when all that stay are in sync.
    """
    stay = tuple(broker for broker in goal if broker in seen.replicas)
    able = len(goal) - sum(not _healthy(broker, seen, live) for broker in stay)
    thin = able < min(min_isr, len(goal)) or (bool(stay) and len(goal) <= min_isr)
    return after if thin else folded(after, goal)


def undo(
    move: Move,
    seen: ObservedPartition,
    live: frozenset[BrokerId],
    min_isr: int,
    *,
    running: bool = True,
    put_off: bool = False,
    closed: frozenset[BrokerId] = frozenset(),
) -> Begin | Waits | None:
    """Decide about a step that was under way when its move was turned; None: let it finish.

    A stop keeps additions that are in sync (KIP-455's draft). A rollback or another target keeps the additions that its
    goal contains, in sync or not, so that no replica is deleted and fetched again (KIP-236). A stop by force gives up
    additions in sync too, if the step that brought them can't end now.

    `running`: the cluster has the step. `put_off`: the move is paused and goes on later, so its step is undone as by a
    stop. `closed`: brokers that Kafka takes in no target (`ExecutorState.closed`); a cancel names none.
    """
    step = move.step
    assert step is not None
    stops = put_off or move.direction is Direction.STOP
    kept = tuple(broker for broker in step.adding if broker in (seen.isr if stops else move.goal))
    if move.forced and stops and not step.cancels and _in_sync(step.after, seen, live) != step.after:
        return cancel_step(step, seen, live, min_isr, _turned(move), running=running)
    regretted = not stops and _regretted(move, seen, live, running=running)
    additions_stay = kept == step.adding and (bool(kept) or step.after == step.before)
    if additions_stay and not regretted:
        return None
    after = step.before + kept
    if regretted:
        after = completable(move, _folded_if_safe(after, move.goal, seen, live, min_isr), seen, live, min_isr)
    if after == step.after and not step.cancels:
        return None
    why = "put off: paused" if put_off else _turned(move)
    # A step to `after` ends only when all replicas that it keeps are in sync.
    staying = tuple(broker for broker in after if broker not in step.adding)
    can_end = _in_sync(staying, seen, live) == staying
    # If the step has just ended and nothing shows that yet, a cancel has no effect, but another target would copy
    # replicas back, only for a pause.
    cancel_is_enough = (put_off and not kept) or ((put_off or not kept) and not closed.isdisjoint(after))
    redirects = not cancel_is_enough and not _drops_go_on(step, after, running=running)
    # A cancel would delete additions that the goal contains.
    if redirects and (can_end or (regretted and bool(kept))):
        return Begin(step.before, after, why)
    if kept and not stops:
        return None
    return cancel_step(step, seen, live, min_isr, why, running=running)


def _drops_go_on(step: CurrentStep, after: Replicas, *, running: bool) -> bool:
    """Whether the cluster would still drop what the step drops if it was asked for `after` in its place.

    Apache's KRaft controller goes on dropping what the former request dropped, unless the new request drops some too.
    """
    drops = not set(step.before) <= set(step.after)
    return running and drops and set(step.before + step.adding) <= set(after)


def cancel_step(
    step: CurrentStep,
    seen: ObservedPartition,
    live: frozenset[BrokerId],
    min_isr: int,
    why: str,
    *,
    running: bool = True,
) -> Begin | Waits | None:
    """Cancel a step by null, as soon as the replicas before it are enough without its additions, if these can still come.

    None: the step, or the one before it, has ended, because the partition no longer has the former replicas. The step
    is asked for again.
    """
    healthy = _in_sync(step.before, seen, live)
    # Additions that are out of sync and can't come give nothing up.
    worth = any(broker in seen.isr or may_come(broker, seen, live) for broker in step.adding)
    need = max(1, min(min_isr, len(step.before))) if worth else 1
    if len(healthy) >= need:
        return Begin(step.before, step.before, why, cancels=True)
    if not running and set(seen.replicas) != set(step.before):
        return None
    return Waits(
        f"waits: only {len(healthy)} of the replicas {list(step.before)} are live and in sync and {need} must be; "
        "the additions stay until then",
        tuple(broker for broker in step.before if broker not in healthy),
        need - len(healthy),
    )


def _in_sync(brokers: Replicas, seen: ObservedPartition, live: frozenset[BrokerId]) -> Replicas:
    return tuple(broker for broker in brokers if broker in seen.isr and broker in live)


def _regretted(move: Move, seen: ObservedPartition, live: frozenset[BrokerId], *, running: bool) -> bool:
    """Whether the step drops healthy replicas that are wanted now, or leaves fewer replicas than the goal has.

    If the cluster does not have the step, the step would be asked for again. Then it must drop no wanted replica,
    healthy or not (unless the floor is relaxed): a broker that is down now may be in sync before the step ends.
    """
    step = move.step
    assert step is not None
    dropped = tuple(broker for broker in step.before if broker not in step.after)
    healthy = tuple(broker for broker in dropped if _healthy(broker, seen, live))
    missed = healthy if running or move.relaxed else dropped
    return any(broker in move.goal for broker in missed) or bool(healthy and len(step.after) < len(move.goal))


def relax(move: Move, seen: ObservedPartition, live: frozenset[BrokerId], min_isr: int) -> Begin | None:
    """The step under way without the replicas that keep it from ending; None if none may be left out."""
    step = move.step
    assert step is not None
    after = completable(move, step.after, seen, live, min_isr)
    return None if after == step.after else Begin(step.before, after, "the floor was relaxed")


def blockers(move: Move, seen: ObservedPartition) -> Replicas:
    """Replicas that stay, are out of sync, and are not copied by this step. It can't end before they are in sync.

    A step that changes only the order needs none of them, unless it takes the place of a step that copies.
    """
    step = move.step
    assert step is not None
    if set(step.after) == set(step.before) and not step.redirected_from:
        return ()
    return tuple(broker for broker in step.after if broker not in seen.isr and broker not in step.adding)


def completable(
    move: Move, after: Replicas, seen: ObservedPartition, live: frozenset[BrokerId], min_isr: int
) -> Replicas:
    """`after` without old replicas that are dead or out of sync, as far as they may be left out.

    Additions that are being copied are not in sync yet. They stay while their brokers can still bring them in sync.
    """
    copying = move.step.adding if move.step is not None else ()
    sick = tuple(
        broker
        for broker in after
        if broker in seen.replicas
        and not _healthy(broker, seen, live)
        and not (broker in copying and may_come(broker, seen, live))
    )
    leaving = tuple(broker for broker in sick if broker not in move.goal)
    slim = tuple(broker for broker in after if broker not in leaving)
    if move.relaxed:
        relaxed = tuple(broker for broker in slim if broker not in sick)
        originals = sum(_healthy(broker, seen, live) for broker in move.original)
        if len(relaxed) >= max(1, min_isr, min(originals, len(move.goal))):
            return relaxed
    if not any(_healthy(broker, seen, live) for broker in slim):
        return after
    return slim


def may_come(broker: BrokerId, seen: ObservedPartition, live: frozenset[BrokerId]) -> bool:
    """Whether a broker can still bring a replica that it copies in sync."""
    return broker in live and broker not in seen.offline


def _healthy(broker: BrokerId, seen: ObservedPartition, live: frozenset[BrokerId]) -> bool:
    return broker in seen.isr and may_come(broker, seen, live)


def _all_at_once(move: Move, seen: ObservedPartition, live: frozenset[BrokerId]) -> Choice:
    """KIP-455: one request to the goal; the controller keeps the old replicas to the end."""
    dead = tuple(broker for broker in move.goal if broker not in live and broker not in seen.replicas)
    if dead:
        told = f"waits for {told_brokers(dead)} to come back: not live, and part of the target"
        return Waits(told, dead, len(dead))
    if not any(_healthy(broker, seen, live) for broker in seen.replicas):
        return Waits("waits for a leader: no replica is live and in sync", seen.isr or seen.replicas, 1)
    return Begin(seen.replicas, move.goal, _reason(move, seen.replicas, move.goal))


def _situation(seen: ObservedPartition, live: frozenset[BrokerId], min_isr: int) -> Situation:
    serving = frozenset(broker for broker in live if broker not in seen.offline)
    return Situation(ReplicaAssignment(seen.replicas), seen.isr, seen.leader, serving, min_isr)


def _reason(move: Move, before: Replicas, after: Replicas) -> str:
    told = [f"+{broker}" for broker in after if broker not in before]
    told += [f"-{broker}" for broker in before if broker not in after]
    return f"{move.direction.value}: {' '.join(told) or 'order'}"


def _turned(move: Move) -> str:
    if move.direction is Direction.FORWARD:
        return "another target was given"
    return {Direction.STOP: "stop", Direction.BACK: "roll back"}[move.direction]


def _missing(waiting: Waiting) -> int:
    """How many of the brokers that a wait names have to be live and in sync before the move goes on."""
    if waiting.reason in (WaitReason.FLOOR, WaitReason.ORIGINALS):
        return max(1, waiting.need - waiting.have)
    return 1 if waiting.reason is WaitReason.NO_LEADER else len(waiting.brokers)


def _waits_for_health(seen: ObservedPartition, live: frozenset[BrokerId]) -> Waits:
    sick = tuple(broker for broker in seen.replicas if not _healthy(broker, seen, live))
    return Waits(f"waits for {told_brokers(sick)} to be live and in sync", sick, len(sick))
