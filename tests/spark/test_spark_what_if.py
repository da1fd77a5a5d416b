"""What-if questions, from snapshots in a lake to an answer on the command line: figures that are counted by hand."""

import json
from datetime import date, timedelta

import pytest
from click.testing import CliRunner
from test_spark_exact_plans import T0, save
from test_spark_outlook import FIRST, frame

from shunter.app.pipeline.stages import Inputs, ingest
from shunter.app.pipeline.what_if import WhatIfOptions, what_if
from shunter.cli.pipeline.group import pipeline
from shunter.cli.pipeline.what_if import told
from shunter.core.planning.what_if import ClusterChange
from shunter.errors import SettingsError
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.pipeline.lake.outlook_schemas import RUNWAY, WHAT_IF, WHAT_IF_FILLS
from shunter.pipeline.planning.plan_batch import FleetPlan, plan_lake
from shunter.pipeline.planning.what_if import FleetQuestion, ask_lake, grown

pytestmark = pytest.mark.spark

GB = 10**9


def snapshot(day):
    """Three brokers of 1,000 GB in three racks. Brokers 1 and 2 hold eight partitions, each growing by 0.2 GB a day."""
    brokers = tuple(InventoryBroker(broker, "h", f"r{broker}", 1_000 * GB, 500 * GB) for broker in (1, 2, 3))
    size = 500 * GB // 10 + 2 * day * GB // 10
    partitions = tuple(
        InventoryPartition("t", "id-t", number, (1, 2), (1, 2), 1, 0, 0, 2, ((1, size), (2, size)))
        for number in range(8)
    )
    return Inventory("yard", (T0 + 86_400 * day) * 1000, brokers, partitions)


@pytest.fixture
def seen(spark, lake, tmp_path):
    for day in range(6):
        save(tmp_path / "snapshots" / f"{day}.jsonl", snapshot(day))
    ingest(spark, lake, Inputs((str(tmp_path / "snapshots"),), "snapshots"))
    return lake


def test_a_later_day_a_lost_rack_and_the_fewest_brokers_for_it(spark, seen, tmp_path):
    # After 1,000 days at 0.2 GB there are 8 x 2 x 251 GB. A rack is lost, and a fifth of each disk stays free.
    until = date(2025, 2, 6) + timedelta(days=1_000)
    asked = WhatIfOptions(
        snapshot_age=float("inf"), until=until, fewest=True, change=ClusterChange(lost_racks=("r1",)), throttle=1e9
    )
    question_id, (later,) = what_if(spark, seen, asked, tmp_path / "plans")
    total = 8 * 2 * 251 * GB
    assert (later.fits, later.lost, later.unavailable, later.below_min_isr) == (True, [1], 0, 8)
    assert later.partitions_with_growth == 8
    at_least = -(-total // (800 * GB)) - 2
    assert at_least <= len(later.added) <= at_least + 8, "partitions come whole, and only so many fit on a disk"
    assert later.bytes_moved <= total
    kafka = json.loads((tmp_path / "plans" / "yard.json").read_text())
    assert all(1 not in row["replicas"] and row["original_replicas"] == [1, 2] for row in kafka["partitions"])
    assert seen.read(spark, WHAT_IF).where(f"question_id = '{question_id}'").first()["fits"]
    fills = seen.read(spark, WHAT_IF_FILLS).where(f"question_id = '{question_id}'").collect()
    assert sum(row["after"] * row["capacity"] for row in fills) == pytest.approx(total)
    words = told(later, headroom_percent=20.0, later=True)
    assert (
        f"with {len(later.added)} more brokers (4 to {3 + len(later.added)}) it fits: 20 % of each capacity free"
        in words
    )
    assert (
        "without brokers 1: 0 partitions have no replica left, 8 fewer than min.insync.replicas, such as t-0" in words
    )
    _, (old,) = what_if(spark, seen, WhatIfOptions())
    assert (old.fits, old.status) == (None, "failed")
    assert "take a new one" in told(old, headroom_percent=20.0, later=False)


@pytest.mark.long
def test_a_day_that_is_not_ahead_is_refused(spark, seen):
    with pytest.raises(SettingsError, match="2025-01-22 is not ahead: the newest sizes are those of 2025-02-06"):
        what_if(spark, seen, WhatIfOptions(until=FIRST))


def test_an_error_leaves_nothing_cached(spark, seen, now):
    def cached():
        """What is kept, but for Delta's own knowledge of its tables."""
        kept = spark.sparkContext._jsc.getPersistentRDDs()
        return {number for number in kept if not str(kept[number].name()).startswith("Delta Table State")}

    before, without_zone = cached(), FleetPlan("p", now=now.replace(tzinfo=None))
    for work in (
        lambda: plan_lake(spark, seen, without_zone, now=now),
        lambda: ask_lake(spark, seen, FleetQuestion("q", basis=without_zone)),
    ):
        with pytest.raises(TypeError, match="naive"):
            work()
        assert cached() == before


def test_sizes_grow_as_their_topics_do(spark):
    rows = spark.createDataFrame(
        [("c", "up", 10.0), ("c", "down", 10.0), ("c", "new", 10.0), ("c", None, 99.0), ("d", "up", 10.0)],
        "cluster_id string, topic string, size double",
    )
    trends = [
        {"cluster_id": "c", "kind": "topic", "name": name, "size_bytes": 100, "growth_bytes_per_day": slope, "growth_high": slope, "until": FIRST}
        for name, slope in (("up", 5.0), ("down", -5.0), ("new", None))
    ]  # fmt: skip
    found = grown(rows, frame(spark, RUNWAY, trends), FIRST.replace(day=26)).collect()
    assert sorted((row["cluster_id"], row["topic"] or "", row["size"], row["grows"]) for row in found) == [
        ("c", "", 99.0, False), ("c", "down", 10.0, True), ("c", "new", 10.0, False), ("c", "up", 12.0, True),
        ("d", "up", 10.0, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--add-brokers", "some"], "'some' is not a number of brokers: write 3, or fewest"),
        (["--retention", "logs"], "--retention takes PATTERN=FACTOR"),
        (["--topic", "t"], "--topic needs --replication"),
    ],
)
def test_wrong_questions_end_with_2(arguments, words):
    ended = CliRunner().invoke(pipeline, ["what-if", *arguments])
    assert ended.exit_code == 2
    assert words in ended.output
