"""The entries of a SQLite journal once more, as lines of text beside it: what can be read when the file can't.

One line an entry: its number, its checksum, its JSON, with spaces between. Lines are written after the journal's own
commit and are not synced, so the copy may lack the last entries after a loss of power; it is never read but for damage.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from shunter.errors import FormatError
from shunter.formats.journal import VERSION, JournalRow, decode_line
from shunter.model.execution import JournalEntry

_TAIL_BYTES = 1_000_000
"""So much of its end is looked at to find the last entry: an entry is smaller by far."""


class JournalCopy:
    """The copy beside one journal. Where it can't be written, the journal goes on without it."""

    def __init__(self, journal: Path) -> None:
        """Name it; nothing is read yet."""
        self.path = journal.with_name(f"{journal.name}.copy")
        self.lacks_some = False
        """Entries could not be written: what is added behind the gap would be of no use. `make_whole` ends this."""

    def append(self, rows: Sequence[JournalRow]) -> None:
        """Add entries that are durable."""
        try:
            with self.path.open("ab") as stream:
                stream.writelines(_line(row) for row in rows)
        except OSError:
            self.lacks_some = True

    def make_whole(self, rows: Sequence[JournalRow]) -> None:
        """Write all entries, where the copy does not end with the last of them."""
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
        """Entries from the first on, as far as they are whole and follow one another."""
        readable: list[JournalEntry] = []
        try:
            with self.path.open("rb") as stream:
                for line in stream:
                    number, checksum, body = line.decode().rstrip("\n").split(" ", 2)
                    entry = decode_line(JournalRow(int(number), body, int(checksum)), VERSION, str(self.path))
                    if entry.sequence != len(readable) + 1:
                        break
                    readable.append(entry)
        except (OSError, ValueError, FormatError):
            pass  # What comes before it is worth having.
        return tuple(readable)


def _line(row: JournalRow) -> bytes:
    return f"{row.sequence} {row.checksum} {row.body}\n".encode()
