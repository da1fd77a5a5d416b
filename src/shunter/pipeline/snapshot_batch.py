"""Batches of snapshots: brokers and replicas into their tables, and the samples that follow into `samples`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from shunter.pipeline.ingest import IngestOptions, IngestOutcome, examples_of, new_inputs, write_batch
from shunter.pipeline.lake import Commit, Lake, batch_id
from shunter.pipeline.schemas import BROKERS, REJECTS, REPLICAS, SNAPSHOTS
from shunter.pipeline.sources.snapshots import broken_lines, brokers_of, read_snapshot_lines, replicas_of, samples_of


def ingest_snapshots(
    spark: SparkSession, lake: Lake, paths: Sequence[str], *, now: datetime, options: IngestOptions
) -> IngestOutcome:
    """Ingest snapshot files that were not ingested before; running it again changes nothing.

    Raises:
        FormatError: a path does not exist.
    """
    new, skipped = new_inputs(spark, lake.commits(spark), paths, SNAPSHOTS)
    if not new:
        return IngestOutcome(None, skipped=skipped)
    ingest_id = batch_id(SNAPSHOTS, new)
    lines = read_snapshot_lines(spark, [file.path for file in new], now=now)
    stamped = {"ingest_id": F.lit(ingest_id)}
    replicas = replicas_of(lines)
    lake.write(brokers_of(lines).withColumns(stamped), BROKERS)
    lake.write(replicas.withColumns(stamped), REPLICAS)
    rows = _new_samples(spark, lake, replicas).unionByName(broken_lines(lines))
    commit = write_batch(spark, lake, rows, Commit(ingest_id, SNAPSHOTS, new), now=now, options=options)
    lake.commit(spark, commit, now)
    examples = examples_of(lake.read_batch(spark, REJECTS, ingest_id)) if commit.rejected else ()
    return IngestOutcome(ingest_id, commit.good, commit.rejected, commit.rules, examples, skipped)


def _new_samples(spark: SparkSession, lake: Lake, replicas: DataFrame) -> DataFrame:
    """Pairs that end in a new snapshot; the one before may have come with an earlier batch."""
    first = replicas.groupBy("cluster_id").agg(F.min("taken_at").alias("first"))
    earlier = lake.read(spark, REPLICAS).drop("ingest_id").join(F.broadcast(first), on="cluster_id", how="inner")
    earlier = earlier.where(F.col("taken_at") < F.col("first")).drop("first")
    latest = Window.partitionBy("cluster_id")
    newest = earlier.withColumn("newest", F.max("taken_at").over(latest)).where(F.col("taken_at") == F.col("newest"))
    return samples_of(replicas.unionByName(newest.drop("newest")))


def latest_snapshot(spark: SparkSession, lake: Lake) -> tuple[DataFrame, DataFrame]:
    """Brokers and replicas of the newest snapshot of each cluster. Grain: as `brokers` and `replicas`."""
    brokers, replicas = lake.read(spark, BROKERS), lake.read(spark, REPLICAS)
    newest = brokers.groupBy("cluster_id").agg(F.max("taken_at").alias("taken_at"))
    keys = ["cluster_id", "taken_at"]
    return brokers.join(newest, on=keys, how="inner"), replicas.join(newest, on=keys, how="inner")
