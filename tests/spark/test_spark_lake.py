"""The lake as Delta tables: writers at once and killed, tables read back by others, a plan of last week made again."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import duckdb
import duckdb_extension_delta
import pytest
from deltalake import DeltaTable

from shunter.app.pipeline.stages import FleetPlanOptions, Inputs, ingest, model_lake, plan, roll_up
from shunter.errors import FormatError
from shunter.pipeline.lake.account_schemas import PLAN_ASSIGNMENTS, PLAN_LOADS, PLAN_MOVES, PLAN_UNDONE, PLANS
from shunter.pipeline.lake.schemas import BATCHES, BROKERS, DAILY, HOURLY, LOAD_MODEL, REPLICAS, SAMPLES
from shunter.pipeline.lake.tables import _STATES, JUDGED, RETENTION_DAYS, Lake
from shunter.pipeline.session import SMALL_JAVA

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

T0 = 1_738_368_000
PARTITIONS = 4


class Killed(BaseException):
    """Ends a stage, as a signal does."""


class DyingLake(Lake):
    """A lake whose writer is killed at a write: before it, or after it and before all that follows."""

    def _put(self, *what):
        self._die_at(super()._put, *what)

    def change(self, *what):
        self._die_at(super().change, *what)

    def _die_at(self, work, *what):
        left, after = DYING[threading.get_ident()]
        DYING[threading.get_ident()] = left - 1, after
        if left == 0 and not after:
            raise Killed
        work(*what)
        if left == 0:
            raise Killed


DYING: dict[int, tuple[int, bool]] = {}


def dying(lake, at, *, after):
    """The lake of a writer in this thread that is killed at its write number `at`."""
    DYING[threading.get_ident()] = at, after
    return DyingLake(lake.root)


def sample(minute, partition=0, **changes):
    row = {
        "cluster_id": "yard", "topic": "t", "partition": partition, "broker_id": 1, "role": "leader",
        "window_start": T0 + 60 * minute, "window_seconds": 60, "bytes_in": 6_000 * (1 + partition),
    }  # fmt: skip
    return row | changes


def snapshot(minute):
    """Broker 1 has everything, broker 2 nothing."""
    every = {"version": 1, "cluster_id": "yard", "taken_at_ms": (T0 + 60 * minute) * 1000}
    brokers = [
        {"id": broker, "host": "h", "rack": f"r{broker}", "disk_total_bytes": 10**12, "disk_usable_bytes": 9 * 10**11}
        for broker in (1, 2)
    ]
    partitions = [
        {
            "topic": "t", "topic_id": "id-t", "partition": number, "replicas": [1], "isr": [1], "leader": 1,
            "start_offset": 0, "end_offset": 100, "min_insync": 1,
            "sizes": [{"broker": 1, "bytes": 5_000 + 6_000 * minute}],
        }
        for number in range(PARTITIONS)
    ]  # fmt: skip
    head = {"kind": "cluster", **every, "brokers": brokers, "unanswered": [], "partitions": PARTITIONS}
    return [head, *({"kind": "partition", **every, **one} for one in partitions)]


def write(path: Path, rows) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def plain(value):
    """A value as all three engines give it: Spark's times have no zone, and are UTC here."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC).isoformat()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def by_spark(spark, lake, table):
    return [row.asDict(recursive=True) for row in lake.read(spark, table).collect()]


@cache
def duck():
    """DuckDB with its own reader of Delta tables, which a package brings."""
    extension = next(iter(Path(duckdb_extension_delta.__path__[0]).glob("extensions/*/delta.duckdb_extension")))
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return connection


def by_duck(folder):
    return duck().sql(f"SELECT * FROM delta_scan('{folder}')").to_arrow_table().to_pylist()


def by_rust(folder):
    return DeltaTable(folder).to_pyarrow_table().to_pylist()


def by_another(read, lake, table):
    """Rows of a table by an engine that knows no Shunter, with the rule that docs/data.md gives."""
    folder = Path(lake.root) / table.name
    if not folder.is_dir():
        return []
    rows = read(str(folder))
    if table is SAMPLES:
        rows = [one for one in rows if one["verdict"] == "good"]
    if table is BATCHES or "ingest_id" not in table.columns:
        return rows
    batches = Path(lake.root) / BATCHES.name
    committed = {one["ingest_id"] for one in read(str(batches))} if batches.is_dir() else set()
    return [one for one in rows if one["ingest_id"] in committed]


def seen(spark, lake, tables, left_out=("ingest_id",)):
    """The rows of each table; DuckDB and delta-rs see the same as Spark."""
    found = []
    for table in tables:
        names = [name for name in table.columns if name not in left_out]
        engines = (
            sorted(str([plain(one[name]) for name in names]) for one in rows)
            for rows in (
                by_spark(spark, lake, table), by_another(by_duck, lake, table), by_another(by_rust, lake, table)
            )
        )  # fmt: skip
        first, second, third = engines
        assert first == second == third, table.name
        found.append(first)
    return found


def plan_of(spark, lake, out, **options):
    plan_id, outcomes = plan(spark, lake, FleetPlanOptions(snapshot_age=float("inf"), **options), out)
    return plan_id, outcomes, {path.name: path.read_bytes() for path in out.iterdir()}


def test_other_readers_see_the_same_rows(spark, lake, tmp_path):
    samples = [sample(minute, number) for minute in range(3) for number in range(2)]
    ingest(spark, lake, Inputs((write(tmp_path / "a.json", samples),), "json"))
    ingest(spark, lake, Inputs((write(tmp_path / "s.jsonl", snapshot(1)),), "snapshots"))
    with pytest.raises(Killed):
        ingest(spark, dying(lake, 1, after=False), Inputs((write(tmp_path / "b.json", [sample(9)]),), "json"))
    model_lake(spark, lake)
    found = seen(spark, lake, (BATCHES, SAMPLES, BROKERS, REPLICAS, LOAD_MODEL), ())
    assert [len(rows) for rows in found] == [2, len(samples), 2, PARTITIONS, 2]
    assert len(by_rust(f"{lake.root}/samples")) == len(samples) + 1, "what was killed is there, and counts nowhere"
    table = DeltaTable(f"{lake.root}/load_model")
    assert table.metadata().partition_columns == ["cluster_id"]
    assert table.metadata().configuration["delta.deletedFileRetentionDuration"] == f"interval {RETENTION_DAYS} days"


OF_A_BATCH = (BROKERS, REPLICAS, SAMPLES)
OF_A_PLAN = (PLAN_MOVES, PLAN_ASSIGNMENTS, PLAN_LOADS, PLAN_UNDONE, PLANS)
DIFFERS = ("ingest_id", "plan_id", "seconds", "model_version", "model_at")


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_stage_that_is_killed_at_any_of_its_writes_is_mended_by_the_next_run(spark, tmp_path):
    """Before each write and after each. Between kills every engine reads what was there before, or all that is new."""
    whole, torn = Lake(str(tmp_path / "whole")), Lake(str(tmp_path / "torn"))
    paths = (
        write(tmp_path / "s.jsonl", [*snapshot(0), *snapshot(1)]),
        write(tmp_path / "a.json", [sample(0), sample(1)]),
    )
    stages = {
        "snapshots": (lambda lake: ingest(spark, lake, Inputs(paths[:1], "snapshots")), OF_A_BATCH),
        "samples": (lambda lake: ingest(spark, lake, Inputs(paths[1:], "json")), OF_A_BATCH),
        "model": (lambda lake: model_lake(spark, lake), (LOAD_MODEL,)),
        "plan": (lambda lake: plan_of(spark, lake, tmp_path / "out"), ()),
        "compact": (lambda lake: roll_up(spark, lake, keep_days=30), (*OF_A_BATCH, HOURLY, DAILY)),
    }
    kills = dict.fromkeys(stages, 0)
    (tmp_path / "out").mkdir()
    for name, (run, tables) in stages.items():
        before = seen(spark, torn, tables, DIFFERS)
        run(whole)
        expected = seen(spark, whole, tables, DIFFERS)
        for at in range(40):
            try:
                run(dying(torn, at // 2, after=bool(at % 2)))
            except Killed:
                kills[name] += 1
                found = seen(spark, torn, tables, DIFFERS)
                assert name == "compact" or found in (before, expected), "no half of a batch is read"
                plans = {row["plan_id"] for row in by_another(by_duck, torn, PLANS)}
                assert name != "plan" or len(plans) <= kills[name] // 10, "a plan counts with its last table"
                continue
            break
        else:
            pytest.fail(f"{name} does not end")
        run(torn)
        assert seen(spark, torn, tables, DIFFERS) == expected, name
    assert kills == {"snapshots": 8, "samples": 4, "model": 2, "plan": 10, "compact": 18}
    newest = max(row["plan_id"] for row in by_another(by_rust, torn, PLANS))
    for table in OF_A_PLAN:
        rows = [
            [
                [one[column] for column in table.columns if column not in DIFFERS]
                for one in by_another(by_rust, lake, table)
                if lake is whole or one["plan_id"] == newest
            ]
            for lake in (whole, torn)
        ]
        assert sorted(map(str, rows[0])) == sorted(map(str, rows[1])), table.name


def counted_once(spark, lake, writers):
    """Two windows that all writers bring, and one of each."""
    found = [tuple(row) for row in lake.read(spark, SAMPLES).select("partition", "window_start").collect()]
    assert len(found) == len(set(found)) == 2 + writers
    state = lake.state(spark)
    assert [one.version for one in state.commits] == list(range(1, len(state.commits) + 1))
    assert sum(one.good for one in state.commits) == len(found)
    later = datetime.now(UTC) + timedelta(days=1)
    lake.clean(spark, later, older_than=timedelta(0))
    in_the_table = spark.read.format("delta").load(f"{lake.root}/samples").count()
    assert in_the_table == sum(one.good + one.rejected for one in state.commits)


def shared(tmp_path, number):
    return [write(tmp_path / f"{one}.json", [sample(0), sample(1), sample(0, 10 + one)]) for one in range(number)]


@pytest.fixture
def by_delta_alone(monkeypatch):
    """As on HDFS: Delta keeps writers apart. (It does so too on this machine, between threads.)"""
    monkeypatch.setattr("shunter.pipeline.lake.tables.write_lock", lambda *_: nullcontext())


def test_on_a_folder_of_this_machine_one_process_at_a_time_writes_a_table(spark, lake, tmp_path):
    path, lock = write(tmp_path / "a.json", [sample(0)]), Path(lake.root) / ".samples.lock"
    lock.parent.mkdir()
    with lock.open("w") as held, ThreadPoolExecutor(1) as pool:
        fcntl.lockf(held, fcntl.LOCK_EX)
        made = pool.submit(ingest, spark, lake, Inputs((path,), "json"))
        waits = re.compile(rf"-> POSIX .*:{lock.stat().st_ino} ")
        while not waits.search(Path("/proc/locks").read_text()):
            assert not made.done()
            threading.Event().wait(0.05)
        assert not (lock.parent / "samples").exists()
        fcntl.lockf(held, fcntl.LOCK_UN)
        assert made.result().good == 1


@pytest.mark.usefixtures("by_delta_alone")
def test_writers_at_once_of_whom_most_are_killed_count_every_window_once(spark, lake, tmp_path):
    """Four writers in threads. Three of them are killed at a write, and run again."""
    paths, doomed = shared(tmp_path, 4), random.Random(7).sample(range(4), 3)

    def work(one):
        inputs = Inputs((paths[one],), "json")
        if one in doomed:
            with pytest.raises(Killed):
                ingest(spark, dying(lake, one % 2, after=one % 3 == 0), inputs)
        ingest(spark, lake, inputs)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    counted_once(spark, lake, 4)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_processes_at_once_of_which_most_are_killed_count_every_window_once(spark, lake, tmp_path):
    """Forty processes, four at a time, each with a file of its own. Thirty are killed at any moment; their files go to the next."""
    paths, rng = shared(tmp_path, 40), random.Random(11)

    def started(root, files):
        java = f"spark.driver.extraJavaOptions={SMALL_JAVA}"
        command = [sys.executable, "-m", "shunter", "pipeline", "--root", str(root), "--master", "local[1]"]
        command += ["--memory", "512m", "--conf", "spark.driver.host=127.0.0.1", "--conf", java]
        command += ["--conf", "spark.sql.codegen.wholeStage=false", "ingest", *files, "--kind", "json"]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    began = time.monotonic()
    with started(tmp_path / "alone", paths[:1]) as process:
        told, _ = process.communicate()
    assert process.returncode == 0, told
    alone, killed = time.monotonic() - began, []

    def work(lane):
        waiting = []
        for one in lane:
            waiting.append(paths[one])
            with started(lake.root, waiting) as process:
                try:
                    # Four at once take longer than one: some are killed before their first write, some after the last.
                    told, _ = process.communicate(timeout=alone * doomed[one] if one in doomed else None)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
                    killed.append(one)
                    continue
            assert process.returncode == 0, told
            waiting.clear()
        assert not waiting

    lanes = [range(at, 40, 4) for at in range(4)]
    may_die = [one for lane in lanes for one in lane[:-1]]
    doomed = {one: rng.uniform(0.4, 2.5) for one in rng.sample(may_die, 30)}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, lanes))
    assert len(killed) >= 20
    counted_once(spark, lake, 40)


@pytest.mark.usefixtures("by_delta_alone")
def test_two_models_and_two_plans_of_one_cluster_at_once_are_both_made(spark, lake, tmp_path):
    ingest(spark, lake, Inputs((write(tmp_path / "s.jsonl", [*snapshot(0), *snapshot(1)]),), "snapshots"))
    ingest(spark, lake, Inputs((write(tmp_path / "a.json", [sample(2), sample(3, 1)]),), "json"))
    with ThreadPoolExecutor(2) as pool:
        made = [one.result() for one in [pool.submit(model_lake, spark, lake) for _ in range(2)]]
        plans = [pool.submit(plan_of, spark, lake, tmp_path / name) for name in ("one", "two")]
        (first, _, files), (second, _, others) = (one.result() for one in plans)
    assert made[0] == made[1]
    assert lake.read(spark, LOAD_MODEL).count() == made[0].replicas
    history = spark.sql(f"DESCRIBE HISTORY {lake.name(LOAD_MODEL)}").where("operationParameters['mode'] = 'Overwrite'")
    assert history.count() == 2, "none is lost"
    assert first != second
    assert files == others != {}
    for table in OF_A_PLAN:
        counts = {row["plan_id"]: row["count"] for row in lake.read(spark, table).groupBy("plan_id").count().collect()}
        assert counts.get(first) == counts.get(second), table.name


def test_a_plan_of_an_earlier_time_is_made_again_byte_for_byte(spark, lake, tmp_path):
    ingest(spark, lake, Inputs((write(tmp_path / "s.jsonl", [*snapshot(0), *snapshot(1)]),), "snapshots"))
    model_lake(spark, lake)
    plan_id, (outcome,), first = plan_of(spark, lake, tmp_path / "first")
    assert outcome.moves > 0
    made_from = lake.read(spark, PLANS).where(f"plan_id = '{plan_id}'").select("model_version", "model_at").first()
    version, at = lake.version(spark, LOAD_MODEL)
    assert (made_from["model_version"], made_from["model_at"].astimezone(UTC)) == (version, at)

    then = datetime.now(UTC)
    rates = [
        sample(minute, number, bytes_in=10**9 * (number + 1)) for minute in range(3) for number in range(PARTITIONS)
    ]
    ingest(spark, lake, Inputs((write(tmp_path / "a.json", rates),), "json"))
    ingest(spark, lake, Inputs((write(tmp_path / "t.jsonl", snapshot(5)),), "snapshots"))
    model_lake(spark, lake)
    lake.optimize(spark)
    plan_of(spark, lake, tmp_path / "now")
    again, (outcome,), files = plan_of(spark, lake, tmp_path / "again", as_of=then)
    assert files == first
    assert lake.read(spark, PLANS).where(f"plan_id = '{again}'").first()["model_version"] == version
    before = replace(lake, as_of=datetime(2020, 1, 1, tzinfo=UTC))
    assert before.read(spark, SAMPLES).count() == 0, "there was no lake"


@pytest.mark.parametrize("left", ["_delta_log/_staged_commits", "date=2025-02-01"])
def test_a_writer_that_was_killed_while_it_made_a_table_is_in_nobodys_way(spark, lake, tmp_path, left):
    for name in (SAMPLES.name, BATCHES.name):
        (Path(lake.root) / name / left).mkdir(parents=True)
        (Path(lake.root) / name / left / "part-0.parquet").write_bytes(b"half")
    assert ingest(spark, lake, Inputs((write(tmp_path / "a.json", [sample(0), sample(1)]),), "json")).good == 2
    assert len(seen(spark, lake, (SAMPLES,))[0]) == 2
    assert DeltaTable(f"{lake.root}/samples").metadata().partition_columns == list(JUDGED.partitions)


def test_a_schema_of_a_catalog_holds_a_lake(spark, tmp_path):
    spark.sql("CREATE SCHEMA yards")
    lake = Lake("spark_catalog.yards")
    path = write(tmp_path / "a.json", [sample(0), sample(1)])
    assert ingest(spark, lake, Inputs((path,), "json")).good == 2
    assert model_lake(spark, lake).replicas == 1
    assert spark.sql("SELECT count(*) FROM yards.samples JOIN yards.batches USING (ingest_id)").first()[0] == 2


def test_a_commit_that_is_missing_or_of_a_newer_version_is_refused(spark, lake, tmp_path):
    ingest(spark, lake, Inputs((write(tmp_path / "a.json", [sample(0)]),), "json"))
    _STATES.clear()
    spark.sql(f"UPDATE {lake.name(BATCHES)} SET schema_version = 2")
    with pytest.raises(FormatError, match="version 2 is not understood"):
        lake.state(spark)
    spark.sql(f"UPDATE {lake.name(BATCHES)} SET schema_version = 1, version = 2")
    with pytest.raises(FormatError, match="one is missing or there twice"):
        lake.state(spark)
