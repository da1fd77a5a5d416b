"""The cost of a commit, and whether writers of two processes lose one: Shunter's log, a Delta Lake or an Iceberg table.

    python lab/benchmarks/lake_commits.py --folder /tmp/commits --commits 200 [--delta | --iceberg] [--together 50]

Prints JSON: milliseconds of wall time for a commit, and how many commits of two concurrent processes are present.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from shunter.app.pipeline.stages import PipelineSettings, spark_session
from shunter.pipeline.lake.commit_log import Commit, CommitLog
from shunter.pipeline.lake.stores import LocalStore

NOW = datetime(2025, 3, 1, tzinfo=UTC)


def log_commits(folder: Path, who: str, commits: int) -> None:
    """Append to Shunter's log, after the present last commit."""
    log = CommitLog(LocalStore(folder), str(folder))
    for number in range(commits):
        state = log.state()
        while log.append(state, Commit(f"{who}-{number}", "json", committed_at=NOW)) is None:
            state = log.state()


ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"


@contextmanager
def table_of(kind: str, folder: Path) -> Iterator[tuple[Callable[[str], None], Callable[[], int], SparkSession]]:
    """A table of Delta Lake or Iceberg (a catalog of folders); yields functions to append a row and to count rows."""
    conf = {"spark.sql.shuffle.partitions": "1", "spark.log.level": "ERROR"}
    if kind == "iceberg":
        catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(folder)}
        conf |= {f"spark.sql.catalog.ice{name}": value for name, value in catalog.items()}
    settings = PipelineSettings("unused", "delta" if kind == "delta" else "parquet", "local[1]", "700m", conf)
    with spark_session(settings, packages=(ICEBERG,) if kind == "iceberg" else ()) as spark:

        def append(name: str) -> None:
            row = spark.createDataFrame([(name,)], "ingest_id string").coalesce(1)
            if kind == "delta":
                row.write.format("delta").mode("append").save(str(folder / "t"))
            else:
                row.writeTo("ice.db.t").append()

        def count() -> int:
            found = spark.read.format("delta").load(str(folder / "t")) if kind == "delta" else spark.table("ice.db.t")
            return found.count()

        if kind == "iceberg":
            spark.sql("CREATE TABLE IF NOT EXISTS ice.db.t (ingest_id string) USING iceberg")
        yield append, count, spark


def table_commits(kind: str, folder: Path, who: str, commits: int) -> None:
    """Append rows to a table of another format. A row that the table refuses ends the process."""
    with table_of(kind, folder) as (append, _, _):
        for number in range(commits):
            append(f"{who}-{number}")


def timed(work: Callable[[int], None], count: int) -> dict[str, float]:
    """Median of the first and the last tenth of the commits, in milliseconds."""
    took: list[float] = []
    for number in range(count):
        began = time.perf_counter()
        work(number)
        took.append((time.perf_counter() - began) * 1000)
    tenth = max(1, count // 10)
    return {
        "first_ms": round(statistics.median(took[:tenth]), 2),
        "last_ms": round(statistics.median(took[-tenth:]), 2),
    }


def ours(folder: Path, commits: int, together: int) -> dict[str, object]:
    """Measure Shunter's log: one writer, a reader without a cache, then two writing processes at once."""
    log = CommitLog(LocalStore(folder), str(folder))

    def commit(number: int) -> None:
        log.append(log.state(), Commit(f"a-{number}", "json", committed_at=NOW))

    found: dict[str, object] = {"commit": timed(commit, commits)}
    found["cold_read"] = timed(lambda _: CommitLog(LocalStore(folder), "").state() and None, 10)
    both = folder / "both"
    writers = [multiprocessing.Process(target=log_commits, args=(both, who, together)) for who in "xy"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    there = len(CommitLog(LocalStore(both), "").state().commits)
    found["by_two_processes"] = f"{there} of {2 * together}"
    return found


def others(kind: str, folder: Path, commits: int, together: int) -> dict[str, object]:
    """Measure the same with another table format."""
    with table_of(kind, folder / "one") as (append, count, _):
        append("warm")
        found: dict[str, object] = {"commit": timed(lambda number: append(f"a-{number}"), commits)}
        found["read"] = timed(lambda _: count() and None, 10)
    with table_of(kind, folder / "both") as (append, _, _):
        append("first")
    command = [sys.executable, __file__, "--folder", str(folder / "both"), "--commits", str(together), f"--{kind}"]
    begun = [subprocess.Popen([*command, "--writer", who]) for who in "xy"]
    found["exit_statuses"] = [other.wait() for other in begun]
    with table_of(kind, folder / "both") as (_, count, _):
        found["by_two_processes"] = f"{count() - 1} of {2 * together}"
    return found


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--together", type=int, default=50, help="commits of each of two processes at once")
    parser.add_argument("--delta", dest="kind", action="store_const", const="delta", default="log")
    parser.add_argument("--iceberg", dest="kind", action="store_const", const="iceberg")
    parser.add_argument("--writer")
    asked = parser.parse_args()
    if asked.writer:
        table_commits(asked.kind, asked.folder, asked.writer, asked.commits)
        return
    shutil.rmtree(asked.folder, ignore_errors=True)
    if asked.kind == "log":
        found = ours(asked.folder, asked.commits, asked.together)
    else:
        found = others(asked.kind, asked.folder, asked.commits, asked.together)
    used = resource.getrusage(resource.RUSAGE_SELF)
    load = round(os.getloadavg()[0], 1)
    processor = round(used.ru_utime + used.ru_stime, 2)
    print(json.dumps({"format": asked.kind, **found, "processor_s": processor, "load_average": load}))


if __name__ == "__main__":
    main()
