"""All reads and writes of the lake: tables under one root, and batches that count once the log names them.

A batch is first written into folders that no other attempt ever uses. Then it is committed: one small file in the log,
which is created only if no file has that number yet (`commit_log`). Readers see committed batches alone. A crash
between the two leaves files that no commit names and no reader reads; `clean` deletes them.

```
ROOT/samples/ingest_id=…/verdict=good/cluster_id=…/date=…/part-….parquet
ROOT/samples/ingest_id=…/verdict=rejected/…     the same write: good and rejected rows arrive together
ROOT/log/00000000000000000001.json              a commit
ROOT/hourly/cluster_id=…/date=…/                derived: replaced day by day
```
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlparse
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from shunter.errors import DriverError, FormatError
from shunter.pipeline.lake.commit_log import CLEAN, Commit, CommitLog, InputFile, LogState, conflicts
from shunter.pipeline.lake.schemas import (
    BROKER_SAMPLES,
    BROKERS,
    MANIFEST,
    REJECTS,
    REPLICAS,
    SAMPLES,
    SCHEMA_VERSION,
    Table,
)
from shunter.pipeline.lake.stores import open_store

GOOD = "good"
REJECTED = "rejected"
BATCHED = (SAMPLES.name, REPLICAS.name, BROKERS.name, BROKER_SAMPLES.name)
"""Folders that batches write rows into."""

_HASH_BLOCK = 4 * 1024 * 1024
_NOT_THERE = {"PATH_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE"}
_MOST_ATTEMPTS = 8
_CLEANS_KEPT = timedelta(days=30)

_LOGS: dict[tuple[str, str], CommitLog] = {}
"""The log of each lake, by session and root, with what this process has read of it: commits never change."""

Prepare = Callable[[LogState, str], Commit | None]
"""Takes the committed state and an attempt's id, writes the attempt's rows, returns its commit (None: no commit)."""


class Cleaned(NamedTuple):
    """How much was deleted: replaced batches, attempts that were never committed, entries of the log."""

    replaced: int = 0
    abandoned: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Lake:
    """The place of the tables. `file_format` is `parquet`, or a format whose jars the session has (`delta`)."""

    root: str
    file_format: str = "parquet"

    def path(self, table: Table) -> str:
        """Folder of a table; rejects are beside the good rows, because one write brings both."""
        return f"{self.root}/{_folder(table)}"

    @property
    def _growing(self) -> dict[str, str]:
        """Options of a write: Delta refuses columns that its table does not have yet, unless the write allows them."""
        return {"mergeSchema": "true"} if self.file_format == "delta" else {}

    @property
    def rejects(self) -> str:
        """Where the rejected rows are, in words."""
        return f"{self.path(REJECTS)} (verdict={REJECTED})"

    def log(self, spark: SparkSession) -> CommitLog:
        """The lake's log."""
        # A log is kept by session too: connections to the file system end with their session.
        which = spark.sparkContext.applicationId, self.root
        if which not in _LOGS:
            store = open_store(spark, f"{self.root}/log")
            _LOGS[which] = CommitLog(store, f"{self.root}/log", lambda: self._older_commits(spark))
        return _LOGS[which]

    def state(self, spark: SparkSession) -> LogState:
        """The committed state now."""
        return self.log(spark).state()

    def commits(self, spark: SparkSession) -> tuple[Commit, ...]:
        """Every committed batch that is not deleted, oldest first."""
        return tuple(commit for commit in self.state(spark).commits if commit.kind != CLEAN)

    def live(self, spark: SparkSession) -> tuple[Commit, ...]:
        """Committed batches that no later one replaces."""
        return tuple(commit for commit in self.state(spark).live if commit.kind != CLEAN)

    def transact(self, spark: SparkSession, name: str, prepare: Prepare, now: datetime) -> Commit | None:
        """Write a batch and commit it. A commit that another writer makes meanwhile counts as if it had come before.

        If that commit touches what the batch was decided by, the batch is decided and written again.

        Args:
            name: The batch's name; a random mark of the attempt is added.
            now: UTC.

        Raises:
            DriverError: other writers changed the basis of every attempt.
        """
        for _ in range(_MOST_ATTEMPTS):
            state, attempt = self.state(spark), f"{name}-{uuid4().hex[:8]}"
            try:
                prepared = prepare(state, attempt)
            except (PySparkException, Py4JJavaError):
                self.discard(spark, attempt)
                now_there = {one.ingest_id for one in self.state(spark).commits}
                if {one.ingest_id for one in state.live} <= now_there:
                    raise
                # A batch that the attempt was reading was replaced and deleted meanwhile.
                continue
            if prepared is None:
                return None
            commit = replace(prepared, ingest_id=attempt, committed_at=now)
            if self._append(spark, state, commit):
                return commit
            self.discard(spark, attempt)
        rule = f"other writers changed what batch {name} rests on {_MOST_ATTEMPTS} times in a row: run it again"
        raise DriverError(f"{self.root}: {rule}", retriable=True)

    def discard(self, spark: SparkSession, attempt: str) -> None:
        """Delete the files of an attempt that is given up or begun again."""
        self._delete(spark, [attempt])

    def _append(self, spark: SparkSession, base: LogState, commit: Commit) -> bool:
        log, known = self.log(spark), {one.ingest_id for one in base.commits}
        state = base
        while log.append(state, commit) is None:
            state = log.state()
            newer = [one for one in state.commits if one.version > base.version]
            if any(conflicts(commit, one, known) for one in newer):
                return False
        return True

    def read(self, spark: SparkSession, table: Table, commits: Sequence[Commit] | None = None) -> DataFrame:
        """Rows of a table. If batches write the table: rows of the given commits, or of all live ones."""
        if "ingest_id" not in table.partitions:
            return _read_or_empty(spark, self.file_format, table.schema, self.path(table)).select(*table.columns)
        return self._read_commits(spark, table, self.state(spark).live if commits is None else commits)

    def read_batch(self, spark: SparkSession, table: Table, ingest_id: str) -> DataFrame:
        """Rows of one batch, committed or not; reads the batch's own folders alone."""
        return self._read_commits(spark, table, [Commit(ingest_id, "", tables=(_folder(table),))])

    def _read_commits(self, spark: SparkSession, table: Table, commits: Sequence[Commit]) -> DataFrame:
        folder, path = _folder(table), self.path(table)
        judged = StructType([*REJECTS.schema.fields, StructField("verdict", StringType())])
        schema = judged if folder == SAMPLES.name else table.schema
        if self.file_format != "parquet":
            wanted = [one.ingest_id for one in commits if not one.tables or folder in one.tables]
            found = _read_or_empty(spark, self.file_format, schema, path).where(F.col("ingest_id").isin(wanted))
        else:
            own = [f"{path}/ingest_id={one.ingest_id}" for one in commits if folder in one.tables]
            # A folder that a commit names must be there: a missing one has to end the job, not look like a table
            # without rows.
            reader = spark.read.schema(schema).option("basePath", path)
            found = reader.parquet(*own) if own else spark.createDataFrame([], schema)
            # A commit of `clean` has no rows anywhere.
            older = [one.ingest_id for one in commits if not one.tables and one.kind != CLEAN]
            if older:
                found = found.unionByName(self._read_older(spark, schema, path, older))
        if folder == SAMPLES.name:
            found = found.where(F.col("verdict") == (GOOD if table is SAMPLES else REJECTED))
        return found.select(*table.columns)

    def _read_older(self, spark: SparkSession, schema: StructType, path: str, ingest_ids: list[str]) -> DataFrame:
        """Rows of batches that a version without a log wrote: it kept all batches in the same folders."""
        folders = "verdict=*" if "verdict" in schema.fieldNames() else "cluster_id=*"
        found = _read_or_empty(spark, "parquet", schema, [f"{path}/{folders}"], {"basePath": path})
        return found.where(F.col("ingest_id").isin(ingest_ids))

    def write_judged(self, frame: DataFrame, ingest_id: str, *, again: bool = False) -> None:
        """Write judged rows (columns of `rejects`; `rule` null on good ones) of an attempt, not yet committed.

        Args:
            again: Replace what the attempt wrote before.
        """
        if again:
            self._delete(spark=frame.sparkSession, ingest_ids=[ingest_id], folders=(SAMPLES.name,))
        verdict = F.when(F.col("rule").isNull(), F.lit(GOOD)).otherwise(F.lit(REJECTED))
        rows = frame.withColumn("ingest_id", F.lit(ingest_id)).select(verdict.alias("verdict"), *REJECTS.columns)
        self._add(rows, self.path(SAMPLES), ingest_id, ("verdict", *SAMPLES.partitions))

    def write_rows(self, frame: DataFrame, table: Table, ingest_id: str) -> None:
        """Write an attempt's rows of another table that batches bring, not yet committed."""
        rows = frame.withColumn("ingest_id", F.lit(ingest_id)).select(*table.columns)
        self._add(rows, self.path(table), ingest_id, table.partitions)

    def _add(self, rows: DataFrame, path: str, ingest_id: str, folders: Sequence[str]) -> None:
        if self.file_format != "parquet":
            added = rows.write.format(self.file_format).options(**self._growing).mode("append")
            added.partitionBy(*folders).save(path)
            return
        # Each batch has a folder that only its own Spark job writes to: jobs that write into one folder at the same
        # time delete each other's temporary files.
        inner = [name for name in folders if name != "ingest_id"]
        rows.drop("ingest_id").write.mode("errorifexists").partitionBy(*inner).parquet(f"{path}/ingest_id={ingest_id}")

    def write(self, frame: DataFrame, table: Table) -> None:
        """Replace exactly the folders of a derived table that the rows fall into."""
        (
            frame.select(*table.columns)
            .write.format(self.file_format)
            .options(**self._growing)
            .mode("overwrite")
            .partitionBy(*table.partitions)
            .save(self.path(table))
        )

    def clean(self, spark: SparkSession, now: datetime, *, older_than: timedelta, abandoned: bool = True) -> Cleaned:
        """Delete files that no commit names: batches that were replaced, and attempts that were never committed.

        The list of what is to be deleted is committed first. So a slow writer whose files are on it can't commit them
        any longer, and begins anew. Readers that began before may fail.

        Args:
            now: UTC.
            older_than: Only batches that were replaced, and attempts that were written, at least so long ago.
            abandoned: Delete uncommitted attempts too; else only replaced batches.
        """
        state, limit = self.state(spark), now - older_than
        replaced_at = {
            old: one.committed_at for one in state.commits for old in one.supersedes if one.committed_at is not None
        }
        named = {one.ingest_id: one for one in state.commits}
        replaced = sorted(old for old, at in replaced_at.items() if old in named and at <= limit)
        lost = sorted(self._abandoned(spark, set(named), limit)) if abandoned else []
        entries = self.log(spark).prune(limit)
        if not replaced and not lost:
            return Cleaned(entries=entries)
        cleans = [
            one.ingest_id
            for one in state.commits
            if one.kind == CLEAN and one.committed_at is not None and one.committed_at < now - _CLEANS_KEPT
        ]
        older = [old for old in replaced if not named[old].tables]
        gone = Commit("", CLEAN, forgets=(*replaced, *cleans), forfeits=tuple(lost))
        if self.transact(spark, CLEAN, lambda _, attempt: replace(gone, ingest_id=attempt), now) is not None:
            self._delete(spark, [*replaced, *lost])
            self._delete_older(spark, older)
        return Cleaned(len(replaced), len(lost), entries)

    def _abandoned(self, spark: SparkSession, named: set[str], limit: datetime) -> set[str]:
        """Attempts that nothing names, and whose newest file is old enough."""
        newest: dict[str, int] = {}
        if self.file_format != "parquet":
            for folder in BATCHED:
                path = f"{self.root}/{folder}"
                rows = _read_or_empty(
                    spark, self.file_format, StructType([StructField("ingest_id", StringType())]), path
                )
                if "verdict" not in rows.columns and rows.isEmpty():
                    continue
                written = F.max(F.unix_millis("_metadata.file_modification_time")).alias("at")
                for row in rows.groupBy("ingest_id").agg(written).collect():
                    newest[row["ingest_id"]] = max(newest.get(row["ingest_id"], 0), row["at"])
        else:
            files, path_of = _hadoop(spark, self.root)
            for folder in BATCHED:
                for status in files.globStatus(path_of(f"{self.root}/{folder}/ingest_id=*")) or []:
                    ingest_id = str(status.getPath().getName()).removeprefix("ingest_id=")
                    if ingest_id not in named:
                        at = _newest_file(files, status)
                        newest[ingest_id] = max(newest.get(ingest_id, 0), at)
        return {
            ingest_id
            for ingest_id, at in newest.items()
            if ingest_id not in named and datetime.fromtimestamp(at / 1000, UTC) <= limit
        }

    def _delete(self, spark: SparkSession, ingest_ids: Sequence[str], folders: Sequence[str] = BATCHED) -> None:
        for folder in folders:
            for ingest_id in ingest_ids:
                if self.file_format == "parquet":
                    # Spark can write and overwrite, but not delete. Hadoop's file system can.
                    files, path_of = _hadoop(spark, self.root)
                    files.delete(path_of(f"{self.root}/{folder}/ingest_id={ingest_id}"), True)
                elif self._holds(spark, folder):
                    # Delta keeps a log of its files, so Delta itself has to delete them.
                    query = f"DELETE FROM delta.`{self.root}/{folder}` WHERE ingest_id = :ingest_id"  # noqa: S608  our own root
                    spark.sql(query, args={"ingest_id": ingest_id})

    def _holds(self, spark: SparkSession, folder: str) -> bool:
        files, path_of = _hadoop(spark, self.root)
        return bool(files.exists(path_of(f"{self.root}/{folder}")))

    def _delete_older(self, spark: SparkSession, ingest_ids: Sequence[str]) -> None:
        if self.file_format != "parquet":
            return
        files, path_of = _hadoop(spark, self.root)
        for ingest_id in ingest_ids:
            for folders in ("samples/verdict=*", REPLICAS.name, BROKERS.name, BROKER_SAMPLES.name):
                pattern = path_of(f"{self.root}/{folders}/cluster_id=*/date=*/ingest_id={ingest_id}")
                for status in files.globStatus(pattern) or []:
                    files.delete(status.getPath(), True)

    def _older_commits(self, spark: SparkSession) -> tuple[Commit, ...]:
        """Commits that a version without a log wrote: a folder of JSON for each."""
        if not self._holds(spark, MANIFEST.name):
            return ()
        frame = _read_or_empty(spark, "json", MANIFEST.schema, [f"{self.root}/manifest"])
        return tuple(
            _commit_of(row.asDict(recursive=True)) for row in frame.orderBy("committed_at", "ingest_id").collect()
        )


def _folder(table: Table) -> str:
    return SAMPLES.name if table is REJECTS else table.name


def _hadoop(spark: SparkSession, root: str) -> tuple[Any, Callable[[str], Any]]:
    """The file system of a root, and the constructor of its paths."""
    gateway, context = spark.sparkContext._jvm, spark.sparkContext._jsc  # noqa: SLF001  Spark can't delete
    assert gateway is not None, "a session has its JVM"
    path_of: Callable[[str], Any] = gateway.org.apache.hadoop.fs.Path
    return path_of(root).getFileSystem(context.hadoopConfiguration()), path_of


def _newest_file(files: Any, status: Any) -> int:
    """When a folder's newest file was written, in milliseconds since 1970; the folder's own time if it has no file."""
    newest = int(status.getModificationTime())
    found = files.listFiles(status.getPath(), True)
    while found.hasNext():
        newest = max(newest, int(found.next().getModificationTime()))
    return newest


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


def _read_or_empty(
    spark: SparkSession,
    file_format: str,
    schema: StructType,
    path: str | list[str],
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Rows of a table with all columns of a schema; columns that an older version did not write yet are null."""
    if not path:
        return spark.createDataFrame([], schema)
    reader = spark.read.format(file_format).options(**(options or {}))
    try:
        # Formats with a log of their own know their schema, and refuse one that is given.
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
        watermark=None if row["watermark"] is None else row["watermark"].astimezone(UTC),
        keep_from=row["keep_from"],
        supersedes=tuple(row["supersedes"]),
    )
