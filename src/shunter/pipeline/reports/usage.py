"""Showback: bytes stored, written, read and carried across racks in each month, by topic, prefix and owner."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from shunter.pipeline.lake.outlook_schemas import SHOWBACK
from shunter.pipeline.lake.schemas import LEADER, SCHEMA_VERSION, UNKNOWN_ROLE


def showback(
    sizes: DataFrame, days: DataFrame, brokers: DataFrame, replicas: DataFrame, owners: Sequence[tuple[str, str]] = ()
) -> DataFrame:
    """Sum up each topic's months.

    Grain: one row per cluster, month and topic; columns of `showback`. Followers' copies across racks follow from where
    the newest snapshot shows a partition's replicas. The racks of consumers are not known.

    Args:
        sizes: As `sizes.daily_sizes` gives them.
        days: Columns of `daily`.
        brokers: The newest snapshots' brokers.
        replicas: The newest snapshots' replicas.
        owners: Patterns of topics' names (`payments.*`) with their owners, the first match first.
    """
    topic = ["cluster_id", "topic", "month"]
    month = F.trunc("date", "month").alias("month")
    by_day = sizes.groupBy("cluster_id", "topic", "date").agg(F.sum("size_bytes").alias("stored"))
    stored = by_day.groupBy("cluster_id", "topic", month).agg(
        F.avg("stored").alias("stored_bytes"), F.collect_set("date").alias("sized")
    )
    partition = ["cluster_id", "topic", "partition", "date"]
    moved = days.groupBy(*partition).agg(*(_by_leader(name).alias(name) for name in ("bytes_in", "bytes_out")))
    carried = moved.join(_copies_across(brokers, replicas), on=["cluster_id", "topic", "partition"], how="left")
    used = carried.groupBy("cluster_id", "topic", month).agg(
        F.sum("bytes_in").alias("written_bytes"),
        F.sum("bytes_out").alias("read_bytes"),
        F.sum(F.col("bytes_in") * F.col("across")).alias("cross_rack_bytes"),
        F.collect_set("date").alias("moved"),
    )
    empty = F.array().cast("array<date>")
    both = stored.join(used, on=topic, how="full")
    return both.select(
        "cluster_id", "topic",
        F.regexp_extract("topic", r"^([^._-]*)", 1).alias("prefix"),
        _owner(owners).alias("owner"),
        F.size(F.array_union(F.coalesce("sized", empty), F.coalesce("moved", empty))).cast("bigint").alias("days"),
        "stored_bytes", "written_bytes", "read_bytes", "cross_rack_bytes",
        (F.col("written_bytes") == 0).alias("idle"),
        F.lit(SCHEMA_VERSION).alias("schema_version"), "month",
    ).select(*SHOWBACK.columns)  # fmt: skip


def _by_leader(name: str) -> Column:
    """A partition's amount of a day: its leader's, else that of a row of unknown role (all replicas get the same)."""
    led = F.sum(F.when(F.col("role") == LEADER, F.col(name)))
    return F.coalesce(led, F.max(F.when(F.col("role") == UNKNOWN_ROLE, F.col(name))))


def _copies_across(brokers: DataFrame, replicas: DataFrame) -> DataFrame:
    """How many followers of a partition are in another rack than its preferred leader; null without racks."""
    racks = brokers.select("cluster_id", "broker_id", "rack")
    placed = replicas.join(racks, on=["cluster_id", "broker_id"], how="left")
    of_leader = F.max(F.when(F.col("position") == 0, F.col("rack")))
    by_partition = placed.groupBy("cluster_id", "topic", "partition").agg(
        of_leader.alias("leads"), F.collect_list("rack").alias("racks"), F.count("*").alias("held")
    )
    known = F.size("racks") == F.col("held")
    across = F.size(F.filter("racks", lambda rack: rack != F.col("leads")))
    return by_partition.select("cluster_id", "topic", "partition", F.when(known, across).alias("across"))


def _owner(owners: Sequence[tuple[str, str]]) -> Column:
    found = F.lit(None).cast("string")
    for pattern, owner in reversed(owners):
        matches = F.col("topic").rlike(f"^{fnmatch.translate(pattern)}")
        found = F.when(matches, F.lit(owner)).otherwise(found)
    return found
