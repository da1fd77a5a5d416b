"""Orders to whoever drives a journal: taken up, or taken back where that one ends first."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from pathlib import Path

import pytest

from lab.testbed.waiting import wait_until
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.orders import HolderGone, order_plan, told_others
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.host_lock import DriverSeat, StandsStill
from shunter.drivers.journal.journals import LEASE_MS
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.model.execution import (
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    MoveAccepted,
    MoveOrder,
    PlanAccepted,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

PLAN = (MoveOrder(TopicPartition("t", 0), (1, 2)),)


async def handed_over(place: JournalPlace) -> dict[str, object]:
    return await order_plan(place, PLAN, ExecutionOptions())


def test_a_plan_that_whoever_drives_did_not_take_up_before_its_end_is_taken_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        with closing(SqliteJournal(tmp_path / "a.journal", "driver")) as driver:
            driver.acquire(SystemClock().now_ms())
            asked = asyncio.create_task(handed_over(JournalPlace(driver.path)))
            await asyncio.to_thread(wait_until, lambda: driver.orders() != (), what="the plan", timeout_s=20)
            driver.release()  # As an executor that ends in this very moment.
            async with asyncio.timeout(60):
                with pytest.raises(HolderGone, match="ended before it took this up"):
                    await asked
            assert driver.orders() == (), "whoever drives next does not carry it out a second time"

    asyncio.run(scenario())


def test_a_plan_is_not_taken_back_while_somebody_drives_or_once_it_is_answered(tmp_path: Path) -> None:
    with closing(SqliteJournal(tmp_path / "a.journal", "driver")) as driver:
        driver.acquire(1_000)
        number = driver.order("plan", {}, 1_000)
        assert not driver.withdraw(number, 2_000)
        driver.answer(number, "{}")
        driver.release()
        assert not driver.withdraw(number, 2_000)
        assert driver.answer_to(number) == "{}"


def test_an_order_to_an_executor_that_stands_still_is_taken_back_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    place = JournalPlace(tmp_path / "a.journal")
    seat = DriverSeat(tmp_path, "c1", place.seat_name)
    with closing(SqliteJournal(place.path, "driver")) as driver:
        driver.acquire(SystemClock().now_ms() - LEASE_MS)
        with pytest.raises(StandsStill, match=f"process {os.getpid()} has not renewed its lease since"):
            asyncio.run(handed_over(place))
        assert driver.orders() == ()
    seat.leave()


async def test_who_drives_the_journal_itself_is_told_of_the_other_open_moves(tmp_path: Path) -> None:
    place = JournalPlace(tmp_path / "a.journal")
    first, second, third = (TopicPartition("t", number) for number in range(3))
    assert await told_others(place, [first]) == ""
    with closing(SqliteJournal(place.path, "driver")) as driver:
        driver.acquire(1_000)
        records: list[JournalRecord] = [PlanAccepted("p", "c", ExecutionOptions())]
        records += [MoveAccepted(tp, None, (1,), (2,), Strategy.INCREMENTAL, 1, ()) for tp in (first, second, third)]
        driver.append([JournalEntry(number, 1_000, "test", each) for number, each in enumerate(records, 1)], 1_000)
        driver.release()
    assert await told_others(place, [first, second, third]) == ""
    assert "drives 1 other open move to its end too; ctrl-C leaves it" in await told_others(place, [first, second])
    assert "drives 2 other open moves to their end too; ctrl-C leaves them" in await told_others(place, [first])
