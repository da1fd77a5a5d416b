"""Prometheus' series about brokers as a whole: processors, and the counters that have no topic."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from shunter.formats.metric_names import OF_BROKERS
from shunter.formats.series_labels import SeriesLabels
from shunter.pipeline.ingest.validation import as_broker_rows
from shunter.pipeline.sources.prometheus_forms import Told, told_by_answers
from shunter.pipeline.sources.prometheus_points import increases_of
from shunter.pipeline.sources.prometheus_series import series_of

_NO_LABELS = SeriesLabels()
_RATES = {
    "bytes_in_rate": "total_bytes_in",
    "bytes_out_rate": "total_bytes_out",
    "messages_in_rate": "total_messages_in",
    "replication_bytes_in_rate": "replication_bytes_in",
    "replication_bytes_out_rate": "replication_bytes_out",
}


def prometheus_brokers(
    spark: SparkSession,
    paths: Sequence[str],
    *,
    cluster: str | None = None,
    labels: SeriesLabels = _NO_LABELS,
    told: Told = told_by_answers,
) -> DataFrame:
    """Read series of Prometheus.

    Grain: one row per broker and step of which anything is known; columns of `broker_samples` but for the batch's, and file,
    reader_rule, reader_detail (null). How busy a broker is: by its own process, else by its machine's idle time.

    Args:
        cluster: The cluster of series that no label gives to one.
        labels: Which labels name clusters and brokers, of the JMX exporter and of the machine's (`kafka1:7071`, `kafka1:9100`).
        told: Reads the form in which the series are.
    """
    # Every exporter reports its own process. Kafka's exporter is the one that also has Kafka's metrics.
    of_kafka = F.max(F.col("name").startswith("kafka_")).over(Window.partitionBy("instance"))
    series = series_of(spark, paths, cluster, labels, told).where("of_broker").withColumn("of_kafka", of_kafka)
    series = series.where((F.col("measure") != "busy_seconds") | F.col("of_kafka"))
    rate = F.col("increase") / F.col("seconds")
    summed = increases_of(series).groupBy("cluster_id", "broker_id", "at").agg(
        F.min("seconds").alias("seconds"),
        F.min("file").alias("file"),
        # If there is both a counter and a rate of one minute, the counter is taken, because it is exact.
        *(
            F.coalesce(*(F.max(F.when((F.col("measure") == name) & (F.col("kind") == kind), rate)) for kind in ("count", "rate"))).alias(name)
            for name in OF_BROKERS if name != "idle_seconds"
        ),
        F.sum(F.when(F.col("measure") == "idle_seconds", rate)).alias("idle"),
        F.count(F.when(F.col("measure") == "idle_seconds", rate)).alias("counted"),
    )  # fmt: skip
    counted = F.when(F.col("counted") > 0, F.col("counted").cast("double"))
    processors = F.coalesce("processors", counted)
    # Spark's greatest leaves nulls out: without a machine's counters it would say that nothing is busy.
    of_machine = F.when(counted.isNotNull(), F.greatest(F.lit(0.0), 1 - F.col("idle") / counted))
    columns = {
        "cluster_id": F.col("cluster_id"), "broker_id": F.col("broker_id"),
        "window_start": F.timestamp_millis(((F.col("at") - F.col("seconds")) * 1000).cast("bigint")),
        "window_seconds": F.round("seconds").try_cast("int"),
        "cpu": F.coalesce("busy", F.col("busy_seconds") / processors, of_machine), "processors": processors,
        **{name: F.col(measure) for name, measure in _RATES.items()},
        "size_bytes": F.round("disk"),
        "source": F.lit("prometheus"),
    }  # fmt: skip
    return as_broker_rows(summed, columns)
