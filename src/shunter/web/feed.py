"""Events from the front's news. An event of a changed cluster is rendered once, however many pages are open."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from shunter.app.service.front import Front
from shunter.views.service import render
from shunter.web.forecasts import Forecasts
from shunter.web.hub import Hub

LEAST_SECONDS = 0.25
"""Changes that come faster are sent together."""


async def feed(front: Front, hub: Hub, seen: int, forecasts: Forecasts) -> None:
    """Publish changes after the version `seen`, until cancelled, and keep rates and estimates in `forecasts`.

    An event of a cluster has the cluster's row of the fleet and the version that changed it; an open page then reads
    again the parts that it shows. An event of the fleet has no rows.
    """
    while True:
        news = await front.news(seen)
        if news.version == seen:
            continue
        seen = news.version
        view = front.fleet()
        rows = {row.name: row for row in view.clusters}
        head = replace(view, clusters=())
        for name in news.clusters:
            if name in rows:
                forecasts.note(name, front.moves(name))
                hub.publish("cluster", name, render({"version": news.version, "row": rows[name], "fleet": head}))
            elif not name:
                hub.publish("fleet", "", render(head))
        await asyncio.sleep(LEAST_SECONDS)
