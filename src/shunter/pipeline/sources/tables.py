"""Samples that already are a table: Parquet, JSON lines, CSV.

Columns: cluster_id (or `--cluster`), topic, partition, broker_id, window_start (UTC: a timestamp, ISO 8601 text, or
seconds since 1970; or `window_start_ms`), window_seconds, role, topic_id, bytes_in, bytes_out, messages_in, size_bytes
(amounts in one window; at least one), unit (where present: `bytes`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import reduce
from pathlib import Path
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructType, TimestampNTZType, TimestampType

from shunter.errors import FormatError
from shunter.pipeline.classic import analysed
from shunter.pipeline.ingest.validation import RAW
from shunter.pipeline.lake.schemas import MEASURES, UNKNOWN_ROLE

FORMATS = ("parquet", "json", "csv")

_NUMBERS = {
    "partition": "int",
    "broker_id": "int",
    "window_seconds": "int",
    "bytes_in": "bigint",
    "bytes_out": "bigint",
    "messages_in": "bigint",
    "size_bytes": "bigint",
}
_TEXTS = ("cluster_id", "topic_id", "topic", "role")
_READERS = 8
LAST_SECOND = 32_503_680_000
"""The year 3000. A greater number is not a time in seconds, and Spark can't hold all such times."""


def read_table(spark: SparkSession, paths: Sequence[str], file_format: str, *, cluster: str | None = None) -> DataFrame:
    """Read samples.

    Grain: one row per row of the input; columns of `validation.RAW`.

    Args:
        cluster: The cluster of rows without a cluster_id.

    Raises:
        FormatError: a column is missing, or named in a unit that Shunter does not take.
    """
    place = ", ".join(paths)
    if file_format == "parquet":
        check_parquet(paths)
    parts: list[DataFrame] = []
    for frame in _frames(spark, paths, file_format, place):
        if frame.columns == ["_corrupt_record"]:
            raise FormatError(place, "holds no JSON object, one a line: is --kind right?")
        check_columns(frame.columns, place, has_cluster=cluster is not None)
        parts.append(raw_samples(frame, source=file_format, file=F.col("_metadata.file_path"), cluster=cluster))
    return reduce(DataFrame.unionByName, parts)


def _frames(spark: SparkSession, paths: Sequence[str], file_format: str, place: str) -> list[DataFrame]:
    """The files in as few frames as possible, so that a file of another layout neither loses nor shifts a column."""
    try:
        if file_format == "json":
            return [_load(spark, paths, file_format)]
        if file_format == "parquet":
            # Nanoseconds, which pandas writes, come as numbers; Spark has no such time.
            spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
            with contextlib.suppress(PySparkException, Py4JJavaError):
                merged = spark.read.option("recursiveFileLookup", "true").option("mergeSchema", "true").parquet(*paths)
                return [analysed(merged)]
        by_layout: dict[str, list[str]] = {}
        with ThreadPoolExecutor(_READERS) as pool:
            layouts = pool.map(lambda path: _load(spark, [path], file_format).schema.json(), paths)
            for path, layout in zip(paths, layouts, strict=True):
                by_layout.setdefault(layout, []).append(path)
        return [_load(spark, alike, file_format) for alike in by_layout.values()]
    except AnalysisException as error:
        raise FormatError(place, f"can't be read as {file_format}: {error.getMessage()}") from error


def check_parquet(paths: Sequence[str]) -> None:
    """Refuse local files that are not Parquet: Spark itself would answer with two pages of stack traces.

    Raises:
        FormatError: names the file and how it begins.
    """
    for path in paths:
        parsed = urlparse(path)
        local = Path(unquote(parsed.path))
        if parsed.scheme in ("", "file") and local.is_file():
            with local.open("rb") as stream:
                head = stream.read(16)
            if not head.startswith(b"PAR1"):
                raise FormatError(path, f"is no Parquet file, it begins with {head!r}: say with --kind what it is")


def _load(spark: SparkSession, paths: Sequence[str], file_format: str) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true")
    if file_format == "parquet":
        return reader.parquet(*paths)
    if file_format == "csv":
        # Everything is read as text: a number that isn't one must end among the rejects, not as a null.
        return reader.option("header", "true").option("enforceSchema", "false").csv(list(paths))
    names = ("window_start", "window_start_ms", "unit", *_TEXTS, *_NUMBERS)
    present = reader.json(list(paths)).columns
    schema = StructType()
    for name in (*names, *(name for name in present if name not in names)):
        if name in present:
            schema.add(name, StringType())
    if "_corrupt_record" not in schema.fieldNames():
        schema.add("_corrupt_record", StringType())
    return reader.schema(schema).json(list(paths))


def check_columns(columns: Sequence[str], place: str, *, has_cluster: bool) -> None:
    """Refuse a table that lacks columns that a sample needs.

    Raises:
        FormatError: names the columns that are missing and those that are there.
    """
    there = set(columns)
    needed = ["topic", "partition", "broker_id", "window_seconds"]
    missing = [name for name in needed if name not in there]
    if "window_start" not in there and "window_start_ms" not in there:
        missing.append("window_start")
    if "cluster_id" not in there and not has_cluster:
        missing.append("cluster_id")
    if not there & set(MEASURES):
        missing.append(f"any of {', '.join(MEASURES)}")
    if not missing:
        return
    found = ", ".join(sorted(there)) or "none"
    raise FormatError(
        place, f"no column {', '.join(missing)} (found: {found}); amounts are bytes in one window, see docs/data.md"
    )


def no_object(line: Column) -> Column:
    """The flaw of a line that does not hold a JSON object. It may still be JSON, such as `null`."""
    what = F.when(F.try_parse_json(line).isNotNull(), F.lit("no JSON object: ")).otherwise(F.lit("not JSON: "))
    return F.concat(what, F.substring(line, 1, 80))


def raw_samples(frame: DataFrame, *, source: str, file: Column, cluster: str | None = None) -> DataFrame:
    """Bring a table of samples into the columns of `RAW`, whatever types its columns have.

    Grain: one row per input row. A value that can't be read becomes null and is named in `reader_rule`,
    `reader_detail`.
    """
    types = {field.name: field.dataType for field in frame.schema.fields}
    start, start_broken = _start(types)
    broken: list[tuple[str, Column, Column]] = []
    if "_corrupt_record" in types:
        broken.append(("not_readable", F.col("_corrupt_record").isNotNull(), no_object(F.col("_corrupt_record"))))
    columns: dict[str, Column] = {"window_start": start}
    for name, kind in _NUMBERS.items():
        columns[name], misread = _number(name, kind, types)
        if misread is not None:
            broken.append(("not_a_number", misread, F.concat(F.lit(f"{name} is "), F.col(name).cast("string"))))
    broken.append(start_broken)
    if "unit" in types:
        told = F.concat(F.lit("unit is "), F.col("unit").cast("string"), F.lit(", not bytes"))
        broken.append(("wrong_unit", ~F.lower(F.col("unit").cast("string")).isin("bytes", "byte", "b"), told))
    for name in _TEXTS:
        columns[name] = F.col(name).cast("string") if name in types else F.lit(None).cast("string")
    columns["role"] = F.lower(columns["role"]) if "role" in types else F.lit(UNKNOWN_ROLE)
    if cluster is not None:
        columns["cluster_id"] = F.coalesce(columns["cluster_id"], F.lit(cluster))
    columns["source"] = F.lit(source)
    columns["file"] = file
    columns["reader_rule"] = F.coalesce(*(F.when(hit, F.lit(rule)) for rule, hit, _ in broken))
    columns["reader_detail"] = F.coalesce(*(F.when(hit, told) for _, hit, told in broken))
    return frame.select(*(columns[name].alias(name) for name in RAW))


def _number(name: str, kind: str, types: dict[str, DataType]) -> tuple[Column, Column | None]:
    if name not in types:
        return F.lit(None).cast(kind), None
    if types[name].simpleString() == kind:
        return F.col(name), None
    # By way of decimal, so that 1.5e6 and 12.0 are numbers and 12.7 records are rounded rather than refused.
    value = F.round(F.col(name).cast("string").try_cast("decimal(38,6)")).try_cast(kind)
    return value, F.col(name).isNotNull() & value.isNull()


def _start(types: dict[str, DataType]) -> tuple[Column, tuple[str, Column, Column]]:
    if "window_start_ms" in types:
        text = F.col("window_start_ms").cast("string")
        return _from_seconds(text, text.try_cast("double") / 1000, "window_start_ms")
    kind = types["window_start"]
    column = F.col("window_start")
    if isinstance(kind, TimestampType):
        return column, ("not_a_time", F.lit(False), F.lit(""))
    if isinstance(kind, TimestampNTZType):
        return column.cast("timestamp"), ("not_a_time", F.lit(False), F.lit(""))
    if isinstance(kind, LongType):
        # Beyond any time in milliseconds: nanoseconds since 1970.
        nanos = column >= F.lit(LAST_SECOND * 1_000_000)
        seconds_of = F.when(nanos, column / 1e9).otherwise(column.cast("double"))
        micros = F.timestamp_micros((column / 1000).cast("bigint"))
        start, told_of = _from_seconds(column.cast("string"), seconds_of, "window_start")
        return F.when(nanos & (seconds_of <= LAST_SECOND), micros).otherwise(start), told_of
    text = column.cast("string")
    seconds = text.try_cast("double")
    start, (rule, hit, told) = _from_seconds(text, seconds, "window_start")
    as_text = text.try_cast("timestamp")
    return F.when(seconds.isNotNull(), start).otherwise(as_text), (rule, hit & as_text.isNull(), told)


def _from_seconds(text: Column, seconds: Column, name: str) -> tuple[Column, tuple[str, Column, Column]]:
    within = seconds.between(0, LAST_SECOND)
    start = F.when(within, F.timestamp_millis((seconds * 1000).try_cast("bigint")))
    rule = F.when(
        seconds.between(LAST_SECOND, LAST_SECOND * 1000), F.lit(": in milliseconds? call the column window_start_ms")
    ).otherwise(F.lit(": no time in UTC (ISO 8601, or seconds since 1970; wrong unit?)"))
    told = F.concat(F.lit(f"{name} is "), text, rule)
    return start, ("not_a_time", text.isNotNull() & start.isNull(), told)


def seen_at(at: datetime | None) -> Column:
    """When a file's content was seen, in seconds since 1970: as is said, else as the file's name says, else its own time."""
    if at is not None:
        return F.lit(at.timestamp())
    named = F.regexp_extract("_metadata.file_path", r"/(\d{10})(?:\.[^/]*)?$", 1).try_cast("double")
    return F.coalesce(named, F.unix_millis("_metadata.file_modification_time") / 1000)
