"""Answers of Cruise Control's `/partition_load` and `/load`, with `json=true`. NOT VERIFIED against a running Cruise Control.

Written from its published responses (`partitionLoadState.yaml`, `brokerStats.yaml`, BasicStats.java): disk in MB, network
in KB a second, powers of 1,024; CpuPct in percent of the broker's processors. An answer says neither when it was asked nor
what time its means are of. Followers have the disk that Cruise Control supposes, so their sizes are not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.pipeline.ingest.broken_files import FILE_RULE
from shunter.pipeline.ingest.validation import as_broker_rows, as_raw
from shunter.pipeline.lake.schemas import LEADER
from shunter.pipeline.sources.cruise_control import KIB, MIB
from shunter.pipeline.sources.tables import seen_at

_ANSWER = """
    records array<struct<topic: string, `partition`: int, leader: int, networkInbound: double, networkOutbound: double,
        disk: double, msg_in: double>>,
    brokers array<struct<Host: string, Broker: int, DiskMB: double, CpuPct: double, NumCore: double,
        LeaderNwInRate: double, FollowerNwInRate: double, NwOutRate: double>>,
    progress array<string>, errorMessage string, _corrupt_record string
"""
_SOURCE = "cruise_control_load"


def read_cruise_control_load(spark: SparkSession, paths: Sequence[str], *, at: datetime | None = None) -> DataFrame:
    """Read answers. Grain: one row per file; records, brokers, file, seen (seconds since 1970), broken."""
    answers = spark.read.option("multiLine", "true").schema(_ANSWER).json(list(paths))
    broken = (
        F.when(F.col("_corrupt_record").isNotNull(), F.lit("not JSON: ask with json=true"))
        .when(F.col("errorMessage").isNotNull(), F.concat(F.lit("Cruise Control answered: "), "errorMessage"))
        .when(F.col("progress").isNotNull(), F.lit("Cruise Control had not finished (progress): ask again, or longer"))
        .when(
            F.col("records").isNull() & F.col("brokers").isNull(),
            F.lit("neither records (/partition_load) nor brokers (/load)"),
        )
    )
    file = F.col("_metadata.file_path")
    return answers.select("records", "brokers", file.alias("file"), seen_at(at).alias("seen"), broken.alias("broken"))


def partition_loads(answers: DataFrame, *, cluster: str, window_seconds: int) -> DataFrame:
    """Leaders' loads. Grain: one row per record, and one per file that is no answer; columns of `validation.RAW`.

    Args:
        window_seconds: The time that the means are of, which ends when the answer was asked for.
    """
    each = answers.where(F.col("broken").isNull()).select("file", "seen", F.explode("records").alias("one"))
    amount = partial(_amount, window_seconds)
    columns = {
        **_window(cluster, window_seconds), "topic": F.col("one.topic"), "partition": F.col("one.partition"),
        "broker_id": F.col("one.leader"), "role": F.lit(LEADER), "bytes_in": amount(F.col("one.networkInbound") * KIB),
        "bytes_out": amount(F.col("one.networkOutbound") * KIB), "messages_in": amount(F.col("one.msg_in")),
        "size_bytes": F.round(F.col("one.disk") * MIB).try_cast("bigint"),
    }  # fmt: skip
    flawed = {"source": F.lit(_SOURCE), "file": F.col("file"), "reader_rule": F.lit(FILE_RULE), "reader_detail": F.col("broken")}  # fmt: skip
    return as_raw(each, columns).unionByName(as_raw(answers.where(F.col("broken").isNotNull()), flawed))


def broker_stats(answers: DataFrame, *, cluster: str, window_seconds: int) -> DataFrame:
    """Loads of brokers.

    Grain: one row per broker of an answer; columns of `broker_samples` but for the batch's, and file, reader_rule,
    reader_detail.
    """
    each = answers.where(F.col("broken").isNull()).select("file", "seen", F.explode("brokers").alias("one"))
    columns = {
        **_window(cluster, window_seconds), "broker_id": F.col("one.Broker"), "host": F.col("one.Host"),
        "cpu": F.col("one.CpuPct") / 100, "processors": F.col("one.NumCore"),
        "bytes_in_rate": F.col("one.LeaderNwInRate") * KIB, "bytes_out_rate": F.col("one.NwOutRate") * KIB,
        "replication_bytes_in_rate": F.col("one.FollowerNwInRate") * KIB, "size_bytes": F.round(F.col("one.DiskMB") * MIB),
    }  # fmt: skip
    return as_broker_rows(each, columns)


def _amount(seconds: int, rate: Column) -> Column:
    return F.round(rate * seconds).try_cast("bigint")


def _window(cluster: str, seconds: int) -> dict[str, Column]:
    return {
        "cluster_id": F.lit(cluster),
        "window_start": F.timestamp_seconds(F.floor(F.col("seen") - seconds)),
        "window_seconds": F.lit(seconds),
        "source": F.lit(_SOURCE),
        "file": F.col("file"),
    }
