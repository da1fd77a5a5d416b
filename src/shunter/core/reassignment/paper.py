"""A move on paper: every step, with each new replica assumed in sync before the next."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from shunter.core.reassignment.interruption import roll_back
from shunter.core.reassignment.situation import Situation, Step, Waiting
from shunter.core.reassignment.steps import next_step
from shunter.model.partition import BrokerId, ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy


class PaperPlan(NamedTuple):
    """Steps that change the replicas or their order, and what the move waits for after the last one (None: the end)."""

    steps: tuple[Step, ...]
    waiting: Waiting | None


def plan_on_paper(
    replicas: Replicas,
    target: Replicas,
    leader: BrokerId,
    *,
    isr: Replicas | None = None,
    dead: Collection[BrokerId] = (),
    strategy: Strategy = Strategy.INCREMENTAL,
    min_isr: int = 1,
    relaxed: bool = False,
) -> PaperPlan:
    """Lay out a whole move. A broker that is dead stays dead.

    Args:
        replicas: Where the partition is, in order.
        target: Where it shall be, in order.
        leader: The partition's leader.
        isr: In-sync replicas; all that are not dead when not given.
        dead: Brokers that are not live.
        strategy: Incremental or all at once.
        min_isr: min.insync.replicas, for the relaxed floor.
        relaxed: The floor is relaxed.
    """
    live = frozenset(replicas + target) - frozenset(dead)
    in_sync = tuple(broker for broker in replicas if broker in live) if isr is None else isr

    def choose(situation: Situation) -> Step | Waiting | None:
        return next_step(situation, original=replicas, target=target, strategy=strategy, relaxed=relaxed)

    return _play(Situation(ReplicaAssignment(replicas), in_sync, leader, live, min_isr), choose)


def roll_back_on_paper(situation: Situation, *, original: Replicas) -> PaperPlan:
    """Lay out a rollback from where a move stands."""
    return _play(situation, lambda now: roll_back(now, original=original))


def _play(situation: Situation, choose: Callable[[Situation], Step | Waiting | None]) -> PaperPlan:
    # Every step but the last adds, drops or reorders something that no later step undoes.
    steps: list[Step] = []
    while True:
        decided = choose(situation)
        if not isinstance(decided, Step):
            return PaperPlan(tuple(steps), decided)
        if decided.replicas != situation.replicas:
            steps.append(decided)
        caught_up = tuple(broker for broker in decided.added if broker in situation.live)
        situation = situation.after(decided._replace(isr=decided.isr + caught_up))
