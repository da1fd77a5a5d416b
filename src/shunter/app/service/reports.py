"""The lake's reports about a cluster, read on request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shunter.app.evaluation.policy import KeptCluster
from shunter.errors import FormatError
from shunter.model.service import OrderRefused, Refusal
from shunter.pipeline.lake.kept_reports import REPORTS, KeptReports
from shunter.views.reports import ModelGist, ReportPage, ReportsView
from shunter.views.service import KeptClusterView

NO_LAKE = "the policy file names no lake: `lake` in [service], as `shunter pipeline --root`"


class Reports:
    """The reports of one cluster. They are read one at a time, so that readers don't load large tables together."""

    def __init__(self, cluster: KeptCluster, page: Callable[[], KeptClusterView]) -> None:
        """`page`: the cluster's last view; its id says which folders of the lake belong to the cluster."""
        self._kept = None if cluster.model is None else KeptReports(cluster.model.lake)
        self._page = page
        self._name = cluster.name
        self._lock = asyncio.Lock()

    async def view(self) -> ReportsView:
        """The load model and the list of reports."""
        why = self._why_not()
        if why or self._kept is None:
            return ReportsView(why)
        async with self._lock:
            return await asyncio.to_thread(self._read, self._kept)

    def _read(self, kept: KeptReports) -> ReportsView:
        page = self._page()
        model: ModelGist | None = None
        trouble = ""
        try:
            model = kept.model(page.row.cluster_id)
        except FormatError as error:
            trouble = str(error)
        return ReportsView("", model, trouble, page.rates_unused, kept.gists(page.row.cluster_id))

    async def rows(self, report: str, search: str, offset: int, limit: int) -> ReportPage:
        """Rows of one report.

        Raises:
            OrderRefused: there is no report of this name, or it can't be read.
        """
        why = self._why_not()
        if why or self._kept is None:
            raise OrderRefused(Refusal.NOT_FOUND, f"{self._name} has no reports: {why}")
        cluster_id = self._page().row.cluster_id
        try:
            async with self._lock:
                found = await asyncio.to_thread(self._kept.page, report, cluster_id, search, offset, limit)
        except FormatError as error:
            raise OrderRefused(Refusal.UNREACHABLE, f"{error}: the table may just be replaced, so try again") from error
        if found is None:
            raise OrderRefused(Refusal.NOT_FOUND, f"there is no report {report!r}; there are {', '.join(REPORTS)}")
        return found

    def _why_not(self) -> str:
        if self._kept is None:
            return NO_LAKE
        return "" if self._page().row.cluster_id else f"{self._name} was not observed yet, so its cluster id is unknown"
