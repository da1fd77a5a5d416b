"""A fleet is planned cluster by cluster. A slow or broken cluster becomes a row and does not end the job."""

import time

import pytest

from shunter.core.planning.request import PlanRequest
from shunter.pipeline.lake.kept_model import KeptModels
from shunter.pipeline.lake.outlook_schemas import PROCESSOR_MODEL
from shunter.pipeline.lake.schemas import BROKERS, LOAD_MODEL, REPLICAS
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.planning.fleet import FLEET_ROWS, assign_tasks, fleet_rows, plan_fleet
from shunter.pipeline.planning.fleet_worker import ClusterLimit, plan_within

pytestmark = pytest.mark.spark

DDL = (
    "cluster_id string, topic string, number int, rack string, replicas array<int>, size double, bytes_in double, "
    "bytes_out double, min_insync int, processors double, costs array<double>, "
    "isr array<int>, offline array<int>, leader int, facts string"
)


def cluster(name, partitions, brokers=3, rack=lambda broker: f"r{broker}"):
    """All leaders and most bytes on broker 1: there is something to do."""
    rows = [(name, None, broker, rack(broker), *[None] * 11) for broker in range(1, brokers + 1)]
    rows += [
        (name, "t", number, None, [1, 2 + number % (brokers - 1)], 100.0 + number, 1.0, 2.0, 1, *[None] * 6)
        for number in range(partitions)
    ]
    return rows


def test_each_cluster_has_its_row(spark):
    broken_racks = cluster("half-racked", 5, rack=lambda broker: None if broker == 2 else "r")
    stranger = [*cluster("stranger", 3), ("stranger", "u", 0, None, [1, 9], 1.0, None, None, 1, *[None] * 6)]
    from_samples = [row for row in cluster("samples-only", 12) if row[1] is not None]
    rows = [
        *cluster("good", 40),
        *from_samples,
        *broken_racks,
        *stranger,
        *cluster("no-racks", 12, rack=lambda _: None),
    ]
    planned = plan_fleet(spark.createDataFrame(rows, DDL), PlanRequest(), ClusterLimit(60.0), tasks=2)
    found = {row["cluster_id"]: row for row in planned.collect()}
    assert {name: row["status"] for name, row in found.items()} == {
        "good": "planned",
        "no-racks": "planned",
        "samples-only": "planned",
        "half-racked": "failed",
        "stranger": "planned",
    }
    assert found["half-racked"]["message"] == (
        "cluster half-racked: broker 2 has no rack and others have: set broker.rack on all"
    )
    assert "broker 9 is dead: nothing comes to it" in found["stranger"]["message"]
    good = found["good"]
    assert good["partitions"] == 40
    leaders = {load["broker"]: load["after"] for load in good["loads"] if load["resource"] == "leaders"}
    assert sum(leaders.values()) == pytest.approx(40)
    assert max(leaders.values()) <= 15
    assert all(len(assignment["replicas"]) == 2 for assignment in good["assignments"])
    assert all(row["original_replicas"] == [1, 2 + row["partition"] % 2] for row in good["assignments"]), (
        "as the snapshot has them"
    )
    assert {row["original_replicas"] for row in found["samples-only"]["assignments"]} == {None}
    assert good["bytes_moved"] == pytest.approx(sum(move["bytes"] for move in good["moves"]))


def test_the_model_meets_the_snapshot(spark, tmp_path):
    def modelled(cluster_id, partition, broker, role, **values):
        row = dict.fromkeys(LOAD_MODEL.columns)
        row.update(
            cluster_id=cluster_id, topic_id="id", topic="t", partition=partition, broker_id=broker, role=role, **values
        )
        return row

    def led(rate_in, rate_out):
        return {
            f"bytes_{way}_{name}": rate
            for way, rate in (("in", rate_in), ("out", rate_out))
            for name in ("mean", "p95", "max")
        }

    day = __import__("datetime").datetime(2025, 2, 1)
    model = spark.createDataFrame(
        [
            modelled(
                "c1", 0, 1, "leader", bytes_in_p95=5.0, bytes_out_p95=7.0, size_bytes=100, growth_bytes_per_day=10.0
            ),
            modelled("c1", 0, 2, "follower", bytes_in_p95=50.0, size_bytes=90, growth_bytes_per_day=-10.0),
            modelled("c2", 0, 2, "unknown", size_bytes=70),
            modelled("c2", 0, 1, "leader", bytes_in_p95=1.0),
            # Partition 1 was led by broker 2 for one window, in which consumers caught up.
            modelled("c1", 1, 1, "leader", windows=19, covered_seconds=19, last_window=day, **led(2.0, 4.0)),
            modelled("c1", 1, 2, "leader", windows=1, covered_seconds=1, last_window=day, **led(3.0, 90.0)),
        ],
        _nullable(LOAD_MODEL.schema),
    )
    brokers = spark.createDataFrame(
        [("c1", day, 1, "r1", "h", 1000, 10, None, day.date(), "i")], _nullable(BROKERS.schema)
    )
    replicas = spark.createDataFrame(
        [
            ("c1", day, "id", "t", 0, 2, 1, False, True, False, 104, 0, 9, 2, "delete", day.date(), "i"),
            ("c1", day, "id", "t", 0, 1, 0, True, True, False, 104, 0, 9, 2, "delete", day.date(), "i"),
            ("c1", day, "id", "t", 1, 1, 0, True, True, False, 8, 0, 9, 2, "delete", day.date(), "i"),
        ],
        _nullable(REPLICAS.schema),
    )
    costs = dict.fromkeys(PROCESSOR_MODEL.columns) | {
        "cluster_id": "c1",
        "idling": 0.25,
        "received_cost": 1.0,
        "led_cost": 2.0,
        "sent_cost": 0.5,
    }
    known = [costs | {"broker_id": 1, "power": 1.5, "usable": True}]
    processors = spark.createDataFrame(known, _nullable(PROCESSOR_MODEL.schema))
    told_costs = [1e-6, 2e-6, 5e-7]
    for given, capacity, told in (
        (processors, 1.25, told_costs),
        (processors.where("NOT usable"), None, None),
        (None, None, None),
    ):
        rows = fleet_rows(model, brokers, replicas, peak="p95", days=1, capacity=5e6, processors=given).collect()
        assert list(rows[0].asDict()) == list(FLEET_ROWS)
        found = {
            (row["cluster_id"], row["topic"]): tuple(row)[2:]
            for row in rows
            if (row["topic"], row["number"]) != ("t", 1)
        }
        nothing = (None, None, None, None)
        alone = '{"live":true,"log_dirs":[{"path":"","total":1000,"usable":10}]}'
        assert found == {
            ("c1", None): (1, "r1", None, 1000.0, 5e6, 5e6, None, capacity, told, None, None, None, alone),
            ("c1", "t"): (0, None, [1, 2], 114.0, 5.0, 7.0, 2, None, None, [1, 2], [], 1, None),
            ("c2", "t"): (0, None, [1, 2], 70.0, 1.0, None, 1, None, None, *nothing),
        }
    for peak, told in (("p95", (2.0, 4.0)), ("max", (3.0, 90.0)), ("mean", (41 / 20, 166 / 20))):
        rows = fleet_rows(model, brokers, replicas, peak=peak).where("topic = 't' AND number = 1").collect()
        assert [(row["bytes_in"], row["bytes_out"]) for row in rows] == [told], peak
    lake = Lake(str(tmp_path))
    lake.write(model, LOAD_MODEL)
    lake.write(processors, PROCESSOR_MODEL)
    kept = KeptModels(tmp_path)
    assert kept.of("c1").rates == {("id", 0): (5.0, 7.0), ("id", 1): (2.0, 4.0)}, (
        "the service reads the same without Spark"
    )
    assert kept.of("c1").processors == (0.25, *told_costs, {1: 1.5})
    assert kept.of("c2").rates == {("id", 0): (1.0, None)}


def _nullable(schema):
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, field.dataType) for field in schema])


def test_the_giant_is_alone():
    weights = {"giant": 1000, **{f"small-{n}": 10 for n in range(9)}}
    tasks = assign_tasks(weights, 4)
    assert [name for name, task in tasks.items() if task == tasks["giant"]] == ["giant"]
    assert len(set(tasks.values())) == 4


def test_a_cluster_that_takes_too_long_is_told_and_its_process_gone(monkeypatch):
    import multiprocessing

    from shunter.pipeline.planning import fleet_worker

    def stuck(*_):
        while True:
            time.monotonic()

    monkeypatch.setattr(fleet_worker, "plan_cluster", stuck)
    row = plan_within("slow", None, PlanRequest(), ClusterLimit(0.2))
    assert (row["status"], row["message"]) == ("timed_out", "no plan within 0.2 s")
    assert multiprocessing.active_children() == []


def test_a_planner_that_dies_is_told(monkeypatch):
    import os

    from shunter.pipeline.planning import fleet_worker

    monkeypatch.setattr(fleet_worker, "plan_cluster", lambda *_: os._exit(9))
    row = plan_within("dead", None, PlanRequest(), ClusterLimit(20.0))
    assert (row["status"], row["message"]) == ("failed", "the planner's process ended with 9 (out of memory?)")
