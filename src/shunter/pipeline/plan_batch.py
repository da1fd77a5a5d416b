"""One plan of a fleet, from the model in the lake to its tables in the lake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.core.planning.request import PlanRequest
from shunter.pipeline.account_schemas import PLAN_ASSIGNMENTS, PLAN_LOADS, PLAN_MOVES, PLAN_UNDONE, PLANS
from shunter.pipeline.fleet import fleet_rows, plan_fleet
from shunter.pipeline.fleet_worker import ClusterLimit
from shunter.pipeline.lake import Lake
from shunter.pipeline.schemas import LOAD_MODEL, Table
from shunter.pipeline.snapshot_batch import latest_snapshot


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What is planned: the request, for which clusters (none named: all), at which peak, for how far ahead."""

    plan_id: str
    request: PlanRequest = field(default_factory=PlanRequest)
    clusters: tuple[str, ...] = ()
    peak: str = "p95"
    days: float = 0.0
    limit: ClusterLimit = field(default_factory=ClusterLimit)
    tasks: int | None = None
    capacity: float | None = None


class ClusterOutcome(NamedTuple):
    """What planning one cluster came to."""

    cluster_id: str
    status: str
    message: str | None
    seconds: float
    moves: int
    bytes_moved: float | None
    bytes_percent: float | None
    bound_percent: float | None
    joint_bound_percent: float | None
    undone: int


def plan_lake(spark: SparkSession, lake: Lake, asked: FleetPlan) -> tuple[ClusterOutcome, ...]:
    """Plan what the lake's model and newest snapshots show, and write the plan's tables."""
    model = lake.read(spark, LOAD_MODEL)
    brokers, replicas = latest_snapshot(spark, lake)
    rows = fleet_rows(model, brokers, replicas, peak=asked.peak, days=asked.days, capacity=asked.capacity)
    if asked.clusters:
        rows = rows.where(F.col("cluster_id").isin(*asked.clusters))
    planned = plan_fleet(rows, asked.request, asked.limit, tasks=asked.tasks).persist()
    try:
        for table, frame in plan_tables(planned, asked.plan_id):
            lake.write(frame, table)
        told = planned.select(
            "cluster_id", "status", "message", "seconds", F.coalesce(F.size("moves"), F.lit(0)).alias("moves"),
            "bytes_moved", "bytes_percent", "bound_percent", "joint_bound_percent",
            F.coalesce(F.size("undone"), F.lit(0)).alias("undone"),
        )  # fmt: skip
        return tuple(ClusterOutcome(*row) for row in told.orderBy("cluster_id").collect())
    finally:
        planned.unpersist()


def plan_tables(planned: DataFrame, plan_id: str) -> Iterator[tuple[Table, DataFrame]]:
    """Take the nested result of `plan_fleet` apart into the tables of a plan."""
    named = planned.withColumn("plan_id", F.lit(plan_id))
    yield PLANS, named.select(*PLANS.columns)
    for table, nested in (
        (PLAN_MOVES, "moves"),
        (PLAN_ASSIGNMENTS, "assignments"),
        (PLAN_LOADS, "loads"),
        (PLAN_UNDONE, "undone"),
    ):
        each = named.select("cluster_id", "plan_id", F.explode(nested).alias("one"))
        yield table, each.select("cluster_id", "plan_id", "one.*").select(*table.columns)


class Reassignment(NamedTuple):
    """A partition's target, and the replicas that it was planned from (None: no snapshot told)."""

    topic: str
    partition: int
    replicas: list[int]
    original: list[int] | None


def reassignments(spark: SparkSession, lake: Lake, plan_id: str) -> Iterator[tuple[str, Reassignment]]:
    """A plan's targets with their cluster's id, in order of cluster, topic and partition."""
    frame = lake.read(spark, PLAN_ASSIGNMENTS).where(F.col("plan_id") == plan_id)
    ordered = frame.select("cluster_id", "topic", "partition", "replicas", "original_replicas")
    for row in ordered.orderBy("cluster_id", "topic", "partition").toLocalIterator():
        cluster_id, *told = row
        yield cluster_id, Reassignment(*told)


def latest_plan(spark: SparkSession, lake: Lake, cluster: str | None = None) -> str | None:
    """The newest plan's id: ids begin with their moment, so the greatest is the newest."""
    plans = lake.read(spark, PLANS)
    chosen = plans if cluster is None else plans.where(F.col("cluster_id") == cluster)
    row = chosen.agg(F.max("plan_id").alias("plan_id")).first()
    return None if row is None else row["plan_id"]
