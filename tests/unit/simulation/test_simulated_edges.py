"""The simulated brokers' model of Apache's: configurations that brokers can't read, and errors that they know."""

from __future__ import annotations

import pytest

from lab.simulation.actions import ASIDE, EDGE_WEIGHTS, FAULT_WEIGHTS, OPERATION_WEIGHTS
from lab.simulation.brokers.alterations import GIVEN_UP, OPERATION_NOT_ATTEMPTED, PUT_BACK
from lab.simulation.brokers.poison import POISONS, is_poison
from lab.simulation.brokers.refusals import Refusals
from lab.simulation.edges import Edges
from lab.simulation.shape import draw_shape
from shunter.errors import ErrorCode


@pytest.mark.parametrize(("name", "value"), POISONS)
def test_no_broker_starts_with_a_poison(name, value):
    assert is_poison({name: value, "min.insync.replicas": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-1"),
        ("retention.ms", " 1000 "),
        ("cleanup.policy", "compact,delete"),
        ("unclean.leader.election.enable", "TRUE"),
        ("nobody.knows.this", "7d"),
    ],
)
def test_what_a_broker_can_read_is_no_poison(name, value):
    assert not is_poison({name: value})


def test_errors_of_alter_partition_are_known_since_their_versions():
    """Source: `Partition.handleAlterIsrResponse` of 2.8.2, `handleAlterPartitionError` of 3.9."""
    assert {int(error) for error, since in GIVEN_UP.items() if since == 0} == {3, 74, 95}
    assert PUT_BACK == {OPERATION_NOT_ATTEMPTED: 1, ErrorCode.INELIGIBLE_REPLICA: 2}


def test_every_edge_is_something_that_a_world_can_do():
    for name in EDGE_WEIGHTS:
        assert callable(getattr(Edges, name, None) or getattr(Refusals, name))
    assert EDGE_WEIGHTS.keys() <= OPERATION_WEIGHTS.keys() | FAULT_WEIGHTS.keys()


def test_only_worlds_with_an_edge_have_racks_and_older_leaders():
    (residue,) = (each for each, weights in ASIDE.items() if weights is EDGE_WEIGHTS)
    shapes = {seed: draw_shape(seed) for seed in range(200)}
    assert {shape.alter_version for seed, shape in shapes.items() if seed % 7 == residue} == {0, 1, 2, 3}
    assert {(shape.alter_version, shape.racks) for seed, shape in shapes.items() if seed % 7 != residue} == {(3, ())}
