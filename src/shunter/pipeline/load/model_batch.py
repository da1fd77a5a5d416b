"""The load model of a lake, from its samples to the model's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.errors import FormatError
from shunter.pipeline.ingest.broker_check import BrokerDoubt, broker_loads, doubts
from shunter.pipeline.ingest.identity import one_series
from shunter.pipeline.ingest.snapshot_batch import latest_snapshot
from shunter.pipeline.lake.commits import may_span
from shunter.pipeline.lake.outlook_schemas import BROKER_WEEKS, PROCESSOR_MODEL
from shunter.pipeline.lake.schemas import BROKER_LOADS, BROKER_SAMPLES, HOURLY, LOAD_MODEL, REPLICAS, SAMPLES, SHAPES
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.load.modelling import SHAPE_SECONDS, load_model, load_shape
from shunter.pipeline.load.processors import ToldProcessors, processor_model, told_processors
from shunter.pipeline.load.weeks import broker_weeks, partition_weeks

ROWS_PER_TASK = 1_000_000


@dataclass(frozen=True, slots=True)
class Modelled:
    """The figures of the model."""

    replicas: int
    with_rates: int
    with_weeks: int
    mean_confidence: float
    brokers: int = 0
    """Brokers that were compared with their own counters."""
    doubts: tuple[BrokerDoubt, ...] = ()
    processors: tuple[ToldProcessors, ...] = ()
    """For each cluster with processor metrics: how well the model explains them."""


def model_lake(
    spark: SparkSession,
    lake: Lake,
    *,
    source: str = "samples",
    clusters: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> Modelled:
    """Model the load from samples (or from hours, where raw rows were deleted), and weeks if the data have some.

    Args:
        since: UTC; only windows that start then or later, and only their days are read.
        until: UTC; only windows that start before.

    Raises:
        FormatError: there is nothing to model.
    """
    table = {"samples": SAMPLES, "hourly": HOURLY}[source]
    live = lake.live(spark)
    rows = sum(commit.good for commit in live)
    # All tables are read by one list of batches: a batch that comes meanwhile is in none of them.
    frame, replicas = lake.read(spark, table, live), lake.read(spark, REPLICAS, live)
    if clusters:
        frame = frame.where(F.col("cluster_id").isin(*clusters))
    if since is not None:
        frame = frame.where((F.col("date") >= since.date()) & (F.col("window_start") >= since))
    if until is not None:
        frame = frame.where((F.col("date") <= until.date()) & (F.col("window_start") < until))
    if not replicas.isEmpty():
        frame = one_series(frame, replicas)
    lake.write(load_model(frame, tasks=max(2, rows // ROWS_PER_TASK)), LOAD_MODEL)
    if source == "hourly" or may_span(live, SHAPE_SECONDS):
        lake.write(load_shape(frame), SHAPES)
        _add_weeks_up(spark, lake, clusters)
    made = lake.read(spark, LOAD_MODEL)
    if clusters:
        made = made.where(F.col("cluster_id").isin(*clusters))
    counted = made.agg(
        F.count("*").alias("replicas"),
        F.count_if(F.col("basis") == "rates").alias("rates"),
        F.coalesce(F.avg("confidence"), F.lit(0.0)).alias("confidence"),
    ).first()
    if counted is None or counted["replicas"] == 0:
        raise FormatError(lake.root, f"has no {source} to model: run `shunter pipeline ingest` first")
    weeks = lake.read(spark, SHAPES).count()
    brokers = lake.read(spark, BROKER_SAMPLES, live)
    if clusters:
        brokers = brokers.where(F.col("cluster_id").isin(*clusters))
    compared, doubted = _check_brokers(spark, lake, brokers, lake.read(spark, SAMPLES, live))
    explained = _explain_processors(spark, lake, brokers)
    return Modelled(counted["replicas"], counted["rates"], weeks, counted["confidence"], compared, doubted, explained)


def _add_weeks_up(spark: SparkSession, lake: Lake, clusters: Sequence[str]) -> None:
    """Add up the weeks of each broker's replicas, if weeks are known and a snapshot has the assignment."""
    shapes, loads = lake.read(spark, SHAPES), lake.read(spark, LOAD_MODEL)
    _, replicas = latest_snapshot(spark, lake)
    if clusters:
        replicas = replicas.where(F.col("cluster_id").isin(*clusters))
    known = replicas.join(F.broadcast(shapes.select("cluster_id").distinct()), on="cluster_id", how="left_semi")
    lake.write(broker_weeks(partition_weeks(loads, shapes), known), BROKER_WEEKS)


def _check_brokers(
    spark: SparkSession, lake: Lake, brokers: DataFrame, samples: DataFrame
) -> tuple[int, tuple[BrokerDoubt, ...]]:
    """Compare the samples with the brokers' own counters, if there are some."""
    if brokers.isEmpty():
        return 0, ()
    lake.write(broker_loads(brokers, samples), BROKER_LOADS)
    written = lake.read(spark, BROKER_LOADS)
    return written.count(), doubts(written)


def _explain_processors(spark: SparkSession, lake: Lake, brokers: DataFrame) -> tuple[ToldProcessors, ...]:
    """Find how much processor time a byte costs brokers, if their processor metrics are known."""
    if brokers.where(F.col("cpu").isNotNull()).isEmpty():
        return ()
    lake.write(processor_model(brokers), PROCESSOR_MODEL)
    return told_processors(lake.read(spark, PROCESSOR_MODEL))
