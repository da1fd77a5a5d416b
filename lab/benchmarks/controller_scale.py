"""The cost of a controller of hundreds of brokers, Shunter's and Apache's in turn over the same simulated brokers.

    python lab/benchmarks/controller_scale.py --brokers 200 --partitions 100000 [--peer apache] [--rounds 2]
    python lab/benchmarks/controller_scale.py --moves-alone 4

A real ZooKeeper and real controllers run in processes of their own; this process simulates all brokers (see
`lab.testbed.simulated_brokers`). Every round restarts each controller, so the first election of a round is cold
and the later ones are warm. Apache's controller skips phases that would take it minutes: a cancel of all moves, and a
broker's death during all moves. Figures are medians over the rounds. CPU time of the controller's process comes
first, because wall time depends on the machine's other load; each phase is printed with the load average.

Two clusters are measured: one of the size given, and a smaller one for mass reassignments, whose cost in Apache's
controller grows with the square of the number of brokers. `--moves-alone` measures these alone, again and again by
one Shunter controller: to compare two versions, run it in turns with the PYTHONPATH of each.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION, ensure_kafka
from lab.testbed.controller import ShunterController
from lab.testbed.java import AS_IN_PRODUCTION
from lab.testbed.kafka import KafkaBroker
from lab.testbed.ports import free_port
from lab.testbed.server import Server
from lab.testbed.simulated_brokers.phases import Figures, Phases
from lab.testbed.simulated_brokers.seeding import seeded_yard
from lab.testbed.simulated_brokers.yard import SimulatedYard
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.drivers.host.idle_collector import YOUNG_THRESHOLDS

CONTROLLER_ID = 1_000
"""The greatest id that Apache's brokers accept by default; the simulated brokers have lower ones."""
STOCK = {
    "num.network.threads": 3,
    "num.io.threads": 8,
    "background.threads": 10,
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": 1,
}
"""Apache's defaults where the testbed has smaller values; and no rebalance of leaders, which would add noise."""
OURS, APACHE = "shunter", "apache"
ALL_AT_ONCE = "shunter all-at-once"
LOGGED = "shunter with logs"

Row = tuple[str, str, Callable[[Figures], float]]
"""(phase, name of the figure, function that takes it from the figures)."""

ROWS: tuple[Row, ...] = (
    ("failover", "CPU s", lambda figures: figures.cpu_s),
    ("failover", "everybody told, s", lambda figures: figures.everyone_s),
    ("failover", "requests", lambda figures: figures.all_requests),
    ("failover", "MB sent", lambda figures: figures.bytes / 1e6),
    ("failover", "peak resident MiB", lambda figures: figures.peak_mib),
    ("failover", "event loop held, ms", lambda figures: figures.lag_s * 1000),
    ("kill", "CPU s", lambda figures: figures.cpu_s),
    ("kill", "leaders told, s", lambda figures: figures.leaders_s),
    ("kill", "everybody told, s", lambda figures: figures.everyone_s),
    ("revive", "CPU s", lambda figures: figures.cpu_s),
    ("revive", "in sync and told, s", lambda figures: figures.everyone_s),
    ("revive", "requests", lambda figures: figures.all_requests),
    ("kill many", "CPU s", lambda figures: figures.cpu_s),
    ("kill many", "leaders told, s", lambda figures: figures.leaders_s),
    ("kill many", "everybody told, s", lambda figures: figures.everyone_s),
    ("kill many", "requests", lambda figures: figures.all_requests),
    ("revive many", "CPU s", lambda figures: figures.cpu_s),
    ("revive many", "in sync and told, s", lambda figures: figures.everyone_s),
    ("revive many", "requests", lambda figures: figures.all_requests),
    ("reassign", "CPU s", lambda figures: figures.cpu_s),
    ("reassign", "everybody told, s", lambda figures: figures.everyone_s),
    ("reassign", "requests", lambda figures: figures.all_requests),
    ("reassign", "MB sent", lambda figures: figures.bytes / 1e6),
    ("reassign", "event loop held, ms", lambda figures: figures.lag_s * 1000),
    ("cancel of a tenth", "answered, s", lambda figures: figures.answered_s),
    ("cancel of all", "answered, s", lambda figures: figures.answered_s),
    ("kill idle", "leaders told, s", lambda figures: figures.leaders_s),
    ("kill amid a tenth", "leaders told, s", lambda figures: figures.leaders_s),
    ("kill amid all", "leaders told, s", lambda figures: figures.leaders_s),
)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--partitions-each", type=int, default=10, help="partitions of a topic")
    parser.add_argument("--peer", choices=[APACHE], help="measure this controller too, in turn")
    parser.add_argument("--logged", action="store_true", help="measure Shunter's with a log_dir too, in turn")
    parser.add_argument("--peer-heap-mib", type=int, default=2_048)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--failovers", type=int, default=2, help="number of warm failovers in each round")
    parser.add_argument("--deaths", type=int, default=10, help="brokers that die together, after one that died alone")
    parser.add_argument("--moves", type=int, default=5_000, help="moves at once in the smaller cluster; 0: none")
    parser.add_argument(
        "--moves-alone", type=int, metavar="TIMES", help="measure only the moves at once, so many times"
    )
    parser.add_argument("--moving-brokers", type=int, default=50)
    parser.add_argument("--moving-partitions", type=int, default=20_000)
    parser.add_argument("--bound", type=float, default=200.0, help="seconds that one phase may take")
    parser.add_argument("--json", type=Path, help="write every phase's figures there, one a line")
    return parser.parse_args()


@contextmanager
def controller_of(kind: str, folder: Path, connect: str, heap_mib: int, metrics_port: int) -> Iterator[Server]:
    """Yield a controller that is not started, and stop it at the end."""
    server: Server
    if kind == APACHE:
        server = KafkaBroker(
            CONTROLLER_ID, connect, folder, heap_mib=heap_mib, properties=STOCK, java_tuning=AS_IN_PRODUCTION
        )
    else:
        options = ("--strategy", "all-at-once") if kind == ALL_AT_ONCE else ()
        options += ("--set", f"metrics-port={metrics_port}")
        if kind == LOGGED:
            options += ("--set", f"log-dir={folder / 'log'}")
        server = ShunterController(folder, connect, broker_id=CONTROLLER_ID, options=options)
    try:
        yield server
    finally:
        server.stop(30.0)


class Measurement:
    """Runs rounds and keeps their figures, by controller and phase."""

    def __init__(self, asked: argparse.Namespace, folder: Path) -> None:
        self.asked = asked
        self.folder = folder
        self.found: dict[tuple[str, str], list[Figures]] = {}
        self._servers = 0

    def note(self, kind: str, phase: str, figures: Figures) -> None:
        """Keep one phase's figures, and print them."""
        self.found.setdefault((kind, phase), []).append(figures)
        wrong = "" if figures.complete else ", NOT COMPLETE"
        wrong += f", {figures.differences} DIFFERENCES FROM THE TRUTH" if figures.differences else ""
        print(
            f"{kind:20} {figures.phase:18} CPU {figures.cpu_s:7.2f} s, everybody {figures.everyone_s:7.2f} s, "
            f"leaders {figures.leaders_s:5.2f} s, answered {figures.answered_s:5.2f} s, {figures.all_requests:8} requests, "
            f"{figures.bytes / 1e6:8.1f} MB, peak {figures.peak_mib:5.0f} MiB, loop held {figures.lag_s * 1000:3.0f} ms, load {figures.load:4.1f}{wrong}",
            flush=True,
        )
        # All brokers are in this process, so it collects garbage between two phases.
        gc.collect()
        gc.freeze()
        if self.asked.json is not None:
            with self.asked.json.open("a") as out:
                out.write(json.dumps({"controller": kind, **asdict(figures)}) + "\n")

    @contextmanager
    def zookeeper(self) -> Iterator[ZooKeeperServer]:
        """A ZooKeeper server for one cluster."""
        self._servers += 1
        options = {"snapCount": 5_000_000, "maxSessionTimeout": 120_000}
        folder = self.folder / f"zookeeper-{self._servers}"
        with ZooKeeperServer(folder, heap_mib=2_048, properties=options, java_tuning=AS_IN_PRODUCTION) as server:
            yield server

    async def cluster(self, brokers: int, partitions: int, kinds: Sequence[str], moving: bool) -> None:
        """Measure all controllers in turn over one cluster."""
        with self.zookeeper() as zookeeper:
            connect = zookeeper.connect_string
            ids = tuple(range(1, brokers + 1))
            each = self.asked.partitions_each
            topics = partitions // each
            async with seeded_yard(connect, ids, topics=topics, partitions_each=each) as yard:
                count = len(yard.catalogue.places)
                print(f"\n{brokers} brokers, {count} partitions of {topics} topics, 3 replicas each", flush=True)
                for number in range(self.asked.rounds):
                    for kind in kinds:
                        await self.one_round(kind, number, connect, yard, moving=moving)

    async def moves_alone(self, times: int) -> None:
        """Measure mass reassignments alone, one after another by one controller."""
        ids, each = tuple(range(1, self.asked.moving_brokers + 1)), self.asked.partitions_each
        with self.zookeeper() as zookeeper:
            connect, port = zookeeper.connect_string, free_port()
            async with seeded_yard(
                connect, ids, topics=self.asked.moving_partitions // each, partitions_each=each
            ) as yard:
                with controller_of(OURS, self.folder / "controller", connect, 0, port) as server:
                    await asyncio.to_thread(server.start)
                    phases = Phases(yard, server.process.pid or 0, bound_s=self.asked.bound, metrics_port=port)
                    await phases.start_up()
                    for _ in range(times):
                        self.note(OURS, "reassign", await phases.reassign(self.asked.moves))

    async def one_round(self, kind: str, number: int, connect: str, yard: SimulatedYard, *, moving: bool) -> None:
        """Start a controller, run the phases, stop it."""
        name = kind.replace(" ", "-")
        folder = self.folder / f"{name}-{number}-{self._servers}"
        port = free_port()
        with controller_of(kind, folder, connect, self.asked.peer_heap_mib, port) as server:
            await asyncio.to_thread(server.start)
            asked = None if kind == APACHE else port
            pid = server.process.pid or 0
            phases = Phases(yard, pid, bound_s=self.asked.bound, seed=number, metrics_port=asked)
            self.note(kind, "start-up", await phases.start_up())
            if moving:
                await self.moves(kind, phases)
            else:
                for _ in range(self.asked.failovers):
                    self.note(kind, "failover", await phases.failover())
                for count in dict.fromkeys((1, min(self.asked.deaths, self.asked.brokers - 1))):
                    self.note(kind, told_of("kill", count), await phases.kill(count=count))
                    self.note(kind, told_of("revive", count), await phases.revive())
            await asyncio.to_thread(server.stop, 30.0)

    async def moves(self, kind: str, phases: Phases) -> None:
        """The phases of mass reassignment."""
        self.note(kind, "kill idle", await phases.kill())
        await phases.revive()
        self.note(kind, "reassign", await phases.reassign(self.asked.moves))
        if kind == ALL_AT_ONCE:
            return
        tenth = max(1, self.asked.moves // 10)
        self.note(kind, "cancel of a tenth", await phases.cancel(tenth))
        self.note(kind, "kill amid a tenth", await phases.kill_amid(tenth))
        await phases.revive()
        if kind == OURS:
            self.note(kind, "cancel of all", await phases.cancel(self.asked.moves))
            self.note(kind, "kill amid all", await phases.kill_amid(self.asked.moves))
            await phases.revive()


def told_of(phase: str, count: int) -> str:
    """The phase's name in the table."""
    return phase if count == 1 else f"{phase} many"


def table(found: dict[tuple[str, str], list[Figures]], kinds: Iterable[str]) -> Iterator[str]:
    """The figures side by side, as a Markdown table."""
    others = [kind for kind in kinds if kind != APACHE]
    peer = APACHE in kinds
    heads = [*others, *([APACHE] if peer else []), *(f"{APACHE} / {kind}" for kind in others if peer)]
    yield "| phase | " + " | ".join(["figure", *heads]) + " |"
    yield "| --- | " + " | ".join(["---"] * (len(heads) + 1)) + " |"
    for phase, told, take in ROWS:
        values = {kind: median(found.get((kind, phase), ()), take) for kind in (*others, APACHE)}
        if all(value is None for value in values.values()):
            continue
        cells = [shown(values[kind]) for kind in others] + ([shown(values[APACHE])] if peer else [])
        cells += [ratio(values[APACHE], values[kind]) for kind in others if peer]
        yield f"| {phase} | {told} | " + " | ".join(cells) + " |"


def median(figures: Iterable[Figures], take: Callable[[Figures], float]) -> float | None:
    """The median of one figure over complete phases; None if there are none."""
    values = [take(each) for each in figures if each.complete]
    return statistics.median(values) if values else None


def shown(value: float | None) -> str:
    """A figure as text."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def ratio(peer: float | None, ours: float | None) -> str:
    """The peer's figure divided by Shunter's."""
    return "-" if peer is None or not ours else f"{peer / ours:.1f}"


async def measure(asked: argparse.Namespace, folder: Path) -> int:
    """Run everything; the exit status is 0 if every phase was complete and all brokers knew the truth."""
    peer = [APACHE] if asked.peer else []
    if peer:
        await asyncio.to_thread(ensure_kafka, ZOOKEEPER_MODE_VERSION)
    logged = [LOGGED] if asked.logged else []
    measurement = Measurement(asked, folder)
    began = time.monotonic()
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()}")
    if asked.moves_alone:
        await measurement.moves_alone(asked.moves_alone)
    else:
        await measurement.cluster(asked.brokers, asked.partitions, [OURS, *logged, *peer], moving=False)
        if asked.moves:
            brokers = min(asked.brokers, asked.moving_brokers)
            partitions = min(asked.partitions, asked.moving_partitions)
            await measurement.cluster(brokers, partitions, [OURS, ALL_AT_ONCE, *peer], moving=True)
    print()
    print("\n".join(table(measurement.found, [OURS, ALL_AT_ONCE, *peer] if asked.moves else [OURS, *logged, *peer])))
    print(f"\nMedians. {time.monotonic() - began:.0f} s in all; load average now {os.getloadavg()}.")
    everything = [figures for several in measurement.found.values() for figures in several]
    return 0 if all(each.complete and not each.differences for each in everything) else 1


def main() -> int:
    """Measure in a temporary folder."""
    asked = arguments()
    gc.set_threshold(*YOUNG_THRESHOLDS)
    with tempfile.TemporaryDirectory(prefix="controller-scale-") as folder:
        return asyncio.run(measure(asked, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
