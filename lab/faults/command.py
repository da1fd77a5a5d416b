"""`./test --faults`: each fault in the middle of each piece of work, and the outcome as tables in docs/reliability.md.

The tables are the only store: a cell that is filled is not run again unless its row or column is named. So a run that
was ended goes on where it stood.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from lab.demo.account import ProvedOrNot
from lab.demo.proof import check_records
from lab.demo.stage import clients_log
from lab.demo.traffic import Traffic, read_everything
from lab.faults.controlled import ControlledCluster
from lab.faults.executed import ExecutedCluster
from lab.faults.faulted import ORIGINAL, RECORDS, TARGET, Fault, FaultedCluster
from lab.faults.transactions import LiveTransactions
from lab.testbed.failures import PartFailed
from lab.testbed.matrix import FAILED, ROOT, RUN_AT, Feature, VersionTable, now, read, written
from shunter.errors import DriverError

PAGE = ROOT / "docs" / "reliability.md"
CLUSTERS: dict[str, type[FaultedCluster]] = {"executor": ExecutedCluster, "controller": ControlledCluster}
WORKS = {"reassignment": "", "stop": "stop", "rollback": "rollback"}
"""The columns, and the order that is given in the middle of the fault."""
ENDS = {"reassignment": {TARGET}, "stop": None, "rollback": {ORIGINAL}}
READ_WITHIN_S = 180.0
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Run cells; the exit status: 0 only if all that ran passed."""
    parser = argparse.ArgumentParser(prog="./test --faults", description=__doc__)
    parser.add_argument("subjects", nargs="*", help=f"what drives the moves (default: {' '.join(CLUSTERS)})")
    parser.add_argument("--fault", action="append", help="run these rows again: a part of their name")
    parser.add_argument("--work", action="append", choices=list(WORKS), help="run these columns again")
    parser.add_argument("--out", type=Path, help="a new folder for logs and data")
    asked = parser.parse_args(arguments)
    if unknown := sorted(set(asked.subjects) - set(CLUSTERS)):
        parser.error(f"{', '.join(unknown)}: no such subject; there are {', '.join(CLUSTERS)}")
    out = asked.out or Path(tempfile.mkdtemp(prefix="shunter-faults-"))
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM, like ctrl-C, ends all parts in order.
    held = True
    try:
        with clients_log(out / "clients.log"):
            for subject in asked.subjects or CLUSTERS:
                held = _run(CLUSTERS[subject], out / subject, asked) and held
    except KeyboardInterrupt:
        _tell(f"interrupted; everything that was started has been stopped. Logs are in {out}")
        return INTERRUPTED
    if held:
        shutil.rmtree(out, ignore_errors=True)
    else:
        _tell(f"logs and data are in {out}")
    return 0 if held else 1


def _run(kind: type[FaultedCluster], out: Path, asked: argparse.Namespace) -> bool:
    """Run the cells of one table. After a failure the next cell gets a new cluster."""
    held, lives = True, 0
    done: set[tuple[str, str]] = set()
    while True:
        lives += 1
        with kind(out / str(lives)) as cluster:
            table = VersionTable(
                cluster.title, "", tuple(WORKS), tuple(Feature(each.name, ()) for each in cluster.faults())
            )
            cells = [
                (fault, work)
                for fault in cluster.faults()
                for work in WORKS
                if (fault.name, work) not in done and _wanted(table, fault, work, asked)
            ]
            for fault, work in cells:
                done.add((fault.name, work))
                outcome = _cell(cluster, fault, work)
                _write(table, fault.name, work, outcome)
                _tell(f"{cluster.title}: {fault.name}, {work}: {outcome}")
                if outcome.startswith(FAILED):
                    held = False
                    break
            else:
                return held


def _wanted(table: VersionTable, fault: Fault, work: str, asked: argparse.Namespace) -> bool:
    named = any(part in fault.name for part in asked.fault or ())
    if asked.fault or asked.work:
        return (named or not asked.fault) and (not asked.work or work in asked.work)
    return (fault.name, work) not in read(table, PAGE.read_text(encoding="utf-8"))


def _write(table: VersionTable, row: str, column: str, outcome: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    told = outcome.partition(":")[0]  # Why a cell failed is on the terminal, and in its logs.
    cells = read(table, page) | {(row, column): told, (RUN_AT, column): now()}
    PAGE.write_text(written(table, page, cells), encoding="utf-8")


def _cell(cluster: FaultedCluster, fault: Fault, work: str) -> str:
    """One fault in the middle of one piece of work; the cell's text."""
    try:
        partitions = cluster.furnish()
        traffic = Traffic(cluster.bootstrap, partitions, first=dict.fromkeys(partitions, RECORDS))
        with LiveTransactions(cluster.bootstrap, cluster.committed(), 2) as transactions:
            traffic.start()
            try:
                cluster.begin(cluster.plan())
                _break(cluster, fault, WORKS[work])
                cluster.hurry()
                cluster.wait_over()
            finally:
                traffic.stop()
        found = read_everything(cluster.bootstrap, partitions, READ_WITHIN_S)
        checks = [
            *check_records(traffic.acks, found),
            ProvedOrNot("every record was taken in the end", not traffic.failures, "; ".join(traffic.failures[:2])),
            cluster.ended_in(ENDS[work]),
            *cluster.left_over(),
        ]
        cluster.wait_well()
    except (PartFailed, DriverError, AssertionError) as failed:
        return f"{FAILED}: {failed}"
    if wrong := [f"{each.claim}: {each.found}" for each in checks if not each.holds]:
        return f"{FAILED}: {'; '.join(wrong)}"
    return f"{traffic.acked:,} and {len(transactions.committed)}; {traffic.longest_gap_s:.1f} s"


def _break(cluster: FaultedCluster, fault: Fault, verb: str) -> None:
    """Strike, give the order while it is broken, and mend."""
    fault.strike()
    with ThreadPoolExecutor(1) as threads:
        ordered = threads.submit(cluster.turn, verb) if verb else None
        Event().wait(fault.held_s)
        fault.mend()
        if ordered is not None:
            ordered.result()


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201 - the command's output
