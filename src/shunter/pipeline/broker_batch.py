"""Batches of Cruise Control's dumps: partition samples into `samples`, broker samples into `broker_samples`, one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from shunter.errors import FormatError
from shunter.pipeline.broken_files import BrokenFile, put_broken_aside, taking_what_can_be_read
from shunter.pipeline.commit_log import Commit, InputFile, LogState
from shunter.pipeline.ingest import IngestOptions, IngestOutcome, new_inputs, outcome_of, write_batch
from shunter.pipeline.lake import Lake, batch_id, list_inputs
from shunter.pipeline.schemas import BROKER_SAMPLES, SCHEMA_VERSION
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
    skipped: tuple[str, ...] = ()
    brokers = 0

    def prepare(state: LogState, attempt: str) -> Commit | None:
        nonlocal skipped, brokers
        new, skipped = new_inputs(state, found, KIND)
        if not new:
            return None

        def take(files: Sequence[InputFile], broken: Sequence[BrokenFile]) -> Commit:
            nonlocal brokers
            if not files:
                raise FormatError(broken[0].path, f"can't be read to its end: {broken[0].why}")
            records = read_records(spark, [file.path for file in files])
            begun = Commit(attempt, KIND, new, tables=(BROKER_SAMPLES.name,))
            judged = broker_samples(records, cluster=cluster, window_seconds=window_seconds)
            judged = judge_brokers(judged, now=now, limits=options.limits)
            judged = _refuse_known(lake.read(spark, BROKER_SAMPLES, state.live), judged).persist()
            try:
                good = judged.where(F.col("rule").isNull())
                lake.write_rows(good, BROKER_SAMPLES, attempt)
                rows = partition_samples(records, cluster=cluster, window_seconds=window_seconds)
                rows = rows.unionByName(_as_rejects(judged))
                if broken:
                    rows = rows.unionByName(put_broken_aside(spark, broken, KIND))
                commit = write_batch(spark, lake, state, rows, begun, now=now, options=options)
                brokers = good.count()
            finally:
                judged.unpersist()
            return replace(commit, clusters=tuple(sorted({*commit.clusters, cluster})))

        read = partial(read_records, spark)
        return taking_what_can_be_read(new, read, take, partial(lake.discard, spark, attempt))

    found = list_inputs(spark, paths)
    made = lake.transact(spark, batch_id(KIND, found), prepare, now)
    return replace(outcome_of(spark, lake, made, skipped), broker_rows=brokers)


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


def _refuse_known(committed: DataFrame, judged: DataFrame) -> DataFrame:
    """Put aside windows that an earlier batch brought; a broker has few, so all of them are looked at."""
    known = committed.select(*BROKER_SAMPLES.key, F.col("ingest_id").alias("known_by"))
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
