"""Runs of worlds: one world from a seed, and a search for the fewest actions with which a failing world still fails."""

from __future__ import annotations

import gc
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from lab.simulation.actions import plan_actions
from lab.simulation.coverage import Coverage
from lab.simulation.kinds import CONTROLLER, WorldKind
from lab.simulation.rules.violation import Violation

FORGOTTEN_TOGETHER = 32
"""After so many worlds their frozen objects are freed at once: a full collection takes half as long as a world."""
_worlds = count(1)


@dataclass(frozen=True, slots=True)
class WorldOutcome:
    """How a world ended. `digest` is the trace's hash; `tail` its last lines; `kinds` the actions by number."""

    seed: int
    violation: Violation | None
    events: int
    checks: int
    virtual_s: float
    acknowledged: int
    digest: str
    coverage: Coverage
    tail: tuple[str, ...]
    kinds: tuple[tuple[int, str], ...]


def run_seed(
    seed: int,
    *,
    kind: WorldKind = CONTROLLER,
    steps: int | None = None,
    faults: Collection[str] | None = None,
    kept: Collection[int] | None = None,
) -> WorldOutcome:
    """Run one world.

    Args:
        seed: Determines the whole world.
        kind: The kind of world.
        steps: Number of actions in the plan; None for the seed's own number.
        faults: Kinds of faults that may happen; None for all of the kind's.
        kept: Numbers of the actions to carry out; None for all.
    """
    allowed = kind.faults if faults is None else faults
    actions = plan_actions(
        seed,
        kind.steps(seed) if steps is None else steps,
        allowed,
        operations=kind.operations,
        breakages=kind.faults,
        paces_us=kind.paces_us,
        aside=kind.aside,
    )
    if kept is not None:
        actions = [action for action in actions if action.number in kept]
    with _quiet():
        world = kind.build(seed, actions)
        world.run()
    _forget_frozen()
    return WorldOutcome(
        seed=seed,
        violation=world.violation,
        events=world.scheduler.events,
        checks=world.checks,
        virtual_s=world.scheduler.now_us / 1_000_000,
        acknowledged=world.acknowledged,
        digest=world.scheduler.trace.digest(),
        coverage=world.coverage,
        tail=tuple(world.scheduler.trace.tail),
        kinds=tuple((action.number, action.kind) for action in actions),
    )


def shrink(
    failed: WorldOutcome,
    *,
    kind: WorldKind = CONTROLLER,
    steps: int | None = None,
    faults: Collection[str] | None = None,
    most_runs: int = 300,
) -> WorldOutcome:
    """Drop actions while the same rule is still broken: halves first, then quarters, down to single ones.

    Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (ddmin).
    """
    if failed.violation is None:
        return failed
    rule = failed.violation.rule
    best = failed
    parts, runs = 2, 0
    while runs < most_runs:
        numbers = [number for number, _ in best.kinds]
        smaller = None
        for portion in _portions(numbers, parts):
            kept = set(numbers) - set(portion)
            outcome = run_seed(failed.seed, kind=kind, steps=steps, faults=faults, kept=kept)
            runs += 1
            if outcome.violation is not None and outcome.violation.rule == rule:
                smaller = outcome
                break
        if smaller is not None:
            best, parts = smaller, max(2, parts - 1)
        elif parts >= len(numbers):
            break
        else:
            parts = min(len(numbers), parts * 2)
    return best


def _portions(numbers: Sequence[int], parts: int) -> Iterator[Sequence[int]]:
    size = max(1, len(numbers) // parts)
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


def _forget_frozen() -> None:
    """Free the frozen objects of former worlds, now and then.

    A controller freezes what it has read, because it keeps that. In a world these objects are garbage once the world
    has ended, but the collector ignores frozen objects: 400 KB for each world.
    """
    if next(_worlds) % FORGOTTEN_TOGETHER == 0:
        gc.unfreeze()
        gc.collect()


@contextmanager
def _quiet() -> Iterator[None]:
    """Disable logging, because the trace already has what the drivers would log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
