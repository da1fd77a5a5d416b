"""The lake's log: numbered files. Each file is one commit, and is created only if no file has that number yet.

```
ROOT/log/00000000000000000007.json               the seventh commit
ROOT/log/checkpoints/00000000000000000064.json   the state after the 64th, so that a reader need not read 64 files
```

A writer reads the log up to its newest number, writes its rows, and then tries to create the next number. If another
writer was faster, it looks at the commits that came in between. If one of them touches what its batch was decided by,
the writer begins anew; else it tries the next number. Decision 0403 has the reasons and figures.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, datetime
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.pipeline.lake.schemas import SNAPSHOTS
from shunter.pipeline.lake.stores import Store

VERSION = 1
COMPACTION, RETENTION, CLEAN = "compaction", "retention", "clean"
MORE_THAN_SAMPLES = (SNAPSHOTS, "cruise-control")
"""Kinds whose batches may bring rows of other tables even without a good sample. (A batch of another kind that brings
samples of brokers names `broker_samples` among its tables.)"""
_OF_BROKERS = "broker_samples"
"""The table whose windows' times are not in a commit."""
EVERY = 32
"""A checkpoint is written each time after so many commits."""
_KEPT_CHECKPOINTS = 4
_CHECKPOINTS = "checkpoints"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input. `fingerprint` is the SHA-256 of its contents, or length and time if these can't be read from here."""

    path: str
    fingerprint: str
    length: int


@dataclass(frozen=True, slots=True)
class StreamMark:
    """How far a stream has come: the newest batch of a query that is in this commit, and the newest window start seen."""

    query: str
    number: int
    watermark: datetime | None


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch in the log. `version` is its number; 0 if an older version wrote it, or if it is not committed yet."""

    ingest_id: str
    kind: str
    files: tuple[InputFile, ...] = ()
    good: int = 0
    rejected: int = 0
    rules: tuple[tuple[str, int], ...] = ()
    clusters: tuple[str, ...] = ()
    first_date: date | None = None
    last_date: date | None = None
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
    """Tables in which the batch has a folder; none if an older version wrote it."""
    streams: tuple[StreamMark, ...] = ()
    level: int = 0
    """How many merges the batch's rows went through."""
    forgets: tuple[str, ...] = ()
    """Replaced batches whose files are deleted, and old commits of `clean`."""
    forfeits: tuple[str, ...] = ()
    """Attempts that can't be committed any longer, because their files are deleted."""
    committed_at: datetime | None = None
    version: int = 0
    rolled_to: int = 0
    """The commit up to which all rows are in hours and days, if this commit was made after a roll-up; else 0."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The commits of a log of `version` entries, oldest first, without those that a later commit forgets."""

    version: int
    commits: tuple[Commit, ...] = ()

    @property
    def live(self) -> tuple[Commit, ...]:
        """Batches that no later one replaces."""
        replaced = {ingest_id for commit in self.commits for ingest_id in commit.supersedes}
        return tuple(commit for commit in self.commits if commit.ingest_id not in replaced)

    def after(self, commit: Commit) -> LogState:
        """The state with one more commit."""
        gone = set(commit.forgets)
        kept = self.commits if not gone else tuple(one for one in self.commits if one.ingest_id not in gone)
        # A commit of `clean` is kept as well: the attempts that it forbids must stay forbidden.
        return LogState(commit.version, (*kept, commit))


class CommitLog:
    """Reads and writes the log in a store. It remembers what it has read, because commits never change."""

    def __init__(self, store: Store, place: str, older: Callable[[], Iterable[Commit]] | None = None) -> None:
        """Take a store.

        Args:
            place: The log's name in errors.
            older: Returns the commits of a lake that a version without a log wrote.
        """
        self._store = store
        self._place = place
        self._older = older
        self._read: LogState | None = None

    def state(self) -> LogState:
        """All that is committed now.

        Raises:
            FormatError: a commit of a newer version of Shunter, or one that can't be read; or a checkpoint or a commit
                is missing, so that what is committed can't be known.
        """
        known = self._known()
        # Commits are pruned in their order. A log that still has the last commit that was read has all later ones.
        anew = known is not self._read
        while True:
            following = known.version + 1
            raw = self._store.read(_name(following))
            if raw is not None:
                known = known.after(_decode(raw, self._place, following))
            elif self._newest_checkpoint() > known.version:
                # Entries below a checkpoint may be deleted.
                known, anew = self._begun(), True
            elif not anew or self._is_at_end(known.version):
                break
        self._read = known
        return known

    def append(self, base: LogState, commit: Commit) -> LogState | None:
        """Make a commit the next one after a state; None if another writer's commit is the next one."""
        numbered = replace(commit, version=base.version + 1)
        if not self._store.create(_name(numbered.version), _encode(numbered)):
            return None
        if self._newest_checkpoint() >= numbered.version and not _has(self.state(), numbered.ingest_id):
            # This number was created and pruned long ago: no reader would ever read a commit with it.
            self._store.delete(_name(numbered.version))
            return None
        after = base.after(numbered)
        if numbered.version % EVERY == 0:
            self._checkpoint(after)
        return after

    def prune(self, before: datetime) -> int:
        """Delete entries that a checkpoint covers and that were made before a moment; returns how many.

        The commit after which the newest checkpoint was written stays: if the checkpoint is lost, the commit shows it.
        """
        newest = self._newest_checkpoint()
        deleted = 0
        for name in sorted(self._store.names("")):
            number = _number(name)
            if number is None or number >= newest:
                continue
            raw = self._store.read(name)
            made = None if raw is None else _decode(raw, self._place, number).committed_at
            if made is None or made >= before:
                break
            self._store.delete(name)
            deleted += 1
        return deleted

    def _known(self) -> LogState:
        """The state to go on reading from: the one that was read before, if the log still has its last commit."""
        known = self._read
        if known is not None and known.version > 0:
            raw = self._store.read(_name(known.version))
            last = known.commits[-1].ingest_id if known.commits else ""
            if raw is not None and _decode(raw, self._place, known.version).ingest_id == last:
                return known
        return self._begun()

    def _begun(self) -> LogState:
        """The state to begin with: the newest checkpoint's, or that before the first commit if there is no checkpoint."""
        looked_for = -1
        while newest := self._newest_checkpoint():
            found = self._of_checkpoint(newest)
            if found is not None:
                return found
            if newest == looked_for:
                place = f"{self._place}/{_CHECKPOINTS}/{_name(newest)}"
                raise FormatError(place, "is listed, but can't be read: bring it back from a backup")
            looked_for = newest  # It was deleted after it was listed: newer ones are there.
        return LogState(0, tuple(self._older()) if self._older is not None else ())

    def _is_at_end(self, version: int) -> bool:
        """Whether a commit is the last one. False: the log has changed since the commit was read, and is read again.

        Raises:
            FormatError: later commits are there, and the one that follows is not.
        """
        later = [number for name in self._store.names("") if (number := _number(name) or 0) > version]
        if not later:
            return True
        if version + 1 in later or self._newest_checkpoint() > version:
            return False
        raise self._gap(version + 1, min(later) - 1, max(later))

    def _gap(self, first: int, last: int, newest: int) -> FormatError:
        """The error of a log in which the commits from `first` to `last` are neither there nor in a checkpoint."""
        gone = f"commit {first} is" if first == last else f"commits {first} to {last} are"
        checkpoint = newest - newest % EVERY
        if checkpoint < last:
            rule = f"{gone} missing, and commit {last + 1} is there: bring what is missing back from a backup"
            return FormatError(f"{self._place}/{_name(first)}", rule)
        # A writer that was killed behind its commit wrote no checkpoint. So the newest that there was may be an older one.
        way = f"bring it, or another checkpoint of commit {last} or later, back from a backup"
        rule = f"is missing, and {gone} deleted, so that nothing says what is committed: {way}"
        return FormatError(f"{self._place}/{_CHECKPOINTS}/{_name(checkpoint)}", rule)

    def _checkpoint(self, state: LogState) -> None:
        document = {"version": VERSION, "commits": [_document(commit) for commit in state.commits]}
        self._store.create(f"{_CHECKPOINTS}/{_name(state.version)}", orjson.dumps(document))
        for name in sorted(self._store.names(_CHECKPOINTS))[:-_KEPT_CHECKPOINTS]:
            self._store.delete(f"{_CHECKPOINTS}/{name}")

    def _newest_checkpoint(self) -> int:
        return max((_number(name) or 0 for name in self._store.names(_CHECKPOINTS)), default=0)

    def _of_checkpoint(self, version: int) -> LogState | None:
        name = f"{_CHECKPOINTS}/{_name(version)}"
        raw = self._store.read(name)
        if raw is None:
            return None
        with _reading(f"{self._place}/{name}"):
            document = _understood(orjson.loads(raw), f"{self._place}/{name}")
            return LogState(version, tuple(_commit(one) for one in document["commits"]))


def conflicts(mine: Commit, theirs: Commit, known: Collection[str]) -> bool:
    """Whether a commit was decided without another one that matters to it, so that it has to be decided again.

    Args:
        theirs: A commit that came in between.
        known: Batches that `mine` was decided by. A compaction of these alone changes none of their rows.
    """
    if mine.ingest_id in theirs.forfeits or theirs.ingest_id in mine.forfeits:
        return True
    if set(mine.supersedes) & {*theirs.supersedes, *theirs.forgets}:
        return True
    if mine.kind in (CLEAN, COMPACTION, RETENTION):
        # These only rewrite or delete rows that were there before. A batch that came meanwhile stays beside the new
        # one.
        return False
    if theirs.kind == CLEAN or (theirs.kind == COMPACTION and set(theirs.supersedes) <= set(known)):
        return False
    if {file.fingerprint for file in mine.files} & {file.fingerprint for file in theirs.files}:
        return True
    if {mark.query for mark in mine.streams} & {mark.query for mark in theirs.streams}:
        return True
    if not set(mine.clusters) & set(theirs.clusters):
        return False
    if theirs.kind == RETENTION:
        return True
    both_of_brokers = _OF_BROKERS in mine.tables and _OF_BROKERS in theirs.tables
    return both_of_brokers or (mine.kind == theirs.kind and mine.kind in MORE_THAN_SAMPLES) or touch(mine, theirs)


def touch(one: Commit, other: Commit) -> bool:
    """Whether some windows of both commits may be the same or overlap."""
    if one.since is None or one.until is None or other.since is None or other.until is None:
        return bool(one.good and other.good)
    return one.since < other.until and other.since < one.until


def may_span(commits: Iterable[Commit], seconds: int) -> bool:
    """Whether windows of these batches may be so far apart; true if a batch does not record its windows' times."""
    good = [one for one in commits if one.good]
    begun = [one.since for one in good if one.since is not None]
    ended = [one.until for one in good if one.until is not None]
    if min(len(begun), len(ended)) < len(good):
        return True
    return bool(good) and (max(ended) - min(begun)).total_seconds() >= seconds


def _has(state: LogState, ingest_id: str) -> bool:
    return any(commit.ingest_id == ingest_id for commit in state.commits)


def _name(version: int) -> str:
    return f"{version:020d}{_SUFFIX}"


def _number(name: str) -> int | None:
    stem = name.removesuffix(_SUFFIX)
    return int(stem) if stem.isdigit() else None


def _document(commit: Commit) -> dict[str, Any]:
    return asdict(commit)


def _encode(commit: Commit) -> bytes:
    return orjson.dumps({"version": VERSION, "commit": _document(commit)}, option=orjson.OPT_APPEND_NEWLINE)


def _decode(raw: bytes, place: str, version: int) -> Commit:
    with _reading(f"{place}/{_name(version)}"):
        return _commit(_understood(orjson.loads(raw), f"{place}/{_name(version)}")["commit"])


@contextlib.contextmanager
def _reading(place: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(place, f"is no commit of a lake: {error!r}") from error


def _understood(document: Any, place: str) -> Any:
    if document["version"] != VERSION:
        raise FormatError(place, f"version {document['version']} is not understood; {VERSION} is: use a newer Shunter")
    return document


_NAMES = {field.name for field in fields(Commit)}


def _commit(document: dict[str, Any]) -> Commit:
    values = {name: document[name] for name in _NAMES & set(document)}
    values["files"] = tuple(InputFile(**one) for one in document["files"])
    values["rules"] = tuple((rule, rows) for rule, rows in document["rules"])
    values["streams"] = tuple(
        StreamMark(one["query"], one["number"], _time(one["watermark"])) for one in document["streams"]
    )
    for name in ("clusters", "supersedes", "tables", "forgets", "forfeits"):
        values[name] = tuple(document[name])
    for name in ("first_date", "last_date", "keep_from"):
        values[name] = None if document[name] is None else date.fromisoformat(document[name])
    for name in ("since", "until", "watermark", "committed_at"):
        values[name] = _time(document[name])
    return Commit(**values)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
