"""A snapshot of a live cluster becomes the planner's input."""

from __future__ import annotations

import json

import pytest

from shunter.errors import FormatError
from shunter.formats.plan_files import read_plan_input
from shunter.formats.plan_inventory import encode_plan_input
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition


def snapshot(*replicas: tuple[int, ...], sizes: tuple[tuple[int, int], ...] = ()) -> Inventory:
    """Brokers 1 and 2 in rack a, 3 in rack b; each partition is led by its first replica."""
    brokers = tuple(
        InventoryBroker(id_, "h", rack, disk, None) for id_, rack, disk in ((1, "a", 4096), (2, "a", None), (3, "b", 0))
    )
    partitions = tuple(
        InventoryPartition("t", None, number, held, held, held[0] if held else -1, 0, 9, 2, sizes)
        for number, held in enumerate(replicas)
    )
    return Inventory("yard", 0, brokers, partitions)


def test_sizes_are_kib_of_the_leader_and_capacities_those_that_are_known() -> None:
    raw = encode_plan_input(snapshot((1, 3), (3, 2), sizes=((1, 2048), (2, 5120))), (), "(gone)")
    found = read_plan_input(raw, "yard")
    assert found.sizes.tolist() == [2.0, 5.0], "the greatest where the leader did not tell"
    assert found.disk_capacity is not None
    assert found.disk_capacity.tolist() == [4.0, float("inf"), float("inf")]
    assert found.racks == ("a", "b")
    assert found.min_isr is not None
    assert found.min_isr.tolist() == [2, 2]


def test_a_dead_broker_has_to_leave() -> None:
    taken = snapshot((1, 9), (3, 1))
    rule = r"cluster yard, broker 9: it holds replicas and is not live.*drain --brokers 9"
    with pytest.raises(FormatError, match=rule):
        encode_plan_input(taken, (1,), "(gone)")
    assert json.loads(encode_plan_input(taken, (9,), "(gone)"))["brokers"]["9"] == {"rack": "(gone)"}


def test_partitions_without_replicas_are_left_out() -> None:
    raw = encode_plan_input(snapshot((), (3, 2), ()), (), "(gone)")
    found = read_plan_input(raw, "yard")
    assert found.numbers.tolist() == [1]
