"""The cost of a move on paper: bytes copied by each step, and by a rollback from each point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shunter.core.reassignment.situation import Step
from shunter.model.partition import BrokerId, Replicas


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
    return tuple(step_cost(step.added, step.replicas, original, partition_bytes) for step in steps)


def step_cost(added: Sequence[BrokerId], replicas: Replicas, original: Replicas, partition_bytes: int) -> StepCost:
    """Cost one step: the replicas that it adds, and those that are there after it."""
    gone = sum(broker not in replicas for broker in original)
    return StepCost(len(added) * partition_bytes, gone * partition_bytes)
