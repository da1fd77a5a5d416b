"""Sources, in any order, with duplicates, crashes and others at work: model and plan against an independent computation.

`SHUNTER_EXACTNESS_SECONDS` says how long the long one looks for a case that differs (600 s), `SHUNTER_EXACTNESS_SEED` where it begins.
"""

import contextlib
import json
import os
import time
from datetime import UTC, datetime, timedelta

import pytest
from plain_pipeline import T0, Plain, made
from pyspark.sql import functions as F

from shunter.app.pipeline import PlanOptions, model, plan
from shunter.pipeline.fleet import fleet_rows
from shunter.pipeline.ingest import IngestOptions, ingest_files
from shunter.pipeline.lake import Lake
from shunter.pipeline.rollup import compact
from shunter.pipeline.schemas import BROKERS, LOAD_MODEL, REPLICAS, SAMPLES
from shunter.pipeline.snapshot_batch import ingest_snapshots, latest_snapshot
from shunter.pipeline.sources.tables import read_table

pytestmark = pytest.mark.spark

NOW = datetime(2025, 3, 1, tzinfo=UTC)


class Killed(BaseException):
    """Ends a command between its last write and its commit."""


class DyingLake(Lake):
    """A lake whose process is killed before it commits."""

    def _append(self, *_):
        raise Killed


class BusyLake(Lake):
    """A lake on which somebody else commits while a batch is written: `beside` holds the ones that are still to come."""

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

    def __init__(self, spark, folder, worlds):
        self.spark, self.folder = spark, folder
        self.lake = Lake(str(folder / "lake"))
        self.plain = Plain(worlds)

    def run(self, op):
        if op.kind == "compact":
            compact(self.spark, self.lake, now=NOW)
            return
        if op.kind == "clean":
            self.lake.clean(self.spark, datetime.now(UTC) + timedelta(days=999), older_than=timedelta(0))
            return
        paths = []
        for name, text in op.files:
            (self.folder / name).write_text(text)
            paths.append(str(self.folder / name))
        if op.crashes:
            with contextlib.suppress(Killed):
                self.ingest(DyingLake(self.lake.root), op.kind, paths)
        if op.inside is not None:
            # It commits first: what comes of both is as if it had come before.
            BESIDE[self.lake.root] = [lambda: self.run(op.inside)]
        self.ingest(BusyLake(self.lake.root), op.kind, paths)
        for work in BESIDE.pop(self.lake.root, ()):
            work()
        self.plain.run(op)
        if op.twice:
            assert self.ingest(self.lake, op.kind, paths).good == 0

    def ingest(self, lake, kind, paths):
        options = IngestOptions()
        if kind == "snapshots":
            return ingest_snapshots(self.spark, lake, paths, now=NOW, options=options)
        return ingest_files(
            self.spark,
            lake,
            paths,
            kind,
            lambda session, files: read_table(session, files, kind),
            now=NOW,
            options=options,
        )

    def check(self):
        self.check_samples()
        if not any(self.plain.windows.values()):
            return
        model(self.spark, self.lake)
        rows = self.lake.read(self.spark, LOAD_MODEL).collect()
        found = {
            tuple(row[name] for name in LOAD_MODEL.key): {
                "size": row["size_bytes"],
                "coverage": pytest.approx(row["coverage"]),
                "windows": row["windows"],
                **{f"{short}_{s}": row[f"bytes_{short}_{s}"] for short in ("in", "out") for s in ("p95", "max")},
                **{f"{short}_mean": pytest.approx(row[f"bytes_{short}_mean"]) for short in ("in", "out")},
            }
            for row in rows
        }
        assert len(found) == len(rows)
        assert self.plain.model() == found
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
            key: sorted((start + T0, seconds, came) for start, seconds, came, *_ in windows)
            for key, windows in self.plain.windows.items()
            if windows
        }
        assert {key: sorted(windows) for key, windows in found.items()} == expected
        for table in (REPLICAS, BROKERS):
            held = self.lake.read(self.spark, table)
            assert held.count() == held.dropDuplicates(list(table.key)).count()

    def check_plan(self):
        brokers, replicas = latest_snapshot(self.spark, self.lake)
        rows = (
            fleet_rows(self.lake.read(self.spark, LOAD_MODEL), brokers, replicas).where("topic IS NOT NULL").collect()
        )
        with_snapshot = {name for name, moments in self.plain.snapshots.items() if moments}
        found = {
            (row["cluster_id"], row["topic"], row["number"]): (
                row["replicas"],
                row["size"],
                row["bytes_in"],
                row["bytes_out"],
            )
            for row in rows
            if row["cluster_id"] in with_snapshot
        }
        assert found == self.plain.fleet()
        folder = self.folder / "plans"
        _, outcomes = plan(self.spark, self.lake, PlanOptions(snapshot_age=float("inf")), folder)
        for outcome in outcomes:
            assert outcome.status == "planned", outcome.message
            if outcome.cluster_id in with_snapshot:
                known = [one for key, one in found.items() if key[0] == outcome.cluster_id]
                assert outcome.basis.with_rates == sum(one[2] is not None or one[3] is not None for one in known)
            if outcome.moves or (folder / f"{outcome.cluster_id}.json").exists():
                for row in json.loads((folder / f"{outcome.cluster_id}.json").read_text())["partitions"]:
                    assert len(set(row["replicas"])) == len(row["replicas"])
                    if outcome.cluster_id in with_snapshot:
                        assert row["original_replicas"] == found[outcome.cluster_id, row["topic"], row["partition"]][0]


def try_one(spark, folder, seed, **limits):
    folder.mkdir()
    worlds, ops = made(seed, **limits)
    runner = Runner(spark, folder, worlds)
    try:
        for op in ops:
            runner.run(op)
        runner.check()
    except BaseException:
        print(
            f"seed {seed}: {[(op.kind, [name for name, _ in op.files], op.crashes, op.twice, op.inside is not None) for op in ops]}"
        )
        raise


def test_a_small_case_is_exact(spark, tmp_path):
    try_one(spark, tmp_path / "case", 14, most_ops=3)


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
