"""The output of `kafka-log-dirs --describe`: sizes of replicas, no rates.

The tool prints two lines of prose and one line of JSON:
`{"version":1,"brokers":[{"broker":1,"logDirs":[{"logDir":"…","error":null,"partitions":[{"partition":"t-0","size":…}]}]}]}`.
People save it as it is, without the prose, or pretty-printed. Several outputs may be in one file, each from a line's begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.pipeline.ingest.broken_files import FILE_RULE
from shunter.pipeline.ingest.validation import as_raw
from shunter.pipeline.lake.schemas import UNKNOWN_ROLE

_LINE = (
    "version int, brokers array<struct<broker: int, logDirs: array<struct<logDir: string, error: string, "
    "partitions: array<struct<`partition`: string, size: bigint, offsetLag: bigint, isFuture: boolean>>>>>>"
)
_BEGINS = r'(?m)^(?=\{|[ \t]+\{"version")'
"""Where one output begins: braces within it are indented, or on its line."""
_INSTANT_SECONDS = 60
"""A size is seen at an instant; it stands for the minute that begins with it."""


def read_log_dirs(spark: SparkSession, paths: Sequence[str], *, cluster: str, at: datetime | None = None) -> DataFrame:
    """Read the tool's output, saved to files.

    Grain: one row per replica (columns of `validation.RAW`), and one with a reader_rule per log dir that could not be
    read, per part that looks like JSON and isn't, and per file without any. Replicas on their way to another dir of their
    broker (isFuture) are left out, because they would count twice.

    Args:
        at: When the tool ran, UTC; None takes the time at which the file was last written.
    """
    taken = F.lit(at) if at is not None else F.col("_metadata.file_modification_time")
    whole = spark.read.text(list(paths), wholetext=True).select(
        F.col("_metadata.file_path").alias("file"), taken.alias("taken"), F.trim("value").alias("text")
    )
    # A file without JSON keeps its text, so that it can be named: the tool may have printed an error alone.
    documents = F.filter(F.split("text", _BEGINS), lambda part: F.ltrim(part).startswith("{"))
    each = whole.select("file", "taken", "text", F.explode_outer(documents).alias("value"))
    parsed = each.withColumn("line", F.from_json("value", _LINE))
    no_json = F.concat(F.lit(f"{FILE_RULE}/no output of kafka-log-dirs: "), _first_line("text"))
    told = F.when(F.col("value").isNull(), no_json).otherwise(
        F.concat(F.lit("not_readable/not the JSON of kafka-log-dirs: "), _first_line("value"))
    )
    broken = parsed.where(F.col("line.brokers").isNull()).select(
        "file", "taken", F.lit(None).cast("int").alias("broker"), F.lit(None).cast("string").alias("dir"),
        told.alias("flaw"), F.lit(None).cast("struct<partition: string, size: bigint>").alias("replica"),
    )  # fmt: skip
    dirs = parsed.select("file", "taken", F.explode("line.brokers").alias("broker")).select(
        "file", "taken", "broker.broker", F.explode("broker.logDirs").alias("dir")
    )
    failed = dirs.where(F.col("dir.error").isNotNull()).select(
        "file", "taken", "broker", F.col("dir.logDir").alias("dir"),
        F.concat(F.lit("not_readable/log dir "), "dir.logDir", F.lit(": "), "dir.error").alias("flaw"),
        F.lit(None).cast("struct<partition: string, size: bigint>").alias("replica"),
    )  # fmt: skip
    there = dirs.select("file", "taken", "broker", F.explode("dir.partitions").alias("found")).where(
        ~F.coalesce("found.isFuture", F.lit(False))
    )
    sizes = there.select(
        "file", "taken", "broker", F.lit(None).cast("string").alias("dir"), F.lit(None).cast("string").alias("flaw"),
        F.struct(F.col("found.partition").alias("partition"), F.col("found.size").alias("size")).alias("replica"),
    )  # fmt: skip
    return _raw(sizes.unionByName(failed).unionByName(broken), cluster)


def _first_line(text: str) -> Column:
    """The first line of a text, in 80 characters."""
    return F.substring(
        F.coalesce(F.nullif(F.trim(F.split(text, "\n")[0]), F.lit("")), F.lit("the file is empty")), 1, 80
    )


def _raw(rows: DataFrame, cluster: str) -> DataFrame:
    name = F.col("replica.partition")
    columns = {
        "cluster_id": F.lit(cluster),
        # A topic's name may hold dashes: the number is what follows the last one.
        "topic": F.nullif(F.regexp_extract(name, r"^(.+)-(\d+)$", 1), F.lit("")),
        "partition": F.regexp_extract(name, r"^(.+)-(\d+)$", 2).try_cast("int"),
        "broker_id": F.col("broker"), "role": F.lit(UNKNOWN_ROLE), "window_start": F.date_trunc("second", "taken"),
        "window_seconds": F.lit(_INSTANT_SECONDS), "size_bytes": F.col("replica.size"), "source": F.lit("log_dirs"),
        "file": F.col("file"), "reader_rule": F.substring_index("flaw", "/", 1),
        "reader_detail": F.expr("substring(flaw, instr(flaw, '/') + 1)"),
    }  # fmt: skip
    return as_raw(rows, columns)
