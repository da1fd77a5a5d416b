"""Many clusters planned side by side: rows for the planner, tasks cut by size, one row per cluster as the result."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from shunter.core.planning.processors import LEAST_CAPACITY
from shunter.core.planning.request import PlanRequest
from shunter.pipeline.classic import tasks_at_once
from shunter.pipeline.ingest.spreading import numbers_of_tasks
from shunter.pipeline.lake.schemas import FOLLOWER, LEADER, UNKNOWN_ROLE
from shunter.pipeline.load.modelling import PERCENTILES
from shunter.pipeline.planning.fleet_worker import RESULT_DDL, ClusterLimit, plan_batches

if TYPE_CHECKING:
    import pyarrow as pa

FLEET_ROWS = (
    "cluster_id", "topic", "number", "rack", "replicas", "size", "bytes_in", "bytes_out", "min_insync",
    "processors", "costs", "isr", "offline", "leader", "facts",
)  # fmt: skip
"""The planner's input: a row per partition, and a row per broker. In a broker's row topic is null, number is its id, size its
disks' capacity, bytes_in and bytes_out its network's capacity, processors what its processors can do (in average brokers),
costs the cluster's `ProcessorCosts` as an array, and facts what else is known of it (`formats.broker_facts`). In a partition's
row isr, offline and leader (-1: nobody) are null if they are not known."""
PEAKS = ("mean", "p50", "p95", "p99", "max")
"""Statistics of each replica by itself."""
WEEK = "week"
"""Each replica's rate in the hour of the week in which its cluster carries most: peaks at different hours are not added."""
_SHARES = {**PERCENTILES, "max": 1.0, WEEK: 1.0}
_MB = 1e6
STILL_SEEN_SECONDS = 3_600
"""Without a snapshot: a broker whose samples of a partition end so long before the others' counts as not holding it."""


def fleet_rows(
    model: DataFrame,
    brokers: DataFrame,
    replicas: DataFrame,
    *,
    peak: str = "p95",
    days: float = 0.0,
    capacity: float | None = None,
    processors: DataFrame | None = None,
) -> DataFrame:
    """Join the model to the newest snapshots.

    Grain: one row per partition and one per broker; columns of `FLEET_ROWS`. The snapshot says what is there (replicas
    in order, sizes), the model how it behaves. Clusters without a snapshot are planned from the model alone: replicas
    where the newest samples came from, the newest leader first, and no racks.

    Args:
        model: Columns of `load_model`.
        brokers: The newest snapshots' brokers.
        replicas: The newest snapshots' replicas.
        peak: The statistic that the plan must carry, or `WEEK` (then `model` is as `weeks.at_busiest_hours` gives it).
        days: Sizes are those of so many days ahead, by each replica's growth (never less than today's).
        capacity: Bytes per second that each broker's network carries, either way; None: no bound.
        processors: Columns of `processor_model`; what is not usable is left out.
    """
    loads = _partition_loads(model, replicas, peak)
    placed = (
        replicas.groupBy("cluster_id", "topic_id", "topic", "partition")
        .agg(
            _in_order(F.col("position"), F.col("broker_id")).alias("replicas"),
            # As `formats.plan_inventory.size_of`: the leader's, else the greatest that is known.
            F.coalesce(F.max(F.when(F.col("is_leader"), F.col("size_bytes"))), F.max("size_bytes")).alias("seen_size"),
            F.max("min_insync").alias("min_insync"),
            F.sort_array(F.collect_list(F.when(F.col("in_sync"), F.col("broker_id")))).alias("isr"),
            F.sort_array(F.collect_list(F.when(F.col("offline"), F.col("broker_id")))).alias("lost"),
            F.bool_and(F.col("offline").isNotNull()).alias("told"),
            F.coalesce(F.max(F.when(F.col("is_leader"), F.col("broker_id"))), F.lit(-1)).alias("leader"),
        )
        .withColumn("offline", F.when(F.col("told"), F.col("lost")))
        .drop("told", "lost")
    )
    with_snapshot = placed.join(loads.drop("topic", "sampled"), on=["cluster_id", "topic_id", "partition"], how="left")
    known = replicas.select("cluster_id").distinct()
    ahead = F.greatest(F.lit(0.0), F.coalesce("growth", F.lit(0.0))) * F.lit(days)
    without = loads.join(known, on="cluster_id", how="left_anti").select(
        "cluster_id", "topic", F.col("partition").alias("number"), F.col("sampled").alias("replicas"),
        (F.coalesce("size", F.lit(0)) + ahead).alias("size"), "bytes_in", "bytes_out", F.lit(1).alias("min_insync"),
    )  # fmt: skip
    partitions = with_snapshot.select(
        "cluster_id", "topic", F.col("partition").alias("number"), "replicas",
        # The size of now is the snapshot's. Samples give the growth, and the size if no broker reported one.
        (F.coalesce("seen_size", "size", F.lit(0)) + ahead).alias("size"), "bytes_in", "bytes_out", "min_insync",
        "isr", "offline", "leader",
    ).unionByName(without, allowMissingColumns=True)  # fmt: skip
    carries = F.lit(capacity).cast("double")
    broker_rows = brokers.select(
        "cluster_id", F.col("broker_id").alias("number"), "rack",
        F.col("disk_total_bytes").cast("double").alias("size"), carries.alias("bytes_in"), carries.alias("bytes_out"),
        F.coalesce("facts", _room_alone()).alias("facts"),
    )  # fmt: skip
    broker_rows = _with_processors(broker_rows, processors)
    return partitions.unionByName(broker_rows, allowMissingColumns=True).select(*FLEET_ROWS)


def _room_alone() -> Column:
    """What an older snapshot knows of a broker: that it was live, and the room on its disks together."""
    disk = F.struct(
        F.lit("").alias("path"), F.col("disk_total_bytes").alias("total"), F.col("disk_usable_bytes").alias("usable")
    )
    log_dirs = F.when(F.col("disk_total_bytes").isNotNull(), F.array(disk))
    return F.to_json(F.struct(F.lit(True).alias("live"), log_dirs.alias("log_dirs")))


def _with_processors(broker_rows: DataFrame, processors: DataFrame | None) -> DataFrame:
    """Add what each broker's processors can do, less what idling takes. A broker that is not in the model counts as average."""
    if processors is None:
        nothing = {"processors": F.lit(None).cast("double"), "costs": F.lit(None).cast("array<double>")}
        return broker_rows.withColumns(nothing)
    usable = processors.where("usable")
    per_byte = F.array(*(F.col(name) / _MB for name in ("received_cost", "led_cost", "sent_cost")))
    of_clusters = usable.groupBy("cluster_id").agg(F.first("idling").alias("idling"), F.first(per_byte).alias("costs"))
    powers = usable.select("cluster_id", F.col("broker_id").alias("number"), "power")
    joined = broker_rows.join(F.broadcast(of_clusters), on="cluster_id", how="left").join(
        F.broadcast(powers), on=["cluster_id", "number"], how="left"
    )
    left = F.greatest(F.coalesce("power", F.lit(1.0)) - F.col("idling"), F.lit(LEAST_CAPACITY))
    # `greatest` ignores nulls, so the capacity of a cluster without a model has to be made null.
    left = F.when(F.col("idling").isNotNull(), left)
    return joined.withColumn("processors", left).drop("idling", "power")


def plan_fleet(rows: DataFrame, request: PlanRequest, limit: ClusterLimit, *, tasks: int | None = None) -> DataFrame:
    """Plan every cluster, the giants alone in their tasks.

    Grain: one row per cluster, with `status` planned, failed or timed_out and the plan in nested columns.

    Args:
        rows: Columns of `FLEET_ROWS`.
        limit: Limits of one cluster. A cluster that exceeds them does not stop the others.
        tasks: As `fleet_tasks`.
    """

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return plan_batches(batches, request, limit)

    # The planner is numpy and takes a whole cluster at once; no native function serves.
    return fleet_tasks(rows, tasks).mapInArrow(work, RESULT_DDL)


def fleet_tasks(rows: DataFrame, tasks: int | None = None) -> DataFrame:
    """Bring the rows of each cluster together, the giants alone in their tasks.

    Grain: as `rows`, none dropped; columns of `FLEET_ROWS`.

    Args:
        tasks: Into how many tasks the fleet is cut; None: as many as there are cores, or clusters.
    """
    spark = rows.sparkSession
    counted = rows.groupBy("cluster_id").agg(F.count("*").alias("rows")).collect()
    weights = {row["cluster_id"]: int(row["rows"]) for row in counted}
    # A cluster's share of the work decides its task; one pass over the fleet's sizes, and the fleet's rows move once.
    cut = max(1, min(len(weights), tasks or tasks_at_once(spark) * 4))
    salts = numbers_of_tasks(spark, cut)
    chosen = [(name, salts[task]) for name, task in sorted(assign_tasks(weights, cut).items())]
    salted = rows.join(
        F.broadcast(spark.createDataFrame(chosen, "cluster_id string, salt bigint")), on="cluster_id", how="inner"
    )
    return salted.repartition(cut, "salt").sortWithinPartitions("cluster_id").select(*FLEET_ROWS)


def assign_tasks(weights: Mapping[str, int], tasks: int) -> dict[str, int]:
    """Spread clusters over tasks, the largest first, each to the task with the least to do.

    Planning grows faster than the number of rows, hence the power: a giant counts for more than its rows.
    """
    heap = [(0.0, task) for task in range(tasks)]
    assigned: dict[str, int] = {}
    for name, rows in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        load, task = heapq.heappop(heap)
        assigned[name] = task
        heapq.heappush(heap, (load + rows**1.2, task))
    return assigned


def _partition_loads(model: DataFrame, replicas: DataFrame, peak: str) -> DataFrame:
    """One row per partition of the model: its rates, and the growth, size and order of its present replicas.

    If a snapshot shows the partition, its present replicas are the snapshot's; else those whose samples go on to the
    end.
    """
    key = ["cluster_id", "topic_id", "partition"]
    now = replicas.select(*key, "broker_id", F.lit(True).alias("now"))
    end = F.max("last_window").over(Window.partitionBy(*key))
    still = F.unix_seconds("last_window") >= F.unix_seconds("end") - F.lit(STILL_SEEN_SECONDS)
    rows = model.withColumn("end", end).join(now, on=[*key, "broker_id"], how="left")
    rows = rows.withColumn("still", F.coalesce(still, F.lit(True)))
    leads = (F.col("role") == LEADER) & F.col("still")
    place = F.when(leads, F.lit(0)).otherwise(F.lit(1))
    ranked = F.struct(
        place.alias("place"), (-F.unix_seconds("last_window")).alias("age"), F.col("broker_id").alias("broker")
    )
    in_order = F.transform(F.sort_array(F.collect_list(F.when(F.col("still"), ranked))), lambda one: one["broker"])
    of_now = F.coalesce("now", F.lit(False))
    return rows.groupBy(*key).agg(
        F.max("topic").alias("topic"),
        _leaders("bytes_in", peak).alias("bytes_in"),
        _leaders("bytes_out", peak).alias("bytes_out"),
        F.coalesce(F.max(F.when(of_now, F.col("growth_bytes_per_day"))), F.max("growth_bytes_per_day")).alias("growth"),
        F.coalesce(
            F.max_by("size_bytes", F.when(leads & F.col("size_bytes").isNotNull(), F.col("last_window"))),
            F.max(F.when(F.col("still"), F.col("size_bytes"))),
        ).alias("size"),
        F.array_distinct(in_order).alias("sampled"),
    )  # fmt: skip


def _leaders(name: str, peak: str) -> Column:
    """A partition's rate: what its leaders showed; else rows of unknown role; else followers, which get the same."""
    return F.coalesce(*(_in_turns(F.col("role") == role, name, peak) for role in (LEADER, UNKNOWN_ROLE, FOLLOWER)))


def _in_turns(counts: Column, name: str, peak: str) -> Column:
    """One rate for replicas that took turns, weighted by how long each was measured (as in `kept_model.in_turns`).

    A percentile is the lowest of the replicas' own percentiles that replicas with the statistic's share of all seconds
    don't exceed.
    """
    rate = F.col(f"{name}_{peak}")
    known = counts & rate.isNotNull()
    seconds = F.greatest(F.col("covered_seconds").cast("bigint"), F.lit(1).cast("bigint"))
    if peak == "mean":
        return F.sum(rate * F.when(known, seconds)) / F.sum(F.when(known, seconds))
    rows = F.sort_array(F.collect_list(F.when(known, F.struct(rate.alias("rate"), seconds.alias("seconds")))))
    of_all = F.aggregate(rows, F.lit(0).cast("bigint"), lambda seen, row: seen + row["seconds"])
    nothing = F.struct(F.lit(0).cast("bigint").alias("seen"), F.lit(None).cast("double").alias("rate"))

    def further(found: Column, row: Column) -> Column:
        seen = found["seen"] + row["seconds"]
        enough = seen >= of_all * F.lit(_SHARES[peak])
        return F.struct(seen.alias("seen"), F.coalesce(found["rate"], F.when(enough, row["rate"])).alias("rate"))

    return F.aggregate(rows, nothing, further, lambda found: found["rate"])


def _in_order(place: Column, broker: Column) -> Column:
    pairs = F.sort_array(F.collect_list(F.struct(place.alias("place"), broker.alias("broker"))))
    return F.transform(pairs, lambda pair: pair["broker"])
