"""Tables about a cluster as a whole: quality of its data, when its disks are full, use by topic, anomalies, what-if."""

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

from shunter.pipeline.lake.schemas import Table, column

_CLUSTER = column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it")
_VERSION = column("schema_version", IntegerType(), "version of this table's schema")

DATA_QUALITY = Table(
    "data_quality",
    "one cluster on one day",
    ("cluster_id", "date"),
    StructType(
        [
            _CLUSTER,
            column("partitions", LongType(), "partitions with a sample or a snapshot on that day", unit="partitions"),
            column("with_rates", LongType(), "of these partitions, those with bytes in or out", unit="partitions"),
            column("coverage", DoubleType(), "share of the day for which rates are known, over all these partitions; the newest day counts until its newest window's end", unit="1"),
            column("windows", LongType(), "rows in `samples` on that day", unit="windows"),
            column("rejected", LongType(), "rows in `rejects` whose window is on that day", unit="rows"),
            column("snapshots", LongType(), "snapshots taken on that day", unit="snapshots"),
            column("rates_until", TimestampType(), "end of the newest window with a rate", unit="UTC", nullable=True),
            column("snapshot_at", TimestampType(), "when the newest snapshot of that day was taken", unit="UTC", nullable=True),
            _VERSION,
            column("date", DateType(), "the day", unit="UTC"),
        ]
    ),
    ("cluster_id", "date"),
)  # fmt: skip

RUNWAY = Table(
    "runway",
    "one broker or one topic, with the trend of its daily sizes",
    ("cluster_id", "kind", "name"),
    StructType(
        [
            _CLUSTER,
            column("kind", StringType(), "`broker` (all of its log dirs together) or `topic`"),
            column("name", StringType(), "the broker's id, or the topic's name"),
            column("size_bytes", LongType(), "size of the broker's or topic's logs on the newest day", unit="bytes"),
            column("growth_bytes_per_day", DoubleType(), "growth: the median of the slopes between days that are far apart; null with fewer than five days", unit="bytes/day", nullable=True),
            column("growth_low", DoubleType(), "10th percentile of those slopes", unit="bytes/day", nullable=True),
            column("growth_high", DoubleType(), "90th percentile of those slopes", unit="bytes/day", nullable=True),
            column("one_off_bytes", DoubleType(), "loads that arrived once; they do not count as growth", unit="bytes", nullable=True),
            column("room_bytes", DoubleType(), "free space less the headroom; for a topic: how much it can grow until the first of its brokers is full", unit="bytes", nullable=True),
            column("full_at", DateType(), "day on which the room is used up, for a topic by its own growth alone; null: never (within ten years), or not known", nullable=True),
            column("full_earliest", DateType(), "the same if the logs grow by `growth_high`", nullable=True),
            column("full_latest", DateType(), "the same if the logs grow by `growth_low`; null: perhaps never", nullable=True),
            column("days", LongType(), "number of days with a known size", unit="days"),
            column("held_back_error", DoubleType(), "error of a trend of the first three quarters of the days, held against the largest size of the rest: (predicted − real) ÷ real", unit="1", nullable=True),
            column("until", DateType(), "the newest day with a known size"),
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
            column("owner", StringType(), "the owner by the mapping file, where the first match counts; null: no pattern matches", nullable=True),
            column("days", LongType(), "days of that month with samples or snapshots of the topic", unit="days"),
            column("stored_bytes", DoubleType(), "size of all replicas together, mean of the days with a known size", unit="bytes", nullable=True),
            column("written_bytes", LongType(), "bytes that producers wrote, as far as they were measured", unit="bytes", nullable=True),
            column("read_bytes", LongType(), "bytes that consumers read, as far as they were measured", unit="bytes", nullable=True),
            column("cross_rack_bytes", LongType(), "bytes that followers outside the preferred leader's rack copied: bytes written × number of such followers", unit="bytes", nullable=True),
            column("idle", BooleanType(), "whether nothing was written; null: writes were not measured", nullable=True),
            _VERSION,
            column("month", DateType(), "the month's first day", unit="UTC"),
        ]
    ),
    ("cluster_id", "month"),
)  # fmt: skip

ANOMALIES = Table(
    "anomalies",
    "one finding: a figure of a day that differs from the days before. Each cluster also has one row of kind `looked`, for the newest day that was examined",
    ("cluster_id", "kind", "name", "date"),
    StructType(
        [
            _CLUSTER,
            column("kind", StringType(), "`hot-in`, `hot-out` (a partition's highest rate), `fan-out` (a topic's bytes out ÷ bytes in), `grows`, `shrinks` (a topic's or broker's size), `broker` (its own counters differ from the samples, or show it overloaded), `looked` (the cluster was examined)"),
            column("name", StringType(), "the partition, the topic, or `broker` and its id; empty for `looked`"),
            column("date", DateType(), "the day", unit="UTC"),
            column("value", DoubleType(), "the figure of that day", unit="bytes/s, 1 or bytes", nullable=True),
            column("usual", DoubleType(), "the same of the days before: their 90th percentile (`hot-in`, `hot-out`), their median (`fan-out`), or the most (`grows`) or least (`shrinks`) that their trend predicts", unit="bytes/s, 1 or bytes", nullable=True),
            column("what", StringType(), "the finding in words"),
            _VERSION,
        ]
    ),
    ("cluster_id",),
)  # fmt: skip

BROKER_WEEKS = Table(
    "broker_weeks",
    "one broker's week: the sum of the weeks of its replicas in the newest snapshot. Only clusters with a row in `shapes` have rows",
    ("cluster_id", "broker_id"),
    StructType(
        [
            _CLUSTER,
            column("broker_id", IntegerType(), "the broker"),
            column("receives", ArrayType(DoubleType(), False), "168 numbers, an hour each from Monday 00:00 UTC: bytes received from producers and leaders", unit="bytes/s"),
            column("sends", ArrayType(DoubleType(), False), "168 numbers, an hour each from Monday 00:00 UTC: bytes sent to consumers and followers, if every preferred leader leads", unit="bytes/s"),
            column("receives_peak", DoubleType(), "the highest number in `receives`", unit="bytes/s"),
            column("receives_at", IntegerType(), "the hour of that peak, 0 is Monday 00:00 UTC"),
            column("receives_p95", DoubleType(), "the sum of its partitions' 95th percentiles, even if they occur at different hours", unit="bytes/s"),
            column("sends_peak", DoubleType(), "the highest number in `sends`", unit="bytes/s"),
            column("sends_at", IntegerType(), "the hour of that peak, 0 is Monday 00:00 UTC"),
            column("sends_p95", DoubleType(), "the sum of its partitions' 95th percentiles, even if they occur at different hours", unit="bytes/s"),
            _VERSION,
        ]
    ),
    ("cluster_id",),
)  # fmt: skip

_QUESTION = (_CLUSTER, column("question_id", StringType(), "the question's id: the moment when it was asked"))


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
            column("message", StringType(), "why there is no answer, or what the answer assumes", nullable=True),
            column("seconds", DoubleType(), "duration of the planning", unit="s"),
            column("fits", BooleanType(), "whether every broker keeps the headroom, no replica stays on a lost broker, and every replication factor is reached", nullable=True),
            column("added", ArrayType(IntegerType()), "ids of the brokers that do not exist yet", nullable=True),
            column("lost", ArrayType(IntegerType()), "brokers of the racks that are lost", nullable=True),
            column("unavailable", LongType(), "partitions that have no replica left once these brokers are lost", unit="partitions", nullable=True),
            column("below_min_isr", LongType(), "partitions that then have a leader, but fewer replicas than min.insync.replicas", unit="partitions", nullable=True),
            column("examples", ArrayType(StringType()), "up to 20 of these partitions, the unavailable ones first", nullable=True),
            column("moves", LongType(), "replicas that the plan copies", unit="replicas", nullable=True),
            column("bytes_moved", DoubleType(), "size of the replicas that the plan copies", unit="bytes", nullable=True),
            column("bytes_percent", DoubleType(), "the same, in percent of all replicas' bytes", unit="%", nullable=True),
            column("copy_seconds", DoubleType(), "least time that the copies take at the rate in the question", unit="s", nullable=True),
            column("assignments", _struct(("topic", StringType()), ("partition", IntegerType()), ("replicas", ArrayType(IntegerType())), ("original_replicas", ArrayType(IntegerType())), ("elect", BooleanType())), "the plan's assignments, as in `plan_assignments`", nullable=True),
            column("undone", _struct(("what", StringType()), ("why", StringType())), "what the plan does not reach, and why not", nullable=True),
        ]
    ),
    ("cluster_id", "question_id"),
)  # fmt: skip

PROCESSOR_MODEL = Table(
    "processor_model",
    "one broker: how busy its processors are, explained by costs that all brokers of the cluster share",
    ("cluster_id", "broker_id"),
    StructType(
        [
            _CLUSTER,
            column("broker_id", IntegerType(), "the broker"),
            column("windows", LongType(), "its windows that the costs were fitted to: those in the first three quarters of the cluster's windows", unit="windows"),
            column("held_back_windows", LongType(), "its later windows, which the error was measured over", unit="windows"),
            column("processors", DoubleType(), "number of its processors, if the source reports it", unit="processors", nullable=True),
            column("power", DoubleType(), "capacity of its processors; 1 is an average broker's", unit="1"),
            column("fitted_powers", BooleanType(), "whether powers were fitted to the counters; if not, they follow from the numbers of processors, or are all equal"),
            column("idling", DoubleType(), "work of a broker without traffic; 1 is all that an average broker can do", unit="brokers"),
            column("received_cost", DoubleType(), "work of receiving 1 MB/s, as leader or follower", unit="brokers"),
            column("led_cost", DoubleType(), "additional work if that 1 MB/s comes from producers", unit="brokers"),
            column("sent_cost", DoubleType(), "work of sending 1 MB/s to consumers or followers", unit="brokers"),
            column("cpu_mean", DoubleType(), "share of its processors that was busy, by its own counter: mean over all its windows", unit="1"),
            column("modelled_mean", DoubleType(), "the same by the model: mean over the same windows", unit="1"),
            column("error", DoubleType(), "root mean square error of the model over its held-back windows", unit="1", nullable=True),
            column("cluster_error", DoubleType(), "root mean square error over the held-back windows of all brokers, divided by their mean", unit="1"),
            column("usable", BooleanType(), "whether plans balance processors by this model: `cluster_error` is at most 0.25, and some traffic has a cost"),
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
            column("capacity", DoubleType(), "what the broker has of the resource", unit="bytes, bytes/s or average brokers"),
            column("before", DoubleType(), "share of the capacity that is used in the changed cluster, before the plan", unit="1"),
            column("stood_in", DoubleType(), "the same once racks are lost and before anything is copied; null if no rack is lost", unit="1", nullable=True),
            column("after", DoubleType(), "the same after the plan", unit="1"),
        ]
    ),
    ("cluster_id", "question_id"),
)  # fmt: skip
