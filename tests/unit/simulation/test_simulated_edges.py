"""The simulated brokers' model of Apache's, and the rules about an executor's requests."""

from dataclasses import replace

import pytest

from lab.simulation.actions import ASIDE, EDGE_WEIGHTS, FAULT_WEIGHTS, OPERATION_WEIGHTS
from lab.simulation.brokers.alterations import GIVEN_UP, OPERATION_NOT_ATTEMPTED, PUT_BACK
from lab.simulation.brokers.poison import POISONS, is_poison
from lab.simulation.brokers.refusals import Refusals
from lab.simulation.edges import Edges
from lab.simulation.executor.process import SimulatedExecutor
from lab.simulation.executor.shape import draw_executor_shape
from lab.simulation.executor.world import ExecutorWorld
from lab.simulation.shape import draw_shape
from shunter.core.executor.events import Envelope, TimePassed
from shunter.core.executor.ready import AlterReassignments, Ready
from shunter.errors import ErrorCode
from shunter.model.execution import (
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    MoveAccepted,
    ObservedPartition,
    ObservedTopic,
    PlanAccepted,
    StepBegun,
)
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy

TP = TopicPartition("t", 0)
STEP: tuple[tuple[TopicPartition, Replicas], ...] = ((TP, (4, 3)),)


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


def shown(process: SimulatedExecutor, isr: Replicas) -> None:
    """The process's core takes in metadata with this ISR."""
    cluster = process.core.state.cluster
    cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((4, 2), isr, 4)})
    cluster.brokers = dict.fromkeys((1, 2, 3, 4))


@pytest.mark.parametrize(("decided_with", "kept"), [((4,), (4,)), ((4, 2), (4, 2))])
def test_the_floor_counts_the_replicas_that_the_core_saw_when_it_made_the_request(
    decided_with: Replicas, kept: Replicas
) -> None:
    """World 98202865: metadata with a replica back in sync came after the request was made and before it left."""
    shape = replace(draw_executor_shape(1), brokers=(1, 2, 3, 4), topics=(("other", 1, 1, 1),), journal_topic=False)
    world = ExecutorWorld(1, shape, ())
    process = SimulatedExecutor(world, 2, "here")
    world.rules.lease_taken(process)
    records: tuple[JournalRecord, ...] = (
        PlanAccepted("p", "simulated", ExecutionOptions()),
        MoveAccepted(TP, None, (4, 2), (3, 4, 1), Strategy.INCREMENTAL, 0, ()),
        StepBegun(TP, 1, (4, 2), (4, 3), "forward: +3 -2"),
    )
    for number, record in enumerate(records, 1):
        world.rules.journal.durable(JournalEntry(number, 0, "test", record))
    shown(process, decided_with)
    world.rules.handled(process, Envelope(0, "test", TimePassed()), Ready(requests=(AlterReassignments(1, STEP),)))
    shown(process, (4, 2))
    world.rules.reassignments_sent(process, STEP)
    assert world.violation is None
    assert world.rules.sent_steps[TP] == ((4, 3), kept, 3)
