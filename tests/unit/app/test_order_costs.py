"""What an order makes be copied again is told at its worst where nobody has looked since the journal was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.app.executor import Target
from shunter.app.journals import JournalPlace
from shunter.app.order_costs import bytes_again
from shunter.drivers.clock import SystemClock
from shunter.model.execution import (
    Command,
    CommandKind,
    ExecutionOptions,
    JournalEntry,
    MoveAccepted,
    PlanAccepted,
    StepAccepted,
    StepBegun,
)
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy

T0 = TopicPartition("t", 0)


def left_at(folder: Path, after: Replicas, *, driven: bool) -> JournalPlace:
    """A journal whose last entry is a step from [1, 2] that the cluster took on."""
    place = JournalPlace(folder / "cluster.journal")
    records = (
        PlanAccepted("p", "c", ExecutionOptions()),
        MoveAccepted(T0, None, (1, 2), (3, 4), Strategy.INCREMENTAL, 1_000, ()),
        StepBegun(T0, 1, (1, 2), after, "begun"),
        StepAccepted(T0, 1),
    )
    now_ms = SystemClock().now_ms()
    journal = place.open("somebody")
    journal.acquire(now_ms)
    journal.append([JournalEntry(number, now_ms, "test", record) for number, record in enumerate(records, 1)], now_ms)
    if not driven:
        journal.release()
    journal.close()
    return place


@pytest.mark.parametrize(
    ("after", "driven", "most"),
    [((3, 4), False, 2_000), ((3, 2), False, 1_000), ((1, 2, 3), False, 0), ((3, 4), True, 0)],
)
async def test_a_step_that_nobody_watched_counts_as_ended(
    tmp_path: Path, after: Replicas, most: int, *, driven: bool
) -> None:
    place = left_at(tmp_path, after, driven=driven)
    found = await bytes_again(Target("", journal=place.path), place, Command(CommandKind.ROLL_BACK))
    assert found.bytes == most
    assert found.at_most == (most > 0)
    assert bool(found.why) == (most > 0)
