"""How far a rolling schedule is above the lower bound, and how long fixed batches take.

    python lab/benchmarks/makespan.py [--brokers 100] [--moves 10000] [--seeds 1,2,3]
    python lab/benchmarks/makespan.py --compare 1,2,3,4,5,8,0     # how far above the bound, by copies at once per broker

Sizes are lognormal (sigma 1.6), sources and targets are uniform over brokers, and all brokers have the same bandwidth.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from shunter.core.planning.schedule import Bandwidth, Concurrency, Transfers, schedule

BATCHES = (50, 100, 200, 300, 500, 800, 1_200, 2_000, 4_000, 10_000)


def transfers(brokers: int, moves: int, seed: int) -> Transfers:
    """Draw moves: lognormal sizes, source and target uniform and different."""
    drawn = np.random.default_rng(seed)
    source = drawn.integers(0, brokers, moves)
    target = (source + drawn.integers(1, brokers, moves)) % brokers
    return Transfers(source, target, np.exp(drawn.normal(5, 1.6, moves)) * 2**20)


def compare(bounds: list[int]) -> None:
    """Print the mean and the worst distance from the lower bound, by copies at once per broker."""
    print("| brokers, moves | " + " | ".join(f"{bound or 'no bound'}" for bound in bounds) + " |")
    print("| --- |" + " --- |" * len(bounds))
    for brokers, moves, seeds in ((4, 40, 12), (12, 300, 12), (100, 2_000, 4)):
        even = np.full(brokers, 50.0 * 2**20)
        cells = []
        for bound in bounds:
            drawn = (transfers(brokers, moves, seed) for seed in range(1, seeds + 1))
            found = [schedule(one, Bandwidth(even, even), Concurrency(per_broker=bound)) for one in drawn]
            above = [100 * max(0.0, one.makespan / one.lower_bound - 1) for one in found]
            cells.append(f"{np.mean(above):.1f} % ({max(above):.1f})")
        print(f"| {brokers}, {moves}, {seeds} seeds | {' | '.join(cells)} |", flush=True)


def fixed_batches(moves: Transfers, bandwidth: Bandwidth, batch: int) -> float:
    """The seconds that most other tools take: so many moves at a time in the given order, the next ones after the last."""
    total = 0.0
    for first in range(0, len(moves.size), batch):
        part = slice(first, first + batch)
        chosen = Transfers(moves.source[part], moves.target[part], moves.size[part])
        total += schedule(chosen, bandwidth, Concurrency(per_broker=0)).makespan
    return total


def main() -> None:
    """Print one line per seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--moves", type=int, default=10_000)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--per-broker", type=int, default=3)
    parser.add_argument("--compare", help="numbers of copies at once per broker (0: no bound) to compare")
    asked = parser.parse_args()
    if asked.compare:
        compare([int(part) for part in asked.compare.split(",")])
        return
    print(f"{asked.brokers} brokers, {asked.moves} moves, at most {asked.per_broker} from and to a broker; seconds")
    print("| seed | lower bound | rolling | above it | best of ten fixed batches | above it | computed in |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for seed in (int(part) for part in asked.seeds.split(",")):
        moves = transfers(asked.brokers, asked.moves, seed)
        even = np.full(asked.brokers, 50.0 * 2**20)
        bandwidth = Bandwidth(even, even)
        began = time.perf_counter()
        rolling = schedule(moves, bandwidth, Concurrency(per_broker=asked.per_broker))
        took = time.perf_counter() - began
        best, size = min((fixed_batches(moves, bandwidth, batch), batch) for batch in BATCHES)
        bound = rolling.lower_bound
        print(
            f"| {seed} | {bound:.0f} | {rolling.makespan:.0f} | {100 * max(0.0, rolling.makespan / bound - 1):.2f} % "
            f"| {best:.0f} (batches of {size}) | {100 * (best / bound - 1):.2f} % | {took:.1f} s |"
        )


if __name__ == "__main__":
    main()
