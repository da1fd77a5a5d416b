"""What a journal tells of its moves, read when somebody asks and then only as far as it is new."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "executor"))
from apache_yard import Rig, Yard

from shunter.app.executor.session import Target
from shunter.app.service import stories as stories_module
from shunter.app.service.stories import BOOKS, Stories, journal_of
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.errors import DriverError
from shunter.model.execution import CommandKind, JournalEntry
from shunter.model.service import OrderRefused, Refusal


class Reader:
    """A journal in memory, and from where on it was read."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.asked: list[int] = []
        self.broken = ""

    def __call__(self, after: int) -> Sequence[JournalEntry]:
        if self.broken:
            raise DriverError(self.broken, retriable=True)
        self.asked.append(after)
        return self.rig.journal[after:]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is too new to be read."""
    monkeypatch.setattr(stories_module, "LEAST_S", 0.0)
    monkeypatch.setattr(stories_module, "SHARE", 0)


def rig_with(executions: int) -> Rig:
    """A journal of so many executions: the partition goes to and fro."""
    rig = Rig(Yard({"t": [(1, 2), (1, 2)]}))
    for number in range(executions):
        if number:
            rig.start()
        rig.submit(("t", 0, ((4, 2), (1, 2))[number % 2]))
        rig.settle()
    return rig


async def test_executions_their_moves_and_one_story() -> None:
    stories = Stories(Reader(rig_with(3)))
    rows = await stories.executions()
    assert [(row.number, row.counts) for row in rows] == [(1, {"done": 1}), (2, {"done": 1}), (3, {"done": 1})]
    (move,) = await stories.moves(2)
    assert (move.original, move.replicas) == ((4, 2), (1, 2))
    story = await stories.story("t-0", 1, None)
    assert (story.execution, story.executions, story.replicas) == (1, (1, 2, 3), (4, 2))
    latest = await stories.story("t-0", None, None)
    assert latest.execution == 3


async def test_only_what_is_new_is_read() -> None:
    rig = rig_with(1)
    reader = Reader(rig)
    stories = Stories(reader)
    await stories.executions()
    first = len(rig.journal)
    rig.start()
    rig.submit(("t", 0, (1, 2)), ("t", 1, (5, 2)))
    rig.settle(catching_up=False, rounds=12)
    assert (await stories.story("t-1", None, None)).state == "moving"
    assert len(await stories.executions()) == 2
    rig.command(CommandKind.ROLL_BACK)
    rig.settle()
    story = await stories.story("t-1", None, None)
    assert story.state == "rolled-back", "an execution that is open in a book goes on there"
    assert reader.asked[0] == 0
    assert all(after >= first for after in reader.asked[1:])
    assert {move.state for move in await stories.moves(2)} == {"rolled-back"}


async def test_few_executions_are_kept_open() -> None:
    stories = Stories(Reader(rig_with(BOOKS + 2)))
    for number in range(1, BOOKS + 3):
        assert len(await stories.moves(number)) == 1
    assert (await stories.story("t-0", 1, None)).execution == 1


async def test_who_asks_for_what_is_not_there_is_told_what_is() -> None:
    stories = Stories(Reader(rig_with(2)))
    with pytest.raises(OrderRefused, match="there are 1 to 2") as refused:
        await stories.moves(7)
    assert refused.value.refusal is Refusal.NOT_FOUND
    with pytest.raises(OrderRefused, match="execution 7 did not move t-0; these did: 1, 2"):
        await stories.story("t-0", 7, None)
    with pytest.raises(OrderRefused, match="u-0 was never moved"):
        await stories.story("u-0", None, None)
    with pytest.raises(OrderRefused, match="nothing was executed yet"):
        await Stories(Reader(Rig(Yard({"t": [(1,)]})))).moves(1)


async def test_a_journal_that_cannot_be_read_is_told_and_read_again() -> None:
    reader = Reader(rig_with(1))
    stories = Stories(reader)
    await stories.executions()
    reader.broken = "the disk is gone"
    with pytest.raises(OrderRefused, match="the disk is gone") as refused:
        await stories.executions()
    assert refused.value.refusal is Refusal.STORE
    reader.broken = ""
    assert len(await stories.executions()) == 1


async def test_a_journal_file(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    load = journal_of(Target("nowhere:1", journal=path), lambda: "")
    assert load(0) == ()
    assert not path.exists(), "looking makes nothing"
    assert journal_of(Target("nowhere:1"), lambda: "")(0) == (), "a cluster that was not seen yet has no journal"
    rig = rig_with(1)
    journal = SqliteJournal(path, "me")
    journal.acquire(1)
    journal.append(rig.journal, 1)
    assert load(0) == tuple(rig.journal)
    assert load(5) == tuple(rig.journal[5:])
    assert len(await Stories(load).executions()) == 1
    journal.close()


async def test_one_question_reads_what_is_new_once() -> None:
    reader = Reader(rig_with(1))
    stories = Stories(reader)
    await stories.story("t-0", None, None)
    assert reader.asked == [0, 0], "once for what is new, and once for the entries of its execution"
    await stories.story("t-0", None, None)
    await stories.moves(1)
    assert len(reader.asked) == 4, "a book that is open is not read again"
