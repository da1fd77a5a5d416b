"""The cost of a move on paper: bytes copied by each step, and by a rollback from each point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shunter.core.reassignment.situation import Step
from shunter.model.partition import Replicas


class StepCost(NamedTuple):
    """Costs at one point of a move, the step just written. Bytes are of this partition's log, over the network."""

    copied_bytes: int
    """Bytes that this step's new replicas fetch."""
    copied_so_far_bytes: int
    """Bytes that the move has fetched once this step's new replicas are in sync."""
    rollback_bytes: int
    """Bytes that a rollback from here would fetch: dropped originals are gone from disk. 0: the rollback is instant."""
    wasted_bytes: int
    """Bytes that a rollback from here throws away: copies on brokers that are not original."""


def step_costs(steps: Sequence[Step], *, original: Replicas, partition_bytes: int) -> tuple[StepCost, ...]:
    """Cost each step of a plan, in order.

    Args:
        steps: A move from its beginning (`plan_on_paper`).
        original: Replicas before the move.
        partition_bytes: Size of one replica's log.
    """
    costs: list[StepCost] = []
    so_far = 0
    for step in steps:
        copied = len(step.added) * partition_bytes
        so_far += copied
        gone = sum(broker not in step.replicas for broker in original)
        foreign = sum(broker not in original for broker in step.replicas)
        costs.append(StepCost(copied, so_far, gone * partition_bytes, foreign * partition_bytes))
    return tuple(costs)
