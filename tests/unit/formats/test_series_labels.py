"""The mapping file of a fleet's labels, and the names of metrics: what is refused, and which name is what."""

import re

import pytest

from shunter.errors import SettingsError
from shunter.formats.metric_names import LOOKS_LIKE, METRICS, query_of
from shunter.formats.series_labels import NamedCluster, broker_rule, labels_from_file


def test_a_file_for_a_fleet():
    told = labels_from_file(
        "fleet.toml",
        """
        [broker-from]
        pod = 'kafka-(\\d+)'
        [brokers]
        "kafka1:7071" = 1
        [cluster.AbC_1-x]
        cluster = "eu1"
        namespace = "kafka"
        [cluster.other]
        cluster = "us1"
        """,
    )
    assert told.clusters == (
        NamedCluster("AbC_1-x", (("cluster", "eu1"), ("namespace", "kafka"))),
        NamedCluster("other", (("cluster", "us1"),)),
    )
    assert (told.broker_from, told.brokers) == ((("pod", r"kafka-(\d+)"),), (("kafka1:7071", 1),))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[cluster", "fleet.toml: "),
        ("[clusters.a]\nx = '1'", "clusters is none of its tables: [broker-from], [brokers], [cluster]"),
        ("brokers = 1", "brokers is none of its tables"),
        ("[cluster.a]", "[cluster.'a'] names no label: write LABEL = 'VALUE' below it"),
        ("[cluster.a]\npod = 1", "[cluster.'a'] pod = 1: a label's value is a text: write it in quotes"),
        ("[cluster.a]\nx = '1'\n[cluster.b]\nx = '1'", "clusters a and b have the same labels (x = '1'): add a label that differs"),
        ("[brokers]\na = -1", "[brokers] 'a' = -1: not a broker id, a whole number from 0 up"),
        ("[broker-from]\npod = 'kafka-[0-9]+'", "[broker-from] pod = 'kafka-[0-9]+' has 0 groups, or named ones: write one group"),
        ("[broker-from]\npod = '('", "is no regular expression"),
        ("[broker-from]\npod = 3", "[broker-from] pod = 3 is no regular expression"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(text, words):
    with pytest.raises(SettingsError) as told:
        labels_from_file("fleet.toml", text)
    assert str(told.value).startswith("fleet.toml: ")
    assert words in str(told.value)


def test_a_named_group_is_refused_because_java_writes_it_otherwise():
    with pytest.raises(SettingsError, match="named ones"):
        broker_rule("--broker-from", "pod", r"kafka-(?P<id>\d+)")


def measures(name, *, of_topic):
    rows = [row for row in METRICS if re.fullmatch(row.name, name)]
    return [(row.of_topic if of_topic else row.of_broker, row.kind) for row in rows]


@pytest.mark.parametrize(
    ("name", "of_topic", "measure", "kind"),
    [
        ("kafka_server_brokertopicmetrics_bytesin_total", True, "bytes_in", "count"),
        ("kafka_server_brokertopicmetrics_bytesinpersec_total", True, "bytes_in", "count"),
        ("kafka_server_brokertopicmetrics_bytesoutpersec_count", False, "total_bytes_out", "count"),
        ("kafka_server_brokertopicmetrics_count_bytesinpersec", True, "bytes_in", "count"),
        ("kafka_server_brokertopicmetrics_messagesin_oneminuterate", True, "messages_in", "rate"),
        ("kafka_server_brokertopicmetrics_replicationbytesin_total", False, "replication_bytes_in", "count"),
        ("kafka_log_log_value_size", True, "size", "count"),
        ("kafka_topic_bytesinpersec_count", True, "bytes_in", "count"),
        ("kafka_topic_partition_current_offset", True, "partition_offset", "count"),
        ("kminion_kafka_broker_log_dir_size_total_bytes", False, "disk", "rate"),
    ],
)
def test_one_row_of_the_table_has_a_name(name, of_topic, measure, kind):
    assert measures(name, of_topic=of_topic) == [(measure, kind)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kafka_consumergroup_lag", "kafka_exporter's"),
        ("kminion_kafka_topic_info", "kminion's"),
        ("kafka_server_brokertopicmetrics_bytesinpersec", "does not say whether it is a counter or a rate"),
        ("kafka_server_replicamanager_partitioncount", "the JMX exporter's"),
        ("topic:kafka_server_brokertopicmetrics_bytesin_total:rate5m", None),
        ("go_goroutines", None),
    ],
)
def test_an_unknown_name_is_in_no_row_and_may_look_like_a_source(name, words):
    assert measures(name, of_topic=True) == []
    found = [what for like, what in LOOKS_LIKE if re.fullmatch(like, name)]
    assert found == [] if words is None else found[0].startswith(words) or words in found[0]


def selectors(query):
    """The selectors of a query: the expression for the name, and for the label `name` where there is one."""
    for inside in re.findall(r"{([^}]*)}", query):
        told = dict(re.findall(r'(\w+)=~"([^"]*)"', inside))
        yield re.compile(told["__name__"]), re.compile(told.get("name", ".*")), inside


@pytest.mark.parametrize(
    ("name", "attribute", "topic"),
    [
        ("kafka_server_brokertopicmetrics_bytesin_total", "", True),
        ("kafka_server_BrokerTopicMetrics_Count", "BytesInPerSec", True),
        ("kafka_server_BrokerTopicMetrics_Count", "ReplicationBytesInPerSec", False),
        ("kafka_log_Log_Value", "Size", True),
        ("kafka_cluster_Partition_Value", "InSyncReplicasCount", True),
        ("kafka_topic_partition_leader", "", True),
        ("kafka_partition_LogEndOffset", "", True),
        ("kminion_kafka_topic_partition_high_water_mark", "", False),
        ("java_lang_OperatingSystem_ProcessCpuLoad", "", False),
    ],
)
def test_the_query_asks_for_what_the_table_has(name, attribute, topic):
    asked = [
        inside
        for names, attributes, inside in selectors(query_of())
        if names.fullmatch(name)
        and attributes.fullmatch(attribute)
        and f'topic{"=" if topic else "!="}""' not in inside
    ]
    assert asked


def test_the_query_leaves_out_other_attributes_and_other_clusters():
    for names, attributes, inside in selectors(query_of((("cluster", 'eu"1'),))):
        assert not (names.fullmatch("kafka_log_Log_Value") and attributes.fullmatch("NumLogSegments"))
        assert inside.endswith('cluster="eu\\"1"')
