"""The error of the executor's ETA, on real KRaft clusters, for all requirements in one command.

Every run moves the same filled topic to another placement and keeps each progress line. The true end is the moment at
which the journal closed the last move. The error of a line is |predicted end - true end| over the run's whole
duration. A run passes if no line from the given share of bytes on has a larger error than allowed. Of all lines with an
estimate it counts those whose 80 % interval has the true end. Of the lines from a fifth of the bytes on, and before the
last second, it has the least predicted rest as a share of the true rest, and counts those without an estimate.

    python lab/benchmarks/executor_eta.py [--runs 5] [--kinds throttled,free,limit,paused,steps,small,bounded,tiny]
        [--keep FOLDER]

With `--runs 5` that is forty runs in about an hour; `--runs 20` has twenty of each kind.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from lab.testbed.kraft import KRaftCluster
from lab.testbed.probes import brokers_known_at
from lab.testbed.waiting import wait_until
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import read_journal

BROKERS = (1, 2, 3)
ALL_BROKERS = (1, 2, 3, 4)
TOPIC = "eta"
PARTITIONS = 12
MEGABYTES = 200
# Two partitions that change both of their brokers: each has two steps, and both use the same brokers one after the
# other.
PAIR_MEGABYTES = 21
PAIRS = ((1, 2), (3, 4))
# Many partitions, most of them small: sizes from 0.5 to 40 MB, evenly over the logarithm.
SMALL, TINY = 75, 120
SMALL_MEGABYTES = tuple(round(0.5 * 80 ** (n * 29 % SMALL / (SMALL - 1)), 1) for n in range(SMALL))
# Without a throttle everything is copied within five seconds here, too fast to measure a rate. With fetches of one
# batch, as over a connection with a long delay, a run takes long enough. With a throttle brokers fetch with their
# default settings.
ONE_BATCH = {"replica.fetch.max.bytes": 16_384, "replica.fetch.response.max.bytes": 16_384}


# The last batch of a fetched partition may be cut off and dropped, but quotas count the dropped bytes, too: fetches of
# 128 KB with batches of 50 KB use three quarters of a throttle. With the producers' default batch size little is lost.
RECORD_BYTES, BATCH_BYTES = 1_000, 16_384


def placement(shift: int) -> dict[int, list[int]]:
    """One replica of each partition, spread evenly. Another shift moves every partition to another broker."""
    return {number: [BROKERS[(number + shift) % 3]] for number in range(PARTITIONS)}


def pair_placement(shift: int) -> dict[int, list[int]]:
    """Two replicas each of two partitions, all on the same two brokers."""
    return {number: list(PAIRS[shift % 2]) for number in range(2)}


def small_placement(shift: int, count: int = SMALL) -> dict[int, list[int]]:
    """Two replicas of each small partition. The next shift moves one replica of each."""
    return {number: [ALL_BROKERS[(number + shift + more) % 4] for more in (0, 1)] for number in range(count)}


def tiny_placement(shift: int) -> dict[int, list[int]]:
    """The same of partitions that have 1 MB each: their requests take longer than their bytes."""
    return small_placement(shift, TINY)


@dataclass(frozen=True)
class Scenario:
    """What a run does, the share of bytes from which on it is judged, and the allowed error of the estimate."""

    throttle: str | None
    judged_from: float
    allowed: float
    told_from: str
    disturb: str | None = None
    stage: str = "quotas"
    place: Callable[[int], dict[int, list[int]]] = placement
    options: tuple[str, ...] = ()


SCENARIOS = {
    "throttled": Scenario("20M", 0.1, 0.10, "from a tenth on"),
    "limit": Scenario("10M", 1.0, 0.20, "once a tenth of the rest is done", "limit"),
    "paused": Scenario("20M", 1.0, 0.20, "once a tenth of the rest is done", "paused"),
    "free": Scenario(None, 0.25, 0.15, "from a quarter on", stage="batches"),
    "steps": Scenario("2500K", 0.1, 0.10, "from a tenth on", stage="pairs", place=pair_placement),
    "small": Scenario("3M", 0.2, 0.20, "from a fifth on", stage="small", place=small_placement),
    "bounded": Scenario(
        "3M", 0.2, 0.20, "from a fifth on", stage="small", place=small_placement, options=("--max-in", "2")
    ),
    "tiny": Scenario("2M", 0.2, 0.20, "from a fifth on", stage="tiny", place=tiny_placement, options=("--max-in", "4")),
}
# Share of bytes at which the limit is doubled or the broker is paused.
DISTURBED_AT = 0.4


def shunter(cluster: KRaftCluster, journal: Path, *arguments: str) -> list[str]:
    """A command line of `shunter`."""
    command = [sys.executable, "-c", "from shunter.cli import main; main()", *arguments]
    return [*command, "--bootstrap-server", cluster.bootstrap, "--journal", str(journal)]


@dataclass(frozen=True)
class Run:
    """Progress lines, the end (seconds since the epoch), and the share done after a disturbance (None: without one)."""

    lines: list[dict[str, Any]]
    ended: float
    changed: float | None


def watched(command: list[str], disturbance: Callable[[], None] | None) -> tuple[list[dict[str, Any]], float | None]:
    """Progress lines of an execution, and the share that was done when the disturbance was over."""
    lines: list[dict[str, Any]] = []
    disturbing: threading.Thread | None = None
    changed: float | None = None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    for text in process.stdout:
        line = json.loads(text)
        if line["event"] != "progress" or not line["counts"]:
            continue
        lines.append(line)
        if disturbance is not None and disturbing is None and line["share"] >= DISTURBED_AT:
            disturbing = threading.Thread(target=disturbance)
            disturbing.start()
        if disturbing is not None and changed is None and not disturbing.is_alive():
            # The order comes from another process and takes a while. The share counts at which it was carried out.
            changed = line["share"]
    if process.wait() != 0:
        raise SystemExit(f"the executor ended with {process.returncode}")
    if disturbing is not None:
        disturbing.join()
    return lines, changed


@dataclass(frozen=True)
class Verdict:
    """The result of one run.

    `covered` of `estimates` lines have the true end in their interval. `least`: the least predicted rest as a share of
    the true rest. `unknown`: lines from a fifth on without an estimate. `first_share`: the share at the first judged
    line that had an estimate.
    """

    error: float
    covered: int
    estimates: int
    least: float
    unknown: int
    seconds: float
    first_share: float


def judged(run: Run, scenario: Scenario) -> Verdict:
    """Compare a run's lines with its end."""
    began = run.lines[0]["at_ms"] / 1000
    seconds = run.ended - began
    judged_from = scenario.judged_from if run.changed is None else run.changed + 0.1 * (1 - run.changed)
    told = [line for line in run.lines if line["share"] >= judged_from and line["at_ms"] / 1000 < run.ended]
    known = [line for line in told if line["left_ms"] is not None]
    if not known:
        return Verdict(1.0, 0, 0, 0.0, len(told), seconds, 1.0)
    errors = [abs(_rest_s(line, "left_ms", run)) / seconds for line in known]
    undisturbed = [line for line in run.lines if run.changed is None or line["share"] >= judged_from]
    estimates = [line for line in undisturbed if line["left_ms"] is not None and line["at_ms"] / 1000 < run.ended]
    covered = sum(_rest_s(line, "low_ms", run) <= 0 <= _rest_s(line, "high_ms", run) for line in estimates)
    late = [line for line in undisturbed if line["share"] >= 0.2 and line["at_ms"] / 1000 < run.ended - 1]
    least = [
        line["left_ms"] / 1000 / (run.ended - line["at_ms"] / 1000) for line in late if line["left_ms"] is not None
    ]
    return Verdict(
        max(errors),
        covered,
        len(estimates),
        min(least, default=1.0),
        len(late) - len(least),
        seconds,
        known[0]["share"],
    )


def _rest_s(line: dict[str, Any], which: str, run: Run) -> float:
    """Seconds from the true end to the end that a line predicts."""
    return float(line["at_ms"] / 1000 + line[which] / 1000 - run.ended)


def disturb(kind: str | None, cluster: KRaftCluster, journal: Path) -> None:
    """Double the limit from another shell, or pause a broker for five seconds."""
    if kind == "limit":
        subprocess.run(shunter(cluster, journal, "limit", "20M"), stdout=subprocess.DEVNULL, check=True)
    else:
        # The two other nodes still have a quorum.
        cluster.nodes[3].pause()
        time.sleep(5)
        cluster.nodes[3].resume()


def execute(cluster: KRaftCluster, folder: Path, number: int, scenario: Scenario) -> Run:
    """One run of a scenario, the `number`th on its cluster."""
    placed = scenario.place(number + 1)
    partitions = [{"topic": TOPIC, "partition": n, "replicas": r} for n, r in placed.items()]
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    journal = folder / f"{number}.journal"
    arguments = ["execute", str(plan), "--yes", "--json", *scenario.options]
    arguments += [] if scenario.throttle is None else ["--throttle", scenario.throttle]
    command = shunter(cluster, journal, *arguments)
    lines, changed = watched(
        command, None if scenario.disturb is None else partial(disturb, scenario.disturb, cluster, journal)
    )
    state, _holder = read_journal(JournalPlace(journal))
    return Run(lines, max(move.ended.at_ms for move in state.moves.values() if move.ended) / 1000, changed)


@dataclass(frozen=True)
class Stage:
    """A cluster that some kinds share: its brokers, their settings for fetches, and the size of each partition."""

    brokers: tuple[int, ...]
    properties: dict[str, int]
    megabytes: tuple[float, ...]


STAGES = {
    "quotas": Stage(BROKERS, {}, (MEGABYTES,) * PARTITIONS),
    "batches": Stage(BROKERS, ONE_BATCH, (MEGABYTES,) * PARTITIONS),
    "pairs": Stage(ALL_BROKERS, {}, (PAIR_MEGABYTES,) * 2),
    "small": Stage(ALL_BROKERS, {}, SMALL_MEGABYTES),
    "tiny": Stage(ALL_BROKERS, {}, (1,) * TINY),
}


def fill(bootstrap: str, stage: Stage) -> None:
    """Fill every partition with the stage's megabytes."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 50, "batch.size": BATCH_BYTES, "log_level": 0}
    )
    block = b"x" * RECORD_BYTES
    records = [int(megabytes * 1_000_000) // RECORD_BYTES for megabytes in stage.megabytes]
    for partition in (number for turn in range(max(records)) for number, count in enumerate(records) if turn < count):
        while True:
            try:
                producer.produce(TOPIC, block, partition=partition)
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
    if producer.flush(300):
        raise SystemExit("the topic could not be filled")


def filled(folder: Path, stage: Stage, scenario: Scenario) -> KRaftCluster:
    """Start a cluster with the filled topic; the caller stops it."""
    cluster = KRaftCluster(folder, node_ids=stage.brokers, heap_mib=256, properties=stage.properties)
    cluster.start()
    wait_until(
        lambda: all(brokers_known_at(node.port) == set(stage.brokers) for node in cluster.nodes.values()),
        what="every broker knows all brokers",
        timeout_s=60,
    )
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.create_topics([NewTopic(TOPIC, replica_assignments=scenario.place(0))])
    admin.wait_for_topics([TOPIC], timeout_ms=30_000)
    admin.close()
    fill(cluster.bootstrap, stage)
    return cluster


def told(kind: str, verdicts: list[Verdict]) -> str:
    """One kind's line of the summary."""
    scenario = SCENARIOS[kind]
    within = sum(verdict.error <= scenario.allowed for verdict in verdicts)
    errors = ", ".join(f"{verdict.error:.1%}" for verdict in sorted(verdicts, key=lambda verdict: verdict.error))
    return (
        f"{kind}: {within} of {len(verdicts)} runs within {scenario.allowed:.0%} {scenario.told_from} "
        f"(greatest errors {errors}); {intervals(verdicts)}"
    )


def intervals(verdicts: list[Verdict]) -> str:
    """The results of all lines in words."""
    covered, estimates = (sum(getattr(verdict, name) for verdict in verdicts) for name in ("covered", "estimates"))
    least = min(verdict.least for verdict in verdicts)
    return (
        f"the 80 % interval had the end in {covered} of {estimates} lines ({covered / max(1, estimates):.0%}); from a fifth on "
        f"at least {least:.0%} of the true rest, {sum(verdict.unknown for verdict in verdicts)} lines without an estimate"
    )


def main() -> None:
    """Run all kinds in turn, those of one stage on one cluster, and print the results for each requirement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5, help="Of each kind.")
    parser.add_argument("--kinds", default=",".join(SCENARIOS))
    parser.add_argument("--keep", type=Path, help="Folder for the progress lines of each run.")
    options = parser.parse_args()
    kinds = [kind for kind in SCENARIOS if kind in options.kinds.split(",")]
    verdicts: dict[str, list[Verdict]] = {kind: [] for kind in kinds}
    for name, stage in STAGES.items():
        some = [kind for kind in kinds if SCENARIOS[kind].stage == name]
        if not some:
            continue
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            cluster = filled(Path(folder) / "kraft", stage, SCENARIOS[some[0]])
            stack.callback(cluster.stop)
            # The kinds take turns, so that the machine's other load affects all of them.
            for number, (turn, kind) in enumerate((turn, kind) for turn in range(options.runs) for kind in some):
                run = execute(cluster, Path(folder), number, SCENARIOS[kind])
                if options.keep is not None:
                    keep(options.keep / f"{kind}-{turn}.jsonl", run)
                verdict = judged(run, SCENARIOS[kind])
                verdicts[kind].append(verdict)
                print(
                    f"{kind} {turn}: {verdict.seconds:.0f} s, greatest error {verdict.error:.1%} from "
                    f"{verdict.first_share:.0%} of the bytes on, {intervals([verdict])}, "
                    f"load average {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
    for kind in kinds:
        print(told(kind, verdicts[kind]))
    print(f"all: {intervals([verdict for kind in kinds for verdict in verdicts[kind]])}")


def keep(path: Path, run: Run) -> None:
    """Write a run's lines, without the moves, and its end."""
    kept = [{name: value for name, value in line.items() if name != "moves"} for line in run.lines]
    path.write_text("\n".join(json.dumps({**line, "ended": run.ended, "changed": run.changed}) for line in kept))


if __name__ == "__main__":
    main()
