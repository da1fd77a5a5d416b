"""Figures from real exporters and snapshots, as the outcome of `ingest` and the load model show them."""

import json
from datetime import UTC, datetime

import pytest

from shunter.app.pipeline.stages import Inputs, model_lake
from shunter.app.pipeline.stages import ingest as ingest_stage
from shunter.formats.inventory_files import encode_inventory
from shunter.formats.series_labels import SeriesLabels
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.pipeline.ingest.snapshot_batch import latest_snapshot
from shunter.pipeline.lake.schemas import LOAD_MODEL, SAMPLES
from shunter.pipeline.load.modelling import load_model
from shunter.pipeline.planning.fleet import fleet_rows
from shunter.pipeline.sources.log_dirs import read_log_dirs

pytestmark = pytest.mark.spark

T0 = 1738368000
CAME = "kafka_server_brokertopicmetrics_bytesin_total"
SIZE, OFFSET, IN_SYNC = (
    "kafka_log_log_size",
    "kafka_log_log_logendoffset",
    "kafka_cluster_partition_insyncreplicascount",
)


def series(name, points, topic="o", broker=1, **labels):
    metric = {"__name__": name, "broker_id": str(broker), "topic": topic, **labels}
    return {"metric": metric, "values": [[T0 + at, str(value)] for at, value in points]}


def one_leader(times, rate=1_000, topic="o", **labels):
    """A broker that leads one partition, and what it shows at some times."""
    part = {"topic": topic, "partition": "0", **labels}
    return [
        series(CAME, [(at, 10**9 + rate * at) for at in times], topic, **labels),
        series(SIZE, [(at, 100) for at in times], **part),
        series(OFFSET, [(at, at) for at in times], **part),
        series(IN_SYNC, [(at, 2) for at in times], **part),
    ]


def answer(path, *result):
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return str(path)


def ingest(spark, lake, *paths, kind="prometheus", cluster="c1", **more):
    return ingest_stage(spark, lake, Inputs(paths, kind, cluster, **more))


def sums(spark, lake):
    rows = lake.read(spark, SAMPLES).groupBy("topic").agg({"bytes_in": "sum"}).collect()
    return {row[0]: row[1] for row in rows}


def test_answers_of_other_grids_steps_and_kinds_say_what_their_gaps_cost(spark, lake, tmp_path):
    late = answer(tmp_path / "late.json", *one_leader(range(550, 1500, 60)))
    early = answer(tmp_path / "early.json", *one_leader(range(0, 601, 60)))
    # Another server's answers, of an hour's history by five minutes, then by ten seconds.
    slow = answer(tmp_path / "slow.json", *one_leader(range(0, 3601, 300), topic="s"))
    fast = answer(tmp_path / "fast.json", *one_leader(range(3600, 3801, 10), topic="s"))
    gappy = answer(tmp_path / "gappy.json", *one_leader([*range(0, 301, 60), *range(1200, 1501, 60)], topic="g"))
    # A counter beside its own rate, and rules that keep the counter's name.
    wild = [(at, 5_000_000) for at in range(0, 601, 60)]
    kinds = answer(
        tmp_path / "kinds.json",
        *one_leader(range(0, 601, 60), topic="k"),
        series("kafka_server_brokertopicmetrics_bytesin_oneminuterate", wild, "k"),
        series(f"instance:{CAME}", wild, "k"),
        series(f"topic:{CAME}:rate5m", wild, "k"),
    )
    outcome = ingest(spark, lake, late, early, slow, fast, gappy, kinds)
    assert sums(spark, lake) == {"o": 1_450_000, "s": 3_800_000, "g": 600_000, "k": 600_000}
    assert dict(outcome.rules) == {"not_readable": 2}
    assert "is a recording rule: what it computes is not known" in dict(outcome.examples)["not_readable"]
    covered = outcome.coverage
    assert (covered.partitions, covered.with_rates, covered.with_gaps) == (4, 4, 1)
    assert (covered.worst, covered.gap_seconds) == ("g-0", 900)
    assert covered.share == pytest.approx((1450 + 3800 + 600 + 600) / (1450 + 3800 + 1500 + 600))
    assert covered.told == "rates cover 87.8 % of the time of 4 partitions; 1 has gaps, the most g-0: 900 s"


def snapshot(path, minute, *partitions):
    """Partitions: (topic, number, replicas, leader, size, start, end, cleanup policy)."""
    brokers = tuple(InventoryBroker(broker, f"h{broker}", None, 10**12, 10**11) for broker in (1, 2))
    found = tuple(
        InventoryPartition(
            topic, f"id-{topic}", number, held, held, leader, start, end, 1,
            tuple((broker, size) for broker in held), (), policy,
        )
        for topic, number, held, leader, size, start, end, policy in partitions
    )  # fmt: skip
    path.write_bytes(b"".join(encode_inventory(Inventory("c1", (T0 + 60 * minute) * 1000, brokers, found))))
    return str(path)


def test_leaders_that_an_exporter_does_not_name_are_those_of_snapshots(spark, lake, tmp_path):
    """Two brokers, each leader of one partition of a topic and follower of the other."""
    times = range(0, 601, 60)
    result = []
    for broker in (1, 2):
        result.append(series(CAME, [(at, 1_000 * at) for at in times], broker=broker))
        for number in (0, 1):
            points, log = [(at, at) for at in times], {"broker": broker, "partition": str(number)}
            result += [series(name, points, **log) for name in (SIZE, OFFSET)]
    path = answer(tmp_path / "a.json", *result)
    nothing = ingest(spark, lake, path)
    assert nothing.nothing_new
    assert dict(nothing.rules) == {"unknown_leader": 40}
    assert "ingest a snapshot of the cluster before this answer" in dict(nothing.examples)["unknown_leader"]
    shown = [("o", number, (1, 2), 1 + number, 1_000, 0, 100, "delete") for number in (0, 1)]
    ingest(spark, lake, snapshot(tmp_path / "s.jsonl", 5, *shown), kind="snapshots")
    assert dict(ingest(spark, lake, path).rules) == {}
    model_lake(spark, lake)
    brokers, replicas = latest_snapshot(spark, lake)
    rates = fleet_rows(lake.read(spark, LOAD_MODEL), brokers, replicas).where("topic = 'o'").collect()
    assert [row["bytes_in"] for row in rates] == [1_000, 1_000]


def test_the_growth_of_a_compacted_log_is_no_traffic(spark, lake, tmp_path):
    policies = {"comp": "compact", "both": "compact,delete", "log": "delete", "old": None, "idle": "compact"}

    def at(minute):
        return snapshot(
            tmp_path / f"{minute}.jsonl",
            minute,
            *((name, 0, (1,), 1, 10_000 + minute, 0, 0 if name == "idle" else 1_000 * minute, policy) for name, policy in policies.items()),
        )  # fmt: skip

    outcome = ingest(spark, lake, at(0), at(10), kind="snapshots")
    assert sums(spark, lake) == {"comp": None, "both": None, "log": 10, "old": None, "idle": 0}
    assert dict(outcome.rules) == {"compacted": 1, "unknown_policy": 1}
    told = dict(outcome.examples)
    assert told["compacted"].startswith("topics: 2, such as both: compacted logs keep less than what is written")
    assert told["unknown_policy"].startswith("topics: 1, such as old: the snapshot has no cleanup.policy")
    assert outcome.coverage.told == "rates cover 40.0 % of the time of 5 partitions; 3 have no rate"


def test_windows_weigh_by_their_seconds(spark):
    """Nine days of hours at 1 MB/s outweigh an hour of ten seconds each at 10 MB/s."""

    def row(start, seconds, rate):
        return {
            "cluster_id": "c1", "topic_id": "id", "topic": "t", "partition": 0, "broker_id": 1, "role": "leader",
            "window_start": datetime.fromtimestamp(T0 + start, UTC), "window_seconds": seconds, "bytes_in": seconds * rate,
            "bytes_out": None, "messages_in": None, "size_bytes": rate, "source": "csv", "file": None, "schema_version": 1,
            "date": datetime.fromtimestamp(T0 + start, UTC).date(), "ingest_id": "i",
        }  # fmt: skip

    hours = [row(3_600 * hour, 3_600, 1_000_000) for hour in range(215)]
    tens = [row(3_600 * 215 + 10 * number, 10, 10_000_000) for number in range(360)]
    found = load_model(spark.createDataFrame([*hours, *tens], SAMPLES.schema)).collect()[0]
    assert [found[f"bytes_in_{name}"] for name in ("p50", "p95", "p99", "max")] == [1e6, 1e6, 1e6, 1e7]
    assert found["size_p95"] == 1e6
    # The hour is half a percent of the time: just above the 99.5th percentile.
    few = load_model(spark.createDataFrame([*hours[:50], *tens], SAMPLES.schema)).collect()[0]
    assert [few[f"bytes_in_{name}"] for name in ("p95", "p99")] == [1e6, 1e7]


def test_what_two_sources_know_is_joined_amount_by_amount(spark, lake, tmp_path):
    """A table counted the messages, and snapshots tell the bytes of the same time."""
    shown = [(minute, 10_000 + 600 * minute, 10 * minute) for minute in (0, 10, 20)]
    paths = [
        snapshot(tmp_path / f"{minute}.jsonl", minute, ("o", 0, (1,), 1, size, 0, end, "delete"))
        for minute, size, end in shown
    ]
    ingest(spark, lake, *paths, kind="snapshots")
    table = tmp_path / "messages.json"
    rows = [
        {"cluster_id": "c1", "topic": "o", "partition": 0, "broker_id": 1, "role": "leader", "window_start": T0 + 60 * minute, "window_seconds": 60, "messages_in": 600}
        for minute in range(20)
    ]  # fmt: skip
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest(spark, lake, str(table), kind="json")
    model_lake(spark, lake)
    found = lake.read(spark, LOAD_MODEL).collect()[0]
    assert (found["bytes_in_mean"], found["messages_in_mean"]) == (10.0, 10.0)
    assert (found["covered_seconds"], found["windows"], found["coverage"]) == (1_200, 20, 1.0)


def test_a_label_that_names_another_cluster_is_told_with_a_way_out(spark, lake, tmp_path):
    path = answer(tmp_path / "a.json", *one_leader(range(0, 181, 60), cluster="k8s-prod-1"))
    outcome = ingest(spark, lake, path, cluster="yard")
    assert (outcome.nothing_new, dict(outcome.rules)) == (True, {"other_cluster": 3})
    assert "cluster_id k8s-prod-1 is not yard" in dict(outcome.examples)["other_cluster"]
    assert "say which label does (--cluster-label LABEL;" in dict(outcome.examples)["other_cluster"]
    assert ingest(spark, lake, path, cluster="yard", labels=SeriesLabels(cluster_label="kafka_cluster")).good == 3
    assert [row[0] for row in lake.read(spark, SAMPLES).select("cluster_id").distinct().collect()] == ["yard"]


def test_log_dirs_as_people_save_them(spark, tmp_path):
    def said(broker, **more):
        of_log = {"partition": "my-topic-1", "size": 5, "offsetLag": 0, **more}
        return {"version": 1, "brokers": [{"broker": broker, "logDirs": [{"logDir": "/a", "error": None, "partitions": [of_log]}]}]}  # fmt: skip

    prose = "Querying brokers for log directories information\nReceived log directory information from brokers 1\n"
    texts = {
        "pretty": json.dumps(said(1, isFuture=False), indent=2),
        "before-kafka-1.1": prose + json.dumps(said(2)),
        "two": prose + json.dumps(said(3, isFuture=False)) + "\n" + prose + json.dumps(said(4, isFuture=False), indent=4) + "\nbye\n",
        "error": "ERROR: log dirs of broker 9: the request timed out\n",
        "empty": "\n",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    rows = read_log_dirs(spark, [str(tmp_path)], cluster="c1", at=datetime(2025, 2, 1, tzinfo=UTC)).collect()
    good = [row for row in rows if row["reader_rule"] is None]
    assert sorted((row["broker_id"], row["topic"], row["partition"], row["size_bytes"]) for row in good) == [
        (broker, "my-topic", 1, 5) for broker in (1, 2, 3, 4)
    ]
    told = "no output of kafka-log-dirs: "
    assert sorted((row["reader_rule"], row["reader_detail"]) for row in rows if row["reader_rule"]) == [
        ("file_not_readable", f"{told}ERROR: log dirs of broker 9: the request timed out"),
        ("file_not_readable", f"{told}the file is empty"),
    ]
