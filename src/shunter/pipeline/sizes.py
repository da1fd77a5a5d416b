"""What brokers and topics held, day by day: by snapshots where there are some, else by samples."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def daily_sizes(replicas: DataFrame, days: DataFrame) -> DataFrame:
    """The size of each replica's log on each day.

    Grain: one row per cluster, day, topic, partition and broker; columns cluster_id, date, topic, partition, broker_id,
    size_bytes. A day of a cluster with a snapshot is told by its newest whole snapshot alone; other days by roll-ups.

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
