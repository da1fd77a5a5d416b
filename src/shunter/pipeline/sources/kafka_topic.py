"""Samples from a Kafka topic: each record's value is one sample as a JSON object, in the columns of `sources.tables`."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from shunter.pipeline.lake.schemas import MEASURES
from shunter.pipeline.sources.tables import raw_samples

_VALUE = StructType()
for _name in (
    "cluster_id", "topic_id", "topic", "partition", "broker_id", "role", "window_start", "window_seconds", *MEASURES,
    "unit", "_corrupt_record",
):  # fmt: skip
    _VALUE.add(_name, StringType())


def read_topic(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    records_per_batch: int | None = None,
    kafka_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Subscribe to a topic from its beginning (a checkpoint, where there is one, decides instead).

    Grain: one row per record, streaming; `value` and `file` (topic-partition@offset).
    """
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # If the topic lost records before they were read, the operator must know: Spark then ends the query with an
        # error.
        .option("failOnDataLoss", "true")
    )
    if records_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", records_per_batch)
    for name, value in (kafka_options or {}).items():
        reader = reader.option(f"kafka.{name}", value)
    return reader.load().select(
        F.col("value").cast("string").alias("value"),
        F.concat_ws("", F.col("topic"), F.lit("-"), F.col("partition"), F.lit("@"), F.col("offset")).alias("file"),
    )


def topic_samples(records: DataFrame, *, cluster: str | None = None) -> DataFrame:
    """Read the JSON of records. Grain: one row per record; columns of `validation.RAW`."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt_record"}
    parsed = records.select(F.from_json("value", _VALUE, options).alias("sample"), "file", "value")
    empty = F.col("value").isNull() | (F.trim("value") == "")
    flat = parsed.select(
        *(F.col("sample")[field].alias(field) for field in _VALUE.fieldNames() if field != "_corrupt_record"),
        F.when(empty, F.lit("(empty)")).otherwise(F.col("sample._corrupt_record")).alias("_corrupt_record"),
        "file",
    )
    return raw_samples(flat, source="topic", file=F.col("file"), cluster=cluster)
