"""Anomalies: a partition suddenly hot, a topic that fans out, a size that breaks its trend, a doubtful broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from shunter.pipeline.ingest.broker_check import all_doubts
from shunter.pipeline.lake.outlook_schemas import ANOMALIES
from shunter.pipeline.lake.schemas import FOLLOWER, SCHEMA_VERSION
from shunter.pipeline.load.trend import breaks
from shunter.pipeline.reports.disk_growth import BROKER, size_series

if TYPE_CHECKING:
    import pyarrow as pa

HOT, FANNED_OUT = 3.0, 2.0
"""A figure is reported if it is more than so many times the usual one."""
LEAST_RATE = 1e6
"""Bytes per second. Below this rate no partition is hot, and no fan-out matters."""
BEFORE, FEWEST_DAYS = 28, 3
"""A day is compared with the days before it: at most `BEFORE` of them, and at least `FEWEST_DAYS`."""
LOOKED = "looked"
_FOUND = ("cluster_id", "kind", "name", "date", "value", "usual", "what")
_DDL = "cluster_id string, kind string, name string, date date, value double, usual double, what string"


def anomalies(days: DataFrame, sizes: DataFrame, loads: DataFrame, *, looked_at: int = 7) -> DataFrame:
    """Examine the newest days of each cluster.

    Grain: one row per finding, and one per cluster of kind `looked`; columns of `anomalies`.

    Args:
        days: Columns of `daily`.
        sizes: As `sizes.daily_sizes` gives them.
        loads: Columns of `broker_loads`.
        looked_at: How many days, up to the newest of each cluster.
    """
    told = [days.select("cluster_id", "date"), sizes.select("cluster_id", "date")]
    newest = told[0].unionByName(told[1]).groupBy("cluster_id").agg(F.max("date").alias("newest"))
    found = hot_partitions(days).unionByName(fanned_out(days)).unionByName(_broken_trends(sizes, looked_at))
    found = found.unionByName(_doubted(loads)).join(F.broadcast(newest), on="cluster_id", how="inner")
    recent = found.where((F.datediff("newest", "date") < looked_at) & (F.col("date") <= F.col("newest")))
    nothing = F.lit(None).cast("double")
    looked = newest.select(
        "cluster_id", F.lit(LOOKED).alias("kind"), F.lit("").alias("name"), F.col("newest").alias("date"),
        nothing.alias("value"), nothing.alias("usual"),
        F.lit(f"{looked_at} days were held against the days before them").alias("what"),
    )  # fmt: skip
    both = recent.select(*_FOUND).unionByName(looked)
    return both.withColumn("schema_version", F.lit(SCHEMA_VERSION)).select(*ANOMALIES.columns)


def hot_partitions(days: DataFrame) -> DataFrame:
    """Partitions whose highest rate of a day is three times what nine in ten of the days before reached at most.

    Grain: one row per partition, direction and day; no day of a partition without three days before it.
    """
    name = F.concat_ws("-", "topic", "partition").alias("name")
    peaks = days.where(F.col("role") != FOLLOWER).groupBy("cluster_id", name, "date").agg(
        F.max("bytes_in_peak").alias("in"), F.max("bytes_out_peak").alias("out")
    )  # fmt: skip
    before = _before("cluster_id", "name")
    parts = []
    for direction, words in (("in", "are written to"), ("out", "are read from")):
        peak = F.col(direction)
        usual = _ranked(F.sort_array(F.collect_list(peak).over(before)), 0.9)
        held = peaks.withColumn("usual", usual)
        hot = held.where((peak >= LEAST_RATE) & (peak > HOT * F.col("usual")))
        what = F.format_string(
            f"%.1f MB/s {words} it; on the days before it was %.1f at most", peak / 1e6, F.col("usual") / 1e6
        )
        parts.append(_told(hot, f"hot-{direction}", peak, what))
    return parts[0].unionByName(parts[1])


def fanned_out(days: DataFrame) -> DataFrame:
    """Topics of which twice as much is read for each byte written as on the days before (their median).

    Grain: one row per topic and day; no day of a topic without three days before it.
    """
    sums = days.where(F.col("role") != FOLLOWER).groupBy("cluster_id", F.col("topic").alias("name"), "date").agg(
        F.sum("bytes_in").alias("in"), F.sum("bytes_out").alias("out")
    )  # fmt: skip
    ratio = F.col("out") / F.when(F.col("in") > 0, F.col("in"))
    ratios = sums.withColumn("ratio", ratio)
    held = ratios.withColumn(
        "usual", _ranked(F.sort_array(F.collect_list("ratio").over(_before("cluster_id", "name"))), 0.5)
    )
    much = F.col("out") / 86_400 >= LEAST_RATE
    fanned = held.where(much & (F.col("ratio") > FANNED_OUT * F.greatest("usual", F.lit(0.5))))
    what = F.format_string("%.1f bytes are read of it for each that is written; it was %.1f", "ratio", "usual")
    return _told(fanned, "fan-out", F.col("ratio"), what)


def _before(*series: str) -> WindowSpec:
    in_time = Window.partitionBy(*series).orderBy(F.unix_date("date"))
    return in_time.rangeBetween(-BEFORE, -1)


def _ranked(ascending: Column, share: float) -> Column:
    """Nearest rank; null if there are too few values."""
    ranked = F.get(ascending, (F.ceil(F.size(ascending) * F.lit(share)) - 1).cast("int"))
    return F.when(F.size(ascending) >= FEWEST_DAYS, ranked)


def _told(found: DataFrame, kind: str, value: Column, what: Column) -> DataFrame:
    return found.select(
        "cluster_id", F.lit(kind).alias("kind"), "name", "date", value.cast("double").alias("value"),
        F.col("usual").cast("double").alias("usual"), what.alias("what"),
    )  # fmt: skip


def _broken_trends(sizes: DataFrame, looked_at: int) -> DataFrame:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415  on the executor

        others = {"date": pa.date32(), "value": pa.float64(), "usual": pa.float64()}
        schema = pa.schema([(name, others.get(name, pa.string())) for name in _FOUND])
        for batch in batches:
            rows = [row for series in batch.to_pylist() for row in broken_trends(series, looked_at)]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    # A median of all pairs of days is no native function.
    return size_series(sizes).mapInArrow(work, _DDL)


def broken_trends(series: dict[str, Any], looked_at: int) -> Iterator[dict[str, Any]]:
    """Rows of `anomalies` for one broker or topic.

    Args:
        series: A row of `filling.size_series`.
    """
    days, sizes = ([float(point[name]) for point in series["points"]] for name in ("day", "size"))
    name = f"broker {series['name']}" if series["kind"] == BROKER else series["name"]
    for found in breaks(days, sizes, looked_at):
        more = found.size > found.expected
        yield {
            "cluster_id": series["cluster_id"],
            "kind": "grows" if more else "shrinks",
            "name": name,
            "date": date(1970, 1, 1) + timedelta(days=int(found.day)),
            "value": found.size,
            "usual": found.expected,
            "what": f"it holds {found.size / 1e9:,.1f} GB, and by its trend {found.expected / 1e9:,.1f} at {'most' if more else 'least'}",
        }


def _doubted(loads: DataFrame) -> DataFrame:
    nothing = F.lit(None).cast("double")
    return all_doubts(loads).select(
        "cluster_id", F.lit("broker").alias("kind"), F.concat(F.lit("broker "), F.col("broker_id").cast("string")).alias("name"),
        F.to_date("last_window").alias("date"), nothing.alias("value"), nothing.alias("usual"),
        F.concat_ws("; ", "doubts").alias("what"),
    )  # fmt: skip
