"""How good a cluster's data is, day by day: what there is, how fresh, and how much of it has rates."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from shunter.pipeline.lake.outlook_schemas import DATA_QUALITY
from shunter.pipeline.lake.schemas import FOLLOWER, SCHEMA_VERSION

_DAY = 86_400


def data_quality(samples: DataFrame, replicas: DataFrame, rejects: DataFrame) -> DataFrame:
    """Sum up each day of each cluster.

    Grain: one row per cluster and day with at least one good row; columns of `data_quality`. A partition is identified
    by its topic's name. Its rate may come from any replica but a follower. A moment with several rates counts once.

    Args:
        samples: Columns of `samples`.
        replicas: Columns of `replicas`.
        rejects: Columns of `rejects`.
    """
    day = ["cluster_id", "date"]
    partition = [*day, "topic", "partition"]
    start = F.unix_seconds("window_start")
    end = start + F.col("window_seconds")
    has_rate = F.coalesce("bytes_in", "bytes_out").isNotNull() & (F.col("role") != FOLLOWER)
    # Several sources and replicas cover the same hours. Of each window only the part counts that no earlier window
    # covers. The hash comes first in the sort, because it differs for nearly all rows.
    numbered = samples.withColumn("series", F.xxhash64(*partition))
    ahead = Window.partitionBy("series", *partition).orderBy(start).rowsBetween(Window.unboundedPreceding, -1)
    told_until = F.greatest(start, F.max(F.when(has_rate, end)).over(ahead))
    fresh = F.when(has_rate, F.greatest(F.lit(0), end - told_until)).alias("seconds")
    sampled = numbered.select("series", *partition, end.alias("end"), has_rate.alias("has_rate"), fresh)
    sampled = sampled.groupBy("series", *partition).agg(
        F.count("*").alias("windows"),
        F.sum("seconds").alias("seconds"),
        F.max(F.when(F.col("has_rate"), F.col("end"))).alias("rates_until"),
        F.max("end").alias("end"),
        F.lit(None).cast("timestamp").alias("snapshot_at"),
    ).drop("series")  # fmt: skip
    seen = replicas.groupBy(*partition).agg(F.max("taken_at").alias("snapshot_at"))
    each = sampled.unionByName(seen, allowMissingColumns=True).groupBy(*partition).agg(
        *(F.max(name).alias(name) for name in ("windows", "seconds", "rates_until", "end", "snapshot_at"))
    )  # fmt: skip
    begun = F.unix_seconds(F.col("date").cast("timestamp"))
    # The newest day is not over yet, as far as the data goes.
    newest = F.max("date").over(Window.partitionBy("cluster_id"))
    so_far = F.least(F.lit(_DAY), F.greatest(F.lit(1), F.max("end") - F.max(begun)))
    days = each.groupBy(*day).agg(
        F.count("*").alias("partitions"),
        F.count("seconds").alias("with_rates"),
        F.coalesce(F.sum(F.when(F.col("seconds") > _DAY, F.lit(_DAY)).otherwise(F.col("seconds"))), F.lit(0)).alias(
            "measured"
        ),
        so_far.alias("so_far"),
        F.coalesce(F.sum("windows"), F.lit(0)).alias("windows"),
        F.timestamp_seconds(F.max("rates_until")).alias("rates_until"),
        F.max("snapshot_at").alias("snapshot_at"),
    )
    taken = replicas.groupBy(*day).agg(F.count_distinct("taken_at").alias("snapshots"))
    aside = rejects.groupBy(*day).agg(F.count("*").alias("rejected"))
    joined = days.join(taken, on=day, how="left").join(aside, on=day, how="left")
    passed = F.when(F.col("date") == newest, F.col("so_far")).otherwise(F.lit(_DAY))
    return joined.withColumns(
        {
            "coverage": F.least(F.lit(1.0), F.col("measured") / (passed * F.col("partitions"))),
            "snapshots": F.coalesce("snapshots", F.lit(0)),
            "rejected": F.coalesce("rejected", F.lit(0)),
            "schema_version": F.lit(SCHEMA_VERSION),
        }
    ).select(*DATA_QUALITY.columns)
