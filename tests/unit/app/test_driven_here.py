"""An executor of this host is found by the words that it was started with, without asking the cluster."""

import asyncio
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from shunter.app.executor import orders
from shunter.app.executor.orders import holder_of
from shunter.app.executor.session import Target
from shunter.core.executor.apply import apply
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.state import ExecutorState
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.errors import DriverError
from shunter.model.execution import (
    LOAN,
    ExecutionOptions,
    JournalEntry,
    LeaseHolder,
    MoveAccepted,
    PlanAccepted,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution, view_to_json

T0 = TopicPartition("t", 0)


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


def found(bootstrap: str) -> tuple[Path, LeaseHolder | None]:
    place, holder = asyncio.run(holder_of(Target(bootstrap)))
    return place.path, holder


@pytest.fixture
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_target: Target) -> None:
        raise DriverError("the cluster was asked", retriable=True)

    monkeypatch.setattr(orders, "connect", refused)


@pytest.mark.usefixtures("_no_cluster")
def test_an_executor_is_found_by_the_same_words_alone(folder: Path) -> None:
    with closing(journal(folder, "a", "driver")) as made:
        path, holder = found("kafka1:9092")
        assert path == made.path
        assert holder is not None
        assert holder.owner == "driver"
        with pytest.raises(DriverError, match="the cluster was asked"):
            found("kafka2:9092")
        made.release()
        with pytest.raises(DriverError, match="the cluster was asked"):
            found("kafka1:9092")


@pytest.mark.usefixtures("_no_cluster")
def test_two_of_the_same_words_and_one_that_takes_no_orders_are_left_to_the_cluster(folder: Path) -> None:
    with closing(journal(folder, "a", f"{LOAN}x")) as lent:
        with pytest.raises(DriverError, match="the cluster was asked"):
            found("kafka1:9092")
        lent.release()
    with (
        closing(journal(folder, "b", "driver")),
        closing(journal(folder, "c", "driver")),
        pytest.raises(DriverError, match="the cluster was asked"),
    ):
        found("kafka1:9092")
