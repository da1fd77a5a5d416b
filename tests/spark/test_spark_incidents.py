"""What a snapshot of an incident tells comes through the lake whole: the pipeline plans it as a file of it is planned."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from incidents import KINDS, questions, worlds
from shunter.app.planning.plan import plan_raw, request_from
from shunter.core.planning.request import PlanRefused
from shunter.formats.inventory_files import encode_inventory
from shunter.formats.plan_inventory import encode_plan_input
from shunter.pipeline.ingest.batches import IngestOptions
from shunter.pipeline.ingest.snapshot_batch import ingest_snapshots, latest_snapshot
from shunter.pipeline.lake.schemas import LOAD_MODEL
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.planning.fleet import fleet_rows
from shunter.pipeline.planning.fleet_worker import plan_cluster

pytestmark = pytest.mark.spark

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
TAKEN_AT_MS = int(NOW.timestamp() * 1000) - 60_000


def fleet_in_incidents():
    """Clusters, each with a question about it. The racks of fenced brokers are in no snapshot."""
    fleet = []

    @seed(20250301)
    @settings(max_examples=30, phases=[Phase.generate], database=None, deadline=None)
    @given(st.data())
    def collect(data):
        seen = data.draw(worlds())._replace(cluster_id=f"yard-{len(fleet):02}", taken_at_ms=TAKEN_AT_MS, fenced=())
        fleet.append((seen, data.draw(questions(seen))))

    collect()
    return fleet


def rows_of_lake(spark, fleet):
    """The planner's rows by cluster, after the snapshots were ingested."""
    with tempfile.TemporaryDirectory() as folder:
        path, lake = Path(folder) / "fleet.jsonl", Lake(f"{folder}/lake")
        path.write_bytes(b"".join(line for seen, _ in fleet for line in encode_inventory(seen)))
        outcome = ingest_snapshots(spark, lake, [str(path)], now=NOW, options=IngestOptions())
        assert outcome.snapshots == len(fleet)
        found = fleet_rows(lake.read(spark, LOAD_MODEL), *latest_snapshot(spark, lake)).collect()
    rows = {}
    for each in found:
        rows.setdefault(each["cluster_id"], []).append(each.asDict(recursive=True))
    return {name: pa.Table.from_pylist(some, schema=pa.schema(KINDS)) for name, some in rows.items()}


def test_the_lake_plans_an_incident_as_a_file_of_it_is_planned(spark):
    fleet = fleet_in_incidents()
    rows = rows_of_lake(spark, fleet)
    for seen, asked in fleet:
        try:
            made = plan_raw(encode_plan_input(seen), seen.cluster_id, asked)
            expected = json.loads(made.reassignment)["partitions"]
        except PlanRefused as refused:
            expected = str(refused)
        try:
            planned = plan_cluster(seen.cluster_id, rows[seen.cluster_id], request_from(asked))["assignments"]
            found = [{key: value for key, value in row.items() if key != "elect" or value} for row in planned]
        except PlanRefused as refused:
            found = str(refused)
        assert found == expected, f"{asked} of {seen}"
