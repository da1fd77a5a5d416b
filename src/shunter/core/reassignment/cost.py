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
    rollback_bytes: int
    """Bytes that a rollback from here would fetch: dropped originals are gone from disk. 0: the rollback is instant."""


def step_costs(steps: Sequence[Step], *, original: Replicas, partition_bytes: int) -> tuple[StepCost, ...]:
    """Cost each step of a plan, in order.

    Args:
        steps: A move from its beginning (`plan_on_paper`).
        original: Replicas before the move.
        partition_bytes: Size of one replica's log.
    """
    costs: list[StepCost] = []
    for step in steps:
        copied = len(step.added) * partition_bytes
        gone = sum(broker not in step.replicas for broker in original)
        costs.append(StepCost(copied, gone * partition_bytes))
    return tuple(costs)
