"""A small lake with the tables that the page shows: Delta tables, written without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

DAY = datetime(2026, 11, 23, 3, tzinfo=UTC)
GB = 10**9


def keep_table(
    lake: Path, table: str, cluster_id: str, schema: dict[str, tuple[Any, str]], rows: list[tuple[Any, ...]]
) -> None:
    """Write a table's rows; `schema`: type and unit of each column."""
    kinds = pa.schema(
        [
            pa.field("cluster_id", pa.string()),
            *(
                pa.field(name, kind, metadata={"unit": unit, "comment": f"what {name} is"})
                for name, (kind, unit) in schema.items()
            ),
        ]
    )
    told = [{"cluster_id": cluster_id, **dict(zip(schema, row, strict=True))} for row in rows]
    write_deltalake(lake / table, pa.Table.from_pylist(told, schema=kinds), partition_by=["cluster_id"], mode="append")


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
    "date": (pa.date32(), "UTC"),
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
    for day, known in ((21, 900), (22, 1_180)):
        row = (date(2026, 11, day), 1_200, known, known / 1_200, DAY)
        keep_table(lake, "data_quality", cluster_id, QUALITY, [row])
    told = "<b>topic-003-1</b> takes 90 MB/s in, and 40 MB/s were usual"
    keep_table(lake, "anomalies", cluster_id, ANOMALIES, [("hot-in", "topic-003-1", date(2026, 11, 22), 9e7, told)])
    return lake
