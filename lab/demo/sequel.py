"""The demo's second half: the pipeline brings the cluster, which the first half left out of balance, into balance.

`shunter pipeline run` does it, in a process of its own, as an operator would call it. Its results are then checked in
the cluster itself, not in its tables.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import orjson
from deltalake import DeltaTable
from kafka import KafkaAdminClient

from lab.demo.account import ProvedOrNot, Screen, SequelAccount
from lab.demo.proof import check_records
from lab.demo.shares import shares_of, told_shares, within
from lab.demo.traffic import Acks, Traffic, read_everything
from shunter.drivers.admin.inventory import take_inventory
from shunter.model.inventory import Inventory
from shunter.model.partition import Replicas, TopicPartition
from shunter.pipeline.session import JAVA_OPTIONS, SMALL, SMALL_JAVA

THROTTLE_BYTES_PER_S = 4_000_000
SNAPSHOTS = 3
BETWEEN_SNAPSHOTS = "4s"
BAND = 0.1
"""How far from the mean a broker may be; this is the planner's default band."""
READ_TIMEOUT_S = 120.0
LOOKS = 20
PREFERRED = 0
"""Kafka's number for preferred elections."""
HEADINGS = ("Load per broker", "Moves as flows", "Timeline of moves", "Planned against real duration")
SPARK = {
    # `run` does not know yet that the cluster is small.
    **SMALL,
    JAVA_OPTIONS: SMALL_JAVA,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


def run_sequel(
    screen: Screen, bootstrap: str, partitions: Sequence[TopicPartition], folder: Path, report: Path
) -> SequelAccount:
    """Run the pipeline against a live cluster with clients at work, and check the results.

    Args:
        partitions: The partitions that are written meanwhile, and read back at the end.
        folder: For the pipeline's tables, snapshots, plan and journal.
        report: The file for the report.

    Raises:
        DriverError: the cluster does not answer.
    """
    configuration = {"bootstrap_servers": bootstrap}
    before = read_everything(bootstrap, partitions, READ_TIMEOUT_S)
    # The executor's claim on the cluster makes Kafka create `__consumer_offsets` after the plan: it does not count.
    topics = {tp.topic for tp in partitions}
    shares_before = shares_of(take_inventory(configuration), topics)
    traffic = Traffic(bootstrap, partitions, first={tp: max(found, default=-1) + 1 for tp, found in before.items()})
    traffic.start()
    screen.step(
        "the second half: samples, a load model, a plan, its execution and its report, by `shunter pipeline run`"
    )
    screen.detail(f"before: {told_shares(shares_before)}")
    began = time.monotonic()
    try:
        status = _run_pipeline(screen, bootstrap, folder)
    finally:
        traffic.stop()
    seconds = time.monotonic() - began
    screen.step("reading everything back, and looking at what the brokers hold")
    found = read_everything(bootstrap, partitions, READ_TIMEOUT_S)
    acks = {tp: Acks(sequence=[*before[tp], *traffic.acks[tp].sequence]) for tp in partitions}
    _elect_preferred(bootstrap)
    taken, accounted = _settled(bootstrap, topics), _accounted(folder)
    shares = shares_of(taken, topics)
    checks = (
        ProvedOrNot("`shunter pipeline run` ended well", status == 0, f"exit status {status}"),
        _check_done(accounted),
        _check_assignments(taken, folder),
        ProvedOrNot(
            f"every broker is within {1 - BAND:g}-{1 + BAND:g} of the mean of {', '.join(sorted(topics))}",
            within(shares, BAND),
            told_shares(shares),
        ),
        *check_records(acks, found),
        ProvedOrNot("no write was refused", not traffic.failures, "; ".join(traffic.failures[:2]) or "none"),
        _check_report(folder / "run" / "report.html"),
    )
    if (folder / "run" / "report.html").exists():
        shutil.copyfile(folder / "run" / "report.html", report)
    return SequelAccount(
        seconds=seconds,
        copies=int(accounted.get("done") or 0),
        bytes_copied=int(accounted.get("planned_bytes") or 0),
        planned_s=accounted.get("planned_seconds"),
        took_s=accounted.get("seconds"),
        before=told_shares(shares_before),
        after=told_shares(shares),
        records_acked=traffic.acked,
        report=report,
        checks=checks,
    )


def _run_pipeline(screen: Screen, bootstrap: str, folder: Path) -> int:
    command = [sys.executable, "-m", "shunter", "pipeline", "--root", str(folder / "lake")]
    command += ["--master", "local[2]", "--memory", "512m"]
    command += [part for name, value in SPARK.items() for part in ("--conf", f"{name}={value}")]
    command += ["run", "--bootstrap-server", bootstrap, "--out", str(folder / "run")]
    command += ["--snapshots", str(SNAPSHOTS), "--every", BETWEEN_SNAPSHOTS, "--throttle", str(THROTTLE_BYTES_PER_S)]
    command += ["--headroom-percent", "0"]  # All brokers are on one disk of this machine, however full it is.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for line in process.stdout or ():
                # Java prints this warning about Spark's options at every start, and no option turns it off.
                if line.strip() and "incubator modules" not in line:
                    screen.detail(line.rstrip())
        finally:
            if process.poll() is None:
                process.terminate()
    return process.returncode


def _elect_preferred(bootstrap: str) -> None:
    """Elect preferred leaders, as `kafka-leader-election` does after a plan; the controller would take minutes."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.elect_leaders(PREFERRED, raise_errors=False)  # If the preferred leader leads already, that is an error.
    finally:
        admin.close()


def _settled(bootstrap: str, topics: Collection[str]) -> Inventory:
    """The cluster, once clients see the last elections; waits for ten seconds at most."""
    waited = Event()
    for _ in range(LOOKS):
        taken = take_inventory({"bootstrap_servers": bootstrap})
        if within(shares_of(taken, topics), BAND):
            break
        waited.wait(0.5)
    return taken


def _accounted(folder: Path) -> dict[str, Any]:
    """The account's row of the only plan; empty if there is none."""
    table = folder / "lake" / "account_plans"
    if not table.exists():
        return {}
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    return rows[0] if len(rows) == 1 else {}


def _check_done(accounted: Mapping[str, Any]) -> ProvedOrNot:
    moves, done = int(accounted.get("moves") or 0), int(accounted.get("done") or 0)
    return ProvedOrNot("every planned move is accounted for, and done", 0 < moves == done, f"{done} of {moves} done")


def _check_assignments(taken: Inventory, folder: Path) -> ProvedOrNot:
    """Check that replicas are where the plan's file says."""
    asked: dict[TopicPartition, Replicas] = {}
    for path in (folder / "run").glob("*.json"):
        for entry in orjson.loads(path.read_bytes())["partitions"]:
            asked[TopicPartition(entry["topic"], entry["partition"])] = tuple(entry["replicas"])
    there = {TopicPartition(found.topic, found.partition): found.replicas for found in taken.partitions}
    wrong = [tp for tp, replicas in asked.items() if there.get(tp) != replicas]
    claim = "every partition of the plan is where it was asked to be, in that order"
    return ProvedOrNot(claim, bool(asked) and not wrong, f"{len(asked) - len(wrong)} of {len(asked)}")


def _check_report(path: Path) -> ProvedOrNot:
    claim = "the report has its four plots, in one file"
    if not path.exists():
        return ProvedOrNot(claim, holds=False, found="there is none")
    page = path.read_text(encoding="utf-8")
    missing = [heading for heading in HEADINGS if heading not in page]
    outside = "<script src" in page or "<link" in page
    seen = ", ".join(missing) or f"{page.count('<svg')} plots, {len(page) // 1000} kB, nothing from outside"
    return ProvedOrNot(claim, not missing and not outside, seen)
