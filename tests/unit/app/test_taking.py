"""The host's seat comes before the lease: what a command finds there, and what it takes from whoever is there."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.lease_acquisition import refuse_standing, standing_in, take_seat
from shunter.core.own_topics import Shortage
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.host_lock import DriverSeat, SeatTaken, StandsStill
from shunter.drivers.journal.journals import LEASE_MS, JournalHeld
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.model.notice import Notice

CLUSTER = "c1"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JournalPlace:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    return JournalPlace(tmp_path / "a.journal")


@pytest.fixture
def journal(place: JournalPlace) -> Iterator[SqliteJournal]:
    with closing(SqliteJournal(place.path, "mine")) as opened:
        yield opened


async def taken(
    place: JournalPlace, journal: SqliteJournal, *, take_over: bool = False
) -> tuple[DriverSeat | None, list[Notice]]:
    notices: list[Notice] = []
    return await take_seat(place, journal, CLUSTER, notices.append, take_over=take_over), notices


def sit(place: JournalPlace, *, lease_ago_ms: int) -> DriverSeat:
    """Sit there as an executor that renewed its lease so long ago."""
    with closing(SqliteJournal(place.path, "theirs")) as theirs:
        theirs.acquire(SystemClock().now_ms() - lease_ago_ms)
    return DriverSeat(place.path.parent, CLUSTER, place.seat_name)


async def test_a_free_seat_is_taken_and_the_lease_is_not(place: JournalPlace, journal: SqliteJournal) -> None:
    seat, notices = await taken(place, journal)
    assert seat is not None
    seat.leave()
    assert (journal.lease(), notices) == (None, [])


async def test_a_live_lease_refuses_before_the_seat_does(place: JournalPlace, journal: SqliteJournal) -> None:
    seat = sit(place, lease_ago_ms=0)
    with pytest.raises(JournalHeld, match=f"driven by process {os.getpid()}"):
        await taken(place, journal)
    seat.leave()


async def test_who_stands_still_keeps_its_lease_and_is_named_with_the_ways_out(
    place: JournalPlace, journal: SqliteJournal
) -> None:
    seat = sit(place, lease_ago_ms=2 * LEASE_MS)
    before = journal.lease()
    with pytest.raises(StandsStill) as refused:
        await taken(place, journal)
    pid = os.getpid()
    for told in (
        f"process {pid} has not renewed its lease since 2",
        f"it runs, so it waits for something, or hangs; give it a minute; if that does not help, see in its log why, or end it (kill {pid}), then repeat this",
        "`--take-over-cluster` takes the journal from it",
    ):
        assert told in str(refused.value)
    with pytest.raises(StandsStill):
        refuse_standing(place, journal)
    assert journal.lease() == before
    seat.leave()


async def test_a_take_over_goes_on_without_the_seat_of_who_stands_still(
    place: JournalPlace, journal: SqliteJournal
) -> None:
    seat = sit(place, lease_ago_ms=2 * LEASE_MS)
    mine, (notice,) = await taken(place, journal, take_over=True)
    assert mine is None
    assert "it finds that out and ends" in notice.text
    seat.leave()


@pytest.mark.parametrize("take_over", [False, True])
async def test_no_take_over_takes_the_seat_of_another_journal(
    place: JournalPlace, journal: SqliteJournal, *, take_over: bool
) -> None:
    seat = DriverSeat(place.path.parent, CLUSTER, "/b.journal")
    with pytest.raises(SeatTaken, match=f"process {os.getpid()} under journal /b.journal: name that") as refused:
        await taken(place, journal, take_over=take_over)
    assert ("--take-over-cluster takes nothing from a process of this host" in str(refused.value)) is take_over
    seat.leave()


@pytest.mark.parametrize("take_over", [False, True])
async def test_who_has_the_seat_alone_begins_ends_or_stands_still(
    place: JournalPlace, journal: SqliteJournal, *, take_over: bool
) -> None:
    seat = DriverSeat(place.path.parent, CLUSTER, place.seat_name)
    with pytest.raises(SeatTaken, match=r"begins, ends or stands still\. Repeat this"):
        await taken(place, journal, take_over=take_over)
    seat.leave()


async def test_who_cannot_write_its_journal_is_told_by_its_topic_and_nothing_is_to_be_killed(
    place: JournalPlace, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outsider's find: a healthy service was called suspended, because its journal's topic took no writes."""
    short = Shortage("topic j has 1 of 2 needed replicas in sync (3 of 2,3,5)", "start broker 2 or 5")
    monkeypatch.setattr(JournalPlace, "shortage", lambda _self: short)
    seat = sit(place, lease_ago_ms=2 * LEASE_MS)
    with pytest.raises(StandsStill) as refused:
        await taken(place, journal)
    assert str(refused.value).endswith(f": it can't renew it: {short}, then repeat this")
    seat.leave()


def test_without_a_lease_nobody_stands_still(place: JournalPlace, journal: SqliteJournal) -> None:
    assert standing_in(place, journal) is None
    refuse_standing(place, journal)
