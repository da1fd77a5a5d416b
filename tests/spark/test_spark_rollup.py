"""Raw to hourly to daily; compaction and retention change folders, not answers."""

from datetime import date, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from shunter.formats.inventory_files import encode_inventory
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.pipeline.ingest.batches import IngestOptions, ingest_files
from shunter.pipeline.ingest.rollup import compact, open_days, roll_up_days
from shunter.pipeline.ingest.snapshot_batch import ingest_snapshots
from shunter.pipeline.lake.schemas import BROKERS, DAILY, HOURLY, REPLICAS, SAMPLES, SNAPSHOTS
from shunter.pipeline.sources.tables import read_table

pytestmark = pytest.mark.spark
T0_MS = 1_738_368_000_000
"""The first of February 2025, midnight."""


def csv(path, lines):
    head = "cluster_id,topic,partition,broker_id,role,window_start,window_seconds,bytes_in,size_bytes"
    path.write_text("\n".join([head, *lines]) + "\n")
    return str(path)


def test_hours_and_days_then_one_file_then_only_the_youngest(spark, lake, now, tmp_path):
    def ingest(path, kind="csv"):
        return ingest_files(
            spark, lake, [path], kind, lambda s, files: read_table(s, files, "csv"), now=now, options=IngestOptions()
        )

    ingest(
        csv(
            tmp_path / "a.csv",
            [
                "c1,t,0,1,leader,2025-02-01T00:00:00Z,1800,1800,10",
                "c1,t,0,1,leader,2025-02-01T00:30:00Z,1800,5400,30",
                "c1,t,0,1,leader,2025-02-01T05:00:00Z,3600,,20",
            ],
        )
    )
    ingest(
        csv(
            tmp_path / "b.csv",
            ["c1,t,0,1,leader,2025-02-02T00:00:00Z,60,60,5", "c1,t,0,1,king,2025-02-02T00:00:00Z,60,60,5"],
        )
    )
    ingest(csv(tmp_path / "s.csv", ["c1,u,0,1,leader,2025-02-01T09:00:00Z,600,600,5"]), kind=SNAPSHOTS)
    assert roll_up_days(spark, lake) == (date(2025, 1, 31), date(2025, 2, 1), date(2025, 2, 2))

    def hours():
        shown = lake.read(spark, HOURLY).orderBy("window_start")
        return [
            tuple(row)
            for row in shown.select(
                "window_start", "window_seconds", "bytes_in", "size_bytes", "bytes_in_peak", "windows"
            ).collect()
        ]

    expected_hours = [
        (datetime(2025, 2, 1, 0), 3600, 7200, 30, 3.0, 2),
        (datetime(2025, 2, 1, 5), 3600, None, 20, None, 1),
        (datetime(2025, 2, 1, 9), 600, 600, 5, 1.0, 1),
        (datetime(2025, 2, 2, 0), 60, 60, 5, 1.0, 1),
    ]
    assert hours() == expected_hours
    by_day = (
        lake.read(spark, DAILY)
        .orderBy("window_start", "topic")
        .select("date", "window_seconds", "bytes_in", "size_bytes", "windows")
    )
    expected_days = [
        (date(2025, 2, 1), 3600, 7200, 20, 3),
        (date(2025, 2, 1), 600, 600, 5, 1),
        (date(2025, 2, 2), 60, 60, 5, 1),
    ]
    assert [tuple(row) for row in by_day.collect()] == expected_days

    rolled_up = lake.state(spark)
    compacted = compact(spark, lake, now=now, rolled_up=rolled_up)
    assert (compacted.kind, compacted.rolled_to) == ("compaction", 3)
    assert lake.read(spark, SAMPLES).agg(F.sum("bytes_in")).first()[0] == 7860
    assert roll_up_days(spark, lake, new_only=True) == (), "nothing came since"
    assert ingest(str(tmp_path / "a.csv")).ingest_id is None
    assert compact(spark, lake, now=now) is None
    assert lake.clean(spark, now + timedelta(hours=2), older_than=timedelta(0)) == (0, 0)
    assert lake.read(spark, SAMPLES).count() == 5

    retained = compact(spark, lake, now=now, keep_from=date(2025, 2, 2))
    assert (retained.kind, retained.keep_from) == ("retention", date(2025, 2, 2))
    assert lake.read(spark, SAMPLES).count() == 1
    assert roll_up_days(spark, lake) == (date(2025, 2, 2),)
    assert hours() == expected_hours
    assert [tuple(row) for row in by_day.collect()] == expected_days


def test_of_older_days_the_last_snapshot_stays(spark, lake, now, tmp_path):
    """Four snapshots of two days, and one of another cluster, in two batches."""

    def take(*snapshots):
        paths = [tmp_path / f"{cluster}-{minute}.jsonl" for cluster, minute in snapshots]
        for path, (cluster, minute) in zip(paths, snapshots, strict=True):
            size = 1_000 + 100 * minute
            partition = InventoryPartition("t", "id-t", 0, (1,), (1,), 1, 0, minute, 1, ((1, size),), (), "delete")
            brokers = (InventoryBroker(1, "h", "r", 10**9, 10**8),)
            taken = Inventory(cluster, T0_MS + minute * 60_000, brokers, (partition,))
            path.write_bytes(b"".join(encode_inventory(taken)))
        names, options = [str(path) for path in paths], IngestOptions(many_clusters=True)
        return ingest_snapshots(spark, lake, names, now=now, options=options)

    def seen(table):
        at = ((F.unix_millis("taken_at") - T0_MS) / 60_000).cast("int")
        return sorted(map(tuple, lake.read(spark, table).select("cluster_id", at).collect()))

    all_of_them = [("other", 5), *(("yard", minute) for minute in (0, 60, 1_430, 1_450))]
    take(("yard", 0), ("other", 5), ("yard", 1_430))
    take(("yard", 60), ("yard", 1_450))
    rolled_up = lake.state(spark)
    roll_up_days(spark, lake, rolled_up)
    by_hour = lake.read(spark, HOURLY).count()
    merged = compact(spark, lake, now=now, rolled_up=rolled_up)
    assert merged.kind == "compaction"
    assert lake.read(spark, SAMPLES).count() == 2, "60 lies between two that were known: what came then is counted"
    assert [seen(table) for table in (BROKERS, REPLICAS)] == [all_of_them] * 2
    assert compact(spark, lake, now=now) is None, "nothing came since"
    assert open_days(lake.state(spark)) == (), "nothing came since"

    assert compact(spark, lake, now=now, keep_from=date(2025, 2, 2)).kind == "retention"
    assert lake.read(spark, SAMPLES).count() == 0, "the last sample began on the day before"
    assert [seen(table) for table in (BROKERS, REPLICAS)] == [[("other", 5), ("yard", 1_430), ("yard", 1_450)]] * 2
    assert compact(spark, lake, now=now, keep_from=date(2025, 2, 2)) is None
    assert roll_up_days(spark, lake) == (date(2025, 2, 2),), "a window of the day before ends in it"
    assert lake.read(spark, HOURLY).count() == by_hour, "hours of days that were let go stay"
    lake.clean(spark, now, older_than=timedelta(0))
    assert take(("yard", 60)).ingest_id is None, "its file was taken, whatever became of its rows"
    later = take(("yard", 1_455), ("yard", 1_420))
    assert (later.good, later.rules, later.snapshots) == (1, (("late", 1),), 2)


def test_a_roll_up_of_an_older_state_replaces_nothing_of_a_newer_one(spark, lake, now, tmp_path):
    def take(name, bytes_in):
        path = csv(tmp_path / name, [f"c1,t,{bytes_in},1,leader,2025-02-01T00:00:00Z,60,{bytes_in},5"])
        ingest_files(
            spark, lake, [path], "csv", lambda s, files: read_table(s, files, "csv"), now=now, options=IngestOptions()
        )

    take("a.csv", 1)
    older = lake.state(spark)
    take("b.csv", 2)
    roll_up_days(spark, lake)
    roll_up_days(spark, lake, older)
    assert [lake.read(spark, table).count() for table in (HOURLY, DAILY)] == [2, 2]
