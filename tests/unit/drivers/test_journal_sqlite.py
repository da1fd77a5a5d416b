"""The SQLite journal: durable in order, one executor at a time, torn and damaged files, older versions."""

import os
import random
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from shunter.core.executor.apply import apply
from shunter.core.executor.state import ExecutorState
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
    Presence,
)
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.errors import FormatError
from shunter.formats.journal import encode_line
from shunter.model.execution import ExecutionOptions, JournalEntry, MoveAccepted, PlanAccepted, StepBegun, StepFinished
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

NOW = 1_000_000
DATA = Path(__file__).parent / "data"
TP = TopicPartition("orders-eu", 0)


def entries(first: int = 1, count: int = 10) -> list[JournalEntry]:
    """A plan, a move, and steps that follow one another."""
    made: list[JournalEntry] = []
    for sequence in range(first, first + count):
        if sequence == 1:
            record = PlanAccepted("p", "c", ExecutionOptions())
        elif sequence == 2:
            record = MoveAccepted(TP, None, (1, 2), (3, 4), Strategy.INCREMENTAL, 5)
        elif sequence % 2:
            record = StepBegun(TP, sequence // 2, (1, 2), (1, 2, 3), "forward: +3")
        else:
            record = StepFinished(TP, sequence // 2 - 1, (1, 2, 3), (1, 2, 3))
        made.append(JournalEntry(sequence, NOW + sequence, "test", record))
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cluster.journal"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(path, "first")
    opened.acquire(NOW)
    yield opened
    opened.close()


def test_what_was_appended_is_read_back(journal: SqliteJournal, path: Path) -> None:
    journal.append(entries(), NOW)
    with closing(SqliteJournal(path, "reader")) as reader:
        assert reader.load() == tuple(entries())


def test_every_batch_is_synced(journal: SqliteJournal) -> None:
    assert journal._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_batch_is_all_or_nothing(journal: SqliteJournal) -> None:
    journal.append(entries(count=3), NOW)
    with pytest.raises(JournalFenced, match="somebody else wrote"):
        journal.append([*entries(first=4, count=1), *entries(first=3, count=1)], NOW)
    assert journal.load() == tuple(entries(count=3))


def test_a_second_driver_is_refused_and_told_of_the_first(journal: SqliteJournal, path: Path) -> None:
    with closing(SqliteJournal(path, "second")) as second, pytest.raises(JournalHeld) as refused:
        second.acquire(NOW + 1)
    assert refused.value.holder.process == os.getpid()
    assert f"process {os.getpid()} on {socket.gethostname()}" in str(refused.value)
    assert not refused.value.retriable


def test_a_lease_that_ran_out_is_anothers_and_fences_the_first(journal: SqliteJournal, path: Path) -> None:
    with closing(SqliteJournal(path, "second")) as second:
        second.acquire(NOW + LEASE_MS)
        with pytest.raises(JournalFenced, match="driven by"):
            journal.append(entries(), NOW + LEASE_MS)
        with pytest.raises(JournalFenced):
            journal.renew(NOW + LEASE_MS)
        assert second.load() == ()
        second.release()
        for lost in (journal.check, lambda: journal.renew(NOW + LEASE_MS)):
            with pytest.raises(JournalForsaken, match="no executor has it any more"):
                lost()
        assert second.lease() is None


def test_a_lease_that_ran_out_is_shown_although_it_does_not_count(journal: SqliteJournal) -> None:
    lease = journal.lease()
    assert lease is not None
    assert (lease.owner, lease.expires_at_ms) == (journal.owner, NOW + LEASE_MS)
    assert journal.holder(NOW + LEASE_MS) is None


def test_a_lease_that_is_renewed_stays(journal: SqliteJournal, path: Path) -> None:
    journal.renew(NOW + LEASE_MS - 1)
    with closing(SqliteJournal(path, "second")) as second, pytest.raises(JournalHeld):
        second.acquire(NOW + LEASE_MS)


def test_a_dead_process_of_this_host_holds_nothing(journal: SqliteJournal, path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    journal._connection.execute("UPDATE lease SET process = ?", (dead.pid,))
    with closing(SqliteJournal(path, "second")) as second:
        second.acquire(NOW + 1)


def test_a_process_of_another_host_is_believed_until_its_lease_ends(journal: SqliteJournal, path: Path) -> None:
    journal._connection.execute("UPDATE lease SET host = 'elsewhere', process = 1")
    with closing(SqliteJournal(path, "second")) as second:
        with pytest.raises(JournalHeld, match="process 1 on elsewhere"):
            second.acquire(NOW + 1)
        second.acquire(NOW + LEASE_MS)


def test_a_released_journal_is_free(journal: SqliteJournal, path: Path) -> None:
    journal.release()
    with closing(SqliteJournal(path, "second")) as second:
        assert second.holder(NOW) is None
        second.acquire(NOW)


def test_orders_are_kept_until_they_are_answered(journal: SqliteJournal, path: Path) -> None:
    with closing(SqliteJournal(path, "shell")) as shell:
        number = shell.order("command", {"kind": "stop"}, NOW)
        assert shell.answer_to(number) is None
        (found,) = journal.orders()
        assert (found.number, found.kind, found.body) == (number, "command", '{"kind":"stop"}')
        journal.answer(number, "done")
        assert journal.orders() == ()
        assert shell.answer_to(number) == "done"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A journal whose writer died: the write-ahead log was never copied into the file."""
    path = tmp_path / "alive" / "cluster.journal"
    journal = SqliteJournal(path, "first")
    journal.acquire(NOW)
    for first in range(1, 21):
        journal.append(entries(first=first, count=1), NOW)
    left = tmp_path / "dead"
    shutil.copytree(path.parent, left)
    journal.close()
    return left / path.name


@pytest.mark.parametrize("share", [0.999, 0.9, 0.6, 0.3, 0.1])
def test_a_torn_write_loses_its_own_batch_and_no_other(written: Path, share: float) -> None:
    log = written.with_name(written.name + "-wal")
    whole = log.read_bytes()
    log.write_bytes(whole[: int(len(whole) * share)])
    if written.stat().st_size == 0 and share < 0.2:
        pytest.skip("nothing was ever whole")
    with closing(SqliteJournal(written, "second")) as journal:
        loaded = journal.load()
        assert loaded == tuple(entries(count=len(loaded)))
        assert len(loaded) < 20
        state = ExecutorState()
        for entry in loaded[:2]:
            apply(state, entry)


def test_a_last_write_of_garbage_is_a_torn_write(written: Path) -> None:
    log = written.with_name(written.name + "-wal")
    whole = bytearray(log.read_bytes())
    whole[-3000:] = os.urandom(3000)
    log.write_bytes(whole)
    with closing(SqliteJournal(written, "second")) as journal:
        loaded = journal.load()
    assert 0 < len(loaded) < 20
    assert loaded == tuple(entries(count=len(loaded)))


def test_a_changed_entry_is_found_and_what_stands_before_it_can_be_read(journal: SqliteJournal, path: Path) -> None:
    journal.append(entries(), NOW)
    journal._connection.execute("UPDATE entries SET body = replace(body, '[1,2,3]', '[1,2,4]') WHERE sequence = 6")
    with closing(SqliteJournal(path, "reader")) as reader, pytest.raises(JournalDamaged, match="entry 6") as refused:
        reader.load()
    assert refused.value.readable == tuple(entries()), "the copy beside it has them all"
    assert "10 entries can still be read" in str(refused.value)
    path.with_name("cluster.journal.copy").unlink()
    with closing(SqliteJournal(path, "reader")) as reader, pytest.raises(JournalDamaged, match="entry 6") as refused:
        reader.load()
    assert refused.value.readable == tuple(entries(count=5))


def test_a_missing_entry_is_found(journal: SqliteJournal) -> None:
    journal.append(entries(), NOW)
    journal._connection.execute("DELETE FROM entries WHERE sequence = 4")
    with pytest.raises(JournalDamaged, match="entry 4 is missing") as refused:
        journal.load()
    assert refused.value.readable == tuple(entries())


def test_a_truncated_file_is_salvaged_from_its_copy_and_made_anew_once_it_is_moved_away(path: Path) -> None:
    with closing(SqliteJournal(path, "first")) as journal:
        journal.acquire(NOW)
        journal.append(entries(count=400), NOW)
        journal.release()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    with pytest.raises(JournalDamaged) as refused, closing(SqliteJournal(path, "second")) as second:
        second.load()
    assert refused.value.readable == tuple(entries(count=400))
    path.rename(path.with_name("damaged"))
    with closing(SqliteJournal(path, "second")) as second:
        assert second.load() == tuple(entries(count=400))
    with closing(SqliteJournal(path, "third")) as third:
        assert third.take_rebuilt() == 400
        assert third.take_rebuilt() == 0


def test_a_copy_that_lacks_entries_is_made_whole_by_whoever_drives(journal: SqliteJournal, path: Path) -> None:
    journal.append(entries(), NOW)
    copy = JournalCopy(path)
    whole = copy.path.read_bytes()
    for damaged in (b"", whole[:-40], b"1 2 nonsense\n"):
        copy.path.write_bytes(damaged)
        journal.acquire(NOW)
        assert copy.path.read_bytes() == whole
    assert copy.read() == tuple(entries())


def assert_ended(journal: SqliteJournal, told: str) -> None:
    """Whatever this executor does with its journal, it is refused."""
    for use in (journal.check, lambda: journal.renew(NOW), lambda: journal.append(entries(11, 2), NOW)):
        with pytest.raises(JournalUnusable, match=told):
            use()


def assert_rebuilt_from_the_copy(path: Path) -> None:
    """The way out: the damaged file is moved away, and the next journal has all of its entries."""
    for file in path.parent.glob("cluster.journal*"):
        if not file.name.endswith(".copy"):
            file.unlink()
    with closing(SqliteJournal(path, "second")) as again:
        assert again.load() == tuple(entries())
        again.acquire(NOW)
        again.append(entries(11, 2), NOW)


@pytest.mark.parametrize("looked_at", [False, True], ids=["alone", "after another shell looked for it"])
def test_a_journal_that_is_deleted_while_it_is_driven_ends_its_executor(
    journal: SqliteJournal, path: Path, looked_at: bool
) -> None:
    journal.append(entries(), NOW)
    for file in path.parent.glob("cluster.journal*"):
        if not file.name.endswith(".copy"):
            file.unlink()
    if looked_at:
        with closing(SqliteJournal(path, "reader")) as reader:
            assert reader.load() == tuple(entries())
    assert_ended(journal, "was deleted or replaced while we drove it")
    assert_rebuilt_from_the_copy(path)


@pytest.mark.parametrize("left", [0, 2_000])
def test_a_journal_that_is_cut_off_while_it_is_driven_ends_its_executor(
    journal: SqliteJournal, path: Path, left: int
) -> None:
    journal.append(entries(), NOW)
    os.truncate(path, left)
    assert_ended(journal, f"was cut off from .* to {left} bytes while we drove it")
    assert_rebuilt_from_the_copy(path)


@pytest.mark.parametrize("table", [None, "about", "entries", "lease", "orders"])
def test_a_journal_that_is_written_over_while_it_is_driven_ends_its_executor(
    journal: SqliteJournal, path: Path, table: str | None
) -> None:
    """With garbage, in place: SQLite itself would go on with the pages that it has in memory.

    The whole file, or one page. Every shell reads all tables before it gives an order: without one of them, no shell
    could stop the execution.
    """
    journal.append(entries(), NOW)
    with closing(sqlite3.connect(path)) as somebody:
        somebody.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = somebody.execute("PRAGMA page_size").fetchone()
        root = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        first = 0 if table is None else (somebody.execute(root, (table,)).fetchone()[0] - 1) * size
    journal.check()
    with path.open("r+b") as stream:
        stream.seek(first)
        stream.write(random.Random(7).randbytes(path.stat().st_size if table is None else size))
    assert_ended(journal, "was written over while we drove it")
    assert_rebuilt_from_the_copy(path)


def test_a_checkpoint_is_no_damage(journal: SqliteJournal, path: Path) -> None:
    for first in range(1, 400, 10):
        journal.append(entries(first, 10), NOW)
        with closing(sqlite3.connect(path)) as somebody:
            somebody.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        journal.check()
    assert len(journal.load()) == 400


def test_another_journal_under_our_name_ends_us(journal: SqliteJournal, path: Path) -> None:
    journal.append(entries(), NOW)
    for file in path.parent.glob("cluster.journal*"):
        file.unlink()
    with closing(SqliteJournal(path, "other")) as other:
        other.acquire(NOW)
        other.append(entries(count=3), NOW)
        assert_ended(journal, "was deleted or replaced while we drove it")


def test_a_file_that_is_no_journal_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to look at it" * 100)
    with pytest.raises(JournalDamaged, match="not readable as a journal"):
        SqliteJournal(path, "first")


@contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """Act like a full disk, for any user."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_writes_is_no_damage(path: Path) -> None:
    with closing(SqliteJournal(path, "first")) as journal:
        journal.acquire(NOW)
        journal.append(entries(), NOW)
    with no_file_grows_beyond(1), pytest.raises(JournalUnwritten, match=r"bytes free in .*: make room there"):
        SqliteJournal(path, "second")
    with closing(SqliteJournal(path, "second")) as again:
        assert again.load() == tuple(entries())


def test_a_disk_that_fills_up_while_we_drive_is_no_damage(journal: SqliteJournal, path: Path) -> None:
    size = path.with_name(f"{path.name}-wal").stat().st_size
    with no_file_grows_beyond(size), pytest.raises(JournalUnwritten, match="make room there"):
        journal.append(entries(count=400), NOW)
    journal.append(entries(), NOW)
    assert journal.load() == tuple(entries())


def test_what_could_not_be_copied_is_copied_once_it_can_be(journal: SqliteJournal, path: Path) -> None:
    """SQLite may write into space that its file has already, while the copy beside it needs more."""
    journal.append(entries(count=4), NOW)
    copy = JournalCopy(path)
    with no_file_grows_beyond(copy.path.stat().st_size + 10):
        copy.append([encode_line(entry) for entry in entries(5, 2)])
    assert copy.read() == tuple(entries(count=4)), "cut off in the middle of a line"
    ours = journal._copy
    assert ours is not None
    with no_file_grows_beyond(1):
        ours.append([encode_line(entry) for entry in entries(5, 2)])
    journal.append(entries(5, 2), NOW)
    journal.append(entries(7, 2), NOW)
    assert copy.read() == tuple(entries(count=8))


def test_a_place_that_is_not_to_be_written_to_is_no_damage(path: Path) -> None:
    path.mkdir()
    with pytest.raises(JournalUnusable, match=r"unable to open database file; this needs a file, and a folder, that"):
        SqliteJournal(path, "first")


def test_pages_of_garbage_in_the_middle_are_refused_with_what_can_be_read(path: Path) -> None:
    journal = SqliteJournal(path, "first")
    journal.acquire(NOW)
    journal.append(entries(count=400), NOW)
    journal.close()
    damaged = bytearray(path.read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 4096] = os.urandom(4096)
    path.write_bytes(damaged)
    with pytest.raises(JournalDamaged) as refused, closing(SqliteJournal(path, "second")) as second:
        second.load()
    readable = refused.value.readable
    assert readable == tuple(entries(count=len(readable)))


def test_a_later_version_is_refused(path: Path) -> None:
    SqliteJournal(path, "first").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE about SET value = '3'")
    with pytest.raises(FormatError, match="version 3 is not understood"):
        SqliteJournal(path, "second")


def test_a_lock_of_others_is_a_matter_of_waiting_and_no_damage(tmp_path: Path) -> None:
    place = tmp_path / "c.journal"
    journal = SqliteJournal(place, "us")
    with closing(sqlite3.connect(place, isolation_level=None)) as other, closing(journal):
        journal.acquire(NOW)
        journal._connection.execute("PRAGMA busy_timeout=1")
        other.execute("BEGIN IMMEDIATE")
        for work in (lambda: journal.append(entries(), NOW), lambda: journal.renew(NOW), lambda: journal.answer(1, "")):
            with pytest.raises(JournalBusy, match="locked by another process") as caught:
                work()
            assert caught.value.retriable
        journal.check()
        other.execute("ROLLBACK")
        journal.append(entries(), NOW)
        assert len(journal.load()) == 10


@pytest.mark.parametrize(
    ("flag", "told"),
    [(os.ST_RDONLY, "is mounted read-only: mount it writable, or copy"), (0, "that this account may write to")],
)
def test_a_file_that_can_not_be_opened_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int, told: str
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_flag=flag))
    (tmp_path / "x.journal").mkdir()
    with pytest.raises(JournalUnwritten, match=told):
        SqliteJournal(tmp_path / "x.journal", "o")


def test_a_lease_says_where_its_service_is_reached_until_another_process_takes_it(tmp_path: Path) -> None:
    path, reached = tmp_path / "a.journal", Presence("lab-2", 7, lambda _process: True, "https://lab-2:8090")
    with (
        closing(SqliteJournal(path, "first", presence=reached)) as first,
        closing(SqliteJournal(path, "second")) as second,
    ):
        first.acquire(1_000)
        with pytest.raises(JournalHeld, match=r"https://lab-2:8090 of lab-2, process 7 \(lease first\)"):
            second.acquire(2_000)
        first.release()
        second.acquire(3_000)
        holder = first.holder(3_000)
        assert holder is not None
        assert (holder.owner, holder.address) == ("second", "")
