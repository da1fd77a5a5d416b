"""Schedules of a plan: when each copy runs, how long all copies take, what brokers carry meanwhile, other scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.pipeline.ingest.snapshot_batch import latest_snapshot
from shunter.pipeline.lake.account_schemas import (
    ACCOUNT_PLANS,
    ACCOUNT_RATES,
    PLAN_LOADS,
    PLAN_MOVES,
    PLANS,
    SCHEDULE_LOADS,
    SCHEDULE_MOVES,
    SCHEDULES,
)
from shunter.pipeline.lake.caching import cached
from shunter.pipeline.lake.outlook_schemas import BROKER_WEEKS
from shunter.pipeline.lake.schemas import LEADER, LOAD_MODEL, Table
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.planning.fleet_worker import PLANNED
from shunter.pipeline.planning.plan_batch import named_plan
from shunter.pipeline.planning.schedule_worker import RESULT, RESULT_DDL, Scenario, ScheduleOptions, schedule_cluster

if TYPE_CHECKING:
    import pyarrow as pa

SCHEDULE_ROWS = (
    "cluster_id", "plan_id", "topic", "partition", "source", "other", "target", "bytes", "growth", "traffic_in",
    "traffic_out",
)  # fmt: skip


class ScheduleOutcome(NamedTuple):
    """The summary of one schedule."""

    cluster_id: str
    scenario: str
    seconds_low: float | None
    seconds: float | None
    seconds_high: float | None
    bytes: float | None
    rests_on: str
    warning: str | None
    quiet: str | None = None
    """When the moves disturb least, and what it costs to begin now."""

    @property
    def told(self) -> str:
        """The summary as a sentence."""
        if self.seconds is None:
            return f"{self.cluster_id}, {self.scenario}: no duration, by {self.rests_on}"
        interval = f"{self.seconds_low or 0:.0f} to {self.seconds_high or 0:.0f}"
        return f"{self.cluster_id}, {self.scenario}: {self.seconds:.0f} s ({interval}), by {self.rests_on}"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """How moves shall run, and further scenarios. Rates are bytes per second; None: a learnt rate, or an assumption."""

    throttle: float | None = None
    capacity: float | None = None
    per_broker: int = 3
    total: int = 0
    traffic: tuple[float, ...] = ()
    lost: tuple[int, ...] = ()


class Scheduled(NamedTuple):
    """The schedules of one plan, by cluster."""

    plan_id: str
    scenarios: tuple[ScheduleOutcome, ...]
    idle: tuple[str, ...]
    """Clusters whose plan copies nothing."""
    unplanned: tuple[tuple[str, str], ...]
    """Clusters that got no plan, and why."""


def schedule_rows(moves: DataFrame, replicas: DataFrame, model: DataFrame, loads: DataFrame) -> DataFrame:
    """Add to each copy where its bytes come from, how fast its partition grows, what its brokers carry already.

    Grain: one row per copied replica; columns of `SCHEDULE_ROWS`. Without a snapshot, sources are null, and growth is that
    of the topic's name. With one it is that of the topic which has the name now: a deleted topic may have had it before.

    Args:
        moves: Columns of `plan_moves`.
        replicas: The newest snapshots' replicas: bytes come from the leader.
        model: Columns of `load_model`.
        loads: Columns of `plan_loads`.
    """
    key = ["cluster_id", "topic", "partition"]
    leads = replicas.groupBy(*key).agg(
        F.max("topic_id").alias("live_id"),
        F.max(F.when(F.col("is_leader"), F.col("broker_id"))).alias("leader"),
        F.max(F.when(~F.col("is_leader") & F.col("in_sync"), F.col("broker_id"))).alias("other"),
    )
    leading = model.where(F.col("role") == LEADER).select(*key, "topic_id", "bytes_in_mean")
    of_live = leading.join(leads.select(*key, "live_id"), on=key, how="left").where(
        F.coalesce(F.col("topic_id") == F.col("live_id"), F.lit(True))
    )
    growth = of_live.groupBy(*key).agg(F.max("bytes_in_mean").alias("growth"))
    joined = moves.drop("source", "reason").join(leads, on=key, how="left").join(growth, on=key, how="left")
    for name, resource, broker in (("traffic_in", "bytes in", "target"), ("traffic_out", "bytes out", "leader")):
        carried = loads.where(F.col("resource") == resource).select(
            "cluster_id", "plan_id", F.col("broker").alias(broker), F.col("before").alias(name)
        )
        joined = joined.join(carried, on=["cluster_id", "plan_id", broker], how="left")
    return joined.withColumn("source", F.col("leader")).select(*SCHEDULE_ROWS)


def schedule_fleet(rows: DataFrame, options: ScheduleOptions) -> DataFrame:
    """Schedule each cluster's plan. Grain: one row per cluster, plan and scenario, with its moves and loads nested."""

    def work(table: pa.Table) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415  on the executor

        return pa.Table.from_pylist(schedule_cluster(table, options), schema=RESULT)

    # The dispatcher is numpy and takes a cluster's moves at once; no native function serves.
    return rows.groupBy("cluster_id", "plan_id").applyInArrow(work, RESULT_DDL)


def schedule_lake(spark: SparkSession, lake: Lake, plan_id: str | None, asked: WhatIf, *, now: datetime) -> Scheduled:
    """Schedule a plan (None: the newest) as it is, and under every scenario of `asked`.

    Raises:
        FormatError: there is no plan.
    """
    known, ratios = learnt(spark, lake)
    scenarios = [
        Scenario(),
        *(Scenario(traffic=factor) for factor in asked.traffic),
        *(Scenario(lost=broker) for broker in asked.lost),
    ]
    options = ScheduleOptions(
        tuple(scenarios), asked.throttle, asked.capacity, asked.per_broker, asked.total, ratios, known,
        known_weeks(spark, lake), now.weekday() * 24 + now.hour,
    )  # fmt: skip
    chosen = named_plan(spark, lake, plan_id)
    made = _schedule_plan(spark, lake, chosen, options)
    busy = {one.cluster_id for one in made}
    clusters = lake.read(spark, PLANS).where(F.col("plan_id") == chosen).select("cluster_id", "status", "message")
    rest = [row for row in clusters.orderBy("cluster_id").collect() if row["cluster_id"] not in busy]
    idle = tuple(row["cluster_id"] for row in rest if row["status"] == PLANNED)
    unplanned = tuple((row["cluster_id"], row["message"] or "") for row in rest if row["status"] != PLANNED)
    return Scheduled(chosen, made, idle, unplanned)


def _schedule_plan(
    spark: SparkSession, lake: Lake, plan_id: str, options: ScheduleOptions
) -> tuple[ScheduleOutcome, ...]:
    of_plan = F.col("plan_id") == plan_id
    moves, loads = lake.read(spark, PLAN_MOVES).where(of_plan), lake.read(spark, PLAN_LOADS).where(of_plan)
    _, replicas = latest_snapshot(spark, lake)
    rows = schedule_rows(moves, replicas, lake.read(spark, LOAD_MODEL), loads)
    with cached(schedule_fleet(rows, options)) as scheduled:
        for table, frame in schedule_tables(scheduled):
            lake.write(frame, table)
        sums = scheduled.select(
            "cluster_id", "scenario", "seconds_low", "seconds", "seconds_high", "bytes", "rests_on", "warning", "quiet"
        )
        return tuple(ScheduleOutcome(*row) for row in sums.orderBy("cluster_id", "scenario").collect())


def schedule_tables(scheduled: DataFrame) -> Iterator[tuple[Table, DataFrame]]:
    """Take the nested result apart."""
    yield SCHEDULES, scheduled.select(*SCHEDULES.columns)
    for table, nested in ((SCHEDULE_MOVES, "moves"), (SCHEDULE_LOADS, "loads")):
        each = scheduled.select("cluster_id", "plan_id", "scenario", F.explode(nested).alias("one"))
        yield table, each.select("cluster_id", "plan_id", "scenario", "one.*").select(*table.columns)


def known_weeks(spark: SparkSession, lake: Lake) -> dict[tuple[str, int], tuple[list[float], list[float]]]:
    """Brokers' weeks: what each receives and sends by hour; a row per broker."""
    rows = lake.read(spark, BROKER_WEEKS).select("cluster_id", "broker_id", "receives", "sends").collect()
    return {(row["cluster_id"], row["broker_id"]): (row["receives"], row["sends"]) for row in rows}


def learnt(spark: SparkSession, lake: Lake) -> tuple[tuple[tuple[str, int, float], ...], tuple[float, ...]]:
    """Lessons of past moves: (cluster, broker, bytes/s) that copies reached, and ratios of real to planned duration."""
    rates = lake.read(spark, ACCOUNT_RATES)
    either = rates.select("cluster_id", F.explode(F.array("source", "target")).alias("broker"), "rate_p50")
    by_broker = (
        either.groupBy("cluster_id", "broker").agg(F.max("rate_p50").alias("rate")).orderBy("cluster_id", "broker")
    )
    known = tuple((row["cluster_id"], row["broker"], row["rate"]) for row in by_broker.collect())
    plans = lake.read(spark, ACCOUNT_PLANS).where((F.col("seconds") > 0) & (F.col("planned_seconds") > 0))
    ratios = plans.select((F.col("seconds") / F.col("planned_seconds")).alias("ratio")).collect()
    return known, tuple(row["ratio"] for row in ratios)
