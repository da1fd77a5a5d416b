"""The kinds of worlds: the actions of each, how a world is built, and what its coverage has to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.simulation.actions import ASIDE, FAULT_WEIGHTS, NOTHING_ASIDE, OPERATION_WEIGHTS, PACES_US, Action
from lab.simulation.coverage import EXPECTED
from lab.simulation.executor import actions as executor_actions
from lab.simulation.executor.expected import EXECUTOR_EXPECTED
from lab.simulation.executor.shape import draw_executor_shape
from lab.simulation.executor.world import ExecutorWorld
from lab.simulation.rules.convergence import find_unfinished
from lab.simulation.shape import draw_shape
from lab.simulation.world import World

EXECUTOR_STEPS = 60


@dataclass(frozen=True, slots=True)
class WorldKind:
    """One kind. `operations` and `faults` are names with weights; `acknowledges` says what `acknowledged` counts.

    `steps` returns the number of actions in a seed's plan, unless the caller of `run_seed` gives one.
    """

    name: str
    operations: Mapping[str, int]
    faults: Mapping[str, int]
    paces_us: Sequence[int]
    steps: Callable[[int], int]
    build: Callable[[int, Sequence[Action]], World | ExecutorWorld]
    acknowledges: str
    expected: Mapping[str, Sequence[str]]
    aside: Mapping[int, Mapping[str, int]] = field(default_factory=lambda: NOTHING_ASIDE)
    """Weights of actions that a PRNG of their own draws (see `actions.ASIDE`); these may have the weight 0 above."""


CONTROLLER = WorldKind(
    "controller",
    OPERATION_WEIGHTS,
    FAULT_WEIGHTS,
    PACES_US,
    lambda seed: draw_shape(seed).steps,
    lambda seed, actions: World(seed, draw_shape(seed), actions, find_unfinished),
    "records",
    EXPECTED,
    ASIDE,
)
EXECUTOR = WorldKind(
    "executor",
    executor_actions.OPERATION_WEIGHTS,
    executor_actions.FAULT_WEIGHTS,
    executor_actions.PACES_US,
    lambda _: EXECUTOR_STEPS,
    lambda seed, actions: ExecutorWorld(seed, draw_executor_shape(seed), actions),
    "moves",
    EXECUTOR_EXPECTED,
    executor_actions.ASIDE,
)
KINDS = {kind.name: kind for kind in (CONTROLLER, EXECUTOR)}
