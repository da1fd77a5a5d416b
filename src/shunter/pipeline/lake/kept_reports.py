"""Tables that the pipeline wrote about one cluster, read without Spark. Nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from shunter.errors import FormatError
from shunter.pipeline.lake.kept_files import Stamp, cluster_folder, in_utc, stamp_of
from shunter.pipeline.lake.kept_model import MODEL
from shunter.views.reports import Cell, ModelGist, ReportColumn, ReportGist, ReportPage

MOST_ROWS = 500_000
"""A table of more rows is not read into the service. Read it with Spark."""
MOST_TEXT = 2_000
"""Characters of one value that are shown."""
_LEFT_OUT = ("cluster_id", "schema_version")
_MODEL_COLUMNS = ("basis", "last_window", "coverage", "confidence")
_SPARK = b"org.apache.spark.sql.parquet.row.metadata"


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
    stamp: Stamp
    table: Any


class KeptReports:
    """Reads the tables of a lake, a table again only after its files changed."""

    def __init__(self, root: Path) -> None:
        """`root`: the lake's folder, as `shunter pipeline --root`."""
        self._root = root
        self._last: dict[tuple[str, str], _Read] = {}

    def model(self, cluster_id: str) -> ModelGist | None:
        """The newest load model, summed up; None: there is no model. Blocks.

        Raises:
            FormatError: the model can't be read, perhaps because it is being replaced.
        """
        folder, stamp = self._files(MODEL, cluster_id)
        if not stamp:
            return None
        table = self._table(folder, _MODEL_COLUMNS)
        return _summed_up(table, _newest(stamp)) if table.num_rows else None

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
        folder, stamp = self._files(name, cluster_id)
        key = (name, cluster_id)
        known = self._last.get(key)
        if known is None or known.stamp != stamp:
            known = _Read(stamp, _sorted(self._table(folder), REPORTS[name]))
            self._last = {key: known}  # One table is kept: a reader who turns pages asks for it again.
        return _page(known.table, search, offset, limit)

    def _gist(self, name: str, report: Report, cluster_id: str) -> ReportGist:
        gist = ReportGist(name, report.title, report.told, 0, 0, None)
        try:
            folder, stamp = self._files(name, cluster_id)
            if not stamp:
                return gist
            size = sum(each[2] for each in stamp)
            return replace(gist, rows=_count(folder), bytes=size, written_ms=_newest(stamp))
        except FormatError as error:
            return replace(gist, trouble=str(error))

    def _files(self, table: str, cluster_id: str) -> tuple[Path, Stamp]:
        folder = cluster_folder(self._root, table, cluster_id)
        return folder, stamp_of(folder, "**/*.parquet")  # Some tables have folders of days or months below.

    def _table(self, folder: Path, columns: tuple[str, ...] | None = None) -> Any:
        def work() -> Any:
            found = _dataset(folder)
            lacking = [name for name in columns or () if name not in found.schema.names]
            if lacking:
                raise FormatError(str(folder), f"has no column {lacking[0]}: make it anew with this version")
            rows = found.count_rows()
            if columns is None and rows > MOST_ROWS:
                told = f"has {rows:,} rows, and {MOST_ROWS:,} are shown at the most: read it with Spark"
                raise FormatError(str(folder), told)
            return found.to_table(columns=None if columns is None else list(columns))

        return _reading(folder, work)


def _dataset(folder: Path) -> Any:
    from pyarrow import dataset  # noqa: PLC0415 - a fifth of a second, and only a service with a lake needs it

    # The folders below are days and months. Their type is not in the files.
    return dataset.dataset(str(folder), format="parquet", partitioning="hive")


def _count(folder: Path) -> int:
    return int(_reading(folder, lambda: _dataset(folder).count_rows()))


def _reading(folder: Path, work: Callable[[], Any]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    try:
        return work()
    except (OSError, pa.ArrowException) as error:
        raise FormatError(str(folder), f"can't be read: {str(error).splitlines()[0]}") from error


def _newest(stamp: Stamp) -> int:
    return max(each[1] for each in stamp) // 1_000_000


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


def _page(table: Any, search: str, offset: int, limit: int) -> ReportPage:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    names = [name for name in table.schema.names if name not in _LEFT_OUT]
    told = _told_columns(table.schema)
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


def _told_columns(schema: Any) -> dict[str, tuple[str, str]]:
    """Units and meanings of columns, which the pipeline keeps beside the data."""
    try:
        fields = json.loads((schema.metadata or {}).get(_SPARK, b"{}")).get("fields", [])
        return {
            each["name"]: (each["metadata"].get("unit", ""), each["metadata"].get("comment", "")) for each in fields
        }
    except (ValueError, KeyError, AttributeError, TypeError):
        return {}


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
