"""Accounts of past moves: from journals to moves, steps, stalls, rates between brokers, and plans compared with reality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

from shunter.model.execution import Outcome
from shunter.pipeline.lake.account_schemas import (
    ACCOUNT_MOVES,
    ACCOUNT_PLANS,
    ACCOUNT_RATES,
    ACCOUNT_STALLS,
    ACCOUNT_STEPS,
    JOURNAL,
    PLAN_LOADS,
    SCHEDULES,
)
from shunter.pipeline.lake.tables import Lake

_LINE = """
    cluster_id string, journal string, sequence bigint, at bigint, cause string, kind string, plan_id string, tp string,
    number int, before array<int>, after array<int>, original array<int>, target array<int>, size_bytes bigint,
    copied_bytes bigint, broker int, bytes_per_s bigint, limited boolean, paused boolean, outcome string, reason string,
    topic_id string
"""
_SHORTEST_STALL = 1.0
"""Seconds. The bookkeeping between two steps takes a moment, which is not a stall."""
_SAME_MOVE = ("cluster_id", "journal", "accepted_sequence")
_SUPERSEDED_BECAUSE = "the partition's move was accepted anew"


class Accounted(NamedTuple):
    """The sums of an account."""

    entries: int
    moves: int
    done: int
    stalled_seconds: float


def account_lake(spark: SparkSession, lake: Lake, journals: Sequence[str]) -> Accounted:
    """Take journals (JSON lines) into the account's tables; a journal that is given again replaces its former rows."""
    if journals:
        lake.write(read_journals(spark, journals), JOURNAL)
    journal = lake.read(spark, JOURNAL)
    steps, moves = account_steps(journal), account_moves(journal)
    lake.write(steps, ACCOUNT_STEPS)
    lake.write(moves, ACCOUNT_MOVES)
    lake.write(account_stalls(journal), ACCOUNT_STALLS)
    lake.write(account_rates(lake.read(spark, ACCOUNT_STEPS)), ACCOUNT_RATES)
    written = lake.read(spark, ACCOUNT_MOVES)
    lake.write(account_plans(written, lake.read(spark, SCHEDULES), lake.read(spark, PLAN_LOADS)), ACCOUNT_PLANS)
    sums = written.agg(
        F.count("*").alias("moves"),
        F.count_if(F.col("outcome") == "done").alias("done"),
        F.coalesce(F.sum("stalled_seconds"), F.lit(0.0)).alias("stalled"),
    ).first()
    assert sums is not None, "an aggregate without groups has one row"
    return Accounted(journal.count(), sums["moves"], sums["done"], sums["stalled"])


def read_journals(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read journals as JSON lines: an entry's own fields, and cluster_id, journal, sequence.

    Grain: one row per entry; columns of `journal`. Entries before the first plan have no plan_id.
    """
    lines = spark.read.schema(_LINE).json(list(paths))
    so_far = Window.partitionBy("cluster_id", "journal").orderBy("sequence")
    columns = {
        "at": F.timestamp_millis("at"),
        "plan_id": F.last("plan_id", ignorenulls=True).over(so_far),
        "topic": F.nullif(F.regexp_extract("tp", r"^(.+)-(\d+)$", 1), F.lit("")),
        "partition": F.regexp_extract("tp", r"^(.+)-(\d+)$", 2).try_cast("int"),
        "bytes": F.coalesce("copied_bytes", "size_bytes"),
        "rate": F.col("bytes_per_s"),
    }
    return lines.select(*(columns.get(name, F.col(name)).alias(name) for name in JOURNAL.columns))


def account_steps(journal: DataFrame) -> DataFrame:
    """Grain: one row per step that was begun; columns of `account_steps`.

    A step is dropped if the next step or the move's end comes before its own end (as in `views.move_story`). `source` is
    the preferred leader, because the journal does not say which replica really led.
    """
    kinds = ("step-begun", "step-finished", "step-dropped", "move-closed")
    of_steps = journal.where(F.col("kind").isin(*kinds))
    ahead = {name: F.lead(name).over(_same_partition()) for name in ("kind", "number", "at", "bytes", "reason")}
    paired = of_steps.withColumns({f"next_{name}": ahead_of for name, ahead_of in ahead.items()})
    next_kind = F.col("next_kind")
    own = F.col("next_number") == F.col("number")
    why_dropped = (
        F.when(next_kind == "step-begun", F.lit("another step took its place"))
        .when(next_kind == "move-closed", F.lit("the move was ended"))
        .when(own & (next_kind == "step-dropped"), F.coalesce("next_reason", F.lit("")))
    )
    finished = F.when(why_dropped.isNotNull(), F.lit(False)).when(own & (next_kind == "step-finished"), F.lit(True))
    copied = F.when(finished & (F.col("next_bytes") > 0), F.col("next_bytes"))
    return paired.where(F.col("kind") == "step-begun").select(
        "cluster_id", "journal", F.col("sequence").alias("begun_sequence"), "topic", "partition", "number",
        F.get("before", F.lit(0)).alias("source"),
        F.array_except("after", "before").alias("added"),
        F.array_except("before", "after").alias("removed"),
        F.col("at").alias("begun_at"),
        F.when(finished.isNotNull(), F.col("next_at")).alias("ended_at"),
        finished.alias("finished"),
        F.when(finished.isNotNull(), _between("at", "next_at")).alias("seconds"),
        copied.alias("copied_bytes"),
        F.coalesce(why_dropped, "reason").alias("reason"),
    ).select(*ACCOUNT_STEPS.columns)  # fmt: skip


def account_stalls(journal: DataFrame) -> DataFrame:
    """Grain: one row per stretch of a second or more in which a move stood still; columns of `account_stalls`."""
    stretches = _standstills(_with_moves(journal))
    return stretches.withColumnsRenamed({"at": "began_at", "until": "ended_at"}).select(*ACCOUNT_STALLS.columns)


def account_moves(journal: DataFrame) -> DataFrame:
    """Grain: one row per move; columns of `account_moves`. A move that still runs has no end and no outcome.

    A move that another submission took over before its end has no closing entry. It ends as superseded at that moment,
    and the bytes that it copied are counted for it alone.
    """
    entries = _with_moves(journal)
    whole = entries.groupBy(*_SAME_MOVE).agg(
        F.max("plan_id").alias("plan_id"),
        F.max("topic").alias("topic"),
        F.max("partition").alias("partition"),
        _of("move-accepted", "original"),
        _of("move-accepted", "target"),
        _of("move-accepted", "at").alias("accepted_at"),
        F.min(F.when(F.col("kind") == "step-begun", F.col("at"))).alias("started_at"),
        _of("move-closed", "at").alias("ended_at"),
        _of("move-closed", "outcome"),
        _of("move-closed", "reason"),
        F.count_if(F.col("kind") == "step-finished").alias("steps"),
        _of("move-accepted", "bytes").alias("size"),
        F.sum(F.when(F.col("kind") == "step-finished", F.col("bytes"))).alias("copied"),
        _of("move-closed", "bytes").alias("closed_bytes"),
        F.max("superseded_at").alias("superseded_at"),
    )
    superseded = F.col("superseded_at").isNotNull()
    whole = whole.withColumns(
        {
            "ended_at": F.coalesce("ended_at", "superseded_at"),
            "outcome": F.when(superseded, F.lit(Outcome.SUPERSEDED.value)).otherwise(F.col("outcome")),
            "reason": F.when(superseded, F.lit(_SUPERSEDED_BECAUSE)).otherwise(F.col("reason")),
        }
    )
    with_stalls = whole.join(_stalled(entries), on=list(_SAME_MOVE), how="left")
    in_order = Window.partitionBy("cluster_id", "journal", "topic", "partition").orderBy("accepted_sequence")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, -1)
    # The closing entry counts from the first of the moves that took one another over: its steps were under way.
    chained = with_stalls.withColumns(
        {
            "seen": F.coalesce(F.sum("copied").over(so_far), F.lit(0)),
            "ended_before": F.coalesce(F.lag(~superseded).over(in_order), F.lit(True)),
        }
    )
    of_chain = F.last(F.when(F.col("ended_before"), F.col("seen")), ignorenulls=True).over(in_order)
    own = F.coalesce("closed_bytes", F.lit(0)) - (F.col("seen") - of_chain)
    copied = F.greatest(own, F.coalesce("copied", F.lit(0)))
    return chained.select(
        *_SAME_MOVE, "plan_id", "topic", "partition", "original", "target", "accepted_at", "started_at", "ended_at",
        "outcome", "reason", "steps",
        (F.coalesce("size", F.lit(0)) * F.size(F.array_except("target", "original"))).alias("planned_bytes"),
        F.when(copied > 0, copied).alias("copied_bytes"),
        _between("started_at", "ended_at").alias("seconds"),
        F.coalesce("stalled", F.lit(0.0)).alias("stalled_seconds"),
    ).select(*ACCOUNT_MOVES.columns)  # fmt: skip


def account_rates(steps: DataFrame) -> DataFrame:
    """Rates between brokers. Grain: one row per pair and hour; columns of `account_rates`.

    A step that adds several replicas copies to each of them; its bytes are split evenly.
    """
    copied = steps.where(
        F.col("finished") & (F.col("copied_bytes") > 0) & (F.col("seconds") > 0) & (F.size("added") > 0)
    )
    each = copied.select(
        "cluster_id", "source", F.explode("added").alias("target"), F.date_trunc("hour", "begun_at").alias("hour"),
        (F.col("copied_bytes") / F.size("added")).cast("bigint").alias("bytes"), "seconds",
    )  # fmt: skip
    rate = F.col("bytes") / F.col("seconds")
    return each.groupBy("cluster_id", "source", "target", "hour").agg(
        F.count("*").alias("steps"),
        F.sum("bytes").alias("bytes"),
        F.sum("seconds").alias("seconds"),
        *(F.percentile(rate, F.lit(share)).alias(f"rate_p{round(share * 100)}") for share in (0.1, 0.5, 0.9)),
    ).select(*ACCOUNT_RATES.columns)  # fmt: skip


def account_plans(moves: DataFrame, schedules: DataFrame, loads: DataFrame) -> DataFrame:
    """Plans compared with what was executed. Grain: one row per executed plan and journal; columns of `account_plans`.

    Args:
        moves: Columns of `account_moves`.
        schedules: Columns of `schedules`; only the scenario `as planned` counts.
        loads: Columns of `plan_loads`, for the imbalance that the plan removed.
    """
    executed = moves.where(F.col("plan_id").isNotNull()).groupBy("cluster_id", "journal", "plan_id").agg(
        F.min("accepted_at").alias("began_at"),
        F.when(F.count_if(F.col("ended_at").isNull()) == 0, F.max("ended_at")).alias("ended_at"),
        F.count("*").alias("moves"),
        F.count_if(F.col("outcome") == "done").alias("done"),
        F.sum("planned_bytes").alias("planned_bytes"),
        F.sum("copied_bytes").alias("copied_bytes"),
    )  # fmt: skip
    planned = schedules.where(F.col("scenario") == "as planned").select(
        "cluster_id", "plan_id", F.col("seconds").alias("planned_seconds"), F.col("seconds_low").alias("planned_seconds_low"),
        F.col("seconds_high").alias("planned_seconds_high"),
    )  # fmt: skip
    keys = ["cluster_id", "plan_id"]
    joined = executed.join(planned, on=keys, how="left").join(imbalance_removed(loads), on=keys, how="left")
    seconds = _between("began_at", "ended_at")
    removed = F.col("imbalance_removed")
    return joined.withColumn("seconds", seconds).withColumns(
        {
            "eta_error": F.when(F.col("seconds") > 0, (F.col("planned_seconds") - F.col("seconds")) / F.col("seconds")),
            "bytes_per_imbalance": F.when(removed > 0, F.col("copied_bytes") / removed),
        }
    ).select(*ACCOUNT_PLANS.columns)  # fmt: skip


def imbalance_removed(loads: DataFrame) -> DataFrame:
    """Bytes of disk that a plan takes off brokers above the mean. Grain: one row per plan and cluster."""
    plan = Window.partitionBy("cluster_id", "plan_id")
    mean = F.avg("before").over(plan)
    above = {f"{name}_above": F.greatest(F.lit(0.0), F.col(name) - mean) for name in ("before", "after")}
    disks = loads.where(F.col("resource") == "disk").withColumns(above)
    return disks.groupBy("cluster_id", "plan_id").agg(
        (F.sum("before_above") - F.sum("after_above")).alias("imbalance_removed")
    )


def _same_partition() -> WindowSpec:
    return Window.partitionBy("cluster_id", "journal", "topic", "partition").orderBy("sequence")


def _with_moves(journal: DataFrame) -> DataFrame:
    """Add to each entry of a partition its move: `accepted_sequence`, and `superseded_at` of a move that was taken over.

    Entries before the first acceptance are dropped.
    """
    kinds = (
        "move-accepted",
        "step-begun",
        "step-accepted",
        "step-finished",
        "step-dropped",
        "election-begun",
        "move-paused",
        "direction-changed",
        "move-closed",
    )
    accepted = F.when(F.col("kind") == "move-accepted", F.col("sequence"))
    entries = journal.where(F.col("kind").isin(*kinds) & F.col("topic").isNotNull())
    with_move = entries.withColumn("accepted_sequence", F.last(accepted, ignorenulls=True).over(_same_partition()))
    with_move = with_move.where(F.col("accepted_sequence").isNotNull())
    ahead = _same_partition().rowsBetween(1, Window.unboundedFollowing)
    anew = F.first(F.when(F.col("kind") == "move-accepted", F.col("at")), ignorenulls=True).over(ahead)
    closed = F.max(F.col("kind") == "move-closed").over(Window.partitionBy(*_SAME_MOVE))
    return with_move.withColumn("superseded_at", F.when(~closed, anew))


def _standstills(entries: DataFrame) -> DataFrame:
    """Stretches of a second or more in which a move stood still, by the entries of `_with_moves`.

    Grain: one row per stretch and cause, with the entry that began it; `until`, `seconds`, `cause`, and `started_at` of
    the move. A stretch that lasts still is left out.
    """
    kind = F.col("kind")
    of_move = Window.partitionBy(*_SAME_MOVE)
    in_order = of_move.orderBy("sequence")
    # A stop or a rollback ends a pause without an entry of its own.
    told = F.when(kind == "direction-changed", F.lit(False)).otherwise(F.col("paused"))
    paused = F.coalesce(F.last(told, ignorenulls=True).over(in_order), F.lit(False))
    # Another plan may accept the move anew while a step is under way: the step goes on.
    ends_step = kind.isin("step-finished", "step-dropped", "move-closed")
    begun_or_ended = F.when(kind == "step-begun", F.lit(True)).when(ends_step, F.lit(False))
    steps = F.coalesce(F.last(begun_or_ended, ignorenulls=True).over(_same_partition()), F.lit(False))
    waits = (
        F.when(kind == "move-accepted", F.lit("waiting for its turn"))
        .when(kind == "step-finished", F.lit("between steps"))
        .when(kind == "election-begun", F.lit("election of its leader"))
        .when(kind == "step-dropped", F.concat(F.lit("step dropped: "), F.coalesce("reason", F.lit(""))))
    )
    cause = (
        F.when(kind == "move-closed", F.lit(None).cast("string"))
        .when(paused, F.lit("paused"))
        .when(~steps, F.last(waits, ignorenulls=True).over(in_order))
    )
    started = F.min(F.when(kind == "step-begun", F.col("at"))).over(of_move)
    with_causes = entries.withColumns({"cause": cause, "started_at": started})
    with_causes = with_causes.withColumn("cause_before", F.lag("cause").over(in_order))
    turns = with_causes.where(~F.col("cause").eqNullSafe(F.col("cause_before")))
    until = F.coalesce(F.lead("at").over(in_order), "superseded_at")
    stretches = turns.withColumn("until", until).withColumn("seconds", _between("at", "until"))
    return stretches.where(F.col("cause").isNotNull() & (F.col("seconds") >= _SHORTEST_STALL))


def _stalled(entries: DataFrame) -> DataFrame:
    """Seconds in which a move stood still, from its first step on. Grain: one row per move that did."""
    since = F.greatest("at", "started_at")
    counted = _standstills(entries).withColumn("since", since).where(F.col("until") > F.col("since"))
    counted = counted.where(F.col("started_at").isNotNull())
    return counted.groupBy(*_SAME_MOVE).agg(F.sum(_between("since", "until")).alias("stalled"))


def _of(kind: str, name: str) -> Column:
    return F.max_by(name, F.when(F.col("kind") == kind, F.col("sequence"))).alias(name)


def _between(first: str, last: str) -> Column:
    return (F.unix_millis(last) - F.unix_millis(first)) / 1000
