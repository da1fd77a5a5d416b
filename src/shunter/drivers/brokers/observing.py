"""Drivers for `shunter controller --observe` that carry nothing out: writes and requests to brokers count as done.

`ReadOnlyZooKeeper` raises an error for each request that does not only read, before the request reaches the connection.
No code in this module can open a connection to a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shunter.core.controller.events import (
    BatchWritten,
    ClusterLoaded,
    Event,
    PartitionsRead,
)
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.ready import ConnectBrokers, LoadCluster, Read, Request, SendUpdateMetadata, WriteBatch
from shunter.core.observation import Observation
from shunter.core.observed_requests import answer_of
from shunter.drivers.zookeeper import requests as wire
from shunter.drivers.zookeeper.access import PLAIN_ZOOKEEPER_ACCESS, ZooKeeperAccess
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.reader import ClusterReader, Seen
from shunter.drivers.zookeeper.requests import ZooKeeperRequest
from shunter.drivers.zookeeper.watches import ClusterWatches
from shunter.errors import DriverError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import (
    ControllerRegistration,
    decode_controller,
    decode_controller_epoch,
    decode_process,
)
from shunter.model.partition import BrokerId, LeaderAndIsr, TopicPartition


class ReadOnlyZooKeeper(ZooKeeperClient):
    """A session that can't write. `reads` counts the requests that were sent, `refused` those that were not."""

    def __init__(
        self, connect_string: str, *, session_timeout_ms: int = 18_000, access: ZooKeeperAccess = PLAIN_ZOOKEEPER_ACCESS
    ) -> None:
        super().__init__(connect_string, session_timeout_ms=session_timeout_ms, access=access, furnish=False)
        self.reads = 0
        self.refused = 0

    async def _ask(self, request: ZooKeeperRequest) -> Any:
        if request.type not in wire.READING:
            self.refused += 1
            raise DriverError(
                f"an observer writes nothing: a request of type {request.type} is not sent", retriable=False
            )
        self.reads += 1
        return await super()._ask(request)


class Leading(NamedTuple):
    """The controller that leads the cluster. `shunter`: whether it is Shunter's."""

    broker: BrokerId
    epoch: int
    shunter: bool


class UnwrittenStore:
    """Implements `drivers.seams.ControllerStore`: reads, and takes every batch as written."""

    def __init__(
        self, client: ReadOnlyZooKeeper, machine: ControllerMachine, observation: Observation, post: Callable[..., None]
    ) -> None:
        """Join the parts that read.

        Args:
            client: a started client.
            machine: the machine that decides the batches; its tasks know their causes.
            observation: gets all events and all batches.
            post: hands an event with its cause to the machine.
        """
        self._client = client
        self._machine = machine
        self._observation = observation
        self._post = post
        self._seen = Seen()
        self._reader = ClusterReader(client)
        self._watches = ClusterWatches(client, self._reader, self._seen, self._hear, lambda: None)
        self.kraft = ""
        """Why KRaft keeps this cluster from being compared, by the last `leading`; empty: it does not."""

    def _hear(self, event: Event) -> None:
        for told, cause in self._observation.hear(event):
            self._post(told, cause)

    async def write(self, batch: WriteBatch) -> BatchWritten:
        """Note a batch that would be written, and return the outcome of a successful write."""
        outstanding = self._machine.outstanding
        causes = dict.fromkeys(task.cause for task in outstanding.tasks if task.cause) if outstanding else {}
        self._observation.decided(batch.records, "; ".join(causes))
        version = self._observation.next_version()
        return BatchWritten(batch.batch_id, (version,) * len(batch.records), (version,) * len(batch.records))

    async def read(self, read: Read) -> None:
        """Carry out a read and post its answer."""
        if not isinstance(read, LoadCluster):
            self._post(PartitionsRead(await self._reader.states(read.partitions)), "states were read again")
            return
        await self._watches.arm()
        found = await self._reader.cluster()
        self._seen.topics = dict(found.written)
        self._seen.legacy, self._seen.extra = found.legacy_written, found.extra_written
        self._hear(ClusterLoaded(found.snapshot))
        unreadable = (path for path, _ in found.snapshot.unreadable)
        self._watches.release(found.zxid, found.snapshot.deleting_topics, unreadable)

    async def states(self) -> Mapping[TopicPartition, LeaderAndIsr]:
        """Read the states of all partitions that ZooKeeper shows."""
        topics = self._observation.topics
        return await self._reader.states(
            TopicPartition(name, number) for name, topic in topics.items() for number in topic.assignments
        )

    async def leading(self) -> Leading | None:
        """Which controller leads now; None if there is none, or if the cluster migrates to KRaft.

        Raises:
            FormatError: a znode can't be read.
        """
        (held, epoch, migration), _ = await self._client.get_many(
            (znodes.CONTROLLER, znodes.CONTROLLER_EPOCH, znodes.MIGRATION)
        )
        found = None if held is None else decode_controller(held.data)
        self.kraft = _told_kraft(found, migrates=migration is not None)
        if held is None or found is None or epoch is None or self.kraft:
            return None
        ours = decode_process(held.data, znodes.CONTROLLER) is not None
        return Leading(found.broker, decode_controller_epoch(epoch.data), ours)

    def stop(self) -> None:
        """Stop watching."""
        self._watches.stop()


def _told_kraft(held: ControllerRegistration | None, *, migrates: bool) -> str:
    under_way = f"a migration to KRaft is under way, because {znodes.MIGRATION} is there"
    if held is not None and held.kraft_epoch >= 0:
        told = f"KRaft controller {held.broker} holds {znodes.CONTROLLER}"
        return f"{told}, and {under_way}" if migrates else told
    return under_way if migrates else ""


class UnsentRequests:
    """Implements `drivers.seams.BrokerChannels` without a connection: every request is answered without an error."""

    def __init__(self, machine: ControllerMachine, post: Callable[..., None]) -> None:
        """Prepare; `machine` knows the cause of its last requests."""
        self._machine = machine
        self._post = post
        self.count = 0

    def send(self, request: Request) -> None:
        """Post an answer at once, for each broker that the request is for."""
        if isinstance(request, ConnectBrokers):
            return
        brokers = request.brokers if isinstance(request, SendUpdateMetadata) else (request.broker,)
        for broker in brokers:
            self.count += 1
            self._post(answer_of(self._machine.state, request, broker), self._machine.intake.queue.cause)
