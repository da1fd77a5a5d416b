"""One plan of a fleet, from the model in the lake to its tables in the lake."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from shunter.core.planning.request import PlanRefused, PlanRequest
from shunter.core.planning.scopes import check
from shunter.errors import FormatError, SettingsError
from shunter.formats.plan_files import write_reassignment
from shunter.pipeline.ingest.snapshot_batch import latest_snapshot
from shunter.pipeline.lake.account_schemas import PLAN_ASSIGNMENTS, PLAN_LOADS, PLAN_MOVES, PLAN_UNDONE, PLANS
from shunter.pipeline.lake.caching import cached
from shunter.pipeline.lake.outlook_schemas import BROKER_WEEKS, PROCESSOR_MODEL
from shunter.pipeline.lake.schemas import FOLLOWER, LOAD_MODEL, SHAPES, Table
from shunter.pipeline.lake.tables import RETENTION_DAYS, Lake
from shunter.pipeline.load.weeks import at_busiest_hours
from shunter.pipeline.planning.fleet import PEAKS, WEEK, fleet_rows, plan_fleet
from shunter.pipeline.planning.fleet_worker import FAILED, RESULT, RESULT_DDL, ClusterLimit

COARSE = 4
"""Windows of more than so many times the cluster's shortest are coarse: of one load their 95th percentile is lower."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """A plan to be made: the request, the clusters (none named: all), the peak that counts, and how many days ahead."""

    plan_id: str = ""
    """None given: the stage names the plan by its moment and scope."""
    request: PlanRequest = field(default_factory=PlanRequest)
    clusters: tuple[str, ...] = ()
    peak: str = "p95"
    days: float = 0.0
    limit: ClusterLimit = field(default_factory=ClusterLimit)
    tasks: int | None = None
    capacity: float | None = None
    """Bytes per second that each broker's network carries, either way."""
    now: datetime | None = None
    """With its zone; ages are counted from then. None: from the stage's time."""
    oldest_seconds: float = 7 * 86_400.0
    """A cluster whose newest snapshot is older is not planned: its replicas may be elsewhere by now."""
    least_rates_percent: float = 0.0
    """A cluster is not planned if a smaller percentage of its partitions has rates."""
    rates_age: float | None = None
    """Seconds. A plan whose newest rates are older says so."""
    as_of: datetime | None = None
    """The plan is made from the tables as they were then; None: as they are."""

    def check(self, now: datetime) -> None:
        """Check the plan before any work.

        Raises:
            SettingsError: an option has a wrong value.
        """
        if self.peak not in (*PEAKS, WEEK):
            raise SettingsError(f"peak {self.peak!r} is none of {', '.join((*PEAKS, WEEK))}")
        if self.as_of is not None and self.as_of < now - timedelta(days=RETENTION_DAYS):
            raise SettingsError(
                f"--as-of {self.as_of:%Y-%m-%d}: tables can be read as they were {RETENTION_DAYS} days ago at the most"
            )
        try:
            check(self.request)
        except PlanRefused as error:
            raise SettingsError(str(error)) from error


class Basis(NamedTuple):
    """The data that one cluster's plan is made from. Times are seconds since 1970; None: there are no such data."""

    cluster_id: str
    partitions: int
    with_rates: int
    """Partitions for which bytes in or out are known."""
    with_sizes: int
    rates_until: int | None
    """Start of the newest window with a rate."""
    snapshot_at: int | None
    with_bytes_out: int = 0
    """Partitions for which bytes out are known; snapshots alone do not show any."""
    coarse: int = 0
    """Partitions whose rates rest on windows several times as long as others': their peaks are flatter."""
    coarse_seconds: int = 0
    """The longest of these windows."""


class ClusterOutcome(NamedTuple):
    """The result of planning one cluster."""

    cluster_id: str
    status: str
    message: str | None
    seconds: float
    moves: int
    bytes_moved: float | None
    bytes_percent: float | None
    bound_percent: float | None
    joint_bound_percent: float | None
    undone: int
    basis: Basis | None = None


class FleetOutcome(NamedTuple):
    """A plan, and its result for each cluster."""

    plan_id: str
    clusters: tuple[ClusterOutcome, ...]


def plan_lake(
    spark: SparkSession, lake: Lake, asked: FleetPlan, *, now: datetime, out: Path | None = None
) -> FleetOutcome:
    """Plan what the lake's model and newest snapshots show, and write the plan's tables.

    Args:
        out: A folder for Kafka's reassignment JSON, one file for each cluster.

    Raises:
        FormatError: there is no cluster to plan, or a named cluster is not there.
        SettingsError: an option has a wrong value.
    """
    asked.check(now)
    # Two plans of one second are two plans.
    plan_id = asked.plan_id or f"{now:%Y%m%dT%H%M%S.%f}-{asked.request.scope.value}"
    asked = replace(asked, plan_id=plan_id, now=asked.now or asked.as_of or now)
    outcomes = _plan_lake(spark, lake, asked)
    require_clusters(lake, asked.clusters, [outcome.cluster_id for outcome in outcomes], "plan")
    if out is not None:
        write_reassignments(spark, lake, plan_id, out)
    return FleetOutcome(plan_id, outcomes)


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


def _plan_lake(spark: SparkSession, lake: Lake, asked: FleetPlan) -> tuple[ClusterOutcome, ...]:
    seen = replace(lake, as_of=asked.as_of)
    version = seen.version(spark, LOAD_MODEL)
    model = model_for(spark, seen, asked.peak, None if version is None else version[0])
    brokers, replicas = latest_snapshot(spark, seen)
    rows = fleet_rows(
        model,
        brokers,
        replicas,
        peak=asked.peak,
        days=asked.days,
        capacity=asked.capacity,
        processors=seen.read(spark, PROCESSOR_MODEL),
    )
    if asked.clusters:
        rows = rows.where(F.col("cluster_id").isin(*asked.clusters))
    with cached(rows) as known:
        bases = {basis.cluster_id: basis for basis in bases_of(known, model, brokers)}
        with cached(_planned(spark, known, brokers, bases, asked)) as planned:
            for table, frame in plan_tables(planned, asked.plan_id, version):
                lake.write(frame, table)
            outcomes = planned.select(
                "cluster_id", "status", "message", "seconds", F.coalesce(F.size("moves"), F.lit(0)).alias("moves"),
                "bytes_moved", "bytes_percent", "bound_percent", "joint_bound_percent",
                F.coalesce(F.size("undone"), F.lit(0)).alias("undone"),
            )  # fmt: skip
            found = sorted(outcomes.collect(), key=itemgetter("cluster_id"))
    return tuple(ClusterOutcome(*row)._replace(basis=bases.get(row["cluster_id"])) for row in found)


def _planned(
    spark: SparkSession, rows: DataFrame, brokers: DataFrame, bases: Mapping[str, Basis], asked: FleetPlan
) -> DataFrame:
    """A plan of each cluster, or why it is not planned, with what its plan rests on."""
    refused = [_empty(name, why) for name, why in refusals(bases.values(), asked)]
    fresh = rows.where(~F.col("cluster_id").isin([row["cluster_id"] for row in refused])) if refused else rows
    planned = plan_fleet(fresh, asked.request, asked.limit, tasks=asked.tasks)
    if refused:
        planned = planned.unionByName(spark.createDataFrame(refused, RESULT_DDL))
    unseen = any(basis.snapshot_at is None for basis in bases.values())
    told = _as_frame(spark, bases.values(), asked, _with_snapshots(brokers) if unseen else ())
    planned = planned.join(told, on="cluster_id", how="left")
    message = F.concat_ws("; ", "message", "warning")
    return planned.withColumn("message", F.nullif(message, F.lit(""))).drop("warning")


def model_for(spark: SparkSession, lake: Lake, peak: str, version: int | None = None) -> DataFrame:
    """The lake's model, of a version or the newest, with the rates of each cluster's busiest hour where they are asked for."""
    model = lake.read(spark, LOAD_MODEL, version=version)
    if peak != WEEK:
        return model
    return at_busiest_hours(model, lake.read(spark, SHAPES), lake.read(spark, BROKER_WEEKS))


def bases_of(rows: DataFrame, model: DataFrame, brokers: DataFrame) -> list[Basis]:
    """Count what is known of each cluster; a small result.

    Args:
        rows: Columns of `fleet.FLEET_ROWS`.
        model: Columns of `load_model`.
        brokers: The newest snapshots' brokers.
    """
    is_partition = F.col("topic").isNotNull()
    counted = rows.groupBy("cluster_id").agg(
        F.count_if(is_partition).alias("partitions"),
        F.count_if(is_partition & F.coalesce("bytes_in", "bytes_out").isNotNull()).alias("with_rates"),
        F.count_if(is_partition & (F.col("size") > 0)).alias("with_sizes"),
        F.count_if(is_partition & F.col("bytes_out").isNotNull()).alias("with_bytes_out"),
    )
    with_rates = F.when(F.col("windows") > 0, F.unix_seconds("last_window"))
    rates = model.groupBy("cluster_id").agg(F.max(with_rates).alias("rates_until"))
    taken = brokers.groupBy("cluster_id").agg(F.max(F.unix_seconds("taken_at")).alias("snapshot_at"))
    joined = counted
    for more in (rates, taken, _coarse(model)):
        joined = joined.join(more, on="cluster_id", how="left")
    joined = joined.fillna(0, ["coarse", "coarse_seconds"])
    return [Basis(*row) for row in joined.select(*Basis._fields).collect()]


def _coarse(model: DataFrame) -> DataFrame:
    """By cluster: partitions with windows several times as long as the shortest, and how long the longest are."""
    window = F.col("covered_seconds") / F.col("windows")
    partitions = model.where((F.col("basis") == "rates") & (F.col("role") != FOLLOWER) & (F.col("covered_seconds") > 0))
    partitions = partitions.groupBy("cluster_id", "topic_id", "partition").agg(F.min(window).alias("seconds"))
    shortest = F.min("seconds").over(Window.partitionBy("cluster_id"))
    long = partitions.withColumn("long", F.when(F.col("seconds") > COARSE * shortest, F.col("seconds")))
    return long.groupBy("cluster_id").agg(
        F.count("long").alias("coarse"), F.max("long").cast("bigint").alias("coarse_seconds")
    )


def refusals(bases: Iterable[Basis], asked: FleetPlan) -> Iterator[tuple[str, str]]:
    """Clusters that are not planned, and why: their data is too old, or covers too little."""
    for basis in bases:
        share = 100 * basis.with_rates / basis.partitions if basis.partitions else 0.0
        if asked.now is not None and basis.snapshot_at is not None:
            taken = datetime.fromtimestamp(basis.snapshot_at, UTC)
            age = (asked.now - taken).total_seconds()
            if age > asked.oldest_seconds:
                days, limit = age / 86_400, asked.oldest_seconds / 86_400
                rule = f"its newest snapshot is {days:.1f} days old ({taken:%Y-%m-%d %H:%M} UTC), and may be {limit:g}"
                way = "take a new one (`shunter pipeline collect`), or allow it with --snapshot-age"
                yield basis.cluster_id, f"{rule}: {way}"
                continue
        if share < asked.least_rates_percent:
            rule = f"{share:.1f} % of its partitions have rates, and --least-rates-percent asks for {asked.least_rates_percent:g}"
            yield basis.cluster_id, f"{rule}: `shunter pipeline quality` says what is there day by day"


def _empty(cluster_id: str, why: str) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(RESULT.names)
    return empty | {"cluster_id": cluster_id, "status": FAILED, "message": why, "seconds": 0.0}


def warning_of(basis: Basis, asked: FleetPlan, with_snapshots: Sequence[str] = ()) -> str | None:
    """A warning about the data that a plan rests on; None: there is nothing to warn of.

    Args:
        with_snapshots: Clusters of which there are snapshots.
    """
    warnings: list[str] = []
    if asked.now is not None and asked.rates_age is not None and basis.rates_until is not None:
        age = asked.now.timestamp() - basis.rates_until
        if age > asked.rates_age:
            warnings.append(f"its newest rates are {age / 86_400:.1f} days old: the plan carries the load of that time")
    if basis.snapshot_at is None and with_snapshots:
        others = "of " + with_snapshots[0] + (f" and {len(with_snapshots) - 1:,} more" if with_snapshots[1:] else "")
        warnings.append(
            f"there are snapshots {others}, and none of {basis.cluster_id}: if that is one of these under another name, "
            "ingest its samples again with Kafka's own id as --cluster"
        )
    return "; ".join(warnings) or None


def _with_snapshots(brokers: DataFrame) -> list[str]:
    rows = brokers.select("cluster_id").distinct().collect()
    return sorted(row["cluster_id"] for row in rows)


def _as_frame(
    spark: SparkSession, bases: Iterable[Basis], asked: FleetPlan, with_snapshots: Sequence[str]
) -> DataFrame:
    rows = [
        (one.cluster_id, one.with_rates, one.rates_until, one.snapshot_at, warning_of(one, asked, with_snapshots))
        for one in bases
    ]
    ddl = "cluster_id string, with_rates bigint, until bigint, at bigint, warning string"
    given = spark.createDataFrame(rows, ddl)
    times = F.timestamp_seconds("until").alias("rates_until"), F.timestamp_seconds("at").alias("snapshot_at")
    return F.broadcast(given.select("cluster_id", "with_rates", *times, "warning"))


def plan_tables(
    planned: DataFrame, plan_id: str, version: tuple[int, datetime] | None
) -> Iterator[tuple[Table, DataFrame]]:
    """Take the nested result of `plan_fleet` apart into the tables of a plan; `plans` is the last one.

    Args:
        version: That of the model, and when it was written.
    """
    named = planned.withColumn("plan_id", F.lit(plan_id))
    for table, nested in (
        (PLAN_MOVES, "moves"),
        (PLAN_ASSIGNMENTS, "assignments"),
        (PLAN_LOADS, "loads"),
        (PLAN_UNDONE, "undone"),
    ):
        each = named.select("cluster_id", "plan_id", F.explode(nested).alias("one"))
        yield table, each.select("cluster_id", "plan_id", "one.*").select(*table.columns)
    number, at = version or (None, None)
    made_from = {"model_version": F.lit(number).cast("bigint"), "model_at": F.lit(at).cast("timestamp")}
    yield PLANS, named.withColumns(made_from).select(*PLANS.columns)


class PlannedTarget(NamedTuple):
    """A partition's target, and the replicas that it was planned from (None: there is no snapshot)."""

    topic: str
    partition: int
    replicas: list[int]
    original: list[int] | None
    elect: bool | None = None


def reassignments(spark: SparkSession, lake: Lake, plan_id: str) -> Iterator[tuple[str, PlannedTarget]]:
    """A plan's targets with their cluster's id, in order of cluster, topic and partition."""
    frame = lake.read(spark, PLAN_ASSIGNMENTS).where(F.col("plan_id") == plan_id)
    ordered = frame.select("cluster_id", "topic", "partition", "replicas", "original_replicas", "elect")
    for row in ordered.orderBy("cluster_id", "topic", "partition").toLocalIterator():
        cluster_id, *told = row
        yield cluster_id, PlannedTarget(*told)


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


def latest_plan(spark: SparkSession, lake: Lake, cluster: str | None = None) -> str | None:
    """The newest plan's id: ids begin with their moment, so the greatest is the newest."""
    plans = lake.read(spark, PLANS)
    chosen = plans if cluster is None else plans.where(F.col("cluster_id") == cluster)
    row = chosen.agg(F.max("plan_id").alias("plan_id")).first()
    return None if row is None else row["plan_id"]


def named_plan(spark: SparkSession, lake: Lake, plan_id: str | None, cluster: str | None = None) -> str:
    """The id of a plan that exists: the given one, or the newest.

    Raises:
        FormatError: there is no plan yet, or no plan with this id.
    """
    newest = latest_plan(spark, lake, cluster)
    if newest is None:
        raise FormatError(lake.root, "holds no plan yet: run `shunter pipeline plan` first")
    if plan_id is None:
        return newest
    if lake.read(spark, PLANS).where(F.col("plan_id") == plan_id).isEmpty():
        raise FormatError(lake.root, f"holds no plan {plan_id}; the newest is {newest}")
    return plan_id
