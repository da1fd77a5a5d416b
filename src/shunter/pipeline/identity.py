"""One series from all sources of a replica: names get their topic's id, and one source counts at a time.

Prometheus, Cruise Control and custom tables know a topic's name; snapshots also know its id. If rows were joined by id
alone, rates from the former would never reach a plan that is made from snapshots.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from shunter.pipeline.schemas import AMOUNTS

NAMED = "name:"
"""Prefix of the topic id of a row whose source does not know ids."""
DERIVED = ("snapshots", "log_dirs")
"""Sources whose amounts are derived from sizes and offsets seen far apart. All other sources counted the amounts."""


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


def prefer_measured(samples: DataFrame) -> DataFrame:
    """Take the amounts away from derived windows that overlap a measured one of the same replica; sizes stay.

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
    counts = ~derived & F.coalesce(*AMOUNTS).isNotNull()
    # Sorted forwards for windows that began before, backwards for windows that begin later: a frame that only grows is
    # cheap.
    forwards = replica.orderBy(start).rangeBetween(Window.unboundedPreceding, 0)
    backwards = replica.orderBy(start.desc()).rangeBetween(Window.unboundedPreceding, -1)
    seen = samples.withColumns(
        {
            "ended": F.max(F.when(counts, end)).over(forwards),
            "next": F.min(F.when(counts, start)).over(backwards),
        }
    )
    overlapped = derived & (
        F.coalesce(F.col("ended") > start, F.lit(False)) | F.coalesce(F.col("next") < end, F.lit(False))
    )
    amounts = {name: F.when(~overlapped, F.col(name)) for name in AMOUNTS}
    return seen.withColumns(amounts).select(*samples.columns)
