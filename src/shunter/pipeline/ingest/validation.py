"""Judges rows: rules on one row, then rules on a replica's rows in order of time.

A row keeps the first rule that it breaks; nothing is dropped. Rows come in the columns of `RAW`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

from shunter.pipeline.ingest.identity import id_of_name
from shunter.pipeline.ingest.sequence import DUPLICATE, KNOWN, judge_batches
from shunter.pipeline.ingest.spreading import numbers_of_tasks
from shunter.pipeline.lake.schemas import AMOUNTS, BROKER_SAMPLES, MEASURES, REJECTS, REPLICA_KEY, ROLES, SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

NO_NAME = "__HIVE_DEFAULT_PARTITION__"
RAW = (
    "cluster_id", "topic_id", "topic", "partition", "broker_id", "role", "window_start", "window_seconds",
    *MEASURES, "source", "file", "reader_rule", "reader_detail",
)  # fmt: skip
"""The columns that readers return: typed values, and the rule and detail of a value that can't be read (else null)."""
_TEXTS = ("cluster_id", "topic_id", "topic", "role", "source", "file", "reader_rule", "reader_detail")
_RAW_KINDS = {
    **dict.fromkeys(_TEXTS, "string"),
    **dict.fromkeys(("partition", "broker_id", "window_seconds"), "int"),
    "window_start": "timestamp",
    **dict.fromkeys(MEASURES, "bigint"),
}
UNSURE = "unsure"
"""Marks a window that begins before the window ahead of it has ended, until it is decided which of the two is kept. No
committed batch has this mark."""
_PLACE = ("series", "place")
"""How a task's rows are sorted. The hash comes first: it differs between replicas, so `place` is seldom compared."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of plausible values. No replica of a real cluster reaches them."""

    bytes_per_second: float = 100e9
    messages_per_second: float = 1e9
    size_bytes: int = 10**16
    window_seconds: int = 7 * 86_400
    earliest: datetime = datetime(2010, 1, 1, tzinfo=UTC)
    future_seconds: int = 300


_LEFT_TO_THE_BATCH = ("schema_version", "date", "ingest_id")


def as_raw(rows: DataFrame, given: Mapping[str, Column]) -> DataFrame:
    """Rows in the columns of `RAW`: those that are given; all others are null. Grain: as `rows`, none dropped."""
    columns = {name: F.lit(None).cast(_RAW_KINDS[name]) for name in RAW} | dict(given)
    return rows.select(*(columns[name].alias(name) for name in RAW))


def as_broker_rows(rows: DataFrame, given: Mapping[str, Column]) -> DataFrame:
    """Rows in the columns of `broker_samples` but for the batch's, and file, reader_rule, reader_detail (null).

    Grain: as `rows`, which have `file`; none dropped.
    """
    kinds = {field.name: field.dataType for field in BROKER_SAMPLES.schema if field.name not in _LEFT_TO_THE_BATCH}
    text = F.lit(None).cast("string")
    return rows.select(
        *(given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()),
        "file", text.alias("reader_rule"), text.alias("reader_detail"),
    )  # fmt: skip


def judge(rows: DataFrame, *, now: datetime, limits: Limits | None = None, cluster: str | None = None) -> DataFrame:
    """Judge each row by itself.

    Grain: one row per input row, none dropped; columns of `rejects` without ingest_id, `rule` null on good ones.

    Args:
        rows: Columns of `RAW`.
        now: With its zone; a window that ends later (by more than `limits.future_seconds`) is refused.
        cluster: Where given, rows of any other cluster are refused.
    """
    limits = limits or Limits()
    rules = _row_rules(now, limits, cluster)
    # The number of the broken rule is computed once; the words of the rule only for a row that breaks one.
    judged = rows.withColumn("broken", F.coalesce(*(F.when(hit, F.lit(at)) for at, (_, hit, _) in enumerate(rules))))
    rule, detail = first_broken([(name, F.col("broken") == at, words) for at, (name, _, words) in enumerate(rules)])
    is_broken = F.col("broken").isNotNull()
    return judged.select(
        # Null, an empty name and Hive's name for null are one folder, into which Spark would write one file three
        # times.
        F.when(~_nameless("cluster_id"), F.col("cluster_id")).alias("cluster_id"),
        F.coalesce("topic_id", id_of_name()).alias("topic_id"),
        "topic", "partition", "broker_id", "role", "window_start", "window_seconds", *MEASURES, "source", "file",
        F.lit(SCHEMA_VERSION).alias("schema_version"),
        F.to_date("window_start").alias("date"),
        F.coalesce("reader_rule", F.when(is_broken, rule)).alias("rule"),
        F.coalesce("reader_detail", F.when(is_broken, detail)).alias("detail"),
    )  # fmt: skip


def judge_sequence(
    rows: DataFrame,
    known: DataFrame | None = None,
    *,
    tasks: int,
    buckets: int = 1,
    tolerance_seconds: int = 1,
    one_by_one: bool = False,
) -> DataFrame:
    """Judge each replica's good rows against one another and against windows of earlier batches.

    Grain: as `judge`; rows of one cluster and bucket come out of one task (one output file each and day), a replica's together.
    Good rows lose `file`: the batch's commit has its files, and carrying a path through the shuffle for each row of
    a year costs more than all else.

    A window that comes twice is found here. A window that begins before the window ahead of it has ended is only marked
    (`UNSURE`), even a window of an earlier batch. If there is such a window, the batch has to be judged again with
    `one_by_one`: it goes through the windows in Python, because each decision depends on which windows were kept before
    (`sequence`).

    Args:
        known: REPLICA_KEY, window_start, window_seconds and ingest_id of windows that came with earlier batches.
        tasks: Into how many tasks the work is cut.
        buckets: Into how many files a cluster's day is cut; replicas are spread over them by hash.
        tolerance_seconds: An overlap of up to so many seconds does not count, because clocks jitter.
    """
    kept = [name for name in REJECTS.columns if name not in ("rule", "detail", "ingest_id", "file", "schema_version")]
    spread = _timed(_spread(rows, known, kept, tasks, buckets).repartition(tasks, "place"))
    order = ("window_start", *(("newcomer",) if known is not None else ()), "tie")
    if one_by_one:
        return _one_by_one(_unpacked(spread.sortWithinPartitions(*_PLACE, *order)), kept, tolerance_seconds)
    # Sorted by eight-byte numbers alone. A hash stands for a replica. Windows of two replicas with one hash may seem to
    # overlap; `one_by_one` then tells the replicas apart.
    in_time = Window.partitionBy(*_PLACE).orderBy(*order)
    ordered = _unpacked(_with_the_one_ahead(spread, in_time, has_known=known is not None))
    judged_good = F.col("row_rule").isNull()
    duplicate = F.coalesce(judged_good & (F.col("before") == F.col("start")), F.lit(False))
    # Only neighbours are compared. If no window overlaps the next one, and windows of the same start have the same
    # length, no window overlaps a later one either.
    into_next = ~duplicate & (F.col("start") + F.lit(tolerance_seconds) < F.col("ended"))
    unlike = duplicate & (F.col("window_seconds") != F.col("lasted"))
    overlap = F.coalesce(judged_good & (into_next | unlike), F.lit(False))
    came = duplicate & (F.col("earlier.start") == F.col("start"))
    where = F.concat_ws(
        " ", F.col("topic"), F.col("partition"), F.lit("on broker"), F.col("broker_id"), F.lit("at"), "window_start"
    )
    rule = F.when(overlap, F.lit(UNSURE)).when(came, F.lit(KNOWN)).when(duplicate, F.lit(DUPLICATE))
    return ordered.where((F.col("newcomer") == 1) | overlap).select(
        *kept,
        "file",
        F.lit(SCHEMA_VERSION).alias("schema_version"),
        rule.otherwise(F.col("row_rule")).alias("rule"),
        F.when(came, F.concat(F.lit("this window came with batch "), F.col("earlier.known_by")))
        .when(duplicate, F.concat(F.lit("the same window twice: "), where))
        .otherwise(F.col("row_detail"))
        .alias("detail"),
    )


def _with_the_one_ahead(rows: DataFrame, in_time: WindowSpec, *, has_known: bool) -> DataFrame:
    """Add to each row what the row ahead has: `before` (its start, if it is of the same replica), `ended`, `lasted`.

    `earlier` is the last window ahead that came with an earlier batch; null if there is none.
    """
    same = (F.lag("partition").over(in_time) == F.col("partition")) & (
        F.lag("broker_id").over(in_time) == F.col("broker_id")
    )
    none = F.lit(None).cast("struct<start: bigint, known_by: string>")
    known_window = F.when(F.col("newcomer") == 0, F.struct("start", "aside.known_by"))
    ahead = in_time.rowsBetween(Window.unboundedPreceding, -1)
    return rows.select(
        "*",
        F.when(same, F.lag("start").over(in_time)).alias("before"),
        F.lag(F.col("start") + F.col("window_seconds")).over(in_time).alias("ended"),
        F.lag("window_seconds").over(in_time).alias("lasted"),
        (none if not has_known else F.last(known_window, ignorenulls=True).over(ahead)).alias("earlier"),
    )


def _spread(rows: DataFrame, known: DataFrame | None, kept: list[str], tasks: int, buckets: int) -> DataFrame:
    """Join a batch's rows and windows of earlier batches into one frame for the shuffle, with few, narrow columns."""
    text = F.lit(None).cast("string")
    mine = rows.select(
        *kept, "file", F.col("rule").alias("row_rule"), F.col("detail").alias("row_detail"), text.alias("known_by")
    )
    if known is not None:
        theirs = known.withColumns({"known_by": F.col("ingest_id"), "row_rule": text})
        mine = mine.unionByName(theirs.drop("ingest_id"), allowMissingColumns=True)
    good = F.col("row_rule").isNull()
    replica = F.xxhash64(*REPLICA_KEY)
    # The id of a topic without one repeats the topic's name, so it need not go through the shuffle beside the name.
    own_id = F.nullif(F.col("topic_id"), id_of_name()).alias("topic_id")
    # Values that hardly any row has share one column.
    aside = F.struct(F.when(~good, F.col("file")).alias("file"), "row_rule", "row_detail", "known_by")
    return mine.select(
        *(own_id if name == "topic_id" else name for name in kept if name != "date"),
        F.when(~good | F.col("known_by").isNotNull(), aside).alias("aside"),
        F.xxhash64(replica, good).alias("series"),
        _place(rows.sparkSession, replica, tasks, buckets).alias("place"),
    )


def _place(spark: SparkSession, replica: Column, tasks: int, buckets: int) -> Column:
    """A number for each cluster and bucket. Rows of one number go to one task, a cluster's buckets to several tasks."""
    if buckets == 1:
        return F.xxhash64("cluster_id")
    first = F.pmod(F.xxhash64("cluster_id"), F.lit(tasks))
    task = F.pmod(first + F.pmod(replica, F.lit(buckets)), F.lit(tasks))
    numbers = F.lit(numbers_of_tasks(spark, tasks)).cast("array<bigint>")
    return F.get(numbers, task.cast("int"))


def _timed(spread: DataFrame) -> DataFrame:
    """Add the columns that order the rows. `newcomer` is 0 for windows of earlier batches."""
    return spread.select(
        "*",
        F.unix_seconds("window_start").alias("start"),
        F.when(F.col("aside.known_by").isNull(), F.lit(1)).otherwise(F.lit(0)).alias("newcomer"),
        # If there are two rows for one window, the same row must win whenever the batch is run again.
        F.xxhash64(*MEASURES, "window_seconds").alias("tie"),
    )


def _unpacked(rows: DataFrame) -> DataFrame:
    """Restore the columns that did not go through the shuffle and the sort."""
    return rows.withColumns(
        {
            "topic_id": F.coalesce("topic_id", id_of_name()),
            "date": F.to_date("window_start"),
            **{name: F.col(f"aside.{name}") for name in ("file", "row_rule", "row_detail", "known_by")},
        }
    )


def _one_by_one(ordered: DataFrame, kept: list[str], tolerance: int) -> DataFrame:
    given = ordered.select(
        *kept, "file", F.lit(SCHEMA_VERSION).alias("schema_version"), F.col("row_rule").alias("rule"),
        F.col("row_detail").alias("detail"), "series", "start", "known_by",
    )  # fmt: skip
    names = [*kept, "file", "schema_version", "rule", "detail"]
    wanted = given.select(*names).schema
    key = list(REPLICA_KEY)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judge_batches(batches, names, key, tolerance)

    # Which window is kept depends on which were kept before. No native function goes through rows in this way.
    return given.mapInArrow(work, wanted)


def refuse(rows: DataFrame, condition: Column, rule: str, detail: Column) -> DataFrame:
    """Put good rows that meet a condition aside under a rule; rows that already broke one keep theirs."""
    hit = F.col("rule").isNull() & F.coalesce(condition, F.lit(False))
    return rows.withColumns(
        {
            "rule": F.when(hit, F.lit(rule)).otherwise(F.col("rule")),
            "detail": F.when(hit, detail).otherwise(F.col("detail")),
        }
    )


def _row_rules(now: datetime, limits: Limits, cluster: str | None) -> list[tuple[str, Column, Column]]:
    rules = [*_key_rules(cluster), *time_rules(now, limits)]
    rules.extend(("negative", F.col(name) < 0, told(name, "is below 0")) for name in MEASURES)
    for name in AMOUNTS:
        limit = limits.messages_per_second if name == "messages_in" else limits.bytes_per_second
        too_fast = F.col(name) / F.col("window_seconds") > F.lit(limit)
        rules.append(("absurd_rate", too_fast, told(name, f"in one window is above {limit:g} a second: wrong unit?")))
    too_big = F.col("size_bytes") > F.lit(limits.size_bytes)
    rules.append(("absurd_size", too_big, told("size_bytes", f"is above {limits.size_bytes}: wrong unit?")))
    nothing = F.coalesce(*MEASURES).isNull()
    rules.append(("no_load", nothing, F.lit(f"none of {', '.join(MEASURES)} is given")))
    return rules


def _nameless(name: str) -> Column:
    """Whether a name is empty or Hive's name for null; null if the name is null."""
    return (F.trim(name) == "") | (F.col(name) == NO_NAME)


def _key_rules(cluster: str | None) -> list[tuple[str, Column, Column]]:
    rules = [
        ("missing_key", F.col(name).isNull(), F.lit(f"{name} is null"))
        for name in ("cluster_id", "topic", "partition", "broker_id", "role", "window_start", "window_seconds")
    ]
    rules.extend(
        ("missing_key", _nameless(name), F.concat(F.lit(f"{name} is '"), F.col(name), F.lit("', which is no name")))
        for name in ("cluster_id", "topic")
    )
    rules.append(("negative", F.col("partition") < 0, told("partition", "is below 0")))
    rules.append(("negative", F.col("broker_id") < 0, told("broker_id", "is below 0")))
    rules.append(("unknown_role", ~F.col("role").isin(*ROLES), told("role", f"is none of {', '.join(ROLES)}")))
    if cluster is not None:
        rules.append(("other_cluster", F.col("cluster_id") != F.lit(cluster), told_other_cluster(cluster)))
    return rules


def time_rules(now: datetime, limits: Limits) -> list[tuple[str, Column, Column]]:
    """Rules on `window_start` and `window_seconds`: (rule, whether it is broken, value and rule in words) each."""
    seconds = F.col("window_seconds")
    latest = F.lit(int(now.timestamp()) + limits.future_seconds)
    return [
        ("absurd_window", (seconds <= 0) | (seconds > limits.window_seconds), told("window_seconds", f"is not within 1 to {limits.window_seconds}")),
        ("absurd_time", F.col("window_start") < F.lit(limits.earliest), told("window_start", f"is before {limits.earliest:%Y}: wrong unit?")),
        ("absurd_time", F.unix_seconds("window_start") + seconds > latest, told("window_start", "ends in the future: wrong unit or clock?")),
    ]  # fmt: skip


def told(name: str, rule: str) -> Column:
    """A column's name, its value and the rule, in words."""
    return F.concat(F.lit(f"{name} "), F.col(name).cast("string"), F.lit(f" {rule}"))


def told_other_cluster(cluster: str) -> Column:
    """Why a row of another cluster is put aside, and what to do."""
    is_label = (
        "; if the label that says so does not name Kafka's cluster, say which label does (--cluster-label LABEL; "
        "a label that no series has leaves it to --cluster), or by which value it does (--cluster-label LABEL=VALUE)"
    )
    words = told("cluster_id", f"is not {cluster}, which was asked for")
    return F.concat(words, F.when(F.col("source") == "prometheus", is_label).otherwise(""))


def first_broken(rules: list[tuple[str, Column, Column]]) -> tuple[Column, Column]:
    """The first rule that a row breaks, and what is wrong; both null where it breaks none."""
    rule = F.lit(None).cast("string")
    detail = F.lit(None).cast("string")
    for name, broken, words in reversed(rules):
        rule = F.when(broken, F.lit(name)).otherwise(rule)
        detail = F.when(broken, words).otherwise(detail)
    return rule, detail
