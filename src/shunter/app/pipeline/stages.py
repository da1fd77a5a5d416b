"""The pipeline's composition root: one function for each stage, from a session and a lake to the stage's result.

Import it only where Spark is needed, because it imports pyspark.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlparse

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from shunter.app.client_configuration import stream_options
from shunter.app.pipeline.delta_jars import brings_delta, coordinates, delta_jars
from shunter.app.planning.plan import FLEET_SCOPES, PlanWords, request_from
from shunter.core.planning.request import PlanRefused
from shunter.drivers.host.cache import cache_folder
from shunter.errors import DriverError, SettingsError
from shunter.pipeline.ingest.batches import IngestOutcome, nothing_taken
from shunter.pipeline.ingest.kinds import KINDS, Inputs, ingest_lake
from shunter.pipeline.ingest.rollup import compact, roll_up_days
from shunter.pipeline.ingest.stream import StreamOptions, start_stream
from shunter.pipeline.lake.commits import Commit
from shunter.pipeline.lake.tables import Cleaned, Lake, is_schema
from shunter.pipeline.load.model_batch import Modelled, model_lake
from shunter.pipeline.packaging import package
from shunter.pipeline.planning.fleet_worker import ClusterLimit
from shunter.pipeline.planning.plan_batch import FleetOutcome, FleetPlan, plan_lake
from shunter.pipeline.session import KAFKA_SOURCE, REMOTE, SessionSettings, is_small, open_session
from shunter.pipeline.sources.kafka_topic import read_topic

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
    elsewhere = _submitted() or REMOTE in settings.conf
    own = elsewhere or brings_delta(settings.conf)
    small = beside is not None and not is_schema(settings.root) and is_small((settings.lake.root, *beside))
    opened = SessionSettings(
        name="shunter pipeline",
        # spark-submit has said its master already; a plain `shunter pipeline` runs on this machine.
        master=settings.master if settings.master or elsewhere else "local[*]",
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
    """Ingest files, now; see `ingest_lake`."""
    return ingest_lake(spark, lake, inputs, now=utc_now())


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

    def asked(self) -> FleetPlan:
        """The plan that is asked for.

        Raises:
            SettingsError: an option has a wrong value, or contradicts another.
        """
        if self.scope not in FLEET_SCOPES:
            raise SettingsError(f"scope {self.scope!r} is none of {', '.join(FLEET_SCOPES)}")
        try:
            request = request_from(self)
        except PlanRefused as error:
            raise SettingsError(str(error)) from error
        made = FleetPlan(
            request=request,
            clusters=self.clusters,
            peak=self.peak,
            days=self.days,
            limit=ClusterLimit(self.seconds_per_cluster, self.joint_bound),
            tasks=self.tasks,
            capacity=self.capacity,
            oldest_seconds=self.snapshot_age,
            least_rates_percent=self.least_rates_percent,
            rates_age=self.rates_age,
            as_of=self.as_of,
        )
        made.check(utc_now())
        return made


def plan(spark: SparkSession, lake: Lake, options: FleetPlanOptions, out: Path | None) -> FleetOutcome:
    """Plan every cluster of the lake, now; see `plan_lake`."""
    return plan_lake(spark, lake, options.asked(), now=utc_now(), out=out)


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
    "model_lake",
    "package",
    "plan",
    "roll_up",
    "spark_session",
    "utc_now",
]
