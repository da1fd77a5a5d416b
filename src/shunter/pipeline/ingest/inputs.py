"""The inputs of a batch: files with fingerprints of their contents, and the batch's name made from these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from shunter.errors import FormatError
from shunter.pipeline.lake.commits import InputFile
from shunter.pipeline.lake.schemas import SCHEMA_VERSION

_HASH_BLOCK = 4 * 1024 * 1024


def list_inputs(
    spark: SparkSession, paths: Sequence[str], dated: datetime | Literal["modified"] | None = None
) -> tuple[InputFile, ...]:
    """Find the files under paths (files, folders, globs; any file system that Spark can list), with fingerprints.

    Args:
        dated: A time that becomes part of the fingerprints, or `modified` for each file's own; None: contents alone
            count.

    Raises:
        FormatError: nothing is there.
    """
    try:
        # Only these columns are asked for, so Spark lists the files and never reads them.
        listed = (
            spark.read.format("binaryFile")
            .option("recursiveFileLookup", "true")
            .load(list(paths))
            .select("path", "length", F.unix_millis("modificationTime").alias("modified"))
            .collect()
        )
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise FormatError(", ".join(paths), "there is no such file or folder") from error
    if not listed:
        raise FormatError(", ".join(paths), "there is nothing in it: no file, or only empty ones")

    def fingerprint(row: Row) -> str:
        found = _fingerprint(row["path"], row["length"], row["modified"])
        if dated is None:
            return found
        return f"{found}@{row['modified'] if dated == 'modified' else dated.isoformat()}"

    return tuple(
        InputFile(row["path"], fingerprint(row), row["length"]) for row in sorted(listed, key=itemgetter("path"))
    )


def batch_id(kind: str, files: Iterable[InputFile]) -> str:
    """Name a batch by the contents of its files, not by their names: 16 hexadecimal digits."""
    digest = hashlib.sha256(f"{kind}/{SCHEMA_VERSION}".encode())
    for fingerprint in sorted(file.fingerprint for file in files):
        digest.update(fingerprint.encode())
    return digest.hexdigest()[:16]


def _fingerprint(path: str, length: int, modified_ms: int) -> str:
    parsed = urlparse(path)
    local = Path(unquote(parsed.path))
    if parsed.scheme not in ("", "file") or not local.is_file():
        return f"stat:{path}:{length}:{modified_ms}"
    digest = hashlib.sha256()
    with local.open("rb") as stream:
        while block := stream.read(_HASH_BLOCK):
            digest.update(block)
    return f"sha256:{digest.hexdigest()}"
