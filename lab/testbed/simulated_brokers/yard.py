"""All simulated brokers of a cluster, their registrations, and a comparison of their knowledge with the truth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lab.testbed.simulated_brokers.broker import Ears, Heard, PretendedBroker, Tally
from lab.testbed.simulated_brokers.controller_link import ControllerLink
from lab.testbed.simulated_brokers.knowledge import UNKNOWN, Catalogue, Content, KnownState, Numbers, Update
from lab.testbed.simulated_brokers.leadership import Leaders
from lab.testbed.simulated_brokers.messages import (
    ALTER_REASSIGNMENTS,
    PartitionTold,
    alter_reassignments_body,
    read_alter_reassignments,
)
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.reader import ClusterReader
from shunter.drivers.zookeeper.requests import Create, Remove, ZooKeeperRefused
from shunter.errors import DriverError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import encode_broker
from shunter.model.partition import BrokerId, Replicas, TopicPartition

SESSION_TIMEOUT_MS = 30_000
LOOK_SECONDS = 0.02
READ_AFTER_SECONDS = 0.4
"""Metadata is decoded when no broker has got a request for this time."""
REASSIGNMENT_TIMEOUT_MS = 600_000


class Expectation:
    """The condition that a phase waits for: brokers get certain states of certain partitions.

    Args:
        brokers: the brokers that have to get them.
        wanted: a mask over the positions of partitions.
        accept: whether a state of a partition (by position) is an expected one.
    """

    def __init__(
        self, brokers: Iterable[BrokerId], wanted: NDArray[np.bool_], accept: Callable[[int, KnownState], bool]
    ) -> None:
        self.done_at: dict[BrokerId, float] = {}
        self._accept = accept
        self._open = {broker: wanted.copy() for broker in brokers}
        self._satisfied: dict[int, tuple[Update, Numbers]] = {}

    @property
    def met(self) -> bool:
        """Whether every broker has got all expected states."""
        return not self._open

    @property
    def missing(self) -> int:
        """How many (broker, partition) pairs are missing."""
        return sum(int(wanted.sum()) for wanted in self._open.values())

    @property
    def last_s(self) -> float:
        """When the last broker had got everything, on the monotonic clock."""
        return max(self.done_at.values(), default=0.0)

    def hear(self, heard: Heard, update: Update, states: list[KnownState]) -> None:
        """Note an update that a broker accepted."""
        wanted = self._open.get(heard.broker)
        if wanted is None:
            return
        wanted[self._positions(update, states)] = False
        if not wanted.any():
            del self._open[heard.broker]
            self.done_at[heard.broker] = heard.at_s

    def _positions(self, update: Update, states: list[KnownState]) -> Numbers:
        found = self._satisfied.get(id(update))
        if found is None:
            accepted = [
                place
                for place, number in zip(update.positions.tolist(), update.states.tolist(), strict=True)
                if self._accept(place, states[number])
            ]
            # The update is held here, so its id stays valid.
            found = self._satisfied[id(update)] = (update, np.array(accepted, dtype=np.int32))
        return found[1]


class Difference(NamedTuple):
    """A partition for which a broker's knowledge differs from the truth."""

    broker: BrokerId
    tp: TopicPartition
    known: KnownState | None
    truth: KnownState | None


class ClusterLook(NamedTuple):
    """The cluster by ZooKeeper: the knowledge that brokers should have, and the positions of partitions that move."""

    truth: Numbers
    moving: frozenset[int]


class SimulatedYard:
    """Brokers `ids`, on one event loop, registered through one ZooKeeper session (each with an ephemeral znode)."""

    def __init__(self, zookeeper_connect: str, ids: Iterable[BrokerId]) -> None:
        self.client = ZooKeeperClient(zookeeper_connect, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.reader = ClusterReader(self.client)
        self.catalogue = Catalogue()
        self.tally = Tally()
        self.ids = tuple(ids)
        self.known: dict[BrokerId, Numbers] = {}
        self.live: dict[BrokerId, frozenset[BrokerId]] = {}
        self.hosted: dict[BrokerId, set[TopicPartition]] = {broker: set() for broker in self.ids}
        self.expectation: Expectation | None = None
        self.leaders_wanted: set[TopicPartition] = set()
        """Partitions whose new leader has not got its LeaderAndIsr yet."""
        self.leaders_told_s = 0.0
        self.dead: frozenset[BrokerId] = frozenset()
        ears = Ears(self._hear_metadata, self._hear_leadership, self._hear_stopped)
        self.brokers = {broker: PretendedBroker(broker, ears, self.tally) for broker in self.ids}
        self.leaders: Leaders | None = None
        self._pending: list[tuple[Heard, Content]] = []

    async def start(self) -> None:
        """Read the topics and register all brokers."""
        await self.client.start()
        found = await self.reader.cluster()
        self.catalogue.add(
            TopicPartition(topic.topic.name, number)
            for topic in found.snapshot.topics
            for number in sorted(topic.topic.assignments)
        )
        topic_ids = {topic.topic.name: topic.topic.topic_id for topic in found.snapshot.topics}
        named = {name: topic_id for name, topic_id in topic_ids.items() if topic_id is not None}
        self.leaders = Leaders(self.client, named, self.brokers.get)
        for broker in self.ids:
            await self.revive(broker)

    async def close(self) -> None:
        """End all brokers and the session."""
        if self.leaders is not None:
            await self.leaders.close()
        for broker in self.brokers.values():
            broker.cut()
        await self.client.close()

    async def revive(self, broker_id: BrokerId) -> None:
        """Let a broker listen and register, with a new epoch and no knowledge."""
        broker = self.brokers[broker_id]
        await broker.listen()
        path = f"{znodes.BROKER_IDS}/{broker_id}"
        data = encode_broker(broker.registration, timestamp_ms=int(time.time() * 1000))
        committed = await self.client.multi((Create(path, data, ephemeral=True),))
        self.known[broker_id] = self.catalogue.nothing()
        self.live[broker_id] = frozenset()
        broker.epoch, broker.controller_epoch, broker.alive = committed.zxid, 0, True
        if self.leaders is not None:
            self.leaders.take_up()  # The controller may have answered the registration before this coroutine went on.

    async def kill(self, broker_id: BrokerId) -> None:
        """Kill a broker: cut its connections and remove its registration at once."""
        self.brokers[broker_id].cut()
        if self.leaders is not None:
            self.leaders.forget(broker_id)
        await self.client.multi((Remove(f"{znodes.BROKER_IDS}/{broker_id}"),))

    def living(self) -> tuple[BrokerId, ...]:
        """Live brokers, in the order of `ids`."""
        return tuple(broker.id for broker in self.brokers.values() if broker.alive)

    async def depose(self) -> float:
        """Delete `/controller`; returns the moment, on the monotonic clock."""
        at_s = time.monotonic()
        try:
            await self.client.multi((Remove(znodes.CONTROLLER),))
        except ZooKeeperRefused as refusal:
            raise DriverError("there is no controller to depose", retriable=True) from refusal
        return at_s

    async def submit(self, targets: dict[TopicPartition, Replicas | None]) -> tuple[int, dict[int, int]]:
        """Ask the controller to move partitions (None: to cancel their moves); returns (error, partitions by error)."""
        link = ControllerLink(self.client, "tool")
        try:
            body = alter_reassignments_body(targets, REASSIGNMENT_TIMEOUT_MS)
            return read_alter_reassignments(await link.ask(ALTER_REASSIGNMENTS, 0, body))
        finally:
            link.close()

    # ---- accepted control requests

    def _hear_metadata(self, broker: PretendedBroker, heard: Heard, version: int, body: memoryview) -> None:
        del broker
        self._pending.append((heard, self.catalogue.keep(version, body)))

    def _hear_leadership(self, broker: PretendedBroker, heard: Heard, told: list[PartitionTold]) -> None:
        hosted = self.hosted[broker.id]
        hosted.update(partition.tp for partition in told)
        if self.leaders_wanted:
            for partition in told:
                if partition.leader == broker.id and partition.tp in self.leaders_wanted:
                    self.leaders_wanted.discard(partition.tp)
                    self.leaders_told_s = heard.at_s
        if self.leaders is not None:
            self.leaders.hear(broker, told)

    def _hear_stopped(self, broker: PretendedBroker, stopped: list[tuple[TopicPartition, bool]]) -> None:
        self.hosted[broker.id].difference_update(tp for tp, delete in stopped if delete)

    def read_metadata(self) -> None:
        """Decode the metadata that brokers have got. That is done later, but the times are those of arrival."""
        pending, self._pending = self._pending, []
        for heard, content in pending:
            update = self.catalogue.update(content)
            self.known[heard.broker] = self.catalogue.after(self.known[heard.broker], update)
            self.live[heard.broker] = update.live
            if self.expectation is not None:
                self.expectation.hear(heard, update, self.catalogue.states)

    async def quiet(self, settle_s: float, bound_s: float) -> bool:
        """Wait until no broker has got a request for `settle_s`; returns whether that was so within the bound."""
        began = time.monotonic()
        while time.monotonic() - max(began, self.tally.last_s) < settle_s:
            if time.monotonic() - began > bound_s:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        self.read_metadata()
        return True

    async def until_met(self, bound_s: float) -> bool:
        """Wait until the expectation is met and the new leaders know; returns whether that was so within the bound."""
        began = time.monotonic()
        while time.monotonic() - began < bound_s:
            # Decoding blocks the event loop, and with it the leaders, so it waits until there is no traffic.
            if time.monotonic() - self.tally.last_s > READ_AFTER_SECONDS:
                self.read_metadata()
            if not self.leaders_wanted and (self.expectation is None or self.expectation.met):
                return True
            await asyncio.sleep(LOOK_SECONDS)
        self.read_metadata()
        return not self.leaders_wanted and (self.expectation is None or self.expectation.met)

    # ---- truth

    async def look(self) -> ClusterLook:
        """Read the cluster's present state from ZooKeeper."""
        found = await self.reader.cluster()
        states: dict[TopicPartition, KnownState] = {}
        moving: set[int] = set()
        for each in found.snapshot.topics:
            for number, assignment in each.topic.assignments.items():
                tp = TopicPartition(each.topic.name, number)
                if assignment.in_motion or tp in found.snapshot.reassignments:
                    moving.add(self.catalogue.places[tp])
                state = each.states.get(number)
                if state is not None:
                    states[tp] = KnownState(
                        state.leader, state.leader_epoch, state.isr, state.partition_epoch, assignment.replicas
                    )
        return ClusterLook(self.catalogue.truth(states), frozenset(moving))

    async def differences(self, limit: int = 10) -> list[Difference]:
        """Partitions for which a live broker's knowledge differs from ZooKeeper; at most `limit`."""
        self.read_metadata()
        truth = (await self.look()).truth
        names = list(self.catalogue.places)
        found: list[Difference] = []
        for broker in self.living():
            known = self.known[broker]
            for place in np.flatnonzero(known != truth).tolist():
                found.append(Difference(broker, names[place], self._state(known[place]), self._state(truth[place])))
                if len(found) >= limit:
                    return found
        return found

    def _state(self, number: int) -> KnownState | None:
        return None if number == UNKNOWN else self.catalogue.states[number]
