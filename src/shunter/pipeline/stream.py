"""Structured Streaming from a Kafka topic into `samples`.

Every micro-batch is an ingest of its own, named by the query's id and the batch's number. Spark repeats a batch with the
same offsets until it has noted it as done; repeating one here overwrites its folders and its line in the manifest, so
that good and rejected rows arrive together and once. A row older than the watermark is put aside as late, with all that
it holds, before anything would drop it; a window that came before is looked up in the table itself, no farther back than
the watermark: that is all the state there is, and it doesn't grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from shunter.pipeline.ingest import IngestOptions, write_batch
from shunter.pipeline.lake import Commit, Lake
from shunter.pipeline.sources.kafka_topic import samples_of_records

KIND = "stream"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream runs. `lateness` is how far behind the newest window a row may come."""

    checkpoint: str
    cluster: str | None = None
    lateness: timedelta = timedelta(hours=1)
    every_seconds: float = 10.0
    until_caught_up: bool = False
    """Take what is there and end, instead of going on for ever."""
    ingest: IngestOptions = field(default_factory=lambda: IngestOptions(many_clusters=True))
    """A topic may well carry several clusters."""


def start_stream(
    records: DataFrame, lake: Lake, options: StreamOptions, clock: Callable[[], datetime]
) -> StreamingQuery:
    """Start ingesting records (`value`, `file`); the caller awaits or stops the query.

    Args:
        clock: Gives now, UTC; asked once for each batch.
    """

    def take(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        # The query's id lives in the checkpoint: a new checkpoint counts its batches anew under another id.
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        ingest_batch(spark, lake, batch, str(query), number, options, clock())

    writer = (
        records.writeStream.foreachBatch(take)
        .option("checkpointLocation", options.checkpoint)
        .queryName("shunter-samples")
    )
    if options.until_caught_up:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{options.every_seconds} seconds").start()


def ingest_batch(
    spark: SparkSession, lake: Lake, batch: DataFrame, query: str, number: int, options: StreamOptions, now: datetime
) -> Commit:
    """Ingest one micro-batch; doing it again changes nothing."""
    seen = watermark_before(lake.commits(spark), query, number)
    rows = samples_of_records(batch, cluster=options.cluster).persist()
    try:
        commit = write_batch(
            spark,
            lake,
            rows,
            Commit(f"{KIND}-{query}-{number:010d}", KIND, watermark=seen),
            now=now,
            options=options.ingest,
            late_before=None if seen is None else seen - options.lateness,
        )
        lake.commit(spark, commit, now)
    finally:
        rows.unpersist()
    return commit


def watermark_before(commits: tuple[Commit, ...], query: str, number: int) -> datetime | None:
    """The newest window start that the query's earlier batches saw: the same however often a batch is repeated."""
    mine = f"{KIND}-{query}-"
    earlier = [
        commit.watermark
        for commit in commits
        if commit.ingest_id.startswith(mine)
        and int(commit.ingest_id.removeprefix(mine)) < number
        and commit.watermark is not None
    ]
    return max(earlier, default=None)
