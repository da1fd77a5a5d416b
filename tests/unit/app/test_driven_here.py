"""An executor of this host is found by the words that it was started with, without asking the cluster."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import orjson
import pytest

from shunter.app.executor.orders import driven_here
from shunter.core.doers import Wanted
from shunter.core.executor.apply import apply
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.state import ExecutorState
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.model.execution import (
    LOAN,
    ExecutionOptions,
    JournalEntry,
    MoveAccepted,
    PlanAccepted,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution, view_to_json

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    return tmp_path


def journal(folder: Path, name: str, owner: str, *, bootstrap: str = "kafka1:9092") -> SqliteJournal:
    """A journal that is driven, with one open move, and its driver's glance."""
    made = SqliteJournal(folder / f"{name}.journal", owner)
    now_ms = SystemClock().now_ms()
    made.acquire(now_ms)
    records = (PlanAccepted("p", "c", ExecutionOptions()), MoveAccepted(T0, None, (1,), (2,), Strategy.INCREMENTAL, 5))
    made.append([JournalEntry(number, now_ms, "test", record) for number, record in enumerate(records, 1)], now_ms)
    state = ExecutorState()
    for entry in made.load():
        apply(state, entry)
    view = view_execution(state, Meter(), None, now_ms)
    made.path.with_name(f"{name}.journal.view").write_bytes(
        orjson.dumps({**view_to_json(view), "bootstrap": bootstrap})
    )
    return made


def test_an_executor_is_found_by_the_same_words_alone(folder: Path) -> None:
    with closing(journal(folder, "a", "driver")) as made:
        found = driven_here("kafka1:9092", None)
        assert found is not None
        assert found[0].path == made.path
        assert found[1].owner == "driver"
        assert driven_here("kafka2:9092", None) is None
        made.release()
        assert driven_here("kafka1:9092", None) is None, "nobody drives it"


def test_moves_that_its_journal_does_not_have_may_be_the_controllers(folder: Path) -> None:
    with closing(journal(folder, "a", "driver")):
        assert driven_here("kafka1:9092", Wanted()) is not None
        assert driven_here("kafka1:9092", Wanted(partitions=(T0,))) is not None
        assert driven_here("kafka1:9092", Wanted(partitions=(T0, T1))) is None
        assert driven_here("kafka1:9092", Wanted(topics=("u",))) is None


def test_two_of_the_same_words_and_one_that_takes_no_orders_are_left_to_the_cluster(folder: Path) -> None:
    with closing(journal(folder, "a", f"{LOAN}x")) as lent:
        assert driven_here("kafka1:9092", None) is None
        lent.release()
    with closing(journal(folder, "b", "driver")), closing(journal(folder, "c", "driver")):
        assert driven_here("kafka1:9092", None) is None
