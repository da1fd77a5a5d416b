"""`shunter.pipeline` keeps its promise: what it names, and the chain's methods with their parameters and fields."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from shunter import pipeline

PROMISED = {
    "account": "(journals)",
    "ingest": "(inputs)",
    "model": "(*, source, clusters, since, until)",
    "plan": "(asked, *, out)",
    "report": "(out, *, plan_id, cluster)",
    "schedule": "(asked, *, plan_id)",
    "table": "(name)",
}
FIELDS = {
    "Pipeline": "spark lake clock ingested modelled planned scheduled accounted reported",
    "Inputs": "paths kind cluster labels at many_clusters window_seconds",
    "FleetPlan": "plan_id request clusters peak days limit tasks capacity now oldest_seconds least_rates_percent rates_age as_of",
    "WhatIf": "throttle capacity per_broker total traffic lost",
    "Modelled": "replicas with_rates with_weeks mean_confidence brokers doubts processors",
    "FleetOutcome": "plan_id clusters",
    "Scheduled": "plan_id scenarios idle unplanned",
    "Accounted": "entries moves done stalled_seconds",
}
NAMES = """
    Accounted ClusterLimit ClusterOutcome FleetOutcome FleetPlan IngestOptions IngestOutcome Inputs Lake Modelled Pipeline
    PlanRequest Resource ScheduleOutcome Scheduled Scope SeriesLabels SessionSettings WhatIf account_moves account_plans
    account_rates account_stalls account_steps anomalies answer_fleet broker_loads broker_samples broker_stats broker_weeks
    compact daily_sizes data_quality fleet_rows ingest_files ingest_snapshots latest_snapshot load_model load_shape
    one_series open_session partition_loads partition_samples partition_weeks plan_fleet processor_model
    prometheus_brokers read_cruise_control read_cruise_control_load read_journals read_log_dirs read_prometheus
    read_snapshots read_table read_topic roll_up roll_up_days runway schedule_fleet schedule_rows showback
    snapshot_brokers snapshot_replicas snapshot_samples topic_samples
"""


def parameters(function: object) -> str:
    assert callable(function)
    found = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    bare = [each.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty) for each in found]
    return str(inspect.Signature(bare))


def fields_of(kind: type) -> list[str]:
    return list(kind._fields) if hasattr(kind, "_fields") else [each.name for each in dataclasses.fields(kind)]


def test_the_promise_is_kept() -> None:
    methods = {name: one for name, one in vars(pipeline.Pipeline).items() if inspect.isfunction(one) and name[0] != "_"}
    assert {name: parameters(one) for name, one in methods.items()} == PROMISED
    assert {name: fields_of(getattr(pipeline, name)) for name in FIELDS} == {
        name: told.split() for name, told in FIELDS.items()
    }
    assert sorted(pipeline.__all__) == sorted(NAMES.split())
    assert [name for name in pipeline.__all__ if not hasattr(pipeline, name)] == []


def test_each_stage_of_the_chain_is_one_of_the_pipeline_and_needs_no_more_than_it_is_given() -> None:
    for name in PROMISED.keys() - {"table"}:
        assert inspect.signature(getattr(pipeline.Pipeline, name)).return_annotation == "Pipeline"
    for name in ("model", "plan", "schedule", "report"):
        optional = list(inspect.signature(getattr(pipeline.Pipeline, name)).parameters.values())[1:]
        assert all(each.default is not inspect.Parameter.empty for each in optional)


def test_every_method_and_name_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "api-python.md").read_text(encoding="utf-8")
    assert [name for name in PROMISED if f"`{name}(" not in page] == []
    assert [name for name in pipeline.__all__ if re.search(rf"\b{name}\b", page) is None] == []
