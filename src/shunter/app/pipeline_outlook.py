"""Stages that look at a cluster as a whole and ahead: how good its data is, when it is full, who uses what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.errors import FormatError
from shunter.pipeline.filling import runway as runway_of
from shunter.pipeline.lake import Lake
from shunter.pipeline.outlook_schemas import DATA_QUALITY, RUNWAY, SHOWBACK
from shunter.pipeline.quality import data_quality
from shunter.pipeline.rollup import roll_up_days
from shunter.pipeline.schemas import DAILY, REJECTS, REPLICAS, SAMPLES, Table
from shunter.pipeline.sizes import daily_sizes
from shunter.pipeline.snapshot_batch import latest_snapshot
from shunter.pipeline.usage import showback as showback_of


class Quality(NamedTuple):
    """One cluster's newest day. Times are UTC; None where there is nothing of the kind."""

    cluster_id: str
    date: date
    partitions: int
    with_rates: int
    coverage: float
    rejected: int
    rates_until: datetime | None
    snapshot_at: datetime | None


class Runway(NamedTuple):
    """When one broker, or by one topic's growth, room runs out. Bytes, and bytes a day."""

    cluster_id: str
    kind: str
    name: str
    size_bytes: int
    growth_bytes_per_day: float | None
    room_bytes: float | None
    full_at: date | None
    full_earliest: date | None
    full_latest: date | None
    days: int


class Used(NamedTuple):
    """One owner's month in one cluster. Bytes; None where nothing of the kind was measured."""

    cluster_id: str
    month: date
    owner: str | None
    topics: int
    idle: int
    stored_bytes: float | None
    written_bytes: int | None
    read_bytes: int | None
    cross_rack_bytes: int | None


def quality(spark: SparkSession, lake: Lake, *, clusters: Sequence[str] = ()) -> tuple[Quality, ...]:
    """Write `data_quality`; gives each cluster's newest day.

    Raises:
        FormatError: there is nothing to look at.
    """
    tables = (_of(lake.read(spark, table), clusters) for table in (SAMPLES, REPLICAS, REJECTS))
    written = _written(spark, lake, data_quality(*tables), DATA_QUALITY, clusters)
    newest = F.max("date").alias("date")
    rows = written.join(written.groupBy("cluster_id").agg(newest), on=["cluster_id", "date"], how="left_semi")
    return tuple(Quality(*row) for row in rows.select(*Quality._fields).orderBy("cluster_id").collect())


def runway(
    spark: SparkSession, lake: Lake, *, clusters: Sequence[str] = (), days: int = 60, headroom_percent: float = 0.0
) -> tuple[Runway, ...]:
    """Write `runway`; gives all brokers, and those topics that fill one, the first to be full ahead.

    Raises:
        FormatError: there is nothing to look at.
    """
    roll_up_days(spark, lake)
    brokers, _ = latest_snapshot(spark, lake)
    sizes = daily_sizes(lake.read(spark, REPLICAS), lake.read(spark, DAILY))
    found = runway_of(_of(sizes, clusters), brokers, days=days, headroom_percent=headroom_percent)
    written = _written(spark, lake, found, RUNWAY, clusters)
    told = written.where((F.col("kind") == "broker") | F.col("full_at").isNotNull())
    ordered = told.orderBy("cluster_id", F.col("full_at").asc_nulls_last(), "kind", "name")
    return tuple(Runway(*row) for row in ordered.select(*Runway._fields).collect())


def showback(
    spark: SparkSession, lake: Lake, *, clusters: Sequence[str] = (), owners: Path | None = None
) -> tuple[Used, ...]:
    """Write `showback`; gives it summed up by owner and month.

    Args:
        owners: A JSON object: pattern of topics' names to owner, the first match first.

    Raises:
        FormatError: there is nothing to look at, or the mapping can't be read.
    """
    mapping = () if owners is None else read_owners(owners)
    roll_up_days(spark, lake)
    brokers, replicas = latest_snapshot(spark, lake)
    days = _of(lake.read(spark, DAILY), clusters)
    sizes = _of(daily_sizes(lake.read(spark, REPLICAS), lake.read(spark, DAILY)), clusters)
    written = _written(spark, lake, showback_of(sizes, days, brokers, replicas, mapping), SHOWBACK, clusters)
    by_owner = written.groupBy("cluster_id", "month", "owner").agg(
        F.count("*").alias("topics"),
        F.count_if(F.coalesce("idle", F.lit(False))).alias("idle"),
        *(F.sum(name).alias(name) for name in Used._fields[5:]),
    )
    ordered = by_owner.orderBy("cluster_id", "month", F.col("owner").asc_nulls_last())
    return tuple(Used(*row) for row in ordered.select(*Used._fields).collect())


def read_owners(path: Path) -> tuple[tuple[str, str], ...]:
    """Read a mapping of patterns to owners, in the order of the file.

    Raises:
        FormatError: it is no JSON object of texts.
    """
    try:
        given = json.loads(path.read_bytes())
    except OSError as error:
        raise FormatError(str(path), f"can't be read: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(str(path), f"is no JSON: {error}") from error
    if not isinstance(given, dict) or not all(isinstance(owner, str) for owner in given.values()):
        raise FormatError(str(path), 'is no JSON object of patterns and owners, such as {"payments.*": "team-a"}')
    return tuple(given.items())


def _of(frame: DataFrame, clusters: Sequence[str]) -> DataFrame:
    return frame.where(F.col("cluster_id").isin(*clusters)) if clusters else frame


def _written(spark: SparkSession, lake: Lake, frame: DataFrame, table: Table, clusters: Sequence[str]) -> DataFrame:
    """Write a table, and give what it says of the clusters that are asked about."""
    lake.write(frame, table)
    written = _of(lake.read(spark, table), clusters)
    if written.isEmpty():
        named = f"of {', '.join(clusters)} " if clusters else ""
        raise FormatError(lake.root, f"has no samples or snapshots {named}yet: run `shunter pipeline ingest` first")
    return written
