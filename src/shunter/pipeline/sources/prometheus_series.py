"""The series of Prometheus' answers: which metric each one is, of which replica or broker, and who scraped it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.formats.metric_names import (
    LOOKS_LIKE,
    METRICS,
    OF_BROKERS,
    OF_PARTITIONS,
    PARTITION_LABELS,
    TOPIC_LABELS,
)
from shunter.formats.series_labels import SeriesLabels
from shunter.pipeline.sources.prometheus_forms import Told, told_by_answers
from shunter.pipeline.sources.tables import LAST_SECOND

_BROKER_LABELS = ("broker_id", "broker", "kafka_broker_id", "node_id")
_CLUSTER_LABELS = ("cluster_id", "kafka_cluster", "cluster")
_UNKNOWN = "-"
_KEY = "\u0001"
"""Stands between the values of several labels."""
_FUTURE_LABELS = ("is_future", "isFuture", "is-future", "future")
"""Labels of Kafka's tag `is-future`: the series is about a copy on its way to another log dir of its broker."""
_DIR_LABELS = ("log_dir", "logdir", "logDir", "log_directory", "logDirectory", "directory", "dir")
_NOT_OF_SCRAPER = (
    "__name__", "name", "cpu", "mode", *TOPIC_LABELS, *PARTITION_LABELS,
    *_BROKER_LABELS, *_CLUSTER_LABELS, *_FUTURE_LABELS, *_DIR_LABELS,
)  # fmt: skip
"""Labels that say what a series is about. All others say who scraped it."""


def series_of(
    spark: SparkSession,
    paths: Sequence[str],
    cluster: str | None,
    labels: SeriesLabels,
    told: Told = told_by_answers,
) -> DataFrame:
    """Read series, in any of their forms.

    Grain: one row per series and file, and one per file that is not an answer. `flaw` says why a row can't be used,
    `of_broker` that a series is about a broker as a whole. `good` are its points that a metric can have, in order of
    time; `junk` says what is wrong with the others. Left out without a row are series of machines that are not brokers,
    because Prometheus knows many machines, and copies on their way to another log dir, which would count twice.
    """
    labelled = _labelled(told(spark, paths), cluster, labels)
    of_broker = F.coalesce(F.col("broken").isNull() & F.col("measure").isin(*OF_BROKERS), F.lit(False))
    elsewhere = F.col("of_broker") & F.col("broker_id").isNull()
    labelled = labelled.withColumn("of_broker", of_broker)
    # A time that Spark can't hold would end the whole batch.
    times = F.transform("values", lambda point: F.coalesce(F.get(point, F.lit(0)), F.lit("missing")))
    no_times = F.filter(times, lambda time: ~F.coalesce(time.try_cast("double").between(0, LAST_SECOND), F.lit(False)))
    flaw = (
        F.when(F.col("broken").isNotNull(), F.col("broken"))
        .when(F.col("measure").isNull(), F.concat(F.lit("not_readable/"), _no_metric()))
        .when(F.size(no_times) > 0, F.concat(F.lit("not_a_time/time is "), F.element_at(no_times, 1), F.lit(": no seconds since 1970")))
        .when(F.col("cluster_id").isNull() & F.lit(bool(labels.clusters)), F.concat(F.lit("unknown_cluster/no cluster that was named has its labels: "), _cluster_words(labels)))
        .when(F.col("broker_id").isNull() & ~F.col("measure").isin(*OF_PARTITIONS), F.concat(F.lit("unknown_broker/instance "), F.coalesce("instance", F.lit("(none)")), F.lit(" is not mapped to a broker id"), _tried(labels)))
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
    of_junk = F.concat(junk, F.lit(" of "), F.size("values"), F.lit(" values are put aside: NaN, infinite or below 0"))
    return known.withColumn("good", sorted_good).withColumn("junk", F.when(junk > 0, of_junk))


def _number(point: Column, at: int) -> Column:
    return F.get(point, F.lit(at)).try_cast("double")


def _labelled(each: DataFrame, cluster: str | None, labels: SeriesLabels) -> DataFrame:
    metric = F.col("series.metric")
    name = F.lower(F.concat_ws("_", metric["__name__"], metric["name"]))
    scraper = F.map_filter(metric, lambda label, _: ~label.isin(*_NOT_OF_SCRAPER))
    topic = F.coalesce(*(metric[label] for label in TOPIC_LABELS))
    named = each.select(
        "file", "broken", "series", name.alias("name"), topic.alias("topic"), _taken_as(name).alias("taken")
    )
    part = F.when(F.col("topic").isNotNull(), 2).otherwise(3)
    measure = F.nullif(F.element_at(F.split("taken", "/"), part), F.lit(_UNKNOWN))
    idle = (F.col("name") == "node_cpu_seconds_total") & (metric["mode"] != "idle")
    return named.select(
        "file",
        "broken",
        F.col("series.values").alias("values"),
        _cluster_of(metric, cluster, labels).alias("cluster_id"),
        "topic",
        F.coalesce(*(metric[label] for label in PARTITION_LABELS)).try_cast("int").alias("partition"),
        # An exporter that asks the cluster stands for no broker, whatever its own instance is called.
        F.when(F.coalesce(~measure.isin(*OF_PARTITIONS), F.lit(True)), _broker_of(metric, labels)).alias("broker_id"),
        metric["instance"].alias("instance"),
        metric.alias("metric"),
        F.lower(F.coalesce(*(metric[label] for label in _FUTURE_LABELS), F.lit(""))).isin("true", "1").alias("is_future"),
        _in_words(metric).alias("labels"),
        # Fewer labels first: what a label marks as something else never replaces what has no mark.
        F.struct(F.size(scraper).alias("labels"), _in_words(scraper).alias("words")).alias("scraper"),
        "name",
        F.when(idle, F.lit("")).otherwise(measure).alias("measure"),
        # A machine has a counter for each of its processors.
        F.when(F.col("name").startswith("node_cpu_"), metric["cpu"]).alias("processor"),
        F.element_at(F.split("taken", "/"), 1).alias("kind"),
    )  # fmt: skip


def _cluster_of(metric: Column, cluster: str | None, labels: SeriesLabels) -> Column:
    """The Kafka cluster of a series; null if none of the named clusters has its labels."""
    if not labels.clusters:
        of_label = _CLUSTER_LABELS if labels.cluster_label is None else (labels.cluster_label,)
        return F.coalesce(*(metric[label] for label in of_label), F.lit(cluster))
    by_labels: dict[tuple[str, ...], dict[str, str]] = {}
    for one in labels.clusters:
        ordered = sorted(one.labels)
        by_labels.setdefault(tuple(label for label, _ in ordered), {})[_KEY.join(value for _, value in ordered)] = (
            one.cluster_id
        )
    found = (
        _looked_up(values, F.concat_ws(_KEY, *(F.coalesce(metric[label], F.lit("")) for label in names)))
        for names, values in sorted(by_labels.items(), key=lambda one: -len(one[0]))
    )
    return F.coalesce(*found)


def _broker_of(metric: Column, labels: SeriesLabels) -> Column:
    known = dict(labels.brokers)
    found: list[Column] = []
    for label, expression in labels.broker_from:
        one = F.nullif(F.regexp_extract(metric[label], f"^(?:{expression})$", 1), F.lit(""))
        found += [_looked_up(known, one), one.try_cast("int")]
    return F.coalesce(
        *found, *(metric[label].try_cast("int") for label in _BROKER_LABELS), _looked_up(known, metric["instance"])
    )


def _looked_up(names: Mapping[str, object], key: Column) -> Column:
    # A map is one literal, however many names there are. A condition for each name would be repeated all over Spark's
    # code.
    pairs = [F.lit(part) for pair in sorted(names.items()) for part in pair]
    return F.create_map(*pairs)[key] if pairs else F.lit(None).cast("int")


def _cluster_words(labels: SeriesLabels) -> Column:
    named = sorted({label for one in labels.clusters for label, _ in one.labels})
    return F.concat_ws(", ", *(_shown(label) for label in named))


def _tried(labels: SeriesLabels) -> Column:
    """What `broker_from` found nothing in, and the way out."""
    if not labels.broker_from:
        return F.lit(": --broker INSTANCE=ID, or --broker-from LABEL=REGEX if a label such as pod has the id")
    tried = (F.concat(_shown(label), F.lit(f" by {expression}")) for label, expression in labels.broker_from)
    return F.concat(F.lit("; looked in "), F.concat_ws(", ", *tried))


def _shown(label: str) -> Column:
    return F.concat(F.lit(f"{label}="), F.coalesce(F.col("metric")[label], F.lit("(none)")))


def _in_words(labels: Column) -> Column:
    return F.to_json(F.array_sort(F.map_entries(labels)))


def _taken_as(name: Column) -> Column:
    """What a metric is, by the table of names: kind, measure with a topic, measure without; null if it is unknown."""
    return F.coalesce(
        *(
            F.when(name.rlike(f"^(?:{row.name})$"), F.lit("/".join((row.kind, *(_UNKNOWN if one is None else one for one in (row.of_topic, row.of_broker))))))
            for row in METRICS
        )
    )  # fmt: skip


def _no_metric() -> Column:
    name = F.col("name")
    rule = F.concat(name, F.lit(" is a recording rule: what it computes is not known, ask for the metric itself"))
    looks = F.coalesce(
        *(F.when(name.rlike(f"^(?:{like})$"), F.lit(f". It looks like {what}")) for like, what in LOOKS_LIKE), F.lit("")
    )
    unknown = F.concat(
        F.lit("no metric that Shunter knows: "), F.coalesce(F.nullif(name, F.lit("")), F.lit("(none)")), looks
    )
    return F.when(F.contains(name, F.lit(":")), rule).otherwise(unknown)
