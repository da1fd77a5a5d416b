"""What a commit costs, and whether writers of two processes lose one: our log beside a table of Delta Lake's.

    python benchmarks/lake_commits.py --folder /tmp/commits --commits 200 [--delta]

Prints JSON: seconds of wall clock and processor for each commit, and how many of those that two processes made are there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from shunter.app.pipeline import PipelineSettings, spark_session
from shunter.pipeline.commit_log import Commit, CommitLog
from shunter.pipeline.stores import LocalStore

NOW = datetime(2025, 3, 1, tzinfo=UTC)


def log_commits(folder: Path, who: str, commits: int) -> None:
    """Append to our log, behind whatever is there."""
    log = CommitLog(LocalStore(folder), str(folder))
    for number in range(commits):
        state = log.state()
        while log.append(state, Commit(f"{who}-{number}", "json", committed_at=NOW)) is None:
            state = log.state()


def delta_commits(folder: Path, who: str, commits: int) -> None:
    """Append rows to a table of Delta's; one that it refuses is tried again."""
    with spark_session(PipelineSettings("unused", "delta", master="local[1]", memory="700m")) as spark:
        for number in range(commits):
            row = spark.createDataFrame([(f"{who}-{number}",)], "ingest_id string").coalesce(1)
            row.write.format("delta").mode("append").save(str(folder))


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


def ours(folder: Path, commits: int) -> dict[str, object]:
    """One writer, a reader that begins anew, then two processes at once."""
    log = CommitLog(LocalStore(folder), str(folder))

    def commit(number: int) -> None:
        log.append(log.state(), Commit(f"a-{number}", "json", committed_at=NOW))

    found: dict[str, object] = {"commit": timed(commit, commits)}
    found["cold_read"] = timed(lambda _: CommitLog(LocalStore(folder), "").state() and None, 10)
    both = folder / "both"
    others = [multiprocessing.Process(target=log_commits, args=(both, who, 50)) for who in "xy"]
    for other in others:
        other.start()
    for other in others:
        other.join()
    found["of_100_by_two_processes"] = len(CommitLog(LocalStore(both), "").state().commits)
    return found


def deltas(folder: Path, commits: int) -> dict[str, object]:
    """The same with Delta."""
    found: dict[str, object] = {}
    with spark_session(PipelineSettings("unused", "delta", master="local[1]", memory="700m")) as spark:
        one = folder / "one"

        def commit(number: int) -> None:
            row = spark.createDataFrame([(f"a-{number}",)], "ingest_id string").coalesce(1)
            row.write.format("delta").mode("append").save(str(one))

        found["commit"] = timed(commit, commits)
        found["read"] = timed(lambda _: spark.read.format("delta").load(str(one)).collect() and None, 10)
        both = folder / "both"
        spark.createDataFrame([("first",)], "ingest_id string").write.format("delta").save(str(both))
    begun = [
        subprocess.Popen([sys.executable, __file__, "--folder", str(both), "--commits", "50", "--writer", who])
        for who in "xy"
    ]
    found["exit_statuses"] = [other.wait() for other in begun]
    with spark_session(PipelineSettings("unused", "delta", master="local[1]", memory="700m")) as spark:
        found["of_100_by_two_processes"] = spark.read.format("delta").load(str(both)).count() - 1
    return found


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--delta", action="store_true")
    parser.add_argument("--writer")
    asked = parser.parse_args()
    if asked.writer:
        delta_commits(asked.folder, asked.writer, asked.commits)
        return
    shutil.rmtree(asked.folder, ignore_errors=True)
    found = (deltas if asked.delta else ours)(asked.folder, asked.commits)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "format": "delta" if asked.delta else "log",
                **found,
                "processor_s": round(used.ru_utime + used.ru_stime, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
