"""The stages one after another on one small lake, and the report of their results."""

import json

import pytest

from shunter.app.pipeline.run import WhatIf, account, export, report, schedule
from shunter.app.pipeline.stages import FleetPlanOptions, Inputs, ingest, model, plan, roll_up
from shunter.cli.pipeline.options import told_schedules
from shunter.errors import FormatError
from shunter.formats.inventory_files import encode_inventory
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.pipeline.lake.account_schemas import ACCOUNT_PLANS, PLAN_MOVES, SCHEDULES
from shunter.pipeline.planning.schedule import learnt

pytestmark = pytest.mark.spark

T0 = 1_738_368_000_000
BROKERS = tuple(InventoryBroker(broker, "h", f"r{broker}", 10**9, 10**8) for broker in (1, 2, 3))


def snapshot(folder, minute):
    """Broker 1 leads all partitions, broker 2 follows them, broker 3 is empty."""
    partitions = tuple(
        InventoryPartition(
            "t", "id-t", number, (1, 2), (1, 2), 1, 0, 100 + 60 * minute * (number + 1), 1,
            ((1, 10_000 + 600 * minute), (2, 10_000 + 600 * minute)), (), "delete",
        )
        for number in range(12)
    )  # fmt: skip
    taken = Inventory("yard", T0 + minute * 60_000, BROKERS, partitions)
    (folder / f"{minute}.jsonl").write_bytes(b"".join(encode_inventory(taken)))


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


def test_from_snapshots_to_a_report(spark, lake, tmp_path):
    landing = tmp_path / "landing"
    landing.mkdir()
    for minute in (0, 1):
        snapshot(landing, minute)
    with pytest.raises(FormatError, match="holds no plan yet"):
        schedule(spark, lake, None, WhatIf())
    assert ingest(spark, lake, Inputs((str(landing),), "snapshots")).good == 24
    made = model(spark, lake)
    assert (made.replicas, made.with_rates, made.with_weeks) == (24, 24, 0)
    plan_id, (outcome,) = plan(
        spark, lake, FleetPlanOptions(peak="max", joint_bound=True, snapshot_age=float("inf")), tmp_path / "plans"
    )
    assert (outcome.cluster_id, outcome.status) == ("yard", "planned")
    assert 0 < outcome.bound_percent <= outcome.joint_bound_percent <= outcome.bytes_percent
    assert outcome.moves == 8
    kafka = json.loads((tmp_path / "plans" / "yard.json").read_text())
    held = [broker for row in kafka["partitions"] for broker in row["replicas"]]
    assert held.count(3) == 8
    assert all(row["original_replicas"] == [1, 2] for row in kafka["partitions"])

    asked = WhatIf(throttle=1000.0, traffic=(1.5,), lost=(3,))
    planned = {row.scenario: row for row in schedule(spark, lake, None, asked).scenarios}
    assert sorted(planned) == ["as planned", "traffic x 1.5", "without broker 3"]
    assert planned["as planned"].seconds >= 8 * 10_600 / 1000
    assert planned["without broker 3"].warning == "8 copies wait until broker 3 is back"

    touched = [row for row in kafka["partitions"] if 3 in row["replicas"]]
    journal(tmp_path / "j.jsonl", plan_id, touched)
    told = account(spark, lake, [str(tmp_path / "j.jsonl")])
    assert (told.moves, told.done) == (8, 8)
    truth = lake.read(spark, ACCOUNT_PLANS).collect()[0]
    assert (truth["plan_id"], truth["seconds"], truth["copied_bytes"]) == (plan_id, 320.0, 84_800)
    assert truth["eta_error"] == pytest.approx((planned["as planned"].seconds - 320) / 320)
    rates, ratios = learnt(spark, lake)
    assert rates == (("yard", 1, 265.0), ("yard", 3, 265.0))
    assert ratios == (pytest.approx(320 / planned["as planned"].seconds),)
    assert account(spark, lake, [str(tmp_path / "j.jsonl")]) == told

    page = report(spark, lake, tmp_path / "report.html", plan_id=None, cluster=None).read_text()
    for heading in (
        "before and after",
        "Moves as flows",
        "Timeline of moves",
        "Planned against real duration",
        "8 of 8",
    ):
        assert heading in page
    assert 'class="wait"' in page
    assert lake.read(spark, PLAN_MOVES).count() == 8
    assert lake.read(spark, SCHEDULES).count() == 3
    # A later plan that copies nothing, and a plan of a cluster that was not planned: the report says both.
    still, _ = plan(spark, lake, FleetPlanOptions(scope="leaders", snapshot_age=float("inf")), None)
    assert schedule(spark, lake, None, WhatIf()) == (still, (), ("yard",), ())
    old, _ = plan(spark, lake, FleetPlanOptions(), None)
    head, line = told_schedules(schedule(spark, lake, None, WhatIf()))
    assert head == f"plan {old}"
    assert line.startswith("yard: was not planned, so there is nothing to schedule: its newest snapshot is ")
    names = export(spark, lake, str(tmp_path / "csv"), "csv")
    assert {"plan_moves", "account_moves", "load_model"} <= set(names)
    head = next((tmp_path / "csv" / "account_moves").glob("part-*.csv")).read_text().splitlines()[0]
    assert head.startswith("cluster_id,journal,accepted_sequence")


def test_nothing_to_model_or_to_roll_up_is_said(spark, lake):
    with pytest.raises(FormatError, match="has no samples to model: run `shunter pipeline ingest` first"):
        model(spark, lake)
    assert roll_up(spark, lake, keep_days=None) is None
