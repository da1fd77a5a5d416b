"""Batches: good rows are taken, rejects are put aside with the rule that they break, and no row counts twice."""

import gzip
import itertools
import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F

from shunter.app.pipeline.stages import Inputs
from shunter.app.pipeline.stages import ingest as stages_ingest
from shunter.cli import main
from shunter.errors import FormatError
from shunter.pipeline.ingest.batches import IngestOptions, ingest_files
from shunter.pipeline.ingest.rollup import compact
from shunter.pipeline.lake.schemas import REJECTS, SAMPLES
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.sources.tables import read_table

pytestmark = pytest.mark.spark


def sample(**changes):
    row = {
        "cluster_id": "c1",
        "topic": "orders",
        "partition": 0,
        "broker_id": 1,
        "role": "leader",
        "window_start": "2025-02-01T00:00:00Z",
        "window_seconds": 60,
        "bytes_in": 6000,
        "bytes_out": 12000,
        "messages_in": 60,
        "size_bytes": 1_000_000,
    }
    row.update(changes)
    return {name: value for name, value in row.items() if value is not ...}


def write_json(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def ingest(spark, lake, now):
    def run(*paths, kind="json", **options):
        cluster = options.get("cluster")
        return ingest_files(
            spark,
            lake,
            paths,
            kind,
            lambda session, files: read_table(session, files, kind, cluster=cluster),
            now=now,
            options=IngestOptions(**options),
        )

    return run


def rejected(spark, lake):
    rows = lake.read(spark, REJECTS).select("rule", "detail", "file").collect()
    return sorted((row["rule"], row["detail"], row["file"].rsplit("/", 1)[1]) for row in rows)


def test_good_rows_arrive_typed_and_twice_is_once(spark, lake, ingest, tmp_path):
    path = write_json(tmp_path / "a.json", [sample(), sample(window_start="2025-02-01T00:01:00Z", bytes_in="7000")])
    first = ingest(path)
    assert (first.good, first.rejected, first.skipped) == (2, 0, ())
    rows = lake.read(spark, SAMPLES).orderBy("window_start").collect()
    assert [row["bytes_in"] for row in rows] == [6000, 7000]
    assert rows[0]["topic_id"] == "name:orders"
    assert rows[0]["window_start"].isoformat() == "2025-02-01T00:00:00"
    assert str(rows[0]["date"]) == "2025-02-01"
    renamed = tmp_path / "b.json"
    renamed.write_text((tmp_path / "a.json").read_text())
    second = ingest(str(renamed))
    assert second.ingest_id is None
    assert len(second.skipped) == 1
    assert lake.read(spark, SAMPLES).count() == 2


def test_each_bad_row_is_kept_with_its_rule_and_counted(spark, lake, ingest, tmp_path):
    later = "2025-02-01T01:00:00Z"
    path = write_json(
        tmp_path / "bad.json",
        [
            sample(),
            sample(bytes_in=-5, window_start=later),
            sample(bytes_out="many", window_start=later, partition=2),
            sample(window_start=1738368000000, partition=3),
            sample(window_start="2125-01-01T00:00:00Z", partition=4),
            sample(role="king", partition=5),
            sample(topic=None, partition=6),
            sample(bytes_in=60 * 200_000_000_000, partition=7),
            sample(window_seconds=0, partition=8),
            sample(bytes_in=None, bytes_out=None, messages_in=None, size_bytes=None, partition=9),
            sample(unit="kB", partition=10),
            sample(size_bytes=10**17, partition=11),
            "{not json",
            "null",
        ],
    )
    outcome = ingest(path)
    assert outcome.good == 1
    assert dict(outcome.rules) == {
        "negative": 1,
        "not_a_number": 1,
        "not_a_time": 1,
        "absurd_time": 1,
        "unknown_role": 1,
        "missing_key": 1,
        "absurd_rate": 1,
        "absurd_window": 1,
        "no_load": 1,
        "wrong_unit": 1,
        "absurd_size": 1,
        "not_readable": 2,
    }
    assert outcome.rejected == 13
    unread = [detail for rule, detail, _ in rejected(spark, lake) if rule == "not_readable"]
    assert unread == ["no JSON object: null", "not JSON: {not json"]
    told = {rule: detail for rule, detail, _ in rejected(spark, lake)}
    assert told["negative"] == "bytes_in -5 is below 0"
    assert told["not_a_number"] == "bytes_out is many"
    assert told["missing_key"] == "topic is null"
    assert told["not_a_time"].endswith("in milliseconds? call the column window_start_ms")
    assert {file for _, _, file in rejected(spark, lake)} == {"bad.json"}


def test_the_same_window_twice_and_windows_that_overlap(spark, lake, ingest, tmp_path):
    path = write_json(
        tmp_path / "back.json",
        [
            sample(),
            sample(),
            sample(window_start="2025-02-01T00:00:30Z"),
            sample(window_start="2025-02-01T00:02:00Z"),
            sample(role="follower", broker_id=2),
        ],
    )
    outcome = ingest(path)
    assert outcome.good == 3
    assert dict(outcome.rules) == {"duplicate": 1, "time_backwards": 1}


def test_no_moment_of_a_replica_counts_twice(spark, lake, ingest, tmp_path):
    """Windows within a window that is not their neighbour, across midnight, and across batches."""

    def window(start, seconds, **changes):
        return sample(window_start=start, window_seconds=seconds, bytes_in=1000 * seconds, **changes)

    first = ingest(
        write_json(
            tmp_path / "a.json",
            [
                window("2025-02-01T23:30:00Z", 3600),
                *(window(f"2025-02-01T23:{minute}:00Z", 60) for minute in range(31, 60)),
                *(window(f"2025-02-02T00:{minute:02}:00Z", 60) for minute in range(35)),
                window("2025-02-01T23:45:00Z", 60, partition=1),
            ],
        )
    )
    assert (first.good, dict(first.rules)) == (7, {"time_backwards": 59})
    later = [
        window("2025-02-01T23:00:00Z", 1800),
        window("2025-02-01T23:15:00Z", 900 + 30),
        window("2025-02-02T00:29:00Z", 60),
        window("2025-02-02T00:35:00Z", 60),
        window("2025-02-01T23:00:00Z", 7200, partition=1),
    ]
    second = ingest(write_json(tmp_path / "b.json", later))
    assert (second.good, dict(second.rules)) == (2, {"time_backwards": 3})
    rows = lake.read(spark, SAMPLES).where("partition = 0").collect()
    spans = sorted((row["window_start"].timestamp(), row["window_seconds"]) for row in rows)
    assert all(start + seconds <= after for (start, seconds), (after, _) in itertools.pairwise(spans))
    assert sum(row["bytes_in"] for row in rows) == 1000 * (3600 + 5 * 60 + 1800 + 60)


@pytest.mark.long
def test_a_window_that_came_with_an_earlier_batch_is_put_aside(spark, lake, ingest, tmp_path):
    ingest(write_json(tmp_path / "a.json", [sample()]))
    outcome = ingest(write_json(tmp_path / "b.json", [sample(bytes_in=1), sample(partition=1)]))
    assert (outcome.good, dict(outcome.rules)) == (1, {"already_ingested": 1})
    assert not ingest(write_json(tmp_path / "c.json", [sample(bytes_in=2)])).nothing_new, "it is all there"
    assert lake.read(spark, SAMPLES).agg(F.sum("bytes_in")).first()[0] == 12000


def test_two_clusters_in_one_file(spark, lake, ingest, tmp_path):
    rows = [sample(), sample(cluster_id="c2", partition=1)]
    outcome = ingest(write_json(tmp_path / "two.json", rows))
    assert (outcome.good, dict(outcome.rules)) == (0, {"mixed_clusters": 2})
    allowed = ingest(str(tmp_path / "two.json"), many_clusters=True)
    assert (allowed.good, allowed.skipped) == (2, ()), "what took nothing may be asked for in other words"
    assert lake.read(spark, REJECTS).count() == 0
    assert ingest(str(tmp_path / "two.json")).ingest_id is None


def test_a_batch_of_which_nothing_is_taken_ends_with_a_status_of_its_own(spark, lake, tmp_path):
    path = write_json(tmp_path / "bad.json", [sample(bytes_in=-5), sample(partition=-1)])
    ended = CliRunner().invoke(main, ["pipeline", "--root", lake.root, "ingest", path, "--kind", "json"])
    assert (ended.exit_code, "0 rows taken, 2 put aside" in ended.stdout) == (7, True), ended.output
    assert lake.read(spark, REJECTS).count() == 2, "the command joins the session that is open, and leaves it open"


def test_rows_of_another_cluster_than_the_one_asked_for(ingest, tmp_path):
    outcome = ingest(write_json(tmp_path / "other.json", [sample(), sample(cluster_id=..., partition=1)]), cluster="c9")
    assert dict(outcome.rules) == {"mixed_clusters": 1, "other_cluster": 1}


def test_missing_columns_are_named_with_what_is_there(ingest, tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("topic,partition,broker_id,kb_in\norders,0,1,5\n")
    with pytest.raises(
        FormatError, match=r"short.csv.*no column window_seconds, window_start, cluster_id, any of .*kb_in"
    ):
        ingest(str(path), kind="csv")


@pytest.mark.long
def test_csv_and_parquet_say_the_same(spark, lake, ingest, tmp_path):
    frame = spark.createDataFrame([sample(window_start_ms=1738368000000, window_start=...)])
    frame.write.parquet(str(tmp_path / "p"))
    frame.write.option("header", "true").csv(str(tmp_path / "c"))
    assert ingest(str(tmp_path / "p"), kind="parquet").good == 1
    assert dict(ingest(str(tmp_path / "c"), kind="csv").rules) == {"already_ingested": 1}


class DyingLake(Lake):
    """Ends between the writing of a batch and its commit, like a process that is killed there."""

    def _append(self, *_):
        raise KeyboardInterrupt


def test_what_a_crash_left_is_never_read_and_is_cleaned_away(spark, lake, ingest, now, tmp_path):
    path = write_json(tmp_path / "a.json", [sample(cluster_id=...), sample(cluster_id=..., partition=1)])

    def read(session, files):
        return read_table(session, files, "json", cluster="wrong")

    with pytest.raises(KeyboardInterrupt):
        ingest_files(spark, DyingLake(lake.root), [path], "json", read, now=now, options=IngestOptions(cluster="wrong"))
    assert lake.read(spark, SAMPLES).count() == 0
    outcome = ingest(path, cluster="c1")
    assert (outcome.good, outcome.skipped) == (2, ())
    assert [row["cluster_id"] for row in lake.read(spark, SAMPLES).collect()] == ["c1", "c1"]
    later = datetime.now(UTC)

    def batches():
        return spark.read.format("delta").load(f"{lake.root}/samples").select("ingest_id").distinct().count()

    assert batches() == 2
    assert lake.clean(spark, now, older_than=timedelta(days=1)) == (0, 0), "it may be somebody's at work"
    assert lake.clean(spark, later, older_than=timedelta(0)) == (0, 1)
    assert batches() == 1
    assert lake.read(spark, SAMPLES).count() == 2


@pytest.mark.long
def test_two_that_ingest_at_once_count_once(spark, lake, ingest, now, tmp_path):
    """After one writer has read and judged, another commits: the same file, then the same window in another file."""
    same = write_json(tmp_path / "a.json", [sample()])
    other = write_json(tmp_path / "b.json", [sample(bytes_in=1), sample(partition=1)])
    for mine, theirs, taken in (
        (same, same, None),
        (other, write_json(tmp_path / "c.json", [sample(bytes_in=1, partition=1)]), 0),
    ):
        begun = []

        def read(session, files, theirs=theirs, begun=begun):
            if not begun:
                begun.append(ingest(theirs).good)
            return read_table(session, files, "json")

        outcome = ingest_files(spark, lake, [mine], "json", read, now=now, options=IngestOptions())
        assert begun == [1]
        if taken is None:
            assert (outcome.ingest_id, len(outcome.skipped)) == (None, 1)
        else:
            assert (outcome.good, dict(outcome.rules)) == (0, {"already_ingested": 2})
    rows = lake.read(spark, SAMPLES).select("partition", "bytes_in").orderBy("partition").collect()
    assert [tuple(row) for row in rows] == [(0, 6000), (1, 1)]
    assert len(lake.live(spark)) == 3


def test_a_compaction_beside_an_ingest_loses_and_doubles_nothing(spark, lake, ingest, now, tmp_path):
    ingest(write_json(tmp_path / "a.json", [sample()]))
    ingest(write_json(tmp_path / "b.json", [sample(partition=1)]))

    begun = []

    def read(session, files):
        if not begun:
            begun.append(compact(spark, lake, now=now).kind)
            lake.clean(spark, datetime.now(UTC), older_than=timedelta(0))
        return read_table(session, files, "json")

    last = write_json(tmp_path / "c.json", [sample(), sample(partition=2)])
    outcome = ingest_files(spark, lake, [last], "json", read, now=now, options=IngestOptions())
    assert (begun, outcome.good, dict(outcome.rules)) == (["compaction"], 1, {"already_ingested": 1})
    assert [row["partition"] for row in lake.read(spark, SAMPLES).orderBy("partition").collect()] == [0, 1, 2]


class SlowLake(Lake):
    """Commits its batch while another process, which has seen its rows already, begins to clean."""

    def _append(self, spark, base, commit):
        made = []

        class Cleaner(Lake):
            def transact(self, *what):
                made.append(Lake._append(self, spark, base, commit))
                return Lake.transact(self, *what)

        assert Cleaner(self.root).clean(spark, datetime.now(UTC), older_than=timedelta(0)) == (0, 0)
        return made[0]


def test_a_batch_that_is_committed_while_its_rows_are_cleaned_away_stays(spark, lake, now, tmp_path):
    def read(session, files):
        return read_table(session, files, "json")

    path = write_json(tmp_path / "a.json", [sample()])
    made = ingest_files(spark, SlowLake(lake.root), [path], "json", read, now=now, options=IngestOptions())
    assert made.good == lake.read(spark, SAMPLES).count() == 1


def test_files_of_several_layouts_lose_nothing(spark, lake, ingest, tmp_path):
    """Columns that one file lacks, numbers of another width, times in nanoseconds as pandas writes them, other orders."""
    start = 1_738_368_000
    base = {"cluster_id": ["c1"], "topic": ["t"], "broker_id": [1], "window_seconds": [60], "bytes_in": [5]}
    tables = [
        {**base, "partition": pa.array([0], pa.int32()), "window_start": [start]},
        {**base, "partition": pa.array([1], pa.int64()), "window_start": [start], "size_bytes": [77]},
        {
            **base,
            "partition": pa.array([2], pa.int64()),
            "window_start": pa.array([start * 10**9 + 1_000], pa.timestamp("ns", "UTC")),
        },
    ]
    for number, table in enumerate(tables):
        pq.write_table(pa.table(table), tmp_path / f"{number}.parquet")
    outcome = ingest(*(str(tmp_path / f"{number}.parquet") for number in range(3)), kind="parquet")
    assert (outcome.good, outcome.rejected) == (3, 0)
    rows = lake.read(spark, SAMPLES).orderBy("partition").collect()
    assert [row["size_bytes"] for row in rows] == [None, 77, None]
    assert {int(row["window_start"].timestamp()) for row in rows} == {start}

    (tmp_path / "a.csv").write_text(
        f"cluster_id,topic,partition,broker_id,window_start,window_seconds,bytes_in\nc1,u,0,1,{start},60,11\n"
    )
    (tmp_path / "b.csv").write_text(
        f"bytes_in,size_bytes,topic,partition,broker_id,window_start,window_seconds,cluster_id\n22,5,u,1,1,{start},60,c1\n"
    )
    assert ingest(str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), kind="csv").good == 2
    found = lake.read(spark, SAMPLES).where("topic = 'u'").orderBy("partition").collect()
    assert [(row["bytes_in"], row["size_bytes"]) for row in found] == [(11, None), (22, 5)]


@pytest.mark.long
def test_a_file_that_was_cut_off_is_put_aside_and_the_others_are_taken(spark, lake, ingest, tmp_path):
    whole = write_json(tmp_path / "whole.json", [sample()])
    packed = gzip.compress("".join(json.dumps(sample(partition=number)) + "\n" for number in range(2000)).encode())
    (tmp_path / "cut.json.gz").write_bytes(packed[: len(packed) // 2])
    outcome = ingest(whole, str(tmp_path / "cut.json.gz"))
    assert (outcome.good, dict(outcome.rules)) == (1, {"file_not_readable": 1})
    ((path, why),) = outcome.lost_files
    assert path.endswith("cut.json.gz")
    assert why == "the file can't be read to its end: java.io.EOFException: Unexpected end of input stream"
    (tmp_path / "cut.json.gz").write_bytes(packed)
    assert dict(ingest(str(tmp_path / "cut.json.gz")).rules) == {"already_ingested": 1}

    pq.write_table(pa.Table.from_pylist([sample(topic="p")]), tmp_path / "whole.parquet")
    raw = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(raw[: len(raw) - 20])
    outcome = ingest(str(tmp_path / "cut.parquet"), str(tmp_path / "whole.parquet"), kind="parquet")
    assert (outcome.good, dict(outcome.rules)) == (1, {"file_not_readable": 1})


@pytest.mark.parametrize("logger", ["executor.Executor", "scheduler.TaskSetManager"])
def test_a_task_that_fails_is_told_by_the_pipeline_alone(spark, logger):
    """Spark would print two pages of stack traces for each file that was cut off."""
    assert not spark._jvm.org.apache.logging.log4j.LogManager.getLogger(f"org.apache.spark.{logger}").isErrorEnabled()


def test_a_line_that_is_no_sample_is_no_second_cluster(spark, lake, ingest, tmp_path):
    head = "cluster_id,topic,partition,broker_id,window_start,window_seconds,bytes_in\n"
    rows = "".join(f"c1,j,{number},1,{1_738_368_000},60,11\n" for number in range(3))
    (tmp_path / "merged.csv").write_text(f"{head}{rows}<<<<<<< HEAD\n")
    outcome = ingest(str(tmp_path / "merged.csv"), kind="csv")
    assert (outcome.good, dict(outcome.rules)) == (3, {"missing_key": 1})
    assert outcome.lost_files == ()


def test_a_cluster_without_a_name_is_put_aside_and_the_others_are_taken(spark, lake, ingest, tmp_path):
    names = ["", " ", "__HIVE_DEFAULT_PARTITION__", "a b/ü=%1", "001"]
    path = write_json(tmp_path / "names.json", [sample(cluster_id=name) for name in names])
    outcome = ingest(path, many_clusters=True)
    assert (outcome.good, dict(outcome.rules)) == (2, {"missing_key": 3})
    assert {row["cluster_id"] for row in lake.read(spark, SAMPLES).collect()} == {"a b/ü=%1", "001"}


@pytest.mark.long
def test_the_same_sizes_on_another_day_are_not_the_same_input(spark, lake, tmp_path):
    dirs = [
        {
            "logDir": "/a",
            "error": None,
            "partitions": [{"partition": "t-0", "size": 5, "offsetLag": 0, "isFuture": False}],
        }
    ]
    path = tmp_path / "dirs.txt"
    path.write_text(json.dumps({"version": 1, "brokers": [{"broker": 3, "logDirs": dirs}]}))

    def take(day):
        return stages_ingest(spark, lake, Inputs((str(path),), "log-dirs", "c1", at=datetime(2025, 2, day, tzinfo=UTC)))

    assert [take(day).good for day in (1, 2)] == [1, 1]
    assert (take(1).ingest_id, len(take(2).skipped)) == (None, 1)


def test_nothing_there(ingest, tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        ingest(str(tmp_path / "absent.json"))


def test_a_large_day_is_cut_into_files_of_tasks_of_their_own(spark, lake, ingest, tmp_path):
    rows = [sample(partition=number) for number in range(400)]
    assert ingest(write_json(tmp_path / "a.json", rows), rows_per_file=40).good == 400
    by_file = lake.read(spark, SAMPLES).groupBy(F.input_file_name()).count().collect()
    assert len(by_file) == 10, "two parts that come to one task become one file of twice the size"
    assert all(20 <= row["count"] <= 60 for row in by_file)
