"""Batches: find what is new, judge it, write good and rejected rows together, commit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.pipeline.lake import Commit, InputFile, Lake, batch_id, list_inputs
from shunter.pipeline.schemas import REJECTS, SAMPLE_KEY, SAMPLES, SNAPSHOTS
from shunter.pipeline.validation import Limits, judge, judge_sequence, refuse

Reader = Callable[[SparkSession, Sequence[str]], DataFrame]
"""Paths to rows in the columns of `validation.RAW`."""

SEQUENCE_RULES = ("duplicate", "time_backwards", "already_ingested", "mixed_clusters", "late")
ROW_RULES = (
    "missing_key", "negative", "unknown_role", "other_cluster", "absurd_window", "absurd_time", "absurd_rate",
    "absurd_size", "no_load", "not_a_number", "not_a_time", "wrong_unit", "not_readable", "unknown_broker",
)  # fmt: skip
_MORE_THAN_SAMPLES = (SNAPSHOTS, "cruise-control")
"""Kinds whose batches bring other rows too: without a good sample they took something all the same."""
RULES = (*ROW_RULES, *SEQUENCE_RULES)
"""Every rule by which a row can be put aside."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How a batch is judged and cut. `many_clusters` lets one file hold rows of several clusters."""

    cluster: str | None = None
    many_clusters: bool = False
    limits: Limits = field(default_factory=Limits)
    rows_per_file: int = 1_000_000
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class IngestOutcome:
    """What a batch brought. `ingest_id` is None when every file had been ingested before."""

    ingest_id: str | None
    good: int = 0
    rejected: int = 0
    rules: tuple[tuple[str, int], ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    """One row of each rule: what is wrong with it, which replica it is of, which file it came in."""
    skipped: tuple[str, ...] = ()
    """Files whose contents are in the manifest already."""
    broker_rows: int = 0
    """Rows in `broker_samples`."""

    @property
    def nothing_new(self) -> bool:
        """Whether all of it was put aside, for another reason than that it had come before."""
        return self.broker_rows == 0 and nothing_taken(self.good, self.rejected, self.rules)


def nothing_taken(good: int, rejected: int, rules: Iterable[tuple[str, int]]) -> bool:
    """Whether a batch brought no good row; one whose rows were all there before is in order."""
    known = sum(rows for rule, rows in rules if rule == "already_ingested")
    return good == 0 and (rejected == 0 or known < rejected)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a batch holds, from one pass over three columns: rows by cluster and day, clusters by file."""

    rows: int
    largest_day: int
    clusters: tuple[str, ...]
    first_date: date | None
    last_date: date | None
    mixed_files: tuple[str, ...]
    """Files with rows of more than one cluster."""


def ingest_files(
    spark: SparkSession,
    lake: Lake,
    paths: Sequence[str],
    kind: str,
    reader: Reader,
    *,
    now: datetime,
    options: IngestOptions,
) -> IngestOutcome:
    """Ingest files that were not ingested before; running it again changes nothing.

    A batch that took nothing may have been asked for in the wrong words: its files are taken up again, and what was put
    aside then is replaced.

    Args:
        kind: Names the reader in the manifest.
        now: UTC.

    Raises:
        FormatError: a path does not exist, or the reader can't take a file at all.
    """
    commits = lake.commits(spark)
    new, skipped = new_inputs(spark, commits, paths, kind)
    if not new:
        return IngestOutcome(None, skipped=skipped)
    begun = _attempt(commits, kind, new)
    ingest_id = begun.ingest_id
    rows = reader(spark, [file.path for file in new])
    commit = write_batch(spark, lake, rows, begun, now=now, options=options)
    lake.commit(spark, commit, now)
    examples = examples_of(lake.read_batch(spark, REJECTS, ingest_id)) if commit.rejected else ()
    return IngestOutcome(ingest_id, commit.good, commit.rejected, commit.rules, examples, skipped)


def took_nothing(commit: Commit) -> bool:
    """Whether a batch brought nothing at all, and its files may be taken up again."""
    return commit.kind not in _MORE_THAN_SAMPLES and nothing_taken(commit.good, commit.rejected, commit.rules)


def _attempt(commits: Sequence[Commit], kind: str, new: Sequence[InputFile]) -> Commit:
    """Name a batch; one that took nothing before is superseded under a new name."""
    named = {commit.ingest_id for commit in commits}
    ingest_id = batch_id(kind, new)
    while ingest_id in named:
        ingest_id = hashlib.sha256(ingest_id.encode()).hexdigest()[:16]
    coming = {file.fingerprint for file in new}
    former = [
        commit.ingest_id
        for commit in commits
        if took_nothing(commit) and commit.files and {file.fingerprint for file in commit.files} <= coming
    ]
    return Commit(ingest_id, kind, tuple(new), supersedes=tuple(former))


def new_inputs(
    spark: SparkSession, commits: Sequence[Commit], paths: Sequence[str], kind: str
) -> tuple[tuple[InputFile, ...], tuple[str, ...]]:
    """Tell files that no committed batch has taken yet from those that one has; gives the first, and the others' names.

    Raises:
        FormatError: a path does not exist.
    """
    settled = [
        commit
        for commit in commits
        if not nothing_taken(commit.good, commit.rejected, commit.rules)
        or (commit.kind == kind and kind in _MORE_THAN_SAMPLES)
    ]
    done = {file.fingerprint for commit in settled for file in commit.files}
    found = list_inputs(spark, paths)
    return (
        _once(file for file in found if file.fingerprint not in done),
        tuple(file.path for file in found if file.fingerprint in done),
    )


def examples_of(rejects: DataFrame) -> tuple[tuple[str, str], ...]:
    """One row of each rule, in words: (rule, detail with replica and file). The same rows give the same example."""
    replica = F.concat(F.col("topic"), F.lit("-"), F.col("partition"), F.lit(" on broker "), F.col("broker_id"))
    file = F.element_at(F.split("file", "/"), -1)
    told = F.concat_ws(", ", F.coalesce("detail", F.lit("?")), replica, file)
    rows = rejects.groupBy("rule").agg(F.min(told).alias("told")).orderBy("rule").collect()
    return tuple((row["rule"], row["told"]) for row in rows)


def write_batch(
    spark: SparkSession,
    lake: Lake,
    rows: DataFrame,
    commit: Commit,
    *,
    now: datetime,
    options: IngestOptions,
    late_before: datetime | None = None,
) -> Commit:
    """Judge rows and write them under the commit's ingest id; gives back the commit with its counts, uncommitted.

    Args:
        late_before: Rows of earlier windows are put aside as late (a stream's watermark).
    """
    profile = profile_of(rows, by_file=not options.many_clusters)
    judged = judge(rows, now=now, limits=options.limits, cluster=options.cluster)
    if profile.mixed_files:
        judged = _refuse_mixed(judged, profile)
    judged = refuse_let_go(spark, lake, judged)
    if late_before is not None:
        detail = F.concat(
            F.lit("window_start "),
            "window_start",
            F.lit(" is before the stream's watermark "),
            F.lit(late_before).cast("string"),
        )
        judged = refuse(judged, F.col("window_start") < F.lit(late_before), "late", detail)
    judged = refuse_known(spark, lake, judged, profile, except_for=commit.ingest_id, not_before=late_before)
    tasks = options.tasks or _tasks(spark, profile, options.rows_per_file)
    buckets = max(1, -(-profile.largest_day // options.rows_per_file))
    lake.write_judged(judge_sequence(judged, tasks=tasks, buckets=buckets), commit.ingest_id)
    return _counted(spark, lake, commit, profile)


def _counted(spark: SparkSession, lake: Lake, commit: Commit, profile: Profile) -> Commit:
    """Count what was written. Days are folders, so the files' own row counts answer nearly all of it."""
    days = (
        lake.read_batch(spark, SAMPLES, commit.ingest_id)
        .groupBy("date")
        .agg(F.count("*").alias("rows"), F.max("window_start").alias("newest"))
        .collect()
    )
    rejected = lake.read_batch(spark, REJECTS, commit.ingest_id).groupBy("rule").count().orderBy("rule").collect()
    rules = tuple((row["rule"], int(row["count"])) for row in rejected)
    seen = [row["newest"] for row in days] + [mark for mark in (commit.watermark,) if mark is not None]
    return replace(
        commit,
        good=sum(int(row["rows"]) for row in days),
        rejected=sum(rows for _, rows in rules),
        rules=rules,
        clusters=profile.clusters,
        first_date=min((row["date"] for row in days), default=None),
        last_date=max((row["date"] for row in days), default=None),
        watermark=max(seen, default=None),
    )


def profile_of(rows: DataFrame, *, by_file: bool = True) -> Profile:
    """Count rows by file, cluster and day. The result is small: one row for each of those."""
    file = F.col("file") if by_file else F.lit(None).cast("string")
    counted = (
        rows.groupBy(file.alias("file"), "cluster_id", F.to_date("window_start").alias("date"))
        .agg(F.count("*").alias("rows"))
        .collect()
    )
    by_day: dict[tuple[str | None, date | None], int] = {}
    by_file_names: dict[str, set[str]] = {}
    for row in counted:
        day = row["cluster_id"], row["date"]
        by_day[day] = by_day.get(day, 0) + row["rows"]
        if row["file"] is not None and row["cluster_id"] is not None:
            by_file_names.setdefault(row["file"], set()).add(row["cluster_id"])
    days = sorted(day for _, day in by_day if day is not None)
    return Profile(
        rows=sum(by_day.values()),
        largest_day=max(by_day.values(), default=0),
        clusters=tuple(sorted({name for name, _ in by_day if name is not None})),
        first_date=days[0] if days else None,
        last_date=days[-1] if days else None,
        mixed_files=tuple(sorted(file for file, names in by_file_names.items() if len(names) > 1)),
    )


def refuse_let_go(spark: SparkSession, lake: Lake, judged: DataFrame) -> DataFrame:
    """Put aside rows of days whose raw rows were let go: rolling those days up again would lose what is gone."""
    let_go = max((commit.keep_from for commit in lake.commits(spark) if commit.keep_from is not None), default=None)
    if let_go is None:
        return judged
    detail = F.concat(F.lit("day "), "date", F.lit(f" is past retention: raw rows are kept from {let_go}"))
    return refuse(judged, F.col("date") < F.lit(let_go), "late", detail)


def refuse_known(
    spark: SparkSession,
    lake: Lake,
    judged: DataFrame,
    profile: Profile,
    *,
    except_for: str,
    not_before: datetime | None = None,
) -> DataFrame:
    """Put aside samples that an earlier batch brought. Reads back only the days that both have, from `not_before` on."""
    if profile.first_date is None or profile.last_date is None:
        return judged
    first, last = profile.first_date, profile.last_date
    if not_before is not None:
        first = max(first, not_before.date())
    touching = [
        commit.ingest_id
        for commit in lake.live(spark)
        if commit.ingest_id != except_for
        and commit.first_date is not None
        and commit.last_date is not None
        and commit.first_date <= last
        and commit.last_date >= first
        and set(commit.clusters) & set(profile.clusters)
    ]
    if not touching:
        return judged
    known = (
        lake.read(spark, SAMPLES, touching)
        .where(F.col("date").between(first, last) & F.col("cluster_id").isin(*profile.clusters))
        .select(*SAMPLE_KEY, F.col("ingest_id").alias("known_by"))
    )
    joined = judged.join(known, on=list(SAMPLE_KEY), how="left")
    detail = F.concat(F.lit("this window came with batch "), F.col("known_by"))
    return refuse(joined, F.col("known_by").isNotNull(), "already_ingested", detail).select(*judged.columns)


def _refuse_mixed(judged: DataFrame, profile: Profile) -> DataFrame:
    detail = F.concat(
        F.lit("rows of more than one cluster in "), F.col("file"), F.lit(" (allow it with --many-clusters)")
    )
    return refuse(judged, F.col("file").isin(*profile.mixed_files), "mixed_clusters", detail)


def _tasks(spark: SparkSession, profile: Profile, rows_per_file: int) -> int:
    cores = spark.sparkContext.defaultParallelism
    return max(min(cores, profile.rows // 10_000 + 1), -(-profile.rows * 3 // (rows_per_file * 2)))


def _once(files: Iterable[InputFile]) -> tuple[InputFile, ...]:
    """Two files with the same contents are one input; the first by name stands for both."""
    kept: dict[str, InputFile] = {}
    for file in files:
        kept.setdefault(file.fingerprint, file)
    return tuple(kept.values())
