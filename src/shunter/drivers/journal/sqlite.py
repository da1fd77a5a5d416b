"""The journal in one SQLite file per cluster: WAL mode, every batch one transaction, synced before it is answered.

Beside the file is a copy of the entries as lines of text (`journal_copy`), in case the file itself can't be read.

Tables: `about` (version, rebuilt, address of the driver), `entries` (sequence, body, checksum), `lease` (the executor that drives it),
`orders` (other shells' orders to that executor). SQLite's own checksums end a torn write at the last whole transaction.
A damaged file is refused; the error has the entries that can still be read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from shunter.drivers.journal.copy import JournalCopy
from shunter.drivers.journal.journals import (
    LEASE_MS,
    JournalBusy,
    JournalDamaged,
    JournalFenced,
    JournalForsaken,
    JournalHeld,
    JournalUnusable,
    JournalUnwritten,
    OrderRow,
    Presence,
    this_process,
)
from shunter.drivers.journal.sqlite_batches import make_tables, whole_batch
from shunter.errors import DriverError, FormatError
from shunter.formats.journal import VERSION, JournalRow, decode_line, encode_line
from shunter.model.execution import JournalEntry, LeaseHolder

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entries (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, checksum INTEGER);
CREATE TABLE IF NOT EXISTS lease (
    one INTEGER PRIMARY KEY CHECK (one = 1), owner TEXT NOT NULL, host TEXT NOT NULL, process INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    answer TEXT);
"""


class SqliteJournal:
    """One journal file. Not thread-safe: use it in one thread at a time, by `to_its_end` under a lock."""

    def __init__(
        self,
        path: Path,
        owner: str,
        *,
        presence: Presence | None = None,
        database: sqlite3.Connection | None = None,
    ) -> None:
        """Open or create the file.

        Args:
            path: Of the journal; its folder is created.
            owner: Names this process in the lease; it has to be unique.
            presence: Host and process for the lease; None: this process.
            database: Replaces the file at `path`.

        Raises:
            JournalDamaged: it is not a SQLite file, or its tables can't be read.
            JournalBusy: another process keeps it locked.
            FormatError: it has a version that is not understood.
        """
        self.path = path
        self.owner = owner
        self._presence = this_process() if presence is None else presence
        self._last_sequence = 0
        fresh = database is None and _is_new(path)
        try:
            self._connection = _open_file(path) if database is None else database
        except sqlite3.DatabaseError as error:
            raise self._refused(error) from error
        with contextlib.ExitStack() as refused:  # Whoever may not use the file does not keep it open.
            if database is None:
                refused.callback(self._connection.close)
            self._look_at(path, database)
            refused.pop_all()
        self._copy = None if database is not None else JournalCopy(path)
        if fresh:
            self._rebuild()
            _sync_folder(path.parent)
        self._identity = None if database is not None else _identity(path)
        self._size, self._written_ns = (0, 0) if database is not None else _shape(path)
        """Size of the file, which never shrinks, and when it was last written. In WAL mode that is seldom: when SQLite
        copies the write-ahead log into it. After that, the file is read once as another process would read it."""

    def _look_at(self, path: Path, database: sqlite3.Connection | None) -> None:
        """Make the tables, if there are none, and check the version."""
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            with whole_batch(self._connection):
                make_tables(self._connection, _SCHEMA)
                if not self._connection.execute("SELECT 1 FROM entries LIMIT 1").fetchone():
                    # A journal without entries counts as new, also after a torn first write: nothing was answered yet.
                    self._connection.execute("INSERT OR IGNORE INTO about VALUES ('version', ?)", (str(VERSION),))
            self._check_version()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise self._refused(error) from error
            salvaged = () if database is not None else JournalCopy(path).read()
            raise JournalDamaged(str(path), f"not readable as a journal: {error}", salvaged) from error

    def _rebuild(self) -> None:
        """Write a new file's entries from the copy: the former file was lost, or moved away because it was damaged."""
        entries = () if self._copy is None else self._copy.read()
        rows = [encode_line(entry) for entry in entries]
        with self._guarded(), whole_batch(self._connection):
            if not rows or self._connection.execute("SELECT 1 FROM entries LIMIT 1").fetchone():
                return  # There is nothing to write, or another process has written it already.
            self._connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
            self._connection.execute("INSERT OR REPLACE INTO about VALUES ('rebuilt', ?)", (str(len(rows)),))

    def take_rebuilt(self) -> int:
        """Return how many entries came from the copy because the file was lost; only the first call returns them."""
        with self._guarded(), whole_batch(self._connection):
            row = self._connection.execute("SELECT value FROM about WHERE name = 'rebuilt'").fetchone()
            self._connection.execute("DELETE FROM about WHERE name = 'rebuilt'")
        return 0 if row is None else int(row[0])

    def _check_version(self) -> None:
        row = self._connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()
        if row is None:
            raise JournalDamaged(str(self.path), "does not say its version", ())
        if int(row[0]) != VERSION:
            raise FormatError(str(self.path), f"journal version {row[0]} is not understood; {VERSION} is")

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Convert SQLite's errors to the journal's."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise JournalFenced(f"{self.path}: somebody else wrote to it: {error}", retriable=False) from error
        except sqlite3.DatabaseError as error:
            raise self._refused(error) from error

    def _refused(self, error: sqlite3.DatabaseError) -> DriverError:
        if _is_locked(error):
            return JournalBusy(f"{self.path} is locked by another process: {error}", retriable=True)
        kind = JournalUnusable if _is_damage(error) else JournalUnwritten
        return kind(f"{self.path}: can't be used: {error}{_way_out(error, self.path)}", retriable=False)

    def load(self, after: int = 0) -> tuple[JournalEntry, ...]:
        """Read all entries after the one of this sequence.

        Raises:
            JournalDamaged: an entry is damaged or missing; carries those before it.
        """
        readable: list[JournalEntry] = []
        try:
            rows = self._connection.execute(
                "SELECT sequence, body, checksum FROM entries WHERE sequence > ? ORDER BY sequence", (after,)
            )
            for sequence, body, checksum in rows:
                due = after + len(readable) + 1
                if sequence != due:
                    raise FormatError(str(self.path), f"entry {due} is missing")
                row = JournalRow(int(sequence), str(body), checksum)
                readable.append(decode_line(row, str(self.path)))
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise self._refused(error) from error
            raise self._damaged(str(self.path), f"damaged: {error}", readable) from error
        except FormatError as error:
            raise self._damaged(error.place, error.rule, readable) from error
        return tuple(readable)

    def _damaged(self, place: str, rule: str, readable: Sequence[JournalEntry]) -> JournalDamaged:
        """Make the error, with the readable entries: of the file before the damage, or of the copy if it has more."""
        copied = () if self._copy is None else self._copy.read()
        return JournalDamaged(place, rule, copied if len(copied) > len(readable) else tuple(readable))

    def append(self, entries: Sequence[JournalEntry], now_ms: int) -> None:
        """Make entries durable, all or none, if this executor still has the lease, which is renewed too.

        Raises:
            JournalFenced: another executor has the lease, or wrote since.
            DriverError: the file can't be written.
        """
        rows = [encode_line(entry) for entry in entries]
        self._still_there()
        with self._guarded(), whole_batch(self._connection):
            self._renew(now_ms)
            self._connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
        self._last_sequence = max(self._last_sequence, *(row.sequence for row in rows))
        if self._copy is None:
            return
        if self._copy.lacks_some:
            self._copy.make_whole(self._rows())
        else:
            self._copy.append(rows)

    def acquire(self, now_ms: int) -> None:
        """Take the lease.

        Raises:
            JournalHeld: another executor has the lease, which is neither expired nor of a dead process on this host.
        """
        with self._guarded(), whole_batch(self._connection):
            holder = self._holder()
            if holder is not None and holder.owner != self.owner and not self._presence.lapsed(holder, now_ms):
                raise JournalHeld(str(self.path), holder)
            *lease, address = self._presence.lease(self.owner, now_ms)
            self._connection.execute("INSERT OR REPLACE INTO lease VALUES (1, ?, ?, ?, ?)", lease)
            self._connection.execute("INSERT OR REPLACE INTO about VALUES ('address', ?)", (address,))
        rows = self._rows()
        self._last_sequence = rows[-1].sequence if rows else 0
        if self._copy is not None:
            self._copy.make_whole(rows)

    def renew(self, now_ms: int) -> None:
        """Renew the lease.

        Raises:
            JournalFenced: another executor has it.
        """
        self._still_there()
        with self._guarded(), whole_batch(self._connection):
            self._renew(now_ms)

    def check(self) -> None:
        """Check that this executor still has the lease.

        Raises:
            JournalFenced: another executor has it.
        """
        self._still_there()
        holder = self.lease()
        if holder is None or holder.owner != self.owner:
            raise self._fenced(holder)

    def _rows(self) -> list[JournalRow]:
        with self._guarded():
            found = self._connection.execute(
                "SELECT sequence, body, checksum FROM entries ORDER BY sequence"
            ).fetchall()
        return [JournalRow(int(sequence), str(body), checksum) for sequence, body, checksum in found]

    def _still_there(self) -> None:
        """Check that the open file still has its name, and was not truncated or overwritten.

        SQLite would go on with the deleted file, or with the pages that it has in memory, and no other process could
        read them.

        Raises:
            JournalUnusable: it was deleted, replaced, truncated or overwritten.
        """
        if self._identity is None:
            return
        if _identity(self.path) != self._identity:
            raise JournalUnusable(f"{self.path} was deleted or replaced while we drove it", retriable=False)
        size, written_ns = _shape(self.path)
        if size < self._size:
            told = f"{self.path} was cut off from {self._size} to {size} bytes while we drove it"
            raise JournalUnusable(told, retriable=False)
        if written_ns != self._written_ns and not self._reads_whole():
            raise JournalUnusable(f"{self.path} was written over while we drove it", retriable=False)
        self._size, self._written_ns = size, written_ns

    def _reads_whole(self) -> bool:
        """Whether a new connection finds every entry in the file intact, and all tables too."""
        try:
            with contextlib.closing(_open_file(self.path)) as fresh:
                rows = fresh.execute("SELECT sequence, body, checksum FROM entries ORDER BY sequence")
                found = sum(JournalRow(*row).fits for row in rows)
                whole = fresh.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
        except sqlite3.DatabaseError as error:
            return _is_locked(error)  # Another process uses the file; the next check decides.
        except (TypeError, AttributeError):
            return False  # A column has a value of another type.
        return whole and found >= self._last_sequence

    def _renew(self, now_ms: int) -> None:
        changed = self._connection.execute(
            "UPDATE lease SET expires_at_ms = ? WHERE owner = ?", (now_ms + LEASE_MS, self.owner)
        )
        if changed.rowcount != 1:
            raise self._fenced(self._holder())

    def _fenced(self, holder: LeaseHolder | None) -> JournalFenced:
        """Make the error that the lease is not this executor's any more, but that of `holder` (None: nobody's)."""
        if holder is None or self._presence.has_ended(holder):
            return JournalForsaken(str(self.path))
        return JournalFenced(f"{self.path} is driven by {holder} now, not by us", retriable=False)

    def release(self) -> None:
        """Give the lease back, if this executor has it."""
        with self._guarded(), whole_batch(self._connection):
            self._connection.execute("DELETE FROM lease WHERE owner = ?", (self.owner,))

    def holder(self, now_ms: int) -> LeaseHolder | None:
        """Return the executor that drives the journal now; None if no executor does."""
        holder = self.lease()
        return None if holder is None or self._presence.lapsed(holder, now_ms) else holder

    def lease(self) -> LeaseHolder | None:
        """Return the lease as the file has it, even if it does not count any more; None if there is none."""
        with self._guarded():
            return self._holder()

    def _holder(self) -> LeaseHolder | None:
        address = "(SELECT value FROM about WHERE name = 'address')"
        asked = f"SELECT owner, host, process, expires_at_ms, {address} FROM lease"  # noqa: S608 - no value from outside
        row = self._connection.execute(asked).fetchone()
        if row is None:
            return None
        return LeaseHolder(str(row[0]), str(row[1]), int(row[2]), int(row[3]), str(row[4] or ""))

    def order(self, kind: str, document: object, now_ms: int) -> int:
        """Send an order to the executor that drives the journal; return the order's number."""
        body = orjson.dumps(document).decode()
        with self._guarded(), whole_batch(self._connection):
            row = self._connection.execute(
                "INSERT INTO orders (at_ms, kind, body) VALUES (?, ?, ?) RETURNING number", (now_ms, kind, body)
            ).fetchone()
        return int(row[0])

    def orders(self) -> tuple[OrderRow, ...]:
        """Return the orders without an answer, oldest first."""
        with self._guarded():
            rows = self._connection.execute(
                "SELECT number, at_ms, kind, body, answer FROM orders WHERE answer IS NULL ORDER BY number"
            )
            return tuple(OrderRow(*row) for row in rows)

    def answer(self, number: int, text: str) -> None:
        """Answer an order."""
        with self._guarded(), whole_batch(self._connection):
            self._connection.execute("UPDATE orders SET answer = ? WHERE number = ?", (text, number))

    def answer_to(self, number: int) -> str | None:
        """Return the answer to an order; None if there is none yet."""
        with self._guarded():
            row = self._connection.execute("SELECT answer FROM orders WHERE number = ?", (number,)).fetchone()
        return None if row is None or row[0] is None else str(row[0])

    def withdraw(self, number: int, now_ms: int) -> bool:
        """Withdraw an order without an answer, if no executor drives the journal; return whether it was withdrawn."""
        with self._guarded(), whole_batch(self._connection):
            holder = self._holder()
            if holder is not None and not self._presence.lapsed(holder, now_ms):
                return False
            taken = self._connection.execute("DELETE FROM orders WHERE number = ? AND answer IS NULL", (number,))
        return taken.rowcount == 1

    def close(self) -> None:
        """Close the file; the lease stays as it is."""
        self._connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file with this name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _shape(path: Path) -> tuple[int, int]:
    """Return a file's size in bytes, and when it was last written, in nanoseconds."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _open_file(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)


def _is_new(path: Path) -> bool:
    """Whether there is no file yet; its folder is created if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return not path.exists() or path.stat().st_size == 0


def _kind(error: sqlite3.DatabaseError) -> int | None:
    """Return SQLite's primary error code; None for an error that Python's library raised by itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _is_locked(error: sqlite3.DatabaseError) -> bool:
    """Whether another process has locked the file for now."""
    return _kind(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


_NO_ACCESS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
_READ_FAILED = (
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_CORRUPTFS,
)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file itself is the reason: not a lock, a missing right, or a disk that can't be written."""
    if _kind(error) == sqlite3.SQLITE_IOERR:
        return error.sqlite_errorcode in _READ_FAILED
    return not _is_locked(error) and _kind(error) not in (*_NO_ACCESS, sqlite3.SQLITE_FULL)


def _way_out(error: sqlite3.DatabaseError, path: Path) -> str:
    """Return an explanation of why the file can't be written, and what to do; "" if SQLite's message has to suffice."""
    if _kind(error) in _NO_ACCESS and os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        return (
            f"; {path.parent} is mounted read-only: mount it writable, or copy the journal with all its files (.copy, -wal) "
            "to a folder that is, and name the copy as the journal"
        )
    if _kind(error) in _NO_ACCESS:
        return f"; this needs a file, and a folder, that this account may write to ({path.parent})"
    if _kind(error) == sqlite3.SQLITE_FULL or (_kind(error) == sqlite3.SQLITE_IOERR and not _is_damage(error)):
        free = shutil.disk_usage(path.parent).free
        return f"; it could not be written, with {free:,} bytes free in {path.parent}: make room there and try again"
    return ""


def _sync_folder(folder: Path) -> None:
    """Make the file's name durable too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
