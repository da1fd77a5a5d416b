"""The pipeline's composition root: one function for each stage, from a session and a lake to the stage's result.

Import it only where Spark is needed, because it imports pyspark.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlparse

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.app.client_configuration import stream_options
from shunter.app.pipeline.delta_jars import brings_delta, coordinates, delta_jars
from shunter.app.planning.plan import FLEET_SCOPES, PlanWords, request_from
from shunter.core.planning.request import PlanRefused, PlanRequest
from shunter.core.planning.scopes import check
from shunter.drivers.host.cache import cache_folder
from shunter.errors import DriverError, FormatError, SettingsError
from shunter.formats.plan_files import write_reassignment
from shunter.formats.series_labels import SeriesLabels
from shunter.pipeline.ingest.batches import IngestOptions, IngestOutcome, ingest_files, nothing_taken
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
from shunter.pipeline.ingest.broker_check import BrokerDoubt, broker_loads, doubts
from shunter.pipeline.ingest.identity import one_series
from shunter.pipeline.ingest.rollup import compact, roll_up_days
from shunter.pipeline.ingest.snapshot_batch import ingest_snapshots, latest_snapshot
from shunter.pipeline.ingest.stream import StreamOptions, start_stream
from shunter.pipeline.lake.commits import Commit, may_span
from shunter.pipeline.lake.outlook_schemas import BROKER_WEEKS, PROCESSOR_MODEL
from shunter.pipeline.lake.schemas import BROKER_LOADS, BROKER_SAMPLES, HOURLY, LOAD_MODEL, REPLICAS, SAMPLES, SHAPES
from shunter.pipeline.lake.tables import RETENTION_DAYS, Cleaned, Lake, is_schema
from shunter.pipeline.load.modelling import SHAPE_SECONDS, load_model, load_shape
from shunter.pipeline.load.processors import ToldProcessors, processor_model, told_processors
from shunter.pipeline.load.weeks import broker_weeks, partition_weeks
from shunter.pipeline.packaging import package
from shunter.pipeline.planning.fleet import PEAKS, WEEK
from shunter.pipeline.planning.fleet_worker import ClusterLimit
from shunter.pipeline.planning.plan_batch import ClusterOutcome, FleetPlan, PlannedTarget, plan_lake, reassignments
from shunter.pipeline.session import KAFKA_SOURCE, SessionSettings, is_small, open_session
from shunter.pipeline.sources.kafka_topic import read_topic
from shunter.pipeline.sources.log_dirs import read_log_dirs
from shunter.pipeline.sources.tables import FORMATS, read_table

KINDS = (*FORMATS, *PROMETHEUS_FORMS, "log-dirs", CRUISE_CONTROL, CRUISE_CONTROL_LOAD, "snapshots")
ROWS_PER_TASK = 1_000_000
_KEPT_APART = {"", "file", "hdfs", "viewfs", "abfs", "abfss", "wasb", "wasbs", "adl", "gs"}
"""Stores on which Delta makes each commit once: by a rename, or by the store's own condition."""
JAVA_IS_GONE = (
    "Spark's Java process has ended, as it does when its memory is not enough: give it more with --memory, such as 4g"
)


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The place of the tables, and how Spark is opened; where a field is None, spark-submit's value counts."""

    root: str
    single_writer: bool = False
    """No other process writes at the same time."""
    master: str | None = None
    memory: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def lake(self) -> Lake:
        """The tables."""
        root = self.root.rstrip("/")
        named = is_schema(root) or urlparse(root).scheme
        return Lake(root if named else str(Path(root).absolute()))


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


@dataclass(frozen=True, slots=True)
class TopicInput:
    """The input of a stream. `until_caught_up`: end after the records that the topic holds now."""

    bootstrap: str
    topic: str
    checkpoint: str
    cluster: str | None = None
    lateness_seconds: float = 3_600.0
    every_seconds: float = 10.0
    records_per_batch: int | None = None
    until_caught_up: bool = False
    kafka_options: tuple[tuple[str, str], ...] = ()
    properties: Path | None = None


@contextmanager
def spark_session(
    settings: PipelineSettings, *, packages: tuple[str, ...] = (), beside: Sequence[str] | None = ()
) -> Iterator[SparkSession]:
    """Open Spark and stop it afterwards; if it is open in this process already, join it and leave it open.

    Args:
        beside: What is read beside the lake; None: that is not known yet.

    Raises:
        DriverError: a job failed in Spark; the error has Spark's reason.
    """
    if not _submitted():
        # Workers on this machine have to run the same Python as this process; Spark would take any `python3`.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    refuse_if_unsafe(settings)
    own = _submitted() or brings_delta(settings.conf)
    small = beside is not None and not is_schema(settings.root) and is_small((settings.lake.root, *beside))
    opened = SessionSettings(
        name="shunter pipeline",
        # spark-submit has said its master already; a plain `shunter pipeline` runs on this machine.
        master=settings.master if settings.master or _submitted() else "local[*]",
        memory=settings.memory,
        ivy_cache=cache_folder() / "ivy" if packages else None,
        packages=packages,
        jars=() if own else delta_jars(cache_folder()),
        conf=settings.conf,
        small=small,
    )
    joined = SparkSession.getActiveSession()
    with _output_on_standard_error():
        spark = joined or open_session(opened)
    try:
        yield spark
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise DriverError(_words_of(error), retriable=False) from error
    finally:
        if joined is None:
            with suppress(Py4JError, ConnectionError):
                spark.stop()


@contextmanager
def _output_on_standard_error() -> Iterator[None]:
    """Give a process that is started in this block standard error as its output: Delta's VACUUM prints there."""
    own = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(own, 1)
        os.close(own)


def refuse_if_unsafe(settings: PipelineSettings) -> None:
    """Refuse a store on which Delta can't keep two writers apart.

    Raises:
        SettingsError: the error names the store.
    """
    scheme = urlparse(settings.root).scheme
    if scheme in _KEPT_APART or settings.single_writer or f"spark.delta.logStore.{scheme}.impl" in settings.conf:
        return
    rule = f"on {scheme}:// two writers at once could lose rows: Delta has no conditional write there"
    way = f"name a log store with --conf spark.delta.logStore.{scheme}.impl=…, or say --single-writer"
    raise SettingsError(f'{settings.root}: {rule}; {way} (docs/pipeline.md, "Where the lake lives")')


def _words_of(error: Exception) -> str:
    if not isinstance(error, PySparkException | Py4JJavaError):
        return JAVA_IS_GONE
    try:
        words = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error.getMessage()
    except (Py4JError, ConnectionError):
        return JAVA_IS_GONE
    return f"Spark gave up: {gist_of(str(words or error))}"


def gist_of(words: str) -> str:
    """The line of Spark's message that has the cause: the last line of a Python worker's trace, else the first line."""
    if "DeltaCatalog" in words:
        return f"Delta Lake's jars are not there: give spark-submit --packages {coordinates()}"
    lines = words.strip().splitlines() or ["it does not say why"]
    of_python = [line for line in lines if re.match(r"\w*(Error|Exception): ", line)]
    missing = next((line for line in of_python if line.startswith("ModuleNotFoundError")), None)
    if missing is not None:
        return f"{missing} in Spark's Python workers: docs/pipeline.md, \"On a fleet's Spark\", says how to send it to them"
    return of_python[-1] if of_python else lines[0]


def _submitted() -> bool:
    return "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


def utc_now() -> datetime:
    """Now, with its zone: Spark would take a time without a zone for local time."""
    return datetime.now(UTC)


def ingest(spark: SparkSession, lake: Lake, inputs: Inputs) -> IngestOutcome:
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
        return ingest_snapshots(spark, lake, inputs.paths, now=utc_now(), options=many)
    reader = _reader_with_brokers(inputs)
    if reader is not None:
        return ingest_with_brokers(spark, lake, inputs.paths, reader, now=utc_now(), options=options)
    # The output of kafka-log-dirs has no time in it, so a quiet cluster's output is the same on two days.
    dated: datetime | Literal["modified"] | None = (inputs.at or "modified") if inputs.kind == "log-dirs" else None
    read = partial(_read, inputs)
    return ingest_files(spark, lake, inputs.paths, inputs.kind, read, now=utc_now(), options=options, dated=dated)


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


class Streamed(NamedTuple):
    """The sums over the batches of one run of a stream."""

    batches: int
    good: int
    rejected: int
    rules: tuple[tuple[str, int], ...]

    @property
    def nothing_new(self) -> bool:
        """Whether there was no good row, and not only because all rows had come before."""
        return nothing_taken(self.good, self.rejected, self.rules)


def ingest_topic(settings: PipelineSettings, source: TopicInput) -> Streamed:
    """Ingest a topic as a stream until it ends or is interrupted; returns the sums of this run.

    Raises:
        SettingsError: an argument holds a secret.
        FormatError: Spark ended the query: an offset no longer exists, or a broker can't be reached at all.
    """
    kafka_options = stream_options(source.properties, dict(source.kafka_options))
    with spark_session(settings, packages=(KAFKA_SOURCE,), beside=None) as spark:
        records = read_topic(
            spark,
            source.bootstrap,
            source.topic,
            records_per_batch=source.records_per_batch,
            kafka_options=kafka_options,
        )
        options = StreamOptions(
            checkpoint=source.checkpoint,
            cluster=source.cluster,
            lateness=timedelta(seconds=source.lateness_seconds),
            every_seconds=source.every_seconds,
            until_caught_up=source.until_caught_up,
        )
        made: list[Commit] = []
        query = start_stream(records, settings.lake, options, utc_now, made.append)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
        rules = sum((Counter(dict(commit.rules)) for commit in made), Counter[str]())
        rejected = sum(commit.rejected for commit in made)
        return Streamed(len(made), sum(commit.good for commit in made), rejected, tuple(sorted(rules.items())))


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


def model(
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


def roll_up(spark: SparkSession, lake: Lake, *, keep_days: int | None, new_only: bool = False) -> str | None:
    """Derive hours and days from the raw rows, then merge small files; returns the commit's id, or None.

    Args:
        keep_days: Delete raw rows older than this many days, and all but the last snapshot of each older day.
        new_only: Roll up only days that got rows since the last time.
    """
    state = lake.state(spark)
    if not any(commit.good for commit in state.live):
        return None
    keep_from: date | None = None if keep_days is None else utc_now().date() - timedelta(days=keep_days)
    roll_up_days(spark, lake, state, new_only=new_only)
    made = compact(spark, lake, now=utc_now(), keep_from=keep_from, rolled_up=state)
    return None if made is None else made.ingest_id


def clean(spark: SparkSession, lake: Lake, *, older_than: float) -> Cleaned:
    """Delete rows of replaced batches and of attempts that were never committed, and files that no version needs.

    Args:
        older_than: Seconds; another process may still write or read younger rows.
    """
    return lake.clean(spark, utc_now(), older_than=timedelta(seconds=older_than))


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlanOptions(PlanWords):
    """The options of a plan, with those for a fleet."""

    clusters: tuple[str, ...] = ()
    peak: str = "p95"
    days: float = 0.0
    seconds_per_cluster: float = 600.0
    tasks: int | None = None
    joint_bound: bool = False
    capacity: float | None = None
    """Bytes per second that each broker's network carries, either way."""
    snapshot_age: float = 7 * 86_400.0
    """Seconds; a cluster whose newest snapshot is older is not planned."""
    least_rates_percent: float = 0.0
    """A cluster is not planned if a smaller share of its partitions has rates."""
    rates_age: float = 7 * 86_400.0
    """Seconds; a plan warns if its newest rates are older."""
    as_of: datetime | None = None
    """UTC; the plan is made as it would have been then."""

    def request(self) -> PlanRequest:
        """The planner's request.

        Raises:
            SettingsError: an option has a wrong value, or contradicts another.
        """
        if self.scope not in FLEET_SCOPES:
            raise SettingsError(f"scope {self.scope!r} is none of {', '.join(FLEET_SCOPES)}")
        if self.peak not in (*PEAKS, WEEK):
            raise SettingsError(f"peak {self.peak!r} is none of {', '.join((*PEAKS, WEEK))}")
        if self.as_of is not None and self.as_of < utc_now() - timedelta(days=RETENTION_DAYS):
            raise SettingsError(
                f"--as-of {self.as_of:%Y-%m-%d}: tables can be read as they were {RETENTION_DAYS} days ago at the most"
            )
        try:
            asked = request_from(self)
            check(asked)
        except PlanRefused as error:
            raise SettingsError(str(error)) from error
        return asked


def plan(
    spark: SparkSession, lake: Lake, options: FleetPlanOptions, out: Path | None
) -> tuple[str, tuple[ClusterOutcome, ...]]:
    """Plan every cluster of the lake; writes Kafka's reassignment JSON of each to `out`, if that is given.

    Raises:
        FormatError: there is no cluster to plan, or a named cluster is not there.
        SettingsError: an option has a wrong value.
    """
    # Two plans of one second are two plans.
    plan_id = f"{utc_now():%Y%m%dT%H%M%S.%f}-{options.scope}"
    asked = FleetPlan(
        plan_id,
        options.request(),
        options.clusters,
        options.peak,
        options.days,
        ClusterLimit(options.seconds_per_cluster, options.joint_bound),
        options.tasks,
        options.capacity,
        options.as_of or utc_now(),
        options.snapshot_age,
        options.least_rates_percent,
        options.rates_age,
        options.as_of,
    )
    outcomes = plan_lake(spark, lake, asked)
    require_clusters(lake, options.clusters, [outcome.cluster_id for outcome in outcomes], "plan")
    if out is not None:
        write_reassignments(spark, lake, plan_id, out)
    return plan_id, outcomes


def require_clusters(lake: Lake, asked: Collection[str], found: Collection[str], verb: str) -> None:
    """Check that each named cluster was found, and that at least one cluster was found.

    Raises:
        FormatError: a named cluster, or every cluster, is missing; `verb` says what the stage does with it.
    """
    absent = sorted(set(asked).difference(found))
    if absent:
        raise FormatError(lake.root, f"has no cluster {absent[0]}")
    if not found:
        raise FormatError(lake.root, f"has no cluster to {verb}: run `shunter pipeline ingest` and `model` first")


def write_reassignments(spark: SparkSession, lake: Lake, plan_id: str, out: Path) -> tuple[Path, ...]:
    """Write a plan as Kafka's reassignment JSON: one `CLUSTER.json` for each cluster that has something to move."""
    return write_targets(reassignments(spark, lake, plan_id), out)


def write_targets(targets: Iterable[tuple[str, PlannedTarget]], out: Path) -> tuple[Path, ...]:
    """Write targets as Kafka's reassignment JSON, one file for each cluster; they have to be in order of clusters."""
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for cluster, rows in groupby(targets, key=itemgetter(0)):
        path = out / f"{cluster}.json"
        changes = [change for _, change in rows]
        elected = {(each.topic, each.partition) for each in changes if each.elect}
        path.write_bytes(write_reassignment((each[:4] for each in changes), elected))
        written.append(path)
    return tuple(written)


__all__ = [
    "KAFKA_SOURCE",
    "KINDS",
    "FleetPlanOptions",
    "Inputs",
    "Modelled",
    "PipelineSettings",
    "TopicInput",
    "clean",
    "ingest",
    "ingest_topic",
    "model",
    "package",
    "plan",
    "roll_up",
    "spark_session",
    "utc_now",
    "write_reassignments",
    "write_targets",
]
