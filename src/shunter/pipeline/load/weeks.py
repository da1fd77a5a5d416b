"""A broker's week: what its replicas carry hour by hour, added up. Its peak is that of the sum, not the sum of peaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from shunter.core.planning.week import HOURS
from shunter.pipeline.lake.outlook_schemas import BROKER_WEEKS
from shunter.pipeline.lake.schemas import FOLLOWER, LEADER, SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

_SUMS = "cluster_id string, broker_id int, receives array<double>, sends array<double>, receives_p95 double, sends_p95 double"


def partition_weeks(model: DataFrame, shapes: DataFrame) -> DataFrame:
    """Rates of each partition by hour of the week, by its leader, else by a row of unknown role.

    Grain: one row per partition with rates; cluster_id, topic_id, partition, in_week and out_week (168 numbers, bytes/s),
    in_p95, out_p95. A partition without two weeks of history carries its 95th percentile in every hour.

    Args:
        model: Columns of `load_model`.
        shapes: Columns of `shapes`.
    """
    key = ["cluster_id", "topic_id", "partition", "broker_id", "role"]
    wanted = ("bytes_in_by_hour_of_week", "bytes_out_by_hour_of_week")
    rates = model.where((F.col("role") != FOLLOWER) & (F.col("windows") > 0))
    joined = rates.join(shapes.select(*key, *wanted), on=key, how="left")
    weeks = {
        f"{short}_week": _week(F.col(shape), f"bytes_{short}")
        for short, shape in zip(("in", "out"), wanted, strict=True)
    }
    peaks = {f"{short}_p95": F.coalesce(f"bytes_{short}_p95", F.lit(0.0)) for short in ("in", "out")}
    # A former leader still has a row: the row with the newest window says how the partition behaves.
    first = F.struct((F.col("role") == LEADER).cast("int"), F.unix_seconds("last_window"), -F.col("broker_id"))
    named = joined.withColumns({**weeks, **peaks}).groupBy("cluster_id", "topic_id", "partition")
    best = F.max_by(F.struct(*weeks, *peaks), first).alias("best")
    return named.agg(best).select("cluster_id", "topic_id", "partition", "best.*")


def at_busiest_hours(model: DataFrame, shapes: DataFrame, weeks: DataFrame) -> DataFrame:
    """Add what each replica carries in the hour in which its cluster's brokers together carry most.

    Grain: as `model`, none dropped; its columns, and bytes_in_week and bytes_out_week. A replica without a shape, or of a
    cluster without broker weeks, carries its 95th percentile.

    Args:
        model: Columns of `load_model`.
        shapes: Columns of `shapes`.
        weeks: Columns of `broker_weeks`.
    """
    both = weeks.withColumn("both", F.zip_with("receives", "sends", lambda one, two: one + two))
    sums = both.groupBy("cluster_id").agg(_sum_of_arrays("both").alias("both"))
    hours = sums.select("cluster_id", F.array_position("both", F.array_max("both")).cast("int").alias("busiest"))
    key = ["cluster_id", "topic_id", "partition", "broker_id", "role"]
    wanted = {name: f"{name}_by_hour_of_week" for name in ("bytes_in", "bytes_out")}
    joined = model.join(F.broadcast(hours), on="cluster_id", how="left")
    joined = joined.join(shapes.select(*key, *wanted.values()), on=key, how="left")
    rates = {
        f"{name}_week": F.coalesce(F.get(_week(F.col(shape), name), F.col("busiest") - 1), f"{name}_p95")
        for name, shape in wanted.items()
    }
    # A rate that was never measured stays null.
    known = {name: F.when(F.col(name.replace("_week", "_p95")).isNotNull(), rate) for name, rate in rates.items()}
    return joined.withColumns(known).select(*model.columns, *known)


def _week(shape: Column, name: str) -> Column:
    mean, flat = F.col(f"{name}_mean"), F.coalesce(f"{name}_p95", F.lit(0.0))
    by_hour = F.transform(shape, lambda ratio: F.coalesce(ratio, F.lit(1.0)) * mean)
    return F.when(shape.isNotNull() & mean.isNotNull(), by_hour).otherwise(F.array_repeat(flat, HOURS))


def broker_weeks(weeks: DataFrame, replicas: DataFrame) -> DataFrame:
    """Add the weeks of each broker's replicas up.

    Grain: one row per broker that holds a replica; columns of `broker_weeks`.

    Args:
        weeks: As `partition_weeks` gives them.
        replicas: The newest snapshots' replicas; the first one of a partition counts as its leader.
    """
    held = F.count("*").alias("held")
    key = ["cluster_id", "topic_id", "partition"]
    counts = replicas.groupBy(*key).agg(held)
    placed = replicas.select(*key, "broker_id", (F.col("position") == 0).alias("leads"))
    joined = placed.join(counts, on=key, how="inner").join(weeks, on=key, how="left")
    # The 168 hours of a million replicas are added as arrays. Exploded, they would be hundreds of millions of rows.
    parts = joined.select(
        "cluster_id", "broker_id", "leads", "held", "in_week", "out_week", "in_p95", "out_p95"
    ).mapInArrow(_added, _SUMS)  # fmt: skip
    sums = parts.groupBy("cluster_id", "broker_id").agg(
        *(_sum_of_arrays(name).alias(name) for name in ("receives", "sends")),
        *(F.sum(f"{name}_p95").alias(f"{name}_p95") for name in ("receives", "sends")),
    )
    peaks = [F.array_max(name).alias(f"{name}_peak") for name in ("receives", "sends")]
    at = [
        (F.array_position(name, F.array_max(name)) - 1).cast("int").alias(f"{name}_at")
        for name in ("receives", "sends")
    ]
    told = sums.select("*", *peaks, *at, F.lit(SCHEMA_VERSION).alias("schema_version"))
    return told.select(*BROKER_WEEKS.columns)


def _sum_of_arrays(name: str) -> Column:
    nothing = F.array_repeat(F.lit(0.0), HOURS)
    return F.aggregate(F.collect_list(name), nothing, lambda one, two: F.zip_with(one, two, lambda x, y: x + y))


def _added(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the rows of each broker, batch by batch."""
    import pyarrow as pa  # noqa: PLC0415  on the executor

    kinds = {"cluster_id": pa.string(), "broker_id": pa.int32()}
    weeks = {name: pa.list_(pa.float64()) for name in ("receives", "sends")}
    peaks = {name: pa.float64() for name in ("receives_p95", "sends_p95")}
    schema = pa.schema([*kinds.items(), *weeks.items(), *peaks.items()])
    for batch in batches:
        if not batch.num_rows:
            continue
        names = list(zip(batch.column("cluster_id").to_pylist(), batch.column("broker_id").to_pylist(), strict=True))
        index = {name: at for at, name in enumerate(sorted(set(names)))}
        row_of = np.array([index[name] for name in names])
        leads = batch.column("leads").to_numpy(zero_copy_only=False).astype(bool)
        copies = batch.column("held").to_numpy(zero_copy_only=False) - 1
        sums = {}
        for ending, width in (("week", HOURS), ("p95", 1)):
            comes, goes = (_matrix(batch.column(f"{way}_{ending}"), width) for way in ("in", "out"))
            receives, sends = np.zeros((len(index), width)), np.zeros((len(index), width))
            np.add.at(receives, row_of, comes)
            np.add.at(sends, row_of[leads], goes[leads] + comes[leads] * copies[leads, None])
            sums[ending] = receives, sends
        found = [
            {
                "cluster_id": cluster, "broker_id": broker,
                "receives": sums["week"][0][at].tolist(), "sends": sums["week"][1][at].tolist(),
                "receives_p95": float(sums["p95"][0][at, 0]), "sends_p95": float(sums["p95"][1][at, 0]),
            }
            for (cluster, broker), at in index.items()
        ]  # fmt: skip
        yield pa.RecordBatch.from_pylist(found, schema=schema)


def _matrix(column: pa.Array, width: int) -> np.ndarray:
    """(rows, width); rows without figures are zero."""
    matrix = np.zeros((len(column), width))
    there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    kept = column.drop_null()
    flat = kept.flatten() if width > 1 else kept
    matrix[there] = flat.to_numpy(zero_copy_only=False).reshape(len(there), width)
    return matrix
