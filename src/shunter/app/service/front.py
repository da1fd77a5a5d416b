"""The service's front: what page, API and command line read of it and ask of it. Nothing else of the service is theirs.

All calls belong on the service's event loop. Reading is cheap: views are made when something changes, not when somebody
asks; proposals and history are read from the store. For server-sent events wait for `news` and read what it names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from shunter.app.service.published import News, Published
from shunter.model.service import OrderDone, OrderRefused, Refusal, ServiceOrder, Signature
from shunter.views.execution import OPEN_STATES
from shunter.views.service import FleetView, KeptClusterView, KeptProposalView, MovesView, TimelineView


class Backstage(Protocol):
    """What stands behind the front: the service itself."""

    @property
    def published(self) -> Published:
        """The latest views."""
        ...

    def fleet(self) -> FleetView:
        """All clusters."""
        ...

    async def proposals(self, cluster: str, *, ended: bool) -> tuple[KeptProposalView, ...]:
        """Proposals of a cluster, the latest first."""
        ...

    async def timeline(self, cluster: str, since_ms: int, until_ms: int | None, most: int) -> TimelineView:
        """What happened in a cluster; "": in all."""
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
            OrderRefused: there is no such cluster, or no open move of ours of one of these partitions.
        """
        rows = {
            row.partition: row for row in self.moves(name).moves if row.whose == "ours" and row.state in OPEN_STATES
        }
        unknown = sorted(set(partitions) - rows.keys())
        if unknown:
            raise OrderRefused(Refusal.NOT_FOUND, f"no open move of ours in {name}: {', '.join(unknown)}")
        return sum(row.rollback_bytes or 0 for row in rows.values() if not partitions or row.partition in partitions)

    async def proposals(self, name: str, *, ended: bool = False) -> tuple[KeptProposalView, ...]:
        """Proposals of a cluster, the latest first; `ended`: those that are over, too.

        Raises:
            OrderRefused: there is no cluster of this name, or the store can't be read.
        """
        return await self._backstage.proposals(self._known(name), ended=ended)

    async def timeline(
        self, name: str = "", since_ms: int = 0, until_ms: int | None = None, most: int = 500
    ) -> TimelineView:
        """What happened in a cluster ("": in the fleet) in [since_ms, until_ms), the latest `most` events.

        Raises:
            OrderRefused: there is no cluster of this name, or the store can't be read.
        """
        return await self._backstage.timeline(name and self._known(name), since_ms, until_ms, most)

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
        if not signature.who:
            raise OrderRefused(Refusal.INVALID, f"{order.kind.value}: who asks for it? An order has a name to it")
        return await self._backstage.carry_out(order, signature)

    def _known(self, name: str) -> str:
        names = self._backstage.published.names
        if name not in names:
            told = f"there is no cluster {name!r} in the policy file; it names {', '.join(names)}"
            raise OrderRefused(Refusal.NOT_FOUND, told)
        return name
