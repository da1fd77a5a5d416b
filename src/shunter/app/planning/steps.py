"""A move on paper, for callers outside the core: they pass plain values and get plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shunter.core.reassignment import describe_waiting, plan_on_paper, step_costs, validate_target
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.partition import NO_LEADER
from shunter.model.reassignment import Strategy

MOST_REPLICAS = 100
"""A bound for input, far above any replication factor in use."""


class PaperStep(NamedTuple):
    """One step: what is dropped and added, the replicas and the leader after it, and its cost.

    `copied` is the number of replicas fetched in this step; `rollback_copies` is how many a rollback after it fetches.
    """

    dropped: tuple[int, ...]
    added: tuple[int, ...]
    replicas: tuple[int, ...]
    leader: int
    copied: int
    rollback_copies: int


class PaperMove(NamedTuple):
    """A move. `waiting` says in a sentence what it waits for after the last step; None: it reaches its target.

    `leader` is the leader before the first step; -1: there is none.
    """

    leader: int
    steps: tuple[PaperStep, ...]
    waiting: str | None
    waiting_reason: str | None
    waiting_brokers: tuple[int, ...]


def lay_out(
    replicas: Sequence[int],
    target: Sequence[int],
    *,
    leader: int | None = None,
    isr: Sequence[int] | None = None,
    dead: Sequence[int] = (),
    all_at_once: bool = False,
) -> PaperMove:
    """Lay out a move of one partition, step by step, each new replica assumed in sync before the next step.

    Args:
        replicas: The brokers that have the partition now, in order.
        target: The brokers that shall have it at the end, in order.
        leader: The leader; None: the first live replica in sync.
        isr: The replicas in sync; None: all replicas that are not dead.
        dead: Brokers that are dead, and stay so.
        all_at_once: KIP-455's way instead of KAFKA-6794's.

    Raises:
        RequestRejected: The input contradicts itself; the message names value, rule and flag.
    """
    in_sync = tuple(broker for broker in replicas if broker not in dead) if isr is None else tuple(isr)
    _check(replicas, target, leader, in_sync, dead)
    first = next((broker for broker in replicas if broker in in_sync and broker not in dead), NO_LEADER)
    leading = first if leader is None else leader
    plan = plan_on_paper(
        tuple(replicas),
        tuple(target),
        leading,
        isr=in_sync,
        dead=dead,
        strategy=Strategy.ALL_AT_ONCE if all_at_once else Strategy.INCREMENTAL,
    )
    costs = step_costs(plan.steps, original=tuple(replicas), partition_bytes=1)
    steps = tuple(
        PaperStep(step.dropped, step.added, step.replicas, step.leader, cost.copied_bytes, cost.rollback_bytes)
        for step, cost in zip(plan.steps, costs, strict=True)
    )
    if plan.waiting is None:
        return PaperMove(leading, steps, None, None, ())
    return PaperMove(leading, steps, describe_waiting(plan.waiting), plan.waiting.reason.value, plan.waiting.brokers)


def _check(
    replicas: Sequence[int], target: Sequence[int], leader: int | None, isr: Sequence[int], dead: Sequence[int]
) -> None:
    """Refuse a partition that can't exist."""
    everybody = frozenset((*replicas, *target, *isr, *dead))
    for flag, brokers in (("--replicas", replicas), ("--target", target), ("--isr", isr), ("--dead", dead)):
        if len(brokers) > MOST_REPLICAS:
            raise _rejected(f"{flag} has {len(brokers)} brokers: at most {MOST_REPLICAS} are taken")
        # --isr and --dead may be empty; --replicas and --target may not.
        complaint = (
            validate_target(brokers, everybody, place=flag) if brokers or brokers in (replicas, target) else None
        )
        if complaint is not None:
            raise RequestRejected(*complaint)
    strangers = [broker for broker in isr if broker not in replicas]
    if strangers:
        raise _rejected(f"--isr {list(isr)} names broker {strangers[0]}, which is not in --replicas {list(replicas)}")
    if leader is not None and leader not in replicas:
        raise _rejected(f"--leader {leader} is not in --replicas {list(replicas)}")
    if leader is not None and leader in dead:
        raise _rejected(f"--leader {leader} is in --dead {list(dead)}: a dead broker leads nothing")
    if leader is not None and leader not in isr:
        raise _rejected(f"--leader {leader} is not in --isr {list(isr)}: a leader is always in sync")


def _rejected(message: str) -> RequestRejected:
    return RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
