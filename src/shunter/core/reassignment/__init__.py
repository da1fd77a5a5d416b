"""How one partition moves: pure functions over assignments, ISRs and live brokers (KAFKA-6794, KIP-236, KIP-455)."""

from shunter.core.reassignment.cost import StepCost, step_cost, step_costs
from shunter.core.reassignment.interruption import drop_set, roll_back, stop, supersede
from shunter.core.reassignment.left_behind import LeftMove, left_move, told_moves
from shunter.core.reassignment.paper import PaperPlan, plan_on_paper, roll_back_on_paper
from shunter.core.reassignment.reconciliation import (
    Closing,
    Reconciled,
    Row,
    Sources,
    original_replicas,
    reconcile,
    same_route,
)
from shunter.core.reassignment.situation import Situation, Step, Waiting, WaitReason, describe_waiting
from shunter.core.reassignment.steps import next_step
from shunter.core.reassignment.targets import no_longer_fits, validate_target, validate_top

__all__ = [
    "Closing",
    "LeftMove",
    "PaperPlan",
    "Reconciled",
    "Row",
    "Situation",
    "Sources",
    "Step",
    "StepCost",
    "WaitReason",
    "Waiting",
    "describe_waiting",
    "drop_set",
    "left_move",
    "next_step",
    "no_longer_fits",
    "original_replicas",
    "plan_on_paper",
    "reconcile",
    "roll_back",
    "roll_back_on_paper",
    "same_route",
    "step_cost",
    "step_costs",
    "stop",
    "supersede",
    "told_moves",
    "validate_target",
    "validate_top",
]
