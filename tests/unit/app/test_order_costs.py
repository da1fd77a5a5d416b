"""What an order makes be copied again is told at its worst where nobody has looked since the journal was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.order_costs import bytes_again, price_now, price_of, told_price
from shunter.app.executor.session import Target
from shunter.core.executor.apply import apply
from shunter.core.executor.state import ExecutorState
from shunter.drivers.host.clock import SystemClock
from shunter.model.execution import (
    Command,
    CommandKind,
    ExecutionOptions,
    JournalEntry,
    MoveAccepted,
    MovePaused,
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


def copying(throttle: int | None, paused: bool) -> ExecutorState:
    """Two moves that copy to broker 3, and one that waits for its turn; the first one may be paused."""
    moves = [
        MoveAccepted(TopicPartition("t", at), None, (1, 2), (3, 2), Strategy.INCREMENTAL, 1_000, ()) for at in range(3)
    ]
    steps = [record for at in range(2) for record in (
        StepBegun(TopicPartition("t", at), 1, (1, 2), (1, 2, 3), "begun"), StepAccepted(TopicPartition("t", at), 1)
    )]  # fmt: skip
    state = ExecutorState()
    records = [PlanAccepted("p", "c", ExecutionOptions(throttle=throttle)), *moves, *steps]
    for number, record in enumerate([*records, *([MovePaused(T0, True)] if paused else [])], 1):
        apply(state, JournalEntry(number, 5, "test", record))
    return state


@pytest.mark.parametrize("kind", [CommandKind.PAUSE, CommandKind.RESUME, CommandKind.STOP, CommandKind.ROLL_BACK])
@pytest.mark.parametrize("throttle", [None, 500])
@pytest.mark.parametrize("named", [(), (0,), (1,), (0, 1), (2,)])
@pytest.mark.parametrize("paused", [False, True])
def test_the_executor_at_work_prices_an_order_as_the_journal_does(
    kind: CommandKind, throttle: int | None, named: tuple[int, ...], *, paused: bool
) -> None:
    command = Command(kind, tuple(TopicPartition("t", at) for at in named))
    state = copying(throttle, paused)
    before = [(move.paused, move.direction) for move in state.moves.values()]
    price = price_now(state, command)
    assert [(move.paused, move.direction) for move in state.moves.values()] == before, "nothing is changed"
    assert price == price_of(copying(throttle, paused), command, driven=True)


def test_a_pause_of_some_moves_cancels_copies_that_share_a_throttle_with_others() -> None:
    pause = Command(CommandKind.PAUSE, (T0,))
    assert price_now(copying(500, paused=False), pause).cancelled == {T0}
    assert price_now(copying(500, paused=False), pause._replace(partitions=())).cancelled == frozenset()
    assert price_now(copying(None, paused=False), pause).cancelled == frozenset()
    again = told_price(price_now(copying(500, paused=False), pause), {T0: 700})
    assert (again.bytes, again.at_most) == (700, False)
    assert again.why.startswith("1 paused copy is cancelled and begun again later")
