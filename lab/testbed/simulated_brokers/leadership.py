"""The leaders' side of ISR changes.

A follower has caught up once it and its leader have got the same leader epoch. Then the leader asks the controller,
with AlterPartition, to take the follower into the ISR. As in a real broker, each leader has one such request in
flight, and later proposals wait and are sent together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from lab.testbed.simulated_brokers.broker import PretendedBroker
from lab.testbed.simulated_brokers.controller_link import ControllerLink
from lab.testbed.simulated_brokers.messages import (
    ALTER_PARTITION,
    ALTER_PARTITION_VERSION,
    IsrWish,
    PartitionTold,
    alter_partition_body,
    read_alter_partition,
)
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.errors import DriverError, ErrorCode
from shunter.model.partition import BrokerId, Replicas, TopicPartition

_LOG = logging.getLogger(__name__)
RETRY_SECONDS = 0.1
ENLIGHTENED_BY_OTHERS = frozenset(
    error.value
    for error in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    )
)
"""Errors after which a leader does not ask again until a new LeaderAndIsr arrives (Apache 3.9, `Partition`)."""


@dataclass(slots=True)
class Led:
    """A partition as its leader knows it, and the leader epoch with which each follower has caught up."""

    leader: BrokerId = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: Replicas = ()
    replicas: Replicas = ()
    caught_up: dict[BrokerId, int] = field(default_factory=dict)
    asked: bool = False


class Leaders:
    """All leaders of all simulated brokers.

    Args:
        client: reads ZooKeeper, to find the controller.
        topic_ids: ids by topic name.
        find: returns a broker by its id.
    """

    def __init__(
        self,
        client: ZooKeeperClient,
        topic_ids: Mapping[str, UUID],
        find: Callable[[BrokerId], PretendedBroker | None],
    ) -> None:
        self.catch_up = True
        """Whether followers catch up. After it is set back to True, `take_up` asks for those that waited."""
        self.errors: dict[int, int] = {}
        self._client = client
        self._topic_ids = topic_ids
        self._names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._find = find
        self._led: dict[TopicPartition, Led] = {}
        self._waiting: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}
        self._wakes: dict[BrokerId, asyncio.Event] = {}

    def hear(self, broker: PretendedBroker, told: Iterable[PartitionTold]) -> None:
        """Take the content of a LeaderAndIsr that a broker has accepted."""
        for tp, leader, leader_epoch, isr, partition_epoch, replicas in told:
            led = self._led.get(tp)
            if led is None:
                if len(isr) == len(replicas):
                    continue  # All replicas are in sync. If one leaves the ISR, another request follows.
                led = self._led[tp] = Led()
            if leader == broker.id:
                if leader_epoch < led.leader_epoch:
                    continue
                led.asked = led.asked and leader == led.leader
                led.leader, led.leader_epoch, led.partition_epoch = leader, leader_epoch, partition_epoch
                led.isr, led.replicas = isr, replicas
            elif leader >= 0 and broker.id not in isr:
                led.caught_up[broker.id] = leader_epoch
            self._maybe_ask(tp, led)

    def forget(self, broker: BrokerId) -> None:
        """Forget the progress of a broker that died: after its return it has to catch up again."""
        for led in self._led.values():
            led.caught_up.pop(broker, None)
        for tp in self._waiting.pop(broker, {}):
            self._led[tp].asked = False

    def take_up(self) -> None:
        """Ask for all followers that caught up while `catch_up` was False."""
        for tp, led in self._led.items():
            self._maybe_ask(tp, led)

    async def close(self) -> None:
        """End all leaders' work."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _joining(self, led: Led) -> Replicas:
        return tuple(
            broker
            for broker, epoch in led.caught_up.items()
            if epoch >= led.leader_epoch and broker in led.replicas and broker not in led.isr and self._lives(broker)
        )

    def _lives(self, broker: BrokerId) -> bool:
        found = self._find(broker)
        return found is not None and found.alive

    def _maybe_ask(self, tp: TopicPartition, led: Led) -> None:
        if not self.catch_up or led.asked or not self._lives(led.leader) or not self._joining(led):
            return
        led.asked = True
        self._waiting.setdefault(led.leader, {})[tp] = None
        if led.leader not in self._tasks:
            self._wakes[led.leader] = asyncio.Event()
            self._tasks[led.leader] = asyncio.create_task(self._work(led.leader), name=f"leader-{led.leader}")
        self._wakes[led.leader].set()

    async def _work(self, leader: BrokerId) -> None:
        link = ControllerLink(self._client, f"broker-{leader}")
        try:
            while True:
                await self._wakes[leader].wait()
                self._wakes[leader].clear()
                await self._ask_for(leader, link)
        finally:
            link.close()

    async def _ask_for(self, leader: BrokerId, link: ControllerLink) -> None:
        wishes: dict[tuple[UUID, int], tuple[TopicPartition, IsrWish]] = {}
        for tp in self._waiting.pop(leader, {}):
            led = self._led[tp]
            led.asked = False
            joining = self._joining(led)
            if led.leader == leader and joining:
                isr = tuple((member, self._epoch(member)) for member in (*led.isr, *joining))
                topic_id = self._topic_ids[tp.topic]
                wish = IsrWish(topic_id, tp.partition, led.leader_epoch, isr, led.partition_epoch)
                wishes[topic_id, tp.partition] = (tp, wish)
        if not wishes or not self._lives(leader):
            return
        body = alter_partition_body(leader, self._epoch(leader), [wish for _, wish in wishes.values()])
        try:
            error, answers = read_alter_partition(await link.ask(ALTER_PARTITION, ALTER_PARTITION_VERSION, body))
        except (OSError, EOFError, DriverError) as lost:
            _LOG.info("broker %d: AlterPartition failed: %s", leader, lost)
            await self._again([tp for tp, _ in wishes.values()])
            return
        if error:
            self.errors[error] = self.errors.get(error, 0) + 1
            await self._again([tp for tp, _ in wishes.values()])
            return
        later: list[TopicPartition] = []
        for answer in answers:
            tp = TopicPartition(self._names[answer.topic_id], answer.partition)
            led = self._led[tp]
            if answer.error:
                self.errors[answer.error] = self.errors.get(answer.error, 0) + 1
                if answer.error not in ENLIGHTENED_BY_OTHERS:
                    later.append(tp)
                continue
            if led.leader == leader and answer.leader_epoch == led.leader_epoch:
                led.partition_epoch, led.isr = answer.partition_epoch, answer.isr
            self._maybe_ask(tp, led)
        if later:
            await self._again(later)

    async def _again(self, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(RETRY_SECONDS)
        for tp in partitions:
            self._maybe_ask(tp, self._led[tp])

    def _epoch(self, broker: BrokerId) -> int:
        found = self._find(broker)
        return -1 if found is None else found.epoch
