"""Structured Streaming from a Kafka topic into `samples`.

Every micro-batch is an ingest of its own; its commit says which batch of which query it is. Spark repeats a batch with the
same offsets until it has noted it as done. A batch that was committed before is skipped, so that good and rejected rows
arrive together and once. Small files are merged as they come, so that readers need not look through many. A row older
than the watermark is put aside as late, with all its columns, before Spark would drop it. Whether a window came before
is looked up in the table itself, no farther back than the watermark. So there is no other state, and none that grows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import itemgetter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from shunter.pipeline.classic import query_of_batch, refuse_connect
from shunter.pipeline.ingest.batches import IngestOptions, write_batch
from shunter.pipeline.lake.commits import Commit, LogState, StreamMark
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.sources.kafka_topic import topic_samples

KIND = "stream"
FAN_IN = 16
"""Small files are merged after so many batches."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream runs. `lateness` is how far behind the newest window a row may come."""

    checkpoint: str
    cluster: str | None = None
    lateness: timedelta = timedelta(hours=1)
    every_seconds: float = 10.0
    until_caught_up: bool = False
    """Take the records that are there and end, instead of running for ever."""
    ingest: IngestOptions = field(default_factory=lambda: IngestOptions(many_clusters=True))
    """A topic may well carry several clusters."""


def start_stream(
    records: DataFrame,
    lake: Lake,
    options: StreamOptions,
    clock: Callable[[], datetime],
    done: Callable[[Commit], None] = lambda _: None,
) -> StreamingQuery:
    """Start ingesting records (`value`, `file`); the caller awaits or stops the query.

    Args:
        clock: Returns the current time, UTC.
        done: Called with the commit of each batch.

    Raises:
        SettingsError: a Connect session, whose server would call `clock` and `done` in a process of its own.
    """
    refuse_connect(records.sparkSession, "ingest of a topic")

    def take(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        # The query's id lives in the checkpoint: a new checkpoint counts its batches anew under another id.
        commit = ingest_batch(spark, lake, batch, query_of_batch(spark), number, options, clock())
        if commit is not None:
            done(commit)
        if number % FAN_IN == FAN_IN - 1:
            lake.optimize(spark)

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
) -> Commit | None:
    """Ingest one micro-batch; None if it was committed before: Spark repeats the last one after a crash."""
    rows = topic_samples(batch, cluster=options.cluster).persist()

    def prepare(state: LogState, attempt: str) -> Commit | None:
        marks = [
            (one.stream.number, one.watermark) for one in state.commits if one.stream and one.stream.query == query
        ]
        newest, seen = max(marks, key=itemgetter(0), default=(-1, None))
        if newest >= number:
            return None
        late_before = None if seen is None else seen - options.lateness
        begun = Commit(attempt, KIND, watermark=seen)
        commit = write_batch(spark, lake, state, rows, begun, now=now, options=options.ingest, late_before=late_before)
        return replace(commit, stream=StreamMark(query, number))

    try:
        return lake.transact(spark, f"{KIND}-{query}-{number:010d}", prepare, now)
    finally:
        rows.unpersist()
