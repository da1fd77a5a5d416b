"""Stories from a cluster's journal: executions, their moves, and the story of one move.

The journal is read on request, in a thread; only new entries are read. After some time without a request everything
that was read is forgotten. The executor is not disturbed, and goes on writing meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from shunter.app.executor.session import Target, place_of
from shunter.core.executor.history import Past
from shunter.drivers.host.whole_calls import to_its_end
from shunter.errors import ShunterError
from shunter.model.execution import (
    CommandTaken,
    JournalEntry,
    LimitChanged,
    MoveAccepted,
    MoveClosed,
    PlanAccepted,
)
from shunter.model.partition import BrokerId
from shunter.model.service import OrderRefused, Refusal
from shunter.views.move_story import (
    ExecutionGist,
    MoveStory,
    PastMove,
    tell_story,
    view_execution_gist,
    view_past_move,
)

IDLE_S = 600.0
"""After this time without a request everything is forgotten."""
LEAST_S = 1.0
SHARE = 20
"""The pause after a reading, as a multiple of the reading's time: a long journal is read less often."""
BOOKS = 4
"""Executions whose entries are kept at a time."""
_SHARED = (PlanAccepted, CommandTaken, LimitChanged)

Load = Callable[[int], Sequence[JournalEntry]]
"""Reads the entries after a sequence number; blocks; raises `ShunterError`."""


def journal_of(target: Target, cluster_id: Callable[[], str]) -> Load:
    """A function that reads a cluster's journal. `cluster_id` is called each time: the id may be unknown at first."""

    def load(after: int) -> Sequence[JournalEntry]:
        named = target.journal is not None or target.journal_topic is not None
        if not named and not cluster_id():
            return ()
        place = place_of(target, cluster_id())
        if not place.exists():
            return ()
        journal = place.open("reader")
        try:
            return journal.load(after)
        finally:
            journal.close()

    return load


class _Book:
    """The entries of one execution, by partition."""

    def __init__(self) -> None:
        self.shared: list[JournalEntry] = []
        self.of: dict[str, list[JournalEntry]] = {}
        self._rows: tuple[PastMove, ...] | None = None

    def take(self, entry: JournalEntry) -> None:
        record = entry.record
        self._rows = None
        tp = getattr(record, "tp", None)
        if tp is None:
            if isinstance(record, _SHARED):
                self.shared.append(entry)
            return
        entries = self.of.setdefault(str(tp), [])
        if isinstance(record, MoveAccepted) and entries and isinstance(entries[-1].record, MoveClosed):
            entries.clear()  # The partition is moved again. Like the executor, keep only the latest move.
        entries.append(entry)

    def rows(self) -> tuple[PastMove, ...]:
        if self._rows is None:
            self._rows = tuple(map(view_past_move, self.of.values()))
        return self._rows


class Stories:
    """The stories of one cluster. Calls belong on one event loop."""

    def __init__(self, load: Load, place: str = "") -> None:
        """Begin without entries. `place`: where the journal is, `HOST:PATH` or `kafka:TOPIC`."""
        self.place = place
        self._load = load
        self._lock = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._forget()

    def _forget(self) -> None:
        self._past = Past()
        self._ended: list[ExecutionGist] = []
        """All executions but the last one."""
        self._named: dict[str, list[int]] = {}
        self._last = 0
        self._due_s = 0.0
        self._books: OrderedDict[int, _Book] = OrderedDict()

    async def executions(self) -> tuple[ExecutionGist, ...]:
        """All executions of the journal, the first one first.

        Raises:
            OrderRefused: the journal can't be read.
        """
        async with self._lock:
            await self._read()
            return self._rows()

    async def moves(self, number: int) -> tuple[PastMove, ...]:
        """The moves of an execution, in the order in which they were taken on.

        Raises:
            OrderRefused: there is no such execution, or the journal can't be read.
        """
        async with self._lock:
            await self._read()
            book = await self._book(number)
            return await to_its_end(book.rows)

    async def story(self, partition: str, number: int | None, live: frozenset[BrokerId] | None) -> MoveStory:
        """The story of a partition's move in an execution; None: the latest that moved it. `live`: see `tell_story`.

        Raises:
            OrderRefused: no execution, or not this one, moved the partition; or the journal can't be read.
        """
        async with self._lock:
            await self._read()
            named = self._named.get(partition, [])
            if number is None and named:
                number = named[-1]
            if number not in named or number is None:
                told = f"execution {number} did not move {partition}" if number else f"{partition} was never moved"
                other = f"; these did: {', '.join(map(str, named))}" if named else " by an execution of this journal"
                raise OrderRefused(Refusal.NOT_FOUND, told + other)
            book = await self._book(number)
            return tell_story(number, tuple(named), book.of[partition], book.shared, live)

    # ---- reading; the lock is held

    def _rows(self) -> tuple[ExecutionGist, ...]:
        last = self._past.found[-1:]
        return (*self._ended, *map(view_execution_gist, last))

    async def _read(self) -> None:
        """Read new entries, unless that was done a moment ago."""
        self._stay_awake()
        if time.monotonic() < self._due_s:
            return
        began = time.monotonic()
        try:
            await to_its_end(self._take_news)
        except ShunterError as error:
            self._forget()
            raise OrderRefused(Refusal.STORE, f"the journal can't be read: {error}") from error
        ended = time.monotonic()
        self._due_s = ended + max(LEAST_S, SHARE * (ended - began))

    def _take_news(self) -> None:
        for entry in self._load(self._last):
            before = len(self._past.found)
            self._past.take(entry)
            self._last = entry.sequence
            found = self._past.found
            if len(found) > before > 0:
                self._ended.append(view_execution_gist(found[-2]))
                # The execution's gist is kept; its moves are read again on request.
                found[-2].moves, found[-2].earlier = {}, []
            if not found:
                continue
            if isinstance(entry.record, MoveAccepted):
                named = self._named.setdefault(str(entry.record.tp), [])
                if found[-1].number not in named[-1:]:
                    named.append(found[-1].number)
            book = self._books.get(found[-1].number)
            if book is not None:
                book.take(entry)

    async def _book(self, number: int) -> _Book:
        """The entries of an execution, up to the last entry that was read."""
        if not 1 <= number <= len(self._past.found):
            known = f"there are 1 to {len(self._past.found)}" if self._past.found else "nothing was executed yet"
            raise OrderRefused(Refusal.NOT_FOUND, f"there is no execution {number}: {known}")
        book = self._books.get(number)
        if book is None:
            try:
                book = await to_its_end(self._opened, number)
            except ShunterError as error:
                raise OrderRefused(Refusal.STORE, f"the journal can't be read: {error}") from error
            self._books[number] = book
            if len(self._books) > BOOKS:
                self._books.popitem(last=False)
        self._books.move_to_end(number)
        return book

    def _opened(self, number: int) -> _Book:
        found = self._past.found
        until = found[number].first_sequence - 1 if number < len(found) else self._last
        book = _Book()
        for entry in self._load(found[number - 1].first_sequence - 1):
            if entry.sequence > until:
                break
            book.take(entry)
        return book

    def _stay_awake(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._forget)
