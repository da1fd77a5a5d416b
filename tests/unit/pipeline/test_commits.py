"""When a commit has to be decided again, and what a row of `batches` says."""

from dataclasses import asdict, fields
from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql.types import ArrayType, StructType

from shunter.errors import FormatError
from shunter.pipeline.lake.commits import Commit, InputFile, LogState, StreamMark, commit_of, conflicts, may_span
from shunter.pipeline.lake.schemas import BATCHES, SCHEMA_VERSION

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)


def batch(ingest_id="mine", kind="json", hours=(0, 1), clusters=("c",), **more):
    since, until = (NOW + timedelta(hours=hour) for hour in hours)
    return Commit(ingest_id, kind, good=1, since=since, until=until, clusters=clusters, **more)


FILE = (InputFile("f", "sha256:f", 1),)
MARK = StreamMark("q", 1)


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
        (batch(supersedes=("a",)), batch("b", hours=(5, 6), clusters=("d",), supersedes=("a",)), True),
        (batch(), Commit("b", "compaction"), False),
        (batch(), Commit("b", "retention"), True),
        (Commit("mine", "compaction"), batch("b"), False),
        (Commit("mine", "retention"), batch("b"), False),
        (batch(kind="stream", stream=MARK), batch("b", "stream", hours=(5, 6), stream=MARK), True),
        (batch(), Commit("b", "clean", forfeits=("mine",)), True),
        (batch(), Commit("b", "clean", forfeits=("other",)), False),
        (Commit("mine", "clean", forfeits=("b",)), batch("b"), True),
        (Commit("mine", "clean", forfeits=("x",)), batch("b"), False),
    ],
)
def test_what_came_in_between_counts_where_it_touches(mine, theirs, expected):
    assert conflicts(mine, theirs) is expected


def test_how_far_apart_the_windows_of_batches_may_be():
    def of(first, days):
        since = NOW + timedelta(days=first)
        return Commit("x", "json", good=1, since=since, until=since + timedelta(days=days))

    fortnight = 14 * 86_400
    assert not may_span([], fortnight)
    assert not may_span([of(0, 3), of(5, 8.9), Commit("empty", "json")], fortnight)
    assert may_span([of(0, 3), of(5, 9)], fortnight)


def test_what_a_later_batch_replaces_does_not_count():
    state = LogState((batch("a"), batch("b", supersedes=("a",)), Commit("r", "retention", keep_from=date(2025, 2, 1))))
    assert [one.ingest_id for one in state.live] == ["b", "r"]
    assert state.keep_from == date(2025, 2, 1)


def test_a_row_has_all_that_is_known_of_a_commit():
    names = {field.name for field in fields(Commit)}
    assert names == {*BATCHES.columns} - {"schema_version"}
    for name, kind in (("files", InputFile), ("stream", StreamMark)):
        struct = BATCHES.schema[name].dataType
        struct = struct.elementType if isinstance(struct, ArrayType) else struct
        assert isinstance(struct, StructType)
        assert struct.fieldNames() == [field.name for field in fields(kind)]


def test_a_commit_comes_back_and_one_of_a_newer_version_is_refused():
    made = batch(files=FILE, rules=(("late", 2),), stream=StreamMark("q", 1), tables=("samples",), version=7)
    row = asdict(made) | {"schema_version": SCHEMA_VERSION, "files": [("f", "sha256:f", 1)], "stream": ("q", 1)}
    assert commit_of(row, "x") == made
    with pytest.raises(FormatError, match="version 2 is not understood; 1 is: use a newer Shunter"):
        commit_of(row | {"schema_version": 2}, "x")
