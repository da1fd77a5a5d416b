"""Batches of snapshots: brokers and replicas into their tables, and the samples derived from them into `samples`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.errors import FormatError
from shunter.pipeline.ingest.batches import IngestOptions, IngestOutcome, new_inputs, outcome_of, write_batch
from shunter.pipeline.ingest.broken_files import BrokenFile, put_broken_aside, taking_what_can_be_read
from shunter.pipeline.ingest.inputs import batch_id, list_inputs
from shunter.pipeline.lake.commits import Commit, InputFile, LogState
from shunter.pipeline.lake.schemas import BROKERS, REPLICAS, SNAPSHOTS
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.sources.snapshots import (
    SeenSnapshot,
    broken_lines,
    logs_left_out,
    put_aside,
    read_snapshots,
    snapshot_brokers,
    snapshot_replicas,
    snapshot_samples,
    snapshots_of,
)

_WHICH = "cluster_id string, taken_at_ms bigint"


def ingest_snapshots(
    spark: SparkSession, lake: Lake, paths: Sequence[str], *, now: datetime, options: IngestOptions
) -> IngestOutcome:
    """Ingest snapshot files that were not ingested before; running it again changes nothing.

    An incomplete snapshot is put aside as a whole, with a row that says what is missing. Otherwise a part of a cluster
    would be planned as if it were the cluster. The same snapshot in a second file is put aside too.

    Raises:
        FormatError: a path does not exist, or no file of them can be read to its end.
    """
    skipped: tuple[str, ...] = ()
    taken: list[SeenSnapshot] = []

    def prepare(state: LogState, attempt: str) -> Commit | None:
        nonlocal skipped, taken
        new, skipped = new_inputs(state, found, SNAPSHOTS)
        if not new:
            return None
        begun = Commit(attempt, SNAPSHOTS, new, tables=(BROKERS.name, REPLICAS.name))
        read = partial(read_snapshots, spark, now=now)

        def take(begun: Commit, files: Sequence[InputFile], broken: Sequence[BrokenFile]) -> Commit:
            nonlocal taken
            if not files:
                raise FormatError(broken[0].path, f"can't be read to its end: {broken[0].why}")
            lines = read([file.path for file in files]).persist()
            try:
                taken, commit = _write(spark, lake, state, lines, broken, begun, now=now, options=options)
            finally:
                lines.unpersist()
            return commit

        return taking_what_can_be_read(begun, read, take)

    found = list_inputs(spark, paths)
    made = lake.transact(spark, batch_id(SNAPSHOTS, found), prepare, now)
    return replace(outcome_of(spark, lake, made, skipped), snapshots=len(taken))


def _write(
    spark: SparkSession,
    lake: Lake,
    state: LogState,
    lines: DataFrame,
    broken: Sequence[BrokenFile],
    begun: Commit,
    *,
    now: datetime,
    options: IngestOptions,
) -> tuple[list[SeenSnapshot], Commit]:
    seen = snapshots_of(lines)
    known = known_around(lake.read(spark, BROKERS, state.live), seen)
    taken, refused = choose(seen, known)
    whole = _only(lines, taken, "file") if refused else lines
    replicas = snapshot_replicas(whole)
    rows = _new_samples(lake.read(spark, REPLICAS, state.live), replicas, known).unionByName(broken_lines(lines))
    if refused:
        rows = rows.unionByName(put_aside(spark, refused))
    if broken:
        rows = rows.unionByName(put_broken_aside(spark, broken, SNAPSHOTS))
    commit = write_batch(spark, lake, state, rows, begun, now=now, options=options)
    lake.write_rows(snapshot_brokers(whole), BROKERS, commit.ingest_id)
    lake.write_rows(replicas, REPLICAS, commit.ingest_id)
    clusters = {*commit.clusters, *(one.cluster_id for one in taken)}
    return taken, replace(commit, clusters=tuple(sorted(clusters)))


def choose(
    seen: Iterable[SeenSnapshot], known: Collection[tuple[str, int]]
) -> tuple[list[SeenSnapshot], list[tuple[SeenSnapshot, str, str]]]:
    """Choose which snapshots of a batch are taken, one file for each; the others with rule and reason.

    Args:
        seen: In order; of two whole copies the first is taken.
        known: Cluster and time (ms) of snapshots that came with earlier batches.
    """
    taken: dict[tuple[str, int], SeenSnapshot] = {}
    refused: list[tuple[SeenSnapshot, str, str]] = []
    for one in seen:
        which = one.cluster_id, one.taken_at_ms
        if one.flaw is not None:
            refused.append((one, "incomplete", one.flaw))
        elif which in known:
            refused.append((one, "already_ingested", "this snapshot came with an earlier batch"))
        elif which in taken:
            refused.append((one, "duplicate", f"this snapshot is also in {taken[which].file}"))
        else:
            taken[which] = one
    return list(taken.values()), refused


def known_around(brokers: DataFrame, seen: Sequence[SeenSnapshot]) -> set[tuple[str, int]]:
    """Snapshots of earlier batches: by cluster, those within the span of the new ones and the nearest on each side."""
    spans: dict[str, tuple[int, int]] = {}
    for one in seen:
        first, last = spans.get(one.cluster_id, (one.taken_at_ms, one.taken_at_ms))
        spans[one.cluster_id] = min(first, one.taken_at_ms), max(last, one.taken_at_ms)
    if not spans:
        return set()
    rows = [(cluster, first, last) for cluster, (first, last) in sorted(spans.items())]
    span = brokers.sparkSession.createDataFrame(rows, "cluster_id string, first bigint, last bigint")
    at = F.unix_millis("taken_at")
    found = brokers.join(F.broadcast(span), on="cluster_id", how="inner").groupBy("cluster_id").agg(
        F.max(F.when(at < F.col("first"), at)).alias("below"),
        F.min(F.when(at > F.col("last"), at)).alias("above"),
        F.collect_set(F.when(at.between(F.col("first"), F.col("last")), at)).alias("within"),
    )  # fmt: skip
    return {
        (row["cluster_id"], at_ms)
        for row in found.collect()
        for at_ms in (row["below"], row["above"], *row["within"])
        if at_ms is not None
    }


def _only(rows: DataFrame, which: Iterable[tuple[Any, ...]], *more: str) -> DataFrame:
    """Rows of the given snapshots: (cluster, time in ms, and `more` text columns)."""
    ddl = ", ".join((_WHICH, *(f"{name} string" for name in more)))
    width = 2 + len(more)
    chosen = rows.sparkSession.createDataFrame([tuple(one)[:width] for one in which], ddl)
    return rows.join(F.broadcast(chosen), on=["cluster_id", "taken_at_ms", *more], how="left_semi")


def _new_samples(committed: DataFrame, replicas: DataFrame, known: Collection[tuple[str, int]]) -> DataFrame:
    """Samples from pairs of which at least one snapshot is new; the other may have come with an earlier batch.

    And rows that say of which logs the growth is no traffic.
    """
    if not known:
        return snapshot_samples(replicas).unionByName(logs_left_out(replicas))
    earlier = committed.withColumn("taken_at_ms", F.unix_millis("taken_at"))
    # Folders of days keep Spark from reading all history for the few snapshots that are next to the new ones.
    days = sorted({datetime.fromtimestamp(at_ms / 1000, UTC).date() for _, at_ms in known})
    earlier = _only(earlier.where(F.col("date").isin(days)), sorted(known)).drop("ingest_id", "taken_at_ms")
    earlier = earlier.dropDuplicates(list(REPLICAS.key)).withColumn("known", F.lit(True))
    every = replicas.withColumn("known", F.lit(False)).unionByName(earlier)
    return snapshot_samples(every).unionByName(logs_left_out(every))


def latest_snapshot(spark: SparkSession, lake: Lake) -> tuple[DataFrame, DataFrame]:
    """Brokers and replicas of the newest snapshot of each cluster. Grain: as `brokers` and `replicas`.

    A lake of an older version may have a snapshot in two batches: only one of them is taken.
    """
    live = lake.live(spark)
    brokers, replicas = lake.read(spark, BROKERS, live), lake.read(spark, REPLICAS, live)
    newest = brokers.groupBy("cluster_id").agg(F.max(F.struct("taken_at", "ingest_id")).alias("newest"))
    newest = newest.select("cluster_id", "newest.taken_at", "newest.ingest_id")
    keys = ["cluster_id", "taken_at", "ingest_id"]
    return brokers.join(newest, on=keys, how="inner"), replicas.join(newest, on=keys, how="inner")
