"""A Spark cluster of its own starts, computes on its workers, and ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lab.testbed.process import run_bounded
from lab.testbed.spark import SparkStandalone

pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.long]

# The test runs in a Python process of its own, because the other tests' Spark session lives in this process.
JOB = """
import json, os, sys
from pyspark.sql import SparkSession
session = (
    SparkSession.builder.master(sys.argv[1])
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.memory", "512m")
    .config("spark.executor.memory", "512m")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
numbers = session.sparkContext.parallelize(range(100), 8)
parents = numbers.map(lambda number: (os.getcwd(), number))
print(json.dumps({"sum": parents.values().sum(), "places": sorted(set(parents.keys().collect()))}))
session.stop()
"""


def test_a_job_runs_on_the_workers(work_dir: Path) -> None:
    with SparkStandalone(work_dir, workers=2) as cluster:
        assert cluster.master.alive_workers() == 2
        done = run_bounded([sys.executable, "-c", JOB, cluster.url], timeout_s=180)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        processes = [daemon.process for daemon in (cluster.master, *cluster.workers)]
    assert told["sum"] == sum(range(100))
    # Executors work in their worker's folder, not in the driver's.
    assert told["places"]
    assert all(place.startswith(str(work_dir / "spark-worker-")) for place in told["places"])
    assert not any(process.alive for process in processes)


DEAD = """
from shunter.app.pipeline.stages import PipelineSettings, spark_session
from shunter.errors import DriverError
try:
    with spark_session(PipelineSettings("unused", master="local[1]", memory="512m")) as spark:
        spark.range(1).count()
        spark.sparkContext._jvm.java.lang.Runtime.getRuntime().halt(52)
        spark.range(1).count()
except DriverError as error:
    print(error)
"""


def test_a_java_process_that_ended_is_told_with_the_way_out() -> None:
    done = run_bounded([sys.executable, "-c", DEAD], timeout_s=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("give it more with --memory, such as 4g")
