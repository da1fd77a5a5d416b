"""All reads and writes: tables under one root, batches that count only when the manifest names them.

A batch is written first (into folders of its own ingest id, overwriting what an earlier attempt left there) and
committed after: one small file in the manifest. Readers see committed batches alone, so a crash in between leaves
nothing, and running a batch again changes nothing.

```
ROOT/samples/verdict=good/cluster_id=…/date=…/ingest_id=…/part-….parquet
ROOT/samples/verdict=rejected/…            the same write: good and rejected rows arrive together
ROOT/manifest/ingest_id=…/part-….json      the commit
ROOT/hourly/cluster_id=…/date=…/           derived: replaced day by day
```
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from shunter.errors import FormatError
from shunter.pipeline.schemas import (
    BROKER_SAMPLES,
    BROKERS,
    MANIFEST,
    REJECTS,
    REPLICAS,
    SAMPLES,
    SCHEMA_VERSION,
    Table,
)

GOOD = "good"
REJECTED = "rejected"

_HASH_BLOCK = 4 * 1024 * 1024
_NOT_THERE = {"PATH_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE"}


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input. `fingerprint` is the SHA-256 of its contents, or length and time where they can't be read from here."""

    path: str
    fingerprint: str
    length: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One batch that counts."""

    ingest_id: str
    kind: str
    files: tuple[InputFile, ...] = ()
    good: int = 0
    rejected: int = 0
    rules: tuple[tuple[str, int], ...] = ()
    clusters: tuple[str, ...] = ()
    first_date: date | None = None
    last_date: date | None = None
    watermark: datetime | None = None
    keep_from: date | None = None
    supersedes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lake:
    """Where the tables live. `file_format` is `parquet`, or one whose jars the session has (`delta`)."""

    root: str
    file_format: str = "parquet"

    def path(self, table: Table) -> str:
        """Folder of a table; rejects are beside the good rows, because one write brings both."""
        if table is SAMPLES:
            return f"{self.root}/samples/verdict={GOOD}"
        if table is REJECTS:
            return f"{self.root}/samples/verdict={REJECTED}"
        return f"{self.root}/{table.name}"

    @property
    def _growing(self) -> dict[str, str]:
        """Delta refuses columns that its table does not have yet, unless it is told that they may come."""
        return {"mergeSchema": "true"} if self.file_format == "delta" else {}

    @property
    def rejects(self) -> str:
        """Folder of the rows that were put aside."""
        return self.path(REJECTS)

    def commits(self, spark: SparkSession) -> tuple[Commit, ...]:
        """Every committed batch, oldest first."""
        frame = _read_or_empty(spark, "json", MANIFEST.schema, f"{self.root}/{MANIFEST.name}")
        return tuple(
            _commit_of(row.asDict(recursive=True)) for row in frame.orderBy("committed_at", "ingest_id").collect()
        )

    def live(self, spark: SparkSession) -> tuple[Commit, ...]:
        """Committed batches that no later one replaces."""
        commits = self.commits(spark)
        replaced = {ingest_id for commit in commits for ingest_id in commit.supersedes}
        return tuple(commit for commit in commits if commit.ingest_id not in replaced)

    def read(self, spark: SparkSession, table: Table, ingest_ids: Iterable[str] | None = None) -> DataFrame:
        """Rows of a table; where batches bring them, the committed ones, or those of the given batches."""
        if table is SAMPLES or table is REJECTS:
            frame = self._read_judged(spark, table)
        else:
            frame = _read_or_empty(spark, self.file_format, table.schema, self.path(table))
        if "ingest_id" not in table.partitions:
            return frame.select(*table.columns)
        wanted = [commit.ingest_id for commit in self.live(spark)] if ingest_ids is None else list(ingest_ids)
        return frame.where(F.col("ingest_id").isin(wanted)).select(*table.columns)

    def read_batch(self, spark: SparkSession, table: Table, ingest_id: str) -> DataFrame:
        """Rows of `samples` or `rejects` of one batch, committed or not; looks into its own folders alone."""
        if self.file_format != "parquet":
            return self.read(spark, table, [ingest_id])
        folders = f"{self.path(table)}/cluster_id=*/date=*/ingest_id={ingest_id}"
        options = {"basePath": self.path(table)}
        return _read_or_empty(spark, "parquet", table.schema, folders, options).select(*table.columns)

    def _read_judged(self, spark: SparkSession, table: Table) -> DataFrame:
        if self.file_format == "parquet":
            return _read_or_empty(spark, "parquet", table.schema, self.path(table))
        judged = StructType([*REJECTS.schema.fields, StructField("verdict", StringType())])
        verdict = GOOD if table is SAMPLES else REJECTED
        return _read_or_empty(spark, self.file_format, judged, f"{self.root}/samples").where(
            F.col("verdict") == verdict
        )

    def write_judged(self, frame: DataFrame, ingest_id: str) -> None:
        """Write judged rows (columns of `rejects`; `rule` null on good ones) under an ingest id, not yet committed."""
        verdict = F.when(F.col("rule").isNull(), F.lit(GOOD)).otherwise(F.lit(REJECTED))
        (
            frame.withColumn("ingest_id", F.lit(ingest_id))
            .select(verdict.alias("verdict"), *REJECTS.columns)
            .write.format(self.file_format)
            .options(**self._growing)
            .mode("overwrite")
            .partitionBy("verdict", *SAMPLES.partitions)
            .save(f"{self.root}/samples")
        )

    def write(self, frame: DataFrame, table: Table) -> None:
        """Replace exactly the folders of a table that the rows fall into."""
        (
            frame.select(*table.columns)
            .write.format(self.file_format)
            .options(**self._growing)
            .mode("overwrite")
            .partitionBy(*table.partitions)
            .save(self.path(table))
        )

    def commit(self, spark: SparkSession, commit: Commit, committed_at: datetime) -> None:
        """Make a batch count. Committing the same batch again replaces its line by the same line."""
        row = {
            "ingest_id": commit.ingest_id,
            "kind": commit.kind,
            "files": [{"path": f.path, "fingerprint": f.fingerprint, "bytes": f.length} for f in commit.files],
            "good": commit.good,
            "rejected": commit.rejected,
            "rules": [{"rule": rule, "rows": rows} for rule, rows in commit.rules],
            "clusters": list(commit.clusters),
            "first_date": commit.first_date,
            "last_date": commit.last_date,
            "watermark": commit.watermark,
            "keep_from": commit.keep_from,
            "supersedes": list(commit.supersedes),
            "committed_at": committed_at,
            "schema_version": SCHEMA_VERSION,
        }
        frame = spark.createDataFrame([row], MANIFEST.schema).coalesce(1)
        frame.write.mode("overwrite").partitionBy("ingest_id").json(f"{self.root}/{MANIFEST.name}")

    def vacuum(self, spark: SparkSession) -> int:
        """Delete the folders of batches that were replaced; gives their number. Readers that began before may fail."""
        replaced = sorted({ingest_id for commit in self.commits(spark) for ingest_id in commit.supersedes})
        if self.file_format == "delta":
            return self._delete(spark, replaced)
        # The one place that needs Hadoop's file system itself: Spark can write and overwrite, but not delete.
        gateway = spark.sparkContext._jvm  # noqa: SLF001
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        if gateway is None:
            return 0
        deleted = 0
        for ingest_id in replaced:
            for folders in ("samples/verdict=*", REPLICAS.name, BROKERS.name, BROKER_SAMPLES.name):
                pattern = gateway.org.apache.hadoop.fs.Path(
                    f"{self.root}/{folders}/cluster_id=*/date=*/ingest_id={ingest_id}"
                )
                files = pattern.getFileSystem(hadoop)
                for status in files.globStatus(pattern) or []:
                    deleted += bool(files.delete(status.getPath(), True))
        return deleted

    def _delete(self, spark: SparkSession, replaced: Sequence[str]) -> int:
        """Delta keeps a log of its files: what it doesn't delete itself is missed."""
        for folder in ("samples", REPLICAS.name, BROKERS.name, BROKER_SAMPLES.name):
            for ingest_id in replaced:
                with contextlib.suppress(AnalysisException):
                    spark.sql(
                        f"DELETE FROM delta.`{self.root}/{folder}` WHERE ingest_id = :ingest_id",  # noqa: S608  our own root
                        args={"ingest_id": ingest_id},
                    )
        return len(replaced)


def list_inputs(spark: SparkSession, paths: Sequence[str]) -> tuple[InputFile, ...]:
    """Find the files under paths (files, folders, globs; any file system that Spark can list), with fingerprints.

    Raises:
        FormatError: nothing is there.
    """
    try:
        # Only these columns are asked for, so Spark lists and never reads the contents.
        listed = (
            spark.read.format("binaryFile")
            .option("recursiveFileLookup", "true")
            .load(list(paths))
            .select("path", "length", F.unix_millis("modificationTime").alias("modified"))
            .orderBy("path")
            .collect()
        )
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise FormatError(", ".join(paths), "there is no such file or folder") from error
    if not listed:
        raise FormatError(", ".join(paths), "there is nothing in it: no file, or only empty ones")
    return tuple(
        InputFile(row["path"], _fingerprint(row["path"], row["length"], row["modified"]), row["length"])
        for row in listed
    )


def batch_id(kind: str, files: Iterable[InputFile]) -> str:
    """Name a batch by what is in its files, whatever they are called: 16 hexadecimal digits."""
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


def _read_or_empty(
    spark: SparkSession, file_format: str, schema: StructType, path: str, options: Mapping[str, str] | None = None
) -> DataFrame:
    """Rows of a table with all columns of a schema; columns that an older version did not write yet are null."""
    reader = spark.read.format(file_format).options(**(options or {}))
    try:
        # Formats with a log of their own know their schema, and refuse to be told.
        found = (reader if file_format == "delta" else reader.schema(schema)).load(path)
    except AnalysisException as error:
        if error.getCondition() not in _NOT_THERE:
            raise
        return spark.createDataFrame([], schema)
    missing = [field for field in schema.fields if field.name not in found.columns]
    return found.withColumns({field.name: F.lit(None).cast(field.dataType) for field in missing})


def _commit_of(row: dict[str, Any]) -> Commit:
    files = tuple(InputFile(f["path"], f["fingerprint"], f["bytes"]) for f in row["files"])
    rules = tuple((r["rule"], r["rows"]) for r in row["rules"])
    return Commit(
        ingest_id=str(row["ingest_id"]),
        kind=str(row["kind"]),
        files=files,
        good=int(row["good"]),
        rejected=int(row["rejected"]),
        rules=rules,
        clusters=tuple(row["clusters"]),
        first_date=row["first_date"],
        last_date=row["last_date"],
        watermark=row["watermark"],
        keep_from=row["keep_from"],
        supersedes=tuple(row["supersedes"]),
    )
