"""The lake's log: a number is created once, even by concurrent writers; commits that came in between are checked."""

import json
import multiprocessing
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql.types import ArrayType, StructType

from shunter.errors import FormatError
from shunter.pipeline.lake.commit_log import (
    EVERY,
    Commit,
    CommitLog,
    InputFile,
    LogState,
    StreamMark,
    conflicts,
    may_span,
)
from shunter.pipeline.lake.schemas import LOG
from shunter.pipeline.lake.stores import LocalStore

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)


def log_in(folder):
    return CommitLog(LocalStore(folder), str(folder))


def append_all(folder, who, count):
    """Append so many commits, each behind the newest one."""
    log = log_in(folder)
    for number in range(count):
        state = log.state()
        while log.append(state, Commit(f"{who}-{number}", "json", committed_at=NOW)) is None:
            state = log.state()


def test_each_number_is_made_once_by_threads_and_by_processes(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda who: append_all(tmp_path, who, 20), "abcd"))
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=append_all, args=(tmp_path, who, 20)) for who in "ef"]
    for other in others:
        other.start()
    append_all(tmp_path, "g", 20)
    for other in others:
        other.join(60)
        assert other.exitcode == 0
    state = log_in(tmp_path).state()
    assert state.version == 7 * 20
    assert [commit.version for commit in state.commits] == list(range(1, 141))
    assert sorted(commit.ingest_id for commit in state.commits) == sorted(
        f"{w}-{n}" for w in "abcdefg" for n in range(20)
    )
    for who in "abcdefg":
        mine = [commit.ingest_id for commit in state.commits if commit.ingest_id.startswith(who)]
        assert mine == [f"{who}-{number}" for number in range(20)]
    assert not [name for name in (entry.name for entry in tmp_path.iterdir()) if name.startswith(".")]


def full_commit():
    return Commit(
        "i", "stream", (InputFile("/a b", "sha256:1", 3),), 5, 2, (("late", 2),), ("c1", "yard"), date(2025, 1, 1),
        date(2025, 1, 2), NOW, NOW + timedelta(hours=1), 60, NOW, date(2024, 1, 1), ("x",), ("samples",),
        (StreamMark("q", 7, NOW), StreamMark("r", 0, None)), 2, ("y",), ("z",), NOW, 1, 4,
    )  # fmt: skip


def shape(kind):
    """Names of the fields of a documented type, at each level."""
    if isinstance(kind, StructType):
        return {field.name: shape(field.dataType) for field in kind.fields}
    return [shape(kind.elementType)] if isinstance(kind, ArrayType) else None


def written_shape(value):
    if isinstance(value, dict):
        return {name: written_shape(each) for name, each in value.items()}
    return [written_shape(value[0])] if isinstance(value, list) else None


def test_a_commits_file_is_as_documented(tmp_path):
    assert log_in(tmp_path).append(LogState(0), full_commit()) is not None
    written = json.loads((tmp_path / f"{1:020d}.json").read_text())
    assert written_shape(written) == {"version": None, "commit": shape(LOG.schema)}


def test_a_commit_comes_back_as_it_was_written(tmp_path):
    commit = full_commit()
    assert log_in(tmp_path).append(LogState(0), commit) is not None
    assert log_in(tmp_path).state() == LogState(1, (commit,))


def test_a_checkpoint_saves_reading_and_pruning_leaves_what_counts(tmp_path):
    log, reader = log_in(tmp_path), log_in(tmp_path)
    state = log.state()
    for number in range(3 * EVERY + 5):
        at = NOW + timedelta(minutes=number)
        state = log.append(state, Commit(f"b{number}", "json", supersedes=(f"b{number - 1}",), committed_at=at))
        if number == EVERY + 3:
            behind = reader.state()
    assert behind.version == EVERY + 4
    assert len([*(tmp_path / "checkpoints").iterdir()]) == 3
    assert log.prune(NOW + timedelta(minutes=2 * EVERY)) == 2 * EVERY
    for who in (log, reader, log_in(tmp_path)):
        assert who.state() == state
    assert [commit.ingest_id for commit in state.live] == [f"b{3 * EVERY + 4}"]
    # A writer that slept since then creates a number that was pruned. No reader would read it, so the writer begins
    # anew.
    assert log_in(tmp_path).append(behind, Commit("late", "json", committed_at=NOW)) is None
    assert log_in(tmp_path).state() == state


def test_a_lake_that_was_made_anew_is_not_taken_for_the_one_before(tmp_path):
    log = log_in(tmp_path)
    log.append(log.state(), Commit("old", "json", committed_at=NOW))
    assert log.state().version == 1
    (tmp_path / "00000000000000000001.json").unlink()
    assert log.state() == LogState(0)
    log_in(tmp_path).append(LogState(0), Commit("new", "json", committed_at=NOW))
    assert [commit.ingest_id for commit in log.state().commits] == ["new"]


def test_what_is_deleted_is_forgotten(tmp_path):
    log = log_in(tmp_path)
    state = log.append(log.state(), Commit("a", "json", committed_at=NOW))
    state = log.append(state, Commit("b", "compaction", supersedes=("a",), committed_at=NOW))
    state = log.append(state, Commit("c", "clean", forgets=("a",), committed_at=NOW))
    assert [commit.ingest_id for commit in log_in(tmp_path).state().commits] == ["b", "c"]


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"version": 1, "commit": 5}', b'{"version": 9, "commit": {}}', b"[1]"])
def test_what_is_no_commit_is_named(tmp_path, raw):
    (tmp_path / "00000000000000000001.json").write_bytes(raw)
    with pytest.raises(FormatError, match=r"00000000000000000001\.json"):
        log_in(tmp_path).state()


def batch(ingest_id="mine", kind="json", hours=(0, 1), clusters=("c",), **more):
    since, until = (NOW + timedelta(hours=hour) for hour in hours)
    return Commit(ingest_id, kind, good=1, since=since, until=until, clusters=clusters, **more)


FILE = (InputFile("f", "sha256:f", 1),)


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (batch(), batch("b"), True),
        (batch(), batch("b", hours=(1, 2)), False),
        (batch(), batch("b", clusters=("d",)), False),
        (batch(files=FILE), batch("b", clusters=("d",), files=FILE), True),
        (batch(kind="snapshots"), batch("b", "snapshots", hours=(5, 6)), True),
        (batch(kind="snapshots"), batch("b", "snapshots", hours=(5, 6), clusters=("d",)), False),
        (batch(kind="cruise-control"), batch("b", "cruise-control", hours=(5, 6)), True),
        (batch(), batch("b", "compaction", supersedes=("known",)), False),
        (batch(), batch("b", "compaction", supersedes=("known", "unknown")), True),
        (batch(), batch("b", "retention", hours=(5, 6), supersedes=("known",)), True),
        (batch(kind="compaction", supersedes=("known",)), batch("b"), False),
        (batch(kind="compaction", supersedes=("known",)), batch("b", "compaction", supersedes=("known",)), True),
        (batch(kind="compaction", supersedes=("known",)), batch("b", "clean", forgets=("known",)), True),
        (batch(kind="stream", streams=(StreamMark("q", 1, None),)), batch("b", "stream", hours=(5, 6), streams=(StreamMark("q", 1, None),)), True),
        (batch(), batch("b", "clean", forfeits=("mine",)), True),
        (batch(), batch("b", "clean", forfeits=("other",)), False),
        (batch(kind="clean", forfeits=("b",)), batch("b"), True),
        (batch(kind="clean", forfeits=("x",)), batch("b"), False),
    ],
)  # fmt: skip
def test_what_came_in_between_counts_where_it_touches(mine, theirs, expected):
    assert conflicts(mine, theirs, {"known"}) is expected


def test_readers_beside_writers_and_pruning_see_every_state_once(tmp_path):
    """Whichever entries are pruned meanwhile, a reader sees a prefix of the log's history and never goes back."""
    rng = random.Random(5)
    log, reader = log_in(tmp_path), log_in(tmp_path)
    state, seen = log.state(), 0
    for number in range(400):
        state = log.append(state, Commit(f"b{number}", "json", committed_at=NOW + timedelta(seconds=number)))
        if rng.random() < 0.05:
            log.prune(NOW + timedelta(seconds=number - rng.randrange(80)))
        if rng.random() < 0.1:
            found = (reader if rng.random() < 0.5 else log_in(tmp_path)).state()
            assert found.version == number + 1 >= seen
            assert [commit.ingest_id for commit in found.commits] == [f"b{at}" for at in range(found.version)]
            seen = found.version


def test_how_far_apart_the_windows_of_batches_may_be():
    def batch(first, days, good=1):
        since = NOW + timedelta(days=first)
        return Commit("x", "json", good=good, since=since, until=since + timedelta(days=days))

    fortnight = 14 * 86_400
    assert not may_span([], fortnight)
    assert not may_span([batch(0, 3), batch(5, 8.9), Commit("empty", "json")], fortnight)
    assert may_span([batch(0, 3), batch(5, 9)], fortnight)
    assert may_span([batch(0, 3), Commit("older", "json", good=1)], fortnight), "it does not say of when it is"


CHECKPOINT = "checkpoints/{:020d}.json"


class Losing(LocalStore):
    """A store whose checkpoints are deleted behind whoever lists them."""

    def names(self, folder):
        found = super().names(folder)
        for name in found if folder == "checkpoints" else ():
            self.delete(f"checkpoints/{name}")
        return found


def test_a_log_without_its_checkpoint_is_read_from_its_first_commit(tmp_path):
    append_all(tmp_path, "a", EVERY)
    state = CommitLog(Losing(tmp_path), str(tmp_path)).state()
    assert [commit.version for commit in state.commits] == list(range(1, EVERY + 1))


@pytest.mark.parametrize("store", [Losing, LocalStore])
def test_a_log_without_checkpoint_and_first_commits_is_refused(tmp_path, store):
    append_all(tmp_path, "a", EVERY + 1)
    if store is LocalStore:
        (tmp_path / "checkpoints" / f"{EVERY:020d}.json").unlink()
    for number in range(1, EVERY + 1):
        (tmp_path / f"{number:020d}.json").unlink()
    with pytest.raises(
        FormatError, match=f"{CHECKPOINT.format(EVERY)}: is missing, and commits 1 to {EVERY} are deleted"
    ):
        CommitLog(store(tmp_path), str(tmp_path)).state()


@pytest.fixture
def pruned(tmp_path):
    """A log of four checkpoints and three more commits. The commits before the newest checkpoint's are deleted."""
    append_all(tmp_path, "a", 4 * EVERY + 3)
    log_in(tmp_path).prune(NOW + timedelta(days=1))
    return tmp_path


@pytest.mark.parametrize("later", [3, 0])
def test_a_log_that_lost_its_newest_checkpoint_is_not_read_as_an_older_state(pruned, later):
    """The commit of the lost checkpoint is enough to see that later commits were there."""
    (pruned / CHECKPOINT.format(4 * EVERY)).unlink()
    for number in range(later + 1, 4):
        (pruned / f"{4 * EVERY + number:020d}.json").unlink()
    with pytest.raises(FormatError) as refused:
        log_in(pruned).state()
    assert str(refused.value) == (
        f"{pruned}/{CHECKPOINT.format(4 * EVERY)}: is missing, and commits {3 * EVERY + 1} to {4 * EVERY - 1} are deleted,"
        f" so that nothing says what is committed: bring it, or another checkpoint of commit {4 * EVERY - 1} or later,"
        " back from a backup"
    )


def test_a_log_that_lost_all_its_checkpoints_is_not_read_as_empty(pruned):
    for path in (pruned / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(FormatError, match=f"{CHECKPOINT.format(4 * EVERY)}: is missing, and commits 1 to"):
        log_in(pruned).state()


def test_a_log_that_lost_its_newest_checkpoint_is_read_from_the_one_before_if_all_commits_are_there(tmp_path):
    append_all(tmp_path, "a", 2 * EVERY + 3)
    (tmp_path / CHECKPOINT.format(2 * EVERY)).unlink()
    assert log_in(tmp_path).state().version == 2 * EVERY + 3


@pytest.mark.parametrize(("gone", "told"), [((3,), "commit 3 is missing"), ((3, 4), "commits 3 to 4 are missing")])
def test_a_commit_that_is_missing_among_others_is_named(tmp_path, gone, told):
    append_all(tmp_path, "a", 5)
    for number in gone:
        (tmp_path / f"{number:020d}.json").unlink()
    with pytest.raises(
        FormatError, match=rf"{3:020d}\.json: {told}, and commit {gone[-1] + 1} is there: bring what is"
    ):
        log_in(tmp_path).state()


def test_a_checkpoint_that_is_listed_and_never_read_is_refused(tmp_path):
    class Blind(LocalStore):
        def read(self, name):
            return None if name.startswith("checkpoints") else super().read(name)

    append_all(tmp_path, "a", EVERY)
    with pytest.raises(FormatError, match="is listed, but can't be read"):
        CommitLog(Blind(tmp_path), str(tmp_path)).state()
