"""The later stages of the pipeline, and `run`, which does all of them against a live cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shunter.app.client_configuration import configuration_of
from shunter.app.pipeline.collection import collect_every
from shunter.app.pipeline.fit import refit
from shunter.app.pipeline.stages import FleetPlanOptions, Inputs, ingest, plan, utc_now
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
from shunter.pipeline.load.model_batch import model_lake
from shunter.pipeline.planning.plan_batch import ClusterOutcome, write_reassignments
from shunter.pipeline.planning.schedule import Scheduled, ScheduleOutcome, WhatIf, schedule_lake
from shunter.pipeline.reports.account import Accounted, account_lake
from shunter.pipeline.reports.report import report_lake

Execute = Callable[[Path, str], Path]
"""Carries out a reassignment JSON under a plan's id, and returns the journal as JSON lines (`read_journals`)."""

EXPORTED: tuple[Table, ...] = (
    PLANS, PLAN_MOVES, PLAN_ASSIGNMENTS, PLAN_LOADS, PLAN_UNDONE, SCHEDULES, SCHEDULE_MOVES, SCHEDULE_LOADS, JOURNAL,
    ACCOUNT_MOVES, ACCOUNT_STEPS, ACCOUNT_STALLS, ACCOUNT_RATES, ACCOUNT_PLANS, LOAD_MODEL, SHAPES, HOURLY, DAILY, BROKERS,
    REPLICAS, REJECTS, BROKER_SAMPLES, BROKER_LOADS, DATA_QUALITY, RUNWAY, SHOWBACK,
    WHAT_IF_FILLS, ANOMALIES, BROKER_WEEKS, PROCESSOR_MODEL,
)  # fmt: skip
"""The tables that `report --tables` writes."""


def schedule(spark: SparkSession, lake: Lake, plan_id: str | None, asked: WhatIf) -> Scheduled:
    """Schedule a plan (None: the newest), now; see `schedule_lake`."""
    return schedule_lake(spark, lake, plan_id, asked, now=utc_now())


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
        told = f"; {counted(outcome.undone, 'aim')} not reached: the report says why" if outcome.undone else ""
        told += f"; {outcome.message}" if outcome.message else ""
        tell(f"{outcome.cluster_id}: {outcome.status}, {counted(outcome.moves, 'copy', 'copies')}{told}")
    scheduled = schedule(spark, lake, plan_id, options.what_if).scenarios if reassignment is not None else ()
    for expected in scheduled:
        tell(f"scheduled {expected.told}" + (f"; {expected.warning}" if expected.warning else ""))
    accounted: Accounted | None = None
    undone = 0
    if reassignment is not None and execute is not None:
        accounted, undone = _execute(spark, lake, options, (plan_id, reassignment, taken), execute, tell)
    written = report_lake(spark, lake, options.out / "report.html", plan_id=plan_id, cluster=taken.cluster_id)
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
    accounted = account_lake(spark, lake, [str(execute(fitting, plan_id))])
    done = lake.read(spark, ACCOUNT_MOVES).where((F.col("plan_id") == plan_id) & (F.col("outcome") == "done")).count()
    tell(f"executed: {done:,} of {counted(asked, 'move')} done")
    return accounted, asked - done


def model_or_sizes(spark: SparkSession, lake: Lake) -> str:
    """Model the samples. If nothing was written since the first snapshot there are none, and plans rest on sizes."""
    try:
        made = model_lake(spark, lake)
    except FormatError:
        return "no samples yet: planning from the snapshot's sizes"
    return f"modelled {counted(made.replicas, 'replica')}, {made.with_rates} of them with rates, confidence {made.mean_confidence:.2f}"


__all__ = [
    "Accounted",
    "Execute",
    "RunOptions",
    "RunOutcome",
    "WhatIf",
    "account_lake",
    "export",
    "report_lake",
    "run",
    "schedule",
]
