"""The journal's file: the real SQLite journal over a database in memory instead of a file, and the faults of a disk.

Processes share the database as they share a file. Committed data survives a SIGKILL. A power cut leaves only what was
synced: it loses a commit of a connection that does not sync (`PRAGMA synchronous` below FULL). After a torn write
SQLite itself goes back to the last whole transaction (tests/unit/drivers/test_journal_sqlite.py tears real files). It
does not detect a disk that damages a row, and that fault is made here.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

from lab.simulation.scheduler import SECOND, Scheduler
from shunter.drivers.journal.journals import Presence
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.formats.journal import JournalRow, decode_line
from shunter.model.execution import JournalEntry

FLUSH_US = 5 * SECOND
"""After this time the operating system writes what was not synced."""
SYNCED = 2
"""`PRAGMA synchronous` FULL."""
PLACE = Path("simulated.journal")


class JournalDisk:
    """One file, and how many of its entries are durable."""

    def __init__(self, scheduler: Scheduler, on_durable: Callable[[JournalEntry], None]) -> None:
        """Begin empty; `on_durable` is called with each entry once a power cut can't lose it."""
        self._scheduler = scheduler
        self._on_durable = on_durable
        self._database = self._open()
        self._synced: bytes | None = None
        """The content that a power cut leaves; None: everything that is committed."""
        self.known = 0
        """Entries that are durable."""
        self.damaged: tuple[int, str, int | None] | None = None
        """The damaged row as it was before: sequence, body, checksum. None: no row is damaged."""
        self.busy_until_us = 0
        self.journal("nobody", Presence("nowhere", 0, lambda _process: True))

    def _open(self) -> sqlite3.Connection:
        opened = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, opened.close)  # A world ends with its last reference, and Python wants files closed.
        return opened

    def journal(self, owner: str, presence: Presence) -> SqliteJournal:
        """Open the file."""
        return SqliteJournal(PLACE, owner, presence=presence, database=_Handle(self))  # type: ignore[arg-type]

    # ---- for connections

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Run a statement, and report the entries that became durable by it."""
        if statement.startswith("BEGIN") and self._scheduler.now_us < self.busy_until_us:
            raise _busy()
        if statement.startswith("BEGIN") and self._synced is None and self._level() < SYNCED:
            self._synced = self._database.serialize()
            self._scheduler.after(FLUSH_US, self._flush)
        cursor = self._database.execute(statement, parameters)
        if statement == "COMMIT" and self._level() >= SYNCED:
            self._flush()
        return cursor

    def executemany(self, statement: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        """Run a statement for each of the rows."""
        return self._database.executemany(statement, rows)

    def _level(self) -> int:
        return int(self._database.execute("PRAGMA synchronous").fetchone()[0])

    def _flush(self) -> None:
        self._synced = None
        rows = self._database.execute(
            "SELECT sequence, body, checksum FROM entries WHERE sequence > ? ORDER BY sequence", (self.known,)
        ).fetchall()
        for row in rows:
            self.known = int(row[0])
            self._on_durable(decode_line(JournalRow(*row), str(PLACE)))

    # ---- for the world

    def die_within(self, owner: str, requests: int, kill: Callable[[], None]) -> bool:
        """Do nothing: SQLite undoes a transaction whose process ends."""
        del owner, requests, kill
        return False

    def compact(self, random: Random) -> bool:
        """Do nothing: a file is not compacted."""
        del random
        return False

    def lose_power(self) -> None:
        """Lose everything that was not synced."""
        if self._synced is not None:
            self._database.close()
            self._database = self._open()
            self._database.deserialize(self._synced)
            self._synced = None

    def unanswered(self) -> int:
        """The number of orders without an answer."""
        return int(self._database.execute("SELECT count(*) FROM orders WHERE answer IS NULL").fetchone()[0])

    def answer_to(self, number: int) -> str | None:
        """The answer to an order; None: there is none yet, or a power cut lost the order."""
        row = self._database.execute("SELECT answer FROM orders WHERE number = ?", (number,)).fetchone()
        return None if row is None else row[0]

    def owner(self) -> str:
        """The owner of the lease; empty: there is none."""
        row = self._database.execute("SELECT owner FROM lease").fetchone()
        return "" if row is None else str(row[0])

    def host(self) -> str:
        """The host of the lease's owner; empty: there is none."""
        row = self._database.execute("SELECT host FROM lease").fetchone()
        return "" if row is None else str(row[0])

    def damage(self, random: Random) -> bool:
        """The disk damages a row: a digit changes, or the second half is lost."""
        if self.damaged is not None or not self.known:
            return False
        number = random.choice((self.known, random.randint(1, self.known)))
        found = self._database.execute("SELECT body, checksum FROM entries WHERE sequence = ?", (number,)).fetchone()
        body = str(found[0])
        self.damaged = (number, body, found[1])
        digits = [place for place, letter in enumerate(body) if letter.isdigit()]
        place = random.choice(digits)
        changed = str((int(body[place]) + 1) % 10)
        torn = body[:place] + changed + body[place + 1 :] if random.random() < 0.7 else body[: len(body) // 2]
        self._database.execute("UPDATE entries SET body = ? WHERE sequence = ?", (torn, number))
        return True

    def mend(self) -> None:
        """The operator restores the row from a copy."""
        if self.damaged is not None:
            number, body, checksum = self.damaged
            self.damaged = None
            self._database.execute(
                "UPDATE entries SET body = ?, checksum = ? WHERE sequence = ?", (body, checksum, number)
            )


def _busy() -> sqlite3.OperationalError:
    """The error that SQLite raises after it has waited for a lock as long as configured."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


class _Handle:
    """One connection to the file, with the methods that the journal uses. Closing it leaves the file to others."""

    def __init__(self, disk: JournalDisk) -> None:
        self.execute = disk.execute
        self.executemany = disk.executemany

    def close(self) -> None:
        """Do nothing: the connection holds no resource of its own."""
