"""Readers of other tools' files: every reader ends in samples or in named rejects."""

import json
import re
import struct
from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from shunter.formats.inventory_files import encode_inventory
from shunter.formats.series_labels import SeriesLabels
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.pipeline.ingest.batches import IngestOptions
from shunter.pipeline.ingest.broker_batch import cruise_control_reader, ingest_with_brokers
from shunter.pipeline.ingest.broker_check import broker_loads, doubts
from shunter.pipeline.ingest.snapshot_batch import ingest_snapshots, latest_snapshot
from shunter.pipeline.ingest.stream import StreamOptions, ingest_batch
from shunter.pipeline.lake.schemas import BROKER_SAMPLES, BROKERS, REJECTS, REPLICAS, SAMPLES
from shunter.pipeline.sources.log_dirs import read_log_dirs
from shunter.pipeline.sources.prometheus import read_prometheus

pytestmark = pytest.mark.spark

T0 = 1738368000  # 2025-02-01T00:00:00Z


KAFKA_1 = SeriesLabels((("kafka-1:7071", 1),))


def series(name, values, *, step=60, **labels):
    return {
        "metric": {"__name__": name, "instance": "kafka-1:7071", "topic": "orders", **labels},
        "values": [[T0 + step * n, str(value)] for n, value in enumerate(values) if value is not None],
    }


def answered(spark, folder, result, **brokers):
    """Rows of one answer; brokers are named as in `kafka-1:7071`, by their number there: `kafka_1=1`."""
    path = folder / "range.json"
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    known = {f"{name.replace('_', '-')}:7071": broker for name, broker in brokers.items()}
    return read_prometheus(spark, [str(path)], cluster="c1", labels=SeriesLabels(tuple(known.items()))).collect()


def test_prometheus_counters_resets_gaps_and_shares(spark, tmp_path):
    result = [
        series("kafka_server_brokertopicmetrics_bytesin_total", [1000, 1600, 300, 900, None, None, None, None, 5000]),
        series("kafka_log_log_size", [10, 20, 30, 40], partition="0"),
        series("kafka_log_log_size", [10, 10, 10, 10], partition="1"),
        series("kafka_log_log_size", [7, 7, 7, 7], partition="2"),
        series("kafka_log_log_logendoffset", [0, 30, 60, 60], partition="0"),
        series("kafka_log_log_logendoffset", [0, 10, 30, 30], partition="1"),
        series("kafka_cluster_partition_insyncreplicascount", [2, 2, 2, 2], partition="0"),
        series("kafka_cluster_partition_insyncreplicascount", [2, 2, 2, 2], partition="1"),
        series("kafka_cluster_partition_insyncreplicascount", [0, 0, 0, 0], partition="2"),
        series("go_goroutines", [1, 2]),
        series("kafka_log_log_size", [1], partition="0", instance="elsewhere:1"),
    ]
    never = series("kafka_log_log_size", [1], partition="0")
    never["values"] = [[10**18, "1"]]
    result.append(never)
    totals = series("kafka_server_brokertopicmetrics_bytesin_total", [1, 2])
    del totals["metric"]["topic"]
    rows = answered(spark, tmp_path, [*result, totals], kafka_1=1)
    good = {(row["partition"], int(row["window_start"].minute)): row for row in rows if row["reader_rule"] is None}
    # 600 bytes came in the first minute: 3 of 4 messages were partition 0's.
    assert [good[p, 0]["bytes_in"] for p in (0, 1, 2)] == [450, 150, None]
    # The counter fell to 300: the broker restarted, and has received 300 bytes since, split by messages, 30 to 20.
    assert [good[p, 1]["bytes_in"] for p in (0, 1, 2)] == [180, 120, None]
    # No offset grew: the bytes are split by size, 40 to 10.
    assert [good[p, 2]["bytes_in"] for p in (0, 1, 2)] == [480, 120, None]
    assert [good[p, 0]["role"] for p in (0, 1, 2)] == ["leader", "leader", "follower"]
    assert good[0, 0]["window_seconds"] == 60
    assert good[0, 1]["messages_in"] == 30
    assert good[2, 0]["size_bytes"] == 7
    assert {row["broker_id"] for row in good.values()} == {1}
    flaws = sorted((row["reader_rule"], row["reader_detail"]) for row in rows if row["reader_rule"] is not None)
    assert flaws == [
        ("not_a_time", f"time is {10**18}: no seconds since 1970"),
        ("not_readable", "no metric that Shunter knows: go_goroutines"),
        (
            "unknown_broker",
            "instance elsewhere:1 is not mapped to a broker id: --broker INSTANCE=ID, or --broker-from LABEL=REGEX if a label such as pod has the id",
        ),
    ]


def test_prometheus_splits_no_bytes_while_leaders_change(spark, tmp_path):
    """A busy partition leaves broker 1: what it took in there is not a quiet one's. It moves away, goes to broker 2, and back."""
    counter, offset = "kafka_server_brokertopicmetrics_bytesin_total", "kafka_log_log_logendoffset"
    in_sync = "kafka_cluster_partition_insyncreplicascount"
    two = {"instance": "kafka-2:7071"}
    result = [
        series(counter, [0, 6060, 9120, 9180, 9240, 12300, 18360]),
        series(counter, [0, 60, 3120, 9180, 15240, 18300, 18360], **two),
        series(in_sync, [2, 2, 2, 2, 2, 2, 2], partition="0"),
        series(in_sync, [2, 2, 2, 2, 2, 2, 2], partition="1", **two),
        # Partition 9 is busy. It leaves broker 1, whose series then ends, and is back there with the fifth point.
        series(in_sync, [2, 2, None, None, None, 2, 2], partition="9"),
        series(in_sync, [0, 0, 2, 2, 2, 0, 0], partition="9", **two),
        *(series(offset, [60 * n for n in range(7)], partition=number, **where) for number, where in (("0", {}), ("1", two))),
        series(offset, [0, 6000, None, None, None, 30000, 36000], partition="9"),
        series(offset, [6000 * n for n in range(7)], partition="9", **two),
    ]  # fmt: skip
    rows = answered(spark, tmp_path, result, kafka_1=1, kafka_2=2)
    assert {row["reader_rule"] for row in rows} == {None}
    found = {}
    for row in sorted(rows, key=lambda row: row["window_start"]):
        found.setdefault((row["partition"], row["broker_id"]), []).append((row["bytes_in"], row["messages_in"]))
    # In the second and in the fifth minute broker 1 led partition 9 for a part of the time.
    assert found[0, 1] == [(60, 60), (None, 60), (60, 60), (60, 60), (None, 60), (60, 60)]
    assert found[1, 2] == found[0, 1]
    assert found[9, 2] == [(None, 6000), (None, 6000), (6000, 6000), (6000, 6000), (None, 6000), (None, 6000)]
    assert found[9, 1][0] == (6000, 6000)
    assert found[9, 1][-1] == (6000, 6000)


def test_prometheus_of_topics_that_nobody_reads(spark, tmp_path):
    """A broker has no series of a topic's bytes out until a client reads the topic."""
    came, went = "kafka_server_brokertopicmetrics_bytesin_total", "kafka_server_brokertopicmetrics_bytesout_total"
    mute, in_sync = {"instance": "kafka-2:7071"}, "kafka_cluster_partition_insyncreplicascount"
    topics = ("read", "unread", "later", "last")
    result = [
        *(series("kafka_log_log_size", [1] * 5, topic=topic, partition="0") for topic in topics),
        *(series(in_sync, [1] * 5, topic=topic, partition="0") for topic in topics),
        *(series(came, [60 * n for n in range(5)], topic=topic) for topic in topics),
        series(went, [600 * n for n in range(5)], topic="read"),
        # First read in the third minute, and at the very end: how much was read there is not known.
        series(went, [None, None, None, 7, 307], topic="later"),
        series(went, [None, None, None, None, 7], topic="last"),
        # This broker shows no bytes out at all.
        series("kafka_log_log_size", [1] * 5, topic="read", partition="1", **mute),
        series(in_sync, [1] * 5, topic="read", partition="1", **mute),
        series(came, [60 * n for n in range(5)], topic="read", **mute),
    ]
    rows = answered(spark, tmp_path, result, kafka_1=1, kafka_2=2)
    assert {row["reader_rule"] for row in rows} == {None}
    found = {}
    for row in sorted(rows, key=lambda row: row["window_start"]):
        assert row["bytes_in"] == 60
        found.setdefault((row["topic"], row["broker_id"]), []).append(row["bytes_out"])
    assert found == {
        ("read", 1): [600, 600, 600, 600],
        ("unread", 1): [0, 0, 0, 0],
        ("later", 1): [0, 0, None, 300],
        ("last", 1): [0, 0, 0, None],
        ("read", 2): [None] * 4,
    }


def of_one(topic, name, values, at=0, **labels):
    one = series(name, [], topic=topic, partition="0", **labels)
    one["values"] = [[T0 + at + 60 * minute, str(value)] for minute, value in enumerate(values) if value is not None]
    return one


def test_prometheus_does_not_invent_what_it_can_not_know(spark, tmp_path):
    """Each topic is one case that once gave inflated rates."""
    counter, offset = "kafka_server_brokertopicmetrics_bytesin_total", "kafka_log_log_logendoffset"
    hour = [1_000_000 + 600 * minute for minute in range(6)]
    late = [1_000_300 + 600 * minute for minute in range(6)]
    answers = {
        "a.json": [
            # A leader that lost its tail, and a topic that was created anew: neither is the reset of a counter.
            of_one("fell", offset, [50_000_000, 49_999_610, 50_000_000, 30]),
            # Two servers of a pair, one half a minute behind the other, in one answer and in two.
            of_one("pair", counter, hour, prometheus_replica="a"),
            of_one("pair", counter, [value - 50 for value in late], at=30, prometheus_replica="b"),
            of_one("two", counter, hour),
            # Twelve hours without an answer are not measured.
            of_one("gap", counter, [100, 160, 220, *[None] * 720, 5_000_000, 5_000_060]),
            # The point after one that is not a number has no point to be compared with.
            of_one("nan", counter, [7_000_000, "NaN", 7_000_120, 7_000_180]),
            # A series that missed a scrape beside one that did not: both give the same rate.
            of_one("missed", counter, [100, None, 220, 280]),
            of_one("missed", offset, [1, 2, 3, 4]),
        ],
        "b.json": [of_one("two", counter, [value - 700 for value in hour])],
        # The next answer of the same server begins where the one before ended.
        "c.json": [of_one("two", counter, [hour[-1], hour[-1] + 90], at=300)],
    }
    for name, result in answers.items():
        (tmp_path / name).write_text(
            json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
        )
    rows = read_prometheus(spark, [str(tmp_path)], cluster="c1", labels=KAFKA_1).collect()
    aside = [row for row in rows if row["reader_rule"] is not None]
    told = "kafka_server_brokertopicmetrics_bytesin_total: 1 of 4 values are put aside: NaN, infinite or below 0"
    assert [(row["topic"], row["reader_rule"], row["reader_detail"]) for row in aside] == [
        ("nan", "not_a_number", told)
    ]
    found = {}
    for row in sorted((row for row in rows if row["reader_rule"] is None), key=lambda row: row["window_start"]):
        start = int(row["window_start"].timestamp()) - T0
        found.setdefault(row["topic"], []).append((start, row["window_seconds"], row["bytes_in"], row["messages_in"]))
    assert found["fell"] == [(0, 60, None, None), (60, 60, None, 390), (120, 60, None, None)]
    steady = [(60 * minute, 60, 600, None) for minute in range(5)]
    assert found["pair"] == [*steady, (300, 30, 250, None)]
    assert found["two"] == [*steady, (300, 60, 90, None)]
    assert found["gap"] == [(0, 60, 60, None), (60, 60, 60, None), (722 * 60, 60, None, None), (723 * 60, 60, 60, None)]
    assert found["nan"] == [(0, 120, 120, None), (120, 60, 60, None)]
    assert found["missed"] == [(0, 60, None, 1), (60, 60, 60, 1), (120, 60, 60, 1)]


def test_a_series_of_prometheus_does_not_carry_all_others_along(spark, tmp_path):
    """An answer of 172 series and 360 points each took a gigabyte, because each series carried the whole answer."""
    (tmp_path / "a.json").write_text("{}")
    rows = read_prometheus(spark, [str(tmp_path)], cluster="c1", labels=KAFKA_1)
    steps = re.findall(r"Generate (\w+)\(.*?\), \[(.*?)\]", rows._jdf.queryExecution().executedPlan().toString())
    assert [name for name, _ in steps] == ["explode"] * len(steps)
    for name, carried in steps:
        names = {column.split("#")[0] for column in carried.split(", ")}
        assert not names & {"data", "result", "values", "good", "told", "servers", "twins"}, name


def test_prometheus_that_answered_with_an_error(spark, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"status": "error", "error": "query timed out"}))
    (tmp_path / "b.json").write_text("<html>")
    rows = read_prometheus(spark, [str(tmp_path)], cluster="c1").collect()
    assert sorted(row["reader_detail"] for row in rows) == ["not JSON", "not a success: error query timed out"]


def test_log_dirs(spark, tmp_path):
    dirs = [
        {
            "logDir": "/a",
            "error": None,
            "partitions": [
                {"partition": "my-topic-12", "size": 5, "offsetLag": 0, "isFuture": False},
                {"partition": "my-topic-12", "size": 1, "offsetLag": 9, "isFuture": True},
            ],
        },
        {"logDir": "/b", "error": "KafkaStorageException", "partitions": []},
    ]
    text = "Querying brokers for log directories information\n" + json.dumps(
        {"version": 1, "brokers": [{"broker": 3, "logDirs": dirs}]}
    )
    (tmp_path / "out.txt").write_text(text + "\n{broken\n")
    rows = read_log_dirs(
        spark, [str(tmp_path / "out.txt")], cluster="c1", at=datetime(2025, 2, 1, tzinfo=UTC)
    ).collect()
    good = [row for row in rows if row["reader_rule"] is None]
    assert [(r["topic"], r["partition"], r["broker_id"], r["size_bytes"], r["role"]) for r in good] == [
        ("my-topic", 12, 3, 5, "unknown")
    ]
    assert str(good[0]["window_start"]) == "2025-02-01 00:00:00"
    assert sorted(row["reader_detail"] for row in rows if row["reader_rule"]) == [
        "log dir /b: KafkaStorageException",
        "not the JSON of kafka-log-dirs: {broken",
    ]


def inventory(minute, partitions):
    brokers = (InventoryBroker(1, "h1", None, 10**9, 10**8), InventoryBroker(2, "h2", "r2", None, None))
    found = tuple(
        InventoryPartition(
            "t", "uuid-1", number, (1, 2), (1, 2), 1, start, end, 1, ((1, size), (2, size - 5)), (), "delete"
        )
        for number, start, end, size in partitions
    )
    return Inventory("c1", (T0 + 60 * minute) * 1000, brokers, found)


def save(path, taken):
    path.write_bytes(b"".join(encode_inventory(taken)))
    return str(path)


def test_snapshots_become_samples_across_batches(spark, lake, now, tmp_path):
    first = save(
        tmp_path / "1.jsonl",
        inventory(0, [(0, 0, 100, 1000), (1, 0, 100, 1000), (2, 0, 100, 1000), (3, 0, 100, 10**12)]),
    )
    second = save(
        tmp_path / "2.jsonl",
        inventory(1, [(0, 0, 160, 1600), (1, 50, 150, 900), (2, 0, 90, 950), (3, 50, 5 * 10**8 + 100, 10**12)]),
    )
    # A snapshot of a clock that is years ahead must not stay the newest. A value that is not a time must not end the
    # batch.
    ahead = save(tmp_path / "3.jsonl", inventory(6_000_000, [(0, 0, 100, 1000)]))
    never = save(tmp_path / "4.jsonl", inventory(2**45, []))
    options = IngestOptions()
    assert ingest_snapshots(spark, lake, [first], now=now, options=options).good == 0
    outcome = ingest_snapshots(spark, lake, [second, ahead, never], now=now, options=options)
    assert (outcome.good, dict(outcome.rules)) == (8, {"not_readable": 3})
    assert "not within 2010 and now" in dict(outcome.examples)["not_readable"]
    assert ingest_snapshots(spark, lake, [first, second], now=now, options=options).ingest_id is None
    rows = lake.read(spark, SAMPLES).where(F.col("role") == "leader").orderBy("partition").collect()
    found = [(r["partition"], r["bytes_in"], r["messages_in"], r["size_bytes"], r["window_seconds"]) for r in rows]
    # Partition 0 grew by 600 bytes. Retention deleted some of partition 1: 50 messages of 9 bytes. Partition 2 lost its
    # tail: only its size is known.
    assert found[:3] == [(0, 600, 60, 1600, 60), (1, 450, 50, 900, 60), (2, None, None, 950, 60)]
    # A busy partition: the product of messages and bytes is more than 64 bits hold.
    assert found[3:] == [(3, 999_999_900_000, 5 * 10**8, 10**12, 60)]
    brokers, replicas = latest_snapshot(spark, lake)
    assert brokers.select("broker_id", "rack").orderBy("broker_id").collect() == [(1, None), (2, "r2")]
    assert (replicas.count(), lake.read(spark, REPLICAS).count(), lake.read(spark, BROKERS).count()) == (8, 16, 4)


def record(minute, partition=0, **changes):
    row = {
        "cluster_id": "c1", "topic": "t", "partition": partition, "broker_id": 1, "role": "leader",
        "window_start": T0 + 60 * minute, "window_seconds": 60, "bytes_in": 60, **changes,
    }  # fmt: skip
    return json.dumps(row)


def test_a_snapshot_line_with_a_field_of_another_type_is_told_by_its_field(spark, lake, now, tmp_path):
    head, *lines = encode_inventory(inventory(0, [(number, 0, 100, 1000) for number in range(5)]))
    odd = ({"sizes": {"1": 123}}, {"sizes": [{"broker": "x", "bytes": 5}]}, {"partition": "2"}, {"version": 2})
    changed = [json.dumps({**json.loads(line), **change}) for line, change in zip(lines[1:], odd, strict=True)]
    text = "\n".join([head.decode().strip(), lines[0].decode().strip(), *changed, "null", '{"kind": "part'])
    (tmp_path / "odd.jsonl").write_text(text + "\n")
    ingest_snapshots(spark, lake, [str(tmp_path / "odd.jsonl")], now=now, options=IngestOptions())
    rows = lake.read(spark, REJECTS).select("rule", "detail").collect()
    assert sorted(row["detail"] for row in rows if row["rule"] == "not_readable") == [
        "no JSON object: null",
        'not JSON: {"kind": "part',
        'partition is "2", expected a whole number of 32 bits',
        'sizes is [{"broker":"x","bytes":5}], expected a list of {broker, bytes}',
        'sizes is {"1":123}, expected a list of {broker, bytes}',
        "version is not 1",
    ]
    whole = [row["detail"] for row in rows if row["rule"] == "incomplete"]
    assert whole == ["the snapshot holds 1 of its 5 partitions: 6 lines of its file were refused"]


def test_a_streams_batches_repeat_harmlessly_and_put_late_rows_aside(spark, lake, now):
    options = StreamOptions(checkpoint="unused")

    def batch(number, values):
        rows = [(value, f"samples-0@{number * 10 + at}") for at, value in enumerate(values)]
        frame = spark.createDataFrame(rows, "value string, file string")
        return ingest_batch(spark, lake, frame, "q1", number, options, now)

    assert batch(0, [record(120), record(121), "nonsense"]).rules == (("not_readable", 1),)
    second = [record(122), record(121), record(61, partition=1), record(30)]
    commit = batch(1, second)
    assert (commit.good, dict(commit.rules)) == (2, {"already_ingested": 1, "late": 1})
    assert str(commit.watermark) == "2025-02-01 02:02:00+00:00"
    assert batch(1, second) is None, "Spark repeats its last batch after a crash"
    assert batch(0, second) is None
    assert lake.read(spark, SAMPLES).count() == 4
    assert len(lake.live(spark)) == 2
    lake.optimize(spark)
    assert batch(1, second) is None
    assert dict(batch(2, [record(30, partition=5), record(123)]).rules) == {"late": 1}
    # A checkpoint was lost: the same records under another query are recognized from the table.
    again = spark.createDataFrame([(record(120), "samples-0@0")], "value string, file string")
    assert ingest_batch(spark, lake, again, "q2", 0, options, now).rules == (("already_ingested", 1),)


def of_a_partition(bytes_in, *, time_ms=T0 * 1000, broker=7, partition=42):
    return struct.pack(">bi9dqi", 1, broker, 0.5, 3.0, bytes_in, 4.0, 0, 0, 10.0, 0, 0, time_ms, partition) + b"orders"


def of_a_broker(bytes_in, *, time_ms=T0 * 1000, broker=7, cpu=0.5, idle=0.9):
    loads = (cpu, bytes_in, 6.0, 10.0, 20.0, 30.0, 1.0, 2.0, 3.0, idle, 5.0, 0.0, 0.0)
    return struct.pack(">bih1s13dq2i41d", 5, broker, 1, b"h", *loads, time_ms, 1, 2, *[2.5] * 41) + b"\0\0"


def test_cruise_control_of_partitions_and_of_brokers(spark, lake, now, tmp_path):
    def ingest(name, *values):
        rows = [(None if value is None else bytearray(value),) for value in values]
        spark.createDataFrame(rows, "value binary").coalesce(1).write.parquet(str(tmp_path / name))
        return again(name)

    def again(*names):
        paths = [str(tmp_path / name) for name in names]
        reader = cruise_control_reader("c1")
        return ingest_with_brokers(spark, lake, paths, reader, now=now, options=IngestOptions())

    never = 2**62
    took = ingest(
        "a", of_a_partition(2.0), of_a_partition(1.0, partition=43), of_a_partition(1.0, time_ms=never), b"\x09?", None,
        of_a_broker(4.0), of_a_broker(4.0), of_a_broker(-1.0, broker=8), of_a_broker(1.0, broker=9, cpu=55.0),
        of_a_broker(1.0, time_ms=never), b"\x05broker",
    )  # fmt: skip
    assert (took.good, took.broker_rows, took.rejected) == (2, 1, 8)
    assert dict(took.rules) == {"not_readable": 3, "not_a_time": 2, "duplicate": 1, "negative": 1, "wrong_unit": 1}
    assert dict(took.examples)["wrong_unit"].startswith("a broker sample: cpu 55.0 is no share of the processors")
    row = lake.read(spark, SAMPLES).where(F.col("partition") == 42).first()
    assert (row["topic"], row["broker_id"], row["role"]) == ("orders", 7, "leader")
    # 2 KB/s for two minutes; 3 MB on disk.
    assert (row["bytes_in"], row["bytes_out"], row["messages_in"]) == (2 * 1024 * 120, 4 * 1024 * 120, 1200)
    assert row["size_bytes"] == 3 * 1024 * 1024
    assert int(row["window_start"].timestamp()) == T0 - 120
    broker = lake.read(spark, BROKER_SAMPLES).first()
    assert (broker["broker_id"], broker["host"], broker["cpu"], broker["bytes_in_rate"]) == (7, "h", 0.5, 4 * 1024)
    assert (broker["size_bytes"], broker["produce_requests_rate"]) == (5 * 1024 * 1024, 1.0)

    # The same files again change nothing; the same windows in another file are put aside.
    assert again("a").ingest_id is None
    more = ingest("b", of_a_broker(4.0), of_a_broker(8.0, time_ms=(T0 + 120) * 1000, cpu=0.9, idle=0.1))
    assert (more.good, more.broker_rows, dict(more.rules)) == (0, 1, {"already_ingested": 1})

    # Three of the four KB/s that the broker counted are in its partitions' samples; the other window has none.
    # Samples from snapshots of that time, and a longer window with the same start, are not added to them.
    samples = lake.read(spark, SAMPLES)
    derived = samples.withColumn("source", F.lit("snapshots"))
    others = derived.unionByName(samples.withColumn("window_seconds", F.lit(600)))
    loads = broker_loads(lake.read(spark, BROKER_SAMPLES), samples.unionByName(others))
    (load,) = loads.collect()
    assert (load["windows"], load["compared_windows"], load["cpu_max"], load["cpu_mean"]) == (2, 1, 0.9, 0.7)
    assert load["bytes_in_max"] == 18 * 1024
    assert (load["explained_bytes_in"], load["explained_bytes_out"]) == (0.75, 8 / 6)
    assert [doubt.what for doubt in doubts(loads)] == [
        "the samples of the partitions that it leads make 75% of its own count of bytes in",
        "the samples of the partitions that it leads make 133% of its own count of bytes out",
        "its processors are 90% busy (95th percentile)",
        "its request handlers are 10% idle (5th percentile)",
    ]
