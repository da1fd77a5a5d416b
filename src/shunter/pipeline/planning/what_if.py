"""What-if questions to every cluster of a lake: sizes of a later day, a question to the planner, answers as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.pipeline.ingest.snapshot_batch import latest_snapshot
from shunter.pipeline.lake.caching import cached
from shunter.pipeline.lake.outlook_schemas import PROCESSOR_MODEL, RUNWAY, WHAT_IF, WHAT_IF_FILLS
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.planning.fleet import fleet_rows, fleet_tasks
from shunter.pipeline.planning.plan_batch import FleetPlan, PlannedTarget, bases_of, model_for, refusals
from shunter.pipeline.planning.what_if_worker import RESULT_DDL, ChangeQuestion, answer_batches
from shunter.pipeline.reports.disk_growth import TOPIC

if TYPE_CHECKING:
    import pyarrow as pa

GROWTHS = {"expected": "growth_bytes_per_day", "high": "growth_high"}


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """The question, its clusters (none named: all), and the day that it is about."""

    question_id: str
    asked: ChangeQuestion = field(default_factory=ChangeQuestion)
    basis: FleetPlan = field(default_factory=lambda: FleetPlan(""))
    """Clusters, peak, capacity, and how old the newest snapshot may be; its request is not used."""
    until: date | None = None
    """Sizes are those of that day; None: of the newest snapshot."""
    growth: str = "expected"


class ToldAnswer(NamedTuple):
    """The answer for one cluster. Fields are None if there is no answer; `message` then says why."""

    cluster_id: str
    status: str
    message: str | None
    fits: bool | None
    added: list[int] | None
    lost: list[int] | None
    unavailable: int | None
    below_min_isr: int | None
    examples: list[str] | None
    moves: int | None
    bytes_moved: float | None
    bytes_percent: float | None
    copy_seconds: float | None
    partitions_with_growth: int
    partitions: int
    fullest: tuple[tuple[str, int, float, float | None, float], ...] = ()
    """For each resource the broker that ends fullest: resource, broker, and the shares of its capacity that are used
    before the plan, once racks are lost, and after the plan."""


def grown(rows: DataFrame, runway: DataFrame, until: date, growth: str = "expected") -> DataFrame:
    """Let sizes grow at their topics' rates, from the newest day with sizes until a day.

    Grain: as `rows`, none dropped; with a column `grows`: whether the topic's growth is known. A topic that shrinks stays as
    it is.

    Args:
        rows: Columns of `fleet.FLEET_ROWS`.
        runway: Columns of `runway`.
        growth: A key of `GROWTHS`.
    """
    rate, size = F.col(GROWTHS[growth]), F.col("size_bytes")
    days = F.greatest(F.lit(0), F.datediff(F.lit(until), "until"))
    factor = 1 + F.greatest(F.lit(0.0), rate) * days / size
    factors = runway.where((F.col("kind") == TOPIC) & rate.isNotNull() & (size > 0)).select(
        "cluster_id", F.col("name").alias("topic"), factor.alias("factor")
    )
    joined = rows.join(factors, on=["cluster_id", "topic"], how="left")
    larger = F.when(F.col("topic").isNotNull(), F.col("size") * F.coalesce("factor", F.lit(1.0)))
    return joined.withColumns(
        {"size": F.coalesce(larger, "size"), "grows": F.col("factor").isNotNull()}
    ).select(*rows.columns, "grows")  # fmt: skip


def answer_fleet(rows: DataFrame, asked: ChangeQuestion, *, tasks: int | None = None) -> DataFrame:
    """Ask every cluster. Grain: one row per cluster, with `status` planned, failed or timed_out, and nested columns.

    Args:
        rows: Columns of `fleet.FLEET_ROWS`.
    """

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return answer_batches(batches, asked)

    # The planner is numpy and takes a whole cluster at once; no native function serves.
    return fleet_tasks(rows, tasks).mapInArrow(work, RESULT_DDL)


def ask_lake(spark: SparkSession, lake: Lake, asked: FleetQuestion) -> tuple[ToldAnswer, ...]:
    """Ask the lake's clusters, write the answers' tables, give the answers."""
    basis = asked.basis
    model, (brokers, replicas) = model_for(spark, lake, basis.peak), latest_snapshot(spark, lake)
    processors = lake.read(spark, PROCESSOR_MODEL)
    rows = fleet_rows(model, brokers, replicas, peak=basis.peak, capacity=basis.capacity, processors=processors)
    if basis.clusters:
        rows = rows.where(F.col("cluster_id").isin(*basis.clusters))
    unknown = rows.withColumn("grows", F.lit(False))
    ahead = unknown if asked.until is None else grown(rows, lake.read(spark, RUNWAY), asked.until, asked.growth)
    with cached(ahead) as rows:
        counts = (
            rows.where(F.col("topic").isNotNull())
            .groupBy("cluster_id")
            .agg(F.count_if("grows").alias("grows"), F.count("*").alias("partitions"))
        )
        known = {row["cluster_id"]: (row["grows"], row["partitions"]) for row in counts.collect()}
        refused = dict(refusals(bases_of(rows, model, brokers), basis))
        fresh = rows.where(~F.col("cluster_id").isin(*refused)) if refused else rows
        with cached(answer_fleet(fresh.drop("grows"), asked.asked, tasks=basis.tasks)) as found:
            named = found.withColumn("question_id", F.lit(asked.question_id))
            lake.write(named, WHAT_IF)
            each = named.select("cluster_id", "question_id", F.explode("fills").alias("one"))
            lake.write(each.select("cluster_id", "question_id", "one.*"), WHAT_IF_FILLS)
            told = [_told(row, known) for row in found.drop("assignments", "undone", "seconds").collect()]
    nothing = (None,) * 10
    told += [ToldAnswer(name, "failed", why, *nothing, *known[name]) for name, why in refused.items()]
    return tuple(sorted(told, key=itemgetter(0)))


def targets_of(spark: SparkSession, lake: Lake, question_id: str) -> Iterator[tuple[str, PlannedTarget]]:
    """Targets of the answers' plans, with their cluster's id, in order of cluster, topic and partition."""
    of_it = lake.read(spark, WHAT_IF).where(F.col("question_id") == question_id)
    each = of_it.select("cluster_id", F.explode("assignments").alias("one")).select("cluster_id", "one.*")
    for row in each.orderBy("cluster_id", "topic", "partition").toLocalIterator():
        cluster_id, *told = row
        yield cluster_id, PlannedTarget(*told)


def _told(row: object, known: dict[str, tuple[int, int]]) -> ToldAnswer:
    given = row.asDict(recursive=True)  # type: ignore[attr-defined]
    fullest: dict[str, tuple[str, int, float, float | None, float]] = {}
    for one in given.pop("fills") or ():
        told = one["resource"], one["broker"], one["before"], one["stood_in"], one["after"]
        if one["broker"] not in given["lost"] and (
            one["resource"] not in fullest or told[4] > fullest[one["resource"]][4]
        ):
            fullest[one["resource"]] = told
    grows, partitions = known[given["cluster_id"]]
    return ToldAnswer(**given, partitions_with_growth=grows, partitions=partitions, fullest=tuple(fullest.values()))
