"""The stages through Spark Connect: a real server, a client in a process of its own, and a classic session's tables."""

import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from test_spark_stages import T0, snapshot

from lab.testbed.process import run_bounded
from lab.testbed.spark import SparkConnect
from shunter.app.pipeline.delta_jars import delta_jars
from shunter.drivers.host.cache import cache_folder
from shunter.errors import SettingsError
from shunter.pipeline import FleetPlan, Inputs, Lake, Pipeline, SessionSettings, WhatIf, open_session
from shunter.pipeline.classic import tasks_at_once
from shunter.pipeline.ingest.stream import StreamOptions, start_stream
from shunter.pipeline.session import spark_settings

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

NOW = datetime.fromtimestamp(T0 / 1000 + 3600, UTC)
BY_THE_ATTEMPT = {"ingest_id", "forfeits", "supersedes", "files", "file", "seconds", "model_at"}
"""Columns that no two runs have alike."""


def run(spark, folder, landing):
    done = Pipeline(spark, Lake(f"{folder}/lake"), lambda: NOW)
    for kind in ("snapshots", "csv"):
        done = done.ingest(Inputs((f"{landing}/{kind}",), kind, cluster="yard"))
        yield replace(done.ingested, ingest_id=None)
    asked = FleetPlan(plan_id="p", peak="max")
    done = done.model().plan(asked, out=Path(folder) / "plans").schedule(WhatIf(throttle=1000.0, lost=(3,)))
    yield from (done.modelled, [one._replace(seconds=0) for one in done.planned.clusters], done.scheduled)
    done.report(Path(folder) / "report.html", cluster="yard")


def rows(table):
    found = DeltaTable(table).to_pyarrow_table().to_pylist()
    return sorted(repr({name: one[name] for name in sorted(one.keys() - BY_THE_ATTEMPT)}) for one in found)


def test_the_stages_do_the_same_through_spark_connect(spark, work_dir):
    pytest.importorskip("grpc")
    (work_dir / "landing" / "snapshots").mkdir(parents=True)
    (work_dir / "landing" / "csv").mkdir()
    for minute in (0, 1):
        snapshot(work_dir / "landing" / "snapshots", "yard", minute)
    head = "topic,partition,broker_id,window_start,window_seconds,bytes_in"
    (work_dir / "landing" / "csv" / "samples.csv").write_text(
        f"{head}\nt,0,1,{T0 // 1000 + 600},60,600000\nt,x,1,0,60,1\n"
    )
    conf = {"spark.local.dir": str(work_dir), "spark.sql.warehouse.dir": str(work_dir), "spark.log.level": "ERROR"}
    settings = SessionSettings(
        master="local[2]",
        memory="1g",
        small=True,
        jars=delta_jars(cache_folder()),
        conf=conf | {"spark.master": "local[2]"},
    )
    with SparkConnect(work_dir / "server", spark_settings(settings)) as server:
        client = run_bounded(
            [sys.executable, __file__, server.url, str(work_dir / "connect"), str(work_dir / "landing")], timeout_s=600
        )
    assert client.returncode == 0, client.stderr
    told = [*map(repr, run(spark, work_dir / "classic", work_dir / "landing"))]
    refused = "ingest of a topic needs a classic session of Spark, not one of Spark Connect: leave out spark.remote"
    assert json.loads(client.stdout) == [*told, refused]
    tables = {table.name for table in (work_dir / "classic" / "lake").iterdir() if table.is_dir()}
    assert {"samples", "load_model", "plan_moves", "schedules"} <= tables
    for name in tables:
        assert rows(work_dir / "connect" / "lake" / name) == rows(work_dir / "classic" / "lake" / name), name
    for name in ("plans/yard.json", "report.html"):
        mine, theirs = ((work_dir / each / name).read_text() for each in ("connect", "classic"))
        assert re.sub(r"[\d.]+ s<", "", mine) == re.sub(r"[\d.]+ s<", "", theirs), "alike but for the planner's seconds"


def client(url, folder, landing):
    """Print what each stage tells; PySpark has one kind of session in a process, and the other tests have a classic one."""
    spark = open_session(SessionSettings(conf={"spark.remote": url}))
    assert tasks_at_once(spark) == 1
    told = [*map(repr, run(spark, folder, landing))]
    try:
        start_stream(spark.range(1), Lake(folder), StreamOptions(folder), datetime.now)
    except SettingsError as error:
        told.append(str(error))
    print(json.dumps(told))


if __name__ == "__main__":
    client(*sys.argv[1:])
