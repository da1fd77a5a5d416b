"""The lake in Delta's format: Delta's jars are fetched like Kafka's, and the same commands give the same rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.testbed.java import QUICK_SPARK

pytest.importorskip("pyspark")

# Long: it fetches Delta's jars the first time.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1_200)]


def samples(path: Path, hours: range) -> str:
    rows = [
        {
            "cluster_id": "yard", "topic": "t", "partition": number, "broker_id": 1, "role": "leader",
            "window_start": f"2025-02-01T{hour:02}:00:00Z", "window_seconds": 3600, "bytes_in": 3600,
        }
        for number in range(5)
        for hour in hours
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK_SPARK,
}

# The table as an older version left it: without the column `joint_bound_percent`, which the next plan adds.
OLDER = """
import json, sys
from pyspark.sql import functions as F
from shunter.app.pipeline.stages import PipelineSettings, spark_session
from shunter.pipeline.lake.account_schemas import PLANS

settings = PipelineSettings(sys.argv[1], "delta", "local[1]", "512m", json.loads(sys.argv[2]))
names = [name for name in PLANS.columns if name != "joint_bound_percent"]

def rows(spark, plan_id, columns):
    types = {field.name: field.dataType for field in PLANS.schema}
    one = spark.range(1).select(*(F.lit(None).cast(types[name]).alias(name) for name in columns))
    return one.withColumns({"cluster_id": F.lit("yard"), "plan_id": F.lit(plan_id), "bytes_percent": F.lit(7.5)})

with spark_session(settings) as spark:
    lake = settings.lake
    old = rows(spark, "1-old", names).write.format("delta").partitionBy(*PLANS.partitions)
    old.save(lake.path(PLANS))
    before = [tuple(row) for row in lake.read(spark, PLANS).select("plan_id", "joint_bound_percent").collect()]
    lake.write(rows(spark, "2-new", PLANS.columns).withColumn("joint_bound_percent", F.lit(3.5)), PLANS)
    after = lake.read(spark, PLANS).select("plan_id", "joint_bound_percent").orderBy("plan_id")
    print(json.dumps([before, [tuple(row) for row in after.collect()]]))
"""


def test_a_table_of_an_older_version_is_read_and_written_on(work_dir: Path) -> None:
    command = [sys.executable, "-c", OLDER, str(work_dir / "older"), json.dumps(CONF)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert json.loads(ended.stdout) == [[["1-old", None]], [["1-old", None], ["2-new", 3.5]]]


def test_two_batches_one_again_and_a_model(work_dir: Path) -> None:
    def pipeline(*arguments: str) -> str:
        settings = [part for name, value in CONF.items() for part in ("--conf", f"{name}={value}")]
        command = [
            sys.executable,
            "-m",
            "shunter",
            "pipeline",
            "--root",
            str(work_dir / "lake"),
            "--table-format",
            "delta",
        ]
        command += ["--master", "local[2]", "--memory", "512m", *settings, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
        return ended.stdout + ended.stderr

    first, second = samples(work_dir / "a.json", range(3)), samples(work_dir / "b.json", range(2, 4))
    assert "15 rows taken, 0 put aside" in pipeline("ingest", first, "--kind", "json")
    told = pipeline("ingest", first, second, "--kind", "json")
    assert "a.json: taken before, skipped" in told
    assert "5 rows taken, 5 put aside" in told
    assert "already_ingested: 5" in told
    assert (work_dir / "lake" / "samples" / "_delta_log").is_dir()
    assert "all rows are in batch compact-" in pipeline("compact")
    assert "5 replicas, 5 with rates" in pipeline("model")
