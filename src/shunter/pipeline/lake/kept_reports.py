"""Tables that the pipeline wrote about one cluster, read without Spark. Nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from shunter.errors import FormatError
from shunter.pipeline.lake.kept_model import MODEL
from shunter.pipeline.lake.kept_tables import KeptTable, in_utc
from shunter.views.reports import Cell, ModelGist, ReportColumn, ReportGist, ReportPage

MOST_ROWS = 500_000
"""A table of more rows is not read into the service. Read it with Spark."""
MOST_TEXT = 2_000
"""Characters of one value that are shown."""
_LEFT_OUT = ("cluster_id", "schema_version")
_MODEL_COLUMNS = ("basis", "last_window", "coverage", "confidence")


class Report(NamedTuple):
    """A table that is offered. `order`: what its rows are sorted by, and whether the greatest comes first."""

    title: str
    told: str
    order: tuple[tuple[str, str], ...]


_DOWN, _UP = "descending", "ascending"
REPORTS: Mapping[str, Report] = {
    "data_quality": Report(
        "Data quality",
        "How much data each day has, how fresh it is, and how much has rates; written by `shunter pipeline quality`.",
        (("date", _DOWN),),
    ),
    "runway": Report(
        "Runway",
        "When each broker's disks are full, and which topics fill them; written by `shunter pipeline runway`.",
        (("full_at", _UP), ("kind", _UP), ("size_bytes", _DOWN)),
    ),
    "anomalies": Report(
        "Anomalies",
        "Figures that differ from the days before; written by `shunter pipeline anomalies`.",
        (("date", _DOWN), ("kind", _UP), ("name", _UP)),
    ),
    "showback": Report(
        "Showback",
        "What each topic stored, wrote and read, month by month; written by `shunter pipeline showback`.",
        (("month", _DOWN), ("stored_bytes", _DOWN)),
    ),
    "processor_model": Report(
        "Processors",
        "What a byte costs each broker's processors, and the error of that model; written by `shunter pipeline model`.",
        (("broker_id", _UP),),
    ),
}
"""By the table's name, in the order in which they are listed."""


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: object
    table: Any
    told: Mapping[str, tuple[str, str]]


class KeptReports:
    """Reads the tables of a lake, a table again only after it changed."""

    def __init__(self, root: Path) -> None:
        """`root`: the lake's folder, as `shunter pipeline --root`."""
        self._root = root
        self._last: dict[tuple[str, str], _Read] = {}

    def model(self, cluster_id: str) -> ModelGist | None:
        """The newest load model, summed up; None: there is no model. Blocks.

        Raises:
            FormatError: the model can't be read.
        """
        kept = KeptTable(self._root, MODEL, cluster_id)
        table = kept.rows(_MODEL_COLUMNS)
        return _summed_up(table, _newest(kept)) if table.num_rows else None

    def gists(self, cluster_id: str) -> tuple[ReportGist, ...]:
        """Every table that is offered, made or not. Blocks."""
        return tuple(self._gist(name, report, cluster_id) for name, report in REPORTS.items())

    def page(self, name: str, cluster_id: str, search: str, offset: int, limit: int) -> ReportPage | None:
        """Rows that have `search` in one of their texts; None: no such table is offered. Blocks.

        Raises:
            FormatError: the table can't be read, or is too large.
        """
        if name not in REPORTS:
            return None
        kept, key = KeptTable(self._root, name, cluster_id), (name, cluster_id)
        known = self._last.get(key)
        if known is None or known.stamp != kept.files:
            known = _Read(kept.files, _sorted(kept.rows(most=MOST_ROWS), REPORTS[name]), kept.told())
            self._last = {key: known}  # One table is kept: a reader who turns pages asks for it again.
        return _page(known, search, offset, limit)

    def _gist(self, name: str, report: Report, cluster_id: str) -> ReportGist:
        gist = ReportGist(name, report.title, report.told, 0, 0, None)
        try:
            kept = KeptTable(self._root, name, cluster_id)
            if not kept.files:
                return gist
            size = sum(each[1] for each in kept.files)
            return replace(gist, rows=kept.rows(("cluster_id",)).num_rows, bytes=size, written_ms=_newest(kept))
        except FormatError as error:
            return replace(gist, trouble=str(error))


def _newest(kept: KeptTable) -> int:
    return max(each[2] for each in kept.files)


def _summed_up(table: Any, written_ms: int) -> ModelGist:
    from pyarrow import compute  # noqa: PLC0415

    rated = table.filter(compute.equal(table["basis"], "rates"))
    until = compute.max(rated["last_window"]).as_py()
    return ModelGist(
        written_ms=written_ms,
        replicas=table.num_rows,
        with_rates=rated.num_rows,
        rates_until_ms=None if until is None else round(in_utc(until).timestamp() * 1000),
        coverage=compute.mean(rated["coverage"]).as_py(),
        confidence=compute.mean(table["confidence"]).as_py() or 0.0,
    )


def _sorted(table: Any, report: Report) -> Any:
    keys = [key for key in report.order if key[0] in table.schema.names]
    return table.sort_by(keys) if keys and table.num_rows else table


def _page(read: _Read, search: str, offset: int, limit: int) -> ReportPage:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    table, told = read.table, read.told
    names = [name for name in table.schema.names if name not in _LEFT_OUT]
    if search:
        texts = [table[name] for name in names if pa.types.is_string(table.schema.field(name).type)]
        found = [compute.fill_null(compute.match_substring(each, search, ignore_case=True), False) for each in texts]
        table = table.filter(reduce(compute.or_, found)) if found else table.slice(0, 0)
    rows = table.select(names).slice(offset, limit).to_pylist()
    return ReportPage(
        tuple(ReportColumn(name, *told.get(name, ("", name.replace("_", " ")))) for name in names),
        table.num_rows,
        offset,
        tuple(tuple(_cell(row[name]) for name in names) for row in rows),
    )


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, datetime):
        return f"{in_utc(value).astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)[:MOST_TEXT]
