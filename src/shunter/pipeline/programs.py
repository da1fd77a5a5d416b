"""The pipeline for programs: one object for a session and a lake, whose methods are the stages.

done = Pipeline(spark, lake).ingest(Inputs(("snapshots",), "snapshots")).model().plan().schedule().report()
print(done.planned.clusters, done.scheduled.scenarios, done.reported)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from shunter.errors import SettingsError
from shunter.pipeline.ingest.batches import IngestOutcome
from shunter.pipeline.ingest.kinds import Inputs, ingest_lake
from shunter.pipeline.lake.schemas import REJECTS, SAMPLES
from shunter.pipeline.lake.tables import TABLES, Lake
from shunter.pipeline.load.model_batch import Modelled, model_lake
from shunter.pipeline.planning.plan_batch import FleetOutcome, FleetPlan, plan_lake
from shunter.pipeline.planning.schedule import Scheduled, WhatIf, schedule_lake
from shunter.pipeline.reports.account import Accounted, account_lake
from shunter.pipeline.reports.report import report_lake


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A session, a lake, and what the stages have found so far.

    A stage works on the lake and returns a new pipeline, which also has this stage's result; the result of a stage that was
    not called is None. `schedule` and `report` are about the plan of this pipeline, or else the lake's newest.
    """

    spark: SparkSession
    lake: Lake
    clock: Callable[[], datetime] | None = None
    """Tells the time, with its zone; None: Spark's driver tells it."""
    ingested: IngestOutcome | None = field(default=None, kw_only=True)
    modelled: Modelled | None = field(default=None, kw_only=True)
    planned: FleetOutcome | None = field(default=None, kw_only=True)
    scheduled: Scheduled | None = field(default=None, kw_only=True)
    accounted: Accounted | None = field(default=None, kw_only=True)
    reported: Path | None = field(default=None, kw_only=True)

    def ingest(self, inputs: Inputs) -> Pipeline:
        """Take files into the lake; see `ingest_lake`. Files that it had taken before change nothing."""
        return replace(self, ingested=ingest_lake(self.spark, self.lake, inputs, now=self._now()))

    def model(
        self,
        *,
        source: str = "samples",
        clusters: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Pipeline:
        """Model the load of each replica; see `model_lake`."""
        made = model_lake(self.spark, self.lake, source=source, clusters=clusters, since=since, until=until)
        return replace(self, modelled=made)

    def plan(self, asked: FleetPlan | None = None, *, out: Path | None = None) -> Pipeline:
        """Plan every cluster that is asked for; see `plan_lake`."""
        return replace(self, planned=plan_lake(self.spark, self.lake, asked or FleetPlan(), now=self._now(), out=out))

    def schedule(self, asked: WhatIf | None = None, *, plan_id: str | None = None) -> Pipeline:
        """Schedule the plan; see `schedule_lake`."""
        chosen = plan_id or self._plan_id
        made = schedule_lake(self.spark, self.lake, chosen, asked or WhatIf(), now=self._now())
        return replace(self, scheduled=made)

    def account(self, journals: Sequence[str]) -> Pipeline:
        """Account for past moves from journals as JSON lines; see `account_lake`."""
        return replace(self, accounted=account_lake(self.spark, self.lake, journals))

    def report(
        self, out: Path = Path("report.html"), *, plan_id: str | None = None, cluster: str | None = None
    ) -> Pipeline:
        """Write the report of one cluster's plan as one HTML file; see `report_lake`."""
        chosen = plan_id or self._plan_id
        return replace(self, reported=report_lake(self.spark, self.lake, out, plan_id=chosen, cluster=cluster))

    def table(self, name: str) -> DataFrame:
        """A table of the lake by its name in docs/data.md; it is empty where no stage has written it.

        Raises:
            SettingsError: there is no such table.
        """
        tables = {table.name: table for table in (*TABLES, SAMPLES, REJECTS)}
        if name not in tables:
            raise SettingsError(f"table {name!r} is none of {', '.join(sorted(tables))}")
        return self.lake.read(self.spark, tables[name])

    @property
    def _plan_id(self) -> str | None:
        return None if self.planned is None else self.planned.plan_id

    def _now(self) -> datetime:
        if self.clock is not None:
            return self.clock()
        row = self.spark.sql("SELECT unix_micros(current_timestamp())").first()
        assert row is not None, "a query without a table has one row"
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row[0])


__all__ = ["Pipeline"]
