"""Raw → hourly → daily, and what becomes of the raw rows afterwards."""

from __future__ import annotations

from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.pipeline.ingest import took_nothing
from shunter.pipeline.lake import Commit, Lake, batch_id
from shunter.pipeline.schemas import (
    AMOUNTS,
    BROKER_SAMPLES,
    DAILY,
    HOURLY,
    REJECTS,
    REPLICA_KEY,
    SAMPLES,
    SCHEMA_VERSION,
    SNAPSHOTS,
    Table,
)


def roll_up(rows: DataFrame, table: Table) -> DataFrame:
    """Add windows up to hours (`HOURLY`) or days (`DAILY`).

    Grain: one row per replica, role and hour or day; columns of the table. Rows may be samples or hours. An amount is
    null where no window had one; window_seconds is what was measured, so amount ÷ window_seconds is a mean rate of the
    time that was measured. Windows are counted to the hour in which they start.
    """
    unit = "hour" if table is HOURLY else "day"
    is_sample = "windows" not in rows.columns
    peaks = {
        name: F.max(F.col(name) / F.col("window_seconds") if is_sample else F.col(f"{name}_peak")) for name in AMOUNTS
    }
    windows = F.count("*") if is_sample else F.sum("windows")
    started = F.date_trunc(unit, "window_start")
    added = rows.withColumn("began", started).groupBy(*REPLICA_KEY, "began").agg(
        F.max_by("topic", "window_start").alias("topic"),
        F.sum("window_seconds").cast("int").alias("window_seconds"),
        *(F.sum(name).alias(name) for name in AMOUNTS),
        F.max_by("size_bytes", F.when(F.col("size_bytes").isNotNull(), F.col("window_start"))).alias("size_bytes"),
        *(peak.alias(f"{name}_peak") for name, peak in peaks.items()),
        windows.alias("windows"),
    )  # fmt: skip
    return added.select(
        "cluster_id", "topic_id", "topic", "partition", "broker_id", "role",
        F.col("began").alias("window_start"),
        "window_seconds", *AMOUNTS, "size_bytes", *(f"{name}_peak" for name in AMOUNTS), "windows",
        F.lit(SCHEMA_VERSION).alias("schema_version"),
        F.to_date("began").alias("date"),
    ).select(*table.columns)  # fmt: skip


def roll_up_days(spark: SparkSession, lake: Lake, first: date, last: date) -> None:
    """Derive the hours and days between two days from the raw rows that are live, replacing what was derived before.

    Days whose raw rows are gone keep what was derived from them.
    """
    raw = lake.read(spark, SAMPLES).where(F.col("date").between(first, last))
    lake.write(roll_up(raw, HOURLY), HOURLY)
    hours = lake.read(spark, HOURLY).where(F.col("date").between(first, last))
    with_raw = raw.select("cluster_id", "date").distinct()
    lake.write(roll_up(hours.join(with_raw, on=["cluster_id", "date"], how="left_semi"), DAILY), DAILY)


def compact(
    spark: SparkSession, lake: Lake, *, now: datetime, keep_from: date | None = None, tasks: int = 8
) -> Commit | None:
    """Rewrite all live batches as one with few files, leaving out rows older than `keep_from` (after their roll-up).

    The new batch is committed with the list of those that it replaces: one small file, so that readers see the old ones
    or the new one, never both; `Lake.vacuum` deletes the old ones. Rejects and broker samples of the same age go the same way, and from then
    on rows of those days are refused as late. Snapshots stay. None when there is nothing to gain.
    """
    live = tuple(commit for commit in lake.live(spark) if commit.kind != SNAPSHOTS)
    if len(live) <= 1 and keep_from is None:
        return None
    replaced = tuple(commit.ingest_id for commit in live)
    nothing = F.lit(None).cast("string")
    good = lake.read(spark, SAMPLES, replaced).withColumns({"rule": nothing, "detail": nothing})
    rows = good.select(*REJECTS.columns).unionByName(lake.read(spark, REJECTS, replaced))
    if keep_from is not None:
        rows = rows.where(F.col("date").isNull() | (F.col("date") >= keep_from))
    files = tuple(file for commit in live if not took_nothing(commit) for file in commit.files)
    ingest_id = "compact-" + batch_id("/".join(replaced) + f"/{keep_from}", ())
    sorted_rows = rows.repartition(tasks, "cluster_id", "date").sortWithinPartitions(
        "cluster_id", "date", *REPLICA_KEY[1:], "window_start"
    )
    lake.write_judged(sorted_rows, ingest_id)
    brokers = lake.read(spark, BROKER_SAMPLES, replaced)
    kept = brokers if keep_from is None else brokers.where(F.col("date") >= keep_from)
    lake.write(kept.withColumn("ingest_id", F.lit(ingest_id)).coalesce(1), BROKER_SAMPLES)
    counted = lake.read(spark, SAMPLES, [ingest_id]).agg(
        F.count("*").alias("good"), F.min("date").alias("first"), F.max("date").alias("last")
    )
    counts = counted.first()
    rules = lake.read(spark, REJECTS, [ingest_id]).groupBy("rule").count().orderBy("rule").collect()
    by_rule = tuple((row["rule"], int(row["count"])) for row in rules)
    marks = [commit.watermark for commit in live if commit.watermark is not None]
    commit = Commit(
        ingest_id,
        "retention" if keep_from is not None else "compaction",
        files,
        good=int(counts["good"]) if counts else 0,
        rejected=sum(rows for _, rows in by_rule),
        rules=by_rule,
        clusters=tuple(sorted({name for commit in live for name in commit.clusters})),
        first_date=counts["first"] if counts else None,
        last_date=counts["last"] if counts else None,
        watermark=max(marks, default=None),
        keep_from=keep_from,
        supersedes=replaced,
    )
    lake.commit(spark, commit, now)
    return commit
