"""Sizes of logs day by day: from snapshots if there are some, else from samples."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def daily_sizes(replicas: DataFrame, days: DataFrame) -> DataFrame:
    """The size of each replica's log on each day.

    Grain: one row per cluster, day, topic, partition and broker; columns cluster_id, date, topic, partition, broker_id,
    size_bytes. If a cluster has a snapshot of a day, the sizes are those of the newest one alone; else they are from
    roll-ups.

    Args:
        replicas: Columns of `replicas`.
        days: Columns of `daily`.
    """
    day = ["cluster_id", "date"]
    columns = [*day, "topic", "partition", "broker_id", "size_bytes"]
    newest = replicas.groupBy(*day).agg(F.max("taken_at").alias("taken_at"))
    of_snapshots = replicas.join(newest, on=[*day, "taken_at"], how="left_semi").select(*columns)
    key = columns[:-1]
    of_samples = days.join(newest, on=day, how="left_anti").where(F.col("size_bytes").isNotNull())
    of_samples = of_samples.groupBy(*key).agg(F.max("size_bytes").alias("size_bytes"))
    return of_snapshots.where(F.col("size_bytes").isNotNull()).unionByName(of_samples)
