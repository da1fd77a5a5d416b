"""Frames that several jobs need: Spark computes such a frame once, and lets it go at the end, however the jobs end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame


@contextmanager
def cached(frame: DataFrame) -> Iterator[DataFrame]:
    """Give a frame that Spark keeps until the end of the block, or until an error ends the block."""
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
