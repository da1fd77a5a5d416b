"""The stage that answers what-if questions: how full brokers would be, and how many are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shunter.app.pipeline.outlook import runway
from shunter.app.pipeline.stages import utc_now
from shunter.core.planning.request import PlanRequest
from shunter.core.planning.what_if import ClusterChange
from shunter.errors import SettingsError
from shunter.pipeline.lake.outlook_schemas import RUNWAY
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.planning.fleet import PEAKS, WEEK
from shunter.pipeline.planning.plan_batch import FleetPlan, require_clusters, write_targets
from shunter.pipeline.planning.what_if import FleetQuestion, ToldAnswer, ask_lake, targets_of
from shunter.pipeline.planning.what_if_worker import ChangeQuestion

_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfOptions:
    """The question, in the units of the command line: shares are percents, rates are bytes per second."""

    clusters: tuple[str, ...] = ()
    fewest: bool = False
    """Find how many new brokers are needed, instead of adding the change's number."""
    change: ClusterChange = field(default_factory=ClusterChange)
    until: date | None = None
    growth: str = "expected"
    headroom_percent: float = 20.0
    peak: str = "p95"
    capacity: float | None = None
    throttle: float = 50e6
    snapshot_age: float = 7 * _DAY
    seconds_per_cluster: float = 600.0


def what_if(
    spark: SparkSession, lake: Lake, options: WhatIfOptions, out: Path | None = None
) -> tuple[str, tuple[ToldAnswer, ...]]:
    """Answer a question for every cluster of the lake; returns the question's id and the answers.

    Args:
        out: A folder for the plans that lead to the changed clusters, as Kafka's reassignment JSON.

    Raises:
        FormatError: there is no cluster to ask about, or a named cluster is not there.
        SettingsError: an option has a wrong value.
    """
    now = utc_now()
    if options.peak not in (*PEAKS, WEEK):
        raise SettingsError(f"peak {options.peak!r} is none of {', '.join((*PEAKS, WEEK))}")
    if not 0 <= options.headroom_percent < 100:
        raise SettingsError(f"headroom {options.headroom_percent:g} % is not between 0 and 100")
    if options.until is not None:
        _look_ahead(spark, lake, options.clusters, options.until)
    question_id = f"{now:%Y%m%dT%H%M%S}"
    request = PlanRequest(headroom=options.headroom_percent / 100)
    asked = ChangeQuestion(options.change, request, options.fewest, options.throttle, options.seconds_per_cluster)
    basis = FleetPlan(
        question_id, request, options.clusters, options.peak, capacity=options.capacity, now=now,
        oldest_seconds=options.snapshot_age,
    )  # fmt: skip
    told = ask_lake(spark, lake, FleetQuestion(question_id, asked, basis, options.until, options.growth))
    require_clusters(lake, options.clusters, [one.cluster_id for one in told], "ask")
    if out is not None:
        write_targets(targets_of(spark, lake, question_id), out)
    return question_id, told


def _look_ahead(spark: SparkSession, lake: Lake, clusters: Sequence[str], until: date) -> None:
    """Bring `runway`, by which sizes grow, up to date.

    Raises:
        SettingsError: the day is not after the newest sizes.
    """
    runway(spark, lake, clusters=clusters)
    newest = lake.read(spark, RUNWAY).agg(F.max("until").alias("until")).first()
    if newest is not None and newest["until"] is not None and until <= newest["until"]:
        raise SettingsError(f"{until} is not ahead: the newest sizes are those of {newest['until']}")
