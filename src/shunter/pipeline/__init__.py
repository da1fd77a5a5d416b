"""Room `pipeline`: samples and snapshots to load model, plan, schedule and account, on Spark.

May touch: Spark. Never: `collect()` but for the small last result; a Python UDF where a native function serves.
Imports: `views`, `core.planning`, `formats`, `model`, `errors`, pyspark.

`__all__` is the promise to notebooks and schedulers (docs/api-python.md, "The pipeline"). pyspark is imported when one of
these names is asked for, and not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shunter.core.planning.cluster import Resource
    from shunter.core.planning.request import PlanRequest, Scope
    from shunter.formats.series_labels import SeriesLabels
    from shunter.pipeline.ingest.batches import IngestOptions, IngestOutcome, ingest_files
    from shunter.pipeline.ingest.broker_check import broker_loads
    from shunter.pipeline.ingest.identity import one_series
    from shunter.pipeline.ingest.kinds import Inputs
    from shunter.pipeline.ingest.rollup import compact, roll_up, roll_up_days
    from shunter.pipeline.ingest.snapshot_batch import ingest_snapshots, latest_snapshot
    from shunter.pipeline.lake.tables import Lake
    from shunter.pipeline.load.model_batch import Modelled
    from shunter.pipeline.load.modelling import load_model, load_shape
    from shunter.pipeline.load.processors import processor_model
    from shunter.pipeline.load.sizes import daily_sizes
    from shunter.pipeline.load.weeks import broker_weeks, partition_weeks
    from shunter.pipeline.planning.fleet import fleet_rows, plan_fleet
    from shunter.pipeline.planning.fleet_worker import ClusterLimit
    from shunter.pipeline.planning.plan_batch import ClusterOutcome, FleetOutcome, FleetPlan
    from shunter.pipeline.planning.schedule import Scheduled, ScheduleOutcome, WhatIf, schedule_fleet, schedule_rows
    from shunter.pipeline.planning.what_if import answer_fleet
    from shunter.pipeline.programs import Pipeline
    from shunter.pipeline.reports.account import (
        Accounted,
        account_moves,
        account_plans,
        account_rates,
        account_stalls,
        account_steps,
        read_journals,
    )
    from shunter.pipeline.reports.anomalies import anomalies
    from shunter.pipeline.reports.disk_growth import runway
    from shunter.pipeline.reports.quality import data_quality
    from shunter.pipeline.reports.usage import showback
    from shunter.pipeline.session import SessionSettings, open_session
    from shunter.pipeline.sources.cruise_control import broker_samples, partition_samples, read_cruise_control
    from shunter.pipeline.sources.cruise_control_load import broker_stats, partition_loads, read_cruise_control_load
    from shunter.pipeline.sources.kafka_topic import read_topic, topic_samples
    from shunter.pipeline.sources.log_dirs import read_log_dirs
    from shunter.pipeline.sources.prometheus import read_prometheus
    from shunter.pipeline.sources.prometheus_brokers import prometheus_brokers
    from shunter.pipeline.sources.snapshots import read_snapshots, snapshot_brokers, snapshot_replicas, snapshot_samples
    from shunter.pipeline.sources.tables import read_table

_NAMES = {
    "core.planning.cluster": ("Resource",),
    "core.planning.request": ("PlanRequest", "Scope"),
    "formats.series_labels": ("SeriesLabels",),
    "pipeline.ingest.batches": ("IngestOptions", "IngestOutcome", "ingest_files"),
    "pipeline.ingest.broker_check": ("broker_loads",),
    "pipeline.ingest.identity": ("one_series",),
    "pipeline.ingest.kinds": ("Inputs",),
    "pipeline.ingest.rollup": ("compact", "roll_up", "roll_up_days"),
    "pipeline.ingest.snapshot_batch": ("ingest_snapshots", "latest_snapshot"),
    "pipeline.lake.tables": ("Lake",),
    "pipeline.load.model_batch": ("Modelled",),
    "pipeline.load.modelling": ("load_model", "load_shape"),
    "pipeline.load.processors": ("processor_model",),
    "pipeline.load.sizes": ("daily_sizes",),
    "pipeline.load.weeks": ("broker_weeks", "partition_weeks"),
    "pipeline.planning.fleet": ("fleet_rows", "plan_fleet"),
    "pipeline.planning.fleet_worker": ("ClusterLimit",),
    "pipeline.planning.plan_batch": ("ClusterOutcome", "FleetOutcome", "FleetPlan"),
    "pipeline.planning.schedule": ("ScheduleOutcome", "Scheduled", "WhatIf", "schedule_fleet", "schedule_rows"),
    "pipeline.planning.what_if": ("answer_fleet",),
    "pipeline.programs": ("Pipeline",),
    "pipeline.reports.account": (
        "Accounted",
        "account_moves",
        "account_plans",
        "account_rates",
        "account_stalls",
        "account_steps",
        "read_journals",
    ),
    "pipeline.reports.anomalies": ("anomalies",),
    "pipeline.reports.disk_growth": ("runway",),
    "pipeline.reports.quality": ("data_quality",),
    "pipeline.reports.usage": ("showback",),
    "pipeline.session": ("SessionSettings", "open_session"),
    "pipeline.sources.cruise_control": ("broker_samples", "partition_samples", "read_cruise_control"),
    "pipeline.sources.cruise_control_load": ("broker_stats", "partition_loads", "read_cruise_control_load"),
    "pipeline.sources.kafka_topic": ("read_topic", "topic_samples"),
    "pipeline.sources.log_dirs": ("read_log_dirs",),
    "pipeline.sources.prometheus": ("read_prometheus",),
    "pipeline.sources.prometheus_brokers": ("prometheus_brokers",),
    "pipeline.sources.snapshots": ("read_snapshots", "snapshot_brokers", "snapshot_replicas", "snapshot_samples"),
    "pipeline.sources.tables": ("read_table",),
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a name when it is asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"shunter.{_PLACES[name]}"), name)


__all__ = [
    "Accounted", "ClusterLimit", "ClusterOutcome", "FleetOutcome", "FleetPlan", "IngestOptions", "IngestOutcome",
    "Inputs", "Lake", "Modelled", "Pipeline", "PlanRequest", "Resource", "ScheduleOutcome", "Scheduled", "Scope",
    "SeriesLabels", "SessionSettings", "WhatIf", "account_moves", "account_plans", "account_rates", "account_stalls",
    "account_steps", "anomalies", "answer_fleet", "broker_loads", "broker_samples", "broker_stats", "broker_weeks",
    "compact", "daily_sizes", "data_quality", "fleet_rows", "ingest_files", "ingest_snapshots", "latest_snapshot",
    "load_model", "load_shape", "one_series", "open_session", "partition_loads", "partition_samples",
    "partition_weeks", "plan_fleet", "processor_model", "prometheus_brokers", "read_cruise_control",
    "read_cruise_control_load", "read_journals", "read_log_dirs", "read_prometheus", "read_snapshots", "read_table",
    "read_topic", "roll_up", "roll_up_days", "runway", "schedule_fleet", "schedule_rows", "showback",
    "snapshot_brokers", "snapshot_replicas", "snapshot_samples", "topic_samples",
]  # fmt: skip
