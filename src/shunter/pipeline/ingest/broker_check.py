"""Compares brokers' own counters with the sum of the samples of their partitions.

A model made from samples that miss partitions looks like a calm cluster. If there are counters of the brokers (from
Cruise Control or Prometheus), they show how much of the load the model has.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from shunter.pipeline.ingest.identity import DERIVED
from shunter.pipeline.lake.schemas import BROKER_LOADS, LEADER, SCHEMA_VERSION

BUSY_CPU = 0.8
IDLE_HANDLERS = 0.2
"""If a smaller share of the request handlers is idle, requests wait for a handler."""
UNEXPLAINED = 0.1
"""How far samples and counters may differ before a doubt is raised: their windows are cut at different moments."""


class BrokerDoubt(NamedTuple):
    """A sign in a broker's own counters that the model misses load, or that the broker is too busy."""

    cluster_id: str
    broker_id: int
    what: str


def broker_loads(brokers: DataFrame, samples: DataFrame) -> DataFrame:
    """Sum up each broker's windows, and compare them with the samples of the same windows.

    Grain: one row per broker; columns of `broker_loads`. Only the very same windows are compared: Cruise
    Control stamps its partition and broker samples of one round alike. Samples derived from snapshots are left out,
    because they would count the same bytes twice.

    Args:
        brokers: Columns of `broker_samples`.
        samples: Columns of `samples`.
    """
    key = ["cluster_id", "broker_id", "window_start", "window_seconds"]
    counted = (F.col("role") == LEADER) & ~F.col("source").isin(*DERIVED)
    led = samples.where(counted).join(
        F.broadcast(brokers.select("cluster_id").distinct()), on="cluster_id", how="left_semi"
    )
    led = led.groupBy(*key).agg(F.sum("bytes_in").alias("led_in"), F.sum("bytes_out").alias("led_out"))
    joined = brokers.join(led, on=key, how="left")
    received = F.col("bytes_in_rate") + F.col("replication_bytes_in_rate")
    sent = F.col("bytes_out_rate") + F.col("replication_bytes_out_rate")
    return joined.groupBy("cluster_id", "broker_id").agg(
        F.count("*").alias("windows"),
        F.min("window_start").alias("first_window"),
        F.max("window_start").alias("last_window"),
        *_peaks("cpu", F.col("cpu")),
        *_peaks("bytes_in", received),
        *_peaks("bytes_out", sent),
        F.percentile("handler_idle", 0.05, F.col("window_seconds")).alias("handler_idle_p05"),
        F.max_by("size_bytes", F.when(F.col("size_bytes").isNotNull(), F.col("window_start"))).alias("size_bytes"),
        F.count("led_in").alias("compared_windows"),
        _explained("led_in", "bytes_in_rate").alias("explained_bytes_in"),
        _explained("led_out", "bytes_out_rate").alias("explained_bytes_out"),
        F.lit(SCHEMA_VERSION).alias("schema_version"),
    ).select(*BROKER_LOADS.columns)  # fmt: skip


def doubts(loads: DataFrame, most: int = 20) -> tuple[BrokerDoubt, ...]:
    """The doubts about brokers, by cluster and broker, for at most `most` brokers."""
    rows = all_doubts(loads).orderBy(*BROKER_LOADS.key).limit(most).collect()
    return tuple(BrokerDoubt(row["cluster_id"], row["broker_id"], what) for row in rows for what in row["doubts"])


def all_doubts(loads: DataFrame) -> DataFrame:
    """Brokers that deserve a look. Grain: one row per such broker; columns of `broker_loads`, and `doubts`: an array of words."""
    words = [
        F.when(
            _unexplained(name),
            _in_percent(
                f"the samples of the partitions that it leads make %.0f%% of its own count of {told}",
                f"explained_{name}",
            ),
        )
        for name, told in (("bytes_in", "bytes in"), ("bytes_out", "bytes out"))
    ]
    busy = _in_percent("its processors are %.0f%% busy (95th percentile)", "cpu_p95")
    words.append(F.when(F.col("cpu_p95") > BUSY_CPU, busy))
    waiting = _in_percent("its request handlers are %.0f%% idle (5th percentile)", "handler_idle_p05")
    words.append(F.when(F.col("handler_idle_p05") < IDLE_HANDLERS, waiting))
    return loads.withColumn("doubts", F.array_compact(F.array(*words))).where(F.size("doubts") > 0)


def _in_percent(words: str, share: str) -> Column:
    return F.format_string(words, F.col(share) * 100)


def _peaks(name: str, value: Column) -> list[Column]:
    return [
        (F.sum(value * F.col("window_seconds")) / F.sum(F.when(value.isNotNull(), F.col("window_seconds")))).alias(
            f"{name}_mean"
        ),
        F.percentile(value, 0.95, F.col("window_seconds")).alias(f"{name}_p95"),
        F.max(value).alias(f"{name}_max"),
    ]


def _explained(led: str, rate: str) -> Column:
    """Samples ÷ counter, over the windows in which both are known; null if the broker itself counted nothing."""
    both = F.col(led).isNotNull() & F.col(rate).isNotNull()
    counted = F.sum(F.when(both, F.col(rate) * F.col("window_seconds")))
    return F.sum(F.when(both, F.col(led))) / F.when(counted > 0, counted)


def _unexplained(name: str) -> Column:
    return F.coalesce(F.abs(F.col(f"explained_{name}") - 1) > UNEXPLAINED, F.lit(False))
