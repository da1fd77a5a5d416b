"""A world's two phases: faults while safety is checked, then mending until everything converges. Spinning is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from lab.simulation.scheduler import MS, SECOND

if TYPE_CHECKING:
    from lab.simulation.executor.world import ExecutorWorld
    from lab.simulation.world import World

QUIET_US = 2 * SECOND
"""How long after the last action the faults stop."""
SPIN = 5_000
"""So many events within a millisecond can only come from a process that wakes up again and again."""


W = TypeVar("W", "World", "ExecutorWorld")


def live_through(world: W, find_unfinished: Callable[[W], list[str]], *, within_us: int, look_every_us: int) -> None:
    """Run both phases; stops at the first violation."""
    end = (world.actions[-1].at_us if world.actions else 3 * SECOND) + QUIET_US
    run_until(world, end)
    if world.violation is not None:
        return
    world.scheduler.note("phase two: faults stop")
    world.begin_phase_two()
    unfinished: list[str] = ["nothing looked at"]
    while world.violation is None and world.scheduler.now_us < end + within_us:
        run_until(world, world.scheduler.now_us + look_every_us)
        unfinished = find_unfinished(world)
        if not unfinished:
            return
    if world.violation is None:
        world.violate("everything converges", "; ".join(unfinished[:6]))


def run_until(world: World | ExecutorWorld, moment_us: int) -> None:
    """Run all events that are due by a moment."""
    scheduler = world.scheduler
    step, began_us, began = scheduler.step, scheduler.now_us, scheduler.events
    while world.violation is None and step(moment_us):
        if scheduler.now_us - began_us > MS:
            began_us, began = scheduler.now_us, scheduler.events
        elif scheduler.events - began > SPIN:
            world.violate("nothing spins", f"{SPIN} events within a millisecond; see the last of the trace")
