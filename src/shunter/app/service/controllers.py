"""The status of a cluster's Shunter controllers. They are asked when a page looks, at most every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shunter.drivers.service.controller_status import ControllersPlace, ask_controller
from shunter.errors import ShunterError
from shunter.views.service import ControllersView, ControllerView

KEPT_MS = 5_000
"""How long an answer is used again, so that many open pages cause no more requests than one."""


class Controllers:
    """The controllers of one cluster. They are asked only when a page looks."""

    def __init__(self, place: Callable[[], ControllersPlace | None], now_ms: Callable[[], int]) -> None:
        """`place`: returns the addresses in the current policy file; None: it names no controllers."""
        self._place = place
        self._now_ms = now_ms
        self._known: tuple[ControllersPlace, ControllersView] | None = None
        self._asking: asyncio.Task[ControllersView] | None = None

    async def view(self) -> ControllersView:
        """The controllers' status, from an answer that is at most `KEPT_MS` old."""
        place = self._place()
        if place is None:
            return ControllersView(self._now_ms())
        if self._known is not None and self._known[0] == place:
            age_ms = self._now_ms() - self._known[1].at_ms
            if 0 <= age_ms < KEPT_MS:
                return self._known[1]
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(place))
            self._asking.add_done_callback(lambda _done: self._asked())
        return await asyncio.shield(self._asking)

    def _asked(self) -> None:
        self._asking = None

    async def _ask(self, place: ControllersPlace) -> ControllersView:
        found = await asyncio.gather(*(asyncio.to_thread(_one, url, place) for url in place.urls))
        view = ControllersView(self._now_ms(), tuple(found))
        self._known = (place, view)
        return view


def _one(url: str, place: ControllersPlace) -> ControllerView:
    try:
        return ControllerView(url, ask_controller(url, place))
    except ShunterError as error:
        return ControllerView(url, None, str(error))
