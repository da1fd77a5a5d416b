"""Batches of Cruise Control's dumps: partition samples into `samples`, broker samples into `broker_samples`, one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from shunter.pipeline.ingest import IngestOptions, IngestOutcome, examples_of, new_inputs, write_batch
from shunter.pipeline.lake import Commit, Lake, batch_id
from shunter.pipeline.schemas import BROKER_SAMPLES, REJECTS, SCHEMA_VERSION
from shunter.pipeline.sources.cruise_control import WINDOW_SECONDS, broker_samples, partition_samples, read_records
from shunter.pipeline.validation import RAW, Limits, first_broken, refuse, time_rules, told

KIND = "cruise-control"
_MOST_CPU = 2.0
"""A container may use more than its share for a while; what is above this is a percentage."""
_BYTES = ("bytes_in_rate", "bytes_out_rate", "replication_bytes_in_rate", "replication_bytes_out_rate")
_FIGURES = tuple(
    field.name
    for field in BROKER_SAMPLES.schema
    if field.dataType.typeName() == "double" or field.name in ("size_bytes", "request_queue", "response_queue")
)


def ingest_cruise_control(
    spark: SparkSession,
    lake: Lake,
    paths: Sequence[str],
    *,
    cluster: str,
    now: datetime,
    options: IngestOptions,
    window_seconds: int = WINDOW_SECONDS,
) -> IngestOutcome:
    """Ingest dumps of the sample store that were not ingested before; running it again changes nothing.

    Args:
        window_seconds: How often Cruise Control samples (`metric.sampling.interval.ms`).

    Raises:
        FormatError: a path does not exist, or a file has no binary column `value`.
    """
    new, skipped = new_inputs(spark, lake.commits(spark), paths, KIND)
    if not new:
        return IngestOutcome(None, skipped=skipped)
    ingest_id = batch_id(KIND, new)
    records = read_records(spark, [file.path for file in new])
    judged = judge_brokers(
        broker_samples(records, cluster=cluster, window_seconds=window_seconds), now=now, limits=options.limits
    )
    judged = _refuse_known(spark, lake, judged, ingest_id).persist()
    try:
        good = judged.where(F.col("rule").isNull())
        lake.write(good.withColumn("ingest_id", F.lit(ingest_id)), BROKER_SAMPLES)
        rows = partition_samples(records, cluster=cluster, window_seconds=window_seconds)
        rows = rows.unionByName(_as_rejects(judged))
        commit = write_batch(spark, lake, rows, Commit(ingest_id, KIND, new), now=now, options=options)
        brokers = good.count()
    finally:
        judged.unpersist()
    lake.commit(spark, commit, now)
    examples = examples_of(lake.read_batch(spark, REJECTS, ingest_id)) if commit.rejected else ()
    taken = IngestOutcome(ingest_id, commit.good, commit.rejected, commit.rules, examples, skipped)
    return replace(taken, broker_rows=brokers)


def judge_brokers(rows: DataFrame, *, now: datetime, limits: Limits) -> DataFrame:
    """Judge broker samples, each by itself and against those of the same window.

    Grain: one row per input row, none dropped; columns of `broker_samples` without ingest_id, and file, rule, detail.
    """
    rule, detail = first_broken(_rules(now, limits))
    judged = rows.select(
        *(name for name in rows.columns if name not in ("reader_rule", "reader_detail")),
        F.lit(SCHEMA_VERSION).alias("schema_version"),
        F.to_date("window_start").alias("date"),
        F.coalesce("reader_rule", rule).alias("rule"),
        F.coalesce("reader_detail", detail).alias("detail"),
    )
    # Of two rows for one window the same one must win whenever the batch is run again.
    same = Window.partitionBy("cluster_id", "broker_id", "window_start", F.col("rule").isNull()).orderBy(
        F.xxhash64(*_FIGURES)
    )
    numbered = judged.withColumn("number", F.row_number().over(same))
    twice = F.concat(F.lit("the same window twice: broker "), "broker_id", F.lit(" at "), "window_start")
    return refuse(numbered, F.col("number") > 1, "duplicate", twice).drop("number")


def _rules(now: datetime, limits: Limits) -> list[tuple[str, Column, Column]]:
    rules = [("negative", F.col("broker_id") < 0, told("broker_id", "is below 0")), *time_rules(now, limits)]
    for name in _FIGURES:
        if not name.endswith("_p999"):
            missing = F.col(name).isNull() | F.isnan(F.col(name).cast("double"))
            rules.append(("not_a_number", missing, F.lit(f"{name} is no number")))
        rules.append(("negative", F.col(name) < 0, told(name, "is below 0")))
    rules.append(("wrong_unit", F.col("cpu") > _MOST_CPU, told("cpu", "is no share of the processors (0 to 1)")))
    for name in (*_BYTES, "messages_in_rate"):
        limit = limits.messages_per_second if name == "messages_in_rate" else limits.bytes_per_second
        rules.append(
            ("absurd_rate", F.col(name) > F.lit(limit), told(name, f"is above {limit:g} a second: wrong unit?"))
        )
    too_big = F.col("size_bytes") > F.lit(limits.size_bytes)
    rules.append(("absurd_size", too_big, told("size_bytes", f"is above {limits.size_bytes}: wrong unit?")))
    return rules


def _refuse_known(spark: SparkSession, lake: Lake, judged: DataFrame, ingest_id: str) -> DataFrame:
    """Put aside windows that an earlier batch brought; a broker has few, so all of them are looked at."""
    known = lake.read(spark, BROKER_SAMPLES).where(F.col("ingest_id") != ingest_id)
    known = known.select(*BROKER_SAMPLES.key, F.col("ingest_id").alias("known_by"))
    joined = judged.join(known, on=list(BROKER_SAMPLES.key), how="left")
    detail = F.concat(F.lit("this window came with batch "), F.col("known_by"))
    return refuse(joined, F.col("known_by").isNotNull(), "already_ingested", detail).select(*judged.columns)


def _as_rejects(judged: DataFrame) -> DataFrame:
    """Broken broker samples in the columns of `validation.RAW`: they have no partition, and their amounts are null."""
    kept = ("cluster_id", "broker_id", "window_start", "window_seconds", "size_bytes", "source", "file")
    text, number = F.lit(None).cast("string"), F.lit(None).cast("bigint")
    columns = {
        "topic_id": text, "topic": text, "partition": F.lit(None).cast("int"), "role": text, "bytes_in": number,
        "bytes_out": number, "messages_in": number, "reader_rule": F.col("rule"),
        "reader_detail": F.concat(F.lit("a broker sample: "), "detail"), **{name: F.col(name) for name in kept},
    }  # fmt: skip
    return judged.where(F.col("rule").isNotNull()).select(*(columns[name].alias(name) for name in RAW))
