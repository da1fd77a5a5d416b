"""How the time of ingest and model grows with the number of samples, on two cores and 8 GB.

    python lab/benchmarks/pipeline_scale.py wide 6000000      # partitions × 30 hours, one row per leader replica
    python lab/benchmarks/pipeline_scale.py wide 60000000     # 2,000,000 partitions × 30
    python lab/benchmarks/pipeline_scale.py year 43800000     # 5,000 partitions × 8,760 hours

Spark generates the input itself (not counted). Each step's wall time is printed together with its processor time,
because other load on the machine affects only the wall time. The last line is JSON. `--stages` adds a line for each
of Spark's stages that took a second or longer, from Spark's event log.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.testbed.process_figures import cpu_seconds, peak_mib
from shunter.app.pipeline.delta_jars import delta_jars
from shunter.app.pipeline.stages import model_lake
from shunter.drivers.host.cache import cache_folder
from shunter.pipeline.ingest.batches import IngestOptions, ingest_files
from shunter.pipeline.lake.schemas import LOAD_MODEL
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.session import SessionSettings, open_session
from shunter.pipeline.sources.tables import read_table

HOURS = {"wide": 30, "year": 8_760}
START = 1_704_067_200
NOW = datetime(2025, 3, 1, tzinfo=UTC)
EVENT_LOG = {
    f"spark.eventLog.{name}": value
    for name, value in (("enabled", "true"), ("rolling.enabled", "false"), ("compress", "false"))
}


def main() -> None:
    """Generate, ingest, model; print the time of each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=sorted(HOURS))
    parser.add_argument("rows", type=int)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="5g", help="Java heap; the rest of the 8 GB is for buffers outside of it")
    parser.add_argument("--folder", type=Path, default=None, help="where to work; default: a folder that is removed")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    parser.add_argument("--input", type=Path, default=None, help="samples to use; made there first if it is not there")
    parser.add_argument("--stages", action="store_true", help="write Spark's event log, and print what its stages took")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shunter-scale-", dir=arguments.folder))
    spark = open_session(
        SessionSettings(
            name="pipeline-scale",
            master=f"local[{arguments.cores}]",
            memory=arguments.memory,
            jars=delta_jars(cache_folder()),
            conf={
                "spark.local.dir": str(folder),
                "spark.log.level": "ERROR",
                **(EVENT_LOG | {"spark.eventLog.dir": str(folder)} if arguments.stages else {}),
                **{name: value for name, _, value in (entry.partition("=") for entry in arguments.conf)},
            },
        )
    )
    try:
        samples = arguments.input or folder / "in"
        if not samples.exists():
            generate(spark, arguments.shape, arguments.rows).write.parquet(str(samples))
        found = measure(spark, arguments.shape, arguments.rows, folder, samples)
        print(json.dumps(found | {"cores": arguments.cores}))
        application = spark.sparkContext.applicationId
        spark.stop()
        if arguments.stages:
            print(*stages(folder / application), sep="\n")
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(spark: SparkSession, shape: str, rows: int, folder: Path, samples: Path) -> dict[str, object]:
    """Run both steps once, into a new lake."""
    lake = Lake(str(folder / "lake"))
    ingest_seconds, ingest_processor = timed(lambda: ingest(spark, lake, samples))
    model_seconds, model_processor = timed(lambda: model_lake(spark, lake))
    replicas = lake.read(spark, LOAD_MODEL).count()
    good = sum(commit.good for commit in lake.live(spark))
    assert good == rows, f"{good} of {rows} rows were good"
    return {
        "shape": shape,
        "rows": rows,
        "replicas": replicas,
        "ingest_seconds": round(ingest_seconds, 1),
        "ingest_processor_seconds": round(ingest_processor, 1),
        "model_seconds": round(model_seconds, 1),
        "model_processor_seconds": round(model_processor, 1),
        "peak_memory_mib": peak_memory_mib(),
        "load_average": os.getloadavg()[0],
    }


def generate(spark: SparkSession, shape: str, rows: int) -> DataFrame:
    """Samples as an exporter would write them, with a daily wave, replica by replica."""
    hours = HOURS[shape]
    each = spark.range(0, rows, 1, max(8, rows // 2_000_000)).select(
        (F.col("id") / hours).cast("long").alias("replica"), (F.col("id") % hours).alias("hour")
    )
    level = F.pmod(F.hash("replica"), F.lit(10_000)).cast("long") + 1
    wave = 1 + 0.5 * F.sin(F.col("hour") * (3.14159 / 12)) + 0.1 * F.rand(7)
    bytes_in = (level * 3_600 * 100 * wave).cast("long")
    return each.select(
        F.lit("bench").alias("cluster_id"),
        F.format_string("topic-%06d", (F.col("replica") / 20).cast("long")).alias("topic"),
        (F.col("replica") % 20).cast("int").alias("partition"),
        (F.pmod(F.hash("replica", F.lit(1)), F.lit(200))).cast("int").alias("broker_id"),
        F.lit("leader").alias("role"),
        F.timestamp_seconds(F.col("hour") * 3_600 + START).alias("window_start"),
        F.lit(3_600).alias("window_seconds"),
        bytes_in.alias("bytes_in"),
        (bytes_in * 2).alias("bytes_out"),
        (bytes_in / 500).cast("long").alias("messages_in"),
        (level * 10_000_000 + F.col("hour") * 100_000).cast("long").alias("size_bytes"),
    )


def ingest(spark: SparkSession, lake: Lake, folder: Path) -> None:
    """Ingest as `shunter pipeline ingest` does."""
    options = IngestOptions()
    ingest_files(
        spark, lake, [str(folder)], "parquet", lambda s, p: read_table(s, p, "parquet"), now=NOW, options=options
    )


def stages(event_log: Path) -> Iterator[str]:
    """A line for each stage of a second or more: seconds of its tasks, processor and garbage collection, and bytes."""
    longest: dict[int, float] = {}
    for line in event_log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            took = (event["Task Info"]["Finish Time"] - event["Task Info"]["Launch Time"]) / 1000
            longest[event["Stage ID"]] = max(longest.get(event["Stage ID"], 0), took)
        if event["Event"] != "SparkListenerStageCompleted":
            continue
        stage = event["Stage Info"]
        found = {one["Name"].removeprefix("internal.metrics."): one["Value"] for one in stage["Accumulables"]}
        wall = (stage["Completion Time"] - stage["Submission Time"]) / 1000
        if wall < 1:
            continue
        mib = {
            name: int(found.get(metric, 0)) >> 20
            for name, metric in (
                ("read", "input.bytesRead"), ("written", "output.bytesWritten"), ("shuffled in", "shuffle.read.localBytesRead"),
                ("shuffled out", "shuffle.write.bytesWritten"), ("spilled", "diskBytesSpilled"),
            )
        }  # fmt: skip
        yield (
            f"stage {stage['Stage ID']}: {wall:.1f} s, {stage['Number of Tasks']} tasks, the longest {longest[stage['Stage ID']]:.1f} s, "
            f"all {found['executorRunTime'] / 1e3:.1f} s, processor {found['executorCpuTime'] / 1e9:.1f} s, "
            f"garbage collection {found.get('jvmGCTime', 0) / 1e3:.1f} s, MiB: "
            + ", ".join(f"{name} {value}" for name, value in mib.items() if value)
        )


def timed(step: object) -> tuple[float, float]:
    """(wall, processor) seconds of a step; processor time is that of the JVM and of this process."""
    began, spent = time.perf_counter(), _processor_seconds()
    step()  # type: ignore[operator]
    return time.perf_counter() - began, _processor_seconds() - spent


def _processor_seconds() -> float:
    return cpu_seconds(_jvm()) + time.process_time()


def peak_memory_mib() -> int:
    """The JVM's peak resident memory."""
    return int(peak_mib(_jvm()))


def _jvm() -> int:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return int(next(child for child in children if "java" in Path(f"/proc/{child}/cmdline").read_text()))


if __name__ == "__main__":
    main()
