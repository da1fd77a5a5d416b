"""The joins of batches and sources on the way to a plan. Each case once gave a wrong plan with exit status 0."""

import json

import pytest
from pyspark.sql import functions as F

from shunter.app.pipeline.stages import FleetPlanOptions, Inputs, ingest, model_lake, plan
from shunter.errors import FormatError
from shunter.formats.inventory_files import decode_inventory, encode_inventory
from shunter.formats.plan_files import write_reassignment
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.pipeline.ingest.identity import ids_over_time, with_topic_ids
from shunter.pipeline.ingest.snapshot_batch import latest_snapshot
from shunter.pipeline.lake.account_schemas import PLAN_LOADS, PLANS
from shunter.pipeline.lake.schemas import LOAD_MODEL, REPLICAS, SAMPLES
from shunter.pipeline.planning.plan_batch import latest_plan

pytestmark = pytest.mark.spark

T0 = 1_738_368_000  # 2025-02-01T00:00:00Z
BROKERS = tuple(InventoryBroker(broker, "h", f"r{broker}", 10**13, 10**12) for broker in (1, 2, 3))
ANY_AGE = float("inf")


def taken(minute, *, size=1_000, grown=8_000, partitions=9, topic_id="id-t"):
    """Nine partitions whose logs grow by 8,000 bytes a minute (133 a second)."""
    found = tuple(
        InventoryPartition(
            "t", topic_id, number, (1, 2), (1, 2), 1, 0, 100 + 60 * minute, 1,
            ((1, size + grown * minute), (2, size + grown * minute)), (), "delete",
        )
        for number in range(partitions)
    )  # fmt: skip
    return Inventory("yard", (T0 + 60 * minute) * 1000, BROKERS, found)


def save(path, inventory, lines=None):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(list(encode_inventory(inventory))[:lines]))
    return str(path)


def measured(minutes, *, partitions=9, bytes_in=60_000_000, bytes_out=300_000_000, start=0):
    """A source without topic ids that counts a million bytes a second in and five million out."""
    for minute in range(start, start + minutes):
        for number in range(partitions):
            yield {
                "topic": "t", "partition": number, "broker_id": 1, "role": "leader", "window_start": T0 + 60 * minute,
                "window_seconds": 60, "bytes_in": bytes_in, "bytes_out": bytes_out,
            }  # fmt: skip


def write_json(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_rates_of_a_source_that_knows_no_topic_ids_reach_the_plan(spark, lake, tmp_path):
    for minute in (0, 1):
        save(tmp_path / "snapshots" / f"{minute}.jsonl", taken(minute))
    # The same snapshot under another name, and a newer one that was cut off after two of its nine partitions.
    head, *lines = encode_inventory(taken(1))
    (tmp_path / "snapshots" / "1-again.jsonl").write_bytes(head + b"".join(reversed(lines)))
    save(tmp_path / "snapshots" / "2.jsonl", taken(2), lines=3)
    brought = ingest(spark, lake, Inputs((str(tmp_path / "snapshots"),), "snapshots"))
    assert (brought.good, dict(brought.rules), brought.snapshots) == (18, {"duplicate": 1, "incomplete": 1}, 2)
    assert "holds 2 of its 9 partitions: it was cut off" in dict(brought.examples)["incomplete"]
    again = ingest(spark, lake, Inputs((save(tmp_path / "late.jsonl", taken(1, size=1_001)),), "snapshots"))
    assert (dict(again.rules), again.nothing_new) == ({"already_ingested": 1}, False)

    # The same minute from a source that counted it, and an hour before in which all rates and sizes were far larger.
    rows = [*measured(2, start=-1), *measured(1, start=-60, partitions=1)]
    rows[-1]["size_bytes"] = 800 * 10**9
    ingest(spark, lake, Inputs((write_json(tmp_path / "counted.json", rows),), "json", "yard"))
    made = model_lake(spark, lake)
    assert (made.replicas, made.with_rates) == (18, 18)
    leader = lake.read(spark, LOAD_MODEL).where("partition = 1 AND role = 'leader'").first()
    assert (leader["topic_id"], leader["bytes_in_max"], leader["bytes_in_p50"]) == ("id-t", 1e6, 1e6)
    assert leader["bytes_out_p95"] == 5e6

    _, (outcome,) = plan(spark, lake, FleetPlanOptions(peak="max", snapshot_age=ANY_AGE), tmp_path / "plans")
    assert outcome.status == "planned"
    basis = outcome.basis
    assert (basis.partitions, basis.with_rates, basis.with_sizes) == (9, 9, 9)
    assert (basis.rates_until, basis.snapshot_at) == (T0, T0 + 60)
    kafka = json.loads((tmp_path / "plans" / "yard.json").read_text())
    assert all(len(set(row["replicas"])) == 2 == len(row["replicas"]) for row in kafka["partitions"])
    table = lake.read(spark, PLANS).where(F.col("plan_id") == latest_plan(spark, lake)).first()
    assert (table["partitions"], table["with_rates"]) == (9, 9)
    # 9 partitions of 9,000 bytes with two replicas each: the present sizes, not the 800 GB of an hour ago.
    share = table["bytes_moved"] / (table["bytes_percent"] / 100)
    assert share == pytest.approx(9 * 2 * 9_000)


def test_partitions_that_snapshots_alone_know_are_told(spark, lake, tmp_path):
    """A broker's exporter does not answer: reads of its partitions are unknown, and their peaks are those of hours."""
    for minute in (0, 60):
        save(tmp_path / "snapshots" / f"{minute}.jsonl", taken(minute, size=0, grown=60_000_000))
    ingest(spark, lake, Inputs((str(tmp_path / "snapshots"),), "snapshots"))
    rows = measured(60, partitions=7)
    ingest(spark, lake, Inputs((write_json(tmp_path / "counted.json", rows),), "json", "yard"))
    model_lake(spark, lake)
    _, (outcome,) = plan(spark, lake, FleetPlanOptions(snapshot_age=ANY_AGE), tmp_path / "plans")
    basis = outcome.basis
    assert (basis.with_rates, basis.with_bytes_out, basis.coarse, basis.coarse_seconds) == (9, 7, 2, 3600)
    assert (
        "bytes out of 2 partitions, with 22% of the bytes in, are unknown: they are neither an aim" in outcome.message
    )
    resources = {row["resource"] for row in lake.read(spark, PLAN_LOADS).select("resource").distinct().collect()}
    assert "bytes in" in resources
    assert "bytes out" not in resources


@pytest.mark.long
def test_a_cluster_whose_newest_snapshot_is_old_is_refused(spark, lake, tmp_path):
    ingest(spark, lake, Inputs((save(tmp_path / "s" / "1.jsonl", taken(0)),), "snapshots"))
    _, (outcome,) = plan(spark, lake, FleetPlanOptions(), None)
    assert outcome.status == "failed"
    assert "(2025-02-01 00:00 UTC), and may be 7: take a new one" in outcome.message
    _, replicas = latest_snapshot(spark, lake)
    assert replicas.count() == 18


@pytest.mark.long
def test_samples_under_another_name_than_the_snapshots_are_told(spark, lake, tmp_path):
    for minute in (0, 1):
        save(tmp_path / "s" / f"{minute}.jsonl", taken(minute))
    ingest(spark, lake, Inputs((str(tmp_path / "s"),), "snapshots"))
    counted = write_json(tmp_path / "counted.json", measured(1))
    ingest(spark, lake, Inputs((counted,), "json", "prod"))
    model_lake(spark, lake)
    for asked in ((), ("prod",)):
        _, (prod, *others) = plan(spark, lake, FleetPlanOptions(clusters=asked, snapshot_age=ANY_AGE), None)
        assert "there are snapshots of yard, and none of prod: " in prod.message
        assert prod.basis.with_bytes_out == prod.basis.with_rates == 9
        for yard in others:
            assert "there are snapshots" not in (yard.message or "")
            assert (yard.basis.with_rates, yard.basis.with_bytes_out) == (9, 0), "snapshots tell of bytes in alone"


@pytest.mark.long
def test_snapshots_that_come_out_of_order_count_once(spark, lake, tmp_path):
    def bring(*minutes):
        folder = tmp_path / "-".join(map(str, minutes))
        for minute in minutes:
            save(folder / f"{minute}.jsonl", taken(minute, partitions=1))
        return ingest(spark, lake, Inputs((str(folder),), "snapshots"))

    assert bring(0, 2).good == 2
    assert bring(-1, 1, 4).good == 4, "what came between 0 and 2 is counted; what came before and since is new"
    rows = lake.read(spark, SAMPLES).where("role = 'leader'").orderBy("window_start").collect()
    starts = [int((row["window_start"].timestamp() - T0) / 60) for row in rows]
    assert [(start, row["bytes_in"]) for start, row in zip(starts, rows, strict=True)] == [
        (-1, 8_000), (0, 16_000), (2, 16_000)
    ]  # fmt: skip
    assert lake.read(spark, REPLICAS).count() == 10


def test_names_belong_to_the_topic_that_had_them_then(spark):
    seen = [(minute, "id-old") for minute in (10, 20)] + [(40, "id-new")]
    replicas = spark.createDataFrame(
        [("c", "t", topic_id, T0 + 60 * minute) for minute, topic_id in seen],
        "cluster_id string, topic string, topic_id string, at bigint",
    ).withColumn("taken_at", F.timestamp_seconds("at"))
    cases = {0: "id-old", 10: "id-old", 20: "id-old", 25: "name:t", 40: "id-new", 99: "id-new"}
    rows = spark.createDataFrame(
        [("c", "name:t", "t", T0 + 60 * minute) for minute in cases]
        + [("c", "id-x", "t", T0), ("d", "name:t", "t", T0)],
        "cluster_id string, topic_id string, topic string, at bigint",
    ).withColumn("window_start", F.timestamp_seconds("at"))
    found = with_topic_ids(rows, ids_over_time(replicas)).orderBy("cluster_id", "topic_id", "at").collect()
    named = {
        (row["at"] - T0) // 60: row["topic_id"]
        for row in found
        if row["cluster_id"] == "c" and row["topic_id"] != "id-x"
    }
    assert named == cases
    assert [row["topic_id"] for row in found if row["cluster_id"] == "d"] == ["name:t"]


def test_a_snapshot_file_says_how_much_it_holds():
    whole = list(encode_inventory(taken(0)))
    assert decode_inventory(b"".join(whole), "x") == taken(0)
    with pytest.raises(FormatError, match="holds 2 of its 9 partitions: the snapshot was cut off"):
        decode_inventory(b"".join(whole[:3]), "x")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([("t", 0, [2, 1, 1, 3], None)], r"replicas \[2, 1, 1, 3\] for partition t-0 repeat broker 1"),
        ([("t", 0, [2, 1], [1, 1])], r"original replicas \[1, 1\] of partition t-0 repeat broker 1"),
        ([("t", 0, [2, 1], None), ("t", 0, [1, 3], None)], "partition t-0 comes twice"),
    ],
)
def test_a_plan_that_repeats_a_replica_or_a_partition_is_not_written(changes, why):
    with pytest.raises(FormatError, match=why):
        write_reassignment(changes)
