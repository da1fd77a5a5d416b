"""A copy of a SQLite journal's entries as lines of text beside it, to be read if the journal itself can't be read.

Each entry is one line: its number, its checksum and its JSON, separated by spaces. Lines are written after the
journal's own commit and are not synced, so the copy may lack the last entries after a loss of power. The copy is read
only if the journal is damaged.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from shunter.errors import FormatError
from shunter.formats.journal import JournalRow, decode_line
from shunter.model.execution import JournalEntry

_TAIL_BYTES = 1_000_000
"""Bytes at the end of the copy that are read to find its last entry, which is far smaller."""


class JournalCopy:
    """The copy beside one journal. If it can't be written, the journal goes on without it."""

    def __init__(self, journal: Path) -> None:
        """Choose the copy's path; nothing is read yet."""
        self.path = journal.with_name(f"{journal.name}.copy")
        self.lacks_some = False
        """Whether entries could not be written. Entries after such a gap can't be used, until `make_whole` succeeds."""

    def append(self, rows: Sequence[JournalRow]) -> None:
        """Add entries that are durable."""
        try:
            with self.path.open("ab") as stream:
                stream.writelines(_line(row) for row in rows)
        except OSError:
            self.lacks_some = True

    def make_whole(self, rows: Sequence[JournalRow]) -> None:
        """Write all entries anew, unless the copy ends with the last of them."""
        if rows and not self.lacks_some and self._last() == _line(rows[-1]):
            return
        beside = self.path.with_name(f"{self.path.name}.new")
        with suppress(OSError):
            with beside.open("wb") as stream:
                stream.writelines(_line(row) for row in rows)
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(self.path)
            self.lacks_some = False

    def _last(self) -> bytes:
        try:
            with self.path.open("rb") as stream:
                stream.seek(0, os.SEEK_END)
                stream.seek(max(0, stream.tell() - _TAIL_BYTES))
                return (stream.readlines() or [b""])[-1]
        except OSError:
            return b""

    def read(self) -> tuple[JournalEntry, ...]:
        """Return the entries from the first on, up to the first that is damaged or missing."""
        readable: list[JournalEntry] = []
        try:
            with self.path.open("rb") as stream:
                for line in stream:
                    number, checksum, body = line.decode().rstrip("\n").split(" ", 2)
                    entry = decode_line(JournalRow(int(number), body, int(checksum)), str(self.path))
                    if entry.sequence != len(readable) + 1:
                        break
                    readable.append(entry)
        except (OSError, ValueError, FormatError):
            pass  # The entries before the damage are returned.
        return tuple(readable)


def _line(row: JournalRow) -> bytes:
    return f"{row.sequence} {row.checksum} {row.body}\n".encode()
