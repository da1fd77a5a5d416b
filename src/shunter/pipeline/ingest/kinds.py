"""The kinds of files that samples and snapshots come in, and how a batch of each is ingested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from shunter.errors import SettingsError
from shunter.formats.series_labels import SeriesLabels
from shunter.pipeline.ingest.batches import IngestOptions, IngestOutcome, ingest_files
from shunter.pipeline.ingest.broker_batch import (
    CRUISE_CONTROL,
    CRUISE_CONTROL_LOAD,
    PROMETHEUS_FORMS,
    BrokerReader,
    cruise_control_reader,
    ingest_with_brokers,
    load_reader,
    prometheus_reader,
)
from shunter.pipeline.ingest.snapshot_batch import ingest_snapshots
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.sources.log_dirs import read_log_dirs
from shunter.pipeline.sources.tables import FORMATS, read_table

KINDS = (*FORMATS, *PROMETHEUS_FORMS, "log-dirs", CRUISE_CONTROL, CRUISE_CONTROL_LOAD, "snapshots")


@dataclass(frozen=True, slots=True)
class Inputs:
    """The input of `ingest`. `labels` is Prometheus'; `window_seconds` is Cruise Control's."""

    paths: tuple[str, ...]
    kind: str
    cluster: str | None = None
    labels: SeriesLabels = field(default_factory=SeriesLabels)
    at: datetime | None = None
    many_clusters: bool = False
    window_seconds: int = 120


def ingest_lake(spark: SparkSession, lake: Lake, inputs: Inputs, *, now: datetime) -> IngestOutcome:
    """Ingest files.

    Raises:
        FormatError: a file is missing, or can't be taken at all.
        SettingsError: the kind needs an option that was not given.
    """
    # A file that names clusters says that there may be several.
    many_clusters = inputs.many_clusters or len(inputs.labels.clusters) > 1
    options = IngestOptions(cluster=inputs.cluster, many_clusters=many_clusters)
    if inputs.kind == "snapshots":
        many = IngestOptions(cluster=inputs.cluster, many_clusters=True)
        return ingest_snapshots(spark, lake, inputs.paths, now=now, options=many)
    reader = _reader_with_brokers(inputs)
    if reader is not None:
        return ingest_with_brokers(spark, lake, inputs.paths, reader, now=now, options=options)
    # The output of kafka-log-dirs has no time in it, so a quiet cluster's output is the same on two days.
    dated: datetime | Literal["modified"] | None = (inputs.at or "modified") if inputs.kind == "log-dirs" else None
    read = partial(_read, inputs)
    return ingest_files(spark, lake, inputs.paths, inputs.kind, read, now=now, options=options, dated=dated)


def _reader_with_brokers(inputs: Inputs) -> BrokerReader | None:
    """The reader of a kind whose files tell of brokers too; None if it is another kind."""
    if inputs.kind in PROMETHEUS_FORMS:
        return prometheus_reader(inputs.kind, inputs.cluster, inputs.labels, inputs.at)
    if inputs.kind == CRUISE_CONTROL:
        return cruise_control_reader(_named_cluster(inputs), inputs.window_seconds)
    if inputs.kind == CRUISE_CONTROL_LOAD:
        return load_reader(_named_cluster(inputs), inputs.window_seconds, inputs.at)
    return None


def _read(inputs: Inputs, spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    cluster = inputs.cluster
    if inputs.kind in FORMATS:
        return read_table(spark, paths, inputs.kind, cluster=cluster)
    if inputs.kind == "log-dirs":
        return read_log_dirs(spark, paths, cluster=_named_cluster(inputs), at=inputs.at)
    raise SettingsError(f"kind {inputs.kind!r} is none of {', '.join(KINDS)}")


def _named_cluster(inputs: Inputs) -> str:
    if inputs.cluster is None:
        raise SettingsError(f"files of kind {inputs.kind} do not name their cluster: give --cluster")
    return inputs.cluster
