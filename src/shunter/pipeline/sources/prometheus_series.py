"""The series of Prometheus' answers: which metric each one is, of which replica or broker, and who scraped it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from shunter.pipeline.ingest.broken_files import FILE_RULE
from shunter.pipeline.sources.tables import LAST_SECOND

_SERIES = StructType(
    [
        StructField("metric", MapType(StringType(), StringType())),
        StructField("values", ArrayType(ArrayType(StringType()))),
    ]
)
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
_BROKER_LABELS = ("broker_id", "broker", "kafka_broker_id", "node_id")
_CLUSTER_LABELS = ("cluster_id", "kafka_cluster", "cluster")
_FUTURE_LABELS = ("is_future", "isFuture", "is-future", "future")
"""Labels of Kafka's tag `is-future`: the series is about a copy on its way to another log dir of its broker."""
_DIR_LABELS = ("log_dir", "logdir", "logDir", "log_directory", "logDirectory", "directory", "dir")
_NOT_OF_SCRAPER = (
    "__name__", "name", "topic", "partition", "cpu", "mode",
    *_BROKER_LABELS, *_CLUSTER_LABELS, *_FUTURE_LABELS, *_DIR_LABELS,
)  # fmt: skip
"""Labels that say what a series is about. All others say who scraped it."""
OF_BROKERS = (
    "busy", "busy_seconds", "processors", "idle_seconds", "total_bytes_in", "total_bytes_out", "total_messages_in",
    "replication_bytes_in", "replication_bytes_out",
)  # fmt: skip
"""Measures of a broker as a whole."""
_IN_ITSELF = "oneminuterate|processcpuload|availableprocessors"
"""Names of metrics that are not counters: the value itself is a rate, or can be used as a rate."""
_KIND = "total|count|oneminuterate"
_TOPIC_METRIC = (
    f"^kafka_server_brokertopicmetrics_(?:(?:{_KIND})_)*"
    f"((?:replication)?bytesin|(?:replication)?bytesout|messagesin)(?:persec)?(?:_(?:{_KIND}))*$"
)
"""The whole name: `topic:…:rate5m`, `instance:…` and `cluster:…` are recording rules, and other series."""


def series_of(
    spark: SparkSession,
    paths: Sequence[str],
    cluster: str | None,
    brokers: Mapping[str, int],
    cluster_label: str | None = None,
) -> DataFrame:
    """Read the series of range-query answers.

    Grain: one row per series and file, and one per file that is not an answer. `flaw` says why a row can't be used,
    `of_broker` that a series is about a broker as a whole. `good` are its points that a metric can have, in order of
    time; `junk` says what is wrong with the others. Left out without a row are series of machines that are not brokers,
    because Prometheus knows many machines, and copies on their way to another log dir, which would count twice.
    """
    labelled = _labelled(_told(spark, paths), cluster, brokers, cluster_label)
    of_broker = F.coalesce(F.col("broken").isNull() & F.col("measure").isin(*OF_BROKERS), F.lit(False))
    elsewhere = F.col("of_broker") & F.col("broker_id").isNull()
    labelled = labelled.withColumn("of_broker", of_broker)
    # A time that Spark can't hold would end the whole batch.
    times = F.transform("values", lambda point: F.coalesce(F.get(point, F.lit(0)), F.lit("missing")))
    no_times = F.filter(times, lambda time: ~F.coalesce(time.try_cast("double").between(0, LAST_SECOND), F.lit(False)))
    no_metric = (
        F.when(F.contains("name", F.lit(":")), F.concat("name", F.lit(" is a recording rule: what it computes is not known, ask for the metric itself")))
        .otherwise(F.concat(F.lit("no metric that Shunter knows: "), F.coalesce("name", F.lit("(none)"))))
    )  # fmt: skip
    flaw = (
        F.when(F.col("broken").isNotNull(), F.col("broken"))
        .when(F.col("measure").isNull(), F.concat(F.lit("not_readable/"), no_metric))
        .when(F.size(no_times) > 0, F.concat(F.lit("not_a_time/time is "), F.element_at(no_times, 1), F.lit(": no seconds since 1970")))
        .when(F.col("broker_id").isNull(), F.concat(F.lit("unknown_broker/instance "), F.coalesce("instance", F.lit("(none)")), F.lit(" is not mapped to a broker id")))
    )  # fmt: skip
    ignored = F.coalesce(F.col("measure") == "", F.lit(False)) | F.col("is_future")
    known = labelled.where(~elsewhere & ~ignored).withColumn("flaw", flaw)
    points = F.transform(
        "values", lambda point: F.struct(_number(point, 0).alias("at"), _number(point, 1).alias("value"))
    )
    # Spark takes NaN for greater than any other number.
    is_good = F.filter(points, lambda point: point["value"].between(0.0, 1e300))
    sorted_good = F.when(F.col("flaw").isNull(), F.array_sort(is_good))
    junk = F.size("values") - F.size("good")
    told = F.concat(junk, F.lit(" of "), F.size("values"), F.lit(" values are put aside: NaN, infinite or below 0"))
    return known.withColumn("good", sorted_good).withColumn("junk", F.when(junk > 0, told))


def _number(point: Column, at: int) -> Column:
    return F.get(point, F.lit(at)).try_cast("double")


def _told(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Answers taken apart. Grain: one row per series, with `broken` where the answer is none."""
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


def _labelled(each: DataFrame, cluster: str | None, brokers: Mapping[str, int], cluster_label: str | None) -> DataFrame:
    clusters = _CLUSTER_LABELS if cluster_label is None else (cluster_label,)
    metric = F.col("series.metric")
    name = F.lower(F.concat_ws("_", metric["__name__"], metric["name"]))
    # A map is one literal, however many brokers there are. A condition for each broker would be repeated all over
    # Spark's code.
    pairs = [F.lit(part) for pair in sorted(brokers.items()) for part in pair]
    mapped = F.create_map(*pairs)[metric["instance"]] if pairs else F.lit(None).cast("int")
    scraper = F.map_filter(metric, lambda label, _: ~label.isin(*_NOT_OF_SCRAPER))
    return each.select(
        "file",
        "broken",
        F.col("series.values").alias("values"),
        F.coalesce(*(metric[label] for label in clusters), F.lit(cluster)).alias("cluster_id"),
        metric["topic"].alias("topic"),
        metric["partition"].try_cast("int").alias("partition"),
        F.coalesce(*(metric[label].try_cast("int") for label in _BROKER_LABELS), mapped).alias("broker_id"),
        metric["instance"].alias("instance"),
        F.lower(F.coalesce(*(metric[label] for label in _FUTURE_LABELS), F.lit(""))).isin("true", "1").alias("is_future"),
        _in_words(metric).alias("labels"),
        # Fewer labels first: what a label marks as something else never replaces what has no mark.
        F.struct(F.size(scraper).alias("labels"), _in_words(scraper).alias("words")).alias("scraper"),
        name.alias("name"),
        F.when(metric["topic"].isNull(), _broker_measure(name, metric)).otherwise(_measure(name)).alias("measure"),
        # A machine has a counter for each of its processors.
        F.when(name.startswith("node_cpu_"), metric["cpu"]).alias("processor"),
        F.when(name.rlike(_IN_ITSELF), F.lit("rate")).otherwise(F.lit("count")).alias("kind"),
    )  # fmt: skip


def _in_words(labels: Column) -> Column:
    return F.to_json(F.array_sort(F.map_entries(labels)))


def _topic_metric(name: Column) -> Column:
    """The metric of `BrokerTopicMetrics`, such as `bytesin`; null if it is none that is counted."""
    return F.when(name.rlike(_TOPIC_METRIC) & name.rlike(f"_({_KIND})(_|$)"), F.regexp_extract(name, _TOPIC_METRIC, 1))


def _broker_measure(name: Column, metric: Column) -> Column:
    """The measure of a broker that a series without a topic shows; empty if it is of no use, null if it is unknown."""
    of_all = {
        "bytesin": "total_bytes_in", "bytesout": "total_bytes_out", "messagesin": "total_messages_in",
        "replicationbytesin": "replication_bytes_in", "replicationbytesout": "replication_bytes_out",
    }  # fmt: skip
    return (
        _translated(_topic_metric(name), of_all)
        .when(name.rlike(r"^java_lang_(operatingsystem_)?processcpuload$"), F.lit("busy"))
        .when(name.rlike(r"^java_lang_(operatingsystem_)?availableprocessors$"), F.lit("processors"))
        .when(name == "process_cpu_seconds_total", F.lit("busy_seconds"))
        .when(name == "node_cpu_seconds_total", F.when(metric["mode"] == "idle", F.lit("idle_seconds")).otherwise(""))
        .otherwise(F.when(_measure(name).isNotNull(), F.lit("")))
    )


def _measure(name: Column) -> Column:
    of_topics = {"bytesin": "bytes_in", "bytesout": "bytes_out", "messagesin": "messages_in"}
    return (
        _translated(_topic_metric(name), of_topics)
        .when(name.rlike(r"^kafka_log_(log_)?(value_)?size$"), F.lit("size"))
        .when(name.rlike(r"^kafka_log_(log_)?(value_)?logendoffset$"), F.lit("end_offset"))
        .when(name.rlike(r"^kafka_cluster_partition_(value_)?insyncreplicascount$"), F.lit("in_sync"))
    )


def _translated(value: Column, names: Mapping[str, str]) -> Column:
    found = F.when(F.lit(False), F.lit(""))
    for one, other in names.items():
        found = found.when(value == one, F.lit(other))
    return found
