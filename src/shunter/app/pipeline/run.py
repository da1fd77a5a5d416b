"""The later stages of the pipeline, and `run`, which does all of them against a live cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shunter.app.client_configuration import configuration_of
from shunter.app.pipeline.collection import collect_every
from shunter.app.pipeline.fit import refit
from shunter.app.pipeline.stages import FleetPlanOptions, Inputs, ingest, model, plan, utc_now, write_reassignments
from shunter.core.wording import counted
from shunter.drivers.admin.inventory import take_inventory
from shunter.errors import FormatError
from shunter.formats.reassignment_json import decode_plan
from shunter.model.inventory import Inventory
from shunter.pipeline.lake.account_schemas import (
    ACCOUNT_MOVES,
    ACCOUNT_PLANS,
    ACCOUNT_RATES,
    ACCOUNT_STALLS,
    ACCOUNT_STEPS,
    JOURNAL,
    PLAN_ASSIGNMENTS,
    PLAN_LOADS,
    PLAN_MOVES,
    PLAN_UNDONE,
    PLANS,
    SCHEDULE_LOADS,
    SCHEDULE_MOVES,
    SCHEDULES,
)
from shunter.pipeline.lake.outlook_schemas import (
    ANOMALIES,
    BROKER_WEEKS,
    DATA_QUALITY,
    PROCESSOR_MODEL,
    RUNWAY,
    SHOWBACK,
    WHAT_IF_FILLS,
)
from shunter.pipeline.lake.schemas import (
    BROKER_LOADS,
    BROKER_SAMPLES,
    BROKERS,
    DAILY,
    HOURLY,
    LOAD_MODEL,
    REJECTS,
    REPLICAS,
    SHAPES,
    Table,
)
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.planning.fleet_worker import PLANNED
from shunter.pipeline.planning.plan_batch import ClusterOutcome, latest_plan
from shunter.pipeline.planning.schedule import ScheduleOutcome, known_weeks, learnt, schedule_lake
from shunter.pipeline.planning.schedule_worker import Scenario, ScheduleOptions
from shunter.pipeline.reports.account import moves_of, plans_of, rates_of, read_journals, stalls_of, steps_of
from shunter.pipeline.reports.report import gather
from shunter.pipeline.reports.report_page import page

Execute = Callable[[Path, str], Path]
"""Carries out a reassignment JSON under a plan's id, and returns the journal as JSON lines (`read_journals`)."""

EXPORTED: tuple[Table, ...] = (
    PLANS, PLAN_MOVES, PLAN_ASSIGNMENTS, PLAN_LOADS, PLAN_UNDONE, SCHEDULES, SCHEDULE_MOVES, SCHEDULE_LOADS, JOURNAL,
    ACCOUNT_MOVES, ACCOUNT_STEPS, ACCOUNT_STALLS, ACCOUNT_RATES, ACCOUNT_PLANS, LOAD_MODEL, SHAPES, HOURLY, DAILY, BROKERS,
    REPLICAS, REJECTS, BROKER_SAMPLES, BROKER_LOADS, DATA_QUALITY, RUNWAY, SHOWBACK,
    WHAT_IF_FILLS, ANOMALIES, BROKER_WEEKS, PROCESSOR_MODEL,
)  # fmt: skip
"""The tables that `report --tables` writes."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """How moves shall run, and further scenarios. Rates are bytes per second; None: a learnt rate, or an assumption."""

    throttle: float | None = None
    capacity: float | None = None
    per_broker: int = 3
    total: int = 0
    traffic: tuple[float, ...] = ()
    lost: tuple[int, ...] = ()


class Scheduled(NamedTuple):
    """The schedules of one plan, by cluster."""

    plan_id: str
    scenarios: tuple[ScheduleOutcome, ...]
    idle: tuple[str, ...]
    """Clusters whose plan copies nothing."""
    unplanned: tuple[tuple[str, str], ...]
    """Clusters that got no plan, and why."""


def schedule(spark: SparkSession, lake: Lake, plan_id: str | None, asked: WhatIf) -> Scheduled:
    """Schedule a plan (None: the newest) as it is, and under every scenario of `asked`.

    Raises:
        FormatError: there is no plan.
    """
    known, ratios = learnt(spark, lake)
    scenarios = [
        Scenario(),
        *(Scenario(traffic=factor) for factor in asked.traffic),
        *(Scenario(lost=broker) for broker in asked.lost),
    ]
    now = utc_now()
    options = ScheduleOptions(
        tuple(scenarios), asked.throttle, asked.capacity, asked.per_broker, asked.total, ratios, known,
        known_weeks(spark, lake), now.weekday() * 24 + now.hour,
    )  # fmt: skip
    chosen = named_plan(spark, lake, plan_id)
    made = schedule_lake(spark, lake, chosen, options)
    busy = {one.cluster_id for one in made}
    clusters = lake.read(spark, PLANS).where(F.col("plan_id") == chosen).select("cluster_id", "status", "message")
    rest = [row for row in clusters.orderBy("cluster_id").collect() if row["cluster_id"] not in busy]
    idle = tuple(row["cluster_id"] for row in rest if row["status"] == PLANNED)
    unplanned = tuple((row["cluster_id"], row["message"] or "") for row in rest if row["status"] != PLANNED)
    return Scheduled(chosen, made, idle, unplanned)


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


class Accounted(NamedTuple):
    """The sums of an account."""

    entries: int
    moves: int
    done: int
    stalled_seconds: float


def account(spark: SparkSession, lake: Lake, journals: Sequence[str]) -> Accounted:
    """Take journals (JSON lines) into the account's tables; a journal that is given again replaces its former rows."""
    if journals:
        lake.write(read_journals(spark, journals), JOURNAL)
    journal = lake.read(spark, JOURNAL)
    steps, moves = steps_of(journal), moves_of(journal)
    lake.write(steps, ACCOUNT_STEPS)
    lake.write(moves, ACCOUNT_MOVES)
    lake.write(stalls_of(journal), ACCOUNT_STALLS)
    lake.write(rates_of(lake.read(spark, ACCOUNT_STEPS)), ACCOUNT_RATES)
    written = lake.read(spark, ACCOUNT_MOVES)
    lake.write(plans_of(written, lake.read(spark, SCHEDULES), lake.read(spark, PLAN_LOADS)), ACCOUNT_PLANS)
    sums = written.agg(
        F.count("*").alias("moves"),
        F.count_if(F.col("outcome") == "done").alias("done"),
        F.coalesce(F.sum("stalled_seconds"), F.lit(0.0)).alias("stalled"),
    ).first()
    assert sums is not None, "an aggregate without groups has one row"
    return Accounted(journal.count(), sums["moves"], sums["done"], sums["stalled"])


def report(spark: SparkSession, lake: Lake, out: Path, *, plan_id: str | None, cluster: str | None) -> Path:
    """Write the report of one plan of one cluster (None: the plan's only cluster) as one HTML file.

    Raises:
        FormatError: there is no plan, or it has several clusters and none was named.
    """
    chosen = named_plan(spark, lake, plan_id, cluster)
    clusters = [
        row["cluster_id"]
        for row in lake.read(spark, PLANS)
        .where(F.col("plan_id") == chosen)
        .select("cluster_id")
        .orderBy("cluster_id")
        .collect()
    ]
    if cluster is None and len(clusters) != 1:
        raise FormatError(
            f"plan {chosen}",
            f"has {counted(len(clusters), 'cluster')}: name one with --cluster ({', '.join(clusters[:5])})",
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(gather(spark, lake, cluster or clusters[0], chosen)), encoding="utf-8")
    return out


def export(spark: SparkSession, lake: Lake, folder: str, file_format: str) -> tuple[str, ...]:
    """Write every table that has rows as Parquet or CSV; nested columns become JSON text in CSV."""
    written: list[str] = []
    for table in EXPORTED:
        frame = lake.read(spark, table)
        if frame.isEmpty():
            continue
        if file_format == "csv":
            nested = {name for name, kind in frame.dtypes if kind.startswith(("array", "struct", "map"))}
            columns = [F.to_json(name).alias(name) if name in nested else F.col(name) for name in frame.columns]
            frame.select(*columns).write.mode("overwrite").option("header", "true").csv(f"{folder}/{table.name}")
        else:
            frame.write.mode("overwrite").parquet(f"{folder}/{table.name}")
        written.append(table.name)
    return tuple(written)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `run`. `snapshots` are taken `every_seconds`; a rate needs at least two."""

    bootstrap: str
    out: Path
    properties: Path | None = None
    snapshots: int = 2
    every_seconds: float = 10.0
    plan: FleetPlanOptions = field(default_factory=FleetPlanOptions)
    what_if: WhatIf = field(default_factory=WhatIf)


class RunOutcome(NamedTuple):
    """The result of `run`."""

    plan_id: str
    planned: tuple[ClusterOutcome, ...]
    scheduled: tuple[ScheduleOutcome, ...]
    accounted: Accounted | None
    report: Path
    undone: int = 0
    """Partitions of the plan that should have been moved, and were not."""


def run(
    spark: SparkSession,
    lake: Lake,
    options: RunOptions,
    *,
    execute: Execute | None,
    wait: Callable[[float], bool],
    tell: Callable[[str], None],
) -> RunOutcome:
    """Collect, model, plan, schedule, execute, account, report.

    Args:
        execute: Carries the plan out; None leaves out the execution and the account.
        wait: Waits for this many seconds between snapshots; returns True to end them early.
        tell: Takes one sentence of progress at a time.

    Raises:
        DriverError: the cluster does not answer.
        FormatError: there is nothing to model, or no plan was made.
    """
    landing = options.out / "snapshots"
    taken: Inventory | None = None
    pace = {"every_seconds": options.every_seconds, "count": options.snapshots}
    for path, taken in collect_every(options.bootstrap, options.properties, landing, wait=wait, **pace):  # type: ignore[arg-type]
        tell(
            f"snapshot of {taken.cluster_id}: {counted(len(taken.brokers), 'broker')}, {counted(len(taken.partitions), 'partition')} ({path.name})"
        )
    assert taken is not None, "a collection that ends without an error has a snapshot"
    brought = ingest(spark, lake, Inputs((str(landing),), "snapshots"))
    tell(f"ingested {counted(brought.good, 'sample')}, put {brought.rejected} aside")
    modelled = model_or_sizes(spark, lake)
    tell(modelled)
    # The lake may hold other clusters, but only this cluster is to be moved.
    asked = replace(options.plan, clusters=(taken.cluster_id,))
    plan_id, planned = plan(spark, lake, asked, None)
    (reassignment,) = write_reassignments(spark, lake, plan_id, options.out) or (None,)
    for outcome in planned:
        told = f"; {outcome.message}" if outcome.message else ""
        tell(f"{outcome.cluster_id}: {outcome.status}, {counted(outcome.moves, 'copy', 'copies')}{told}")
    scheduled = schedule(spark, lake, plan_id, options.what_if).scenarios if reassignment is not None else ()
    for expected in scheduled:
        tell(f"scheduled {expected.told}" + (f"; {expected.warning}" if expected.warning else ""))
    accounted: Accounted | None = None
    undone = 0
    if reassignment is not None and execute is not None:
        accounted, undone = _execute(spark, lake, options, (plan_id, reassignment, taken), execute, tell)
    written = report(spark, lake, options.out / "report.html", plan_id=plan_id, cluster=taken.cluster_id)
    return RunOutcome(plan_id, planned, scheduled, accounted, written, undone)


def _execute(
    spark: SparkSession,
    lake: Lake,
    options: RunOptions,
    planned: tuple[str, Path, Inventory],
    execute: Execute,
    tell: Callable[[str], None],
) -> tuple[Accounted | None, int]:
    """Carry out the moves that still fit; returns the account, and how many partitions were not moved as planned."""
    plan_id, reassignment, taken = planned
    asked = len(decode_plan(reassignment.read_bytes(), str(reassignment)))
    now = take_inventory(configuration_of(options.bootstrap, options.properties))
    fitting, refused = refit(reassignment, taken, now)
    for why in refused:
        tell(f"left out: {why}")
    if fitting is None:
        tell("no move of the plan fits the cluster any longer: run it again")
        return None, asked
    accounted = account(spark, lake, [str(execute(fitting, plan_id))])
    done = lake.read(spark, ACCOUNT_MOVES).where((F.col("plan_id") == plan_id) & (F.col("outcome") == "done")).count()
    tell(f"executed: {done:,} of {counted(asked, 'move')} done")
    return accounted, asked - done


def model_or_sizes(spark: SparkSession, lake: Lake) -> str:
    """Model the samples. If nothing was written since the first snapshot there are none, and plans rest on sizes."""
    try:
        made = model(spark, lake)
    except FormatError:
        return "no samples yet: planning from the snapshot's sizes"
    return f"modelled {counted(made.replicas, 'replica')}, {made.with_rates} of them with rates, confidence {made.mean_confidence:.2f}"


__all__ = [
    "Accounted",
    "Execute",
    "RunOptions",
    "RunOutcome",
    "Scheduled",
    "WhatIf",
    "account",
    "export",
    "report",
    "run",
    "schedule",
    "utc_now",
]
