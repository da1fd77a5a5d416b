"""How fast the simulator runs on one core, every rule checked: events a second, and where the time goes.

    python lab/benchmarks/simulation_speed.py [--first 1] [--worlds 60] [--steps N]

An event is one delivery or one timer of the world. Times are CPU time of this process, which other load on the machine
hardly affects; wall time is printed, too.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time

from lab.simulation.runs import run_seed

ASKED = 5_000
"""The required number of events a second."""


def main() -> int:
    """Run worlds and print their cost; returns 1 if a world broke a rule or the required speed was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--steps", type=int)
    asked = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, {asked.worlds} worlds")
    run_seed(asked.first, steps=5)  # imports and caches
    speeds: list[float] = []
    events = checks = handled = 0
    virtual = 0.0
    broken = 0
    wall, cpu = time.perf_counter(), time.process_time()
    for seed in range(asked.first, asked.first + asked.worlds):
        began = time.process_time()
        outcome = run_seed(seed, steps=asked.steps)
        speeds.append(outcome.events / (time.process_time() - began))
        events, checks, virtual = events + outcome.events, checks + outcome.checks, virtual + outcome.virtual_s
        handled += sum(count for (category, _), count in outcome.coverage.counts.items() if category == "event")
        broken += outcome.violation is not None
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    overall = events / cpu
    low, *_, high = statistics.quantiles(speeds, n=10)
    print(f"{events} events in {cpu:.1f} s of CPU ({wall:.1f} s of wall): {overall:.0f} events a second")
    print(f"by world: median {statistics.median(speeds):.0f}, tenth {low:.0f}, ninetieth {high:.0f}")
    print(f"{checks} checks, {handled} events handled by controllers' machines ({handled / events:.0%})")
    print(f"{virtual / 3600:.2f} h of virtual time: {virtual / cpu:.0f} times as fast as it would pass")
    print(
        f"asked for: {ASKED} events a second: {'met' if overall >= ASKED else 'MISSED'}; {broken} worlds broke a rule"
    )
    return int(overall < ASKED or broken > 0)


if __name__ == "__main__":
    sys.exit(main())
