"""Rolls raw rows up to hours and days, deletes old raw rows afterwards, and merges small files."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from shunter.pipeline.ingest.identity import one_series
from shunter.pipeline.lake.commits import COMPACTION, RETENTION, Commit, LogState
from shunter.pipeline.lake.schemas import (
    AMOUNTS,
    BROKER_SAMPLES,
    BROKERS,
    DAILY,
    HOURLY,
    REPLICA_KEY,
    REPLICAS,
    SAMPLES,
    SCHEMA_VERSION,
    SNAPSHOTS,
    Table,
)
from shunter.pipeline.lake.tables import JUDGED, Lake, among
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
    rolled_to = state.rolled_to if new_only else 0
    let_go = state.keep_from
    days: set[date] = set()
    for commit in state.live:
        came_before = new_only and commit.version <= rolled_to
        if commit.since is not None and commit.until is not None and not came_before:
            days.update(_between(commit.since.date() - _reach(state), commit.until.date()))
    # Some rows of days past retention may still be there. Rolled up from these alone, such days would lose the others.
    return tuple(sorted(day for day in days if let_go is None or day >= let_go))


def _reach(state: LogState) -> timedelta:
    """How many days the longest window of all lasts, rounded up."""
    longest = max((one.longest for one in state.live), default=0)
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
        new_only: Only days that got rows since the last roll-up (`open_days`).
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
    # Of several roll-ups at once, one of an older state replaces nothing that one of a newer state wrote.
    number = 2 * state.version + (not new_only)
    lake.write(roll_up(raw, HOURLY), HOURLY, ("roll-up", number))
    hours = lake.read(spark, HOURLY).where(F.col("date").isin(list(days)))
    with_raw = raw.select("cluster_id", "date").distinct()
    lake.write(
        roll_up(hours.join(with_raw, on=["cluster_id", "date"], how="left_semi"), DAILY), DAILY, ("roll-up", number)
    )
    return days


def compact(
    spark: SparkSession,
    lake: Lake,
    *,
    now: datetime,
    keep_from: date | None = None,
    rolled_up: LogState | None = None,
) -> Commit | None:
    """Delete raw rows older than `keep_from` (after their roll-up), and merge small files.

    A deletion is committed before it is carried out. From then on rows of those days are refused as late. Of each of
    those days each cluster's last snapshot stays, because daily sizes, showback and topics' ids are derived from it.
    Returns None if no row is deleted and nothing was rolled up that had not been before.

    Args:
        rolled_up: The state that `roll_up_days` used. Rows that came since are in no hour yet, and stay. None: all that
            is committed was rolled up.
    """

    def prepare(state: LogState, attempt: str) -> Commit | None:
        rolled_to = state.version if rolled_up is None else rolled_up.version
        came = any(one.good for one in state.live if state.rolled_to < one.version <= rolled_to)
        let_go = keep_from is not None and (state.keep_from is None or state.keep_from < keep_from)
        if not came and not let_go:
            return None
        kind = RETENTION if let_go else COMPACTION
        return Commit(attempt, kind, keep_from=keep_from if let_go else None, rolled_to=rolled_to)

    made = lake.transact(spark, "compact", prepare, now)
    deletions = [one for one in lake.state(spark).commits if one.kind == RETENTION]
    if keep_from is not None and deletions:
        _delete_before(spark, lake, deletions[-1])
    lake.optimize(spark)
    return made


def _has_snapshots(commit: Commit) -> bool:
    return commit.kind == SNAPSHOTS or REPLICAS.name in commit.tables


def _delete_before(spark: SparkSession, lake: Lake, deletion: Commit) -> None:
    """Delete raw rows of days before a deletion's. Done again, it does nothing."""
    day, commits = deletion.keep_from, lake.state(spark).commits
    since = [one.ingest_id for one in commits if deletion.rolled_to < one.version < deletion.version]
    later = f"AND NOT {among(since)}" if since else ""
    for table in (JUDGED, BROKER_SAMPLES):
        lake.change(spark, table, "DELETE FROM", f"WHERE date < DATE'{day}' {later}")
    last = F.max("taken_at").over(Window.partitionBy("cluster_id", "date"))
    for table in (BROKERS, REPLICAS):
        old = lake.read(spark, table).where(F.col("date") < F.lit(day)).withColumn("last", last)
        older = old.where(F.col("taken_at") < F.col("last")).select("cluster_id", "taken_at").distinct()
        older.createOrReplaceTempView("shunter_older")
        same = "t.cluster_id = s.cluster_id AND t.taken_at = s.taken_at"
        merge = f"AS t USING shunter_older AS s ON {same} AND t.date < DATE'{day}' {later} WHEN MATCHED THEN DELETE"
        lake.change(spark, table, "MERGE INTO", merge)
