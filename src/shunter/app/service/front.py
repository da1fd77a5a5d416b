"""The service's front: what page, API and command line read of it and ask of it. Nothing else of the service is theirs.

All calls belong on the service's event loop. Reading is cheap: views are made when something changes, not when somebody
asks; proposals and history are read from the store. For server-sent events wait for `news` and read what it names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from shunter.app.service.published import News, Published
from shunter.app.service.reports import Reports
from shunter.app.service.stories import Stories
from shunter.model.service import OrderDone, OrderRefused, Refusal, ServiceOrder, Signature
from shunter.views.execution import OPEN_STATES
from shunter.views.move_story import ExecutionGist, MoveStory, PastMove
from shunter.views.reports import ReportPage, ReportsView
from shunter.views.service import (
    ControllersView,
    FleetView,
    KeptClusterView,
    KeptProposalView,
    MovesView,
    MoveView,
    TimelineView,
)


class Backstage(Protocol):
    """What stands behind the front: the service itself."""

    @property
    def published(self) -> Published:
        """The latest views."""
        ...

    def stories(self, cluster: str) -> Stories:
        """What the journal of a cluster tells."""
        ...

    def reports(self, cluster: str) -> Reports:
        """What the lake says of a cluster."""
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

    async def timeline(self, cluster: str, since_ms: int, until_ms: int | None, most: int) -> TimelineView:
        """What happened in a cluster; "": in all."""
        ...

    async def controllers(self, cluster: str) -> ControllersView:
        """Shunter's controllers of a cluster, where the policy file names them."""
        ...

    async def sketch(self, cluster: str, about: tuple[str, ...], replicas: int | None, who: str) -> KeptProposalView:
        """Plan what a person asks for; nothing is kept."""
        ...

    async def carry_out(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        """Carry an order out, or raise `OrderRefused`."""
        ...


class Front:
    """What page, API and command line may read and ask."""

    def __init__(self, backstage: Backstage) -> None:
        """The front of a service."""
        self._backstage = backstage

    @property
    def version(self) -> int:
        """It grows with every change of anything that can be read here."""
        return self._backstage.published.version

    async def news(self, since: int, within_s: float = 15.0) -> News:
        """Wait until anything changes after a version; after `within_s` seconds the answer names no cluster."""
        return await self._backstage.published.news(since, within_s)

    def fleet(self) -> FleetView:
        """All clusters."""
        return self._backstage.fleet()

    def cluster(self, name: str) -> KeptClusterView:
        """One cluster.

        Raises:
            OrderRefused: there is none of this name.
        """
        return self._backstage.published.page(self._known(name))

    def moves(self, name: str) -> MovesView:
        """What moves in a cluster, ours and others'.

        Raises:
            OrderRefused: there is no cluster of this name.
        """
        return self._backstage.published.moves(self._known(name))

    def rollback_bytes(self, name: str, partitions: Collection[str] = ()) -> int:
        """What a rollback of open moves would copy at most; partitions as `orders-3`, none named: all.

        Raises:
            OrderRefused: there is no such cluster, or this execution has no move of one of these partitions.
        """
        return sum(row.rollback_bytes or 0 for row in self.turnable(name, partitions))

    def turnable(self, name: str, partitions: Collection[str] = ()) -> tuple[MoveView, ...]:
        """The open moves of ours among some partitions; none named: all. What has ended meanwhile is left as it is.

        Raises:
            OrderRefused: see `rollback_bytes`.
        """
        ours = [row for row in self.moves(name).moves if row.whose == "ours"]
        unknown = sorted(set(partitions) - {row.partition for row in ours})
        if unknown:
            raise OrderRefused(Refusal.NOT_FOUND, f"no move of ours in {name}: {', '.join(unknown)}")
        return tuple(
            row for row in ours if row.state in OPEN_STATES and (not partitions or row.partition in partitions)
        )

    async def proposals(self, name: str, *, ended: bool = False) -> tuple[KeptProposalView, ...]:
        """Proposals of a cluster, the latest first; `ended`: those that are over, too.

        They come without the partitions that they change: one may have 100,000 of them.

        Raises:
            OrderRefused: there is no cluster of this name, or the store can't be read.
        """
        return await self._backstage.proposals(self._known(name), ended=ended)

    async def proposal(self, name: str, proposal: str) -> KeptProposalView:
        """One proposal with the partitions that it changes; of those that ended long ago these are not kept.

        Raises:
            OrderRefused: there is no such cluster or proposal, or the store can't be read.
        """
        found = await self._backstage.proposal(self._known(name), proposal)
        if found is None:
            raise OrderRefused(Refusal.NOT_FOUND, f"there is no proposal {proposal!r} of {name}")
        return found

    async def timeline(
        self, name: str = "", since_ms: int = 0, until_ms: int | None = None, most: int = 500
    ) -> TimelineView:
        """What happened in a cluster ("": in the fleet) in [since_ms, until_ms), the latest `most` events.

        Raises:
            OrderRefused: there is no cluster of this name, or the store can't be read.
        """
        return await self._backstage.timeline(name and self._known(name), since_ms, until_ms, most)

    async def executions(self, name: str) -> tuple[ExecutionGist, ...]:
        """All executions in the journal of a cluster, the first one first; the last one may go on.

        Raises:
            OrderRefused: there is no cluster of this name, or its journal can't be read.
        """
        return await self._backstage.stories(self._known(name)).executions()

    async def past_moves(self, name: str, execution: int) -> tuple[PastMove, ...]:
        """The moves of an execution, in the order in which they were taken on.

        Raises:
            OrderRefused: there is no such cluster or execution, or its journal can't be read.
        """
        return await self._backstage.stories(self._known(name)).moves(execution)

    async def story(self, name: str, partition: str, execution: int | None = None) -> MoveStory:
        """What became of a partition's move, step by step; `execution` None: the latest one that moved it.

        Raises:
            OrderRefused: there is no such cluster or execution, it did not move the partition, or its journal can't be read.
        """
        brokers = self.cluster(name).brokers
        live = frozenset(broker.id for broker in brokers if broker.live) if brokers else None
        return await self._backstage.stories(name).story(partition, execution, live)

    async def controllers(self, name: str) -> ControllersView:
        """How Shunter's controllers of a cluster stand; they are asked now, or were within the last seconds.

        Raises:
            OrderRefused: there is no cluster of this name.
        """
        return await self._backstage.controllers(self._known(name))

    async def reports(self, name: str) -> ReportsView:
        """What the pipeline's lake has of a cluster: its load model, and tables to be looked at.

        Raises:
            OrderRefused: there is no cluster of this name.
        """
        return await self._backstage.reports(self._known(name)).view()

    async def report(self, name: str, report: str, search: str = "", offset: int = 0, limit: int = 200) -> ReportPage:
        """Rows of one of these tables that have `search` in a text.

        Raises:
            OrderRefused: there is no such cluster or report, or it can't be read.
        """
        return await self._backstage.reports(self._known(name)).rows(report, search, offset, limit)

    async def sketch(
        self, name: str, about: tuple[str, ...], replicas: int | None = None, who: str = "somebody"
    ) -> KeptProposalView:
        """A dry run of `OrderKind.PROPOSE` with the same `about` and value: what it would move, by the last look.

        Raises:
            OrderRefused: there is no such cluster, scope, broker or topic; nothing would change; or it can't be seen now.
        """
        return await self._backstage.sketch(self._known(name), about, replicas, who)

    async def order(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        """Carry an order out. When this returns, the order is durable.

        Raises:
            OrderRefused: it is not carried out, and nothing was changed; `.refusal` says of which kind the reason is.
        """
        if order.cluster:
            self._known(order.cluster)
        strange = next((each for each in (*order.about, signature.key) if not each.isprintable()), None)
        if strange is not None:
            raise OrderRefused(Refusal.INVALID, f"{order.kind.value} {strange!r}: names have no control characters")
        # What somebody writes is shown in the terminals of others.
        signature = signature._replace(comment="".join(c if c.isprintable() else " " for c in signature.comment))
        if not signature.who:
            raise OrderRefused(Refusal.INVALID, f"{order.kind.value}: who asks for it? An order has a name to it")
        return await self._backstage.carry_out(order, signature)

    def _known(self, name: str) -> str:
        names = self._backstage.published.names
        if name not in names:
            told = f"there is no cluster {name!r} in the policy file; it names {', '.join(names)}"
            raise OrderRefused(Refusal.NOT_FOUND, told)
        return name
