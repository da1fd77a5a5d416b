"""The latest views of each cluster, and the readers that wait for news. One event loop, no locks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from shunter.core.keeper.situation import unseen
from shunter.views.service import ClusterCounts, FleetRow, KeptClusterView, MovesView, NotifierFigures


class News(NamedTuple):
    """The names of clusters that changed since a version, ascending; "": the fleet as a whole."""

    version: int
    clusters: tuple[str, ...]


class Published:
    """The latest views. `version` grows by one with every change; each cluster knows the version that changed it last."""

    def __init__(self, names: Iterable[str]) -> None:
        """Begin with empty views."""
        self.version = 1
        self._pages = {name: KeptClusterView(1, FleetRow(name, "", unseen(name))) for name in names}
        self._moves = {name: MovesView(1, 0, "", unseen(name), why_no_eta="not observed yet") for name in self._pages}
        self.counts = {name: ClusterCounts() for name in self._pages}
        """By cluster; whoever observes or drives it counts here."""
        self.notifiers: Callable[[], tuple[NotifierFigures, ...]] = tuple
        """The counts of each receiver of notifications."""
        self._changed_at = dict.fromkeys(self._pages, 1)
        self._changed_at[""] = 1
        self._changed = asyncio.Event()

    @property
    def names(self) -> tuple[str, ...]:
        """The clusters, in the order of the policy file."""
        return tuple(self._pages)

    def page(self, name: str) -> KeptClusterView:
        """A cluster's view; its `version` is the version of its last change."""
        return replace(self._pages[name], version=self._changed_at[name])

    def moves(self, name: str) -> MovesView:
        """A cluster's moves."""
        return replace(self._moves[name], version=self._changed_at[name])

    def show(self, name: str, page: KeptClusterView | None = None, moves: MovesView | None = None) -> None:
        """Publish the given views; wake readers that wait for news if a view changed."""
        changed = False
        if page is not None and page != self._pages[name]:
            self._pages[name], changed = page, True
        if moves is not None and replace(moves, at_ms=0) != replace(self._moves[name], at_ms=0):
            changed = True
        if moves is not None:
            self._moves[name] = moves
        if changed:
            self.tell(name)

    def tell(self, name: str = "") -> None:
        """Note a change of a cluster other than its views (its proposals, its history), or of the fleet ("")."""
        self.version += 1
        self._changed_at[name] = self.version
        waited, self._changed = self._changed, asyncio.Event()
        waited.set()

    async def news(self, since: int, within_s: float) -> News:
        """Wait until anything changes after a version. If nothing does within `within_s`, `clusters` is empty."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.version <= since:
                    await self._changed.wait()
        return News(self.version, tuple(sorted(name for name, at in self._changed_at.items() if at > since)))
