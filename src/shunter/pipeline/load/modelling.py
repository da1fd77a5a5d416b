"""The load model: each replica's rates with percentiles, its size and growth, and how far to trust them.

Leaders and followers are modelled apart, since a leader serves consumers and a follower does not. Percentiles are
exact over the time that was measured (nearest rank: the lowest rate that is not exceeded in at least p of that time):
plans are made for the peak, where sketches are weakest.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from shunter.core.planning.week import HOURS
from shunter.pipeline.ingest.identity import NAMED, id_of_name
from shunter.pipeline.lake.schemas import AMOUNTS, LOAD_MODEL, REPLICA_KEY, SCHEMA_VERSION, SHAPES

PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
GROWTH_SECONDS = 6 * 3_600
"""Below this span a slope says more about segment rolls and retention than about growth."""
SHAPE_SECONDS = 14 * 86_400
DAY = 86_400


def load_model(samples: DataFrame, *, tasks: int | None = None) -> DataFrame:
    """Model each replica from its windows.

    Grain: one row per replica and role; columns of `load_model`. Replicas without any rate stay, with basis `sizes`.
    A window whose amount is null (a gap, a restart) counts for no rate. Windows weigh by their length, in means and
    percentiles.

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
        # Two sources may know an amount each of the same time, by windows of their own: no time counts twice.
        F.greatest(*(F.count(name) for name in AMOUNTS)).alias("windows"),
        F.min("window_start").alias("first_window"),
        F.max("window_start").alias("last_window"),
        # A window without any amount (a gap, a size alone) was not measured, however long it is.
        F.coalesce(F.greatest(*map(measured_seconds, AMOUNTS)), F.lit(0)).alias("covered_seconds"),
        F.max(_end()).alias("end"),
        *(_mean(name).alias(f"{name}_mean") for name in AMOUNTS),
        *(F.collect_list(F.col(name) / F.col("window_seconds")).alias(name) for name in AMOUNTS),
        F.collect_list("size_bytes").alias("sizes"),
        *(_lasted(name).alias(f"{name}_lasted") for name in AMOUNTS),
        _lasted("size_bytes").alias("sizes_lasted"),
        last_size().alias("size_bytes"),
        F.max("size_bytes").alias("size_max"),
        (F.regr_slope("size_bytes", _end().cast("double")) * DAY).alias("slope"),
    )
    return _described(grouped.withColumns({f"{name}_ranks": _ranks(name) for name in (*AMOUNTS, "sizes")}))


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
        *(measured_seconds(name).alias(f"{name}_seconds") for name in AMOUNTS[:2]),
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
        rates.extend(F.col(f"{name}_ranks")[label].alias(f"{name}_{label}") for label in PERCENTILES)
        rates.append(F.array_max(name).alias(f"{name}_max"))
    return ranked.select(
        "cluster_id", "topic_id", "topic", "partition", "broker_id", "role",
        F.when(has_rates, F.lit("rates")).otherwise(F.lit("sizes")).alias("basis"),
        "windows", "first_window", "last_window", "covered_seconds", coverage.alias("coverage"), *rates,
        "size_bytes",
        F.col("sizes_ranks.p95").cast("double").alias("size_p95"),
        "size_max",
        F.when(span >= GROWTH_SECONDS, F.col("slope")).alias("growth_bytes_per_day"),
        confidence.alias("confidence"),
        F.lit(SCHEMA_VERSION).alias("schema_version"),
    ).select(*LOAD_MODEL.columns)  # fmt: skip


def measured_seconds(name: str) -> Column:
    """How long the windows are that have an amount, together."""
    return F.sum(F.when(F.col(name).isNotNull(), F.col("window_seconds")))


def _mean(name: str) -> Column:
    return F.sum(name) / measured_seconds(name)


def _lasted(name: str) -> Column:
    """The lengths of the windows that have an amount, in the order in which `collect_list` has the amounts."""
    return F.collect_list(F.when(F.col(name).isNotNull(), F.col("window_seconds")))


def _ranks(name: str) -> Column:
    """The percentiles of an array whose values lasted for `…_lasted` seconds; nulls for an empty one.

    If all windows have one length, as nearly always, the place in the sorted array is known without a walk through it.
    """
    lasted, shares = F.col(f"{name}_lasted"), PERCENTILES.items()
    even = F.coalesce(F.array_min(lasted) == F.array_max(lasted), F.lit(True))
    at_place = {
        label: F.get(F.sort_array(name), (F.ceil(F.size(name) * F.lit(share)) - 1).cast("int"))
        for label, share in shares
    }
    zero = F.lit(0).cast("bigint")
    whole = F.aggregate(lasted, zero, lambda seen, seconds: seen + seconds)
    nothing = F.get(F.col(name), F.lit(-1))

    def further(found: Column, value: Column) -> Column:
        seen = found["seen"] + value[f"{name}_lasted"]
        reached = (
            F.coalesce(found[label], F.when(seen >= found["whole"] * F.lit(share), value[name])).alias(label)
            for label, share in shares
        )
        return F.struct(seen.alias("seen"), found["whole"].alias("whole"), *reached)

    begun = F.struct(zero.alias("seen"), whole.alias("whole"), *(nothing.alias(label) for label, _ in shares))
    return F.when(even, F.struct(*(column.alias(label) for label, column in at_place.items()))).otherwise(
        F.aggregate(
            F.array_sort(F.arrays_zip(name, lasted)), begun, further,
            lambda found: F.struct(*(found[label].alias(label) for label, _ in shares)),
        )
    )  # fmt: skip


def _entry(name: str) -> Column:
    return F.struct(F.col("hour"), (F.col(name) / F.col(f"{name}_seconds")).alias("rate"))


def _week(name: str) -> Column:
    hours = F.sequence(F.lit(0), F.lit(HOURS - 1))
    mean = F.when(F.col(f"{name}_mean") > 0, F.col(f"{name}_mean"))
    return F.transform(hours, lambda hour: F.col(f"{name}_hours")[hour] / mean)
