"""Files that can't be read to their end: put aside by name, so that the others of their batch are taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.pipeline.ingest.validation import as_raw
from shunter.pipeline.lake.commits import Commit, InputFile, anew

_MOST_CAUSES = 10

FILE_RULE = "file_not_readable"
"""No row of such a file is taken, even if some of its rows can be read."""


class BrokenFile(NamedTuple):
    """A file, and the reason that Spark gives."""

    path: str
    why: str


def taking_what_can_be_read(
    begun: Commit,
    read: Callable[[Sequence[str]], DataFrame],
    take: Callable[[Commit, Sequence[InputFile], Sequence[BrokenFile]], Commit],
) -> Commit:
    """Take a batch's files; if that fails, find out which of them can't be read, and take the others anew.

    Args:
        read: Reads some of the files.
        take: Takes files into the batch, and puts broken ones aside.

    Raises:
        PySparkException, Py4JJavaError: as `take`, if every file can be read.
    """
    try:
        return take(begun, begun.files, ())
    except (PySparkException, Py4JJavaError):
        broken = [found for found in (_flaw(file.path, read) for file in begun.files) if found is not None]
        if not broken:
            raise
    names = {one.path for one in broken}
    return take(anew(begun), [file for file in begun.files if file.path not in names], broken)


def put_broken_aside(spark: SparkSession, broken: Sequence[BrokenFile], source: str) -> DataFrame:
    """A row for each broken file. Columns of `validation.RAW`."""
    given = spark.createDataFrame([tuple(one) for one in broken], "path string, why string")
    return as_raw(
        given,
        {
            "source": F.lit(source),
            "file": F.col("path"),
            "reader_rule": F.lit(FILE_RULE),
            "reader_detail": F.concat(F.lit("the file can't be read to its end: "), F.col("why")),
        },
    )


def _flaw(path: str, read: Callable[[Sequence[str]], DataFrame]) -> BrokenFile | None:
    try:
        read([path]).write.format("noop").mode("overwrite").save()
    except Py4JJavaError as error:
        return BrokenFile(path, _gist(_with_causes(error)))
    except PySparkException as error:
        return BrokenFile(path, _gist(str(error)))
    return None


def _with_causes(error: Py4JJavaError) -> str:
    """Spark's message, and below it that of each cause: Spark's own may say no more than that a file can't be read."""
    thrown = error.java_exception
    told = [str(thrown.getMessage())]
    while len(told) < _MOST_CAUSES and (thrown := thrown.getCause()) is not None:
        told.append(f"Caused by: {thrown.toString()}")
    return "\n".join(told)


def _gist(words: str) -> str:
    """The innermost cause, because it names the flaw; Spark's own message names the task."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes[-1] if causes else lines[0] if lines else "Spark does not say why")[:200]
