"""Functions for all of Shunter's SQLite files: create tables once, and write a batch as a whole or not at all."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any, Protocol


class Executing(Protocol):
    """A connection in autocommit mode, or its replacement in a test."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Any:
        """Run one statement."""
        ...


@contextlib.contextmanager
def whole_batch(connection: Executing) -> Iterator[None]:
    """A transaction: at its end, either all of its writes are durable or none is."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.DatabaseError):
            connection.execute("ROLLBACK")
        raise


def make_tables(connection: Executing, schema: str) -> None:
    """Run the statements of a schema. Each statement ends with `;` at the end of a line."""
    for statement in filter(str.strip, schema.split(";\n")):
        connection.execute(statement)
