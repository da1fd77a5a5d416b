"""What the service asks of a cluster's journal: whether it has an order."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from shunter.app.service.driving import JournalledOrder, PlanFate, fates_in, heard_in
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.model.execution import (
    Command,
    CommandKind,
    CommandTaken,
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    MoveAccepted,
    MoveClosed,
    Outcome,
    PlanAccepted,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.model.service import ProposalState


@pytest.mark.parametrize(
    ("key", "given_ms", "heard"),
    [
        ("k1", 0, JournalledOrder(20)),
        ("k2", 15, JournalledOrder(None, "second")),
        ("k2", 30, JournalledOrder(None)),
        ("", 30, JournalledOrder(None)),
    ],
)
def test_an_order_is_found_by_its_key_in_a_journal_that_was_read_again(
    tmp_path: Path, key: str, given_ms: int, heard: JournalledOrder
) -> None:
    records: list[tuple[int, JournalRecord]] = [
        (10, PlanAccepted("first", "c", ExecutionOptions())),
        (20, CommandTaken(Command(CommandKind.STOP, given_by="anna", key="k1"))),
        (30, PlanAccepted("second", "c", ExecutionOptions())),
    ]
    with closing(SqliteJournal(tmp_path / "j", "driver")) as journal:
        now_ms = SystemClock().now_ms()
        journal.acquire(now_ms)
        entries = [JournalEntry(at, ms, "test", record) for at, (ms, record) in enumerate(records, 1)]
        journal.append(entries, now_ms)
        assert heard_in(journal.load(), key, given_ms) == heard


def test_how_a_plan_ended_is_told_in_words() -> None:
    tps = [TopicPartition("t", number) for number in range(3)]
    outcomes = [Outcome.DONE, Outcome.ROLLED_BACK, Outcome.DONE]
    records: list[JournalRecord] = [PlanAccepted("p", "c", ExecutionOptions())]
    records += [MoveAccepted(tp, None, (1, 2), (3, 2), Strategy.INCREMENTAL, 10, ()) for tp in tps]
    records += [MoveClosed(tp, outcome, "", (3, 2), 0) for tp, outcome in zip(tps, outcomes, strict=True)]
    entries = [JournalEntry(at, at, "test", record) for at, record in enumerate(records, 1)]
    assert fates_in(entries) == {"p": PlanFate(ProposalState.TURNED, "2 done, 1 rolled back", ended_at_ms=7)}
    by_anna = Command(CommandKind.ROLL_BACK, given_by="anna")
    ordered = [*records[:4], CommandTaken(by_anna), *records[4:]]
    entries = [JournalEntry(at, at, "test", record) for at, record in enumerate(ordered, 1)]
    fate = fates_in(entries)["p"]
    assert (fate.turned, fate.turned_at_ms, fate.ended_at_ms) == (by_anna, 5, 8)
