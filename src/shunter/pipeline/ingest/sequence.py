"""Choose which windows of one replica are kept, so that each moment counts once. No Spark: columns in, verdicts out.

Spark's window functions see whether windows overlap. Which of them to keep depends on which were kept before, so that is
decided here, for the rare batch that has such windows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from shunter.pipeline.ingest.runs import runs_of

if TYPE_CHECKING:
    import pyarrow as pa

DUPLICATE, OVERLAP, KNOWN = "duplicate", "time_backwards", "already_ingested"


class TimeWindow(NamedTuple):
    """A window in seconds since 1970; `known_by` is the batch that it came with, None for one of this batch."""

    start: int
    seconds: int
    known_by: str | None = None


def judge_windows(spans: Sequence[TimeWindow], tolerance: int = 1) -> list[str | None]:
    """Say which windows of one replica are put aside, by which rule; None for those that are kept.

    Windows of earlier batches stay. The others are looked at in order of their start; each is kept if it overlaps no window
    that is kept already. An overlap of up to `tolerance` seconds counts as the jitter of clocks.

    Args:
        spans: In order of start; with the same start, windows of earlier batches first.
    """
    known = [span for span in spans if span.known_by is not None]
    known_starts = [span.start for span in known]
    verdicts: list[str | None] = []
    kept_until: int | None = None
    kept_start: int | None = None
    was_known = False
    for span in spans:
        end = span.start + span.seconds
        if span.known_by is not None:
            verdict = None
        elif span.start == kept_start:
            verdict = KNOWN if was_known else DUPLICATE
        elif kept_until is not None and span.start + tolerance < kept_until:
            verdict = OVERLAP
        else:
            following = bisect_right(known_starts, span.start)
            reaches = following < len(known_starts) and known_starts[following] + tolerance < end
            verdict = OVERLAP if reaches else None
        verdicts.append(verdict)
        if verdict is None:
            kept_start, was_known = span.start, span.known_by is not None
            kept_until = end if kept_until is None else max(kept_until, end)
    return verdicts


def judge_batches(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], key: Sequence[str], tolerance: int
) -> Iterator[pa.RecordBatch]:
    """Judge the rows of a task. Rows of one series follow one another, by start, those of earlier batches first.

    Args:
        batches: `series`, `start`, `window_seconds`, `known_by`, `rule`, `detail`, the key's columns and whatever else.
        names: Columns of the result: `rule` and `detail` as judged, others as they came. Rows of earlier batches are
            left out.
        key: Columns that tell replicas apart whose hashes are the same.
    """
    import pyarrow as pa  # noqa: PLC0415  on the executor

    for _, series in runs_of(batches, "series"):
        rows = pa.Table.from_batches(series)
        columns = {
            name: rows[name].to_pylist() for name in (*key, "start", "window_seconds", "known_by", "rule", "detail")
        }
        rules, details = columns["rule"], columns["detail"]
        by_replica: dict[tuple[object, ...], list[int]] = {}
        for at, replica in enumerate(zip(*(columns[name] for name in key), strict=True)):
            if rules[at] is None:
                by_replica.setdefault(replica, []).append(at)
        for found in by_replica.values():
            spans = [
                TimeWindow(columns["start"][at], columns["window_seconds"][at], columns["known_by"][at]) for at in found
            ]
            for at, span, verdict in zip(found, spans, judge_windows(spans, tolerance), strict=True):
                if verdict is not None:
                    rules[at], details[at] = verdict, f"{_WORDS[verdict]}: {span.seconds} s from {span.start}"
        kept = rows.set_column(rows.schema.get_field_index("rule"), "rule", pa.array(rules, pa.string()))
        kept = kept.set_column(kept.schema.get_field_index("detail"), "detail", pa.array(details, pa.string()))
        kept = kept.filter(pa.array([name is None for name in columns["known_by"]]))
        yield from kept.select(list(names)).to_batches()


_WORDS = {
    DUPLICATE: "the same window twice",
    OVERLAP: "it overlaps another window of its replica",
    KNOWN: "this window came with an earlier batch",
}
