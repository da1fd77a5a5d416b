"""The load model: each replica's rates with percentiles, its size and growth, and how far to trust them.

Leaders and followers are modelled apart, since a leader serves consumers and a follower does not. Percentiles are
exact over the windows that were measured (nearest rank: the lowest rate that at least p of all windows don't exceed).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from shunter.core.planning.week import HOURS
from shunter.pipeline.identity import NAMED, id_of_name
from shunter.pipeline.schemas import AMOUNTS, LOAD_MODEL, REPLICA_KEY, SCHEMA_VERSION, SHAPES

PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
GROWTH_SECONDS = 6 * 3_600
"""Below this span a slope says more about segment rolls and retention than about growth."""
SHAPE_SECONDS = 14 * 86_400
DAY = 86_400


def load_model(samples: DataFrame, *, tasks: int | None = None) -> DataFrame:
    """Model each replica from its windows.

    Grain: one row per replica and role; columns of `load_model`. Replicas without any rate stay, with basis `sizes`.
    A window whose amount is null (a gap, a restart) counts for no rate; windows of different lengths weigh equally in
    percentiles and by their length in means.

    Args:
        samples: Columns of `samples`, or of a roll-up (then the percentiles are those of hours or days).
        tasks: Into how many tasks the work is cut (about a million rows each); None leaves it to Spark.
    """
    # The id of a topic without one repeats its name, so the name need not go through the shuffle beside the id.
    own_name = F.when(F.col("topic_id") != id_of_name(), F.col("topic")).alias("topic")
    keyed = samples.select(*REPLICA_KEY, own_name, "window_start", "window_seconds", *AMOUNTS, "size_bytes")
    # Shuffled before it is grouped: one replica's windows then meet in one task, and the lists below are made once.
    spread = keyed.repartition(tasks, *REPLICA_KEY) if tasks else keyed.repartition(*REPLICA_KEY)
    grouped = spread.groupBy(*REPLICA_KEY).agg(
        F.coalesce(F.any_value("topic", ignoreNulls=True), F.expr(f"substring(topic_id, {len(NAMED) + 1})")).alias(
            "topic"
        ),
        F.count_if(F.coalesce(*AMOUNTS).isNotNull()).alias("windows"),
        F.min("window_start").alias("first_window"),
        F.max("window_start").alias("last_window"),
        # A window without any amount (a gap, a size alone) was not measured, however long it is.
        F.coalesce(F.sum(F.when(F.coalesce(*AMOUNTS).isNotNull(), F.col("window_seconds"))), F.lit(0)).alias(
            "covered_seconds"
        ),
        F.max(_end()).alias("end"),
        *(_mean(name).alias(f"{name}_mean") for name in AMOUNTS),
        *(F.collect_list(F.col(name) / F.col("window_seconds")).alias(name) for name in AMOUNTS),
        F.collect_list("size_bytes").alias("sizes"),
        last_size().alias("size_bytes"),
        F.max("size_bytes").alias("size_max"),
        (F.regr_slope("size_bytes", _end().cast("double")) * DAY).alias("slope"),
    )
    ranked = grouped.withColumns({name: F.sort_array(name) for name in (*AMOUNTS, "sizes")})
    return _described(ranked)


def load_shape(samples: DataFrame) -> DataFrame:
    """The week of each replica that was measured for two weeks or more: rate by hour of week ÷ mean rate.

    Grain: one row per such replica and role; columns of `shapes`. Replicas with less history are dropped.
    """
    start = F.unix_seconds("window_start")
    # 1970-01-05 was a Monday: four days after the epoch.
    hour_of_week = F.pmod((start - 4 * DAY) / 3_600, F.lit(HOURS)).cast("int")
    by_hour = samples.groupBy(*REPLICA_KEY, hour_of_week.alias("hour")).agg(
        F.max("topic").alias("topic"),
        *(F.sum(name).alias(name) for name in AMOUNTS[:2]),
        *(_measured_seconds(name).alias(f"{name}_seconds") for name in AMOUNTS[:2]),
        F.min(start).alias("first"),
        F.max(start + F.col("window_seconds")).alias("end"),
    )
    entries = {name: _entry(name) for name in AMOUNTS[:2]}
    by_replica = by_hour.groupBy(*REPLICA_KEY).agg(
        F.max("topic").alias("topic"),
        *(F.map_from_entries(F.collect_list(entry)).alias(f"{name}_hours") for name, entry in entries.items()),
        *((F.sum(name) / F.sum(f"{name}_seconds")).alias(f"{name}_mean") for name in AMOUNTS[:2]),
        (F.max("end") - F.min("first")).alias("span"),
    )
    return by_replica.where(F.col("span") >= SHAPE_SECONDS).select(
        "cluster_id", "topic_id", "topic", "partition", "broker_id", "role",
        *(_week(name).alias(f"{name}_by_hour_of_week") for name in AMOUNTS[:2]),
        (F.col("span") / (7 * DAY)).alias("weeks"),
        F.lit(SCHEMA_VERSION).alias("schema_version"),
    ).select(*SHAPES.columns)  # fmt: skip


def last_size() -> Column:
    """The size at the end of the window that ends last: a long window may begin first and end last."""
    return F.max_by("size_bytes", F.when(F.col("size_bytes").isNotNull(), F.struct(_end(), F.col("size_bytes"))))


def _end() -> Column:
    return F.unix_seconds("window_start") + F.col("window_seconds")


def _described(ranked: DataFrame) -> DataFrame:
    span = F.greatest(F.col("end") - F.unix_seconds("first_window"), F.lit(1))
    coverage = F.least(F.lit(1.0), F.col("covered_seconds") / span)
    has_rates = F.col("windows") > 0
    # 1 − 0.99^n: the chance that n independent windows hold one at or above the true 99th percentile.
    seen = F.lit(1.0) - F.pow(F.lit(0.99), F.col("windows"))
    confidence = F.when(has_rates, coverage * seen * F.least(F.lit(1.0), span / (7 * DAY))).otherwise(F.lit(0.0))
    rates: list[Column] = []
    for name in AMOUNTS:
        rates.append(F.col(f"{name}_mean"))
        rates.extend(_percentile(name, share).alias(f"{name}_{label}") for label, share in PERCENTILES.items())
        rates.append(F.get(F.col(name), F.size(name) - 1).alias(f"{name}_max"))
    return ranked.select(
        "cluster_id", "topic_id", "topic", "partition", "broker_id", "role",
        F.when(has_rates, F.lit("rates")).otherwise(F.lit("sizes")).alias("basis"),
        "windows", "first_window", "last_window", "covered_seconds", coverage.alias("coverage"), *rates,
        "size_bytes",
        _percentile("sizes", 0.95).cast("double").alias("size_p95"),
        "size_max",
        F.when(span >= GROWTH_SECONDS, F.col("slope")).alias("growth_bytes_per_day"),
        confidence.alias("confidence"),
        F.lit(SCHEMA_VERSION).alias("schema_version"),
    ).select(*LOAD_MODEL.columns)  # fmt: skip


def _measured_seconds(name: str) -> Column:
    return F.sum(F.when(F.col(name).isNotNull(), F.col("window_seconds")))


def _mean(name: str) -> Column:
    return F.sum(name) / _measured_seconds(name)


def _percentile(name: str, share: float) -> Column:
    """Nearest rank in a sorted array; null in an empty one."""
    return F.get(F.col(name), (F.ceil(F.size(name) * F.lit(share)) - 1).cast("int"))


def _entry(name: str) -> Column:
    return F.struct(F.col("hour"), (F.col(name) / F.col(f"{name}_seconds")).alias("rate"))


def _week(name: str) -> Column:
    hours = F.sequence(F.lit(0), F.lit(HOURS - 1))
    mean = F.when(F.col(f"{name}_mean") > 0, F.col(f"{name}_mean"))
    return F.transform(hours, lambda hour: F.col(f"{name}_hours")[hour] / mean)
