"""The stages one after another on one small lake, and the report of their results."""

import json

import pytest

from shunter.app.pipeline.run import WhatIf, account_lake, export, schedule
from shunter.app.pipeline.stages import roll_up
from shunter.cli.pipeline.options import told_schedules
from shunter.errors import FormatError, SettingsError
from shunter.formats.inventory_files import encode_inventory
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.pipeline import ClusterLimit, FleetPlan, Inputs, Pipeline
from shunter.pipeline.lake.account_schemas import ACCOUNT_PLANS
from shunter.pipeline.planning.schedule import learnt

pytestmark = pytest.mark.spark

T0 = 1_738_368_000_000
BROKERS = tuple(InventoryBroker(broker, "h", f"r{broker}", 10**9, 10**8) for broker in (1, 2, 3))


def snapshot(folder, cluster, minute, partitions=12, brokers=BROKERS):
    """Broker 1 leads all partitions, broker 2 follows them, a third broker is empty."""
    held = tuple(
        InventoryPartition(
            "t", "id-t", number, (1, 2), (1, 2), 1, 0, 100 + 60 * minute * (number + 1), 1,
            ((1, 10_000 + 600 * minute), (2, 10_000 + 600 * minute)), (), "delete",
        )
        for number in range(partitions)
    )  # fmt: skip
    taken = Inventory(cluster, T0 + minute * 60_000, brokers, held)
    (folder / f"{cluster}-{minute}.jsonl").write_bytes(b"".join(encode_inventory(taken)))


def journal(path, plan_id, assignments):
    """An executor that took 40 s for each copy, one after another."""
    lines = []

    def add(second, kind, **fields):
        lines.append({"cluster_id": "yard", "journal": "yard", "sequence": len(lines) + 1, "at": T0 + 1000 * second, "cause": "e", "kind": kind, **fields})  # fmt: skip

    add(0, "plan-accepted", plan_id=plan_id)
    for row in assignments:
        add(0, "move-accepted", tp=f"t-{row['partition']}", original=[1, 2], target=row["replicas"], size_bytes=10_600)
    for number, row in enumerate(assignments):
        tp, start = f"t-{row['partition']}", 40 * number
        add(start, "step-begun", tp=tp, number=1, before=[1, 2], after=[1, 2, 3], reason="adds 3")
        add(start + 40, "step-finished", tp=tp, number=1, replicas=[1, 2, 3], isr=[1, 2, 3], copied_bytes=10_600)
        add(start + 40, "move-closed", tp=tp, outcome="done", reason="", replicas=row["replicas"], copied_bytes=10_600)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def check_page(page):
    for heading in (
        "before and after",
        "Moves as flows",
        "Timeline of moves",
        "Planned against real duration",
        "8 of 8",
    ):
        assert heading in page
    assert 'class="wait"' in page


def check_tables(spark, lake, folder):
    names = export(spark, lake, str(folder), "csv")
    assert {"plan_moves", "account_moves", "load_model"} <= set(names)
    head = next((folder / "account_moves").glob("part-*.csv")).read_text().splitlines()[0]
    assert head.startswith("cluster_id,journal,accepted_sequence")


def test_from_snapshots_to_a_report(spark, lake, tmp_path):
    landing = tmp_path / "landing"
    landing.mkdir()
    for minute in (0, 1):
        snapshot(landing, "yard", minute)
        # Both brokers have both replicas, so there is nothing to copy.
        snapshot(landing, "pair", minute, 1, BROKERS[:2])
    # One snapshot has no rates.
    snapshot(landing, "new", 0, 1)
    with pytest.raises(FormatError, match="holds no plan yet"):
        schedule(spark, lake, None, WhatIf())
    modelled = Pipeline(spark, lake).ingest(Inputs((str(landing),), "snapshots")).model()
    assert modelled.ingested.good == 26
    made = modelled.modelled
    assert (made.replicas, made.with_rates, made.with_weeks) == (26, 26, 0)
    limit = ClusterLimit(joint_bound=True)
    asked = FleetPlan(peak="max", limit=limit, oldest_seconds=float("inf"), least_rates_percent=90)
    scheduled = modelled.plan(asked, out=tmp_path / "plans").schedule(
        WhatIf(throttle=1000.0, traffic=(1.5,), lost=(3,))
    )
    plan_id, (refused, idle, outcome) = scheduled.planned
    assert (refused.cluster_id, refused.status, idle.cluster_id, idle.status) == ("new", "failed", "pair", "planned")
    assert (outcome.cluster_id, outcome.status) == ("yard", "planned")
    assert 0 < outcome.bound_percent <= outcome.joint_bound_percent <= outcome.bytes_percent
    assert outcome.moves == 8
    kafka = json.loads((tmp_path / "plans" / "yard.json").read_text())
    held = [broker for row in kafka["partitions"] for broker in row["replicas"]]
    assert held.count(3) == 8
    assert all(row["original_replicas"] == [1, 2] for row in kafka["partitions"])

    assert scheduled.scheduled.idle == ("pair",)
    line = list(told_schedules(scheduled.scheduled))[-1]
    assert line.startswith("new: was not planned, so there is nothing to schedule: 0.0 % of its partitions have rates")
    planned = {row.scenario: row for row in scheduled.scheduled.scenarios}
    assert sorted(planned) == ["as planned", "traffic x 1.5", "without broker 3"]
    assert planned["as planned"].seconds >= 8 * 10_600 / 1000
    assert planned["without broker 3"].warning == "8 copies wait until broker 3 is back"

    touched = [row for row in kafka["partitions"] if 3 in row["replicas"]]
    journal(tmp_path / "j.jsonl", plan_id, touched)
    done = scheduled.account([str(tmp_path / "j.jsonl")])
    told = done.accounted
    assert (told.moves, told.done) == (8, 8)
    truth = lake.read(spark, ACCOUNT_PLANS).collect()[0]
    assert (truth["plan_id"], truth["seconds"], truth["copied_bytes"]) == (plan_id, 320.0, 84_800)
    assert truth["eta_error"] == pytest.approx((planned["as planned"].seconds - 320) / 320)
    rates, ratios = learnt(spark, lake)
    assert rates == (("yard", 1, 265.0), ("yard", 3, 265.0))
    assert ratios == (pytest.approx(320 / planned["as planned"].seconds),)
    assert account_lake(spark, lake, [str(tmp_path / "j.jsonl")]) == told

    check_page(done.report(tmp_path / "report.html", cluster="yard").reported.read_text())
    assert done.table("plan_moves").count() == 8
    assert done.table("schedules").count() == 3
    assert (done.table("samples").count(), done.table("rejects").count()) == (26, 0)
    with pytest.raises(SettingsError, match="table 'sample' is none of account_moves, "):
        done.table("sample")
    check_tables(spark, lake, tmp_path / "csv")


def test_nothing_to_model_or_to_roll_up_is_said(spark, lake):
    with pytest.raises(FormatError, match="has no samples to model: run `shunter pipeline ingest` first"):
        Pipeline(spark, lake).model()
    assert roll_up(spark, lake, keep_days=None) is None
