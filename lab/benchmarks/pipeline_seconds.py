"""What a small cluster's pipeline costs, from snapshots to the report: seconds, and Spark's jobs and tasks.

    python lab/benchmarks/pipeline_seconds.py            # 124 partitions; all stages in one process
    python lab/benchmarks/pipeline_seconds.py --apart    # a process, and so a JVM, for each stage

The stages run as `shunter pipeline` runs them. Jobs, tasks and the processor time of tasks come from Spark's event
log. "Processor" is the time of all processes, Python's and the JVM's start included.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from shunter.formats.inventory_files import encode_inventory
from shunter.model.inventory import Disk, Inventory, InventoryBroker, InventoryPartition

BROKERS = 6
SNAPSHOTS = 4
EVERY_SECONDS = 60
STAGES = (
    ("ingest", "--kind", "snapshots", "{work}/snapshots"),
    ("model",),
    ("plan", "--out", "{work}/plans"),
    ("schedule", "--throttle", "50e6"),
    ("report", "--out", "{work}/report.html"),
)
PR_SET_CHILD_SUBREAPER = 36


class Cost(NamedTuple):
    """What a run cost. Times are seconds; `of_tasks` is the processor time of Spark's tasks, a part of `processor`."""

    stages: str
    jobs: int
    tasks: int
    of_tasks: float
    processor: float
    wall: float


def main() -> None:
    """Run the stages; print what each run cost, and the sum as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=124)
    parser.add_argument("--apart", action="store_true", help="a process for each stage")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    parser.add_argument("--keep", type=Path, help="copy the lake there")
    arguments = parser.parse_args()
    # The JVM outlives the Python that started it by a moment: its time counts once this process has seen its end.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="shunter-seconds-") as work:
        take_snapshots(Path(work) / "snapshots", arguments.partitions)
        stages = [tuple(word.format(work=work) for word in stage) for stage in STAGES]
        runs = stages if arguments.apart else [("do", *(word for stage in stages for word in stage))]
        costs = [cost_of(Path(work), run, arguments.conf) for run in runs]
        if arguments.keep:
            shutil.copytree(Path(work) / "lake", arguments.keep)
    for cost in costs:
        print(
            f"{cost.stages}: {cost.jobs} jobs, {cost.tasks} tasks, processor {cost.processor:.1f} s "
            f"({cost.of_tasks:.1f} s of tasks), wall {cost.wall:.1f} s"
        )
    sums = {name: round(sum(getattr(cost, name) for cost in costs), 1) for name in Cost._fields[1:]}
    print(json.dumps({"partitions": arguments.partitions, **sums, "load_average": os.getloadavg()[0]}))


def take_snapshots(folder: Path, partitions: int) -> None:
    """Write snapshots of a cluster out of balance, whose topics grow, as `shunter pipeline collect` does."""
    dice = random.Random(7)
    folder.mkdir()
    room = 10**12
    brokers = tuple(
        InventoryBroker(one, f"kafka{one}", f"rack-{one % 3}", room, room // 2, log_dirs=(Disk("/data", room, room // 2),))
        for one in range(BROKERS)
    )  # fmt: skip
    shapes = [
        (tuple(dice.sample(range(BROKERS), 3)) if dice.random() < 0.4 else (0, 1, 2), dice.randint(10**6, 10**9))
        for _ in range(partitions)
    ]
    now = round(time.time()) - SNAPSHOTS * EVERY_SECONDS
    for number in range(SNAPSHOTS):
        taken = tuple(
            InventoryPartition(
                f"topic-{at // 20}", f"AAAAAAAAAAAAAAAAAAAA{at // 20:02}", at % 20, replicas, replicas, replicas[0],
                0, (size + number * size // 100) // 500, 2,
                tuple((one, size + number * size // 100) for one in replicas), (), "delete",
            )
            for at, (replicas, size) in enumerate(shapes)
        )  # fmt: skip
        found = Inventory("bench", (now + number * EVERY_SECONDS) * 1000, brokers, taken)
        (folder / f"bench-{found.taken_at_ms}.jsonl").write_bytes(b"".join(encode_inventory(found)))


def cost_of(work: Path, stages: tuple[str, ...], conf: list[str]) -> Cost:
    """Run a command of `shunter pipeline` in a process of its own."""
    log = Path(tempfile.mkdtemp(dir=work))
    settings = {
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": str(log), "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }  # fmt: skip
    command = [sys.executable, "-m", "shunter", "pipeline", "--root", str(work / "lake"), "--master", "local[2]"]
    command += [
        part
        for entry in (*(f"{name}={value}" for name, value in settings.items()), *conf)
        for part in ("--conf", entry)
    ]
    began, spent = time.perf_counter(), _spent()
    subprocess.run([*command, *stages], check=True)
    wall = time.perf_counter() - began
    _see_the_end_of_orphans()
    (found,) = log.iterdir()
    events = [json.loads(line) for line in found.read_text().splitlines()]
    ended = [event["Task Metrics"] for event in events if event["Event"] == "SparkListenerTaskEnd"]
    jobs = sum(event["Event"] == "SparkListenerJobStart" for event in events)
    of_tasks = sum(one["Executor CPU Time"] for one in ended) / 1e9
    names = " ".join(stage[0] for stage in STAGES if stage[0] in stages)
    return Cost(names, jobs, len(ended), of_tasks, _spent() - spent, wall)


def _see_the_end_of_orphans() -> None:
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
