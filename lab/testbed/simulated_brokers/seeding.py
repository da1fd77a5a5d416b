"""Topics of a cluster in ZooKeeper mode, written into ZooKeeper without a controller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from lab.testbed.simulated_brokers.yard import SimulatedYard
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.requests import Create, Operation
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import encode_controller_epoch
from shunter.formats.znodes.configs import encode_config
from shunter.formats.znodes.topics import encode_state, encode_topic
from shunter.model.partition import BrokerId, LeaderAndIsr, ReplicaAssignment, Replicas
from shunter.model.topic import Topic

OPERATIONS_AT_ONCE = 1_500
ID_BASE = 0x5348554E544552 << 64
"""Topic number N has the id ID_BASE + N + 1."""


def spread_replicas(number: int, brokers: tuple[BrokerId, ...], replication_factor: int) -> Replicas:
    """Place a partition by its number in the cluster: leaders round-robin, followers at a changing distance."""
    count = len(brokers)
    shifts = [0, *(1 + (number // count + follower) % (count - 1) for follower in range(replication_factor - 1))]
    return tuple(brokers[(number + shift) % count] for shift in shifts)


async def seed_topics(
    client: ZooKeeperClient,
    brokers: tuple[BrokerId, ...],
    *,
    topics: int,
    partitions_each: int,
    replication_factor: int = 3,
) -> int:
    """Write topics with all replicas in sync, as by a controller of epoch 1; returns the number of partitions."""
    if await client.exists(znodes.CONTROLLER_EPOCH) is None:
        await client.create_if_absent(znodes.CONTROLLER_EPOCH, encode_controller_epoch(1))
    waiting: list[Operation] = []
    for index in range(topics):
        assignments = {
            number: ReplicaAssignment(spread_replicas(index * partitions_each + number, brokers, replication_factor))
            for number in range(partitions_each)
        }
        topic = Topic(f"topic-{index:06}", UUID(int=ID_BASE + index + 1), assignments)
        waiting += _topic_operations(topic)
        if len(waiting) >= OPERATIONS_AT_ONCE:
            await client.multi(waiting)
            waiting = []
    if waiting:
        await client.multi(waiting)
    return topics * partitions_each


@asynccontextmanager
async def seeded_yard(
    zookeeper_connect: str, brokers: tuple[BrokerId, ...], *, topics: int, partitions_each: int
) -> AsyncIterator[SimulatedYard]:
    """Simulated brokers that are up, with topics of three replicas; at the end brokers and session are closed."""
    client = ZooKeeperClient(zookeeper_connect)
    await client.start()
    await seed_topics(client, brokers, topics=topics, partitions_each=partitions_each)
    await client.close()
    yard = SimulatedYard(zookeeper_connect, brokers)
    await yard.start()
    try:
        yield yard
    finally:
        await yard.close()


def _topic_operations(topic: Topic) -> list[Operation]:
    operations: list[Operation] = [
        Create(znodes.config("topics", topic.name), encode_config({})),
        Create(znodes.topic(topic.name), encode_topic(topic)),
        Create(znodes.partitions(topic.name), None),
    ]
    for number, assignment in topic.assignments.items():
        state = LeaderAndIsr(assignment.replicas[0], 0, assignment.replicas, controller_epoch=1)
        folder = f"{znodes.partitions(topic.name)}/{number}"
        operations += (Create(folder, None), Create(f"{folder}/state", encode_state(state)))
    return operations
