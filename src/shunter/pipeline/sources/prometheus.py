"""Prometheus: the JSON that `/api/v1/query_range` answers, with the names that the JMX exporter's usual rules give.

| metric (any of) | taken as |
| --- | --- |
| `kafka_server_brokertopicmetrics_bytesin_total`, `…bytesinpersec_count`, `…_count{name="BytesInPerSec"}` | bytes in, a counter per broker and topic |
| the same with `bytesout` and `messagesin` | bytes out, messages, counters per broker and topic |
| the same with `oneminuterate` | the same as a rate, counted over the step |
| `kafka_log_log_size`, `kafka_log_log_value{name="Size"}` | size of one replica |
| `kafka_log_log_logendoffset` | end offset of one replica: what its partition got |
| `kafka_cluster_partition_insyncreplicascount` | which replica leads: only a leader reports more than 0 |
| the first two rows without a topic, and `replicationbytesin`, `replicationbytesout` | the broker's own counters |
| `java_lang_operatingsystem_processcpuload`; or `process_cpu_seconds_total` of an instance that has Kafka's metrics | how busy its processors are with the broker |
| `java_lang_operatingsystem_availableprocessors` | how many processors it has |
| `node_cpu_seconds_total{mode="idle"}` | how busy its machine is (where the process does not say), and how many processors it has |

JMX counts bytes by broker and topic, not by partition. The bytes that a broker took in for a topic are split over the
partitions of the topic that it leads, by their share of the growth of end offsets, else by size, else evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType
from pyspark.sql.window import WindowSpec

from shunter.pipeline.broken_files import FILE_RULE
from shunter.pipeline.schemas import AMOUNTS, FOLLOWER, LEADER, UNKNOWN_ROLE
from shunter.pipeline.sources.tables import LAST_SECOND
from shunter.pipeline.validation import RAW, as_raw

_SERIES = StructType(
    [
        StructField("metric", MapType(StringType(), StringType())),
        StructField("values", ArrayType(ArrayType(StringType()))),
    ]
)
_ANSWER = StructType(
    [
        StructField("status", StringType()),
        StructField("error", StringType()),
        StructField(
            "data", StructType([StructField("resultType", StringType()), StructField("result", ArrayType(_SERIES))])
        ),
        StructField("_corrupt_record", StringType()),
    ]
)
_BROKER_LABELS = ("broker_id", "broker", "kafka_broker_id", "node_id")
_CLUSTER_LABELS = ("cluster_id", "kafka_cluster", "cluster")
_ONE_SERIES = ("cluster_id", "topic", "partition", "broker_id", "measure", "kind", "processor")
OF_BROKERS = (
    "busy", "busy_seconds", "processors", "idle_seconds", "total_bytes_in", "total_bytes_out", "total_messages_in",
    "replication_bytes_in", "replication_bytes_out",
)  # fmt: skip
"""Measures of a broker as a whole."""
_IN_ITSELF = "oneminuterate|processcpuload|availableprocessors"
"""Names of metrics that are not counters: the value itself is a rate, or can be used as a rate."""
_GAP = 3.0
"""A distance of more than so many steps is a gap: how an increase spread over it is not known."""


def read_prometheus(
    spark: SparkSession, paths: Sequence[str], *, cluster: str | None = None, brokers: Mapping[str, int] | None = None
) -> DataFrame:
    """Read range-query answers.

    Grain: one row per replica and step (columns of `validation.RAW`), and one with a reader_rule per series that can't
    be used. A counter that falls was reset: its new value counts. Series of brokers as a whole are left out.

    Args:
        brokers: `instance` label to broker id, for series that have no broker label.
    """
    series = series_of(spark, paths, cluster, brokers or {}).where(~F.col("of_broker"))
    return _rows(increases_of(series)).unionByName(_unusable(series))


def increases_of(series: DataFrame) -> DataFrame:
    """The increase from each point of usable series to the next. Grain: one row per point but the first of each series (see `_increases`)."""
    return _increases(_points(series.where(F.col("flaw").isNull())))


def series_of(spark: SparkSession, paths: Sequence[str], cluster: str | None, brokers: Mapping[str, int]) -> DataFrame:
    """Read the series of range-query answers.

    Grain: one row per series and file, and one per file that is not an answer. `flaw` says why a row can't be used,
    `of_broker` that a series is about a broker as a whole. Such series from machines that are not brokers are left out
    without a row, because Prometheus knows many machines.
    """
    answers = spark.read.option("multiLine", "true").schema(_ANSWER).json(list(paths))
    # Flaws of a whole answer are found before it is taken apart: else each series would carry all the others along.
    of_file = (
        F.when(F.col("_corrupt_record").isNotNull(), F.lit("not JSON"))
        .when(
            F.coalesce(F.col("status"), F.lit("")) != "success",
            F.concat_ws(" ", F.lit("not a success:"), "status", "error"),
        )
        .when(
            F.col("data.resultType") != "matrix",
            F.concat(F.lit("a "), "data.resultType", F.lit(", no matrix: ask /api/v1/query_range")),
        )
    )
    # An answer without series is whole: a query may well find nothing.
    empty = F.coalesce(F.size("data.result"), F.lit(0)) <= 0
    nothing = F.when(empty, F.lit("not_readable/no series: the query found nothing"))
    told = answers.select(
        F.col("_metadata.file_path").alias("file"),
        F.coalesce(F.concat(F.lit(f"{FILE_RULE}/"), of_file), nothing).alias("broken"),
        F.col("data.result").alias("result"),
    )
    each = told.select("file", "broken", F.explode_outer("result").alias("series"))
    metric = F.col("series.metric")
    name = F.lower(F.concat_ws("_", metric["__name__"], metric["name"]))
    # A map is one literal, however many brokers there are. A condition for each broker would be repeated all over
    # Spark's code.
    pairs = [F.lit(part) for pair in sorted(brokers.items()) for part in pair]
    mapped = F.create_map(*pairs)[metric["instance"]] if pairs else F.lit(None).cast("int")
    labelled = each.select(
        "file",
        "broken",
        F.col("series.values").alias("values"),
        F.coalesce(*(metric[label] for label in _CLUSTER_LABELS), F.lit(cluster)).alias("cluster_id"),
        metric["topic"].alias("topic"),
        metric["partition"].try_cast("int").alias("partition"),
        F.coalesce(*(metric[label].try_cast("int") for label in _BROKER_LABELS), mapped).alias("broker_id"),
        metric["instance"].alias("instance"),
        # All labels together: two servers that scrape one broker give the same series under labels of their own.
        F.to_json(F.array_sort(F.map_entries(metric))).alias("labels"),
        name.alias("name"),
        F.when(metric["topic"].isNull(), _broker_measure(name, metric)).otherwise(_measure(name)).alias("measure"),
        # A machine has a counter for each of its processors.
        F.when(name.startswith("node_cpu_"), metric["cpu"]).alias("processor"),
        F.when(name.rlike(_IN_ITSELF), F.lit("rate")).otherwise(F.lit("count")).alias("kind"),
    )
    of_broker = F.coalesce(F.col("broken").isNull() & F.col("measure").isin(*OF_BROKERS), F.lit(False))
    elsewhere = F.col("of_broker") & F.col("broker_id").isNull()
    labelled = labelled.withColumn("of_broker", of_broker)
    # A time that Spark can't hold would end the whole batch.
    times = F.transform("values", lambda point: F.coalesce(F.get(point, F.lit(0)), F.lit("missing")))
    no_times = F.filter(times, lambda time: ~F.coalesce(time.try_cast("double").between(0, LAST_SECOND), F.lit(False)))
    flaw = (
        F.when(F.col("broken").isNotNull(), F.col("broken"))
        .when(F.col("measure").isNull(), F.concat(F.lit("not_readable/no metric that Shunter knows: "), F.coalesce("name", F.lit("(none)"))))
        .when(F.size(no_times) > 0, F.concat(F.lit("not_a_time/time is "), F.element_at(no_times, 1), F.lit(": no seconds since 1970")))
        .when(F.col("broker_id").isNull(), F.concat(F.lit("unknown_broker/instance "), F.coalesce("instance", F.lit("(none)")), F.lit(" is not mapped to a broker id")))
    )  # fmt: skip
    ignored = F.coalesce(F.col("measure") == "", F.lit(False))
    return labelled.where(~elsewhere & ~ignored).withColumn("flaw", flaw)


def _broker_measure(name: Column, metric: Column) -> Column:
    """The measure of a broker that a series without a topic shows; empty if it is of no use, null if it is unknown."""
    counted = name.contains("brokertopicmetrics") & name.rlike("total|count|oneminuterate")
    counter = counted & ~name.rlike("reassignment|rejected|failed")
    total = counter & ~name.contains("replication")
    return (
        F.when(counter & name.contains("replicationbytesin"), F.lit("replication_bytes_in"))
        .when(counter & name.contains("replicationbytesout"), F.lit("replication_bytes_out"))
        .when(total & name.contains("bytesin"), F.lit("total_bytes_in"))
        .when(total & name.contains("bytesout"), F.lit("total_bytes_out"))
        .when(total & name.contains("messagesin"), F.lit("total_messages_in"))
        .when(name.rlike(r"^java_lang_(operatingsystem_)?processcpuload$"), F.lit("busy"))
        .when(name.rlike(r"^java_lang_(operatingsystem_)?availableprocessors$"), F.lit("processors"))
        .when(name == "process_cpu_seconds_total", F.lit("busy_seconds"))
        .when(name == "node_cpu_seconds_total", F.when(metric["mode"] == "idle", F.lit("idle_seconds")).otherwise(""))
        .otherwise(F.when(_measure(name).isNotNull(), F.lit("")))
    )


def _measure(name: Column) -> Column:
    topic_metric = name.contains("brokertopicmetrics") & ~name.rlike("replication|reassignment|rejected|failed")
    counted = topic_metric & name.rlike("total|count|oneminuterate")
    return (
        F.when(counted & name.contains("bytesin"), F.lit("bytes_in"))
        .when(counted & name.contains("bytesout"), F.lit("bytes_out"))
        .when(counted & name.contains("messagesin"), F.lit("messages_in"))
        .when(name.rlike(r"^kafka_log_(log_)?(value_)?size$"), F.lit("size"))
        .when(name.rlike(r"^kafka_log_(log_)?(value_)?logendoffset$"), F.lit("end_offset"))
        .when(name.rlike(r"^kafka_cluster_partition_(value_)?insyncreplicascount$"), F.lit("in_sync"))
    )


def _points(series: DataFrame) -> DataFrame:
    """The points of each series; of two origins (files, label sets) of one series only one at a time.

    Two servers that scrape the same brokers, as highly available pairs do, count the same bytes at different moments.
    Taken for one series, each step from one server to the other would look like a counter that fell.
    """
    kept = ("file", *_ONE_SERIES)
    times = F.transform("values", lambda point: F.get(point, F.lit(0)).try_cast("double"))
    # All series of a batch prefer the same origin, so that figures that are combined come from one server.
    origin = F.struct("file", "labels")
    span = F.struct(origin.alias("origin"), F.array_min(times).alias("first"), F.array_max(times).alias("last"))
    spans = F.collect_list(span).over(Window.partitionBy(*_ONE_SERIES))
    spanned = series.withColumns(
        {"origin": origin, "spans": spans, "first": F.array_min(times), "last": F.array_max(times)}
    )
    # Each point carries these spans along. Of a year of files only those are kept that overlap this file's time.
    before = F.filter(
        "spans",
        lambda other: (
            (other["origin"] < F.col("origin")) & (other["last"] >= F.col("first")) & (other["first"] <= F.col("last"))
        ),
    )
    exploded = spanned.withColumn("before", before).select(
        *kept, "origin", "before", F.posexplode("values").alias("position", "point")
    )
    points = exploded.select(
        *kept, "origin", "before", "position",
        F.get("point", F.lit(0)).try_cast("double").alias("at"),
        F.get("point", F.lit(1)).try_cast("double").alias("value"),
    )  # fmt: skip
    covered = F.exists("before", lambda other: F.col("at").between(other["first"], other["last"]))
    known = F.coalesce(~F.isnan("at"), F.lit(False)) & F.coalesce(~F.isnan("value"), F.lit(False))
    return points.where(known & ~covered).select(*kept, "origin", "position", "at", "value")


def _increases(points: DataFrame) -> DataFrame:
    """Add `seconds` since the point before and `increase`; null over a gap, where time goes back, and at the start.

    Only series of `in_sync` and `bytes_out` keep their first points, without `seconds`.

    A counter that falls was reset, and its new value counts as the increase. If it falls from one origin to the next,
    the increase is not known. An end offset is not a counter: if it falls, the log lost its tail or its topic, and the
    increase is not known. A gap is not a window: the row at its end stands for one step.
    """
    in_order = Window.partitionBy(*_ONE_SERIES).orderBy("at", "position")
    seconds = F.col("at") - F.lag("at").over(in_order)
    stepped = points.withColumns(
        {
            "seconds": seconds,
            "before": F.lag("value").over(in_order),
            "same_origin": F.col("origin") == F.lag("origin").over(in_order),
        }
    )
    step = F.min(F.when(F.col("seconds") > 0, F.col("seconds"))).over(Window.partitionBy(*_ONE_SERIES))
    is_gap = F.col("seconds") > step * _GAP
    reset = F.col("same_origin") & (F.col("measure") != "end_offset")
    grown = F.when(F.col("value") >= F.col("before"), F.col("value") - F.col("before")).when(reset, F.col("value"))
    amount = F.when(F.col("kind") == "rate", F.col("value") * F.col("seconds")).otherwise(grown)
    # A first point has no amount. But one of `in_sync` shows which replica leads, and one of `bytes_out` since when
    # bytes out are counted.
    begins = F.col("seconds").isNull() & F.col("measure").isin("in_sync", "bytes_out")
    increased = stepped.where((F.col("seconds") > 0) | begins).withColumns(
        {"increase": F.when(~is_gap, amount), "step": step, "gap": is_gap}
    )
    return increased.withColumn("seconds", F.when(F.col("gap"), F.col("step")).otherwise(F.col("seconds")))


def _rows(points: DataFrame) -> DataFrame:
    where = ("cluster_id", "topic", "broker_id", "at")
    # Increases are combined as rates: a series that missed a point has its increase over a longer window.
    rate = F.col("increase") / F.col("seconds")
    by_topic = _by_topic(points, where, rate)
    of_replicas = points.where(F.col("partition").isNotNull() & F.col("seconds").isNotNull())
    by_replica = of_replicas.groupBy(*where, "partition").agg(
        F.min("seconds").alias("seconds"),
        F.min("file").alias("file"),
        F.max(F.when(F.col("measure") == "size", F.col("value"))).alias("size"),
        F.max(F.when(F.col("measure") == "end_offset", rate)).alias("messages"),
        F.max(F.when(F.col("measure") == "in_sync", F.col("value"))).alias("in_sync"),
        *(F.max(F.when(F.col("measure") == name, rate)).alias(f"own_{name}") for name in AMOUNTS),
    )  # fmt: skip
    role = (
        F.when(F.col("in_sync").isNull(), F.lit(UNKNOWN_ROLE))
        .when(F.col("in_sync") > 0, F.lit(LEADER))
        .otherwise(F.lit(FOLLOWER))
    )
    with_role = by_replica.withColumn("role", role)
    taking = Window.partitionBy(*where, "role")
    shared = with_role.withColumns({"share": _share(taking)}).join(by_topic, on=list(where), how="left")
    receives = (F.col("role") != FOLLOWER) & ~F.coalesce("leaders_changed", F.lit(False))
    amounts = {
        name: F.coalesce(F.col(f"own_{name}"), F.when(receives, F.col(f"topic_{name}") * F.col("share")))
        for name in AMOUNTS
    }
    amounts["messages_in"] = F.coalesce(F.col("messages"), amounts["messages_in"])
    text = F.lit(None).cast("string")
    columns = {
        "cluster_id": F.col("cluster_id"), "topic_id": text, "topic": F.col("topic"), "partition": F.col("partition"),
        "broker_id": F.col("broker_id"), "role": F.col("role"),
        "window_start": F.timestamp_millis(((F.col("at") - F.col("seconds")) * 1000).cast("bigint")),
        "window_seconds": F.round("seconds").try_cast("int"),
        **{name: F.round(amount * F.col("seconds")).try_cast("bigint") for name, amount in amounts.items()},
        "size_bytes": F.col("size").try_cast("bigint"),
        "source": F.lit("prometheus"), "file": F.col("file"), "reader_rule": text, "reader_detail": text,
    }  # fmt: skip
    return shared.select(*(columns[name].alias(name) for name in RAW))


def _by_topic(points: DataFrame, where: Sequence[str], rate: Column) -> DataFrame:
    """Rates that each broker counted for a topic. `leaders_changed`: it leads others of its partitions than before.

    In such a window the broker counted bytes of partitions that it led for a part of the window, and that part is not
    known.

    A broker begins to count a topic's bytes out when a client reads the topic for the first time (`BrokerTopicStats` of
    Kafka). Until then they are taken as 0, if the broker counts bytes out of other topics at that time.
    """
    of_leader = F.when((F.col("measure") == "in_sync") & (F.col("value") > 0), F.xxhash64("partition"))
    counted = points.where(F.col("partition").isNull() | (F.col("measure") == "in_sync")).groupBy(*where).agg(
        *(F.max(F.when(F.col("partition").isNull() & (F.col("measure") == name), rate)).alias(f"topic_{name}") for name in AMOUNTS),
        F.when(F.count_if(F.col("measure") == "in_sync") > 0, F.coalesce(F.bit_xor(of_leader), F.lit(0))).alias("led"),
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
    known = {name: F.col(name) for name in ("cluster_id", "topic", "partition", "broker_id", "file")}
    told = {
        "source": F.lit("prometheus"),
        "reader_rule": F.substring_index("flaw", "/", 1),
        "reader_detail": F.expr("substring(flaw, instr(flaw, '/') + 1)"),
    }
    return as_raw(series.where(F.col("flaw").isNotNull()), known | told)
