"""Gathers what a report shows from the lake: small results only, however large the tables are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from shunter.core.wording import counted
from shunter.errors import FormatError
from shunter.pipeline.lake.account_schemas import (
    ACCOUNT_MOVES,
    ACCOUNT_PLANS,
    ACCOUNT_STALLS,
    ACCOUNT_STEPS,
    PLAN_LOADS,
    PLAN_MOVES,
    PLAN_UNDONE,
    PLANS,
    SCHEDULE_MOVES,
    SCHEDULES,
)
from shunter.pipeline.lake.schemas import Table
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.planning.plan_batch import named_plan
from shunter.pipeline.reports.plots import BrokerBar, EstimateAndOutcome, FlowArrow, Lane, PlotSpan, amount, duration
from shunter.pipeline.reports.report_page import Listing, ReportData, page

MOST_FLOWS = 80
MOST_LANES = 60
MOST_ROWS = 200
_IN_TURN = ("waiting for its turn", "between steps")
"""Causes of waiting that are not faults: other moves run, as the schedule intends."""


def report_lake(
    spark: SparkSession, lake: Lake, out: Path, *, plan_id: str | None = None, cluster: str | None = None
) -> Path:
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


def gather(spark: SparkSession, lake: Lake, cluster: str, plan_id: str) -> ReportData:
    """Gather the report of one plan of one cluster; what has not happened yet is left out."""

    def rows_of(table: Table) -> DataFrame:
        return lake.read(spark, table).where((F.col("cluster_id") == cluster) & (F.col("plan_id") == plan_id))

    plan = rows_of(PLANS).first()
    moves = rows_of(PLAN_MOVES)
    account = lake.read(spark, ACCOUNT_PLANS).where(F.col("cluster_id") == cluster).orderBy("began_at").collect()
    found, left_out = _flows(moves)
    lanes, lanes_left_out = _lanes(spark, lake, cluster, plan_id)
    return ReportData(
        title=f"Cluster {cluster}, plan {plan_id}",
        facts=_facts(plan, [row for row in account if row["plan_id"] == plan_id]),
        loads=_loads(rows_of(PLAN_LOADS)),
        flows=found,
        flows_left_out=left_out,
        lanes=lanes,
        lanes_left_out=lanes_left_out,
        estimates=_estimates(account),
        listings=(
            _scenarios(rows_of(SCHEDULES)),
            _stalls(_within(lake.read(spark, ACCOUNT_STALLS), "began_at", rows_of(ACCOUNT_MOVES))),
            _undone(rows_of(PLAN_UNDONE)),
            _moves(moves),
        ),
    )


def _facts(plan: Row | None, executed: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    if plan is None:
        return (("plan", "there is none of this name"),)
    if plan["status"] != "planned":
        return (("plan", plan["status"]), ("why", plan["message"] or ""))
    facts = [
        ("partitions looked at", f"{plan['partitions']:,}"),
        (
            "copied by the plan",
            f"{amount(plan['bytes_moved'], 'bytes')} ({plan['bytes_percent']:.2f} % of all replicas)",
        ),
        ("least that any plan copies, by disk or counts alone", _percent(plan["bound_percent"])),
        ("the same, by disk, replicas and leaders together", _percent(plan["joint_bound_percent"])),
        ("preferred leaders that change", f"{plan['leader_changes']:,}"),
        ("planned in", duration(plan["seconds"])),
    ]
    for row in executed:
        facts.append(("moves done", f"{row['done']:,} of {row['moves']:,}"))
        if row["copied_bytes"] is not None:
            facts.append(("really copied", amount(row["copied_bytes"], "bytes")))
        if row["seconds"] is not None:
            expected = row["planned_seconds"]
            told = "" if expected is None else f", where {duration(expected)} were expected ({row['eta_error']:+.0%})"
            facts.append(("took", duration(row["seconds"]) + told))
        if row["bytes_per_imbalance"] is not None:
            facts.append(("copied for each byte of imbalance removed", f"{row['bytes_per_imbalance']:.2f}"))
    return tuple((name, value) for name, value in facts if value)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2f} %"


def _loads(loads: DataFrame) -> tuple[tuple[str, tuple[BrokerBar, ...]], ...]:
    by_resource: dict[str, list[BrokerBar]] = {}
    for row in loads.orderBy("broker").collect():
        by_resource.setdefault(row["resource"], []).append(BrokerBar(str(row["broker"]), row["before"], row["after"]))
    order = ("disk", "bytes in", "bytes out", "processors", "replicas", "leaders", "leaders' bytes in")
    return tuple((name, tuple(by_resource[name])) for name in order if name in by_resource)


def _flows(moves: DataFrame) -> tuple[tuple[FlowArrow, ...], int]:
    source = F.coalesce(F.concat(F.lit("broker "), "source"), F.lit("one more replica"))
    pairs = moves.groupBy(source.alias("source"), F.concat(F.lit("broker "), "target").alias("target")).agg(
        F.sum("bytes").alias("bytes"), F.count("*").alias("copies")
    )
    rows = pairs.orderBy(F.desc("bytes"), "source", "target").limit(MOST_FLOWS).collect()
    found = tuple(FlowArrow(row["source"], row["target"], row["bytes"], row["copies"]) for row in rows)
    return found, max(0, pairs.count() - len(found)) if len(found) == MOST_FLOWS else 0


def _lanes(spark: SparkSession, lake: Lake, cluster: str, plan_id: str) -> tuple[tuple[Lane, ...], int]:
    """Executed moves with steps and stalls; the schedule alone if nothing was executed yet."""
    planned = lake.read(spark, SCHEDULE_MOVES).where(
        (F.col("cluster_id") == cluster) & (F.col("plan_id") == plan_id) & (F.col("scenario") == "as planned")
    )
    moves = lake.read(spark, ACCOUNT_MOVES).where((F.col("cluster_id") == cluster) & (F.col("plan_id") == plan_id))
    longest = moves.where(F.col("started_at").isNotNull()).orderBy(F.desc("seconds"), "topic", "partition")
    chosen = longest.limit(MOST_LANES).collect()
    if not chosen:
        return _planned_lanes(planned)
    start = min(row["accepted_at"] for row in chosen)
    spans: dict[tuple[str, int], list[PlotSpan]] = {(row["topic"], row["partition"]): [] for row in chosen}
    keys = F.broadcast(spark.createDataFrame(sorted(spans), "topic string, partition int"))
    drawn = planned.where(F.col("end").isNotNull()).join(keys, on=["topic", "partition"], how="left_semi")
    for row in drawn.collect():
        spans[row["topic"], row["partition"]].append(
            PlotSpan(row["start"], row["end"], "planned", f"planned: to broker {row['target']}")
        )
    longest_moves = longest.limit(MOST_LANES)
    for row in _within(lake.read(spark, ACCOUNT_STEPS), "begun_at", longest_moves).collect():
        if row["ended_at"] is not None:
            spans[row["topic"], row["partition"]].append(
                _span(start, row["begun_at"], row["ended_at"], "step", row["reason"] or "")
            )
    for row in _within(lake.read(spark, ACCOUNT_STALLS), "began_at", longest_moves).collect():
        kind = "wait" if row["cause"] in _IN_TURN else "stall"
        spans[row["topic"], row["partition"]].append(_span(start, row["began_at"], row["ended_at"], kind, row["cause"]))
    lanes = tuple(
        Lane(f"{topic}-{partition}", tuple(sorted(found, key=lambda span: (span.kind != "planned", span))))
        for (topic, partition), found in sorted(spans.items(), key=lambda item: _begins(item[1]))
    )
    return lanes, max(0, longest.count() - len(lanes)) if len(lanes) == MOST_LANES else 0


def _within(frame: DataFrame, begun: str, moves: DataFrame) -> DataFrame:
    """Rows of steps or stalls that belong to these moves: a partition may have been moved before, and again."""
    key = ["cluster_id", "journal", "topic", "partition"]
    bounds = moves.select(*key, "accepted_at", F.col("ended_at").alias("closed_at"))
    belongs = F.col(begun).between(F.col("accepted_at"), F.coalesce("closed_at", F.col(begun)))
    return frame.join(F.broadcast(bounds), on=key, how="inner").where(belongs)


def _begins(spans: Sequence[PlotSpan]) -> tuple[float, float]:
    steps = [span for span in spans if span.kind == "step"] or spans
    return min((span.start for span in steps), default=0.0), max((span.end for span in steps), default=0.0)


def _planned_lanes(planned: DataFrame) -> tuple[tuple[Lane, ...], int]:
    ended = planned.where(F.col("end").isNotNull())
    rows = ended.orderBy(F.desc(F.col("end") - F.col("start")), "topic", "partition").limit(MOST_LANES).collect()
    lanes = tuple(
        Lane(
            f"{row['topic']}-{row['partition']}",
            (
                PlotSpan(
                    row["start"],
                    row["end"],
                    "planned",
                    f"planned: {duration(row['end'] - row['start'])} to broker {row['target']}",
                ),
            ),
        )
        for row in rows
    )
    return lanes, max(0, ended.count() - len(lanes)) if len(lanes) == MOST_LANES else 0


def _span(start: datetime, began: datetime, ended: datetime, kind: str, words: str) -> PlotSpan:
    first, last = (began - start).total_seconds(), (ended - start).total_seconds()
    return PlotSpan(first, last, kind, f"{words or kind}: {duration(last - first)}")


def _estimates(account: Sequence[Row]) -> tuple[EstimateAndOutcome, ...]:
    return tuple(
        EstimateAndOutcome(
            row["plan_id"],
            row["planned_seconds_low"],
            row["planned_seconds"],
            row["planned_seconds_high"],
            row["seconds"],
        )
        for row in account
        if row["planned_seconds"] is not None
    )


def _scenarios(schedules: DataFrame) -> Listing:
    rows = tuple(
        (
            row["scenario"],
            "" if row["seconds"] is None else duration(row["seconds"]),
            "" if row["seconds"] is None else f"{duration(row['seconds_low'])} to {duration(row['seconds_high'])}",
            amount(row["rate"], "bytes/s"),
            row["rests_on"],
            row["warning"] or "",
        )
        for row in schedules.orderBy("scenario").collect()
    )
    return Listing(
        "Schedule, and what if", ("scenario", "duration", "interval", "rate per broker", "rests on", "warning"), rows
    )


def _stalls(stalls: DataFrame) -> Listing:
    by_cause = stalls.groupBy("cause").agg(F.count("*").alias("stretches"), F.sum("seconds").alias("seconds"))
    rows = tuple(
        (row["cause"], str(row["stretches"]), duration(row["seconds"]))
        for row in by_cause.orderBy(F.desc("seconds")).limit(MOST_ROWS).collect()
    )
    return Listing("Where moves stood still", ("cause", "stretches", "together"), rows)


def _undone(undone: DataFrame) -> Listing:
    rows = undone.orderBy("what", "why").limit(MOST_ROWS + 1).collect()
    shown = tuple((row["what"], row["why"]) for row in rows[:MOST_ROWS])
    return Listing("What the plan does not reach", ("what", "why not"), shown, max(0, len(rows) - MOST_ROWS))


def _moves(moves: DataFrame) -> Listing:
    ordered = moves.orderBy(F.desc("bytes"), "topic", "partition", "target").limit(MOST_ROWS).collect()
    rows = tuple(
        (
            f"{row['topic']}-{row['partition']}",
            "" if row["source"] is None else f"broker {row['source']}",
            f"broker {row['target']}",
            amount(row["bytes"], "bytes"),
            row["reason"],
        )
        for row in ordered
    )
    more = moves.count() - len(rows) if len(rows) == MOST_ROWS else 0
    return Listing("Moves, the largest first", ("partition", "from", "to", "size", "why"), rows, more)
