"""The choice among a replica's overlapping windows, compared with a search through all moments."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shunter.pipeline.ingest.sequence import TimeWindow, judge_batches, judge_windows


def spans(*windows):
    return [TimeWindow(*window) for window in windows]


def test_each_moment_counts_once():
    nested = spans((0, 3600), *((60 * minute, 60) for minute in range(1, 60)), (3600, 60))
    assert judge_windows(nested) == [None, *["time_backwards"] * 59, None]
    pair = spans((0, 60), (30, 60), (60, 60), (90, 60), (120, 60))
    assert judge_windows(pair) == [None, "time_backwards", None, "time_backwards", None]
    assert judge_windows(spans((0, 60), (0, 60), (59, 60))) == [None, "duplicate", None], "a second is jitter"


def test_windows_of_earlier_batches_stay():
    assert judge_windows(spans((0, 60, "a"), (0, 60))) == [None, "already_ingested"]
    assert judge_windows(spans((0, 3600), (1800, 60, "a"), (3600, 60))) == ["time_backwards", None, None]
    assert judge_windows(spans((0, 7200, "a"), (3600, 60), (7200, 60))) == [None, "time_backwards", None]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.booleans()), max_size=14))
def test_what_is_kept_covers_no_moment_twice_and_nothing_more_fits(windows):
    held, free = [], set(range(100))
    for start, seconds, known in sorted(windows):
        moments = set(range(start, start + seconds))
        if known and moments <= free:
            free -= moments
            held.append(TimeWindow(start, seconds, "a"))
        elif not known:
            held.append(TimeWindow(start, seconds))
    ordered = sorted(held, key=lambda span: (span.start, span.known_by is None))
    verdicts = judge_windows(ordered, tolerance=0)
    kept = [span for span, verdict in zip(ordered, verdicts, strict=True) if verdict is None]
    moments = [moment for span in kept for moment in range(span.start, span.start + span.seconds)]
    assert len(moments) == len(set(moments))
    assert [span for span in kept if span.known_by] == [span for span in ordered if span.known_by]
    for span, verdict in zip(ordered, verdicts, strict=True):
        if verdict is not None:
            assert set(range(span.start, span.start + span.seconds)) & set(moments), "there was no reason"


def test_series_are_taken_apart_wherever_batches_are_cut():
    rows = [
        (7, 0, 0, 60, None, None), (7, 0, 30, 60, None, None), (7, 0, 60, 60, None, None),
        # A row of another replica with the same hash, then a row of an earlier batch, then a row that breaks a rule by
        # itself.
        (7, 1, 60, 60, None, None), (8, 2, 0, 60, "a", None), (8, 2, 0, 60, None, None), (9, 3, 0, 60, None, "negative"),
    ]  # fmt: skip
    names = ("series", "partition", "start", "window_seconds", "known_by", "rule")
    kinds = (pa.int64(), pa.int32(), pa.int64(), pa.int32(), pa.string(), pa.string())
    whole = pa.table(
        {name: pa.array(values, kind) for name, values, kind in zip(names, zip(*rows, strict=True), kinds, strict=True)}
    )
    whole = whole.append_column("detail", pa.nulls(len(rows), pa.string()))
    expected = [(0, None), (0, "time_backwards"), (0, None), (1, None), (2, "already_ingested"), (3, "negative")]
    for size in range(1, len(rows) + 1):
        found = judge_batches(whole.to_batches(max_chunksize=size), ["partition", "start", "rule"], ["partition"], 1)
        table = pa.Table.from_batches(list(found))
        assert list(zip(table["partition"].to_pylist(), table["rule"].to_pylist(), strict=True)) == expected
