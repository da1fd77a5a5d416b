"""Batches: find the files that are new, judge their rows, write good and rejected rows together, commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from typing import Literal, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.core.wording import counted as counted_word
from shunter.pipeline.classic import tasks_at_once
from shunter.pipeline.ingest.broken_files import FILE_RULE, BrokenFile, put_broken_aside, taking_what_can_be_read
from shunter.pipeline.ingest.inputs import batch_id, list_inputs
from shunter.pipeline.ingest.validation import NO_NAME, UNSURE, Limits, judge, judge_sequence, refuse
from shunter.pipeline.lake.commits import (
    MAINTENANCE,
    MORE_THAN_SAMPLES,
    Commit,
    InputFile,
    LogState,
    anew,
    touch,
)
from shunter.pipeline.lake.schemas import AMOUNTS, BROKER_SAMPLES, FOLLOWER, MEASURES, REJECTS, SAMPLE_KEY, SAMPLES
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.sources.tables import LAST_SECOND

Reader = Callable[[SparkSession, Sequence[str]], DataFrame]
"""A function that reads paths into rows with the columns of `validation.RAW`."""

SEQUENCE_RULES = ("duplicate", "time_backwards", "already_ingested", "mixed_clusters", "late")
ROW_RULES = (
    "missing_key", "negative", "unknown_role", "other_cluster", "absurd_window", "absurd_time", "absurd_rate",
    "absurd_size", "no_load", "not_a_number", "not_a_time", "wrong_unit", "not_readable", FILE_RULE, "incomplete",
    "unknown_cluster", "unknown_broker", "unknown_leader", "compacted", "unknown_policy",
)  # fmt: skip
MOST_WINDOW_SECONDS = Limits().window_seconds
ROWS_PER_FILE = 1_000_000
RULES = (*ROW_RULES, *SEQUENCE_RULES)
"""Every rule by which a row can be put aside."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How a batch is judged and cut. `many_clusters` lets one file hold rows of several clusters."""

    cluster: str | None = None
    many_clusters: bool = False
    limits: Limits = field(default_factory=Limits)
    rows_per_file: int = ROWS_PER_FILE
    tasks: int | None = None


class RateCoverage(NamedTuple):
    """Which part of a batch's time has rates. A partition's time goes from its first window to its last one."""

    partitions: int
    with_rates: int
    with_gaps: int
    """Partitions with rates for a part of their time."""
    share: float
    """Of the time of all partitions: how much has a rate."""
    worst: str
    """The partition with the most time without a rate."""
    gap_seconds: int
    """Its time without a rate."""
    unknown: tuple[str, ...] = ()
    """Columns of which no row has a value."""

    @property
    def told(self) -> str:
        """The coverage in words."""
        text = f"rates cover {100 * self.share:.1f} % of the time of {counted_word(self.partitions, 'partition')}"
        if self.with_gaps:
            most = f"the most {self.worst}: {self.gap_seconds:,} s"
            text += f"; {self.with_gaps:,} {'has' if self.with_gaps == 1 else 'have'} gaps, {most}"
        without = self.partitions - self.with_rates
        return f"{text}; {without:,} {'has' if without == 1 else 'have'} no rate" if without else text


@dataclass(frozen=True, slots=True)
class IngestOutcome:
    """The result of ingesting files. `ingest_id` is None when every file had been ingested before."""

    ingest_id: str | None
    good: int = 0
    rejected: int = 0
    rules: tuple[tuple[str, int], ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    """One row of each rule: what is wrong with it, its replica, and the file that it came in."""
    skipped: tuple[str, ...] = ()
    """Files whose contents are in the log already."""
    broker_rows: int = 0
    """Rows in `broker_samples`."""
    snapshots: int = 0
    """Snapshots of clusters that were taken."""
    coverage: RateCoverage | None = None
    """None if the batch brought sizes alone."""
    lost_files: tuple[tuple[str, str], ...] = ()
    """Files that can't be read to their end, and why. No row of them was taken."""

    @property
    def nothing_new(self) -> bool:
        """Whether no row was taken, for another reason than that all rows had come before."""
        return self.broker_rows == 0 and self.snapshots == 0 and nothing_taken(self.good, self.rejected, self.rules)


def nothing_taken(good: int, rejected: int, rules: Iterable[tuple[str, int]]) -> bool:
    """Whether a batch brought no good row. A batch is in order if all its rows had come before."""
    known = sum(rows for rule, rows in rules if rule == "already_ingested")
    return good == 0 and (rejected == 0 or known < rejected)


@dataclass(frozen=True, slots=True)
class Profile:
    """The extent of a batch, from a pass over three columns."""

    rows: int
    largest_day: int
    clusters: tuple[str, ...]
    mixed_files: tuple[str, ...]
    """Files with rows of more than one cluster."""
    since: datetime | None = None
    """Start of the first window."""
    until: datetime | None = None
    """End of the last window."""


def ingest_files(
    spark: SparkSession,
    lake: Lake,
    paths: Sequence[str],
    kind: str,
    reader: Reader,
    *,
    now: datetime,
    options: IngestOptions,
    dated: datetime | Literal["modified"] | None = None,
) -> IngestOutcome:
    """Ingest files that were not ingested before; running it again changes nothing.

    If a batch took nothing, its options may have been wrong. So its files are ingested again, and the rows that were put
    aside then are replaced.

    Args:
        kind: Names the reader in the log.
        now: UTC.
        dated: For files without times in them: the time of all rows, or `modified` for each file's own. The same contents
            at another time are another input.

    Raises:
        FormatError: a path does not exist, or the reader can't take a file at all.
    """
    skipped: tuple[str, ...] = ()

    def prepare(state: LogState, attempt: str) -> Commit | None:
        nonlocal skipped
        new, skipped = new_inputs(state, found, kind)
        if not new:
            return None

        def take(begun: Commit, files: Sequence[InputFile], broken: Sequence[BrokenFile]) -> Commit:
            rows = [reader(spark, [file.path for file in files])] if files else []
            if broken:
                rows.append(put_broken_aside(spark, broken, kind))
            return write_batch(spark, lake, state, reduce(DataFrame.unionByName, rows), begun, now=now, options=options)

        return taking_what_can_be_read(begin_batch(state, attempt, kind, new), partial(reader, spark), take)

    found = list_inputs(spark, paths, dated=dated)
    commit = lake.transact(spark, batch_id(kind, found), prepare, now)
    return outcome_of(spark, lake, commit, skipped)


def outcome_of(spark: SparkSession, lake: Lake, commit: Commit | None, skipped: tuple[str, ...]) -> IngestOutcome:
    """The outcome of a commit, with an example of each rule."""
    if commit is None:
        return IngestOutcome(None, skipped=skipped)
    outcome = IngestOutcome(commit.ingest_id, commit.good, commit.rejected, commit.rules, skipped=skipped)
    if commit.good:
        outcome = replace(outcome, coverage=coverage_of(lake.read_batch(spark, SAMPLES, commit.ingest_id)))
    if not commit.rejected:
        return outcome
    rejects = lake.read_batch(spark, REJECTS, commit.ingest_id)
    lost = _lost_files(rejects) if FILE_RULE in dict(commit.rules) else ()
    return replace(outcome, examples=examples_of(rejects), lost_files=lost)


def coverage_of(samples: DataFrame) -> RateCoverage | None:
    """Which part of the time of samples has rates; None if they are sizes alone. Followers have no rates of their own."""
    seconds = F.col("window_seconds")
    start = F.unix_seconds("window_start")
    rated = F.coalesce(F.sum(F.when(F.coalesce("bytes_in", "bytes_out").isNotNull(), seconds)), F.lit(0))
    each = samples.where(F.col("role") != FOLLOWER).groupBy("cluster_id", "topic", "partition").agg(
        (F.max(start + seconds) - F.min(start)).alias("span"),
        rated.alias("rated"),
        F.count_if(F.coalesce(*AMOUNTS).isNotNull()).alias("amounts"),
        *(F.count(name).alias(name) for name in MEASURES),
    )  # fmt: skip
    gap = F.greatest(F.col("span") - F.col("rated"), F.lit(0))
    found = each.withColumn("gap", gap).agg(
        F.count("*"),
        F.count_if(F.col("rated") > 0),
        F.count_if((F.col("rated") > 0) & (F.col("gap") > 1)),
        F.sum(F.col("span") - F.col("gap")) / F.sum("span"),
        F.max_by(F.concat_ws("-", "topic", "partition"), F.struct("gap", "topic", "partition")),
        F.max("gap"),
        F.sum("amounts"),
        *(F.sum(name).alias(name) for name in MEASURES),
    ).first()  # fmt: skip
    if found is None or not found[6]:
        return None
    return RateCoverage(*found[:6])._replace(unknown=tuple(name for name in MEASURES if not found[name]))


def _lost_files(rejects: DataFrame) -> tuple[tuple[str, str], ...]:
    rows = rejects.where(F.col("rule") == FILE_RULE).select("file", F.coalesce("detail", F.lit("?"))).distinct()
    return tuple(sorted((str(row[0]), str(row[1])) for row in rows.collect()))


def may_be_ingested_again(commit: Commit) -> bool:
    """Whether a batch brought nothing at all, so that its files may be ingested again."""
    took_others = commit.kind in (*MORE_THAN_SAMPLES, *MAINTENANCE) or BROKER_SAMPLES.name in commit.tables
    return not took_others and nothing_taken(commit.good, commit.rejected, commit.rules)


def begin_batch(state: LogState, attempt: str, kind: str, new: Sequence[InputFile]) -> Commit:
    """Begin a batch. It supersedes earlier batches of the same files that took nothing."""
    coming = {file.fingerprint for file in new}
    former = [
        commit.ingest_id
        for commit in state.live
        if may_be_ingested_again(commit) and commit.files and {file.fingerprint for file in commit.files} <= coming
    ]
    return Commit(attempt, kind, tuple(new), supersedes=tuple(former))


def new_inputs(state: LogState, found: Sequence[InputFile], kind: str) -> tuple[tuple[InputFile, ...], tuple[str, ...]]:
    """Files that no committed batch has taken yet, and the names of the other files."""
    settled = [
        commit
        for commit in state.commits
        if not nothing_taken(commit.good, commit.rejected, commit.rules)
        or (commit.kind == kind and kind in MORE_THAN_SAMPLES)
        or BROKER_SAMPLES.name in commit.tables
    ]
    done = {file.fingerprint for commit in settled for file in commit.files}
    return (
        _once(file for file in found if file.fingerprint not in done),
        tuple(file.path for file in found if file.fingerprint in done),
    )


def examples_of(rejects: DataFrame) -> tuple[tuple[str, str], ...]:
    """One row of each rule, in words: (rule, detail with replica and file). The same rows give the same example."""
    replica = F.concat(F.col("topic"), F.lit("-"), F.col("partition"), F.lit(" on broker "), F.col("broker_id"))
    file = F.element_at(F.split("file", "/"), -1)
    told = F.concat_ws(", ", F.coalesce("detail", F.lit("?")), replica, file)
    rows = rejects.groupBy("rule").agg(F.min(told).alias("told")).collect()
    return tuple(sorted((row["rule"], row["told"]) for row in rows))


def write_batch(
    spark: SparkSession,
    lake: Lake,
    state: LogState,
    rows: DataFrame,
    commit: Commit,
    *,
    now: datetime,
    options: IngestOptions,
    late_before: datetime | None = None,
) -> Commit:
    """Judge rows and write them; gives back the commit with its counts and the id of these rows, uncommitted.

    Args:
        state: What is committed; rows are judged by it.
        late_before: Rows of earlier windows are put aside as late (a stream's watermark).
    """
    profile = profile_of(rows, by_file=not options.many_clusters)
    judged = judge(rows, now=now, limits=options.limits, cluster=options.cluster)
    if profile.mixed_files:
        judged = _refuse_mixed(judged, profile)
    judged = refuse_let_go(state, judged)
    if late_before is not None:
        detail = F.concat(
            F.lit("window_start "),
            "window_start",
            F.lit(" is before the stream's watermark "),
            F.lit(late_before).cast("string"),
        )
        judged = refuse(judged, F.col("window_start") < F.lit(late_before), "late", detail)
    known = known_windows(spark, lake, state, profile, not_before=late_before)
    tasks = options.tasks or _tasks(spark, profile, options.rows_per_file)
    # A cluster's replicas are spread over as many files a day as its largest day needs, and over enough tasks.
    buckets = max(1, -(-profile.largest_day // options.rows_per_file), -(-profile.rows // (2 * options.rows_per_file)))
    sequence = partial(judge_sequence, judged, known, tasks=tasks, buckets=buckets)
    lake.write_judged(sequence(), commit.ingest_id)
    made = counted(spark, lake, commit, profile.clusters)
    if all(rule != UNSURE for rule, _ in made.rules):
        return made
    commit = anew(commit)
    lake.write_judged(sequence(one_by_one=True), commit.ingest_id)
    return counted(spark, lake, commit, profile.clusters)


def counted(spark: SparkSession, lake: Lake, commit: Commit, clusters: tuple[str, ...]) -> Commit:
    """Count what was written."""
    start = F.unix_seconds("window_start")
    by_day = lake.read_batch(spark, SAMPLES, commit.ingest_id).groupBy("date").agg(
        F.count("*").alias("rows"),
        F.min(start).alias("oldest"),
        F.max(start).alias("newest"),
        F.max(start + F.col("window_seconds")).alias("end"),
        F.max("window_seconds").alias("longest"),
    )  # fmt: skip
    by_rule = lake.read_batch(spark, REJECTS, commit.ingest_id).groupBy("rule").agg(F.count("*").alias("rows"))
    # One job for both: on a small batch jobs cost more than rows.
    found = by_day.unionByName(by_rule, allowMissingColumns=True).collect()
    days = [row for row in found if row["rule"] is None]
    rules = tuple(sorted((row["rule"], int(row["rows"])) for row in found if row["rule"] is not None))
    seen = [_utc(row["newest"]) for row in days] + [mark for mark in (commit.watermark,) if mark is not None]
    return replace(
        commit,
        good=sum(int(row["rows"]) for row in days),
        rejected=sum(rows for _, rows in rules),
        rules=rules,
        clusters=clusters,
        since=min((_utc(row["oldest"]) for row in days), default=None),
        until=max((_utc(row["end"]) for row in days), default=None),
        longest=max((row["longest"] for row in days), default=0),
        watermark=max(seen, default=None),
        tables=tuple(sorted({*commit.tables, SAMPLES.name})),
    )


def _moment(seconds: int | None) -> datetime | None:
    """A time from a row, which may be any number, limited to what Python can hold."""
    return None if seconds is None else _utc(min(max(seconds, 0), LAST_SECOND))


def _utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def profile_of(rows: DataFrame, *, by_file: bool = True) -> Profile:
    """Count rows by cluster and day. The result is small: one row per cluster and day.

    Args:
        by_file: Also look for files with rows of more than one cluster.
    """
    start = F.unix_seconds("window_start")
    seconds = F.when(F.col("window_seconds").between(1, MOST_WINDOW_SECONDS), F.col("window_seconds"))
    counted = (
        rows.groupBy("cluster_id", F.to_date("window_start").alias("date"))
        .agg(F.count("*").alias("rows"), F.min(start).alias("since"), F.max(start + seconds).alias("until"))
        .collect()
    )
    names = {row["cluster_id"] for row in counted if row["cluster_id"] is not None}
    return Profile(
        rows=sum(row["rows"] for row in counted),
        largest_day=max((row["rows"] for row in counted), default=0),
        clusters=tuple(sorted(name for name in names if name.strip() and name != NO_NAME)),
        # File names are long, and most batches are of one cluster. Only batches of several pay for reading each row's
        # file.
        mixed_files=_mixed_files(rows) if by_file and len(names) > 1 else (),
        since=_moment(min((row["since"] for row in counted if row["since"] is not None), default=None)),
        until=_moment(max((row["until"] for row in counted if row["until"] is not None), default=None)),
    )


def _mixed_files(rows: DataFrame) -> tuple[str, ...]:
    # A line that is not a sample, such as a marker that a merge left in the file, does not belong to a cluster.
    rows = rows.where(F.col("partition").isNotNull() & F.col("window_start").isNotNull())
    by_file = rows.groupBy("file").agg(F.min("cluster_id").alias("first"), F.max("cluster_id").alias("last"))
    mixed = by_file.where(F.col("file").isNotNull() & (F.col("first") != F.col("last"))).select("file").collect()
    return tuple(sorted(row["file"] for row in mixed))


def refuse_let_go(state: LogState, judged: DataFrame) -> DataFrame:
    """Put aside rows of days whose raw rows were deleted: rolling those days up again would lose the deleted rows."""
    let_go = state.keep_from
    if let_go is None:
        return judged
    detail = F.concat(F.lit("day "), "date", F.lit(f" is past retention: raw rows are kept from {let_go}"))
    return refuse(judged, F.col("date") < F.lit(let_go), "late", detail)


def known_windows(
    spark: SparkSession, lake: Lake, state: LogState, profile: Profile, *, not_before: datetime | None = None
) -> DataFrame | None:
    """Windows of earlier batches that may be the same as, or overlap, one of a batch; None where there are none.

    Grain: one row per replica and window; REPLICA_KEY, window_start, window_seconds, ingest_id. Reads back only the days
    that both have, from `not_before` on.
    """
    if profile.since is None or profile.until is None:
        return None
    since, until = profile.since, profile.until
    if not_before is not None:
        since = max(since, not_before)
    span = Commit("", "", good=1, since=since, until=until)
    touching = [
        one for one in state.live if one.good and set(one.clusters) & set(profile.clusters) and touch(one, span)
    ]
    if not touching:
        return None
    longest = timedelta(seconds=max(one.longest for one in touching))
    start = F.unix_seconds("window_start")
    return (
        lake.read(spark, SAMPLES, touching)
        .where(F.col("date").between((since - longest).date(), until.date()))
        .where(F.col("cluster_id").isin(*profile.clusters))
        .where((start < int(until.timestamp())) & (start + F.col("window_seconds") > int(since.timestamp())))
        .select(*SAMPLE_KEY, "window_seconds", "ingest_id")
    )


def _refuse_mixed(judged: DataFrame, profile: Profile) -> DataFrame:
    detail = F.concat(
        F.lit("rows of more than one cluster in "), F.col("file"), F.lit(" (allow it with --many-clusters)")
    )
    return refuse(judged, F.col("file").isin(*profile.mixed_files), "mixed_clusters", detail)


def _tasks(spark: SparkSession, profile: Profile, rows_per_file: int) -> int:
    return max(min(tasks_at_once(spark), profile.rows // 10_000 + 1), -(-profile.rows * 3 // (rows_per_file * 2)))


def _once(files: Iterable[InputFile]) -> tuple[InputFile, ...]:
    """Two files with the same contents are one input; the first by name stands for both."""
    kept: dict[str, InputFile] = {}
    for file in files:
        kept.setdefault(file.fingerprint, file)
    return tuple(kept.values())
