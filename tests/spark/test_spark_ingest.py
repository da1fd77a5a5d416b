"""Batches: good rows in, bad rows aside with the rule they break, twice is once."""

import contextlib
import json

import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F

from shunter.cli import main
from shunter.errors import FormatError
from shunter.pipeline.ingest import IngestOptions, ingest_files
from shunter.pipeline.schemas import REJECTS, SAMPLES
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
        "not_readable": 1,
    }
    assert outcome.rejected == 12
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


def test_a_batch_of_which_nothing_is_taken_ends_with_a_status_of_its_own(spark, lake, tmp_path, monkeypatch):
    monkeypatch.setattr("shunter.app.pipeline.spark_session", lambda _: contextlib.nullcontext(spark))

    path = write_json(tmp_path / "bad.json", [sample(bytes_in=-5), sample(partition=-1)])
    ended = CliRunner().invoke(main, ["pipeline", "--root", lake.root, "ingest", path, "--kind", "json"])
    assert (ended.exit_code, "0 rows taken, 2 put aside" in ended.stdout) == (7, True), ended.output


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


def test_csv_and_parquet_say_the_same(spark, lake, ingest, tmp_path):
    frame = spark.createDataFrame([sample(window_start_ms=1738368000000, window_start=...)])
    frame.write.parquet(str(tmp_path / "p"))
    frame.write.option("header", "true").csv(str(tmp_path / "c"))
    assert ingest(str(tmp_path / "p"), kind="parquet").good == 1
    assert dict(ingest(str(tmp_path / "c"), kind="csv").rules) == {"already_ingested": 1}


def test_an_uncommitted_batch_is_not_seen_and_running_it_again_makes_it_whole(spark, lake, ingest, now, tmp_path):
    path = write_json(tmp_path / "a.json", [sample()])
    outcome = ingest(path)
    manifest = tmp_path / "lake" / "manifest" / f"ingest_id={outcome.ingest_id}"
    for file in [*manifest.iterdir()]:
        file.unlink()
    manifest.rmdir()
    assert lake.read(spark, SAMPLES).count() == 0
    assert ingest(path).ingest_id == outcome.ingest_id
    assert lake.read(spark, SAMPLES).count() == 1


def test_nothing_there(ingest, tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        ingest(str(tmp_path / "absent.json"))
