"""Each recipe of docs/recipes.md on a small made answer, with the metric and label names of that source."""

import json

import pyarrow as pa
import pytest

from shunter.app.pipeline.stages import Inputs, ingest
from shunter.formats.series_labels import NamedCluster, SeriesLabels, labels_from_file
from shunter.pipeline.lake.schemas import BROKER_SAMPLES, SAMPLES
from shunter.pipeline.sources.prometheus import read_prometheus
from shunter.pipeline.sources.prometheus_brokers import prometheus_brokers
from shunter.pipeline.sources.prometheus_forms import told_by_export, told_by_pages

pytestmark = pytest.mark.spark

T0 = 1_738_368_000
POD = ("kubernetes_pod_name", r".*-(\d+)")


def series(name, values, /, **labels):
    points = [[T0 + 60 * at, str(value)] for at, value in enumerate(values) if value is not None]
    return {"metric": {"__name__": name, **labels}, "values": points}


def saved(path, result):
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return [str(path)]


def told(rows, *names):
    """Rows that are taken, as the columns that are asked for, in order of time; and the reasons of the others."""
    good = sorted((row for row in rows if row["reader_rule"] is None), key=lambda row: row["window_start"])
    aside = sorted((row["reader_rule"], row["reader_detail"]) for row in rows if row["reader_rule"] is not None)
    return [tuple(row[name] for name in names) for row in good], aside


def of_strimzi(cluster, broker, factor, /, **more):
    """What Strimzi's example rules and pod monitor give of one broker, which leads one partition."""
    where = {"instance": f"10.1.{factor}.{broker}:9404", "namespace": "kafka", "strimzi_io_cluster": cluster, "kubernetes_pod_name": f"{cluster}-broker-{broker}", **more}  # fmt: skip
    of_log = {**where, "topic": "orders", "partition": str(broker)}
    yield series("kafka_server_brokertopicmetrics_bytesin_total", [0, 600 * factor], topic="orders", **where)
    yield series("kafka_log_log_size", [10, 20], **of_log)
    yield series("kafka_cluster_partition_insyncreplicascount", [2, 2], **of_log)


def test_strimzi_names_brokers_by_their_pods_and_a_fleet_by_its_labels(spark, tmp_path):
    """Two Strimzi clusters and a third one that nobody named, all with the label `cluster` of Kubernetes."""
    result = [
        *of_strimzi("orders", 3, 1, cluster="eu1"),
        *of_strimzi("orders", 3, 2, cluster="us1"),
        *of_strimzi("clicks", 4, 3, cluster="eu1"),
    ]
    labels = labels_from_file(
        "labels.toml",
        """
        [broker-from]
        kubernetes_pod_name = '.*-(\\d+)'
        [cluster.id-of-eu]
        cluster = "eu1"
        strimzi_io_cluster = "orders"
        [cluster.id-of-us]
        cluster = "us1"
        """,
    )
    rows = read_prometheus(spark, saved(tmp_path / "a.json", result), labels=labels).collect()
    good, aside = told(rows, "cluster_id", "broker_id", "bytes_in", "size_bytes")
    assert sorted(good) == [("id-of-eu", 3, 600, 20), ("id-of-us", 3, 1200, 20)]
    why = ("unknown_cluster", "no cluster that was named has its labels: cluster=eu1, strimzi_io_cluster=clicks")
    assert aside == [why] * 3


def test_names_that_broker_from_finds_may_stand_for_ids(spark, tmp_path):
    """The ordinals of a stateful set are not the ids, and one pod has no number at all."""
    one = {"topic": "t", "partition": "0", "instance": "10.0.0.1:9404"}
    result = [series("kafka_log_log_size", [1, 2], pod=pod, **one) for pod in ("kafka-0", "kafka-x")]
    labels = SeriesLabels((("kafka-0", 100),), None, (NamedCluster("c1", (("pod", "kafka-0"),)),), (("pod", "(.*)"),))
    good, _ = told(read_prometheus(spark, saved(tmp_path / "a.json", result), labels=labels).collect(), "broker_id")
    assert good == [(100,)]
    without = SeriesLabels(broker_from=(("pod", r"kafka-(\d+)"),))
    rows = read_prometheus(spark, saved(tmp_path / "a.json", result), cluster="c1", labels=without).collect()
    assert told(rows, "broker_id") == (
        [(0,)],
        [
            (
                "unknown_broker",
                r"instance 10.0.0.1:9404 is not mapped to a broker id; looked in pod=kafka-x by kafka-(\d+)",
            )
        ],
    )


def test_msk_without_rules(spark, tmp_path):
    where = {"instance": "b-2.prod.abc.c2.kafka.eu-west-1.amazonaws.com:11001", "topic": "orders"}
    result = [
        series("kafka_server_BrokerTopicMetrics_Count", [0, 600], name="BytesInPerSec", **where),
        series("kafka_log_Log_Value", [10, 20], name="Size", partition="0", **where),
        series("kafka_log_Log_Value", [0, 60], name="LogEndOffset", partition="0", **where),
        series("kafka_cluster_Partition_Value", [2, 2], name="InSyncReplicasCount", partition="0", **where),
    ]
    labels = SeriesLabels(broker_from=(("instance", r"b-(\d+)\..*"),))
    rows = read_prometheus(spark, saved(tmp_path / "a.json", result), cluster="c1", labels=labels).collect()
    names = ("broker_id", "role", "bytes_in", "bytes_out", "messages_in", "size_bytes")
    assert told(rows, *names) == ([(2, "leader", 600, None, 60, 20)], [])


def of_exporter(name, values, partition=0):
    return series(
        f"kafka_topic_partition_{name}", values, instance="exporter:9308", topic="orders", partition=str(partition)
    )


def test_kafka_exporter_tells_messages_and_no_bytes(spark, tmp_path):
    result = [
        of_exporter("current_offset", [100, 160, 220, 280, 300]),
        # It moves to broker 2 in the third minute, which counts for neither broker.
        of_exporter("leader", [1, 1, 1, 2, 2]),
        of_exporter("current_offset", [5, 5, 6, 7, 8], partition=1),
        of_exporter("oldest_offset", [0, 0, 0, 0, 0]),
    ]
    rows = read_prometheus(spark, saved(tmp_path / "a.json", result), cluster="c1").collect()
    names = ("partition", "broker_id", "role", "messages_in", "bytes_in", "bytes_out", "size_bytes")
    good, aside = told(rows, *names)
    unknown = (None, None, None)
    assert good == [(0, 1, "leader", 60, *unknown), (0, 1, "leader", 60, *unknown), (0, 2, "leader", 20, *unknown)]
    assert [rule for rule, _ in aside] == ["not_readable", "unknown_leader"]
    assert aside[0][1].startswith(
        "no metric that Shunter knows: kafka_topic_partition_oldest_offset. It looks like kafka_exporter's"
    )
    assert aside[1][1].startswith("1 partitions, 4 windows: nothing says who led them")


def test_kafka_exporter_says_who_leads_where_jmx_does_not(spark, tmp_path):
    """Strimzi deploys both. JMX has no InSyncReplicasCount here; broker 2 follows."""
    jmx = [
        one for broker in (1, 2)
        for one in (
            series("kafka_server_brokertopicmetrics_bytesin_total", [0, 600 * (broker == 1), 1200 * (broker == 1)], topic="orders", broker_id=str(broker)),
            series("kafka_log_log_size", [10, 20, 30], topic="orders", partition="0", broker_id=str(broker)),
        )
    ]  # fmt: skip
    result = [*jmx, of_exporter("leader", [1, 1, 1]), of_exporter("current_offset", [0, 7, 8])]
    rows = read_prometheus(spark, saved(tmp_path / "a.json", result), cluster="c1").collect()
    good, aside = told(rows, "broker_id", "role", "bytes_in", "messages_in", "size_bytes")
    assert sorted(good) == [
        (1, "leader", 600, 1, 30), (1, "leader", 600, 7, 20), (2, "follower", None, None, 20), (2, "follower", None, None, 30),
    ]  # fmt: skip
    assert aside == []


def test_kminion_needs_snapshots_for_leaders_and_tells_sizes_of_brokers_alone(spark, tmp_path):
    result = [
        series("kminion_kafka_topic_partition_high_water_mark", [10, 70], instance="k:8080", topic_name="orders", partition_id="0"),
        series("kminion_kafka_broker_log_dir_size_total_bytes", [5e9, 6e9], instance="k:8080", broker_id="9", address="b9", port="9092", rack_id="a"),
        series("kminion_kafka_topic_log_dir_size_total_bytes", [1e9, 1e9], instance="k:8080", topic_name="orders"),
    ]  # fmt: skip
    paths = saved(tmp_path / "a.json", result)
    columns = "cluster_id string, topic string, partition int, broker_id int, is_leader boolean, topic_id string, taken_at timestamp, date date"
    seen = spark.sql(
        f"SELECT 'c1', 'orders', 0, id, id = 9, 'orders', timestamp_seconds({T0}), date(timestamp_seconds({T0})) FROM (VALUES 8, 9) AS one(id)"
    )
    replicas = spark.createDataFrame(seen.collect(), columns)
    rows = read_prometheus(spark, paths, cluster="c1", replicas=replicas).collect()
    good, aside = told(rows, "broker_id", "role", "messages_in", "bytes_in", "size_bytes")
    assert good == [(9, "leader", 60, None, None)]
    assert [detail for _, detail in aside] == [
        "no metric that Shunter knows: kminion_kafka_topic_log_dir_size_total_bytes. It looks like kminion's: of it Shunter reads kminion_kafka_topic_partition_high_water_mark and kminion_kafka_broker_log_dir_size_total_bytes"
    ]
    (broker,) = prometheus_brokers(spark, paths, cluster="c1").collect()
    assert (broker["broker_id"], broker["size_bytes"], broker["cpu"], broker["bytes_in_rate"]) == (
        9,
        6 * 10**9,
        None,
        None,
    )


def test_telegraf_with_its_example_for_kafka(spark, tmp_path):
    where = {"instance": "kafka1:9273", "jolokia_agent_url": "http://localhost:8080/jolokia", "topic": "orders"}
    result = [
        series("kafka_topic_BytesInPerSec_Count", [0, 600], **where),
        series("kafka_topic_BytesInPerSec_MeanRate", [0, 10], **where),
        series("kafka_partition_Size", [10, 20], partition="0", **where),
        series("kafka_cluster_partition_insyncreplicascount", [1, 1], partition="0", **where),
    ]
    labels = SeriesLabels((("kafka1:9273", 1),))
    rows = read_prometheus(spark, saved(tmp_path / "a.json", result), cluster="c1", labels=labels).collect()
    good, aside = told(rows, "broker_id", "bytes_in", "size_bytes")
    assert (good, len(aside)) == ([(1, 600, 20)], 1)


PAGE = """\
# HELP kafka_topic_partition_current_offset Current Offset of a Broker at Topic/Partition
# TYPE kafka_topic_partition_current_offset gauge
kafka_topic_partition_current_offset{{partition="0",topic="a\\"b,{{}}"}} {offset}
kafka_topic_partition_leader{{partition="0",topic="a\\"b,{{}}"}} 7 {more}
go_goroutines 12
kafka_log_log_size{{topic="t",partition="0"}} 1e3
process_cpu_seconds_total 5.5

"""


def test_metrics_pages_as_curl_saves_them(spark, lake, now, tmp_path):
    """Two pages are one series. The broker's name is the folder's; the time is the file's name, or the line's own."""
    folder = tmp_path / "kafka-3"
    folder.mkdir()
    for minute, more in ((0, ""), (1, ""), (2, f"{(T0 + 120) * 1000}")):
        (folder / f"{T0 + 60 * minute}.txt").write_text(PAGE.format(offset=100 + 5 * minute, more=more))
    (folder / f"{T0 + 180}.txt").write_text("<html>\n<b>502 Bad Gateway</b>\n")
    (folder / f"{T0 + 240}.txt").write_text("go_goroutines 1\n")
    labels = SeriesLabels(broker_from=(("instance", r"kafka-(\d+)"),))
    inputs = Inputs((str(tmp_path / "kafka-3"),), "prometheus-text", "c1", labels)
    outcome = ingest(spark, lake, inputs)
    rows = lake.read(spark, SAMPLES).orderBy("broker_id", "window_start").collect()
    found = [
        (row["topic"], row["broker_id"], row["messages_in"], row["size_bytes"], row["window_seconds"]) for row in rows
    ]
    assert found == [("t", 3, None, 1000, 60)] * 2 + [('a"b,{}', 7, 5, None, 60)] * 2
    assert [why for _, why in outcome.lost_files] == ["no metrics page: <b>502 Bad Gateway</b>"]
    assert dict(outcome.rules) == {"file_not_readable": 1, "not_readable": 1}
    assert outcome.coverage.unknown == ("bytes_in", "bytes_out")


def test_lines_of_an_export_and_compressed_ones(spark, tmp_path):
    lines = [
        {"metric": {"__name__": "kafka_log_log_size", "topic": "t", "partition": "0", "broker": "4"}, "values": [10, None, 30], "timestamps": [T0 * 1000, T0 * 1000 + 60_000, T0 * 1000 + 120_000]},
        {"status": "success", "data": {}},
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with pa.CompressedOutputStream(str(tmp_path / "a.jsonl.zst"), "zstd") as stream:
        stream.write(text)
    rows = read_prometheus(spark, [str(tmp_path)], cluster="c1", told=told_by_export).collect()
    good, aside = told(rows, "broker_id", "size_bytes", "window_seconds")
    assert good == [(4, 30, 120)]
    assert [rule for rule, _ in aside] == ["not_a_number", "not_readable"]
    assert aside[1][1].startswith("no line with metric, values and as many timestamps")
    (tmp_path / "a.jsonl.zst").unlink()
    with pa.CompressedOutputStream(str(tmp_path / "b.json.zst"), "zstd") as stream:
        stream.write(b'{"status": "error", "error": "timeout"}')
    (row,) = read_prometheus(spark, [str(tmp_path)], cluster="c1").collect()
    assert row["reader_detail"] == "not a success: error timeout"


def test_a_dump_of_promtool_is_a_page_with_times(spark, tmp_path):
    (tmp_path / "dump.txt").write_text("".join(
        f'{{__name__="kafka_log_log_size", instance="k:1", node_id="2", partition="0", topic="t"}} {10 * n} {(T0 + 60 * n) * 1000}\n'
        for n in range(3)
    ))  # fmt: skip
    rows = read_prometheus(spark, [str(tmp_path)], cluster="c1", told=told_by_pages).collect()
    assert told(rows, "broker_id", "size_bytes", "window_seconds") == ([(2, 10, 60), (2, 20, 60)], [])


def test_cruise_control_without_prometheus(spark, lake, tmp_path):
    record = {"topic": "orders", "partition": 3, "leader": 7, "followers": [8], "cpu": 0.5, "networkInbound": 2.0, "networkOutbound": 4.0, "disk": 3.0, "msg_in": 10.0}  # fmt: skip
    stats = {"Host": "h", "Broker": 7, "Rack": "r", "BrokerState": "ALIVE", "DiskMB": 5.0, "DiskPct": 1.0, "CpuPct": 25.0, "LeaderNwInRate": 2.0, "FollowerNwInRate": 1.0, "NwOutRate": 4.0, "PnwOutRate": 9.0, "NumCore": 8}  # fmt: skip
    answers = {
        "partition_load": {"version": 1, "records": [record]},
        "load": {"version": 1, "hosts": [], "brokers": [stats]},
        "early": {"version": 1, "progress": [{"operation": "Load"}]},
        "refused": {"version": 1, "errorMessage": "NotEnoughValidWindowsException", "stackTrace": "…"},
    }
    for name, answer in answers.items():
        (tmp_path / "cc" / name).mkdir(parents=True)
        (tmp_path / "cc" / name / f"{T0 + 3600}.json").write_text(json.dumps(answer))
    outcome = ingest(spark, lake, Inputs((str(tmp_path / "cc"),), "cruise-control-load", "c1", window_seconds=3600))
    assert (outcome.good, outcome.broker_rows, dict(outcome.rules)) == (1, 1, {"file_not_readable": 2})
    assert sorted(why for _, why in outcome.lost_files) == [
        "Cruise Control answered: NotEnoughValidWindowsException",
        "Cruise Control had not finished (progress): ask again, or longer",
    ]
    row = lake.read(spark, SAMPLES).first()
    assert (row["topic"], row["partition"], row["broker_id"], row["role"]) == ("orders", 3, 7, "leader")
    assert (row["bytes_in"], row["bytes_out"], row["messages_in"]) == (2 * 1024 * 3600, 4 * 1024 * 3600, 36_000)
    assert (row["size_bytes"], row["window_seconds"], row["window_start"].timestamp()) == (3 * 1024**2, 3600, T0)
    broker = lake.read(spark, BROKER_SAMPLES).first()
    assert (broker["broker_id"], broker["cpu"], broker["processors"], broker["size_bytes"]) == (
        7,
        0.25,
        8.0,
        5 * 1024**2,
    )
    assert (broker["bytes_in_rate"], broker["replication_bytes_in_rate"]) == (2048.0, 1024.0)
