"""From the points of Prometheus' series to increases: steps, gaps, resets, and which of several origins counts when.

An origin is one answer (file) and one set of labels. Two servers that scrape the same brokers, as highly available pairs
do, count the same bytes at different moments. Taken for one series, each step from one server to the other would look
like a counter that fell. So of two origins of a series only one counts at a time, and the other fills its gaps.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

ONE_SERIES = ("cluster_id", "topic", "partition", "broker_id", "measure", "kind", "processor")
_OF_TOPIC = ("cluster_id", "broker_id", "topic")
GAP = 3.0
"""A distance of more than so many steps is a gap: how an increase spread over it is not known."""
_NEAR = 5
"""The step at a moment is the least distance of so many points before it, or after it if that is longer."""


def increases_of(series: DataFrame) -> DataFrame:
    """The increase from each point of usable series to the next. Grain: one row per point but the first of each series (see `_increases`)."""
    return _increases(_points(_stepped(series.where(F.col("flaw").isNull() & (F.size("good") > 0)))))


def _stepped(series: DataFrame) -> DataFrame:
    """Add `runs`, begin and end of each time without a gap, and the step. Grain: as `series`.

    A series has its step within its origin and time: two answers may have different steps, and neither's grid says
    anything about the other's. `usual` is the least distance; if a series has only two points, that of the topic's other
    series there. `own` has the step at each distance, if there are distances of more than `GAP` usual ones.
    """
    distances = F.zip_with(
        F.slice("at", F.lit(1), F.greatest(F.size("at") - 1, F.lit(0))), F.slice("at", F.lit(2), F.size("at")),
        lambda before, after: F.nullif(after - before, F.lit(0.0)),
    )  # fmt: skip
    # One shuffle serves all windows over series below.
    timed = series.repartition(*_OF_TOPIC).withColumn("at", F.transform("good", lambda point: point["at"]))
    timed = timed.withColumn("distances", distances).withColumn("least", F.array_min("distances"))
    is_long = F.size("distances") > 1
    of_answer = F.min(F.when(is_long, F.col("least"))).over(Window.partitionBy(*_OF_TOPIC, "file"))
    timed = timed.withColumn("usual", F.when(is_long, F.col("least")).otherwise(F.coalesce(of_answer, "least")))

    def at_moment(_: Column, index: Column) -> Column:
        before = F.slice("distances", F.greatest(index - (_NEAR - 1), F.lit(1)), F.least(index, F.lit(_NEAR)))
        after = F.slice("distances", index + 2, F.lit(_NEAR))
        return F.coalesce(F.greatest(F.array_min(before), F.array_min(after)), F.col("usual"))

    even = F.coalesce(F.array_max("distances") <= F.col("usual") * GAP, F.lit(True))
    own = F.when(~even, F.transform("distances", at_moment))
    cut = F.filter(
        F.sequence(F.lit(1), F.size("distances")),
        lambda index: F.get("distances", index - 1) > F.get("own", index - 1) * GAP,
    )
    begins = F.concat(F.slice("at", 1, 1), F.transform("cuts", lambda index: F.get("at", index)))
    ends = F.concat(F.transform("cuts", lambda index: F.get("at", index - 1)), F.slice("at", -1, 1))
    runs = F.zip_with(begins, ends, lambda first, last: F.struct(first.alias("first"), last.alias("last")))
    return (
        timed.withColumn("own", own)
        .withColumn("cuts", F.when(even, F.array().cast("array<int>")).otherwise(cut))
        .withColumn("runs", runs)
    )


def _points(series: DataFrame) -> DataFrame:
    """The points of each series in the order in which they count.

    Grain: one row per point that counts; ONE_SERIES, file, origin, place, at, value, step. Points are left out where a better
    series counts (`_with_better`). Where its run ends and this one goes on, both points stay (`place` orders them), so
    that each increase is one series' own.
    """
    own = F.transform(
        "good",
        lambda point, index: F.struct(
            point["at"].alias("at"),
            point["value"].alias("value"),
            F.coalesce(F.get("own", F.greatest(index - 1, F.lit(0))), F.col("usual")).alias("step"),
        ),
    )
    exploded = _with_better(series).withColumn("told", own).select(
        *ONE_SERIES, "file", F.struct("file", "labels").alias("origin"), "better", "began", "ended",
        F.explode("told").alias("point"),
    )  # fmt: skip
    at = F.col("point.at")
    inside = F.filter("better", lambda run: at.between(run["first"], run["last"]))
    only = F.get(inside, F.lit(0))
    goes_on = F.when((at == only["first"]) & (at > F.col("began")), F.lit(-1)).when(
        (at == only["last"]) & (at < F.col("ended")), F.lit(1)
    )
    at_edge = (F.size(inside) == 1) & (only["first"] < only["last"])
    place = F.when(F.size(inside) == 0, F.lit(0)).when(at_edge, goes_on)
    return exploded.withColumn("place", place).where("place IS NOT NULL").select(
        *ONE_SERIES, "file", "origin", "place", at.alias("at"),
        F.col("point.value").alias("value"), F.col("point.step").alias("step"),
    )  # fmt: skip


def _with_better(series: DataFrame) -> DataFrame:
    """Add `better`, the runs in which another series counts instead. Grain: as `series`; and `began` and `ended`.

    The better of two servers has fewer labels, knew the broker's topic earlier, and comes first by labels and file. It
    counts wherever it knew anything of the topic, for all measures that it has: so figures that are combined come from one
    server. If only a log dir or a name tells two series of one server apart, the older one counts, else the greater, from
    its begin to its end: the other is a copy on its way, and fills no gap.
    """
    server = Window.partitionBy(*_OF_TOPIC, "file", "scraper")
    what = F.concat_ws("/", "measure", "kind")
    known = series.withColumns({"began": F.array_min("at"), "ended": F.array_max("at")})
    known = known.withColumns(
        {
            "since": F.min("began").over(server),
            "measures": F.collect_set(what).over(server),
            "of_server": F.array_distinct(F.flatten(F.collect_set("runs").over(server))),
        }
    )
    rank = F.struct("scraper.labels", "since", "scraper.words", "file")
    twin = F.struct("began", (-F.element_at("good", -1)["value"]).alias("less"), "labels")
    ranked = known.withColumns({"rank": rank, "twin": twin})
    whole = F.array(F.struct(F.col("began").alias("first"), F.col("ended").alias("last")))
    twins = F.collect_list(F.struct("twin", whole.alias("runs"))).over(
        Window.partitionBy(*ONE_SERIES, "file", "scraper")
    )
    # Of a year of files there are many servers. They come last: rows that carry them all are not sorted any more.
    servers = F.collect_set(F.struct("rank", "measures", F.col("of_server").alias("runs")))
    compared = ranked.withColumn("twins", twins)
    compared = compared.withColumn("servers", servers.over(Window.partitionBy(*_OF_TOPIC)))
    others = F.concat(
        F.transform(
            F.filter("servers", lambda one: (one["rank"] < F.col("rank")) & F.array_contains(one["measures"], what)),
            lambda one: one["runs"],
        ),
        F.transform(F.filter("twins", lambda one: one["twin"] < F.col("twin")), lambda one: one["runs"]),
    )
    # Each point carries these runs along. Of a year of files only those are kept that overlap this file's time.
    overlapping = F.filter(
        F.array_distinct(F.flatten(others)),
        lambda run: (run["last"] >= F.col("began")) & (run["first"] <= F.col("ended")),
    )
    return compared.withColumn("better", overlapping)


def _increases(points: DataFrame) -> DataFrame:
    """Add `seconds` since the point before and `increase`; null over a gap, where time goes back, and at the start.

    Only series of `in_sync`, `leader` and `bytes_out` keep their first points, without `seconds`.

    A counter that falls was reset, and its new value counts as the increase. If it falls from one origin to the next,
    the increase is not known. An end offset is not a counter: if it falls, the log lost its tail or its topic, and the
    increase is not known. A gap is not a window: the row at its end stands for one step.
    """
    in_order = Window.partitionBy(*ONE_SERIES).orderBy("at", "place", "origin")
    same_origin = F.col("origin") == F.lag("origin").over(in_order)
    step = F.when(same_origin, F.col("step")).otherwise(F.greatest("step", F.lag("step").over(in_order)))
    stepped = points.withColumns(
        {
            "seconds": F.col("at") - F.lag("at").over(in_order),
            "before": F.lag("value").over(in_order),
            "same_origin": same_origin,
            "longest": step * GAP,
        }
    )
    is_gap = F.coalesce(F.col("seconds") > F.col("longest"), F.lit(False))
    reset = F.col("same_origin") & ~F.col("measure").isin("end_offset", "partition_offset")
    grown = F.when(F.col("value") >= F.col("before"), F.col("value") - F.col("before")).when(reset, F.col("value"))
    amount = F.when(F.col("kind") == "rate", F.col("value") * F.col("seconds")).otherwise(grown)
    # A first point has no amount. But one of `in_sync` or `leader` shows which replica leads, and one of `bytes_out` since
    # when bytes out are counted.
    begins = F.col("seconds").isNull() & F.col("measure").isin("in_sync", "leader", "bytes_out")
    increased = stepped.where((F.col("seconds") > 0) | begins).withColumns(
        {"increase": F.when(~is_gap, amount), "gap": is_gap}
    )
    return increased.withColumn("seconds", F.when(F.col("gap"), F.col("step")).otherwise(F.col("seconds")))
