"""The controller's seat on ZooKeeper: client, election, store and watches, joined.

`app` gives it a registration and a `post`. The seat has a `ControllerStore`, and posts events: the first of each term
is `Elected` and the last is `SessionExpired`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from shunter.core.controller.events import Elected, Event, SessionExpired
from shunter.drivers.election.election import Election
from shunter.drivers.host.supervision import Supervisor
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.reader import ClusterReader, Seen
from shunter.drivers.zookeeper.store import ZooKeeperStore
from shunter.drivers.zookeeper.watches import ClusterWatches
from shunter.model.broker import Broker
from shunter.model.settings import Takeover


class ControllerSeat:
    """One controller process's access to ZooKeeper. Use it from one event loop."""

    def __init__(
        self,
        client: ZooKeeperClient,
        registration: Broker,
        post: Callable[[Event], None],
        *,
        takeover: Takeover = Takeover.VACANT,
        cool_down_seconds: float = 30.0,
        supervisor: Supervisor | None = None,
        survey: Callable[[ClusterReader], Awaitable[str | None]] | None = None,
    ) -> None:
        """Join the parts; nothing is connected yet.

        Args:
            client: Not yet started.
            registration: The registration of this process while it is the controller.
            post: Takes the events; called on the event loop.
            takeover: When `/controller` may be taken.
            cool_down_seconds: See `Election`.
            survey: See `Election`; gets a reader of registrations.
            supervisor: Watches the tasks that must not end.
        """
        self._post = post
        self.client = client
        self._supervisor = supervisor if supervisor is not None else Supervisor()
        client.supervise = self._supervisor.watch_for_errors
        seen = Seen()
        self.reader = reader = ClusterReader(client)
        self._watches = ClusterWatches(
            client, reader, seen, post, lambda: self.election.epoch_version, self._supervisor.watch_for_errors
        )
        self.store = ZooKeeperStore(client, reader, self._watches, seen, post, self._fenced)
        self.election = Election(
            client,
            registration,
            takeover=takeover,
            cool_down_seconds=cool_down_seconds,
            survey=None if survey is None else partial(survey, reader),
            on_elected=self._elected,
            on_lost=self._lost,
        )

    async def start(self) -> None:
        """Connect and stand for the controllership.

        Raises:
            DriverError: ZooKeeper can't be reached.
        """
        await self.client.start()
        self.election.start()
        for task in self.election.tasks:
            self._supervisor.watch(task)

    def give_back(self, controller_epoch: int, reason: str) -> None:
        """Give up `/controller`, because the core has resigned from this term and no longer acts as the controller."""
        self.election.give_back(controller_epoch, reason)

    @property
    def troubles(self) -> tuple[str, ...]:
        """Reasons why this process may miss changes, or can't be elected; each is a sentence."""
        told: list[str] = []
        if not self.client.connected:
            told.append("no connection to ZooKeeper")
        elif self.client.unarmed:
            told.append("ZooKeeper's watches are not armed again yet")
        told += [f"ZooKeeper refuses to let us read or watch {concern}" for concern in self._watches.refused]
        if self.election.refused and self.election.obstacle is not None:
            told.append(self.election.obstacle)
        elif self.election.unfit is not None:
            told.append(f"could not take over: {self.election.unfit}")
        return tuple(told)

    async def close(self) -> None:
        """Give the controllership back, if this process has it, and end the session."""
        await self.election.resign()
        self._watches.stop()
        await self.client.close()

    def _elected(self, elected: Elected) -> None:
        self.store.begin(elected)
        self._post(elected)

    def _fenced(self) -> None:
        self.election.fenced()

    def _lost(self, lost: SessionExpired) -> None:
        self.store.end()
        self._watches.stop()
        self._post(lost)
