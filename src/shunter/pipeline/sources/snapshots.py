"""Snapshots of clusters (`shunter pipeline collect`), and the samples derived from two of them.

They give rates without JMX. Between two snapshots a leader's end offset grows by the messages that came, and its log
grows by their bytes. If retention deleted some bytes meanwhile, bytes are messages × the mean bytes of a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, cast

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from shunter.core.wording import counted
from shunter.formats.inventory_files import VERSION
from shunter.pipeline.ingest.identity import id_of_name
from shunter.pipeline.ingest.validation import NO_NAME, Limits, as_raw
from shunter.pipeline.lake.schemas import BROKERS, FOLLOWER, LEADER, REPLICAS, SNAPSHOTS
from shunter.pipeline.sources.tables import no_object

_LINE = """
    kind string, version int, cluster_id string, taken_at_ms bigint,
    brokers array<struct<id: int, host: string, rack: string, disk_total_bytes: bigint, disk_usable_bytes: bigint, facts: string>>,
    offline array<int>, topic string, topic_id string, partition int, replicas array<int>, isr array<int>, leader int, start_offset bigint,
    end_offset bigint, min_insync int, sizes array<struct<broker: int, bytes: bigint>>, partitions bigint,
    cleanup_policy string, _corrupt_record string
"""
_COMPARED = ("taken_at", "size_bytes", "start_offset", "end_offset", "cleanup_policy")
_CORRUPT, _NAMED = "_corrupt_record", "columnNameOfCorruptRecord"
_WORDS = {"int": "a whole number of 32 bits", "bigint": "a whole number", "string": "text"}


class SeenSnapshot(NamedTuple):
    """One snapshot in one file. `told` is how many partitions its first line promises; None in older files."""

    cluster_id: str
    taken_at_ms: int
    file: str
    heads: int
    told: int | None
    partitions: int
    unreadable: int = 0
    """Lines of its file that can't be read."""
    refused: int = 0
    """Lines of its file that can't be used: they can't be read, or they break a rule."""

    @property
    def flaw(self) -> str | None:
        """Why the snapshot can't stand for its cluster; None if it can. A part of a cluster looks like a whole one."""
        if self.heads == 0:
            return "the snapshot has no line of kind cluster: it was cut off"
        if self.told is not None and self.told != self.partitions:
            were = "was" if self.refused == 1 else "were"
            why = f"{counted(self.refused, 'line')} of its file {were} refused" if self.refused else "it was cut off"
            return f"the snapshot holds {self.partitions} of its {self.told} partitions: {why}"
        if self.told is None and self.unreadable:
            return (
                f"{self.unreadable} lines of its file can't be read, and its first line does not say how many there are"
            )
        return None


def read_snapshots(spark: SparkSession, paths: Sequence[str], *, now: datetime) -> DataFrame:
    """Read snapshot files.

    Grain: one row per line, with `file`; `flaw` says what makes a line unusable, else null. A snapshot from the future
    is unusable, because it would stay the newest one.
    """
    latest = int(now.timestamp() * 1000) + Limits().future_seconds * 1000
    is_time = F.col("taken_at_ms").between(int(Limits().earliest.timestamp() * 1000), latest)
    no_time = F.concat(
        F.lit("taken_at_ms is "), "taken_at_ms", F.lit(f": not within {Limits().earliest:%Y} and now, in UTC")
    )
    lines = spark.read.schema(_LINE).json(list(paths)).withColumn("file", F.col("_metadata.file_path"))
    nameless = F.col("cluster_id").isNull() | (F.trim("cluster_id") == "") | (F.col("cluster_id") == NO_NAME)
    key = nameless | F.col("taken_at_ms").isNull()
    part = (F.col("kind") == "partition") & (
        F.coalesce("topic", F.col("partition").cast("string")).isNull() | F.col("replicas").isNull()
    )
    flaw = (
        F.when(F.col("_corrupt_record").isNotNull(), _misread(F.col("_corrupt_record")))
        .when(F.coalesce(F.col("version"), F.lit(0)) != VERSION, F.concat(F.lit("version is not "), F.lit(VERSION)))
        .when(~is_time, no_time)
        .when(key | part, F.lit("cluster_id, taken_at_ms, topic, partition or replicas is missing"))
    )
    return lines.withColumns({"flaw": flaw, "taken_at": F.when(is_time, F.timestamp_millis("taken_at_ms"))})


def _misread(line: Column) -> Column:
    """Why a line does not fit `_LINE`: its first field of a wrong type, with the value; else it is not an object."""
    document = F.try_parse_json(line)
    wrong: list[Column] = []
    for field in cast("StructType", StructType.fromDDL(_LINE)).fields[:-1]:
        found = F.to_json(F.try_variant_get(document, f"$.{field.name}", "variant"))
        # A list with one entry that does not fit is read in part, but Spark still marks the line as corrupt.
        read = F.from_json(line, f"{field.name} {field.dataType.simpleString()}, {_CORRUPT} string", {_NAMED: _CORRUPT})
        told = F.concat(
            F.lit(f"{field.name} is "), F.substring(found, 1, 80), F.lit(f", expected {_in_words(field.dataType)}")
        )
        wrong.append(F.when(found.isNotNull() & read[_CORRUPT].isNotNull(), told))
    return F.coalesce(*wrong, no_object(line))


def _in_words(kind: DataType) -> str:
    if not isinstance(kind, ArrayType):
        return _WORDS.get(kind.simpleString(), kind.simpleString())
    each = kind.elementType
    return f"a list of {{{', '.join(each.names)}}}" if isinstance(each, StructType) else "a list of whole numbers"


def snapshots_of(lines: DataFrame) -> list[SeenSnapshot]:
    """Every snapshot that a batch holds, by cluster, time and file; a small result."""
    usable = lines.where(F.col("flaw").isNull()).groupBy("cluster_id", "taken_at_ms", "file")
    is_head = F.col("kind") == "cluster"
    by_snapshot = usable.agg(
        F.count_if(is_head).alias("heads"),
        F.max(F.when(is_head, F.col("partitions"))).alias("told"),
        F.count_distinct(F.when(~is_head, F.struct("topic", "partition"))).alias("found"),
    )
    broken = lines.where(F.col("flaw").isNotNull()).groupBy("file").agg(
        F.count(_CORRUPT).alias("unreadable"), F.count("*").alias("refused")
    )  # fmt: skip
    ordered = by_snapshot.join(F.broadcast(broken), on="file", how="left").select(
        "cluster_id", "taken_at_ms", "file", "heads", "told", "found",
        F.coalesce("unreadable", F.lit(0)), F.coalesce("refused", F.lit(0)),
    )  # fmt: skip
    return sorted((SeenSnapshot(*row) for row in ordered.collect()), key=lambda one: one[:3])


def snapshot_brokers(lines: DataFrame) -> DataFrame:
    """The brokers of each snapshot. Grain: one row per broker and snapshot, however often a line of it is repeated.

    Columns of `brokers` without ingest_id.
    """
    each = lines.where(F.col("flaw").isNull() & (F.col("kind") == "cluster")).select(
        "cluster_id", "taken_at", F.explode("brokers").alias("broker")
    )
    return each.select(
        "cluster_id", "taken_at", F.col("broker.id").alias("broker_id"), "broker.rack", "broker.host",
        "broker.disk_total_bytes", "broker.disk_usable_bytes", "broker.facts", F.to_date("taken_at").alias("date"),
    ).select(*(name for name in BROKERS.columns if name != "ingest_id")).dropDuplicates(list(BROKERS.key))  # fmt: skip


def snapshot_replicas(lines: DataFrame) -> DataFrame:
    """The replicas of each snapshot. Grain: one row per replica and snapshot, however often a line of it is repeated.

    Columns of `replicas` without ingest_id.
    A topic without an id gets `name:` and its name. If a broker did not report its log dirs, size_bytes is null.
    """
    each = lines.where(F.col("flaw").isNull() & (F.col("kind") == "partition")).select(
        "*", F.posexplode("replicas").alias("position", "broker_id")
    )
    sizes = F.map_from_entries(F.coalesce("sizes", F.array()))
    return each.select(
        "cluster_id", "taken_at",
        F.coalesce("topic_id", id_of_name()).alias("topic_id"),
        "topic", "partition", "broker_id", "position",
        (F.col("leader") == F.col("broker_id")).alias("is_leader"),
        F.array_contains("isr", F.col("broker_id")).alias("in_sync"),
        F.array_contains("offline", F.col("broker_id")).alias("offline"),
        sizes[F.col("broker_id")].alias("size_bytes"),
        "start_offset", "end_offset", "min_insync", "cleanup_policy", F.to_date("taken_at").alias("date"),
    ).select(*(name for name in REPLICAS.columns if name != "ingest_id")).dropDuplicates(list(REPLICAS.key))  # fmt: skip


def broken_lines(lines: DataFrame) -> DataFrame:
    """Lines that can't be used. Grain: one row per such line, in the columns of `validation.RAW`."""
    broken = lines.where(F.col("flaw").isNotNull())
    kept = {name: F.col(name) for name in ("cluster_id", "topic", "partition", "file")}
    given = {**kept, "source": F.lit(SNAPSHOTS), "reader_rule": F.lit("not_readable"), "reader_detail": F.col("flaw")}
    return as_raw(broken, given)


def put_aside(spark: SparkSession, refused: Sequence[tuple[SeenSnapshot, str, str]]) -> DataFrame:
    """A row for each snapshot that is not taken: (snapshot, rule, why). Columns of `validation.RAW`."""
    rows = [(one.cluster_id, one.taken_at_ms, one.file, rule, why) for one, rule, why in refused]
    given = spark.createDataFrame(rows, "cluster_id string, at bigint, file string, rule string, why string")
    return as_raw(
        given,
        {
            "source": F.lit(SNAPSHOTS),
            "cluster_id": F.col("cluster_id"),
            "window_start": F.timestamp_millis("at"),
            "file": F.col("file"),
            "reader_rule": F.col("rule"),
            "reader_detail": F.col("why"),
        },
    )


def snapshot_samples(replicas: DataFrame) -> DataFrame:
    """The samples of each replica between two snapshots that follow one another.

    Grain: one row per replica and pair of snapshots in which it has one topic id and one role's log to compare; columns
    of `validation.RAW`. An end offset that fell (an unclean election, a broker restored) gives a size and no amounts.
    A pair gives no row if it lies between two snapshots of earlier batches: that time was counted then.

    Args:
        replicas: Columns of `replicas`; `file` where there is one; `known` where some snapshots came with an earlier batch.
            Snapshots of one cluster may come in any order.
    """
    paired = _pairs(replicas)
    messages = _messages()
    columns = {
        "cluster_id": F.col("cluster_id"), "topic_id": F.col("topic_id"), "topic": F.col("topic"),
        "partition": F.col("partition"), "broker_id": F.col("broker_id"),
        "role": F.when(F.col("is_leader"), F.lit(LEADER)).otherwise(F.lit(FOLLOWER)),
        "window_start": F.col("taken_at_before"),
        "window_seconds": F.greatest(F.lit(1), F.round(F.unix_millis("taken_at") / 1000 - F.unix_millis("taken_at_before") / 1000).cast("int")),
        "bytes_in": _bytes_in(messages),
        "messages_in": F.when(messages >= 0, messages),
        "size_bytes": F.col("size_bytes"),
        "source": F.lit(SNAPSHOTS),
        "file": F.col("file") if "file" in replicas.columns else F.lit(None).cast("string"),
    }  # fmt: skip
    return as_raw(paired, columns)


def logs_left_out(replicas: DataFrame) -> DataFrame:
    """What is said of logs that got messages whose bytes their growth does not tell.

    Grain: one row per cluster and reason with such logs; columns of `validation.RAW`, with a reader_rule.

    Args:
        replicas: As for `snapshot_samples`.
    """
    rule = F.when(~_is_known(), F.lit("unknown_policy")).when(_is_compacted(), F.lit("compacted"))
    left_out = _pairs(replicas).where(_messages() > 0).withColumn("rule", rule).where(F.col("rule").isNotNull())
    by_rule = left_out.groupBy("cluster_id", "rule").agg(
        F.count_distinct("topic").alias("topics"), F.min("topic").alias("topic"), F.max("taken_at_before").alias("at")
    )
    words = F.when(
        F.col("rule") == "compacted", "compacted logs keep less than what is written, so their growth tells no bytes in"
    ).otherwise("the snapshot has no cleanup.policy, so it is not known whether the log's growth tells its bytes in")
    given = {
        "cluster_id": F.col("cluster_id"), "window_start": F.col("at"), "source": F.lit(SNAPSHOTS), "reader_rule": F.col("rule"),
        "reader_detail": F.concat(F.lit("topics: "), "topics", F.lit(", such as "), "topic", F.lit(": "), words),
    }  # fmt: skip
    return as_raw(by_rule, given)


def _pairs(replicas: DataFrame) -> DataFrame:
    """Each replica in a snapshot, with what the snapshot before showed of it (`…_before`)."""
    replica = ("cluster_id", "topic_id", "partition", "broker_id")
    each, whole = Window.partitionBy(*replica).orderBy("taken_at"), Window.partitionBy(*replica)
    before = {name: F.lag(name).over(each) for name in _COMPARED}
    paired = replicas.withColumns({f"{name}_before": column for name, column in before.items()})
    counted = F.lit(False)
    if "known" in replicas.columns:
        known_at = F.when(F.col("known"), F.col("taken_at"))
        paired = paired.withColumns(
            {"known_from": F.min(known_at).over(whole), "known_until": F.max(known_at).over(whole)}
        )
        counted = (F.col("known_from") <= F.col("taken_at_before")) & (F.col("known_until") >= F.col("taken_at"))
    return paired.where(F.col("taken_at_before").isNotNull() & ~F.coalesce(counted, F.lit(False)))


def _messages() -> Column:
    return F.col("end_offset") - F.col("end_offset_before")


def _is_known() -> Column:
    return F.col("cleanup_policy").isNotNull() & F.col("cleanup_policy_before").isNotNull()


def _is_compacted() -> Column:
    return F.col("cleanup_policy").contains("compact") | F.col("cleanup_policy_before").contains("compact")


def _bytes_in(messages: Column) -> Column:
    grown = F.col("size_bytes") - F.col("size_bytes_before")
    nothing_taken = F.col("start_offset") == F.col("start_offset_before")
    kept = F.col("end_offset") - F.col("start_offset")
    # Half a billion messages of a log of a terabyte: their product is more than 64 bits hold.
    by_mean = F.round(messages.cast("double") * F.col("size_bytes") / F.when(kept > 0, kept)).try_cast("bigint")
    return (
        F.when(messages == 0, F.lit(0).cast("bigint"))
        # Growth without what compaction removed is no traffic. If the policy is not known, nor are the bytes.
        .when(~_is_known() | _is_compacted(), F.lit(None).cast("bigint"))
        .when((messages > 0) & nothing_taken & (grown >= 0), grown)
        .when(messages > 0, by_mean)
    )
