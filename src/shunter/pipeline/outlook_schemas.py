"""The tables that look at a cluster as a whole and ahead: how good its data is, when it is full, who uses what."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
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

ANOMALIES = Table(
    "anomalies",
    "one thing of a day that is not as it was; and for each cluster one row of kind `looked`, for the newest day that was looked at",
    ("cluster_id", "kind", "name", "date"),
    StructType(
        [
            _CLUSTER,
            column("kind", StringType(), "`hot-in`, `hot-out` (a partition's highest rate), `fan-out` (a topic's bytes out ÷ bytes in), `grows`, `shrinks` (a topic's or broker's size), `broker` (its own counters say otherwise), `looked`"),
            column("name", StringType(), "the partition, the topic, or `broker` and its id; empty for `looked`"),
            column("date", DateType(), "the day", unit="UTC"),
            column("value", DoubleType(), "what was seen", unit="bytes/s, 1 or bytes", nullable=True),
            column("usual", DoubleType(), "the most (of `shrinks`: the least) that the days before let expect", unit="bytes/s, 1 or bytes", nullable=True),
            column("what", StringType(), "the same in words"),
            _VERSION,
        ]
    ),
    ("cluster_id",),
)  # fmt: skip

BROKER_WEEKS = Table(
    "broker_weeks",
    "one broker's week, as the weeks of its replicas in the newest snapshot add up; where at least one of the lake's has a shape",
    ("cluster_id", "broker_id"),
    StructType(
        [
            _CLUSTER,
            column("broker_id", IntegerType(), "the broker"),
            column("receives", ArrayType(DoubleType(), False), "168 numbers from Monday 00:00 UTC: from producers and leaders", unit="bytes/s"),
            column("sends", ArrayType(DoubleType(), False), "168 numbers from Monday 00:00 UTC: to consumers and followers, if it leads where it is preferred", unit="bytes/s"),
            column("receives_peak", DoubleType(), "the busiest hour's: the peak of the sum", unit="bytes/s"),
            column("receives_at", IntegerType(), "that hour, 0 is Monday 00:00 UTC"),
            column("receives_p95", DoubleType(), "the sum of its partitions' 95th percentiles, whenever each of them has it", unit="bytes/s"),
            column("sends_peak", DoubleType(), "the busiest hour's", unit="bytes/s"),
            column("sends_at", IntegerType(), "that hour"),
            column("sends_p95", DoubleType(), "the sum of its partitions' 95th percentiles", unit="bytes/s"),
            _VERSION,
        ]
    ),
    ("cluster_id",),
)  # fmt: skip

_QUESTION = (_CLUSTER, column("question_id", StringType(), "the question: its moment"))


def _struct(*fields: tuple[str, DataType]) -> ArrayType:
    return ArrayType(StructType([StructField(name, kind) for name, kind in fields]))


WHAT_IF = Table(
    "what_if",
    "one cluster's answer to a what-if question",
    ("cluster_id", "question_id"),
    StructType(
        [
            *_QUESTION,
            column("status", StringType(), "planned, failed or timed_out"),
            column("message", StringType(), "why there is no answer", nullable=True),
            column("seconds", DoubleType(), "what planning took", unit="s"),
            column("fits", BooleanType(), "whether every broker keeps the headroom, nothing stays on lost ones, and every replication factor is reached", nullable=True),
            column("added", ArrayType(IntegerType()), "ids of the brokers that do not exist yet", nullable=True),
            column("lost", ArrayType(IntegerType()), "brokers of the racks that are lost", nullable=True),
            column("unavailable", LongType(), "partitions without a replica, once those are lost", unit="partitions", nullable=True),
            column("below_min_isr", LongType(), "partitions with a leader and fewer replicas than min.insync.replicas then", unit="partitions", nullable=True),
            column("examples", ArrayType(StringType()), "some of both, the first kind first", nullable=True),
            column("moves", LongType(), "replicas that are copied to get there", unit="replicas", nullable=True),
            column("bytes_moved", DoubleType(), "their size", unit="bytes", nullable=True),
            column("bytes_percent", DoubleType(), "the same, of all replicas' bytes", unit="%", nullable=True),
            column("copy_seconds", DoubleType(), "the time that copying takes at least, at the rate that was asked about", unit="s", nullable=True),
            column("assignments", _struct(("topic", StringType()), ("partition", IntegerType()), ("replicas", ArrayType(IntegerType())), ("original_replicas", ArrayType(IntegerType()))), "the plan to get there, as in `plan_assignments`", nullable=True),
            column("undone", _struct(("what", StringType()), ("why", StringType())), "what is not reached, and why not", nullable=True),
        ]
    ),
    ("cluster_id", "question_id"),
)  # fmt: skip

PROCESSOR_MODEL = Table(
    "processor_model",
    "one broker, and what its processors are busy with, by the costs that its cluster's brokers share",
    ("cluster_id", "broker_id"),
    StructType(
        [
            _CLUSTER,
            column("broker_id", IntegerType(), "the broker"),
            column("windows", LongType(), "windows that the costs were found from: the first three quarters of the cluster's time", unit="windows"),
            column("held_back_windows", LongType(), "windows that the error was measured over", unit="windows"),
            column("processors", DoubleType(), "how many it has, where somebody says", unit="processors", nullable=True),
            column("power", DoubleType(), "how much its processors get done, in parts of an average broker's", unit="1"),
            column("fitted_powers", BooleanType(), "whether powers follow from the counters; else from the numbers of processors, or all are alike"),
            column("idling", DoubleType(), "work of a broker that does nothing, in average brokers", unit="brokers"),
            column("received_cost", DoubleType(), "work of receiving 1 MB/s, as leader or follower", unit="brokers"),
            column("led_cost", DoubleType(), "work on top of it, where it comes from producers", unit="brokers"),
            column("sent_cost", DoubleType(), "work of sending 1 MB/s to consumers or followers", unit="brokers"),
            column("cpu_mean", DoubleType(), "how busy it was by its own counter: mean", unit="1"),
            column("modelled_mean", DoubleType(), "how busy it was by the model: mean over the same windows", unit="1"),
            column("error", DoubleType(), "root of the mean square by which the model missed its held-back windows", unit="1", nullable=True),
            column("cluster_error", DoubleType(), "the same over all brokers, in parts of their mean", unit="1"),
            column("usable", BooleanType(), "whether plans aim at processors by it: the cluster's error is a quarter or less"),
            _VERSION,
        ]
    ),
    ("cluster_id",),
)  # fmt: skip

WHAT_IF_FILLS = Table(
    "what_if_fills",
    "one capacity of one broker in the answer to a what-if question",
    ("cluster_id", "question_id", "broker", "resource"),
    StructType(
        [
            *_QUESTION,
            column("broker", IntegerType(), "the broker"),
            column("rack", StringType(), "its rack"),
            column("resource", StringType(), "`disk`, `bytes in`, `bytes out` or `processors`"),
            column("capacity", DoubleType(), "what it has", unit="bytes, bytes/s or average brokers"),
            column("before", DoubleType(), "share of it that is used, in the changed cluster", unit="1"),
            column("stood_in", DoubleType(), "the same when racks are lost and nothing is copied yet", unit="1", nullable=True),
            column("after", DoubleType(), "the same after the plan", unit="1"),
        ]
    ),
    ("cluster_id", "question_id"),
)  # fmt: skip
