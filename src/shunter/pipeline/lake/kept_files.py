"""The files of one cluster in a derived table of a lake, as the service finds them without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from shunter.errors import FormatError

Stamp = tuple[tuple[str, int, int], ...]
"""Names, times (nanoseconds since 1970) and sizes of files, by which a change is seen."""


def cluster_folder(root: Path, table: str, cluster_id: str) -> Path:
    """The folder of one cluster in a table, which need not be there.

    Raises:
        FormatError: the table is Delta's.
    """
    folder = root / table
    if (folder / "_delta_log").exists():
        raise FormatError(str(folder), "is a Delta table: the service reads Parquet alone")
    return folder / f"cluster_id={quote(cluster_id, safe='')}"


def stamp_of(folder: Path, pattern: str = "*.parquet") -> Stamp:
    """The stamp of a folder's files; empty where there is no such folder.

    Raises:
        FormatError: a file went meanwhile.
    """
    found: list[tuple[str, int, int]] = []
    try:
        for path in sorted(folder.glob(pattern)):
            status = path.stat()
            found.append((str(path), status.st_mtime_ns, status.st_size))
    except OSError as error:
        raise FormatError(str(folder), f"can't be read: {error.strerror}") from error
    return tuple(found)


def in_utc(moment: datetime) -> datetime:
    """A time of a table with its zone. Spark writes times without a zone, and means UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
