"""What every SQLite file of ours does alike: tables that are made once, and batches that are written whole or not at all."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any, Protocol


class Executing(Protocol):
    """A connection in autocommit mode, or what stands in for one."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Any:
        """Run one statement."""
        ...


@contextlib.contextmanager
def whole_batch(connection: Executing) -> Iterator[None]:
    """A transaction: all that is written within it is durable at its end, or none of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.DatabaseError):
            connection.execute("ROLLBACK")
        raise


def make_tables(connection: Executing, schema: str) -> None:
    """Run the statements of a schema, each of which ends a line with `;`."""
    for statement in filter(str.strip, schema.split(";\n")):
        connection.execute(statement)
