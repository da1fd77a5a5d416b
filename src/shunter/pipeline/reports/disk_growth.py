"""When a broker's disks are full, and which topics fill them: a robust trend of daily sizes against the room that is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from shunter.pipeline.lake.outlook_schemas import RUNWAY
from shunter.pipeline.lake.schemas import SCHEMA_VERSION
from shunter.pipeline.load.trend import days_until, held_back_error, trend_of

if TYPE_CHECKING:
    import pyarrow as pa

BROKER, TOPIC = "broker", "topic"
_FARTHEST = 3_650.0
"""Days. A date that is farther away counts as never."""


def runway(sizes: DataFrame, brokers: DataFrame, *, days: int = 60, headroom_percent: float = 0.0) -> DataFrame:
    """Fit a trend to the sizes of each broker and topic, and say when the room is used up.

    Grain: one row per broker and per topic with a size; columns of `runway`. A topic's room is how much it can grow, in
    equal proportion on all brokers that hold it, until the first of them is full.

    Args:
        sizes: As `sizes.daily_sizes` gives them.
        brokers: The newest snapshots' brokers.
        days: Only so many days up to the newest of a cluster count.
        headroom_percent: How much of each broker's disks is kept free.
    """
    newest = sizes.groupBy("cluster_id").agg(F.max("date").alias("newest"))
    recent = sizes.join(F.broadcast(newest), on="cluster_id", how="inner").where(
        F.datediff("newest", "date") < F.lit(days)
    )
    kept = F.lit(headroom_percent / 100)
    room = brokers.select(
        "cluster_id", "broker_id",
        (F.col("disk_usable_bytes") - F.col("disk_total_bytes") * kept).cast("double").alias("room"),
    )  # fmt: skip
    rooms = room.select(
        "cluster_id", F.lit(BROKER).alias("kind"), F.col("broker_id").cast("string").alias("name"), "room"
    )
    # If a topic grows by x, this broker gets its share of x. So much can the topic grow until the broker is full.
    here = recent.where(F.col("date") == F.col("newest")).groupBy("cluster_id", "topic", "broker_id")
    held = here.agg(F.sum("size_bytes").alias("here")).join(room, on=["cluster_id", "broker_id"], how="left")
    whole = held.groupBy("cluster_id", "topic").agg(F.sum("here").alias("whole"))
    fits = F.min(F.when(F.col("here") > 0, F.col("room") * F.col("whole") / F.col("here"))).alias("room")
    of_topics = held.join(whole, on=["cluster_id", "topic"], how="inner").groupBy("cluster_id", "topic").agg(fits)
    rooms = rooms.unionByName(
        of_topics.select("cluster_id", F.lit(TOPIC).alias("kind"), F.col("topic").alias("name"), "room")
    )
    given = size_series(recent).join(rooms, on=["cluster_id", "kind", "name"], how="left")
    # A median of all pairs of days is no native function.
    schema = sizes.sparkSession.createDataFrame([], RUNWAY.schema).toArrow().schema
    return given.mapInArrow(partial(_fitted, schema), RUNWAY.schema).select(*RUNWAY.columns)


def size_series(sizes: DataFrame) -> DataFrame:
    """The sizes of each broker and of each topic, day by day.

    Grain: one row per cluster, kind (`broker`, `topic`) and name; `points`: ascending {day (since 1970), size}.

    Args:
        sizes: As `sizes.daily_sizes` gives them.
    """
    of_brokers = _series(sizes, BROKER, F.col("broker_id").cast("string").alias("name"))
    return of_brokers.unionByName(_series(sizes, TOPIC, F.col("topic").alias("name")))


def _series(sizes: DataFrame, kind: str, name: Any) -> DataFrame:
    by_day = sizes.groupBy("cluster_id", name, "date").agg(F.sum("size_bytes").alias("size"))
    point = F.struct(F.unix_date("date").alias("day"), "size")
    return by_day.groupBy("cluster_id", "name").agg(
        F.lit(kind).alias("kind"), F.sort_array(F.collect_list(point)).alias("points")
    )


def whole_days(after: float) -> int:
    """Days that have passed before the room is used up. 49.99999999 days by rounding are 50."""
    return int(after + 1e-6)


def _fitted(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa  # noqa: PLC0415  on the executor

    for batch in batches:
        rows = [runway_of(row) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def runway_of(row: dict[str, Any]) -> dict[str, Any]:
    """One row of `runway`.

    Args:
        row: cluster_id, kind, name, room (bytes, or None), points: ascending {day (since 1970), size}.
    """
    days = [float(point["day"]) for point in row["points"]]
    sizes = [float(point["size"]) for point in row["points"]]
    until = date(1970, 1, 1) + timedelta(days=int(days[-1]))
    told = dict.fromkeys(RUNWAY.columns) | {
        "cluster_id": row["cluster_id"], "kind": row["kind"], "name": row["name"], "size_bytes": int(sizes[-1]),
        "room_bytes": row["room"], "days": len(days), "until": until, "schema_version": SCHEMA_VERSION,
        "held_back_error": held_back_error(days, sizes),
    }  # fmt: skip
    trend = trend_of(days, sizes)
    if trend is None:
        return told
    told |= {
        "growth_bytes_per_day": trend.slope, "growth_low": trend.low, "growth_high": trend.high,
        "one_off_bytes": trend.one_off,
    }  # fmt: skip
    if row["room"] is not None:
        # The room is what is free beside the newest size; the next tooth may need some of it.
        left = row["room"] - (trend.level - sizes[-1])
        for name, after in zip(("full_earliest", "full_at", "full_latest"), days_until(trend, left), strict=True):
            told[name] = None if after is None or after > _FARTHEST else until + timedelta(days=whole_days(after))
    return told
