"""Tables of plans, schedules, journals and accounts, built from the parts that `schemas` defines."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from shunter.pipeline.lake.schemas import Table, column

_PLAN_KEY = (
    column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
    column("plan_id", StringType(), "the plan's id: the moment and the scope"),
)
_PARTITION = (
    column("topic", StringType(), "the topic's name"),
    column("partition", IntegerType(), "partition number"),
)

PLANS = Table(
    "plans",
    "one cluster in one plan",
    ("cluster_id", "plan_id"),
    StructType(
        [
            *_PLAN_KEY,
            column("status", StringType(), "planned, failed or timed_out"),
            column("message", StringType(), "why there is no plan, or what the plan assumes", nullable=True),
            column("seconds", DoubleType(), "duration of the planning", unit="s"),
            column("partitions", LongType(), "partitions that the plan considered", nullable=True),
            column("bytes_moved", DoubleType(), "bytes that the plan copies", unit="bytes", nullable=True),
            column(
                "bytes_percent", DoubleType(), "the same, in percent of all replicas' bytes", unit="%", nullable=True
            ),
            column(
                "bound_percent",
                DoubleType(),
                "lower bound of what any plan copies, by disk or counts alone, in percent of all replicas' bytes",
                unit="%",
                nullable=True,
            ),
            column(
                "joint_bound_percent",
                DoubleType(),
                "the same bound by disk, replicas and leaders together; null if not asked for, or if no plan reaches all bands",
                unit="%",
                nullable=True,
            ),
            column("leader_changes", LongType(), "partitions whose preferred leader changes", nullable=True),
            column("with_rates", LongType(), "partitions whose bytes in or out were known", nullable=True),
            column("rates_until", TimestampType(), "start of the newest window with a rate", unit="UTC", nullable=True),
            column(
                "model_version",
                LongType(),
                "Delta's version of `load_model` that the plan was made from",
                nullable=True,
            ),
            column("model_at", TimestampType(), "when that version was written", unit="UTC", nullable=True),
            column(
                "snapshot_at",
                TimestampType(),
                "when the snapshot that the plan was made from was taken",
                unit="UTC",
                nullable=True,
            ),
        ]
    ),
    ("cluster_id", "plan_id"),
)

PLAN_MOVES = Table(
    "plan_moves",
    "one replica that a plan copies",
    ("cluster_id", "plan_id", "topic", "partition", "target"),
    StructType(
        [
            *_PLAN_KEY,
            *_PARTITION,
            column(
                "source",
                IntegerType(),
                "the broker whose replica the copy replaces; null if it replaces none",
                nullable=True,
            ),
            column("target", IntegerType(), "the broker that gets the copy"),
            column("bytes", DoubleType(), "size of the replica", unit="bytes"),
            column("reason", StringType(), "why the plan copies it"),
        ]
    ),
    ("cluster_id", "plan_id"),
)

PLAN_ASSIGNMENTS = Table(
    "plan_assignments",
    "one partition that a plan changes",
    ("cluster_id", "plan_id", "topic", "partition"),
    StructType(
        [
            *_PLAN_KEY,
            *_PARTITION,
            column("replicas", ArrayType(IntegerType()), "the brokers that shall hold it, in order"),
            column(
                "original_replicas",
                ArrayType(IntegerType()),
                "the brokers that held it when the plan was made, in order; null without a snapshot",
                nullable=True,
            ),
            column("elect", BooleanType(), "whether the first of `replicas` is to be elected leader", nullable=True),
        ]
    ),
    ("cluster_id", "plan_id"),
)

PLAN_LOADS = Table(
    "plan_loads",
    "one resource of one broker in one plan",
    ("cluster_id", "plan_id", "broker", "resource"),
    StructType(
        [
            *_PLAN_KEY,
            column("broker", IntegerType(), "the broker"),
            column("rack", StringType(), "the broker's rack"),
            column(
                "resource",
                StringType(),
                "disk, bytes in, bytes out, processors (in average brokers), replicas, leaders, leaders' bytes in",
            ),
            column("before", DoubleType(), "load before the plan, in the resource's own unit"),
            column("after", DoubleType(), "load after the plan, in the resource's own unit"),
        ]
    ),
    ("cluster_id", "plan_id"),
)

PLAN_UNDONE = Table(
    "plan_undone",
    "one thing that a plan does not reach",
    (),
    StructType(
        [
            *_PLAN_KEY,
            column("what", StringType(), "what was asked"),
            column("why", StringType(), "why the plan does not reach it"),
        ]
    ),
    ("cluster_id", "plan_id"),
)

SCHEDULES = Table(
    "schedules",
    "one schedule of one plan under one scenario",
    ("cluster_id", "plan_id", "scenario"),
    StructType(
        [
            *_PLAN_KEY,
            column("scenario", StringType(), "`as planned`, `traffic x f`, or `without broker n`"),
            column(
                "rate",
                DoubleType(),
                "rate at which each broker can send and receive copies; the lowest if brokers differ",
                unit="bytes/s",
            ),
            column("concurrency", IntegerType(), "most copies that one broker sends, and receives, at once"),
            column("seconds_low", DoubleType(), "expected duration: fast end of the interval", unit="s", nullable=True),
            column(
                "seconds",
                DoubleType(),
                "expected duration; null if the schedule would never end",
                unit="s",
                nullable=True,
            ),
            column(
                "seconds_high", DoubleType(), "expected duration: slow end of the interval", unit="s", nullable=True
            ),
            column(
                "bytes",
                DoubleType(),
                "bytes that are copied, with those that arrive meanwhile",
                unit="bytes",
                nullable=True,
            ),
            column("rests_on", StringType(), "where the rate comes from"),
            column("warning", StringType(), "why copies wait, or never end", nullable=True),
            column(
                "quiet_in_hours",
                IntegerType(),
                "hours from now until the moment when the moves disturb least; null without `broker_weeks`",
                unit="h",
                nullable=True,
            ),
            column(
                "quiet_share",
                DoubleType(),
                "if the moves begin at that moment: the largest share of its capacity that a broker carries in any hour. Without a given capacity, the share is of the busiest broker's busiest hour plus the rate",
                unit="1",
                nullable=True,
            ),
            column("now_share", DoubleType(), "the same if the moves begin now", unit="1", nullable=True),
            column("quiet", StringType(), "both shares in words", nullable=True),
        ]
    ),
    ("cluster_id", "plan_id"),
)

SCHEDULE_MOVES = Table(
    "schedule_moves",
    "one copied replica in one schedule",
    ("cluster_id", "plan_id", "scenario", "topic", "partition", "target"),
    StructType(
        [
            *_PLAN_KEY,
            column("scenario", StringType(), "as in `schedules`"),
            *_PARTITION,
            column("source", IntegerType(), "the broker that sends the copy: the partition's leader", nullable=True),
            column("target", IntegerType(), "the broker that gets the copy"),
            column("bytes", DoubleType(), "size of the replica", unit="bytes"),
            column(
                "start",
                DoubleType(),
                "start of the copy, counted from the schedule's start; null: never",
                unit="s",
                nullable=True,
            ),
            column("end", DoubleType(), "end of the copy, counted likewise; null: never", unit="s", nullable=True),
        ]
    ),
    ("cluster_id", "plan_id"),
)

SCHEDULE_LOADS = Table(
    "schedule_loads",
    "one broker in one stretch of one schedule",
    ("cluster_id", "plan_id", "scenario", "broker", "start"),
    StructType(
        [
            *_PLAN_KEY,
            column("scenario", StringType(), "as in `schedules`"),
            column("broker", IntegerType(), "the broker"),
            column("start", DoubleType(), "start of the stretch, counted from the schedule's start", unit="s"),
            column("end", DoubleType(), "end of the stretch, counted likewise", unit="s"),
            column("receives", DoubleType(), "bytes that copies bring to the broker", unit="bytes/s"),
            column("sends", DoubleType(), "bytes that copies take from the broker", unit="bytes/s"),
        ]
    ),
    ("cluster_id", "plan_id"),
)

JOURNAL = Table(
    "journal",
    "one entry of an executor's or controller's journal",
    ("cluster_id", "journal", "sequence"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("journal", StringType(), "the journal's name"),
            column("sequence", LongType(), "number of the entry in the journal"),
            column("at", TimestampType(), "when the entry was written", unit="UTC"),
            column("cause", StringType(), "id of the event that caused the entry", nullable=True),
            column("kind", StringType(), "the entry's kind, e.g. step-begun"),
            column("plan_id", StringType(), "the plan under way", nullable=True),
            column("topic", StringType(), "the topic, if the entry is about a partition", nullable=True),
            column("partition", IntegerType(), "the partition", nullable=True),
            column("number", IntegerType(), "the step's number", nullable=True),
            column("before", ArrayType(IntegerType()), "replicas before the step", nullable=True),
            column("after", ArrayType(IntegerType()), "replicas after the step", nullable=True),
            column("original", ArrayType(IntegerType()), "replicas before the move", nullable=True),
            column("target", ArrayType(IntegerType()), "replicas that the move shall end with", nullable=True),
            column(
                "bytes",
                LongType(),
                "bytes that were copied; if there are none, the size of a replica",
                unit="bytes",
                nullable=True,
            ),
            column("broker", IntegerType(), "the broker, if the entry is about a broker", nullable=True),
            column("rate", LongType(), "observed rate, or the limit", unit="bytes/s", nullable=True),
            column("limited", BooleanType(), "whether a throttle limited the rate", nullable=True),
            column("paused", BooleanType(), "whether the move was paused or resumed", nullable=True),
            column("outcome", StringType(), "how the move ended", nullable=True),
            column("reason", StringType(), "the reason in words", nullable=True),
        ]
    ),
    ("cluster_id", "journal"),
)

ACCOUNT_MOVES = Table(
    "account_moves",
    "one partition's move, from acceptance to its end",
    ("cluster_id", "journal", "accepted_sequence"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("journal", StringType(), "the journal that it was read from"),
            column("accepted_sequence", LongType(), "number of the journal entry that accepts the move"),
            column("plan_id", StringType(), "the plan that the move belongs to", nullable=True),
            *_PARTITION,
            column("original", ArrayType(IntegerType()), "replicas before the move"),
            column("target", ArrayType(IntegerType()), "replicas that the move should end with"),
            column("accepted_at", TimestampType(), "when the move was accepted", unit="UTC"),
            column("started_at", TimestampType(), "when its first step was asked for", unit="UTC", nullable=True),
            column("ended_at", TimestampType(), "when the move ended", unit="UTC", nullable=True),
            column(
                "outcome",
                StringType(),
                "how the move ended; null while it runs. If another plan took the partition over before the end: superseded",
                nullable=True,
            ),
            column("reason", StringType(), "why the move ended like this", nullable=True),
            column("steps", LongType(), "number of finished steps"),
            column("planned_bytes", LongType(), "size of the partition × number of replicas to copy", unit="bytes"),
            column("copied_bytes", LongType(), "bytes that were copied", unit="bytes", nullable=True),
            column("seconds", DoubleType(), "duration from the first step to the end", unit="s", nullable=True),
            column(
                "stalled_seconds",
                DoubleType(),
                "how much of the time since the first step the move stood still, by its stretches in `account_stalls`; at most `seconds`",
                unit="s",
            ),
        ]
    ),
    ("cluster_id", "journal"),
)

ACCOUNT_STEPS = Table(
    "account_steps",
    "one step that was begun",
    ("cluster_id", "journal", "begun_sequence"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("journal", StringType(), "the journal that it was read from"),
            column("begun_sequence", LongType(), "number of the journal entry that begins the step"),
            *_PARTITION,
            column("number", IntegerType(), "the step's number within its move"),
            column("source", IntegerType(), "the preferred leader; the bytes are taken to come from it"),
            column("added", ArrayType(IntegerType()), "brokers that the step adds"),
            column("removed", ArrayType(IntegerType()), "brokers that the step removes"),
            column("begun_at", TimestampType(), "when the step was asked for", unit="UTC"),
            column(
                "ended_at",
                TimestampType(),
                "when the step was finished or dropped; null: it still runs",
                unit="UTC",
                nullable=True,
            ),
            column(
                "finished",
                BooleanType(),
                "true: finished; false: dropped, or the next step or the move's end came first; null: it still runs",
                nullable=True,
            ),
            column("seconds", DoubleType(), "how long the step took", unit="s", nullable=True),
            column(
                "copied_bytes",
                LongType(),
                "bytes that were copied; null if that was not seen",
                unit="bytes",
                nullable=True,
            ),
            column("reason", StringType(), "what the step was for, or why it was dropped", nullable=True),
        ]
    ),
    ("cluster_id", "journal"),
)

ACCOUNT_STALLS = Table(
    "account_stalls",
    "one stretch of a second or more in which a move stood still, before its first step too",
    ("cluster_id", "journal", "topic", "partition", "began_at"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("journal", StringType(), "the journal that it was read from"),
            *_PARTITION,
            column("began_at", TimestampType(), "when the move came to a standstill", unit="UTC"),
            column("ended_at", TimestampType(), "when the move went on", unit="UTC"),
            column("seconds", DoubleType(), "how long the move stood still", unit="s"),
            column(
                "cause",
                StringType(),
                "`waiting for its turn`, `paused`, `between steps`, `election of its leader`, `step dropped: …`",
            ),
        ]
    ),
    ("cluster_id", "journal"),
)

ACCOUNT_RATES = Table(
    "account_rates",
    "one pair of brokers in one hour",
    ("cluster_id", "source", "target", "hour"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("source", IntegerType(), "the broker that sent"),
            column("target", IntegerType(), "the broker that received"),
            column("hour", TimestampType(), "the hour in which the steps began", unit="UTC"),
            column("steps", LongType(), "finished steps that copied something"),
            column("bytes", LongType(), "bytes that these steps copied", unit="bytes"),
            column("seconds", DoubleType(), "sum of these steps' durations", unit="s"),
            column("rate_p10", DoubleType(), "10th percentile of these steps' rates", unit="bytes/s"),
            column("rate_p50", DoubleType(), "median of these steps' rates", unit="bytes/s"),
            column("rate_p90", DoubleType(), "90th percentile of these steps' rates", unit="bytes/s"),
        ]
    ),
    ("cluster_id",),
)

ACCOUNT_PLANS = Table(
    "account_plans",
    "one plan that was executed",
    ("cluster_id", "journal", "plan_id"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster's id, as Kafka reports it or `--cluster` gives it"),
            column("journal", StringType(), "the journal that it was read from"),
            column("plan_id", StringType(), "the plan"),
            column("began_at", TimestampType(), "when its first move was accepted", unit="UTC"),
            column("ended_at", TimestampType(), "when its last move ended", unit="UTC", nullable=True),
            column("moves", LongType(), "moves that were accepted"),
            column("done", LongType(), "moves that ended as planned"),
            column("seconds", DoubleType(), "real duration", unit="s", nullable=True),
            column("planned_seconds", DoubleType(), "expected duration by the schedule", unit="s", nullable=True),
            column("planned_seconds_low", DoubleType(), "fast end of the schedule's interval", unit="s", nullable=True),
            column(
                "planned_seconds_high", DoubleType(), "slow end of the schedule's interval", unit="s", nullable=True
            ),
            column("eta_error", DoubleType(), "(expected − real duration) ÷ real duration", nullable=True),
            column("planned_bytes", LongType(), "bytes that were to be copied", unit="bytes"),
            column("copied_bytes", LongType(), "bytes that were copied", unit="bytes", nullable=True),
            column(
                "imbalance_removed",
                DoubleType(),
                "bytes of disk load above the brokers' mean that the plan takes away",
                unit="bytes",
                nullable=True,
            ),
            column(
                "bytes_per_imbalance", DoubleType(), "bytes copied for each byte of imbalance removed", nullable=True
            ),
        ]
    ),
    ("cluster_id", "journal"),
)
