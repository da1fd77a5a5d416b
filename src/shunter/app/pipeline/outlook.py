"""Stages that report on whole clusters: the quality of their data, when disks are full, usage by owner, anomalies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import date, datetime
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.errors import DriverError, FormatError
from shunter.pipeline.ingest.rollup import roll_up_days
from shunter.pipeline.ingest.snapshot_batch import latest_snapshot
from shunter.pipeline.lake.outlook_schemas import ANOMALIES, DATA_QUALITY, RUNWAY, SHOWBACK
from shunter.pipeline.lake.schemas import BROKER_LOADS, DAILY, REJECTS, REPLICAS, SAMPLES, Table
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.load.sizes import daily_sizes
from shunter.pipeline.reports.anomalies import LOOKED
from shunter.pipeline.reports.anomalies import anomalies as anomalies_of
from shunter.pipeline.reports.disk_growth import runway as runway_of
from shunter.pipeline.reports.quality import data_quality
from shunter.pipeline.reports.usage import showback as showback_of


class Quality(NamedTuple):
    """One cluster's newest day. Times are UTC; None: there are no rates, or there is no snapshot."""

    cluster_id: str
    date: date
    partitions: int
    with_rates: int
    coverage: float
    rejected: int
    rates_until: datetime | None
    snapshot_at: datetime | None


class Runway(NamedTuple):
    """When the room of one broker runs out, or by the growth of one topic alone. Bytes, and bytes a day."""

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
    """One owner's month in one cluster. Bytes; None: not measured."""

    cluster_id: str
    month: date
    owner: str | None
    topics: int
    idle: int
    stored_bytes: float | None
    written_bytes: int | None
    read_bytes: int | None
    cross_rack_bytes: int | None


class Anomaly(NamedTuple):
    """One change on one day; units are those of the table. `new`: no earlier look found it."""

    cluster_id: str
    kind: str
    name: str
    date: date
    value: float | None
    usual: float | None
    what: str
    new: bool


def quality(spark: SparkSession, lake: Lake, *, clusters: Sequence[str] = ()) -> tuple[Quality, ...]:
    """Write `data_quality`; returns each cluster's newest day.

    Raises:
        FormatError: there is nothing to look at.
    """
    live = lake.live(spark)
    tables = (_of(lake.read(spark, table, live), clusters) for table in (SAMPLES, REPLICAS, REJECTS))
    written = _written(spark, lake, data_quality(*tables), DATA_QUALITY, clusters)
    newest = F.max("date").alias("date")
    rows = written.join(written.groupBy("cluster_id").agg(newest), on=["cluster_id", "date"], how="left_semi")
    return tuple(Quality(*row) for row in rows.select(*Quality._fields).orderBy("cluster_id").collect())


def runway(
    spark: SparkSession, lake: Lake, *, clusters: Sequence[str] = (), days: int = 60, headroom_percent: float = 0.0
) -> tuple[Runway, ...]:
    """Write `runway`; returns all brokers, and topics that alone fill a broker's disks, the earliest full day first.

    Raises:
        FormatError: there is nothing to look at.
    """
    _, sizes = _rolled_up(spark, lake, clusters)
    brokers, _ = latest_snapshot(spark, lake)
    found = runway_of(sizes, brokers, days=days, headroom_percent=headroom_percent)
    written = _written(spark, lake, found, RUNWAY, clusters)
    told = written.where((F.col("kind") == "broker") | F.col("full_at").isNotNull())
    ordered = told.orderBy("cluster_id", F.col("full_at").asc_nulls_last(), "kind", "name")
    return tuple(Runway(*row) for row in ordered.select(*Runway._fields).collect())


def showback(
    spark: SparkSession, lake: Lake, *, clusters: Sequence[str] = (), owners: Path | None = None
) -> tuple[Used, ...]:
    """Write `showback`; returns its sums by owner and month.

    Args:
        owners: A file with a JSON object from patterns of topic names to owners; the first match counts.

    Raises:
        FormatError: there is nothing to look at, or the mapping can't be read.
    """
    mapping = () if owners is None else read_owners(owners)
    days, sizes = _rolled_up(spark, lake, clusters)
    brokers, replicas = latest_snapshot(spark, lake)
    written = _written(spark, lake, showback_of(sizes, days, brokers, replicas, mapping), SHOWBACK, clusters)
    by_owner = written.groupBy("cluster_id", "month", "owner").agg(
        F.count("*").alias("topics"),
        F.count_if(F.coalesce("idle", F.lit(False))).alias("idle"),
        *(F.sum(name).alias(name) for name in Used._fields[5:]),
    )
    ordered = by_owner.orderBy("cluster_id", "month", F.col("owner").asc_nulls_last())
    return tuple(Used(*row) for row in ordered.select(*Used._fields).collect())


def anomalies(
    spark: SparkSession,
    lake: Lake,
    now: datetime,
    *,
    clusters: Sequence[str] = (),
    days: int = 7,
    events: Path | None = None,
) -> tuple[Anomaly, ...]:
    """Write `anomalies`; returns the anomalies by cluster and day.

    Args:
        now: UTC, the time of the events.
        events: A file that gets a line for each new anomaly. It is written before the table: after a crash in between,
            the same events, with the same ids, are written again.

    Raises:
        DriverError: the file can't be written.
        FormatError: there is nothing to look at.
    """
    rolled, sizes = _rolled_up(spark, lake, clusters)
    known = {tuple(row) for row in lake.read(spark, ANOMALIES).select(*ANOMALIES.key).collect()}
    rows = anomalies_of(rolled, sizes, _of(lake.read(spark, BROKER_LOADS), clusters), looked_at=days).collect()
    columns = Anomaly._fields[:-1]
    told = [tuple(row[name] for name in columns) for row in rows if row["kind"] != LOOKED]
    found = tuple(Anomaly._make((*one, one[:4] not in known)) for one in sorted(told, key=itemgetter(0, 3, 1, 2)))
    if events is not None:
        append_events(found, events, now)
    _written(spark, lake, spark.createDataFrame(rows, ANOMALIES.schema), ANOMALIES, clusters)
    return found


def append_events(found: Sequence[Anomaly], path: Path, now: datetime) -> None:
    """Append new anomalies to a file, each a line with a CloudEvent (1.0).

    Raises:
        DriverError: the file can't be written.
    """
    lines = [orjson.dumps(event_of(one, now), option=orjson.OPT_APPEND_NEWLINE) for one in found if one.new]
    try:
        with path.open("ab") as stream:
            stream.write(b"".join(lines))
    except OSError as error:
        raise DriverError(f"{path}: {error.strerror}", retriable=False) from error


def event_of(found: Anomaly, now: datetime) -> dict[str, object]:
    """An anomaly as a CloudEvent. The same anomaly always has the same id."""
    named = f"{found.cluster_id}/{found.kind}/{found.name}/{found.date.isoformat()}"
    return {
        "specversion": "1.0",
        "id": hashlib.sha256(named.encode()).hexdigest()[:32],
        "source": f"shunter/pipeline/{quote(found.cluster_id, safe='')}",
        "type": f"shunter.anomaly.{found.kind}",
        "subject": found.name,
        "time": now.isoformat(),
        "datacontenttype": "application/json",
        "data": {"date": found.date.isoformat(), "value": found.value, "usual": found.usual, "what": found.what},
    }


def read_owners(path: Path) -> tuple[tuple[str, str], ...]:
    """Read a mapping of patterns to owners, in the order of the file.

    Raises:
        FormatError: it is not a JSON object of texts.
    """
    try:
        given = json.loads(path.read_bytes())
    except OSError as error:
        raise FormatError(str(path), f"can't be read: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(str(path), f"is not JSON: {error}") from error
    if not isinstance(given, dict) or not all(isinstance(owner, str) for owner in given.values()):
        raise FormatError(str(path), 'is not a JSON object of patterns and owners, such as {"payments.*": "team-a"}')
    return tuple(given.items())


def _rolled_up(spark: SparkSession, lake: Lake, clusters: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """Roll up new days; returns the days of the named clusters, and their sizes by day."""
    roll_up_days(spark, lake, new_only=True)
    days = lake.read(spark, DAILY)
    return _of(days, clusters), _of(daily_sizes(lake.read(spark, REPLICAS), days), clusters)


def _of(frame: DataFrame, clusters: Sequence[str]) -> DataFrame:
    return frame.where(F.col("cluster_id").isin(*clusters)) if clusters else frame


def _written(spark: SparkSession, lake: Lake, frame: DataFrame, table: Table, clusters: Sequence[str]) -> DataFrame:
    """Write a table; returns its rows of the named clusters."""
    lake.write(frame, table)
    written = _of(lake.read(spark, table), clusters)
    if written.isEmpty():
        named = f"of {', '.join(clusters)} " if clusters else ""
        raise FormatError(lake.root, f"has no samples or snapshots {named}yet: run `shunter pipeline ingest` first")
    return written
