#!/usr/bin/env python3
"""How long an order takes from the start of its command to its effect: lab/benchmarks/order_latency.py.

There is one KRaft cluster and one executor at work. Orders come from another shell with only `--bootstrap-server`.
The effect is the entry in the journal; both times are by the host's clock. Prints the median and the greatest of ten
orders.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import read_journal
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.model.execution import CommandTaken

SHUNTER = [sys.executable, "-c", "from shunter.cli import main; main()"]
ROUNDS = 10
PLAN = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2]}]}'


def commands(journal: Path) -> list[int]:
    """The time at which each order was accepted, ms since 1970."""
    reader = SqliteJournal(journal, "reader")
    try:
        return [entry.at_ms for entry in reader.load() if isinstance(entry.record, CommandTaken)]
    finally:
        reader.close()


def timed(verb: list[str], journal: Path) -> tuple[float, float]:
    """Seconds until an order took effect, and until its command had ended."""
    known, began = len(commands(journal)), time.time()
    done = subprocess.run([*SHUNTER, *verb], capture_output=True, text=True, check=False)
    ended = time.time()
    if done.returncode != 0:
        raise SystemExit(f"{verb}: {done.returncode} {done.stdout}{done.stderr}")
    return commands(journal)[known] / 1000 - began, ended - began


def main() -> None:
    """Measure and print."""
    with (
        tempfile.TemporaryDirectory() as folder,
        KRaftCluster(Path(folder) / "kraft", node_ids=(1, 2), heap_mib=200) as yard,
    ):
        os.environ["SHUNTER_STATE"] = folder
        admin = KafkaAdminClient(bootstrap_servers=yard.bootstrap)
        admin.create_topics([NewTopic("t", replica_assignments={0: [1]})])
        producer = KafkaProducer(bootstrap_servers=yard.bootstrap)
        for _ in range(6_000):
            producer.send("t", b"x" * 1_000)
        producer.flush()
        plan = Path(folder) / "plan.json"
        plan.write_text(PLAN)
        at = ["--bootstrap-server", yard.bootstrap]
        executor = subprocess.Popen(
            [*SHUNTER, "execute", str(plan), "--yes", "--throttle", "20K", *at], stdout=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: bool(admin.list_partition_reassignments()), what="the move", timeout_s=60)
            (journal,) = Path(folder).glob("*.journal")
            wait_until(lambda: journal.with_name(f"{journal.name}.view").exists(), what="its view", timeout_s=20)
            verbs = (["pause"], ["resume"], ["limit", "30K"])
            found = [[timed([*verb, *at], journal) for verb in verbs] for _ in range(ROUNDS)]
            for verb, times in zip(verbs, zip(*found, strict=True), strict=True):
                told = [
                    f"{statistics.median(each):.2f} s (at most {max(each):.2f} s)" for each in zip(*times, strict=True)
                ]
                print(f"{verb[0]}: effect after {told[0]}, answered after {told[1]}")
            took = timed(["stop", *at], journal)
            print(f"stop: effect after {took[0]:.2f} s, answered after {took[1]:.2f} s")
            executor.wait(60)
            assert not read_journal(JournalPlace(journal))[0].open_moves()
        finally:
            executor.kill()


if __name__ == "__main__":
    main()
