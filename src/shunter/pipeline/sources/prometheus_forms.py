"""The forms in which people have series: answers of `query_range`, lines of `/api/v1/export`, and metrics pages.

Each reader gives rows of `file`, `broken` (rule and reason where there is no series) and `series` (metric, and values as
pairs of time and value, both text).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from shunter.formats.metric_names import METRICS
from shunter.pipeline.ingest.broken_files import FILE_RULE
from shunter.pipeline.sources.tables import LAST_SECOND, no_object, seen_at

Told = Callable[[SparkSession, Sequence[str]], DataFrame]
"""A reader of one form."""
_METRIC = StructField("metric", MapType(StringType(), StringType()))
_SERIES = StructType([_METRIC, StructField("values", ArrayType(ArrayType(StringType())))])
_ANSWER = StructType(
    [
        StructField("status", StringType()),
        StructField("error", StringType()),
        StructField(
            "data", StructType([StructField("resultType", StringType()), StructField("result", ArrayType(_SERIES))])
        ),
        StructField("_corrupt_record", StringType()),
    ]
)
_EXPORTED = StructType(
    [
        _METRIC,
        StructField("values", ArrayType(StringType())),
        StructField("timestamps", ArrayType(LongType())),
        StructField("_corrupt_record", StringType()),
    ]
)
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*+)"'
_LINE = r'^([a-zA-Z_:][a-zA-Z0-9_:]*)?(?:\{((?:[^"}]++|"(?:[^"\\]|\\.)*+")*+)\})?\s+(\S+)(?:\s+(-?[0-9.eE+]+))?(?:\s+#.*)?\s*$'
"""A line of a metrics page: name, labels, value, time; the name may be a label instead, as `promtool tsdb dump` has it."""
_ANY_METRIC = "^(?:" + "|".join(f"(?:{row.name})" for row in METRICS) + ")$"


def told_by_answers(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Answers of `/api/v1/query_range`. Grain: one row per series."""
    answers = spark.read.option("multiLine", "true").schema(_ANSWER).json(list(paths))
    # Flaws of a whole answer are found before it is taken apart: else each series would carry all the others along.
    of_file = (
        F.when(F.col("_corrupt_record").isNotNull(), F.lit("not JSON"))
        .when(
            F.coalesce(F.col("status"), F.lit("")) != "success",
            F.concat_ws(" ", F.lit("not a success:"), "status", "error"),
        )
        .when(
            F.col("data.resultType") != "matrix",
            F.concat(F.lit("a "), "data.resultType", F.lit(", no matrix: ask /api/v1/query_range")),
        )
    )
    # An answer without series is whole: a query may well find nothing.
    empty = F.coalesce(F.size("data.result"), F.lit(0)) <= 0
    nothing = F.when(empty, F.lit("not_readable/no series: the query found nothing"))
    told = answers.select(
        F.col("_metadata.file_path").alias("file"),
        F.coalesce(F.concat(F.lit(f"{FILE_RULE}/"), of_file), nothing).alias("broken"),
        F.col("data.result").alias("result"),
    )
    return told.select("file", "broken", F.explode_outer("result").alias("series"))


def told_by_export(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Lines of VictoriaMetrics' `/api/v1/export`: metric, values, and timestamps in milliseconds. Grain: one row per line."""
    lines = spark.read.schema(_EXPORTED).json(list(paths))
    unlike = F.col("metric").isNull() | (F.coalesce(F.size("values"), F.lit(0)) != F.size("timestamps"))
    broken = F.when(F.col("_corrupt_record").isNotNull(), no_object(F.col("_corrupt_record"))).when(
        F.coalesce(unlike, F.lit(True)),
        F.lit(
            "no line with metric, values and as many timestamps: is it an answer of query_range (--kind prometheus)?"
        ),
    )
    points = F.zip_with(
        "timestamps", "values", lambda at, value: F.array((at / 1000).cast("decimal(20,3)").cast("string"), value)
    )
    return lines.select(
        F.col("_metadata.file_path").alias("file"),
        F.concat(F.lit("not_readable/"), broken).alias("broken"),
        F.when(broken.isNull(), F.struct("metric", points.alias("values"))).alias("series"),
    )


def told_by_pages(spark: SparkSession, paths: Sequence[str], at: datetime | None = None) -> DataFrame:
    """Metrics pages of exporters, as curl saves them, answers of `/federate`, and dumps of `promtool tsdb dump`.

    Grain: one row per series of all pages together, and one per page that is none, or has no metric that Shunter knows. A
    page's other metrics are left out without a row, because an exporter shows all that it has. A series without `instance`
    has the name of the folder in which its page is.

    Args:
        at: When lines without a time were seen; None: as the file's name says (seconds since 1970), else when the file was
            last written.
    """
    path = F.col("_metadata.file_path")
    lines = spark.read.text(list(paths)).select(
        path.alias("file"), seen_at(at).alias("seen"), F.trim("value").alias("line")
    )
    lines = lines.where((F.col("line") != "") & ~F.col("line").startswith("#"))
    parsed = _parsed(lines)
    of_file = Window.partitionBy("file")
    judged = parsed.withColumns(
        {
            "wrong": F.min(F.when(F.col("metric").isNull(), F.substring("line", 1, 80))).over(of_file),
            "some": F.max(F.col("known")).over(of_file),
        }
    )
    none_known = F.concat(
        F.lit("not_readable/no metric that Shunter knows on the whole page, which begins with "), "line"
    )
    flaw = F.when(F.col("wrong").isNotNull(), F.concat(F.lit(f"{FILE_RULE}/no metrics page: "), "wrong")).when(
        ~F.col("some"), none_known
    )
    judged = judged.withColumn("broken", flaw)
    flawed = judged.where(F.col("broken").isNotNull()).groupBy("file").agg(F.min("broken").alias("broken"))
    good = judged.where(F.col("broken").isNull() & F.col("known"))
    # Spark groups by no map, so series are grouped by their labels' text.
    words = F.to_json(F.array_sort(F.map_entries("metric")))
    point = F.struct(F.col("time").alias("time"), F.col("value").alias("value"))
    grouped = good.groupBy(words.alias("labels")).agg(
        F.min("file").alias("file"),
        F.first("metric").alias("metric"),
        F.array_sort(F.collect_list(point)).alias("points"),
    )
    values = F.transform("points", lambda one: F.array(one["time"].cast("decimal(20,3)").cast("string"), one["value"]))
    of_series = F.struct(F.col("metric").alias("metric"), values.alias("values"))
    none = F.lit(None).cast(_SERIES)
    return grouped.select("file", F.lit(None).cast("string").alias("broken"), of_series.alias("series")).unionByName(
        flawed.select("file", "broken", none.alias("series"))
    )


def _parsed(lines: DataFrame) -> DataFrame:
    """Add `metric` (null if a line is none), `value`, `time` (in seconds), and `known`: Shunter can read such a metric."""
    labels = F.regexp_extract("line", _LINE, 2)
    keys = F.regexp_extract_all(labels, F.lit(_LABEL), F.lit(1))
    values = F.transform(
        F.regexp_extract_all(labels, F.lit(_LABEL), F.lit(2)), lambda value: F.regexp_replace(value, r"\\(.)", "$1")
    )
    name = F.regexp_extract("line", _LINE, 1)
    folder = F.regexp_extract("file", r"([^/]+)/[^/]+$", 1)
    found = lines.select("*", name.alias("name"), keys.alias("keys"), values.alias("found"), folder.alias("folder"))
    found = _with_label(_with_label(found, "__name__", F.col("name")), "instance", F.col("folder"))
    whole = (
        F.col("line").rlike(_LINE)
        & F.array_contains("keys", "__name__")
        & (F.size("keys") == F.size(F.array_distinct("keys")))
    )
    told = F.regexp_extract("line", _LINE, 4).try_cast("double")
    metric = F.when(whole, F.map_from_arrays("keys", "found"))
    parsed = found.select("file", "line", "seen", metric.alias("metric"), F.regexp_extract("line", _LINE, 3).alias("value"), told.alias("told"))  # fmt: skip
    known = F.lower(F.concat_ws("_", F.col("metric")["__name__"], F.col("metric")["name"])).rlike(_ANY_METRIC)
    # OpenMetrics has seconds, the older format milliseconds.
    time = F.when(F.col("told") > LAST_SECOND, F.col("told") / 1000).otherwise(F.coalesce("told", "seen"))
    return parsed.withColumns({"known": F.coalesce(known, F.lit(False)), "time": time})


def _with_label(lines: DataFrame, label: str, value: Column) -> DataFrame:
    """Give a label to lines that lack it, if the value is not empty."""
    lacks = (value != "") & ~F.array_contains("keys", label)
    return lines.withColumns(
        {
            name: F.when(lacks, F.concat(name, F.array(more))).otherwise(F.col(name))
            for name, more in (("found", value), ("keys", F.lit(label)))
        }
    )
