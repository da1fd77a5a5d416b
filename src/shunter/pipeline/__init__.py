"""Room `pipeline`: samples and snapshots to load model, plan, schedule and account, on Spark.

May touch: Spark. Never: `collect()` but for the small last result; a Python UDF where a native function serves.
Imports: `views`, `core.planning`, `formats`, `model`, `errors`, pyspark.

`__all__` lists what notebooks and schedulers may import; docs/pipeline.ipynb uses it. pyspark is imported when one of
these names is asked for, and not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shunter.pipeline.ingest.batches import IngestOptions, ingest_files
    from shunter.pipeline.ingest.broker_check import broker_loads
    from shunter.pipeline.ingest.identity import one_series
    from shunter.pipeline.ingest.rollup import compact, roll_up, roll_up_days
    from shunter.pipeline.ingest.snapshot_batch import ingest_snapshots, latest_snapshot
    from shunter.pipeline.lake.tables import Lake
    from shunter.pipeline.load.modelling import load_model, load_shape
    from shunter.pipeline.load.sizes import daily_sizes
    from shunter.pipeline.load.weeks import broker_weeks, partition_weeks
    from shunter.pipeline.planning.fleet import fleet_rows, plan_fleet
    from shunter.pipeline.planning.what_if import answer_fleet
    from shunter.pipeline.reports.disk_growth import runway
    from shunter.pipeline.reports.quality import data_quality
    from shunter.pipeline.reports.usage import showback
    from shunter.pipeline.session import SessionSettings, open_session
    from shunter.pipeline.sources.tables import read_table

_PLACES = {
    "IngestOptions": "ingest.batches",
    "Lake": "lake.tables",
    "SessionSettings": "session",
    "answer_fleet": "planning.what_if",
    "broker_loads": "ingest.broker_check",
    "broker_weeks": "load.weeks",
    "compact": "ingest.rollup",
    "daily_sizes": "load.sizes",
    "data_quality": "reports.quality",
    "fleet_rows": "planning.fleet",
    "ingest_files": "ingest.batches",
    "ingest_snapshots": "ingest.snapshot_batch",
    "latest_snapshot": "ingest.snapshot_batch",
    "load_model": "load.modelling",
    "load_shape": "load.modelling",
    "one_series": "ingest.identity",
    "open_session": "session",
    "partition_weeks": "load.weeks",
    "plan_fleet": "planning.fleet",
    "read_table": "sources.tables",
    "roll_up": "ingest.rollup",
    "roll_up_days": "ingest.rollup",
    "runway": "reports.disk_growth",
    "showback": "reports.usage",
}


def __getattr__(name: str) -> object:
    """Import a stage when it is asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


__all__ = [
    "IngestOptions",
    "Lake",
    "SessionSettings",
    "answer_fleet",
    "broker_loads",
    "broker_weeks",
    "compact",
    "daily_sizes",
    "data_quality",
    "fleet_rows",
    "ingest_files",
    "ingest_snapshots",
    "latest_snapshot",
    "load_model",
    "load_shape",
    "one_series",
    "open_session",
    "partition_weeks",
    "plan_fleet",
    "read_table",
    "roll_up",
    "roll_up_days",
    "runway",
    "showback",
]
