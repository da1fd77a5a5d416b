"""Raw to hourly to daily; compaction and retention change folders, not answers."""

import json
from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from shunter.formats.inventory_files import encode_inventory
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.pipeline.ingest.batches import IngestOptions, ingest_files
from shunter.pipeline.ingest.rollup import compact, open_days, roll_up_days
from shunter.pipeline.ingest.snapshot_batch import ingest_snapshots
from shunter.pipeline.lake.account_schemas import PLANS
from shunter.pipeline.lake.commit_log import EVERY, Commit, CommitLog, LogState
from shunter.pipeline.lake.schemas import BROKERS, DAILY, HOURLY, REJECTS, REPLICAS, SAMPLES, SNAPSHOTS
from shunter.pipeline.lake.stores import HadoopStore, LocalStore
from shunter.pipeline.lake.tables import list_inputs
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
    # Batches of snapshots are not merged, and their rows are not deleted.
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
    assert (compacted.good, compacted.rejected, len(compacted.supersedes)) == (4, 1, 2)
    assert lake.read(spark, SAMPLES).select("ingest_id").distinct().count() == 2
    assert lake.read(spark, SAMPLES).agg(F.sum("bytes_in")).first()[0] == 7860
    assert roll_up_days(spark, lake, new_only=True) == (), "nothing came since"
    assert ingest(str(tmp_path / "a.csv")).ingest_id is None
    assert compact(spark, lake, now=now) is None
    assert lake.clean(spark, now, older_than=timedelta(hours=1)).replaced == 0, "whoever reads them may finish"
    assert lake.clean(spark, now + timedelta(hours=2), older_than=timedelta(hours=1)).replaced == 2
    assert lake.clean(spark, now + timedelta(hours=2), older_than=timedelta(0)) == (0, 0, 0)
    assert len([*(tmp_path / "lake" / "samples").glob("ingest_id=*")]) == 2
    assert lake.read(spark, SAMPLES).count() == 5

    retained = compact(spark, lake, now=now, keep_from=date(2025, 2, 2))
    assert (retained.good, retained.first_date) == (1, date(2025, 2, 2))
    assert lake.read(spark, SAMPLES).count() == 2
    assert roll_up_days(spark, lake) == (date(2025, 2, 2),)
    assert hours() == expected_hours
    assert [tuple(row) for row in by_day.collect()] == expected_days


@pytest.mark.long
def test_a_large_day_becomes_several_files_and_a_small_one_does_not(spark, lake, now, tmp_path):
    def rows(cluster, first, number):
        return [f"{cluster},t,{one},1,leader,2025-02-01T00:00:00Z,60,60,5" for one in range(first, first + number)]

    options = IngestOptions(many_clusters=True)
    for first in (0, 200):
        path = csv(tmp_path / f"{first}.csv", [*rows("large", first, 200), *rows("small", first, 20)])
        ingest_files(spark, lake, [path], "csv", lambda s, files: read_table(s, files, "csv"), now=now, options=options)
    made = compact(spark, lake, now=now, tasks=2, rows_per_file=100)
    assert made.good == 440
    found = lake.read(spark, SAMPLES).groupBy("cluster_id", F.input_file_name()).count().collect()
    files = {name: [row["count"] for row in found if row["cluster_id"] == name] for name in ("large", "small")}
    assert sum(files["large"]) == 400
    assert 1 < len(files["large"]) <= 4, "parts may meet in one task"
    assert files["small"] == [40]


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
    merged = compact(spark, lake, of_snapshots=True, now=now, rolled_up=rolled_up)
    assert (len(merged.supersedes), merged.good) == (2, 2), (
        "60 lies between two that were known: what came then is counted"
    )
    assert merged.tables == ("brokers", "replicas", "samples")
    assert [seen(table) for table in (BROKERS, REPLICAS)] == [all_of_them] * 2
    assert compact(spark, lake, now=now) is None, "no batch but that of snapshots"
    assert compact(spark, lake, of_snapshots=True, now=now) is None, "one batch is as few as can be"
    assert open_days(lake.state(spark)) == (), "nothing came since"

    kept = compact(spark, lake, of_snapshots=True, now=now, keep_from=date(2025, 2, 2))
    assert kept.good == 0, "the last sample began on the day before"
    assert [seen(table) for table in (BROKERS, REPLICAS)] == [[("other", 5), ("yard", 1_430), ("yard", 1_450)]] * 2
    assert compact(spark, lake, of_snapshots=True, now=now, keep_from=date(2025, 2, 2)) is None
    assert roll_up_days(spark, lake) == ()
    assert lake.read(spark, HOURLY).count() == by_hour, "hours of days that were let go stay"
    lake.clean(spark, now, older_than=timedelta(0))
    assert take(("yard", 60)).ingest_id is None, "its file was taken, whatever became of its rows"
    later = take(("yard", 1_455), ("yard", 1_420))
    assert (later.good, later.rules, later.snapshots) == (1, (("late", 1),), 2)


def test_a_lake_that_an_older_version_wrote_is_read_and_written_on(spark, lake):
    """A table that lacks a newer column: it is null in the old rows, and the new rows have it."""
    old = spark.createDataFrame(
        [("yard", "20250101T000000-drain", "planned", 7.5)],
        "cluster_id string, plan_id string, status string, bytes_percent double",
    )
    old.write.partitionBy("cluster_id", "plan_id").parquet(lake.path(PLANS))
    new = spark.createDataFrame([(2.5, 3.5)], "bytes_percent double, joint_bound_percent double").withColumns(
        {"cluster_id": F.lit("yard"), "plan_id": F.lit("20260101T000000-drain")}
    )
    absent = {field.name: F.lit(None).cast(field.dataType) for field in PLANS.schema if field.name not in new.columns}
    lake.write(new.withColumns(absent), PLANS)
    rows = lake.read(spark, PLANS).orderBy("plan_id").select("bytes_percent", "joint_bound_percent").collect()
    assert [tuple(row) for row in rows] == [(7.5, None), (2.5, 3.5)]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_log_on_any_file_system_of_sparks(spark, now, tmp_path, in_place):
    store = HadoopStore(spark, f"file:{tmp_path}/log")
    store._in_place = in_place
    assert (store.names(""), store.read("00000000000000000001.json")) == ([], None)
    log = CommitLog(store, "x")
    state = log.state()
    for number in range(EVERY + 1):
        state = log.append(state, Commit(f"b{number}", "json", committed_at=now))
    assert CommitLog(store, "x").state() == state == CommitLog(LocalStore(tmp_path / "log"), "x").state()
    assert log.append(LogState(0), Commit("late", "json", committed_at=now)) is None
    assert store.names("checkpoints") == [f"{EVERY:020d}.json"]
    store.delete(f"{EVERY + 1:020d}.json")
    assert len(store.names("")) == EVERY


@pytest.mark.long
def test_batches_that_a_version_without_a_log_committed_count_on(spark, lake, now, tmp_path):
    """Folders that all batches share, and a manifest of JSON files, one a batch. A second batch was never committed."""
    path = csv(tmp_path / "a.csv", ["c1,t,0,1,leader,2025-02-01T00:00:00Z,60,60,5"])
    (file,) = list_inputs(spark, [path])
    absent = {field.name: F.lit(None).cast(field.dataType) for field in REJECTS.schema}
    row = {"cluster_id": "c1", "topic_id": "name:t", "topic": "t", "partition": 0, "broker_id": 1, "role": "leader"}
    given = {name: F.lit(value) for name, value in row.items()} | {
        "window_start": F.lit(datetime(2025, 2, 1, tzinfo=UTC)), "window_seconds": F.lit(60), "bytes_in": F.lit(60).cast("bigint"),
        "source": F.lit("csv"), "schema_version": F.lit(1), "date": F.lit(date(2025, 2, 1)), "verdict": F.lit("good"),
    }  # fmt: skip
    rows = spark.range(2).withColumns({**absent, **given, "ingest_id": F.concat(F.lit("old-"), "id")}).drop("id")
    rows.write.partitionBy("verdict", "cluster_id", "date", "ingest_id").parquet(f"{lake.root}/samples")
    commit = {
        "ingest_id": "old-0", "kind": "csv", "files": [{"path": path, "fingerprint": file.fingerprint, "bytes": 1}], "good": 1,
        "rejected": 0, "rules": [], "clusters": ["c1"], "first_date": "2025-02-01", "last_date": "2025-02-01",
        "watermark": "2025-02-01T00:00:00.000Z", "supersedes": [], "committed_at": "2025-02-01T00:10:00.000Z", "schema_version": 1,
    }  # fmt: skip
    folder = tmp_path / "lake" / "manifest" / "ingest_id=old-0"
    folder.mkdir(parents=True)
    (folder / "part-0.json").write_text(json.dumps(commit) + "\n")

    def ingest(path):
        return ingest_files(
            spark, lake, [path], "csv", lambda s, files: read_table(s, files, "csv"), now=now, options=IngestOptions()
        )

    assert lake.read(spark, SAMPLES).count() == 1
    assert ingest(path).ingest_id is None
    more = csv(
        tmp_path / "b.csv",
        [
            "c1,t,0,1,leader,2025-02-01T00:00:00Z,60,61,5",
            "c1,t,0,1,leader,2025-02-01T00:00:30Z,60,1,5",
            "c1,t,0,1,leader,2025-02-01T00:01:00Z,60,7,5",
        ],
    )
    outcome = ingest(more)
    assert (outcome.good, dict(outcome.rules)) == (1, {"already_ingested": 1, "time_backwards": 1})
    assert compact(spark, lake, now=now).good == 2
    assert lake.clean(spark, now, older_than=timedelta(0)).replaced == 2
    assert sorted(row["bytes_in"] for row in lake.read(spark, SAMPLES).collect()) == [7, 60]
    assert not [*(tmp_path / "lake" / "samples").rglob("ingest_id=old-0")]
    assert ingest(path).ingest_id is None
