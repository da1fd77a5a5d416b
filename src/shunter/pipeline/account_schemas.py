"""Tables about plans and about what became of them. Written as `schemas` says; kept apart for length."""

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

from shunter.pipeline.schemas import Table, column

_PLAN_KEY = (
    column("cluster_id", StringType(), "the cluster, as Kafka names itself"),
    column("plan_id", StringType(), "the plan: moment and request"),
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
            column("message", StringType(), "why there is no plan, or what was taken for granted", nullable=True),
            column("seconds", DoubleType(), "what planning took", unit="s"),
            column("partitions", LongType(), "partitions that were looked at", nullable=True),
            column("bytes_moved", DoubleType(), "what the plan copies", unit="bytes", nullable=True),
            column("bytes_percent", DoubleType(), "the same, of all replicas' bytes", unit="%", nullable=True),
            column(
                "bound_percent",
                DoubleType(),
                "least that any plan copies, by disk or counts alone",
                unit="%",
                nullable=True,
            ),
            column(
                "joint_bound_percent",
                DoubleType(),
                "the same, by disk, replicas and leaders together; null where not asked for, or no plan reaches all bands",
                unit="%",
                nullable=True,
            ),
            column("leader_changes", LongType(), "preferred leaders that change", nullable=True),
            column("with_rates", LongType(), "partitions whose bytes in or out were known", nullable=True),
            column("rates_until", TimestampType(), "start of the newest window with a rate", unit="UTC", nullable=True),
            column("snapshot_at", TimestampType(), "the snapshot that it was planned from", unit="UTC", nullable=True),
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
                "source", IntegerType(), "the broker whose replica goes for it; null where one is added", nullable=True
            ),
            column("target", IntegerType(), "the broker that gets it"),
            column("bytes", DoubleType(), "its size", unit="bytes"),
            column("reason", StringType(), "why"),
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
            column("replicas", ArrayType(IntegerType()), "where it shall be, in order"),
            column(
                "original_replicas",
                ArrayType(IntegerType()),
                "where it was when it was planned, in order; null without a snapshot",
                nullable=True,
            ),
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
            column("rack", StringType(), "its rack"),
            column(
                "resource",
                StringType(),
                "disk, bytes in, bytes out, processors (in average brokers), replicas, leaders, leaders' bytes in",
            ),
            column("before", DoubleType(), "load before, in the resource's own unit"),
            column("after", DoubleType(), "load after"),
        ]
    ),
    ("cluster_id", "plan_id"),
)

PLAN_UNDONE = Table(
    "plan_undone",
    "one thing that a plan does not reach",
    (),
    StructType([*_PLAN_KEY, column("what", StringType(), "what was asked"), column("why", StringType(), "why not")]),
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
            column("rate", DoubleType(), "throttle on each broker, either way", unit="bytes/s"),
            column("concurrency", IntegerType(), "most copies at once on one broker, either way"),
            column("seconds_low", DoubleType(), "duration, fast end of the interval", unit="s", nullable=True),
            column(
                "seconds", DoubleType(), "duration, expected; null where it would never end", unit="s", nullable=True
            ),
            column("seconds_high", DoubleType(), "duration, slow end of the interval", unit="s", nullable=True),
            column("bytes", DoubleType(), "what is copied, with what arrives meanwhile", unit="bytes", nullable=True),
            column("rests_on", StringType(), "where the rate comes from"),
            column("warning", StringType(), "what does not fit", nullable=True),
            column(
                "quiet_in_hours",
                IntegerType(),
                "so many hours from now moves disturb least; null without `broker_weeks`",
                unit="h",
                nullable=True,
            ),
            column(
                "quiet_share",
                DoubleType(),
                "begun then: the most that a broker carries of its capacity in any hour; without a capacity, of the busiest broker's busiest hour and the rate together",
                unit="1",
                nullable=True,
            ),
            column("now_share", DoubleType(), "the same, begun now", unit="1", nullable=True),
            column("quiet", StringType(), "the same in words", nullable=True),
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
            column("source", IntegerType(), "the broker that sends it: the partition's leader", nullable=True),
            column("target", IntegerType(), "the broker that gets it"),
            column("bytes", DoubleType(), "its size", unit="bytes"),
            column(
                "start", DoubleType(), "when it starts, from the plan's start; null: never", unit="s", nullable=True
            ),
            column("end", DoubleType(), "when it ends; null: never", unit="s", nullable=True),
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
            column("start", DoubleType(), "start of the stretch", unit="s"),
            column("end", DoubleType(), "end of the stretch", unit="s"),
            column("receives", DoubleType(), "bytes in for moves", unit="bytes/s"),
            column("sends", DoubleType(), "bytes out for moves", unit="bytes/s"),
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
            column("cluster_id", StringType(), "the cluster, as Kafka names itself"),
            column("journal", StringType(), "the journal's name"),
            column("sequence", LongType(), "place in the journal"),
            column("at", TimestampType(), "when it was written", unit="UTC"),
            column("cause", StringType(), "the event that brought it", nullable=True),
            column("kind", StringType(), "the entry's kind, e.g. step-begun"),
            column("plan_id", StringType(), "the plan under way", nullable=True),
            column("topic", StringType(), "the topic, where the entry is about a partition", nullable=True),
            column("partition", IntegerType(), "the partition", nullable=True),
            column("number", IntegerType(), "the step's number", nullable=True),
            column("before", ArrayType(IntegerType()), "replicas before the step", nullable=True),
            column("after", ArrayType(IntegerType()), "replicas after the step", nullable=True),
            column("original", ArrayType(IntegerType()), "replicas before the move", nullable=True),
            column("target", ArrayType(IntegerType()), "replicas that the move is for", nullable=True),
            column("bytes", LongType(), "size, or what was copied", unit="bytes", nullable=True),
            column("broker", IntegerType(), "the broker, where the entry is about one", nullable=True),
            column("rate", LongType(), "observed rate or limit", unit="bytes/s", nullable=True),
            column("limited", BooleanType(), "whether a throttle held the rate", nullable=True),
            column("paused", BooleanType(), "paused or going on", nullable=True),
            column("outcome", StringType(), "how the move ended", nullable=True),
            column("reason", StringType(), "in words", nullable=True),
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
            column("cluster_id", StringType(), "the cluster, as Kafka names itself"),
            column("journal", StringType(), "the journal that tells of it"),
            column("accepted_sequence", LongType(), "place of its acceptance in the journal"),
            column("plan_id", StringType(), "the plan that it belongs to", nullable=True),
            *_PARTITION,
            column("original", ArrayType(IntegerType()), "replicas before"),
            column("target", ArrayType(IntegerType()), "replicas that it was for"),
            column("accepted_at", TimestampType(), "when it was accepted", unit="UTC"),
            column("started_at", TimestampType(), "when its first step was asked for", unit="UTC", nullable=True),
            column("ended_at", TimestampType(), "when it ended", unit="UTC", nullable=True),
            column("outcome", StringType(), "how it ended; null while it runs", nullable=True),
            column("reason", StringType(), "why it ended so", nullable=True),
            column("steps", LongType(), "steps that were finished"),
            column("planned_bytes", LongType(), "size × replicas that were to be copied", unit="bytes"),
            column("copied_bytes", LongType(), "what was copied", unit="bytes", nullable=True),
            column("seconds", DoubleType(), "from first step to end", unit="s", nullable=True),
            column("stalled_seconds", DoubleType(), "of these, without a step under way or paused", unit="s"),
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
            column("cluster_id", StringType(), "the cluster, as Kafka names itself"),
            column("journal", StringType(), "the journal that tells of it"),
            column("begun_sequence", LongType(), "place of its beginning in the journal"),
            *_PARTITION,
            column("number", IntegerType(), "the step's number within its move"),
            column("source", IntegerType(), "the replica that leads by preference: where the bytes come from"),
            column("added", ArrayType(IntegerType()), "brokers that it adds"),
            column("removed", ArrayType(IntegerType()), "brokers that it removes"),
            column("begun_at", TimestampType(), "when it was asked for", unit="UTC"),
            column("ended_at", TimestampType(), "when it was finished or dropped", unit="UTC", nullable=True),
            column("finished", BooleanType(), "finished, or dropped; null while it runs", nullable=True),
            column("seconds", DoubleType(), "how long it took", unit="s", nullable=True),
            column(
                "copied_bytes", LongType(), "what was copied; null where it was not seen", unit="bytes", nullable=True
            ),
            column("reason", StringType(), "what it was for", nullable=True),
        ]
    ),
    ("cluster_id", "journal"),
)

ACCOUNT_STALLS = Table(
    "account_stalls",
    "one stretch in which a move stood still",
    ("cluster_id", "journal", "topic", "partition", "began_at"),
    StructType(
        [
            column("cluster_id", StringType(), "the cluster, as Kafka names itself"),
            column("journal", StringType(), "the journal that tells of it"),
            *_PARTITION,
            column("began_at", TimestampType(), "when it stood still", unit="UTC"),
            column("ended_at", TimestampType(), "when it went on", unit="UTC"),
            column("seconds", DoubleType(), "how long", unit="s"),
            column("cause", StringType(), "`waiting for its turn`, `paused`, `between steps`, `step dropped: …`"),
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
            column("cluster_id", StringType(), "the cluster, as Kafka names itself"),
            column("source", IntegerType(), "the broker that sent"),
            column("target", IntegerType(), "the broker that received"),
            column("hour", TimestampType(), "the hour in which the steps began", unit="UTC"),
            column("steps", LongType(), "finished steps that copied something"),
            column("bytes", LongType(), "what they copied", unit="bytes"),
            column("seconds", DoubleType(), "how long they took, added up", unit="s"),
            column("rate_p10", DoubleType(), "10th percentile of their rates", unit="bytes/s"),
            column("rate_p50", DoubleType(), "median of their rates", unit="bytes/s"),
            column("rate_p90", DoubleType(), "90th percentile of their rates", unit="bytes/s"),
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
            column("cluster_id", StringType(), "the cluster, as Kafka names itself"),
            column("journal", StringType(), "the journal that tells of it"),
            column("plan_id", StringType(), "the plan"),
            column("began_at", TimestampType(), "when its first move was accepted", unit="UTC"),
            column("ended_at", TimestampType(), "when its last move ended", unit="UTC", nullable=True),
            column("moves", LongType(), "moves that were accepted"),
            column("done", LongType(), "moves that ended as planned"),
            column("seconds", DoubleType(), "what it took", unit="s", nullable=True),
            column("planned_seconds", DoubleType(), "what the schedule said", unit="s", nullable=True),
            column("planned_seconds_low", DoubleType(), "fast end of its interval", unit="s", nullable=True),
            column("planned_seconds_high", DoubleType(), "slow end of its interval", unit="s", nullable=True),
            column("eta_error", DoubleType(), "(planned − real) ÷ real", nullable=True),
            column("planned_bytes", LongType(), "what was to be copied", unit="bytes"),
            column("copied_bytes", LongType(), "what was copied", unit="bytes", nullable=True),
            column(
                "imbalance_removed",
                DoubleType(),
                "bytes less above the brokers' mean disk load",
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
