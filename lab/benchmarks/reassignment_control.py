"""How fast thousands of moves under way are listed and cancelled, with a ZooKeeper that syncs to the disk.

    python lab/benchmarks/reassignment_control.py [--brokers 50] [--partitions 20000] [--moves 5000] [--rounds 3]

A real controller process and a real ZooKeeper (fsync on) run with simulated brokers whose followers never catch up, so
every move stays in flight. A cancel is answered when it is durable. After the answer, ZooKeeper and all brokers are
compared. A list is timed as a client sees it: from connecting to the last decoded partition.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

from lab.testbed.controller import ShunterController
from lab.testbed.java import AS_IN_PRODUCTION
from lab.testbed.ports import LOOPBACK
from lab.testbed.simulated_brokers.phases import Figures, Phases
from lab.testbed.simulated_brokers.seeding import seeded_yard
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.drivers.reassignment_rpc import list_reassignments

PARTITIONS_EACH = 10
LISTS = 10
BOUND_S = 120.0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--moves", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def timed_list(port: int, moves: int) -> float:
    """Seconds that one list took."""
    began = time.monotonic()
    listed = list_reassignments(LOOPBACK, port)
    took_s = time.monotonic() - began
    found = sum(len(topic.partitions) for topic in listed.topics)
    assert found == moves, f"{found} of {moves} moves are listed"
    return took_s


async def one_round(phases: Phases, port: int, moves: int) -> tuple[list[float], Figures]:
    """Begin moves, list them, cancel them."""
    originals = await phases.begin_moves(moves)
    lists_s = [await asyncio.to_thread(timed_list, port, moves) for _ in range(LISTS)]
    cancel = await phases.cancel_under_way(originals)
    listed_s = ", ".join(f"{took_s * 1000:.0f}" for took_s in lists_s)
    print(
        f"cancel of {moves}: answered after {cancel.answered_s:.2f} s, every broker told after {cancel.everyone_s:.2f} s, "
        f"CPU {cancel.cpu_s:.2f} s, {cancel.all_requests} requests; lists of {moves}: {listed_s} ms; load {cancel.load:.1f}",
        flush=True,
    )
    return lists_s, cancel


async def measure(asked: argparse.Namespace, folder: Path) -> int:
    """Run all rounds; the exit status says whether all brokers knew the truth in the end."""
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()}")
    lists_s: list[float] = []
    cancels: list[Figures] = []
    with ZooKeeperServer(
        folder / "zookeeper", heap_mib=1_024, force_sync=True, java_tuning=AS_IN_PRODUCTION
    ) as zookeeper:
        connect = zookeeper.connect_string
        ids = tuple(range(1, asked.brokers + 1))
        topics = asked.partitions // PARTITIONS_EACH
        async with seeded_yard(connect, ids, topics=topics, partitions_each=PARTITIONS_EACH) as yard:
            count = len(yard.catalogue.places)
            print(f"{asked.brokers} brokers, {count} partitions of {topics} topics, 3 replicas each; ZooKeeper syncs")
            with ShunterController(folder / "controller", connect) as controller:
                phases = Phases(yard, controller.process.pid or 0, bound_s=BOUND_S)
                assert (await phases.start_up()).complete
                for _ in range(asked.rounds):
                    lists, cancel = await one_round(phases, controller.port, asked.moves)
                    lists_s += lists
                    cancels.append(cancel)
    print(
        f"\nMedians: cancel answered after {statistics.median(each.answered_s for each in cancels):.2f} s, every broker "
        f"told after {statistics.median(each.everyone_s for each in cancels):.2f} s; list "
        f"{statistics.median(lists_s) * 1000:.0f} ms (longest {max(lists_s) * 1000:.0f} ms)"
    )
    good = all(each.complete and not each.differences and set(each.codes) == {0} for each in cancels)
    return 0 if good else 1


def main() -> int:
    """Measure in a temporary folder."""
    asked = arguments()
    with tempfile.TemporaryDirectory(prefix="reassignment-control-") as folder:
        return asyncio.run(measure(asked, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
