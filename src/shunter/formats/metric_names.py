"""The names that exporters give to Kafka's metrics, and what each is taken as: one table, a row for each name.

Names are in lower case, with the label `name` behind them, as the JMX exporter has it without rules (and so Amazon MSK):
`kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec"}` is `kafka_server_brokertopicmetrics_count_bytesinpersec`.

Sources: prometheus/jmx_exporter `examples/kafka-2_0_0.yml`; Strimzi `packaging/examples/metrics`; danielqsj/kafka_exporter
`kafka_exporter.go`; redpanda-data/kminion `docs/metrics.md`; influxdata/telegraf `jolokia2_agent/examples/kafka.conf`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

TOPIC_LABELS = ("topic", "topic_name")
PARTITION_LABELS = ("partition", "partition_id")
OF_PARTITIONS = ("partition_offset", "leader")
"""Measures of a partition that an exporter asks the cluster for: such a series names no broker."""
OF_BROKERS = (
    "busy", "busy_seconds", "processors", "idle_seconds", "total_bytes_in", "total_bytes_out", "total_messages_in",
    "replication_bytes_in", "replication_bytes_out", "disk",
)  # fmt: skip
"""Measures of a broker as a whole."""


class MetricName(NamedTuple):
    """A name, as an expression for the whole of it, and what a series with and without a topic is."""

    name: str
    of_topic: str | None
    of_broker: str | None
    """Empty: of no use. None: unknown."""
    kind: str = "count"
    """`rate`: the value itself is, or can be used as, a rate."""


def _topic_metrics() -> Iterator[MetricName]:
    counts, both = "total|count", "total|count|oneminuterate"
    for name, of_topic, of_broker in (
        ("bytesin", "bytes_in", "total_bytes_in"),
        ("bytesout", "bytes_out", "total_bytes_out"),
        ("messagesin", "messages_in", "total_messages_in"),
        ("replicationbytesin", None, "replication_bytes_in"),
        ("replicationbytesout", None, "replication_bytes_out"),
    ):
        whole = f"kafka_server_brokertopicmetrics_(?:(?:{both})_)*{name}(?:persec)?(?:_(?:{both}))*"
        yield MetricName(f"(?!.*oneminuterate)(?=.*_(?:{counts})(?:_|$)){whole}", of_topic, of_broker)
        yield MetricName(f"(?=.*oneminuterate){whole}", of_topic, of_broker, "rate")
        yield MetricName(f"kafka_topics?_{name}persec_count", of_topic, of_broker)


METRICS = (
    *_topic_metrics(),
    MetricName("kafka_log_(?:log_)?(?:value_)?size|kafka_partition_size", "size", ""),
    MetricName("kafka_log_(?:log_)?(?:value_)?logendoffset|kafka_partition_logendoffset", "end_offset", ""),
    MetricName("kafka_cluster_partition_(?:value_)?insyncreplicascount", "in_sync", ""),
    MetricName("kafka_topic_partition_current_offset", "partition_offset", None),
    MetricName("kafka_topic_partition_leader", "leader", None),
    MetricName("kminion_kafka_topic_partition_high_water_mark", "partition_offset", None),
    MetricName("kminion_kafka_broker_log_dir_size_total_bytes", None, "disk", "rate"),
    MetricName("java_lang_(?:operatingsystem_)?processcpuload", None, "busy", "rate"),
    MetricName("java_lang_(?:operatingsystem_)?availableprocessors", None, "processors", "rate"),
    MetricName("process_cpu_seconds_total", None, "busy_seconds"),
    MetricName("node_cpu_seconds_total", None, "idle_seconds"),
)  # fmt: skip

LOOKS_LIKE = (
    (r"kafka_(?:consumergroup|topic_partition|topic_partitions|brokers?)(?:_.*)?",
     "kafka_exporter's: of it Shunter reads kafka_topic_partition_current_offset and kafka_topic_partition_leader"),
    (r"kminion_.*",
     "kminion's: of it Shunter reads kminion_kafka_topic_partition_high_water_mark and kminion_kafka_broker_log_dir_size_total_bytes"),
    (r"kafka_server_brokertopicmetrics_(?:bytes|messages)(?:in|out)persec",
     "the JMX exporter's, but does not say whether it is a counter or a rate: if a counter, rename it in the query (docs/recipes.md, Grafana Cloud)"),
    (r"kafka_(?:server|log|cluster|network|controller|coordinator)_.*|java_lang_.*|jvm_.*",
     "the JMX exporter's: of it Shunter reads BrokerTopicMetrics' bytes and messages (a counter or a one-minute rate), Log's Size and LogEndOffset, InSyncReplicasCount"),
    (r"kafka_cruisecontrol_.*", "Cruise Control's own: ask its API instead (--kind cruise-control-load)"),
)  # fmt: skip
"""Names of known sources that no row above has, and what to say of them."""

_JMX_TOPIC = (
    "kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin)(persec)?_(total|count)"
    "|kafka_log_log_(size|logendoffset)|kafka_cluster_partition_insyncreplicascount"
)
_NO_RULES = "kafka_server_BrokerTopicMetrics_Count"
_RULELESS_NAMES = (
    "|(BytesIn|BytesOut|MessagesIn|ReplicationBytesIn|ReplicationBytesOut)PerSec|Size|LogEndOffset|InSyncReplicasCount"
)
_BROKER_TOTALS = (
    "kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin|replicationbytesin|replicationbytesout)(persec)?_(total|count)"
    f"|{_NO_RULES}|kafka_topics_(BytesIn|BytesOut|MessagesIn|ReplicationBytesIn|ReplicationBytesOut)PerSec_Count"
)


def query_of(labels: Sequence[tuple[str, str]] = ()) -> str:
    """The PromQL that asks for all metrics that `METRICS` has, but for those of machines.

    A Prometheus may know ten thousand machines. Processors are those of processes that report broker metrics. `or` skips a
    series on its right whose labels equal those of a series on its left, whatever its name. So series that may have the
    same labels are in one selector.

    Args:
        labels: Labels that every series must have.
    """
    more = "".join(f',{label}="{_quoted(value)}"' for label, value in labels)
    of_topics = (
        f"{_JMX_TOPIC}|{_NO_RULES}|kafka_log_Log_Value|kafka_cluster_Partition_Value"
        "|kafka_topic_partition_(current_offset|leader)"
        "|kafka_topic_(BytesIn|BytesOut|MessagesIn)PerSec_Count|kafka_partition_(Size|LogEndOffset)"
    )
    of_brokers = f"{_BROKER_TOTALS}|(?i:java_lang_operatingsystem_(processcpuload|availableprocessors))|process_cpu_seconds_total"
    kminion = "kminion_kafka_(topic_partition_high_water_mark|broker_log_dir_size_total_bytes)"
    # A label that a series does not have is empty, so names of JMX without rules are told apart by `name`.
    name = f'name=~"{_RULELESS_NAMES}"'
    return (
        f'{{__name__=~"{of_topics}",topic!="",{name}{more}}}'
        f' or ({{__name__=~"{of_brokers}",topic="",{name}{more}}}'
        f' and on (instance) {{__name__=~"{_BROKER_TOTALS}"{more}}})'
        f' or {{__name__=~"{kminion}"{more}}}'
    )


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


__all__ = [
    "LOOKS_LIKE",
    "METRICS",
    "OF_BROKERS",
    "OF_PARTITIONS",
    "PARTITION_LABELS",
    "TOPIC_LABELS",
    "MetricName",
    "query_of",
]
