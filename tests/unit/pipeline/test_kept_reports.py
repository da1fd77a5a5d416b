"""Tables of the lake as the page shows them: sorted, searched, bounded, with a clear error if one can't be read."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from shunter.errors import FormatError
from shunter.pipeline.lake import kept_reports
from shunter.pipeline.lake.kept_reports import REPORTS, KeptReports
from shunter.pipeline.lake.outlook_schemas import ANOMALIES, DATA_QUALITY, PROCESSOR_MODEL, RUNWAY, SHOWBACK
from shunter.views.reports import ReportColumn, ReportPage

CLUSTER = "c/1"


def keep(root: Path, table: str, columns: dict[str, list[object]]) -> Path:
    rows = len(next(iter(columns.values())))
    data = pa.table(columns | {"cluster_id": [CLUSTER] * rows})
    write_deltalake(root / table, data, partition_by=["cluster_id"], mode="overwrite")
    return root / table


def page(root: Path, name: str, search: str = "", offset: int = 0, limit: int = 100) -> ReportPage:
    found = KeptReports(root).page(name, CLUSTER, search, offset, limit)
    assert found is not None
    return found


def test_every_table_that_is_offered_is_one_of_the_pipelines_and_its_order_is_by_its_columns() -> None:
    schemas = {each.name: each.columns for each in (ANOMALIES, DATA_QUALITY, PROCESSOR_MODEL, RUNWAY, SHOWBACK)}
    assert schemas.keys() == REPORTS.keys()
    assert all(column in schemas[name] for name, report in REPORTS.items() for column, _how in report.order)


def test_what_was_not_made_is_told_so(tmp_path: Path) -> None:
    reports = KeptReports(tmp_path)
    assert reports.model(CLUSTER) is None
    assert [(each.rows, each.written_ms, each.trouble) for each in reports.gists(CLUSTER)] == [(0, None, "")] * 5
    assert reports.page("samples", CLUSTER, "", 0, 1) is None


def test_rows_are_sorted_searched_and_cut(tmp_path: Path) -> None:
    columns: dict[str, list[object]] = {
        "kind": ["topic", "broker", "topic"],
        "name": ["Orders", "3", "audit"],
        "size_bytes": [5, 7, 9],
        "full_at": [None, date(2027, 1, 2), date(2026, 12, 1)],
    }
    keep(tmp_path, "runway", columns)
    whole = page(tmp_path, "runway")
    assert [row[1] for row in whole.rows] == ["audit", "3", "Orders"], "who is full first, and who never is last"
    assert whole.columns[0] == ReportColumn("kind", "", "kind")
    assert whole.rows[0] == ("topic", "audit", 9, "2026-12-01")
    found = page(tmp_path, "runway", "ORD")
    assert (found.found, [row[1] for row in found.rows]) == (1, ["Orders"])
    part = page(tmp_path, "runway", offset=1, limit=1)
    assert (part.found, part.offset, [row[1] for row in part.rows]) == (3, 1, ["3"])


def test_values_are_such_that_json_can_hold_them(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 23, 4, 5, 6)  # noqa: DTZ001 - as Spark writes it
    columns: dict[str, list[object]] = {
        "partitions": [1],
        "rates_until": [moment],
        "coverage": [float("nan")],
        "date": [date(2026, 11, 22)],
        "examples": [["a", "b"]],
    }
    keep(tmp_path, "data_quality", columns)
    (row,) = page(tmp_path, "data_quality").rows
    assert row == (1, "2026-11-23T04:05:06Z", None, "2026-11-22", "['a', 'b']")


def test_a_table_that_changed_is_read_again(tmp_path: Path) -> None:
    reports = KeptReports(tmp_path)
    keep(tmp_path, "anomalies", {"kind": ["grows"], "name": ["a"], "date": [date(2026, 1, 1)]})
    first = reports.page("anomalies", CLUSTER, "", 0, 10)
    assert first is reports.page("anomalies", CLUSTER, "", 0, 10) or first == reports.page(
        "anomalies", CLUSTER, "", 0, 1
    )
    keep(tmp_path, "anomalies", {"kind": ["grows"] * 2, "name": ["a", "b"], "date": [date(2026, 1, 1)] * 2})
    again = reports.page("anomalies", CLUSTER, "", 0, 10)
    assert (first and first.found, again and again.found) == (1, 2)


def test_what_cant_be_read_is_told_and_hides_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path, "anomalies", {"kind": ["grows"], "name": ["a"], "date": [date(2026, 1, 1)]})
    for path in keep(tmp_path, "runway", {"kind": ["topic"], "name": ["a"]}).glob("*/*.parquet"):
        path.write_bytes(b"PAR1 and nothing more")
    (tmp_path / "showback" / "_delta_log").mkdir(parents=True)
    (tmp_path / "showback" / "_delta_log" / "00000000000000000000.json").write_text("no log")
    gists = {each.name: each for each in KeptReports(tmp_path).gists(CLUSTER)}
    assert gists["anomalies"].rows == 1
    assert "can't be read" in gists["runway"].trouble
    assert "can't be read" in gists["showback"].trouble
    with pytest.raises(FormatError, match="can't be read"):
        page(tmp_path, "runway")
    keep(tmp_path, "load_model", {"basis": ["rates"]})
    with pytest.raises(FormatError, match="has no column last_window: make it anew"):
        KeptReports(tmp_path).model(CLUSTER)
    monkeypatch.setattr(kept_reports, "MOST_ROWS", 0)
    with pytest.raises(FormatError, match="has 1 rows, and 0 are shown at the most"):
        page(tmp_path, "anomalies")
