"""The lake: Delta tables below one folder, or in one schema of a catalog, and batches that count once they are committed.

A batch appends its rows to each of its tables, under an id that no other attempt has. Last it appends its row to
`batches`, under the next number. Delta lets one writer take a number (its transaction identifiers). Readers take rows of
committed batches alone, so a batch counts in all its tables at once, or in none. What a killed attempt left has no
commit: no reader takes it, and `clean` deletes it.

Derived tables are replaced cluster by cluster (day by day, plan by plan): one commit of Delta each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeVar
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from shunter.errors import DriverError, FormatError
from shunter.pipeline.classic import analysed, write_lock
from shunter.pipeline.lake import account_schemas, outlook_schemas, schemas
from shunter.pipeline.lake.commits import CLEAN, Commit, LogState, commit_of, conflicts
from shunter.pipeline.lake.schemas import (
    BATCHES,
    BROKER_SAMPLES,
    BROKERS,
    REJECTS,
    REPLICAS,
    SAMPLES,
    SCHEMA_VERSION,
    Table,
)

GOOD = "good"
REJECTED = "rejected"
JUDGED = Table(
    SAMPLES.name,
    REJECTS.grain,
    (),
    StructType([*REJECTS.schema.fields, StructField("verdict", StringType())]),
    ("verdict", *SAMPLES.partitions),
)
"""Good and rejected rows are one table, so that they arrive together."""
BATCHED = (JUDGED, REPLICAS, BROKERS, BROKER_SAMPLES)
"""Tables that batches append rows to."""
RETENTION_DAYS = 30
"""So long a table can be read as it was. `VACUUM` deletes files that were replaced earlier."""
PROPERTIES = {
    "delta.deletedFileRetentionDuration": f"interval {RETENTION_DAYS} days",
    "delta.logRetentionDuration": f"interval {RETENTION_DAYS} days",
    # Readers without Spark, delta-rs among them, do not all understand deletion vectors.
    "delta.enableDeletionVectors": "false",
}

TABLES: tuple[Table, ...] = tuple(
    {
        value.name: value
        for module in (schemas, account_schemas, outlook_schemas)
        for value in vars(module).values()
        if isinstance(value, Table) and value is not REJECTS
    }.values()
)
"""Every table of a lake."""

_NOT_THERE = {
    "PATH_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_TABLE_ONLY_OPERATION",
    "TABLE_OR_VIEW_NOT_FOUND",
}
_CONFLICT = re.compile(r"DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED)|ALREADY_EXISTS|Concurrent\w+Exception")
_MOST_ATTEMPTS = 8
_MOST_LITERALS = 200
_FAILED = (PySparkException, Py4JError)
_Found = TypeVar("_Found")

_STATES: dict[tuple[str, str], LogState] = {}
"""What this process has read of each lake, by session and root: commits never change."""

Prepare = Callable[[LogState, str], Commit | None]
"""Takes the committed state and an attempt's id, writes the attempt's rows, returns its commit (None: no commit)."""


class Cleaned(NamedTuple):
    """How many batches' rows were deleted: batches that were replaced, and attempts that were never committed."""

    replaced: int = 0
    abandoned: int = 0


@dataclass(frozen=True, slots=True)
class Lake:
    """The place of the tables: a folder as absolute URL or path, or `catalog.schema`. `as_of`: read them as they were."""

    root: str
    as_of: datetime | None = None

    def name(self, table: Table) -> str:
        """The table's name for Spark; rejects are in the table of the good rows."""
        folder = SAMPLES.name if table is REJECTS else table.name
        if is_schema(self.root):
            return f"{self.root}.{folder}"
        return "delta.`{}/{}`".format(self.root.replace("`", "``"), folder)

    @property
    def rejects(self) -> str:
        """Where the rejected rows are, in words."""
        return f"{self.root}/{SAMPLES.name} (verdict={REJECTED})"

    def state(self, spark: SparkSession) -> LogState:
        """All that is committed now.

        Raises:
            FormatError: a commit of a newer version of Shunter, or a commit is missing.
        """
        key = spark.conf.get("spark.app.id") or "", self.root
        known = _STATES.get(key, LogState()) if self.as_of is None else LogState()
        place = self.name(BATCHES)
        rows = self._rows(spark, BATCHES).where(F.col("version") > known.version).collect()
        new = tuple(commit_of(row.asDict(), place) for row in sorted(rows, key=itemgetter("version")))
        expected = known.version + 1
        if [one.version for one in new] != list(range(expected, expected + len(new))):
            rule = (
                f"commits behind {known.version} are {[one.version for one in new][:5]}: one is missing or there twice"
            )
            raise FormatError(place, rule)
        state = LogState((*known.commits, *new))
        if self.as_of is None:
            _STATES[key] = state
        return state

    def live(self, spark: SparkSession) -> tuple[Commit, ...]:
        """Committed batches that no later one replaces."""
        return tuple(commit for commit in self.state(spark).live if commit.kind != CLEAN)

    def transact(self, spark: SparkSession, name: str, prepare: Prepare, now: datetime) -> Commit | None:
        """Write a batch and commit it. A commit that another writer makes meanwhile counts as if it had come before.

        If that commit touches what the batch was decided by, the batch is decided and written again.

        Args:
            name: The batch's name; the time and a random mark of the attempt are added.
            now: UTC.

        Raises:
            DriverError: other writers changed the basis of every attempt.
        """
        for _ in range(_MOST_ATTEMPTS):
            state, attempt = self.state(spark), f"{name}-{now:%Y%m%dT%H%M%S}-{uuid4().hex[:8]}"
            prepared = prepare(state, attempt)
            if prepared is None:
                return None
            commit = self._append(spark, state, replace(prepared, committed_at=now))
            if commit is not None:
                return commit
        rule = f"other writers changed what batch {name} rests on {_MOST_ATTEMPTS} times in a row: run it again"
        raise DriverError(f"{self.root}: {rule}", retriable=True)

    def _append(self, spark: SparkSession, base: LogState, commit: Commit) -> Commit | None:
        """Give a commit the next free number; None if a commit since `base` conflicts with it."""
        state = base
        while True:
            numbered = replace(commit, version=state.version + 1)
            row = asdict(numbered) | {"schema_version": SCHEMA_VERSION}
            # A Connect session takes no tuple for an array.
            row |= {name: list(value) for name, value in row.items() if isinstance(value, tuple)}
            frame = spark.createDataFrame([row], BATCHES.schema)
            # Delta skips a write whose number is taken: whether it was is seen by reading on.
            self._put(frame, BATCHES, "append", ("batches", numbered.version))
            state = self.state(spark)
            newer = state.commits[len(base.commits) :]
            if any(one.ingest_id == commit.ingest_id for one in newer):
                return numbered
            if any(conflicts(commit, one) for one in newer):
                return None

    def read(
        self,
        spark: SparkSession,
        table: Table,
        commits: Sequence[Commit] | None = None,
        version: int | None = None,
    ) -> DataFrame:
        """Rows of a table. If batches write the table: rows of the given commits, or of all live ones.

        Args:
            version: Delta's version of a derived table; None: the newest, or that of `as_of`.
        """
        if "ingest_id" not in table.columns or table is BATCHES:
            return self._rows(spark, table, version).select(*table.columns)
        return self._of(spark, table, self.live(spark) if commits is None else commits)

    def read_batch(self, spark: SparkSession, table: Table, ingest_id: str) -> DataFrame:
        """Rows of one batch, committed or not."""
        return self._of(spark, table, [Commit(ingest_id, "", tables=(table.name, SAMPLES.name))])

    def _of(self, spark: SparkSession, table: Table, commits: Sequence[Commit]) -> DataFrame:
        judged = table in (SAMPLES, REJECTS)
        ids = [one.ingest_id for one in commits if (SAMPLES.name if judged else table.name) in one.tables]
        rows = self._rows(spark, JUDGED if judged else table)
        if judged:
            rows = rows.where(F.col("verdict") == (GOOD if table is SAMPLES else REJECTED))
        if len(ids) <= _MOST_LITERALS:
            return rows.where(F.col("ingest_id").isin(ids)).select(*table.columns)
        counting = spark.createDataFrame([(one,) for one in ids], "ingest_id string")
        return rows.join(F.broadcast(counting), on="ingest_id", how="left_semi").select(*table.columns)

    def _rows(self, spark: SparkSession, table: Table, version: int | None = None) -> DataFrame:
        """All rows; none where there is no table yet."""
        seen = self.version(spark, table) if self.as_of is not None and version is None else (version,)
        found = None if seen is None else self._found(spark, table, seen[0])
        return _nothing(spark, table) if found is None else found

    def _found(self, spark: SparkSession, table: Table, version: int | None = None) -> DataFrame | None:
        reader = spark.read if version is None else spark.read.option("versionAsOf", version)
        return _if_there(lambda: analysed(reader.table(self.name(table))))

    def version(self, spark: SparkSession, table: Table) -> tuple[int, datetime] | None:
        """Delta's version of a table, now or at `as_of`, and when it was made; None: there was none."""
        words = f"DESCRIBE HISTORY {self.name(table)} {'LIMIT 1' if self.as_of is None else ''}"
        # The rows are here already: sorting and choosing them in Spark would be another query.
        rows = _if_there(lambda: spark.sql(words).collect()) or ()
        known = [(row["version"], row["timestamp"].astimezone(UTC)) for row in rows]
        return max((one for one in known if self.as_of is None or one[1] <= self.as_of), default=None)

    def write_judged(self, frame: DataFrame, ingest_id: str) -> None:
        """Append judged rows (columns of `rejects`; `rule` null on good ones) of an attempt, not yet committed."""
        verdict = F.when(F.col("rule").isNull(), F.lit(GOOD)).otherwise(F.lit(REJECTED))
        self.write_rows(frame.withColumn("verdict", verdict), JUDGED, ingest_id)

    def write_rows(self, frame: DataFrame, table: Table, ingest_id: str) -> None:
        """Append an attempt's rows of a table, not yet committed."""
        self._put(frame.withColumn("ingest_id", F.lit(ingest_id)), table, "append")

    def write(self, frame: DataFrame, table: Table, number: tuple[str, int] | None = None) -> None:
        """Replace exactly the partitions of a derived table that the rows fall into, by one commit.

        Of two writers of one cluster at once, Delta refuses the second to commit; it repeats its write.

        Args:
            number: Of whom, and which of his: a writer whose number is not above the last one writes nothing.
        """
        self._put(frame, table, "overwrite", number)

    def _put(
        self,
        frame: DataFrame,
        table: Table,
        mode: Literal["append", "overwrite"],
        number: tuple[str, int] | None = None,
    ) -> None:
        """Append rows, or overwrite the partitions that they fall into. The first write makes the table."""
        options = {} if number is None else {"txnAppId": f"shunter-{number[0]}", "txnVersion": str(number[1])}
        # Bounds of other columns would cost more at each write than they save: their rows are found by partition.
        found_by = "version" if table is BATCHES else "ingest_id"
        bounds = ("StatsColumns", found_by) if found_by in table.columns else ("NumIndexedCols", "0")
        properties = {**PROPERTIES, f"delta.dataSkipping{bounds[0]}": bounds[1]}
        rows = frame.select(*(_column(field) for field in table.schema))
        if is_schema(self.root):
            self._repeating(table, rows.sparkSession, lambda: self._put_by_name(rows, table, mode, options, properties))
            return
        # By path the table API would optimize each query twice, and it takes a folder that a killed writer left for a table.
        writer = rows.write.format("delta").mode(mode).option("partitionOverwriteMode", "dynamic")
        writer = writer.options(**properties, **options).partitionBy(*table.partitions)
        self._repeating(table, rows.sparkSession, lambda: writer.save(f"{self.root}/{table.name}"))

    def _put_by_name(
        self, rows: DataFrame, table: Table, mode: str, options: Mapping[str, str], properties: Mapping[str, str]
    ) -> None:
        name = self.name(table)
        if self._found(rows.sparkSession, table) is None:
            # Rows come behind, for a catalog's table does not keep the transaction identifier of the write that made it.
            made = rows.limit(0).writeTo(name).using("delta")
            for one, value in properties.items():
                made = made.tableProperty(one, value)
            (made.partitionedBy(*map(F.col, table.partitions)) if table.partitions else made).create()
        writer = rows.writeTo(name).options(**options)
        (writer.append if mode == "append" else writer.overwritePartitions)()

    def _repeating(self, table: Table, spark: SparkSession, work: Callable[[], Any]) -> None:
        """Do work again if another writer's commit came in between."""
        for left in reversed(range(_MOST_ATTEMPTS)):
            try:
                with nullcontext() if is_schema(self.root) else write_lock(spark, self.root, table.name):
                    work()
            except _FAILED as error:
                if not left or not _CONFLICT.search(str(error)):
                    raise
            else:
                return

    def optimize(self, spark: SparkSession) -> None:
        """Merge small files of the tables that batches write. Rows, and the versions that can be read, stay."""
        for table in (*BATCHED, BATCHES):
            self.change(spark, table, "OPTIMIZE")

    def change(self, spark: SparkSession, table: Table, before: str, after: str = "") -> None:
        """Run a statement of Delta's about a table, if there is one: the words before its name, and those after it."""
        words = f"{before} {self.name(table)} {after}"
        _if_there(lambda: self._repeating(table, spark, lambda: spark.sql(words)))

    def clean(self, spark: SparkSession, now: datetime, *, older_than: timedelta) -> Cleaned:
        """Delete rows that count no longer: of batches that were replaced, and of attempts that were never committed.

        Files that no version of the last `RETENTION_DAYS` needs are deleted too.

        The list of these attempts is committed first. So a slow writer whose rows are on it can't commit them any
        longer, and begins anew.

        Args:
            now: UTC.
            older_than: Only batches that were replaced, and attempts that were begun, at least so long ago.
        """
        rows = [self._rows(spark, table).select("ingest_id").distinct() for table in BATCHED]
        found = {row["ingest_id"] for row in reduce(DataFrame.union, rows).distinct().collect()}
        limit = now - older_than

        def forfeit(state: LogState, attempt: str) -> Commit | None:
            # Whoever has committed since the rows were looked at keeps them.
            named = {one.ingest_id for one in state.commits}
            lost = tuple(sorted(one for one in found - named if _begun(one) <= limit))
            return Commit(attempt, CLEAN, forfeits=lost) if lost else None

        made = self.transact(spark, CLEAN, forfeit, now)
        lost = () if made is None else made.forfeits
        at = {old: one.committed_at or now for one in self.state(spark).commits for old in one.supersedes}
        replaced = [one for one in found if one in at and at[one] <= limit]
        if replaced or lost:
            for table in BATCHED:
                self.change(spark, table, "DELETE FROM", f"WHERE {among((*replaced, *lost))}")
        for table in TABLES:
            self.change(spark, table, "VACUUM")
        return Cleaned(len(replaced), len(lost))


def _if_there(work: Callable[[], _Found]) -> _Found | None:
    """Work on a table; None where there is no table yet."""
    try:
        return work()
    except AnalysisException as error:
        if error.getCondition() not in _NOT_THERE:
            raise
        return None


def _nothing(spark: SparkSession, table: Table) -> DataFrame:
    """No row of a table, by a condition that Spark's optimizer knows to be false: what is joined to it runs no job."""
    columns = (F.lit(None).cast(field.dataType).alias(field.name) for field in table.schema)
    return spark.range(1).where(F.lit(False)).select(*columns)


def is_schema(root: str) -> bool:
    """Whether a root is `catalog.schema`, and no folder or URL."""
    return re.fullmatch(r"\w+\.\w+", root) is not None


def among(ingest_ids: Sequence[str]) -> str:
    """The condition that a row is of one of these batches, in SQL."""
    literals = ", ".join("'{}'".format(one.replace("\\", "\\\\").replace("'", "\\'")) for one in ingest_ids)
    return f"ingest_id IN ({literals})"


def _begun(ingest_id: str) -> datetime:
    """When an attempt was begun, which is part of its id."""
    return datetime.strptime(ingest_id.split("-")[-2], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)


def _column(field: StructField) -> Column:
    """A column as it is written: with its type, unit and meaning."""
    return F.col(field.name).cast(field.dataType.simpleString()).alias(field.name, metadata=field.metadata)
