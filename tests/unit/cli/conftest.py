"""A journal as an executor that died leaves it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shunter.app.executor.journals import JournalPlace
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.host_lock import DriverSeat
from shunter.drivers.journal.journals import LEASE_MS
from shunter.model.execution import (
    Command,
    CommandKind,
    CommandTaken,
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    LimitChanged,
    MoveAccepted,
    PlanAccepted,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy


def written(path: Path, *records: JournalRecord) -> Path:
    """A journal of these records, which nobody drives."""
    now_ms = SystemClock().now_ms()
    journal = JournalPlace(path).open("somebody")
    journal.acquire(now_ms)
    journal.append([JournalEntry(number, now_ms, "test", record) for number, record in enumerate(records, 1)], now_ms)
    journal.release()
    journal.close()
    return path


@pytest.fixture
def standing(undriven: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same journal, whose driver has the cluster's seat but has let its lease run out: this process."""
    monkeypatch.setenv("SHUNTER_STATE", str(undriven.parent))
    place = JournalPlace(undriven)
    with closing(place.open("suspended")) as journal:
        journal.acquire(SystemClock().now_ms() - LEASE_MS)
    seat = DriverSeat(undriven.parent, "c", place.seat_name)
    yield undriven
    seat.leave()


@pytest.fixture
def undriven(tmp_path: Path) -> Path:
    """A journal with an open move that nobody drives, no throttle set, and two that were asked for."""
    return written(
        tmp_path / "cluster.journal",
        PlanAccepted("p", "c", ExecutionOptions(throttle=5_000_000)),
        MoveAccepted(TopicPartition("t", 0), None, (1, 2), (3, 2), Strategy.INCREMENTAL, 1_000, ()),
        CommandTaken(Command(CommandKind.LIMIT, (), 2_000_000, "limit")),
        LimitChanged(2_000_000, "asked for by limit"),
    )
