"""A lake in Delta's format, in a session of its own: Delta's jars have to be there when Spark starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JOB = """
import json, sys
from datetime import UTC, datetime, timedelta
from shunter.app.pipeline.stages import Inputs, PipelineSettings, FleetPlanOptions, ingest, model, plan, roll_up, spark_session
from shunter.pipeline.lake.schemas import HOURLY, LOAD_MODEL, REJECTS, REPLICAS, SAMPLES

root, *files = sys.argv[1:]
settings = PipelineSettings(
    root, "delta", master="local[2]", memory="1g",
    conf={"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR", "spark.databricks.delta.snapshotPartitions": "1"},
)
lake, told = settings.lake, {}
with spark_session(settings) as spark:
    def rows(table):
        return lake.read(spark, table).count()

    told["ingests"] = []
    for path in files:
        kind = "snapshots" if path.endswith(".jsonl") else "json"
        brought = ingest(spark, lake, Inputs((path,), kind))
        told["ingests"].append([brought.good, dict(brought.rules), len(brought.skipped)])
    told["rows"] = [rows(SAMPLES), rows(REJECTS), rows(REPLICAS)]
    # A crash's attempt: written, and never committed.
    class Killed(BaseException):
        pass
    def dies(*_):
        raise Killed
    dying = type("Dying", (type(lake),), {"_append": dies})(lake.root, "delta")
    try:
        ingest(spark, dying, Inputs((files[-1],), "json", "another"))
    except Killed:
        pass
    told["after a crash"] = rows(SAMPLES)
    later = datetime.now(UTC) + timedelta(days=9)
    told["cleaned"] = list(lake.clean(spark, later, older_than=timedelta(0)))
    roll_up(spark, lake, keep_days=None)
    told["compacted"] = [rows(SAMPLES), rows(REJECTS), rows(HOURLY), sum(one.good > 0 for one in lake.live(spark))]
    told["cleaned again"] = list(lake.clean(spark, later, older_than=timedelta(0)))
    told["in the files"] = spark.read.format("delta").load(f"{root}/samples").count()
    model(spark, lake)
    again = model(spark, lake)
    told["model"] = [again.replicas, again.with_rates, rows(LOAD_MODEL)]
    _, outcomes = plan(spark, lake, FleetPlanOptions(snapshot_age=float("inf")), None)
    told["planned"] = [[one.cluster_id, one.status, one.basis.with_rates] for one in outcomes]
print(json.dumps(told))
"""

T0 = 1_738_368_000


def write(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def window(minute: int, partition: int = 0, **changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "cluster_id": "yard", "topic": "t", "partition": partition, "broker_id": 1, "role": "leader",
        "window_start": T0 + 60 * minute, "window_seconds": 60, "bytes_in": 6_000,
    }  # fmt: skip
    return row | changes


def snapshot(minute: int) -> list[dict[str, object]]:
    every = {"version": 1, "cluster_id": "yard", "taken_at_ms": (T0 + 60 * minute) * 1000}
    brokers = [
        {"id": broker, "host": "h", "rack": f"r{broker}", "disk_total_bytes": 10**12, "disk_usable_bytes": 10**11}
        for broker in (1, 2)
    ]
    partition = {
        "topic": "t", "topic_id": "id-t", "partition": 0, "replicas": [1, 2], "isr": [1, 2], "leader": 1,
        "start_offset": 0, "end_offset": 100, "min_insync": 1,
        "sizes": [{"broker": broker, "bytes": 5_000 + 6_000 * minute} for broker in (1, 2)],
    }  # fmt: skip
    return [{"kind": "cluster", **every, "brokers": brokers, "unanswered": [], "partitions": 1}, {"kind": "partition", **every, **partition}]  # fmt: skip


def test_two_batches_in_deltas_format_count_once_to_the_plan(tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", [window(0), window(1), window(1, bytes_in=-1)])
    second = write(tmp_path / "b.json", [window(1, bytes_in=7), window(2), window(0, partition=1)])
    seen = write(tmp_path / "s.jsonl", snapshot(2))
    ended = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path / "lake"), first, second, seen, second],
        capture_output=True, text=True, check=False, timeout=800,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told == {
        "ingests": [[2, {"negative": 1}, 0], [2, {"already_ingested": 1}, 0], [0, {}, 0], [0, {}, 1]],
        "rows": [4, 2, 2],
        "after a crash": 4,
        "cleaned": told["cleaned"],
        "compacted": [4, 2, 2, 1],
        "cleaned again": told["cleaned again"],
        "in the files": 6,
        "model": [2, 2, 2],
        "planned": [["yard", "planned", 1]],
    }
