"""One cluster's rows in a task: dead brokers, capacities."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from shunter.core.planning.cluster import Resource
from shunter.core.planning.request import PlanRequest, Scope
from shunter.pipeline.planning.fleet_worker import cluster_load, plan_cluster

KINDS = [
    ("cluster_id", pa.string()), ("topic", pa.string()), ("number", pa.int32()), ("rack", pa.string()),
    ("replicas", pa.list_(pa.int32())), ("size", pa.float64()), ("bytes_in", pa.float64()), ("bytes_out", pa.float64()),
    ("min_insync", pa.int32()), ("processors", pa.float64()), ("costs", pa.list_(pa.float64())),
    ("isr", pa.list_(pa.int32())), ("offline", pa.list_(pa.int32())), ("leader", pa.int32()), ("facts", pa.string()),
]  # fmt: skip


def rows(*replicas: list[int], **of_each_broker: Any) -> pa.Table:
    """Brokers 2 to 5 are live, in racks a to d."""
    brokers = [{"number": id_, "rack": rack, **of_each_broker} for id_, rack in zip(range(2, 6), "abcd", strict=True)]
    partitions = [{"topic": "t", "number": at, "replicas": held, "size": 10.0} for at, held in enumerate(replicas)]
    return pa.Table.from_pylist([*brokers, *partitions], schema=pa.schema(KINDS))


@pytest.mark.parametrize(
    "request_",
    [PlanRequest(Scope.DRAIN, brokers=(9,)), PlanRequest(Scope.REPLACE, brokers=(9,), replacements=(5,))],
    ids=["drain", "replace"],
)
def test_a_dead_broker_can_be_planned_away(request_: PlanRequest) -> None:
    made = plan_cluster("yard", rows([9, 2, 3], [2, 9, 4], [2, 3, 4]), request_)
    assert [row["original_replicas"] for row in made["assignments"]] == [[9, 2, 3], [2, 9, 4]]
    assert all(9 not in row["replicas"] and len(row["replicas"]) == 3 for row in made["assignments"])
    assert made["undone"] == []


def test_a_dead_broker_gets_nothing_from_any_other_plan() -> None:
    made = plan_cluster("yard", rows([9, 2, 3], [2, 3, 4]), PlanRequest(Scope.FILL, brokers=(5,)))
    assert made["assignments"]
    assert all(set(row["replicas"]) - set(row["original_replicas"]) == {5} for row in made["assignments"])
    assert "broker 9 is dead: nothing comes to it" in made["message"]


def test_the_order_of_the_rows_does_not_matter() -> None:
    """Spark's rows come in any order; the same model and the same snapshot give the same plan."""
    table = rows([2, 3], [2, 4], [2, 5], [3, 2], [4, 2], [5, 2], [2, 3], [2, 4])
    expected = plan_cluster("yard", table, PlanRequest())
    assert expected["assignments"]
    backwards = table.take(list(range(table.num_rows))[::-1])
    assert plan_cluster("yard", backwards, PlanRequest()) == expected


def with_bytes_out(*bytes_out: float | None) -> pa.Table:
    table = rows(*([2, 3] for _ in bytes_out))
    told = [{**row, "bytes_in": 10.0} if row["topic"] else row for row in table.to_pylist()]
    brokers = len(told) - len(bytes_out)
    for row, sent in zip(told[brokers:], bytes_out, strict=True):
        row["bytes_out"] = sent
    return pa.Table.from_pylist(told, schema=table.schema)


def test_bytes_out_that_nobody_told_are_not_taken_for_none() -> None:
    """If a broker's exporter is silent, its partitions are known from snapshots alone, which do not count consumers."""
    table = with_bytes_out(*[50.0] * 8, None, None)
    assert Resource.BYTES_OUT not in cluster_load("yard", table).resources()
    message = plan_cluster("yard", table, PlanRequest())["message"]
    assert message.startswith(
        "bytes out of 2 partitions, with 20% of the bytes in, are unknown: they are neither an aim"
    )


def test_few_that_nobody_told_do_not_cost_the_aim() -> None:
    table = with_bytes_out(*[50.0] * 10, None)
    assert Resource.BYTES_OUT in cluster_load("yard", table).resources()
    assert (
        plan_cluster("yard", table, PlanRequest())["message"]
        == "bytes out of 1 partition, with 9% of the bytes in, are unknown and counted as 0"
    )


def test_where_no_source_tells_of_consumers_nothing_is_said() -> None:
    table = with_bytes_out(None, None)
    assert Resource.BYTES_OUT not in cluster_load("yard", table).resources()
    assert plan_cluster("yard", table, PlanRequest())["message"] is None
    assert plan_cluster("yard", with_bytes_out(1.0, 0.0), PlanRequest())["message"] is None


def test_a_network_that_every_broker_has_is_a_bound() -> None:
    found = cluster_load("yard", rows([2, 3], bytes_in=1e6, bytes_out=2e6))
    assert found.bytes_in_capacity is not None
    assert found.bytes_in_capacity.tolist() == [1e6] * 4
    assert found.bytes_out_capacity is not None
    assert found.bytes_out_capacity.tolist() == [2e6] * 4
    assert cluster_load("yard", rows([2, 3])).bytes_in_capacity is None


def test_processors_that_are_known_are_a_bound_and_an_aim() -> None:
    found = cluster_load("yard", rows([2, 3], processors=0.9, costs=[1e-8, 0.0, 2e-8]))
    assert found.processor_costs == (1e-8, 0.0, 2e-8)
    assert found.processor_capacity is not None
    assert found.processor_capacity.tolist() == [0.9] * 4
    assert Resource.PROCESSORS not in found.resources(), "no rates, no work"
    assert cluster_load("yard", rows([2, 3])).processor_costs is None
