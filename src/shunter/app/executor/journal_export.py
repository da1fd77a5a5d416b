"""Journals as JSON lines, which Spark can read: one line for each entry, with its cluster and its journal."""

from __future__ import annotations

import sqlite3
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson

from shunter.errors import FormatError

_NEEDED = {"cluster_id", "journal", "sequence", "at", "kind"}
_SQLITE = b"SQLite format 3\x00"


@contextmanager
def as_json_lines(journals: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of journals as JSON lines: SQLite files are exported, files of JSON lines are used unchanged.

    Raises:
        FormatError: a journal is missing or damaged; names the entry.
    """
    with tempfile.TemporaryDirectory(prefix="shunter-journals-") as folder:
        yield tuple(_line_file(name, Path(folder) / f"{at}.jsonl") for at, name in enumerate(journals))


def _line_file(name: str, beside: Path) -> str:
    path = Path(name)
    if "://" in name or path.is_dir():
        return name
    if not path.exists():
        raise FormatError(name, "there is no such journal")
    with path.open("rb") as stream:
        if stream.read(len(_SQLITE)) != _SQLITE:
            stream.seek(0)
            _check_lines(name, stream)
            return name
    return str(export_journal(path, beside))


def _check_lines(name: str, lines: Iterable[bytes]) -> None:
    """Check that each line is an entry, because Spark would count any other line as an entry without a kind."""
    for number, line in enumerate(lines, start=1):
        try:
            entry: Any = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise FormatError(
                f"{name}, line {number}", f"is not a journal: neither a SQLite file nor JSON ({error})"
            ) from error
        missing = sorted(_NEEDED - set(entry)) if isinstance(entry, dict) else sorted(_NEEDED)
        if missing:
            raise FormatError(f"{name}, line {number}", f"is not a journal entry: it has no {', '.join(missing)}")


def export_journal(journal: Path, out: Path, *, plan_id: str | None = None) -> Path:
    """Write an executor's journal as JSON lines, without taking its lease, so an executor may drive it meanwhile.

    Args:
        plan_id: The pipeline's id of the journal's last plan; the journal has an id of its own for it.

    Raises:
        FormatError: it is not a journal, or an entry is damaged.
    """
    entries = list(_entries(journal))
    plans = [at for at, entry in enumerate(entries) if entry["kind"] == "plan-accepted"]
    clusters = [str(entries[at]["cluster_id"]) for at in plans]
    if plans and plan_id is not None:
        entries[plans[-1]]["plan_id"] = plan_id
    cluster = clusters[-1] if clusters else journal.stem
    with out.open("wb") as stream:
        for entry in entries:
            line = {**entry, "cluster_id": cluster, "journal": journal.stem}
            stream.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    return out


def _entries(journal: Path) -> Iterator[dict[str, Any]]:
    try:
        with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT sequence, body, checksum FROM entries ORDER BY sequence").fetchall()
    except sqlite3.DatabaseError as error:
        raise FormatError(str(journal), f"not readable as a journal: {error}") from error
    for sequence, body, checksum in rows:
        place = f"{journal}, entry {sequence}"
        if checksum is not None and zlib.crc32(body.encode()) != checksum:
            raise FormatError(place, "the checksum does not match: the entry was damaged")
        yield {"sequence": sequence, **orjson.loads(body)}
