"""Cuts the rows that a task gets from Spark where the value of a column changes. No Spark: record batches in and out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def runs_of(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[tuple[Any, list[pa.RecordBatch]]]:
    """Each run of rows with the same value of a column: the value, and the run's rows."""
    import pyarrow.compute as pc  # noqa: PLC0415  on the executor

    current: Any = None
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        encoded = pc.run_end_encode(batch.column(name))
        start = 0
        for end, value in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
            if value != current and held:
                yield current, held
                held = []
            current = value
            held.append(batch.slice(start, end - start))
            start = end
    if held:
        yield current, held
