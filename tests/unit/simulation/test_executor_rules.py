"""The rules about an executor's requests: what a request follows from, and what the executor could not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.simulation.executor.process import SimulatedExecutor
from lab.simulation.executor.shape import draw_executor_shape
from lab.simulation.executor.world import ExecutorWorld
from shunter.core.executor.events import Envelope, TimePassed
from shunter.core.executor.ready import AlterReassignments, Ready
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
