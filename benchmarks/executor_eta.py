"""How far the executor's ETA is from the truth, on a real KRaft cluster.

Every run moves the same filled topic to another placement and keeps each progress line. The truth is the moment at
which the last move ended. The error of a line is |predicted end - real end| over the run's whole duration; a line
covers the truth if the real end lies in its 80 % interval. What is reported of a run: the greatest error of all lines
from the given share of bytes on, and whether the interval covered the truth at the first such line.

    python benchmarks/executor_eta.py [--runs 20] [--scenario throttled|free|limit|paused]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from shunter.testbed.kraft import KRaftCluster

BROKERS = (1, 2, 3)
TOPIC = "eta"
PARTITIONS = 12
# Throttles of real clusters are tens of megabytes per second, and a fetch is a small part of a second of them; here the
# throttle is small, so fetches are made as much smaller.
FETCHES = {"replica.fetch.max.bytes": 131_072, "replica.fetch.response.max.bytes": 524_288}
# Without a throttle nearly two gigabytes are copied within five seconds here, before anybody could tell a rate: a batch
# at a time, as over a long line, a run takes long enough to be judged.
ONE_BATCH = {"replica.fetch.max.bytes": 16_384, "replica.fetch.response.max.bytes": 16_384}


@dataclass(frozen=True)
class Scenario:
    """What a run does, from which share of bytes on it is judged, and how far off the estimate may be."""

    megabytes: int
    throttle: str | None
    judged_from: float
    allowed: float
    disturb: str | None = None


SCENARIOS = {
    "throttled": Scenario(30, "2M", 0.1, 0.10),
    "free": Scenario(200, None, 0.25, 0.20),
    # Disturbed at 40 % of the bytes; judged once a tenth of the rest is done.
    "limit": Scenario(30, "2M", 0.46, 0.20, "limit"),
    "paused": Scenario(30, "2M", 0.46, 0.20, "paused"),
}
DISTURBED_AT = 0.4


def placement(shift: int) -> dict[int, list[int]]:
    """One replica each, spread evenly; another shift moves every partition to another broker."""
    return {number: [BROKERS[(number + shift) % 3]] for number in range(PARTITIONS)}


def fill(bootstrap: str, megabytes: int) -> None:
    """So many megabytes into every partition."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 50, "batch.size": 65_536, "log_level": 0}
    )
    block = b"x" * 50_000
    for index in range(PARTITIONS * megabytes * 20):
        while True:
            try:
                producer.produce(TOPIC, block, partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
    if producer.flush(300):
        raise SystemExit("the topic could not be filled")


def shunter(cluster: KRaftCluster, journal: Path, *arguments: str) -> list[str]:
    """A command line."""
    command = [sys.executable, "-c", "from shunter.cli import main; main()", *arguments]
    return [*command, "--bootstrap-server", cluster.bootstrap, "--journal", str(journal)]


def watched(command: list[str], disturb: Callable[[], None] | None) -> tuple[list[dict[str, Any]], float]:
    """Progress lines of an execution, each with the moment it came, and the moment at which all was done."""
    lines: list[dict[str, Any]] = []
    disturbed = disturb is None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    ended = 0.0
    for text in process.stdout:
        line = json.loads(text)
        if line["event"] == "end":
            ended = time.time()
        if line["event"] != "progress" or not line["counts"]:
            continue
        lines.append(line)
        if not disturbed and line["share"] >= DISTURBED_AT and disturb is not None:
            disturbed = True
            disturb()
    if process.wait() != 0:
        raise SystemExit(f"the executor ended with {process.returncode}")
    return lines, ended


def judged(lines: list[dict[str, Any]], ended: float, scenario: Scenario) -> tuple[float, bool, float]:
    """(greatest error, covered at the first line judged, duration in seconds)."""
    began = lines[0]["at_ms"] / 1000
    duration = ended - began
    changed = next((line["share"] for line in lines if line["limit"] != lines[0]["limit"]), None)
    # The order comes from another process, which takes its time: a tenth of what was left when it was carried out.
    judged_from = scenario.judged_from if changed is None else changed + 0.1 * (1 - changed)
    told = [line for line in lines if line["share"] >= judged_from and line["running"]]
    known = [line for line in told if line["left_ms"] is not None]
    if not known:
        return 1.0, False, duration
    errors = [abs(line["at_ms"] / 1000 + line["left_ms"] / 1000 - ended) / duration for line in known]
    first = known[0]["at_ms"] / 1000
    covered = first + known[0]["low_ms"] / 1000 <= ended <= first + known[0]["high_ms"] / 1000
    return max(errors), covered, duration


def disturbance(kind: str | None, cluster: KRaftCluster, journal: Path) -> Callable[[], None] | None:
    """Double the limit from another shell, or let a broker stand still for eight seconds."""
    if kind == "limit":
        return lambda: subprocess.Popen(shunter(cluster, journal, "limit", "4M"), stdout=subprocess.DEVNULL) and None
    if kind == "paused":
        return lambda: stand_still(cluster)
    return None


def stand_still(cluster: KRaftCluster) -> None:
    """A broker that is not the quorum's only hope stops for a while and goes on."""
    cluster.nodes[3].pause()
    time.sleep(5)
    cluster.nodes[3].resume()


def main() -> None:
    """Run one scenario and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="throttled")
    parser.add_argument("--keep", type=Path, help="Folder for the progress lines of each run.")
    options = parser.parse_args()
    scenario = SCENARIOS[options.scenario]
    properties = ONE_BATCH if scenario.throttle is None else FETCHES
    errors: list[float] = []
    covered = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with KRaftCluster(folder / "kraft", node_ids=BROKERS, heap_mib=256, properties=properties) as cluster:
            admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
            admin.create_topics([NewTopic(TOPIC, replica_assignments=placement(0))])
            admin.wait_for_topics([TOPIC], timeout_ms=30_000)
            admin.close()
            fill(cluster.bootstrap, scenario.megabytes)
            for run in range(options.runs):
                wanted = placement(run + 1)
                plan = folder / "plan.json"
                partitions = [{"topic": TOPIC, "partition": n, "replicas": r} for n, r in wanted.items()]
                plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
                journal = folder / f"{run}.journal"
                arguments = ["execute", str(plan), "--yes", "--json"]
                arguments += [] if scenario.throttle is None else ["--throttle", scenario.throttle]
                command = shunter(cluster, journal, *arguments)
                lines, ended = watched(command, disturbance(scenario.disturb, cluster, journal))
                if options.keep is not None:
                    kept = [{name: value for name, value in line.items() if name != "moves"} for line in lines]
                    text = "\n".join(json.dumps({**line, "ended": ended}) for line in kept)
                    (options.keep / f"{options.scenario}-{run}.jsonl").write_text(text)
                error, hit, duration = judged(lines, ended, scenario)
                errors.append(error)
                covered += hit
                print(f"run {run}: {duration:.0f} s, greatest error {error:.1%}, covered {hit}", flush=True)
    within = sum(error <= scenario.allowed for error in errors)
    print(
        f"{options.scenario}: {within} of {len(errors)} runs within {scenario.allowed:.0%} from "
        f"{scenario.judged_from:.0%} of the bytes on (median of the greatest errors {statistics.median(errors):.1%}); "
        f"the 80 % interval covered the truth in {covered} of {len(errors)}"
    )


if __name__ == "__main__":
    main()
