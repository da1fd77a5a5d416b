"""Prometheus: the JSON that `/api/v1/query_range` answers, with the names in `formats.metric_names`.

| metric (any of) | taken as |
| --- | --- |
| `kafka_server_brokertopicmetrics_bytesin_total`, `…bytesinpersec_count`, `…_count{name="BytesInPerSec"}` | bytes in, a counter per broker and topic |
| the same with `bytesout` and `messagesin` | bytes out, messages, counters per broker and topic |
| the same with `oneminuterate` | the same as a rate, counted over the step, where no counter is |
| `kafka_log_log_size`, `kafka_log_log_value{name="Size"}` | size of one replica |
| `kafka_log_log_logendoffset` | end offset of one replica: what its partition got |
| `kafka_cluster_partition_insyncreplicascount` | which replica leads: only a leader reports more than 0 |
| `kafka_topic_partition_current_offset`, `kminion_kafka_topic_partition_high_water_mark` | what a partition got, from an exporter that asks the cluster |
| `kafka_topic_partition_leader` | which broker leads it |
| the first two rows without a topic, and `replicationbytesin`, `replicationbytesout` | the broker's own counters |
| `java_lang_operatingsystem_processcpuload`; or `process_cpu_seconds_total` of an instance that has Kafka's metrics | how busy its processors are with the broker |
| `java_lang_operatingsystem_availableprocessors` | how many processors it has |
| `node_cpu_seconds_total{mode="idle"}` | how busy its machine is (where the process does not say), and how many processors it has |

JMX counts bytes by broker and topic, not by partition. The bytes that a broker took in for a topic are split over the
partitions of the topic that it leads, by their share of the growth of end offsets, else by size, else evenly.

`prometheus_series` says what each series is, and `prometheus_points` turns its points into increases.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from shunter.formats.metric_names import OF_PARTITIONS
from shunter.formats.series_labels import SeriesLabels
from shunter.pipeline.ingest.identity import leaders_over_time
from shunter.pipeline.ingest.validation import as_raw
from shunter.pipeline.lake.schemas import AMOUNTS, FOLLOWER, LEADER, UNKNOWN_ROLE
from shunter.pipeline.sources.prometheus_forms import Told, told_by_answers
from shunter.pipeline.sources.prometheus_points import increases_of
from shunter.pipeline.sources.prometheus_series import series_of

_KINDS = ("count", "rate")
"""A counter is exact, and wins over a rate of one minute of the same thing. Recording rules are not read at all."""
_NO_LABELS = SeriesLabels()
_WHERE = ("cluster_id", "topic", "broker_id", "at")
_NO_LEADER = (
    "neither InSyncReplicasCount nor a snapshot says which of the topic's partitions this broker leads, so its bytes can't "
    "be split over them: export that metric, or ingest a snapshot of the cluster before this answer"
)


def read_prometheus(
    spark: SparkSession,
    paths: Sequence[str],
    *,
    cluster: str | None = None,
    labels: SeriesLabels = _NO_LABELS,
    told: Told = told_by_answers,
    replicas: DataFrame | None = None,
) -> DataFrame:
    """Read series of Prometheus.

    Grain: one row per replica and step (columns of `validation.RAW`), with a reader_rule where its role is not known
    though its broker's bytes are; and one with a reader_rule per series that can't be used, or not as a whole. A counter
    that falls was reset: its new value counts. Series of brokers as a whole give no other rows.

    Args:
        cluster: The cluster of series that no label gives to one.
        labels: Which labels name clusters and brokers.
        told: Reads the form in which the series are.
        replicas: Columns of `replicas`. They name leaders if the answers don't.
    """
    series = series_of(spark, paths, cluster, labels, told)
    of_partitions, leaders = _named_leaders(series, replicas)
    points = increases_of(series.where(~F.col("of_broker")))
    rows = _rows(_with_led(points, leaders), leaders, of_partitions=True) if of_partitions else _rows(points, leaders)
    if of_partitions:
        rows = rows.unionByName(_without_leader(points, leaders))
    return rows.unionByName(_unusable(series))


def _named_leaders(series: DataFrame, replicas: DataFrame | None) -> tuple[bool, DataFrame | None]:
    """Whether there are series of partitions; and the leaders that snapshots name in the time of the answers.

    No leaders are read if the answers say themselves who leads.
    """
    by_topic = series.where(F.col("flaw").isNull() & F.col("topic").isNotNull()).groupBy("cluster_id", "broker_id", "topic").agg(
        F.count_if(F.col("measure").isin("in_sync", "leader")).alias("told"),
        F.count_if(F.col("measure").isin(*AMOUNTS, "partition_offset")).alias("counted"),
        F.count_if(F.col("measure").isin(*OF_PARTITIONS)).alias("of_partitions"),
        F.min(F.get("good", F.lit(0))["at"]).alias("since"),
        F.max(F.element_at("good", -1)["at"]).alias("until"),
    )  # fmt: skip
    untold = F.expr("told = 0 AND counted > 0")
    span = by_topic.agg(
        F.min(F.when(untold, F.col("since"))), F.max(F.when(untold, F.col("until"))), F.sum("of_partitions")
    ).first()
    if span is None:
        return False, None
    known = None if replicas is None or span[0] is None else leaders_over_time(replicas, span[0], span[1])
    return bool(span[2]), known


def _led_by(points: DataFrame, leaders: DataFrame | None) -> DataFrame:
    """What exporters that ask the cluster say of each partition, with who leads it (an exporter's word, else a snapshot's).

    Grain: one row per partition and point; `leader` null where nobody says, `increase` null too if it has just changed.
    """
    partition = ("cluster_id", "topic", "partition")
    is_offset = F.col("measure") == "partition_offset"
    told = points.where(F.col("measure").isin(*OF_PARTITIONS)).groupBy(*partition, "at").agg(
        F.max(F.when(F.col("measure") == "leader", F.col("value"))).cast("int").alias("leader"),
        F.coalesce(F.max(F.when(is_offset, F.col("seconds"))), F.max("seconds")).alias("seconds"),
        F.max(F.when(is_offset, F.col("increase"))).alias("increase"),
        F.min("file").alias("file"),
    )  # fmt: skip
    before = F.lag("leader").over(Window.partitionBy(*partition).orderBy("at"))
    told = told.withColumn("changed", F.col("leader") != before)
    if leaders is not None:
        told = told.join(F.broadcast(leaders), on=list(partition), how="left")
        told = told.withColumn("leader", F.coalesce("leader", F.nullif(_snapshots_leader(), F.lit(-1)))).drop("runs")
    return told.withColumn("increase", F.when(~F.coalesce("changed", F.lit(False)), F.col("increase"))).drop("changed")


def _with_led(points: DataFrame, leaders: DataFrame | None) -> DataFrame:
    """Points of partitions become points of the replicas that led them, of measure `led`. Other points are passed on."""
    common = (
        "cluster_id",
        "topic",
        "partition",
        "broker_id",
        "measure",
        "kind",
        "at",
        "value",
        "seconds",
        "increase",
        "file",
    )
    led = _led_by(points, leaders).where(F.col("leader").isNotNull())
    one = {"broker_id": F.col("leader"), "measure": F.lit("led"), "kind": F.lit("count"), "value": F.lit(1.0)}
    return points.where(~F.col("measure").isin(*OF_PARTITIONS)).select(*common).unionByName(
        led.withColumns(one).select(*common)
    )  # fmt: skip


def _without_leader(points: DataFrame, leaders: DataFrame | None) -> DataFrame:
    """A row for each topic of which messages are known, but not who leads."""
    unled = _led_by(points, leaders).where(F.col("leader").isNull() & F.col("increase").isNotNull())
    by_topic = unled.groupBy("cluster_id", "topic").agg(
        F.count_distinct("partition").alias("partitions"), F.count("*").alias("windows"), F.min("file").alias("file")
    )
    words = F.concat_ws(" ", "partitions", F.lit("partitions,"), "windows", F.lit("windows: nothing says who led them, so no broker has their messages: ingest a snapshot of the cluster before this answer"))  # fmt: skip
    known = {name: F.col(name) for name in ("cluster_id", "topic", "file")}
    given = {"source": F.lit("prometheus"), "reader_rule": F.lit("unknown_leader"), "reader_detail": words}
    return as_raw(by_topic, known | given)


def _rows(points: DataFrame, leaders: DataFrame | None, *, of_partitions: bool = False) -> DataFrame:
    # Increases are combined as rates: a series that missed a point has its increase over a longer window.
    rate = F.col("increase") / F.col("seconds")
    by_topic = _by_topic(points, rate)
    is_led = F.col("measure") == "led"
    of_replicas = points.where(F.col("partition").isNotNull() & F.col("seconds").isNotNull())
    by_replica = of_replicas.groupBy(*_WHERE, "partition").agg(
        F.min("seconds").alias("seconds"),
        F.min("file").alias("file"),
        F.max(F.when(F.col("measure") == "size", F.col("value"))).alias("size"),
        F.coalesce(F.max(F.when(F.col("measure") == "end_offset", rate)), F.max(F.when(is_led, rate))).alias("messages"),
        F.max(F.when(F.col("measure") == "in_sync", F.col("value"))).alias("in_sync"),
        F.max(is_led).alias("led"),
        F.min(is_led).alias("only_led"),
        *(_best_kind(F.col("measure") == name, rate).alias(f"own_{name}") for name in AMOUNTS),
    )  # fmt: skip
    with_role = _with_role(by_replica, leaders, of_partitions=of_partitions)
    taking = Window.partitionBy(*_WHERE, "role")
    unknown = F.col("role") == UNKNOWN_ROLE
    shared = with_role.withColumns(
        {"share": _share(taking), "unsure": F.max(unknown).over(Window.partitionBy(*_WHERE))}
    ).join(by_topic, on=list(_WHERE), how="left")
    # A follower's bytes are none of its broker's. If it is not known who is one, nobody's share is known.
    receives = (F.col("role") == LEADER) & ~F.col("unsure") & ~F.coalesce("leaders_changed", F.lit(False))
    amounts = {
        name: F.coalesce(F.col(f"own_{name}"), F.when(receives, F.col(f"topic_{name}") * F.col("share")))
        for name in AMOUNTS
    }
    amounts["messages_in"] = F.coalesce(F.col("messages"), amounts["messages_in"])
    if of_partitions:
        # An exporter that knows offsets alone has nothing to say of a window in which the leader changed.
        shared = shared.where(~F.col("only_led") | F.coalesce(*amounts.values()).isNotNull())
    not_split = unknown & F.coalesce("topic_bytes_in", "topic_bytes_out").isNotNull() & F.col("own_bytes_in").isNull()
    columns = {
        "cluster_id": F.col("cluster_id"), "topic": F.col("topic"), "partition": F.col("partition"),
        "broker_id": F.col("broker_id"), "role": F.col("role"),
        "window_start": F.timestamp_millis(((F.col("at") - F.col("seconds")) * 1000).cast("bigint")),
        "window_seconds": F.round("seconds").try_cast("int"),
        **{name: F.round(amount * F.col("seconds")).try_cast("bigint") for name, amount in amounts.items()},
        "size_bytes": F.col("size").try_cast("bigint"),
        "source": F.lit("prometheus"), "file": F.col("file"),
        "reader_rule": F.when(not_split, F.lit("unknown_leader")),
        "reader_detail": F.when(not_split, F.lit(_NO_LEADER)),
    }  # fmt: skip
    return as_raw(shared, columns)


def _snapshots_leader() -> Column:
    """The leader that snapshots name in a whole window: -1 if they name none, null if they do not say."""
    begin = F.col("at") - F.col("seconds")
    holds = F.filter("runs", lambda run: (run["first"] <= begin) & (run["last"] >= F.col("at")))
    return F.get(holds, F.lit(0))["leader"]


def _with_role(by_replica: DataFrame, leaders: DataFrame | None, *, of_partitions: bool) -> DataFrame:
    """Add `role`: by InSyncReplicasCount, else by an exporter that asks the cluster, else by snapshots, else unknown."""
    leader = F.lit(None).cast("int")
    if leaders is not None:
        by_replica = by_replica.join(F.broadcast(leaders), on=["cluster_id", "topic", "partition"], how="left")
        leader = _snapshots_leader()
    another = F.lit(False)
    if of_partitions:
        another = F.max("led").over(Window.partitionBy("cluster_id", "topic", "partition", "at"))
    role = (
        F.when(F.col("in_sync") > 0, F.lit(LEADER))
        .when(F.col("in_sync").isNotNull(), F.lit(FOLLOWER))
        .when(F.col("led"), F.lit(LEADER))
        .when(another, F.lit(FOLLOWER))
        .when(leader == F.col("broker_id"), F.lit(LEADER))
        .when(leader.isNotNull(), F.lit(FOLLOWER))
        .otherwise(F.lit(UNKNOWN_ROLE))
    )
    return by_replica.withColumn("role", role)


def _best_kind(counts: Column, rate: Column) -> Column:
    return F.coalesce(*(F.max(F.when(counts & (F.col("kind") == kind), rate)) for kind in _KINDS))


def _by_topic(points: DataFrame, rate: Column) -> DataFrame:
    """Rates that each broker counted for a topic. `leaders_changed`: it leads others of its partitions than before.

    In such a window the broker counted bytes of partitions that it led for a part of the window, and that part is not
    known.

    A broker begins to count a topic's bytes out when a client reads the topic for the first time (`BrokerTopicStats` of
    Kafka). Until then they are taken as 0, if the broker counts bytes out of other topics at that time.
    """
    says = F.col("measure").isin("in_sync", "led")
    # Both may say it. The same number twice would be none.
    of_leader = F.when(says & (F.col("value") > 0), F.xxhash64("partition", "measure"))
    counted = points.where(F.col("partition").isNull() | says).groupBy(*_WHERE).agg(
        *(_best_kind(F.col("partition").isNull() & (F.col("measure") == name), rate).alias(f"topic_{name}") for name in AMOUNTS),
        F.when(F.count_if(says) > 0, F.coalesce(F.bit_xor(of_leader), F.lit(0))).alias("led"),
        F.min(F.when(F.col("partition").isNull() & (F.col("measure") == "bytes_out"), F.col("at"))).alias("read_at"),
    )  # fmt: skip
    first_read = F.min("read_at").over(Window.partitionBy("cluster_id", "topic", "broker_id"))
    others_read = F.count("topic_bytes_out").over(Window.partitionBy("cluster_id", "broker_id", "at")) > 0
    unread = F.col("topic_bytes_in").isNotNull() & others_read & F.coalesce(F.col("at") < first_read, F.lit(True))
    counted = counted.withColumn("topic_bytes_out", F.coalesce("topic_bytes_out", F.when(unread, F.lit(0.0))))
    earlier = Window.partitionBy("cluster_id", "topic", "broker_id").orderBy("at")
    led_before = F.last("led", ignorenulls=True).over(earlier.rowsBetween(Window.unboundedPreceding, -1))
    return counted.withColumn("leaders_changed", F.col("led") != led_before).drop("led", "read_at")


def _share(taking: WindowSpec) -> Column:
    messages = F.sum("messages").over(taking)
    size = F.sum("size").over(taking)
    # If one partition's growth is not known, the growth of the others does not give its share.
    all_known = F.count("messages").over(taking) == F.count("*").over(taking)
    return (
        F.when(all_known & (messages > 0), F.coalesce("messages", F.lit(0.0)) / messages)
        .when(size > 0, F.coalesce("size", F.lit(0.0)) / size)
        .otherwise(F.lit(1.0) / F.count("*").over(taking))
    )


def _unusable(series: DataFrame) -> DataFrame:
    """A row per series that can't be used, and per series of which some values can't."""
    known = {name: F.col(name) for name in ("cluster_id", "topic", "partition", "broker_id", "file")}
    junk = F.concat(F.lit("not_a_number/"), "name", F.lit(": "), "junk")
    told = series.withColumn("told", F.coalesce("flaw", junk)).where(F.col("told").isNotNull())
    return as_raw(
        told,
        known
        | {
            "source": F.lit("prometheus"),
            "reader_rule": F.substring_index("told", "/", 1),
            "reader_detail": F.expr("substring(told, instr(told, '/') + 1)"),
        },
    )
