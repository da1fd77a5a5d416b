"""The service's front: the only part of the service that page, API and command line may call.

All calls belong on the service's event loop. Reading is cheap, because views are made when something changes, not when
they are read. Proposals and history are read from the store. For server-sent events, wait for `news` and read the
clusters that it names.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from shunter.app.service.published import News, Published
from shunter.app.service.reports import Reports
from shunter.app.service.stories import Stories
from shunter.model.service import EventSearch, OrderDone, OrderRefused, Refusal, ServiceOrder, Signature
from shunter.views.contents import Contents, PartitionSearch
from shunter.views.move_story import ExecutionGist, MoveStory, PastMove
from shunter.views.reports import ReportPage, ReportsView
from shunter.views.service import (
    EXTERNAL,
    OURS,
    ClusterCounts,
    ControllersView,
    FleetView,
    KeptClusterView,
    KeptProposalView,
    MovesView,
    NotifierFigures,
    OrderPreview,
    PartitionsPage,
    TimelineView,
    TopicsPage,
)


class Backstage(Protocol):
    """The service behind the front."""

    @property
    def published(self) -> Published:
        """The latest views."""
        ...

    def stories(self, cluster: str) -> Stories:
        """The stories of moves in a cluster's journal."""
        ...

    def reports(self, cluster: str) -> Reports:
        """The lake's reports about a cluster."""
        ...

    def contents(self, cluster: str) -> Contents:
        """All topics and partitions of a cluster."""
        ...

    def fleet(self) -> FleetView:
        """All clusters."""
        ...

    async def proposals(self, cluster: str, *, ended: bool) -> tuple[KeptProposalView, ...]:
        """Proposals of a cluster, the latest first, without the partitions that they change."""
        ...

    async def proposal(self, cluster: str, proposal: str) -> KeptProposalView | None:
        """One proposal with the partitions that it changes."""
        ...

    async def timeline(self, search: EventSearch) -> TimelineView:
        """The events that a search finds."""
        ...

    async def controllers(self, cluster: str) -> ControllersView:
        """Shunter's controllers of a cluster, if the policy file names them."""
        ...

    async def sketch(self, order: ServiceOrder, who: str) -> KeptProposalView:
        """Plan as a person asks; no proposal is kept."""
        ...

    def preview(self, order: ServiceOrder, who: str) -> OrderPreview:
        """What an order to moves would do now."""
        ...

    async def carry_out(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        """Carry an order out, or raise `OrderRefused`."""
        ...

    async def note(self, kind: str, told: str) -> None:
        """Keep an event of the service itself in the history, and notify of it."""
        ...


class Front:
    """The calls of page, API and command line."""

    def __init__(self, backstage: Backstage) -> None:
        """Take the service behind the front."""
        self._backstage = backstage

    @property
    def version(self) -> int:
        """A number that grows with every change of anything that can be read here."""
        return self._backstage.published.version

    async def news(self, since: int, within_s: float = 15.0) -> News:
        """Wait until anything changes after a version; after `within_s` seconds the answer names no cluster."""
        return await self._backstage.published.news(since, within_s)

    async def note(self, kind: str, told: str) -> None:
        """Keep an event of the service itself in the history, and notify of it."""
        await self._backstage.note(kind, told)

    def fleet(self) -> FleetView:
        """All clusters."""
        return self._backstage.fleet()

    def cluster(self, name: str) -> KeptClusterView:
        """One cluster.

        Raises:
            OrderRefused: there is none of this name.
        """
        return self._backstage.published.page(self._known(name))

    def counts(self, name: str) -> ClusterCounts:
        """What was counted in a cluster since the service began. Pre: there is a cluster of this name."""
        return self._backstage.published.counts[name]

    def notifiers(self) -> tuple[NotifierFigures, ...]:
        """What was counted of each receiver of notifications."""
        return self._backstage.published.notifiers()

    def moves(self, name: str) -> MovesView:
        """The moves in a cluster, the service's own and those that other tools began.

        Raises:
            OrderRefused: there is no cluster of this name.
        """
        return self._backstage.published.moves(self._known(name))

    async def topics(
        self, name: str, search: str = "", order: str = "bytes", offset: int = 0, limit: int = 200
    ) -> TopicsPage:
        """All topics of the last observation that have `search` in their name. `order`: as `views.contents` has them.

        Raises:
            OrderRefused: there is no cluster of this name.
        """
        contents = self._backstage.contents(self._known(name))
        return await asyncio.to_thread(contents.topics, search, order, offset, limit)

    async def partitions(self, name: str, asked: PartitionSearch, offset: int = 0, limit: int = 200) -> PartitionsPage:
        """All partitions of the last observation that fit a search. In a thread, because there may be 100,000.

        Raises:
            OrderRefused: there is no cluster of this name.
        """
        contents = self._backstage.contents(self._known(name))
        return await asyncio.to_thread(contents.partitions, asked, offset, limit)

    def preview(self, order: ServiceOrder, who: str) -> OrderPreview:
        """What an order to moves would do now; nothing is changed.

        Raises:
            OrderRefused: there is no such cluster, the order would be refused, or it is none to moves.
        """
        if order.cluster:
            self._known(order.cluster)
            whose = {row.partition: row.whose for row in self.moves(order.cluster).moves}
            unknown = sorted(each for each in set(order.partitions) if whose.get(each) != OURS)
            if unknown:
                told = f"this service does not move in {order.cluster}: {', '.join(unknown)}"
                if any(whose.get(each) == EXTERNAL for each in unknown):
                    told += "; `shunter rollback` without `--service` cancels another tool's move"
                raise OrderRefused(Refusal.NOT_FOUND, told)
        return self._backstage.preview(order, who)

    async def proposals(self, name: str, *, ended: bool = False) -> tuple[KeptProposalView, ...]:
        """Proposals of a cluster, the latest first; `ended`: also those that are over.

        They come without the partitions that they change, because a proposal may have 100,000 of them.

        Raises:
            OrderRefused: there is no cluster of this name, or the store can't be read.
        """
        return await self._backstage.proposals(self._known(name), ended=ended)

    async def proposal(self, name: str, proposal: str) -> KeptProposalView:
        """One proposal with the partitions that it changes; a proposal that ended long ago has none of them.

        Raises:
            OrderRefused: there is no such cluster or proposal, or the store can't be read.
        """
        found = await self._backstage.proposal(self._known(name), proposal)
        if found is None:
            raise OrderRefused(Refusal.NOT_FOUND, f"there is no proposal {proposal!r} of {name}")
        return found

    async def timeline(self, search: EventSearch) -> TimelineView:
        """The events that a search finds, the oldest first.

        Raises:
            OrderRefused: there is no cluster of this name, or the store can't be read.
        """
        if search.cluster:
            self._known(search.cluster)
        return await self._backstage.timeline(search)

    async def executions(self, name: str) -> tuple[ExecutionGist, ...]:
        """All executions in the journal of a cluster, the first one first; the last one may be under way.

        Raises:
            OrderRefused: there is no cluster of this name, or its journal can't be read.
        """
        return await self._backstage.stories(self._known(name)).executions()

    def journal(self, name: str) -> str:
        """Where the journal of a cluster is: `HOST:PATH`, or `kafka:TOPIC` if every host has it; "": not known.

        Raises:
            OrderRefused: there is no cluster of this name.
        """
        return self._backstage.stories(self._known(name)).place

    async def past_moves(self, name: str, execution: int) -> tuple[PastMove, ...]:
        """The moves of an execution, in the order in which they were taken on.

        Raises:
            OrderRefused: there is no such cluster or execution, or its journal can't be read.
        """
        return await self._backstage.stories(self._known(name)).moves(execution)

    async def story(self, name: str, partition: str, execution: int | None = None) -> MoveStory:
        """The story of a partition's move, step by step; `execution` None: the latest execution that moved it.

        Raises:
            OrderRefused: there is no such cluster or execution, it did not move the partition, or its journal can't be read.
        """
        brokers = self.cluster(name).brokers
        live = frozenset(broker.id for broker in brokers if broker.live) if brokers else None
        return await self._backstage.stories(name).story(partition, execution, live)

    async def controllers(self, name: str) -> ControllersView:
        """The status of Shunter's controllers of a cluster, at most a few seconds old.

        Raises:
            OrderRefused: there is no cluster of this name.
        """
        return await self._backstage.controllers(self._known(name))

    async def reports(self, name: str) -> ReportsView:
        """The pipeline's reports about a cluster: its load model, and tables.

        Raises:
            OrderRefused: there is no cluster of this name.
        """
        return await self._backstage.reports(self._known(name)).view()

    async def report(self, name: str, report: str, search: str = "", offset: int = 0, limit: int = 200) -> ReportPage:
        """Rows of one of these tables that have `search` in a text column.

        Raises:
            OrderRefused: there is no such cluster or report, or it can't be read.
        """
        return await self._backstage.reports(self._known(name)).rows(report, search, offset, limit)

    async def sketch(self, order: ServiceOrder, who: str) -> KeptProposalView:
        """A dry run of an order to propose a plan, or to give an intent: the moves of the plan, by the last look.

        Raises:
            OrderRefused: there is no such cluster, scope, broker or topic; nothing would change; or the cluster can't
                be looked at now.
        """
        self._known(order.cluster)
        return await self._backstage.sketch(order, who)

    async def order(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        """Carry an order out. When this returns, the order is durable.

        Raises:
            OrderRefused: the order is not carried out, and nothing was changed; `.refusal` is the kind of the reason.
        """
        if order.cluster:
            self._known(order.cluster)
        strange = next((each for each in (*order.about, signature.key) if not each.isprintable()), None)
        if strange is not None:
            raise OrderRefused(Refusal.INVALID, f"{order.kind.value} {strange!r}: names have no control characters")
        # Comments are shown in other people's terminals, so they may have no control characters.
        signature = signature._replace(comment="".join(c if c.isprintable() else " " for c in signature.comment))
        if not signature.who:
            raise OrderRefused(Refusal.INVALID, f"{order.kind.value}: an order needs the name of its giver")
        return await self._backstage.carry_out(order, signature)

    def _known(self, name: str) -> str:
        names = self._backstage.published.names
        if name not in names:
            told = f"there is no cluster {name!r} in the policy file; it names {', '.join(names)}"
            raise OrderRefused(Refusal.NOT_FOUND, told)
        return name
