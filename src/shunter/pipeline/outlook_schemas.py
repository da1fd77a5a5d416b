"""The tables that look at a cluster as a whole and ahead: how good its data is, when it is full, who uses what."""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from shunter.pipeline.schemas import Table, column

_CLUSTER = column("cluster_id", StringType(), "the cluster, as Kafka names itself")
_VERSION = column("schema_version", IntegerType(), "version of this table's schema")

DATA_QUALITY = Table(
    "data_quality",
    "one cluster on one day",
    ("cluster_id", "date"),
    StructType(
        [
            _CLUSTER,
            column("partitions", LongType(), "partitions that samples or snapshots of that day tell of", unit="partitions"),
            column("with_rates", LongType(), "of these, those with bytes in or out", unit="partitions"),
            column("coverage", DoubleType(), "share of those partitions' day (of today: until the newest window's end) that has a rate", unit="1"),
            column("windows", LongType(), "rows in `samples`", unit="windows"),
            column("rejected", LongType(), "rows in `rejects` whose window is of that day", unit="rows"),
            column("snapshots", LongType(), "snapshots of that day", unit="snapshots"),
            column("rates_until", TimestampType(), "end of the newest window with a rate", unit="UTC", nullable=True),
            column("snapshot_at", TimestampType(), "the newest snapshot of that day", unit="UTC", nullable=True),
            _VERSION,
            column("date", DateType(), "the day", unit="UTC"),
        ]
    ),
    ("cluster_id", "date"),
)  # fmt: skip

RUNWAY = Table(
    "runway",
    "one broker, or one topic, by the newest sizes",
    ("cluster_id", "kind", "name"),
    StructType(
        [
            _CLUSTER,
            column("kind", StringType(), "`broker` (all of its log dirs together) or `topic`"),
            column("name", StringType(), "the broker's id, or the topic's name"),
            column("size_bytes", LongType(), "size of its logs on the newest day", unit="bytes"),
            column("growth_bytes_per_day", DoubleType(), "median of the slopes between days far apart; null below five days", unit="bytes/day", nullable=True),
            column("growth_low", DoubleType(), "10th percentile of those slopes", unit="bytes/day", nullable=True),
            column("growth_high", DoubleType(), "90th percentile of those slopes", unit="bytes/day", nullable=True),
            column("one_off_bytes", DoubleType(), "loads that came once, and are no growth", unit="bytes", nullable=True),
            column("room_bytes", DoubleType(), "free room less the headroom; of a topic: on that of its brokers which it fills first", unit="bytes", nullable=True),
            column("full_at", DateType(), "day on which the room is used up; of a topic: by its growth alone; null: never, or not known", nullable=True),
            column("full_earliest", DateType(), "the same by `growth_high`", nullable=True),
            column("full_latest", DateType(), "the same by `growth_low`; null: perhaps never", nullable=True),
            column("days", LongType(), "days with a size", unit="days"),
            column("held_back_error", DoubleType(), "a trend of the first three quarters of the days missed the rest by this share of the size", unit="1", nullable=True),
            column("until", DateType(), "the newest day with a size"),
            _VERSION,
        ]
    ),
    ("cluster_id",),
)  # fmt: skip

SHOWBACK = Table(
    "showback",
    "one topic in one month",
    ("cluster_id", "month", "topic"),
    StructType(
        [
            _CLUSTER,
            column("topic", StringType(), "the topic's name"),
            column("prefix", StringType(), "the name up to the first dot, dash or underscore"),
            column("owner", StringType(), "by the mapping file, first match first; null: nobody's", nullable=True),
            column("days", LongType(), "days of that month with samples or snapshots of it", unit="days"),
            column("stored_bytes", DoubleType(), "all replicas together, mean of those days", unit="bytes", nullable=True),
            column("written_bytes", LongType(), "what producers wrote, as far as it was measured", unit="bytes", nullable=True),
            column("read_bytes", LongType(), "what consumers read, as far as it was measured", unit="bytes", nullable=True),
            column("cross_rack_bytes", LongType(), "of what was written, what followers in other racks than the leader's copied", unit="bytes", nullable=True),
            column("idle", BooleanType(), "whether nothing was written though it was measured; null: not measured", nullable=True),
            _VERSION,
            column("month", DateType(), "the month's first day", unit="UTC"),
        ]
    ),
    ("cluster_id", "month"),
)  # fmt: skip
