"""Batches with samples of partitions and of whole brokers: into `samples` and `broker_samples`, by one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from shunter.errors import FormatError
from shunter.formats.series_labels import SeriesLabels
from shunter.pipeline.ingest.batches import (
    IngestOptions,
    IngestOutcome,
    begin_batch,
    new_inputs,
    outcome_of,
    write_batch,
)
from shunter.pipeline.ingest.broken_files import BrokenFile, put_broken_aside, taking_what_can_be_read
from shunter.pipeline.ingest.inputs import batch_id, list_inputs
from shunter.pipeline.ingest.validation import (
    Limits,
    as_raw,
    first_broken,
    refuse,
    time_rules,
    told,
    told_other_cluster,
)
from shunter.pipeline.lake.commits import Commit, InputFile, LogState
from shunter.pipeline.lake.schemas import BROKER_SAMPLES, REPLICAS, SCHEMA_VERSION
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.sources.cruise_control import (
    WINDOW_SECONDS,
    broker_samples,
    partition_samples,
    read_cruise_control,
)
from shunter.pipeline.sources.cruise_control_load import broker_stats, partition_loads, read_cruise_control_load
from shunter.pipeline.sources.prometheus import read_prometheus
from shunter.pipeline.sources.prometheus_brokers import prometheus_brokers
from shunter.pipeline.sources.prometheus_forms import Told, told_by_answers, told_by_export, told_by_pages

CRUISE_CONTROL, CRUISE_CONTROL_LOAD = "cruise-control", "cruise-control-load"
PROMETHEUS_FORMS: dict[str, Told] = {
    "prometheus": told_by_answers,
    "prometheus-export": told_by_export,
    "prometheus-text": told_by_pages,
}
"""The kinds of files that hold series of Prometheus, and their readers."""
_MOST_CPU = 2.0
"""A container may use more than its share for a while. A greater value must be a percentage."""
_BYTES = ("bytes_in_rate", "bytes_out_rate", "replication_bytes_in_rate", "replication_bytes_out_rate")
_FIGURES = tuple(
    field.name
    for field in BROKER_SAMPLES.schema
    if field.dataType.typeName() == "double" or field.name in ("size_bytes", "request_queue", "response_queue")
)


class BrokerReader(NamedTuple):
    """How files of one kind are read."""

    kind: str
    read: Callable[[SparkSession, Sequence[str]], DataFrame]
    """Reads everything in the files, in any columns, to find out which files can't be read."""
    partitions: Callable[[SparkSession, Sequence[str], DataFrame], DataFrame]
    """Columns of `validation.RAW`. The third argument has the replicas of all snapshots."""
    brokers: Callable[[SparkSession, Sequence[str]], DataFrame]
    """Columns of `broker_samples` but for the batch's, and file, reader_rule, reader_detail."""
    dated: datetime | Literal["modified"] | None = None
    """For files without times in them, as for `list_inputs`."""


def cruise_control_reader(cluster: str, window_seconds: int = WINDOW_SECONDS) -> BrokerReader:
    """Dumps of Cruise Control's sample store.

    Args:
        window_seconds: How often Cruise Control samples (`metric.sampling.interval.ms`).
    """

    def partitions(spark: SparkSession, paths: Sequence[str], _: DataFrame) -> DataFrame:
        return partition_samples(read_cruise_control(spark, paths), cluster=cluster, window_seconds=window_seconds)

    def brokers(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
        return broker_samples(read_cruise_control(spark, paths), cluster=cluster, window_seconds=window_seconds)

    return BrokerReader(CRUISE_CONTROL, read_cruise_control, partitions, brokers)


def load_reader(cluster: str, window_seconds: int, at: datetime | None = None) -> BrokerReader:
    """Answers of Cruise Control's `/partition_load` and `/load`.

    Args:
        cluster: Their cluster.
        window_seconds: The time that their means are of.
        at: When they were asked for; None: as each file says.
    """
    given: dict[str, Any] = {"cluster": cluster, "window_seconds": window_seconds}

    def partitions(spark: SparkSession, paths: Sequence[str], _: DataFrame) -> DataFrame:
        return partition_loads(read_cruise_control_load(spark, paths, at=at), **given)

    def brokers(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
        return broker_stats(read_cruise_control_load(spark, paths, at=at), **given)

    return BrokerReader(CRUISE_CONTROL_LOAD, read_cruise_control_load, partitions, brokers, at or "modified")


def prometheus_reader(kind: str, cluster: str | None, labels: SeriesLabels, at: datetime | None = None) -> BrokerReader:
    """Series of Prometheus.

    Args:
        kind: One of `PROMETHEUS_FORMS`.
        cluster: The cluster of series that no label gives to one.
        labels: Which labels name clusters and brokers.
        at: Pages: when they were saved, for lines without a time.
    """
    told = PROMETHEUS_FORMS[kind]
    is_page = told is told_by_pages
    if is_page:
        told = partial(told_by_pages, at=at)
    given: dict[str, Any] = {"cluster": cluster, "labels": labels, "told": told}

    def partitions(spark: SparkSession, paths: Sequence[str], replicas: DataFrame) -> DataFrame:
        return read_prometheus(spark, paths, **given, replicas=replicas)

    read, of_brokers = (partial(one, **given) for one in (read_prometheus, prometheus_brokers))
    return BrokerReader(kind, read, partitions, of_brokers, (at or "modified") if is_page else None)


def ingest_with_brokers(
    spark: SparkSession,
    lake: Lake,
    paths: Sequence[str],
    reader: BrokerReader,
    *,
    now: datetime,
    options: IngestOptions,
) -> IngestOutcome:
    """Ingest files that were not ingested before; running it again changes nothing.

    Raises:
        FormatError: a path does not exist, or no file can be read to its end.
    """
    skipped: tuple[str, ...] = ()
    brokers = 0

    def prepare(state: LogState, attempt: str) -> Commit | None:
        nonlocal skipped, brokers
        new, skipped = new_inputs(state, found, reader.kind)
        if not new:
            return None

        def take(begun: Commit, files: Sequence[InputFile], broken: Sequence[BrokenFile]) -> Commit:
            nonlocal brokers
            if not files and reader.kind == CRUISE_CONTROL:
                raise FormatError(broken[0].path, f"can't be read to its end: {broken[0].why}")
            if not files:
                aside = put_broken_aside(spark, broken, reader.kind)
                return write_batch(spark, lake, state, aside, begun, now=now, options=options)
            paths = [file.path for file in files]
            judged = judge_brokers(reader.brokers(spark, paths), now=now, options=options)
            judged = _refuse_known(lake.read(spark, BROKER_SAMPLES, state.live), judged).persist()
            try:
                good = judged.where(F.col("rule").isNull())
                by_cluster = good.groupBy("cluster_id").agg(F.count("*").alias("rows")).collect()
                brokers = sum(row["rows"] for row in by_cluster)
                replicas = lake.read(spark, REPLICAS, state.live)
                rows = reader.partitions(spark, paths, replicas).unionByName(_as_rejects(judged))
                if broken:
                    rows = rows.unionByName(put_broken_aside(spark, broken, reader.kind))
                with_brokers = replace(begun, tables=(BROKER_SAMPLES.name,) if brokers else ())
                commit = write_batch(spark, lake, state, rows, with_brokers, now=now, options=options)
                if brokers:
                    lake.write_rows(good, BROKER_SAMPLES, commit.ingest_id)
            finally:
                judged.unpersist()
            clusters = {*commit.clusters, *(row["cluster_id"] for row in by_cluster)}
            return replace(commit, clusters=tuple(sorted(clusters)))

        begun = begin_batch(state, attempt, reader.kind, new)
        return taking_what_can_be_read(begun, partial(reader.read, spark), take)

    found = list_inputs(spark, paths, reader.dated)
    made = lake.transact(spark, batch_id(reader.kind, found), prepare, now)
    return replace(outcome_of(spark, lake, made, skipped), broker_rows=brokers)


def judge_brokers(rows: DataFrame, *, now: datetime, options: IngestOptions) -> DataFrame:
    """Judge broker samples, each by itself and against those of the same window.

    Grain: one row per input row, none dropped; columns of `broker_samples` without ingest_id, and file, rule, detail.
    """
    rule, detail = first_broken(_rules(now, options.limits, options.cluster))
    judged = rows.select(
        *(name for name in rows.columns if name not in ("reader_rule", "reader_detail")),
        F.lit(SCHEMA_VERSION).alias("schema_version"),
        F.to_date("window_start").alias("date"),
        F.coalesce("reader_rule", rule).alias("rule"),
        F.coalesce("reader_detail", detail).alias("detail"),
    )
    # If there are two rows for one window, the same row must win whenever the batch is run again.
    same = Window.partitionBy("cluster_id", "broker_id", "window_start", F.col("rule").isNull()).orderBy(
        F.xxhash64(*_FIGURES)
    )
    numbered = judged.withColumn("number", F.row_number().over(same))
    twice = F.concat(F.lit("the same window twice: broker "), "broker_id", F.lit(" at "), "window_start")
    return refuse(numbered, F.col("number") > 1, "duplicate", twice).drop("number")


def _rules(now: datetime, limits: Limits, cluster: str | None) -> list[tuple[str, Column, Column]]:
    rules = [
        ("missing_key", F.col("cluster_id").isNull(), F.lit("cluster_id is null, give --cluster")),
        ("negative", F.col("broker_id") < 0, told("broker_id", "is below 0")),
        *time_rules(now, limits),
    ]
    if cluster is not None:
        rules.append(("other_cluster", F.col("cluster_id") != cluster, told_other_cluster(cluster)))
    # Cruise Control's layout has all these figures; other sources give some of them.
    has_all = F.col("source") == "cruise_control"
    for name in _FIGURES:
        no_number = F.isnan(F.col(name).cast("double"))
        if not name.endswith("_p999") and name != "processors":
            no_number |= has_all & F.col(name).isNull()
        rules.append(("not_a_number", no_number, F.lit(f"{name} is no number")))
        rules.append(("negative", F.col(name) < 0, told(name, "is below 0")))
    rules.append(
        (
            "no_load",
            F.coalesce("cpu", *_BYTES, "size_bytes").isNull(),
            F.lit("neither processors, bytes nor sizes are known"),
        )
    )
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
    given = {name: F.col(name) for name in kept}
    why = {"reader_rule": F.col("rule"), "reader_detail": F.concat(F.lit("a broker sample: "), "detail")}
    return as_raw(judged.where(F.col("rule").isNotNull()), given | why)
