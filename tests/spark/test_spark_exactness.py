"""Sources in any order, with duplicates, crashes and other writers: model and plan against an independent computation.

`SHUNTER_EXACTNESS_SECONDS` says how long the long one looks for a case that differs (600 s), `SHUNTER_EXACTNESS_SEED` where it begins.
"""

import contextlib
import json
import os
import random
import shutil
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_cases import made
from plain_pipeline import T0, Plain
from pyspark.sql import functions as F

from shunter.app.pipeline.stages import FleetPlanOptions, Inputs, model_lake, plan
from shunter.app.pipeline.stages import ingest as ingest_stage
from shunter.formats.series_labels import SeriesLabels
from shunter.pipeline.ingest.rollup import compact, roll_up_days
from shunter.pipeline.ingest.snapshot_batch import latest_snapshot
from shunter.pipeline.ingest.stream import StreamOptions, ingest_batch
from shunter.pipeline.lake.schemas import BROKER_SAMPLES, BROKERS, HOURLY, LOAD_MODEL, REJECTS, REPLICAS, SAMPLES
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.planning.fleet import PEAKS, fleet_rows
from shunter.pipeline.reports.quality import data_quality

pytestmark = pytest.mark.spark

NOW = datetime(2025, 3, 1, tzinfo=UTC)
LAST = date(2025, 2, 2)
"""The second of a case's two days."""
AMOUNTS = (("in", "bytes_in"), ("out", "bytes_out"), ("messages", "messages_in"))
STATISTICS = ("mean", "p50", "p95", "p99", "max")


class Killed(BaseException):
    """Ends a command between its last write and its commit."""


class DyingLake(Lake):
    """A lake whose process is killed before it commits."""

    def _append(self, *_):
        raise Killed


class BusyLake(Lake):
    """A lake on which another writer commits while a batch is written: `BESIDE` holds the commits that are to come."""

    def transact(self, spark, name, prepare, now):
        def slowly(state, attempt):
            prepared = prepare(state, attempt)
            for work in BESIDE.pop(self.root, ()):
                work()
            return prepared

        return super().transact(spark, name, slowly, now)


BESIDE = {}


class Runner:
    """Carries out commands on a lake, and on the plain model beside it."""

    def __init__(self, spark, folder, worlds, seed):
        self.spark, self.folder, self.seed = spark, folder, seed
        self.lake = Lake(str(folder / "lake"))
        self.plain = Plain(worlds)

    def run(self, op):
        if not op.files:
            self.look_after(op)
            self.plain.run(op)
            return
        paths = [self.save(op.kind, name, content) for name, content, _ in op.files]
        if op.crashes:
            with contextlib.suppress(Killed):
                self.ingest(DyingLake(self.lake.root), op, paths)
        if op.inside is not None:
            # The other command commits first, so the result is as if it had come before this one.
            BESIDE[self.lake.root] = [lambda: self.run(op.inside)]
        self.ingest(BusyLake(self.lake.root), op, paths)
        for work in BESIDE.pop(self.lake.root, ()):
            work()
        self.plain.run(op)
        if op.twice:
            assert self.ingest(self.lake, op, paths) == 0

    def look_after(self, op):
        if op.kind == "clean":
            self.lake.clean(self.spark, datetime.now(UTC) + timedelta(days=999), older_than=timedelta(0))
            return
        state = self.lake.state(self.spark)
        keep_from = LAST if op.kind == "retain" else None
        if state.live:
            roll_up_days(self.spark, self.lake, state, new_only=True)
        compact(self.spark, self.lake, now=NOW, keep_from=keep_from, rolled_up=state)

    def save(self, kind, name, content):
        path = self.folder / name
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist([json.loads(line) for line in content.splitlines()]), path)
        elif kind == "cruise-control":
            pq.write_table(pa.table({"value": [bytes.fromhex(record) for record in json.loads(content)]}), path)
        else:
            path.write_text(content)
        return str(path)

    def ingest(self, lake, op, paths):
        """Rows that were taken."""
        if op.kind == "stream":
            return self.stream(lake, op, paths[0])
        brokers = tuple((f"kafka-{broker}:7071", broker) for broker in (1, 2, 3))
        inputs = Inputs(tuple(paths), op.kind, op.cluster, SeriesLabels(brokers), None, op.many, op.seconds)
        return ingest_stage(self.spark, lake, inputs).good

    def stream(self, lake, op, path):
        options, query = StreamOptions("unused", lateness=timedelta(seconds=op.lateness)), Path(path).name
        taken = 0
        for number, values in enumerate(json.loads(Path(path).read_text())):
            rows = [(value, f"t-0@{number}") for value in values]
            records = self.spark.createDataFrame(rows, "value string, file string")
            commit = ingest_batch(self.spark, lake, records, query, number, options, NOW)
            if number % 2:
                self.lake.optimize(self.spark)
            taken += 0 if commit is None else commit.good
        return taken

    def check(self):
        self.check_samples()
        self.check_quality()
        self.check_hours()
        named = sorted({key[0] for key, windows in self.plain.windows.items() if windows})
        if not named:
            return
        if self.seed % 3 == 0:
            for name in named:
                model_lake(self.spark, self.lake, clusters=(name,))
        else:
            model_lake(self.spark, self.lake)
        rows = self.lake.read(self.spark, LOAD_MODEL).collect()
        found = {tuple(row[name] for name in LOAD_MODEL.key): modelled(row) for row in rows}
        assert len(found) == len(rows)
        assert {key: approximately(told) for key, told in self.plain.model().items()} == found
        self.check_plan()

    def check_samples(self):
        rows = (
            self.lake.read(self.spark, SAMPLES)
            .select(*SAMPLES.key, F.unix_seconds("window_start").alias("at"), "window_seconds", "bytes_in")
            .collect()
        )
        found = {}
        for row in rows:
            key = tuple(row[name] for name in LOAD_MODEL.key)
            found.setdefault(key, []).append((row["at"], row["window_seconds"], row["bytes_in"]))
        expected = {
            key: sorted((start + T0, seconds, amounts[0]) for start, seconds, amounts, *_ in windows)
            for key, windows in self.plain.windows.items()
            if windows
        }
        assert {key: sorted(windows, key=lambda one: one[:2]) for key, windows in found.items()} == expected
        for table in (REPLICAS, BROKERS):
            held = self.lake.read(self.spark, table)
            assert held.count() == held.dropDuplicates(list(table.key)).count()
            taken = held.select("cluster_id", F.unix_seconds("taken_at") - T0).distinct().collect()
            assert {tuple(row) for row in taken} == {
                (name, at) for name, moments in self.plain.snapshots.items() for at in moments
            }
        own = self.lake.read(self.spark, BROKER_SAMPLES)
        told = own.select("cluster_id", "broker_id", F.unix_seconds("window_start") - T0).collect()
        assert sorted(map(tuple, told)) == sorted(self.plain.brokers)

    def check_quality(self):
        tables = [self.lake.read(self.spark, table) for table in (SAMPLES, REPLICAS, REJECTS)]
        found = {
            (row["cluster_id"], int(row["date"] >= LAST)): (row["partitions"], row["with_rates"], row["coverage"])
            for row in data_quality(*tables).collect()
        }
        expected = self.plain.quality()
        assert found == {key: (*counts, close(share)) for key, (*counts, share) in expected.items()}

    def check_hours(self):
        if not self.lake.state(self.spark).live:
            return
        roll_up_days(self.spark, self.lake, new_only=True)
        rows = self.lake.read(self.spark, HOURLY).collect()
        found = {
            (*self.plain.named([row[name] for name in LOAD_MODEL.key]), int(row["window_start"].timestamp()) - T0): (
                row["bytes_in"], row["bytes_out"], row["messages_in"], row["windows"], row["size_bytes"],
            )
            for row in rows
        }  # fmt: skip
        assert len(found) == len(rows)
        assert found == self.plain.all_hours()

    def check_plan(self):
        brokers, replicas = latest_snapshot(self.spark, self.lake)
        peak = random.Random(self.seed).choice(PEAKS)
        rows = fleet_rows(self.lake.read(self.spark, LOAD_MODEL), brokers, replicas, peak=peak)
        found = {
            (row["cluster_id"], row["topic"], row["number"]): tuple(row[name] for name in ("replicas", "bytes_in", "bytes_out", "size"))
            for row in rows.where("topic IS NOT NULL").collect()
        }  # fmt: skip
        expected = self.plain.fleet(peak)
        assert {key: one[:3] for key, one in found.items()} == {
            key: (one[0], *map(close, one[1:3])) for key, one in expected.items()
        }
        assert {key: one[3] for key, one in found.items() if expected[key][3] is not None} == {
            key: one[3] for key, one in expected.items() if one[3] is not None
        }
        folder = self.folder / "plans"
        _, outcomes = plan(self.spark, self.lake, FleetPlanOptions(snapshot_age=float("inf"), peak=peak), folder)
        for outcome in outcomes:
            assert outcome.status == "planned", outcome.message
            known = [one for key, one in found.items() if key[0] == outcome.cluster_id]
            assert outcome.basis.with_rates == sum(one[1] is not None or one[2] is not None for one in known)
            path = folder / f"{outcome.cluster_id}.json"
            if outcome.moves or path.exists():
                for row in json.loads(path.read_text())["partitions"]:
                    assert len(set(row["replicas"])) == len(row["replicas"])
                    if self.plain.snapshots[outcome.cluster_id]:
                        assert row["original_replicas"] == found[outcome.cluster_id, row["topic"], row["partition"]][0]


def modelled(row):
    told = {
        "size": row["size_bytes"],
        "covered": row["covered_seconds"],
        "coverage": row["coverage"],
        "windows": row["windows"],
        "last": int(row["last_window"].timestamp()) - T0,
    }
    return told | {f"{short}_{one}": row[f"{name}_{one}"] for short, name in AMOUNTS for one in STATISTICS}


def approximately(told):
    return {name: close(value) if isinstance(value, float) else value for name, value in told.items()}


def close(value):
    return None if value is None else pytest.approx(value, rel=1e-12)


def try_one(spark, folder, seed, **limits):
    folder.mkdir()
    worlds, ops = made(seed, **limits)
    runner = Runner(spark, folder, worlds, seed)
    try:
        for op in ops:
            runner.run(op)
        runner.check()
    except BaseException:
        for op in ops:
            inside = None if op.inside is None else (op.inside.kind, [name for name, *_ in op.inside.files])
            print(
                f"seed {seed}: {op.kind} {[name for name, *_ in op.files]} {op.crashes=} {op.twice=} {op.refused=} {inside=}"
            )
        raise
    shutil.rmtree(folder)


def test_a_small_case_is_exact(spark, tmp_path):
    try_one(spark, tmp_path / "case", 187, most_ops=2)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_no_case_differs_from_an_independent_computation(spark, tmp_path):
    end = time.monotonic() + float(os.environ.get("SHUNTER_EXACTNESS_SECONDS", "600"))
    first = seed = int(os.environ.get("SHUNTER_EXACTNESS_SEED", "1"))
    while time.monotonic() < end:
        try_one(spark, tmp_path / str(seed), seed)
        seed += 1
    print(f"{seed - first} cases, seeds {first} to {seed - 1}: none differs")
    assert seed > first
