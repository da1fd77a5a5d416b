"""A small lake with the tables that the page shows, as Parquet files of the form that Spark writes."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyarrow import parquet

DAY = datetime(2026, 11, 23, 3, tzinfo=UTC)
METADATA = b"org.apache.spark.sql.parquet.row.metadata"
GB = 10**9


def keep_table(
    lake: Path,
    table: str,
    cluster_id: str,
    schema: dict[str, tuple[Any, str]],
    rows: list[tuple[Any, ...]],
    below: str = "",
) -> Path:
    """Write a table's rows; `schema`: type and unit of each column. `below`: a further folder, as `date=2026-11-22`."""
    folder = lake / table / f"cluster_id={quote(cluster_id, safe='')}" / below
    folder.mkdir(parents=True, exist_ok=True)
    told = [
        {"name": name, "metadata": {"unit": unit, "comment": f"what {name} is"}} for name, (_, unit) in schema.items()
    ]
    kinds = pa.schema([(name, kind) for name, (kind, _unit) in schema.items()])
    kinds = kinds.with_metadata({METADATA: json.dumps({"type": "struct", "fields": told}).encode()})
    path = folder / "part-0.parquet"
    parquet.write_table(pa.Table.from_pylist([dict(zip(schema, row, strict=True)) for row in rows], schema=kinds), path)
    (folder / "_SUCCESS").touch()
    return path


TEXT, WHOLE, REAL = pa.string(), pa.int64(), pa.float64()
MOMENT = pa.timestamp("us", tz="UTC")
MODEL: dict[str, tuple[Any, str]] = {
    "basis": (TEXT, ""), "last_window": (MOMENT, "UTC"), "coverage": (REAL, ""), "confidence": (REAL, ""),
}  # fmt: skip
RUNWAY: dict[str, tuple[Any, str]] = {
    "kind": (TEXT, ""), "name": (TEXT, ""), "size_bytes": (WHOLE, "bytes"), "growth_bytes_per_day": (REAL, "bytes/day"),
    "full_at": (pa.date32(), ""), "schema_version": (WHOLE, ""),
}  # fmt: skip
QUALITY: dict[str, tuple[Any, str]] = {
    "partitions": (WHOLE, "partitions"), "with_rates": (WHOLE, "partitions"), "coverage": (REAL, "1"),
    "rates_until": (MOMENT, "UTC"),
}  # fmt: skip
ANOMALIES: dict[str, tuple[Any, str]] = {
    "kind": (TEXT, ""), "name": (TEXT, ""), "date": (pa.date32(), "UTC"), "value": (REAL, "bytes/s, 1 or bytes"),
    "what": (TEXT, ""),
}  # fmt: skip


def keep_lake(lake: Path, cluster_id: str) -> Path:
    """A load model, and three of the reports; the others were not made."""
    keep_table(
        lake, "load_model", cluster_id, MODEL,
        [("rates", DAY, 0.9, 0.5), ("rates", DAY, 0.7, 0.4), ("sizes", None, None, 0.0)],
    )  # fmt: skip
    keep_table(
        lake, "runway", cluster_id, RUNWAY,
        [("topic", "topic-001", 90 * GB, 1e9, None, 1), ("topic", "topic-002", 20 * GB, None, date(2027, 3, 1), 1),
         ("broker", "3", 700 * GB, 5.5e9, date(2026, 12, 24), 1), ("broker", "4", 500 * GB, -1e8, None, 1)],
    )  # fmt: skip
    for day, known in (("2026-11-21", 900), ("2026-11-22", 1_180)):
        keep_table(lake, "data_quality", cluster_id, QUALITY, [(1_200, known, known / 1_200, DAY)], f"date={day}")
    told = "<b>topic-003-1</b> takes 90 MB/s in, and 40 MB/s were usual"
    keep_table(lake, "anomalies", cluster_id, ANOMALIES, [("hot-in", "topic-003-1", date(2026, 11, 22), 9e7, told)])
    return lake
