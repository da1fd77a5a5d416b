"""Commits: what is known of each batch, and when two batches touch each other.

A commit is a row of the table `batches`. It is appended last, behind the rows of its batch in other tables, and under
the next number: Delta lets one writer take a number (`tables.Lake`). Readers see the rows of batches that have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from typing import Any
from uuid import uuid4

from shunter.errors import FormatError
from shunter.pipeline.lake.schemas import BROKER_SAMPLES, SCHEMA_VERSION, SNAPSHOTS

COMPACTION, RETENTION, CLEAN = "compaction", "retention", "clean"
MAINTENANCE = (COMPACTION, RETENTION, CLEAN)
MORE_THAN_SAMPLES = (SNAPSHOTS, "cruise-control")
"""Kinds whose batches may bring rows of other tables even without a good sample. (A batch of another kind that brings
samples of brokers names `broker_samples` among its tables.)"""


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input. `fingerprint` is the SHA-256 of its contents, or length and time if these can't be read from here."""

    path: str
    fingerprint: str
    length: int


@dataclass(frozen=True, slots=True)
class StreamMark:
    """Which batch of which query of a stream a commit is."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch. Fields are columns of `batches`; `version` is 0 if it is not committed yet."""

    ingest_id: str
    kind: str
    files: tuple[InputFile, ...] = ()
    good: int = 0
    rejected: int = 0
    rules: tuple[tuple[str, int], ...] = ()
    clusters: tuple[str, ...] = ()
    since: datetime | None = None
    """Start of the first window of its good rows."""
    until: datetime | None = None
    """End of the last window of its good rows."""
    longest: int = 0
    """Seconds of its longest window."""
    watermark: datetime | None = None
    keep_from: date | None = None
    supersedes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    """Tables in which the batch has rows."""
    stream: StreamMark | None = None
    forfeits: tuple[str, ...] = ()
    """Attempts that can't be committed any longer, because their rows are deleted."""
    committed_at: datetime | None = None
    version: int = 0
    rolled_to: int = 0
    """The commit up to which all rows are in hours and days, if this commit was made after a roll-up; else 0."""


@dataclass(frozen=True, slots=True)
class LogState:
    """All commits, oldest first; their versions are 1, 2, 3 and so on."""

    commits: tuple[Commit, ...] = ()

    @property
    def version(self) -> int:
        """The newest commit's; 0: there is none."""
        return len(self.commits)

    @property
    def live(self) -> tuple[Commit, ...]:
        """Batches that no later one replaces."""
        replaced = {ingest_id for commit in self.commits for ingest_id in commit.supersedes}
        return tuple(commit for commit in self.commits if commit.ingest_id not in replaced)

    @property
    def keep_from(self) -> date | None:
        """Raw rows of earlier days are deleted; None: of no day."""
        return max((one.keep_from for one in self.commits if one.keep_from is not None), default=None)

    @property
    def rolled_to(self) -> int:
        """The commit up to which all rows are in hours and days."""
        return max((one.rolled_to for one in self.commits), default=0)


def anew(commit: Commit) -> Commit:
    """The same batch under another id. Rows that were written under the former one count nowhere, and `clean` deletes them."""
    return replace(commit, ingest_id=f"{commit.ingest_id[:-8]}{uuid4().hex[:8]}")


def conflicts(mine: Commit, theirs: Commit) -> bool:
    """Whether a commit was decided without another one that matters to it, so that it has to be decided again.

    Args:
        theirs: A commit that came in between.
    """
    if mine.ingest_id in theirs.forfeits or theirs.ingest_id in mine.forfeits:
        return True
    # Maintenance only rewrites or deletes rows that were there before.
    if mine.kind in MAINTENANCE or theirs.kind in (CLEAN, COMPACTION):
        return False
    if theirs.kind == RETENTION or set(mine.supersedes) & set(theirs.supersedes):
        return True
    if {file.fingerprint for file in mine.files} & {file.fingerprint for file in theirs.files}:
        return True
    if mine.stream is not None and theirs.stream is not None and mine.stream.query == theirs.stream.query:
        return True
    if not set(mine.clusters) & set(theirs.clusters):
        return False
    both_of_brokers = BROKER_SAMPLES.name in mine.tables and BROKER_SAMPLES.name in theirs.tables
    return both_of_brokers or (mine.kind == theirs.kind and mine.kind in MORE_THAN_SAMPLES) or touch(mine, theirs)


def touch(one: Commit, other: Commit) -> bool:
    """Whether some windows of both commits may be the same or overlap."""
    if one.since is None or one.until is None or other.since is None or other.until is None:
        return bool(one.good and other.good)
    return one.since < other.until and other.since < one.until


def may_span(commits: Iterable[Commit], seconds: int) -> bool:
    """Whether windows of these batches may be so far apart."""
    begun = [one.since for one in commits if one.since is not None]
    ended = [one.until for one in commits if one.until is not None]
    return bool(begun) and (max(ended) - min(begun)).total_seconds() >= seconds


def commit_of(row: Mapping[str, Any], place: str) -> Commit:
    """The commit in a row of `batches`.

    Raises:
        FormatError: a newer version of Shunter wrote it.
    """
    if row["schema_version"] != SCHEMA_VERSION:
        rule = f"version {row['schema_version']} is not understood; {SCHEMA_VERSION} is: use a newer Shunter"
        raise FormatError(place, rule)
    told = {field.name: row[field.name] for field in fields(Commit)}
    for name in ("rules", "clusters", "supersedes", "tables", "forfeits"):
        told[name] = tuple(tuple(one) if name == "rules" else one for one in told[name])
    for name in ("since", "until", "watermark", "committed_at"):
        told[name] = _in_utc(told[name])
    told["stream"] = None if told["stream"] is None else StreamMark(*told["stream"])
    return Commit(**told | {"files": tuple(InputFile(*one) for one in told["files"])})


def _in_utc(moment: datetime | None) -> datetime | None:
    """Spark gives times of this process's zone, and does not name it."""
    return None if moment is None else moment.astimezone(UTC)
