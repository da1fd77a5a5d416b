"""The service's store: one SQLite file in WAL mode. Every batch is one transaction, synced before anything follows it.

The store has proposals, decisions, intents and looks. What executions did is in the journal of each cluster. Tables:
`about` (version), `proposals`, `plans` (the partitions that proposals change), `events`, `intents`, `switches`,
`memories`, `looks`, `answers`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from shunter.drivers.host.locked_file import FileTaken, LockedFile
from shunter.drivers.journal.sqlite_batches import make_tables, whole_batch
from shunter.errors import DriverError, FormatError
from shunter.formats.keeper_memory import decode_memories, encode_memories
from shunter.formats.service_records import (
    VERSION,
    decode_look,
    decode_proposal,
    encode_changes,
    encode_look,
    encode_proposal,
)
from shunter.model.keeper import Memory
from shunter.model.service import (
    OPEN,
    EventSearch,
    HistoryEvent,
    IntentKind,
    KeptIntent,
    KeptProposal,
    KeyedAnswer,
    KillSwitch,
    LookGist,
    OrderDone,
    StoreBatch,
    Words,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS proposals (id TEXT PRIMARY KEY, cluster TEXT NOT NULL, state TEXT NOT NULL,
    made_at_ms INTEGER NOT NULL, changed_at_ms INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS proposals_by_cluster ON proposals (cluster, made_at_ms);
CREATE TABLE IF NOT EXISTS plans (id TEXT PRIMARY KEY, changes TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY AUTOINCREMENT, cluster TEXT NOT NULL,
    at_ms INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, subject TEXT NOT NULL, who TEXT NOT NULL, cause TEXT NOT NULL, until_ms INTEGER, facts TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_by_time ON events (at_ms);
CREATE INDEX IF NOT EXISTS events_by_end ON events (COALESCE(until_ms, at_ms), number);
CREATE TABLE IF NOT EXISTS intents (cluster TEXT NOT NULL, kind TEXT NOT NULL, about TEXT NOT NULL,
    value INTEGER NOT NULL, who TEXT NOT NULL, at_ms INTEGER NOT NULL, comment TEXT NOT NULL, PRIMARY KEY (cluster, kind, about));
CREATE TABLE IF NOT EXISTS switches (cluster TEXT PRIMARY KEY, who TEXT NOT NULL,
    at_ms INTEGER NOT NULL, comment TEXT NOT NULL, kept TEXT NOT NULL, lifted INTEGER NOT NULL,
    fleet INTEGER NOT NULL, unsent INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS memories (cluster TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS looks (cluster TEXT NOT NULL, at_ms INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (cluster, at_ms));
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, body TEXT NOT NULL, at_ms INTEGER NOT NULL,
    text TEXT, proposal TEXT, undone TEXT);
"""
DAY_MS = 24 * 3_600_000
LOOKS_KEPT_MS = 90 * DAY_MS
EVENTS_KEPT_MS = 400 * DAY_MS
ANSWERS_KEPT_MS = 7 * DAY_MS
PLANS_KEPT_MS = 30 * DAY_MS
PLANS_KEPT = 20
"""Plans of closed proposals that are kept of one cluster, for at most `PLANS_KEPT_MS`."""
PROPOSALS_KEPT = 2_000
"""Closed proposals that are kept of one cluster, for at most `EVENTS_KEPT_MS`."""
_OPEN = orjson.dumps([state.value for state in OPEN]).decode()
_IS_OVER = "state NOT IN (SELECT value FROM json_each(?))"


class StoreFailed(DriverError):
    """The store can't be written or read now: the disk is full, or returns errors."""


class StoreDamaged(FormatError):
    """The file's contents can't be trusted."""


class ServiceTaken(DriverError):
    """Another service of this host serves from the same folder."""


class ServiceSeat:
    """The right to serve from a folder; kept until `leave`, or until the process ends: the kernel unlocks the file."""

    def __init__(self, folder: Path) -> None:
        """Take the seat.

        Raises:
            ServiceTaken: another process has the seat; the message names it.
            StoreFailed: the folder can't be created or written to.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = LockedFile(folder / "service.lock", f"process {os.getpid()}")
        except FileTaken as taken:
            raise ServiceTaken(f"{folder}: {taken} serves from this folder", retriable=True) from None
        except OSError as error:
            raise StoreFailed(
                f"{folder}: can't be used as a state folder: {error.strerror}", retriable=False
            ) from error

    def leave(self) -> None:
        """Give the seat back."""
        self._lock.leave()


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _opening(path: Path) -> Iterator[None]:
    """Convert SQLite's errors at the opening of a file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreFailed(f"{path}: can't be opened: {error}", retriable=True) from error
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(str(path), f"is no store of the service: {error}") from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file with this name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class ServiceStore:
    """One store. Not thread-safe: use it in one thread at a time, as the service's `Records` does."""

    def __init__(self, path: Path) -> None:
        """Open or create the file, and check that it is intact.

        Raises:
            StoreDamaged: the file is not a store, is damaged, or has a version that is not understood.
            StoreFailed: the file can't be opened.
        """
        self.path = path
        with _opening(path):
            self._connection = _connected(path)
        with contextlib.ExitStack() as refused, _opening(path):
            refused.callback(self._connection.close)  # Whoever may not use the file does not keep it open.
            (told,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
            if told != "ok":
                raise StoreDamaged(str(path), f"is damaged: {told}")
            with whole_batch(self._connection):
                make_tables(self._connection, _SCHEMA)
                self._connection.execute("INSERT OR IGNORE INTO about VALUES ('version', ?)", (str(VERSION),))
            row = self._connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()
            if row[0] != str(VERSION):
                raise StoreDamaged(str(path), f"is of version {row[0]}, and this program understands {VERSION}")
            refused.pop_all()
        self._file = _identity(path)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Convert SQLite's errors to the store's."""
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise StoreFailed(f"{self.path}: {error}", retriable=True) from error
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(str(self.path), str(error)) from error

    def write(self, batch: StoreBatch) -> None:
        """Make a batch durable, all or none.

        Raises:
            StoreFailed: the file can't be written; nothing was written.
            StoreDamaged: the file can no longer be trusted.
        """
        with self._guarded():
            self._stay_in_place()
        with self._guarded(), whole_batch(self._connection):
            run = self._connection.execute
            for proposal in batch.proposals:
                self._write_proposal(proposal)
            for event in batch.events:
                self._write_event(event)
            for cluster, intent in batch.intents:
                self._write_intent(cluster, intent)
            for cluster, kind, about in batch.intents_gone:
                run("DELETE FROM intents WHERE cluster = ? AND kind = ? AND about = ?", (cluster, kind.value, about))
            for switch in batch.switches:
                self._write_switch(switch)
            for cluster in batch.switches_gone:
                run("DELETE FROM switches WHERE cluster = ?", (cluster,))
            self._write_look(batch)
            if batch.answer_gone:
                run("DELETE FROM answers WHERE key = ?", (batch.answer_gone,))
            if batch.answer is not None:
                self._write_answer(batch.answer)

    def replace_words(self, cluster: str, words: Words, events: Sequence[HistoryEvent] = ()) -> None:
        """Let the words of a cluster be these, as the cluster itself has them; proposals that are over stay.

        `events`: what the words tell of other services.

        Raises:
            StoreFailed, StoreDamaged: as for `write`.
        """
        with self._guarded():
            self._stay_in_place()
        with self._guarded(), whole_batch(self._connection):
            run = self._connection.execute
            run("DELETE FROM intents WHERE cluster = ?", (cluster,))
            run("DELETE FROM switches WHERE cluster = ?", (cluster,))
            known = orjson.dumps([each.id for each in words.proposals]).decode()
            run(
                f"DELETE FROM proposals WHERE cluster = ? AND NOT ({_IS_OVER}) "  # noqa: S608 - no value in it
                "AND id NOT IN (SELECT value FROM json_each(?))",
                (cluster, _OPEN, known),
            )
            run("DELETE FROM plans WHERE id NOT IN (SELECT id FROM proposals)")
            for intent in words.intents:
                self._write_intent(cluster, intent)
            if words.switch is not None:
                self._write_switch(words.switch)
            for proposal in words.proposals:
                self._write_proposal(proposal)
            for answer in words.answers:
                self._write_answer(answer)
            for event in events:
                self._write_event(event)

    def _write_intent(self, cluster: str, intent: KeptIntent) -> None:
        kept = (cluster, intent.kind.value, intent.about, intent.value, intent.who, intent.at_ms, intent.comment)
        self._connection.execute("INSERT OR REPLACE INTO intents VALUES (?, ?, ?, ?, ?, ?, ?)", kept)

    def _write_switch(self, switch: KillSwitch) -> None:
        row = (*switch[:4], orjson.dumps(switch.kept).decode(), *switch[5:])
        self._connection.execute("INSERT OR REPLACE INTO switches VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _write_proposal(self, proposal: KeptProposal) -> None:
        run = self._connection.execute
        row = (proposal.id, proposal.cluster, proposal.state.value, proposal.made_at_ms, proposal.changed_at_ms)
        run("INSERT OR REPLACE INTO proposals VALUES (?, ?, ?, ?, ?, ?)", (*row, encode_proposal(proposal)))
        if proposal.changes:
            # A plan never changes, and may be long: it is written once.
            run("INSERT OR IGNORE INTO plans VALUES (?, ?)", (proposal.id, encode_changes(proposal)))
        if proposal.state not in OPEN:
            self._let_go(proposal.cluster, proposal.changed_at_ms)

    def _stay_in_place(self) -> None:
        """Check that the open file still has its name. A file that was removed is written again from the open one.

        Raises:
            StoreFailed: another file has the name.
        """
        found = _identity(self.path)
        if found == self._file:
            return
        if found is not None:
            told = "is another file than the one that this service opened: bring that one back, or restart the service"
            raise StoreFailed(f"{self.path}: {told}", retriable=True)
        copy = self.path.with_name(self.path.name + ".new")
        copy.unlink(missing_ok=True)
        self._connection.execute("VACUUM INTO ?", (str(copy),))
        # SQLite removes the write-ahead log by its name when it closes, so the new file gets the name only after that.
        self._connection.close()
        copy.replace(self.path)
        self._connection = _connected(self.path)
        self._file = _identity(self.path)

    def _let_go(self, cluster: str, now_ms: int) -> None:
        """Delete old closed proposals, and earlier than these the partitions of their plans."""
        run = self._connection.execute
        over = f"SELECT id FROM proposals WHERE cluster = ? AND {_IS_OVER}"  # noqa: S608 - no value in it
        latest = f"{over} ORDER BY changed_at_ms DESC LIMIT ?"
        for table, kept_ms, most in (
            ("plans", PLANS_KEPT_MS, PLANS_KEPT),
            ("proposals", EVENTS_KEPT_MS, PROPOSALS_KEPT),
        ):
            run(
                f"DELETE FROM {table} WHERE id IN ({over} AND (changed_at_ms < ? OR id NOT IN ({latest})))",  # noqa: S608
                (cluster, _OPEN, now_ms - kept_ms, cluster, _OPEN, most),
            )

    def _write_event(self, event: HistoryEvent) -> None:
        self._connection.execute(
            "INSERT INTO events (cluster, at_ms, kind, text, subject, who, cause, until_ms, facts) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                event.cluster,
                event.at_ms,
                event.kind,
                event.text,
                event.subject,
                event.who,
                event.cause,
                event.until_ms,
                orjson.dumps(dict(event.facts)).decode(),
            ),
        )

    def _write_look(self, batch: StoreBatch) -> None:
        run = self._connection.execute
        if batch.memory is not None:
            cluster, memory = batch.memory
            run("INSERT OR REPLACE INTO memories VALUES (?, ?)", (cluster, encode_memories({cluster: memory})))
        if batch.look is not None:
            cluster, gist = batch.look
            run("INSERT OR REPLACE INTO looks VALUES (?, ?, ?)", (cluster, gist.at_ms, encode_look(gist)))
            run("DELETE FROM events WHERE at_ms < ?", (gist.at_ms - EVENTS_KEPT_MS,))
            run("DELETE FROM looks WHERE cluster = ? AND at_ms < ?", (cluster, gist.at_ms - LOOKS_KEPT_MS))
            self._let_go(cluster, gist.at_ms)

    def _write_answer(self, answer: KeyedAnswer) -> None:
        done = answer.done
        told = (None, None, None) if done is None else (*done[:2], orjson.dumps(done.undone).decode())
        run = self._connection.execute
        run("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", (answer.key, answer.order, answer.at_ms, *told))
        run("DELETE FROM answers WHERE at_ms < ?", (answer.at_ms - ANSWERS_KEPT_MS,))

    def proposals(self, cluster: str, *, ended: bool, most: int = 200) -> tuple[KeptProposal, ...]:
        """Return a cluster's proposals without their partitions, the latest first; open ones are never left out."""
        with self._guarded():
            rows = self._connection.execute(
                "SELECT body FROM proposals WHERE cluster = ? AND state IN (SELECT value FROM json_each(?))",
                (cluster, _OPEN),
            ).fetchall()
            if ended:
                rows += self._connection.execute(
                    f"SELECT body FROM proposals WHERE cluster = ? AND {_IS_OVER} "  # noqa: S608 - no value in it
                    "ORDER BY changed_at_ms DESC LIMIT ?",
                    (cluster, _OPEN, most),
                ).fetchall()
        found = [decode_proposal(str(body), str(self.path)) for (body,) in rows]
        return tuple(sorted(found, key=lambda each: each.made_at_ms, reverse=True))

    def opened(self, cluster: str) -> tuple[KeptProposal, ...]:
        """Return the open proposals, with the partitions that they change."""
        return self._whole("state IN (SELECT value FROM json_each(?))", cluster, _OPEN)

    def proposal(self, cluster: str, proposal: str) -> KeptProposal | None:
        """Return a proposal with the partitions that it changes, if they are still kept; None if it is not known."""
        return next(iter(self._whole("id = ?", cluster, proposal)), None)

    def _whole(self, which: str, *values: str) -> tuple[KeptProposal, ...]:
        with self._guarded():
            rows = self._connection.execute(
                f"SELECT body, changes FROM proposals LEFT JOIN plans USING (id) WHERE cluster = ? AND {which}",  # noqa: S608
                values,
            ).fetchall()
        return tuple(decode_proposal(str(body), str(self.path), changes or "[]") for body, changes in rows)

    def events(self, search: EventSearch) -> tuple[HistoryEvent, ...]:
        """Return the events that a search finds, by their end, the oldest first."""
        cluster, since_ms, until_ms, most, before, kind, who = search
        with self._guarded():
            rows = self._connection.execute(
                "SELECT number, cluster, at_ms, kind, text, subject, who, cause, until_ms, facts FROM events "
                "WHERE COALESCE(until_ms, at_ms) >= ? AND at_ms < ? AND (? = '' OR cluster IN (?, '')) "
                "AND ? IN ('', kind) AND ? IN ('', who) "
                "AND (? IS NULL OR (COALESCE(until_ms, at_ms), number) < "
                "(SELECT COALESCE(until_ms, at_ms), number FROM events WHERE number = ?)) "
                "ORDER BY COALESCE(until_ms, at_ms) DESC, number DESC LIMIT ?",
                (since_ms, 2**62 if until_ms is None else until_ms, cluster, cluster, kind, who, before, before, most),
            ).fetchall()
        return tuple(_event(row) for row in reversed(rows))

    def began_ms(self) -> int | None:
        """Return when a service first began to write this store; None: before services wrote that down."""
        with self._guarded():
            query = "SELECT MIN(at_ms) FROM events WHERE kind = 'service-began'"
            (found,) = self._connection.execute(query).fetchone()
        return None if found is None else int(found)

    def intents(self) -> dict[str, tuple[KeptIntent, ...]]:
        """Return the intents by cluster."""
        with self._guarded():
            rows = self._connection.execute(
                "SELECT cluster, kind, about, value, who, at_ms, comment FROM intents ORDER BY cluster, kind, about"
            ).fetchall()
        found: dict[str, tuple[KeptIntent, ...]] = {}
        for cluster, kind, *rest in rows:
            found[cluster] = (*found.get(cluster, ()), KeptIntent(IntentKind(kind), *rest))
        return found

    def switches(self) -> dict[str, KillSwitch]:
        """Return the kill switches by cluster."""
        with self._guarded():
            rows = self._connection.execute("SELECT * FROM switches").fetchall()
        return {
            cluster: KillSwitch(cluster, who, at_ms, comment, tuple(orjson.loads(kept)), *map(bool, marks))
            for cluster, who, at_ms, comment, kept, *marks in rows
        }

    def told_empty(self, cluster: str) -> tuple[int, ...]:
        """Return the brokers that were reported to be empty, and about which no other event was written since."""
        with self._guarded():
            rows = self._connection.execute(
                "SELECT DISTINCT CAST(substr(told.subject, 8) AS INTEGER) FROM events AS told "
                "WHERE told.cluster = ? AND told.kind = 'broker-empty' AND NOT EXISTS ("
                "SELECT 1 FROM events AS later WHERE later.cluster = told.cluster AND later.number > told.number "
                "AND later.subject IN (substr(told.subject, 8), 'drain ' || told.subject, 'replace ' || told.subject))",
                (cluster,),
            )
            return tuple(sorted(broker for (broker,) in rows))

    def memory(self, cluster: str) -> Memory | None:
        """Return the memory that the last look left."""
        with self._guarded():
            row = self._connection.execute("SELECT body FROM memories WHERE cluster = ?", (cluster,)).fetchone()
        return None if row is None else decode_memories(bytes(row[0]), str(self.path)).get(cluster)

    def looks(self, cluster: str, since_ms: int) -> tuple[LookGist, ...]:
        """Return the gists of looks, the oldest first."""
        with self._guarded():
            rows = self._connection.execute(
                "SELECT at_ms, body FROM looks WHERE cluster = ? AND at_ms >= ? ORDER BY at_ms", (cluster, since_ms)
            ).fetchall()
        return tuple(decode_look(int(at_ms), str(body), str(self.path)) for at_ms, body in rows)

    def answer(self, key: str) -> KeyedAnswer | None:
        """Return the answer to the order with this key; None if there was no such order."""
        with self._guarded():
            row = self._connection.execute(
                "SELECT key, body, at_ms, text, proposal, undone FROM answers WHERE key = ?", (key,)
            ).fetchone()
        if row is None:
            return None
        key, body, at_ms, text, proposal, undone = row
        done = None if text is None else OrderDone(text, proposal, tuple(orjson.loads(undone)))
        return KeyedAnswer(key, body, at_ms, done)


def _event(row: tuple[Any, ...]) -> HistoryEvent:
    number, cluster, at_ms, kind, text, subject, who, cause, until_ms, facts = row
    return HistoryEvent(number, cluster, at_ms, kind, text, subject, who, cause, until_ms, orjson.loads(facts))
