"""One series from all sources of a replica: names get their topic's id, and one source counts at a time.

Prometheus, Cruise Control and custom tables know a topic's name; snapshots also know its id. If rows were joined by id
alone, rates from the former would never reach a plan that is made from snapshots.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from shunter.pipeline.lake.schemas import AMOUNTS

NAMED = "name:"
"""Prefix of the topic id of a row whose source does not know ids."""
DERIVED = ("snapshots", "log_dirs")
"""Sources whose amounts are derived from sizes and offsets seen far apart. All other sources counted the amounts."""

NAMED_SECONDS = 86_400
"""So long before the first and after the last snapshot the leader that it names is taken for the leader."""


def id_of_name() -> Column:
    """The id of a row whose source does not know ids, from the row's column `topic`."""
    return F.concat(F.lit(NAMED), F.col("topic"))


def one_series(samples: DataFrame, replicas: DataFrame) -> DataFrame:
    """Give samples their topics' ids, and let what was measured win over what was derived of the same time.

    Grain: as `samples`, none dropped.

    Args:
        samples: Columns of `samples`, or of a roll-up (then all counts as measured).
        replicas: Columns of `replicas`, of all snapshots.
    """
    named = with_topic_ids(samples, ids_over_time(replicas))
    return prefer_measured(named) if "source" in samples.columns else named


def ids_over_time(replicas: DataFrame) -> DataFrame:
    """The ids that each topic's name had over time.

    Grain: one row per cluster and topic; `ids`, by time: first, last (s since 1970), topic_id.
    """
    seen = replicas.groupBy("cluster_id", "topic", "topic_id").agg(
        F.min(F.unix_seconds("taken_at")).alias("first"), F.max(F.unix_seconds("taken_at")).alias("last")
    )
    each = F.struct("first", "last", "topic_id")
    return seen.groupBy("cluster_id", "topic").agg(F.sort_array(F.collect_list(each)).alias("ids"))


def with_topic_ids(samples: DataFrame, topics: DataFrame) -> DataFrame:
    """Replace `name:…` by the id that snapshots show for that name at that time. If it is not known, `name:…` stays.

    Before the first snapshot the first id holds, after the newest snapshot the newest id. A window between the last
    snapshot of one id and the first snapshot of the next gets neither id, because it is not known which of the two it
    belongs to.
    """
    start = F.unix_seconds("window_start")
    ids = F.col("ids")
    begun = F.filter(ids, lambda each: each["first"] <= start)
    current = F.coalesce(F.element_at(F.when(F.size(begun) > 0, begun), -1), F.get(ids, F.lit(0)))
    is_newest = F.size(begun) == F.size(ids)
    holds = (F.size(begun) == 0) | is_newest | (start <= current["last"])
    found = F.when(holds, current["topic_id"])
    named = F.col("topic_id").startswith(NAMED)
    joined = samples.join(F.broadcast(topics), on=["cluster_id", "topic"], how="left")
    return joined.withColumn(
        "topic_id", F.when(named, F.coalesce(found, "topic_id")).otherwise(F.col("topic_id"))
    ).select(*samples.columns)  # fmt: skip


def leaders_over_time(replicas: DataFrame, since: float, until: float) -> DataFrame:
    """The leaders that snapshots name, as runs of snapshots that name the same one.

    Grain: one row per cluster, topic and partition; `runs`: first, last (s since 1970), leader (-1: none). Between two
    runs it is not known who led. The first and the last run hold for `NAMED_SECONDS` more.

    Args:
        since, until: In seconds since 1970. Snapshots of other times are not read.
    """
    days = (F.to_date(F.timestamp_seconds(F.lit(at))) for at in (since - NAMED_SECONDS, until + NAMED_SECONDS))
    part = ("cluster_id", "topic", "partition")
    leader = F.coalesce(F.max(F.when(F.col("is_leader"), F.col("broker_id"))), F.lit(-1))
    at = F.unix_seconds("taken_at")
    seen = (
        replicas.where(F.col("date").between(*days))
        .groupBy(*part, at.alias("at"), "topic_id")
        .agg(leader.alias("leader"))
    )
    in_time = Window.partitionBy(*part).orderBy("at")
    same = (F.lag("leader").over(in_time) == F.col("leader")) & (F.lag("topic_id").over(in_time) == F.col("topic_id"))
    begins = seen.withColumn("begins", F.when(F.coalesce(same, F.lit(False)), 0).otherwise(1))
    numbered = begins.withColumn("run", F.sum("begins").over(in_time))
    runs = numbered.groupBy(*part, "run", "leader").agg(F.min("at").alias("first"), F.max("at").alias("last"))
    ends = Window.partitionBy(*part)
    first, last = (F.col("run") == edge("run").over(ends) for edge in (F.min, F.max))
    held = runs.withColumns(
        {
            "first": F.col("first") - F.when(first, NAMED_SECONDS).otherwise(0),
            "last": F.col("last") + F.when(last, NAMED_SECONDS).otherwise(0),
        }
    )
    return held.groupBy(*part).agg(F.collect_list(F.struct("first", "last", "leader")).alias("runs"))


def prefer_measured(samples: DataFrame) -> DataFrame:
    """Take amounts away from derived windows that overlap a window in which the same amount was measured; sizes stay.

    Of one replica a source may have measured the messages, and snapshots tell the bytes: then both are known.
    A cluster with only one kind of source is passed on unchanged. Only clusters with both kinds are sorted.
    """
    derived = F.col("source").isin(*DERIVED)
    kinds = samples.groupBy("cluster_id").agg(F.max(derived).alias("some"), F.min(derived).alias("all")).collect()
    mixed = [row["cluster_id"] for row in kinds if row["some"] and not row["all"]]
    if not mixed:
        return samples
    is_mixed = F.col("cluster_id").isin(*mixed)
    return samples.where(~is_mixed).unionByName(_without_overlapped(samples.where(is_mixed), derived))


def _without_overlapped(samples: DataFrame, derived: Column) -> DataFrame:
    replica = Window.partitionBy("cluster_id", "topic_id", "partition", "broker_id")
    start = F.unix_seconds("window_start")
    end = start + F.col("window_seconds")
    # Sorted forwards for windows that began before, backwards for windows that begin later: a frame that only grows is
    # cheap.
    forwards = replica.orderBy(start).rangeBetween(Window.unboundedPreceding, 0)
    backwards = replica.orderBy(start.desc()).rangeBetween(Window.unboundedPreceding, -1)
    measured = {name: ~derived & F.col(name).isNotNull() for name in AMOUNTS}
    ended = {f"{name}_ended": F.max(F.when(counts, end)).over(forwards) for name, counts in measured.items()}
    begun = {f"{name}_next": F.min(F.when(counts, start)).over(backwards) for name, counts in measured.items()}
    seen = samples.withColumns({**ended, **begun})
    amounts = {}
    for name in AMOUNTS:
        overlapped = (F.col(f"{name}_ended") > start) | (F.col(f"{name}_next") < end)
        amounts[name] = F.when(~(derived & F.coalesce(overlapped, F.lit(False))), F.col(name))
    return seen.withColumns(amounts).select(*samples.columns)
