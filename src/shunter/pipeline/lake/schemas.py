"""The tables of the pipeline: columns, units, grain, keys. `scripts/document-data` renders docs/data.md from them.

Every column carries its unit and its meaning as metadata, which Delta keeps beside the data.
"""

from __future__ import annotations

from dataclasses import dataclass

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

SCHEMA_VERSION = 1

LEADER = "leader"
FOLLOWER = "follower"
UNKNOWN_ROLE = "unknown"
ROLES = (LEADER, FOLLOWER, UNKNOWN_ROLE)

SNAPSHOTS = "snapshots"
"""Kind of the batches that hold snapshots of clusters and the samples derived from them."""

REPLICA_KEY = ("cluster_id", "topic_id", "partition", "broker_id", "role")
SAMPLE_KEY = (*REPLICA_KEY, "window_start")
AMOUNTS = ("bytes_in", "bytes_out", "messages_in")
MEASURES = (*AMOUNTS, "size_bytes")


def column(name: str, kind: DataType, comment: str, *, unit: str = "", nullable: bool = False) -> StructField:
    """Describe a column; `unit` is empty where there is none."""
    metadata = {"comment": comment, "unit": unit} if unit else {"comment": comment}
    return StructField(name, kind, nullable, metadata)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, what one row is, the columns that identify it, all columns, and those that become folders."""

    name: str
    grain: str
    key: tuple[str, ...]
    schema: StructType
    partitions: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(self.schema.fieldNames())


_IDENTITY = (
    column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
    column("topic_id", StringType(), "Kafka's topic id; `name:` and the topic's name if the id is not known"),
    column("topic", StringType(), "the topic's name at that time"),
    column("partition", IntegerType(), "partition number"),
    column("broker_id", IntegerType(), "the broker that holds this replica"),
    column("role", StringType(), "leader, follower, or unknown where the source does not say"),
)
_WINDOW = (
    column("window_start", TimestampType(), "start of the window", unit="UTC"),
    column("window_seconds", IntegerType(), "time that was measured within the window", unit="s"),
)
_MEASURES = (
    column("bytes_in", LongType(), "bytes written to this replica in the window", unit="bytes", nullable=True),
    column("bytes_out", LongType(), "bytes read by consumers in the window", unit="bytes", nullable=True),
    column("messages_in", LongType(), "records written in the window", unit="records", nullable=True),
    column("size_bytes", LongType(), "size of the log at the window's end", unit="bytes", nullable=True),
)
_VERSION = column("schema_version", IntegerType(), "version of this table's schema")
_DATE = column("date", DateType(), "the window's day", unit="UTC", nullable=True)

SAMPLES = Table(
    "samples",
    "one replica in one window, as it was measured",
    SAMPLE_KEY,
    StructType(
        [
            *_IDENTITY,
            *_WINDOW,
            *_MEASURES,
            column("source", StringType(), "the reader that made the row"),
            column("file", StringType(), "the file that the row came from, or topic-partition@offset", nullable=True),
            _VERSION,
            _DATE,
            column("ingest_id", StringType(), "the batch that brought the row, see `batches`"),
        ]
    ),
    ("cluster_id", "date"),
)

REJECTS = Table(
    "rejects",
    "one row that was put aside, with the rule that it breaks",
    (),
    StructType(
        [
            *(StructField(field.name, field.dataType, True, field.metadata) for field in SAMPLES.schema),
            column("rule", StringType(), "the rule that the row breaks"),
            column("detail", StringType(), "the value, the rule and the place, in words", nullable=True),
        ]
    ),
    ("cluster_id", "date"),
)


def _rollup(name: str, grain: str) -> Table:
    return Table(
        name,
        grain,
        SAMPLE_KEY,
        StructType(
            [
                *_IDENTITY,
                *_WINDOW,
                *_MEASURES,
                column(
                    "bytes_in_peak",
                    DoubleType(),
                    "highest rate of any sample in the row",
                    unit="bytes/s",
                    nullable=True,
                ),
                column(
                    "bytes_out_peak",
                    DoubleType(),
                    "highest rate of any sample in the row",
                    unit="bytes/s",
                    nullable=True,
                ),
                column(
                    "messages_in_peak",
                    DoubleType(),
                    "highest rate of any sample in the row",
                    unit="records/s",
                    nullable=True,
                ),
                column("windows", LongType(), "number of samples in the row"),
                _VERSION,
                _DATE,
            ]
        ),
        ("cluster_id", "date"),
    )


HOURLY = _rollup("hourly", "one replica in one hour")
DAILY = _rollup("daily", "one replica in one day")


def _listed(name: str, meaning: str, *fields: StructField) -> StructField:
    return column(name, ArrayType(StructType(list(fields)) if fields else StringType(), False), meaning)


BATCHES = Table(
    "batches",
    "one commit. A row of a table with an `ingest_id` counts only if that batch is here, and no later batch names it in `supersedes`",
    ("ingest_id",),
    StructType(
        [
            column("version", LongType(), "the commit's number: 1, 2, 3 …"),
            column(
                "ingest_id",
                StringType(),
                "the batch: a hash of its inputs, a stream's query and number, or the name of the maintenance; then when the attempt began, and a random mark",
            ),
            column("kind", StringType(), "the name of the reader, or `stream`, `compaction`, `retention`, `clean`"),
            _listed(
                "files",
                "inputs, each with a hash of its contents, or its length and time if the contents can't be read locally; `length` in bytes",
                StructField("path", StringType()),
                StructField("fingerprint", StringType()),
                StructField("length", LongType()),
            ),
            column("good", LongType(), "good rows that it brought into `samples`"),
            column("rejected", LongType(), "rejected rows that it brought into `samples`"),
            _listed(
                "rules", "rejected rows by rule", StructField("rule", StringType()), StructField("rows", LongType())
            ),
            _listed("clusters", "clusters of the good rows"),
            column("since", TimestampType(), "start of the first window of the good rows", unit="UTC", nullable=True),
            column("until", TimestampType(), "end of the last window of the good rows", unit="UTC", nullable=True),
            column("longest", IntegerType(), "the longest window of the good rows; 0: there are none", unit="s"),
            column(
                "watermark", TimestampType(), "newest window start seen by a stream so far", unit="UTC", nullable=True
            ),
            column("keep_from", DateType(), "raw rows of days before this one were deleted", nullable=True),
            _listed("supersedes", "batches whose rows this batch replaces"),
            _listed("tables", "tables in which the batch has rows"),
            column(
                "stream",
                StructType(
                    [
                        StructField("query", StringType()),
                        StructField("number", LongType()),
                    ]
                ),
                "of a stream: its query, and the number of the micro-batch",
                nullable=True,
            ),
            _listed("forfeits", "attempts whose rows are deleted, so that they can't be committed"),
            column("committed_at", TimestampType(), "when it was committed", unit="UTC"),
            column(
                "rolled_to", LongType(), "the commit up to which all rows are in `hourly` and `daily`; 0: not known"
            ),
            _VERSION,
        ]
    ),
)

REPLICAS = Table(
    "replicas",
    "one replica in one snapshot of a cluster",
    ("cluster_id", "taken_at", "topic", "partition", "broker_id"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("taken_at", TimestampType(), "when the snapshot was taken", unit="UTC"),
            column("topic_id", StringType(), "Kafka's topic id; `name:` and the topic's name if the id is not known"),
            column("topic", StringType(), "the topic's name"),
            column("partition", IntegerType(), "partition number"),
            column("broker_id", IntegerType(), "the broker that holds this replica"),
            column("position", IntegerType(), "place in the assignment; 0 is the preferred leader"),
            column("is_leader", BooleanType(), "whether this replica was the leader"),
            column("in_sync", BooleanType(), "whether this replica was in sync"),
            column("offline", BooleanType(), "whether its broker was dead or its log dir had failed", nullable=True),
            column("size_bytes", LongType(), "size of this replica's log", unit="bytes", nullable=True),
            column("start_offset", LongType(), "first offset of the leader's log", unit="records", nullable=True),
            column("end_offset", LongType(), "end offset of the leader's log", unit="records", nullable=True),
            column("min_insync", IntegerType(), "min.insync.replicas of the topic", nullable=True),
            column(
                "cleanup_policy",
                StringType(),
                "cleanup.policy of the topic; null: the snapshot does not say",
                nullable=True,
            ),
            column("date", DateType(), "day of the snapshot", unit="UTC"),
            column("ingest_id", StringType(), "the batch that brought the row, see `batches`"),
        ]
    ),
    ("cluster_id", "date"),
)

BROKERS = Table(
    "brokers",
    "one broker in one snapshot of a cluster",
    ("cluster_id", "taken_at", "broker_id"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("taken_at", TimestampType(), "when the snapshot was taken", unit="UTC"),
            column("broker_id", IntegerType(), "the broker"),
            column("rack", StringType(), "the broker's rack; null if none is configured", nullable=True),
            column("host", StringType(), "the broker's advertised host", nullable=True),
            column(
                "disk_total_bytes", LongType(), "size of the log dirs' disks (KIP-827)", unit="bytes", nullable=True
            ),
            column("disk_usable_bytes", LongType(), "free space on these disks (KIP-827)", unit="bytes", nullable=True),
            column("facts", StringType(), "what else was known of it, and each log dir, as JSON", nullable=True),
            column("date", DateType(), "day of the snapshot", unit="UTC"),
            column("ingest_id", StringType(), "the batch that brought the row, see `batches`"),
        ]
    ),
    ("cluster_id", "date"),
)


def _rate(name: str, unit: str, meaning: str, *, nullable: bool = False) -> StructField:
    return column(name, DoubleType(), meaning, unit=unit, nullable=nullable)


def _latencies(name: str, what: str) -> list[StructField]:
    return [
        _rate(f"{name}_ms_mean", "ms", f"{what}: mean", nullable=True),
        _rate(f"{name}_ms_max", "ms", f"{what}: longest", nullable=True),
        _rate(f"{name}_ms_p999", "ms", f"{what}: 99.9th percentile", nullable=True),
    ]


BROKER_SAMPLES = Table(
    "broker_samples",
    "one broker in one window, by its own counters (Cruise Control's broker samples, Prometheus' series without a topic)",
    ("cluster_id", "broker_id", "window_start"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("broker_id", IntegerType(), "the broker"),
            column("host", StringType(), "the broker's host, if the source names it", nullable=True),
            *_WINDOW,
            _rate("cpu", "1", "share of the machine's processors that the broker's process used", nullable=True),
            _rate("processors", "processors", "how many processors the machine has", nullable=True),
            _rate("bytes_in_rate", "bytes/s", "bytes written by producers", nullable=True),
            _rate("bytes_out_rate", "bytes/s", "bytes read by consumers", nullable=True),
            _rate("replication_bytes_in_rate", "bytes/s", "bytes fetched from leaders", nullable=True),
            _rate("replication_bytes_out_rate", "bytes/s", "bytes fetched by followers", nullable=True),
            _rate("messages_in_rate", "records/s", "records written by producers", nullable=True),
            column("size_bytes", LongType(), "size of all logs on the broker", unit="bytes", nullable=True),
            _rate("produce_requests_rate", "requests/s", "requests of producers", nullable=True),
            _rate("fetch_requests_rate", "requests/s", "requests of consumers", nullable=True),
            _rate("follower_fetch_requests_rate", "requests/s", "requests of followers", nullable=True),
            _rate("handler_idle", "1", "share of the time in which request handlers had nothing to do", nullable=True),
            column("request_queue", IntegerType(), "requests in the queue", unit="requests", nullable=True),
            column("response_queue", IntegerType(), "responses in the queue", unit="responses", nullable=True),
            *_latencies("produce", "total time of a produce request"),
            *_latencies("fetch", "total time of a consumer's fetch request"),
            *_latencies("flush", "time of a log flush"),
            column("source", StringType(), "the reader that made the row"),
            _VERSION,
            _DATE,
            column("ingest_id", StringType(), "the batch that brought the row, see `batches`"),
        ]
    ),
    ("cluster_id", "date"),
)


def _rates(name: str, unit: str, meaning: str) -> list[StructField]:
    return [
        column(f"{name}_{statistic}", DoubleType(), f"{meaning}: {words}", unit=unit, nullable=True)
        for statistic, words in (
            ("mean", "mean over the measured time"),
            ("p50", "median of the windows"),
            ("p95", "95th percentile of the windows"),
            ("p99", "99th percentile of the windows"),
            ("max", "maximum of the windows"),
        )
    ]


LOAD_MODEL = Table(
    "load_model",
    "one replica in one role",
    REPLICA_KEY,
    StructType(
        [
            *_IDENTITY,
            column("basis", StringType(), "`rates` where windows with rates exist, else `sizes`"),
            column("windows", LongType(), "number of windows with a rate", unit="windows"),
            column("first_window", TimestampType(), "start of the first window", unit="UTC"),
            column("last_window", TimestampType(), "start of the last window", unit="UTC"),
            column("covered_seconds", LongType(), "total length of the windows with a rate", unit="s"),
            column("coverage", DoubleType(), "share of the time from the first to the last window that has a rate"),
            *_rates("bytes_in", "bytes/s", "bytes written to this replica"),
            *_rates("bytes_out", "bytes/s", "bytes read by consumers"),
            *_rates("messages_in", "records/s", "records written"),
            column("size_bytes", LongType(), "latest known size of the log", unit="bytes", nullable=True),
            column("size_p95", DoubleType(), "95th percentile of the log's size", unit="bytes", nullable=True),
            column("size_max", LongType(), "largest size of the log", unit="bytes", nullable=True),
            column(
                "growth_bytes_per_day",
                DoubleType(),
                "slope of the log's size by least squares; null if the windows span less than six hours",
                unit="bytes/day",
                nullable=True,
            ),
            column(
                "confidence",
                DoubleType(),
                "how far to trust this row, 0 to 1: coverage × (1 − 0.99^windows) × min(1, days / 7); 0 if the basis is `sizes`",
            ),
            _VERSION,
        ]
    ),
    ("cluster_id",),
)


def _peaks(name: str, unit: str, meaning: str) -> list[StructField]:
    return [
        _rate(f"{name}_{statistic}", unit, f"{meaning}: {words}", nullable=True)
        for statistic, words in (
            ("mean", "mean"),
            ("p95", "95th percentile of the windows"),
            ("max", "maximum of the windows"),
        )
    ]


BROKER_LOADS = Table(
    "broker_loads",
    "one broker: its load by its own counters, and the share of it that the samples of its partitions explain",
    ("cluster_id", "broker_id"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("broker_id", IntegerType(), "the broker"),
            column("windows", LongType(), "number of its windows in `broker_samples`", unit="windows"),
            column("first_window", TimestampType(), "start of the first window", unit="UTC"),
            column("last_window", TimestampType(), "start of the last window", unit="UTC"),
            *_peaks("cpu", "1", "share of the machine's processors that the broker used"),
            *_peaks("bytes_in", "bytes/s", "bytes received from producers and leaders"),
            *_peaks("bytes_out", "bytes/s", "bytes sent to consumers and followers"),
            _rate("handler_idle_p05", "1", "share of idle request handlers: 5th percentile of the windows", nullable=True),
            column("size_bytes", LongType(), "latest known size of all logs on the broker", unit="bytes", nullable=True),
            column("compared_windows", LongType(), "number of its windows for which there are samples of its partitions too", unit="windows"),
            _rate("explained_bytes_in", "1", "in the compared windows: bytes in of the partitions that it led ÷ bytes that producers wrote by its own counter", nullable=True),
            _rate("explained_bytes_out", "1", "in the compared windows: bytes out of the partitions that it led ÷ bytes that consumers read by its own counter", nullable=True),
            _VERSION,
        ]
    ),
    ("cluster_id",),
)  # fmt: skip

SHAPES = Table(
    "shapes",
    "one replica in one role, if its windows span at least two weeks",
    REPLICA_KEY,
    StructType(
        [
            *_IDENTITY,
            column(
                "bytes_in_by_hour_of_week",
                ArrayType(DoubleType(), True),
                "168 numbers, an hour each from Monday 00:00 UTC: rate in that hour ÷ mean rate; null if the hour was never measured",
                unit="1",
            ),
            column(
                "bytes_out_by_hour_of_week",
                ArrayType(DoubleType(), True),
                "168 numbers, an hour each from Monday 00:00 UTC: rate in that hour ÷ mean rate; null if the hour was never measured",
                unit="1",
            ),
            column("weeks", DoubleType(), "time from the first to the last window", unit="weeks"),
            _VERSION,
        ]
    ),
    ("cluster_id",),
)
