"""Rolls raw rows up to hours and days, and compacts or deletes the raw rows afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from shunter.pipeline.ingest.batches import MOST_WINDOW_SECONDS, ROWS_PER_FILE, counted, may_be_ingested_again
from shunter.pipeline.ingest.identity import one_series
from shunter.pipeline.lake.commit_log import CLEAN, COMPACTION, RETENTION, Commit, LogState, StreamMark
from shunter.pipeline.lake.schemas import (
    AMOUNTS,
    BROKER_SAMPLES,
    BROKERS,
    DAILY,
    HOURLY,
    REJECTS,
    REPLICA_KEY,
    REPLICAS,
    SAMPLES,
    SCHEMA_VERSION,
    SNAPSHOTS,
    Table,
)
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.load.modelling import last_size, measured_seconds


def roll_up(rows: DataFrame, table: Table) -> DataFrame:
    """Add windows up to hours (`HOURLY`) or days (`DAILY`).

    Grain: one row per replica, role and hour or day; columns of the table. Rows may be samples or hours. An amount is
    null where no window had one; window_seconds is the time of the windows that had the amount that is known longest (of
    all, where none had one), so that amount ÷ window_seconds is a mean rate of the time that was measured. A window
    belongs to the hour in which it starts.
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
        F.coalesce(F.greatest(*map(measured_seconds, AMOUNTS)), F.sum("window_seconds"))
        .cast("int")
        .alias("window_seconds"),
        *(F.sum(name).alias(name) for name in AMOUNTS),
        last_size().alias("size_bytes"),
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


def open_days(state: LogState, *, new_only: bool = True) -> tuple[date, ...]:
    """Days whose hours may be out of date: those of windows that came since the last roll-up, and the days before them.

    The days before count because a measured window removes the amounts of a derived window that it overlaps, and the
    derived window may have begun as much earlier as the longest window lasts.

    Args:
        new_only: Only days that got rows since the last roll-up; else all days that still have raw rows.
    """
    rolled_to = max((commit.rolled_to for commit in state.commits), default=0) if new_only else 0
    let_go = max((commit.keep_from for commit in state.commits if commit.keep_from is not None), default=None)
    days: set[date] = set()
    for commit in state.live:
        came_before = new_only and (commit.rolled_to or 0 < commit.version <= rolled_to)
        if commit.first_date is not None and not came_before:
            last = commit.last_date if commit.until is None else commit.until.date()
            days.update(_between(commit.first_date - _reach(state), last or commit.first_date))
    # Some rows of days past retention may still be there. Rolled up from these alone, such days would lose the others.
    return tuple(sorted(day for day in days if let_go is None or day >= let_go))


def _reach(state: LogState) -> timedelta:
    """How many days the longest window of all lasts, rounded up."""
    longest = max((one.longest if one.tables else MOST_WINDOW_SECONDS for one in state.live), default=0)
    return timedelta(days=-(-longest // 86_400))


def _between(first: date, last: date) -> list[date]:
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def roll_up_days(
    spark: SparkSession, lake: Lake, state: LogState | None = None, *, new_only: bool = False
) -> tuple[date, ...]:
    """Derive hours and days from the raw rows that are live, replacing what was derived before; returns the days.

    Days whose raw rows are deleted keep their hours. Topics get their ids first. If two sources cover one replica, the
    one that measured it counts.

    Args:
        state: What is committed; None: all that is committed now.
        new_only: Only days that got rows since the last roll-up (`open_days`). Run one such roll-up at a time: of two at
            once the slower may write hours from an older state, and a later `new_only` would not see that.
    """
    state = lake.state(spark) if state is None else state
    days = open_days(state, new_only=new_only)
    if not days:
        return ()
    reach = _reach(state)
    around = sorted({near for day in days for near in _between(day - reach, day + reach)})
    raw = lake.read(spark, SAMPLES, state.live).where(F.col("date").isin(around))
    if any(_has_snapshots(commit) for commit in state.live):
        raw = one_series(raw, lake.read(spark, REPLICAS, state.live))
    raw = raw.where(F.col("date").isin(list(days)))
    lake.write(roll_up(raw, HOURLY), HOURLY)
    hours = lake.read(spark, HOURLY).where(F.col("date").isin(list(days)))
    with_raw = raw.select("cluster_id", "date").distinct()
    lake.write(roll_up(hours.join(with_raw, on=["cluster_id", "date"], how="left_semi"), DAILY), DAILY)
    return days


def compact(
    spark: SparkSession,
    lake: Lake,
    *,
    now: datetime,
    of_snapshots: bool = False,
    keep_from: date | None = None,
    tasks: int = 8,
    rows_per_file: int = ROWS_PER_FILE,
    rolled_up: LogState | None = None,
) -> Commit | None:
    """Rewrite all live batches as one with few files, leaving out rows older than `keep_from` (after their roll-up).

    The new batch is committed with the list of those that it replaces: one small file, so that readers see the old ones
    or the new one, never both; `Lake.clean` deletes the old ones. Rejects and broker samples of the same age are left
    out too, and from then on rows of those days are refused as late. Returns None if there is nothing to gain.

    Args:
        of_snapshots: Rewrite the batches of snapshots instead of all others. Of days before `keep_from` each cluster's last
            snapshot stays, because daily sizes, showback and topics' ids are derived from it.
        tasks, rows_per_file: As for `merge`.
        rolled_up: The state that `roll_up_days` used. Rows that came since are in no hour yet, and must not be deleted.
    """

    def prepare(state: LogState, attempt: str) -> Commit | None:
        live = [one for one in state.live if one.kind != CLEAN and _has_snapshots(one) is of_snapshots]
        if rolled_up is not None:
            done = {commit.ingest_id for commit in rolled_up.live}
            live = [commit for commit in live if commit.ingest_id in done]
        let_go = keep_from is not None and any(one.keep_from is None or one.keep_from < keep_from for one in live)
        if not live or (len(live) <= 1 and not let_go):
            return None
        made = merge(spark, lake, live, attempt, keep_from=keep_from, tasks=tasks, rows_per_file=rows_per_file)
        return made if rolled_up is None else replace(made, rolled_to=rolled_up.version)

    return lake.transact(spark, "compact-snapshots" if of_snapshots else "compact", prepare, now)


def _has_snapshots(commit: Commit) -> bool:
    return commit.kind == SNAPSHOTS or REPLICAS.name in commit.tables


def merge(
    spark: SparkSession,
    lake: Lake,
    live: Sequence[Commit],
    attempt: str,
    *,
    keep_from: date | None = None,
    tasks: int = 1,
    rows_per_file: int = ROWS_PER_FILE,
) -> Commit:
    """Write the rows of several batches as those of one attempt; returns its commit, which replaces their commits.

    Args:
        tasks: Into how many tasks the work is cut at least.
        rows_per_file: A cluster's day of more rows becomes several files, each by a task that sorts the file's rows
            alone.
    """
    nothing = F.lit(None).cast("string")
    good = lake.read(spark, SAMPLES, live).withColumns({"rule": nothing, "detail": nothing})
    rows = good.select(*REJECTS.columns).unionByName(lake.read(spark, REJECTS, live))
    brokers = lake.read(spark, BROKER_SAMPLES, live)
    if keep_from is not None:
        rows = rows.where(F.col("date").isNull() | (F.col("date") >= keep_from))
        brokers = brokers.where(F.col("date") >= keep_from)
    parts = -(-sum(commit.good + commit.rejected for commit in live) // rows_per_file)
    lake.write_judged(_in_files(rows, max(tasks, parts), rows_per_file), attempt)
    tables = [SAMPLES.name]
    if any(BROKER_SAMPLES.name in commit.tables or not commit.tables for commit in live):
        lake.write_rows(brokers.coalesce(1), BROKER_SAMPLES, attempt)
        tables.append(BROKER_SAMPLES.name)
    if any(_has_snapshots(commit) for commit in live):
        for table in (BROKERS, REPLICAS):
            kept = _kept_snapshots(lake.read(spark, table, live), table, keep_from)
            lake.write_rows(kept.repartition(tasks, "cluster_id", "date"), table, attempt)
            tables.append(table.name)
    marks: dict[str, StreamMark] = {}
    for mark in sorted((mark for commit in live for mark in commit.streams), key=lambda mark: mark.number):
        marks[mark.query] = mark
    let_go = [
        commit.keep_from for commit in (*live, Commit("", "", keep_from=keep_from)) if commit.keep_from is not None
    ]
    begun = Commit(
        attempt,
        RETENTION if keep_from is not None else COMPACTION,
        tuple(file for commit in live if not may_be_ingested_again(commit) for file in commit.files),
        watermark=max((commit.watermark for commit in live if commit.watermark is not None), default=None),
        keep_from=max(let_go, default=None),
        supersedes=tuple(commit.ingest_id for commit in live),
        tables=tuple(sorted(tables)),
        streams=tuple(marks[query] for query in sorted(marks)),
        level=1 + max(commit.level for commit in live),
    )
    clusters = tuple(sorted({name for commit in live for name in commit.clusters}))
    return counted(spark, lake, begun, clusters)


def _in_files(rows: DataFrame, tasks: int, rows_per_file: int) -> DataFrame:
    """Bring the rows of each file together, a replica's in order of time. Grain: as `rows`, none dropped."""
    if tasks == 1:
        spread = rows.coalesce(1)
    else:
        folder = ["cluster_id", "date"]
        parts = rows.groupBy(*folder).agg(F.ceil(F.count("*") / F.lit(rows_per_file)).alias("parts"))
        counted = rows.join(F.broadcast(parts), on=folder, how="left")
        # Rows without a cluster or a day find no count. There are few of them.
        part = F.pmod(F.xxhash64(*REPLICA_KEY), F.coalesce("parts", F.lit(1)))
        spread = counted.repartition(tasks, *folder, part).select(*rows.columns)
    # As in `validation`: hashes come first, because they differ. Else each comparison would go through equal names.
    order = {"folder": F.xxhash64("cluster_id", "date"), "series": F.xxhash64(*REPLICA_KEY)}
    return spread.withColumns(order).sortWithinPartitions(*order, "window_start").drop(*order)


def _kept_snapshots(rows: DataFrame, table: Table, keep_from: date | None) -> DataFrame:
    """Rows of `brokers` or `replicas`, each key once; of days before `keep_from` those of the day's last snapshot."""
    # A lake of an older version may have a snapshot in two batches, which become one here.
    once = rows.dropDuplicates(list(table.key))
    if keep_from is None:
        return once
    last = F.max("taken_at").over(Window.partitionBy("cluster_id", "date"))
    kept = (F.col("date") >= keep_from) | (F.col("taken_at") == F.col("last"))
    return once.withColumn("last", last).where(kept).drop("last")
