"""What a classic session is needed for, and what a Spark Connect session gets instead.

No other module touches Spark's context or its JVM.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession

from shunter.errors import DriverError, SettingsError

_WRITES = Lock()
"""One thread at a time, for a process can have a file's lock only once."""


def is_classic(spark: SparkSession) -> bool:
    """Whether Spark's driver is a JVM of this process. A Connect session has the same methods, but another class."""
    return isinstance(spark, SparkSession)


def tasks_at_once(spark: SparkSession) -> int:
    """How many tasks run at once, to cut work by. A Connect session does not tell: as many as a shuffle has."""
    if is_classic(spark):
        return spark.sparkContext.defaultParallelism
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def analysed(frame: DataFrame) -> DataFrame:
    """Have Spark judge a frame now: a Connect session finds out only later that a table or a column is missing."""
    _ = frame.schema
    return frame


def refuse_connect(spark: SparkSession, work: str) -> None:
    """Refuse what a Connect session can't do.

    Raises:
        SettingsError: it is one.
    """
    if not is_classic(spark):
        raise SettingsError(
            f"{work} needs a classic session of Spark, not one of Spark Connect: leave out spark.remote"
        )


def query_of_batch(spark: SparkSession) -> str:
    """The id of the stream whose batch this thread works on. A Connect session refuses streams, so it asks for none."""
    return str(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))


@contextmanager
def write_lock(spark: SparkSession, root: str, table: str) -> Iterator[None]:
    """Let one process at a time write a table, if the lake is a folder of this machine.

    There Delta looks whether a commit's name is free, and then renames: if two processes have looked, the second
    replaces the first one's commit. The JVM has the lock, because it commits; it is free as soon as the JVM ends.
    A Connect session has no JVM here, so this process has the same lock. It keeps sessions of other JVMs out as long as
    this process lives, if the server sees the same folder.

    Raises:
        DriverError: this process can't make the lock's file.
    """
    jvm: Any = spark.sparkContext._jvm if is_classic(spark) else None  # noqa: SLF001  nothing public tells the file system
    url = urlparse(root)
    scheme, folder = url.scheme or "file", Path(unquote(url.path))
    if jvm is not None:
        path = jvm.org.apache.hadoop.fs.Path(root)
        scheme = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).getScheme()  # noqa: SLF001
        folder = Path(path.toUri().getPath())
    if scheme != "file":
        yield
        return
    place = folder / f".{table}.lock"
    with _WRITES:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file: Any = place.open("a") if jvm is None else jvm.java.io.RandomAccessFile(str(place), "rw")
        except OSError as error:
            rule = f"a writer locks its table in this folder, and can't ({error}): name another store or CATALOG.SCHEMA"
            raise DriverError(f"{root}: {rule}", retriable=False) from error
        try:
            fcntl.lockf(file, fcntl.LOCK_EX) if jvm is None else file.getChannel().lock()
            yield
        finally:
            file.close()
