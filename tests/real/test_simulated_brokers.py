"""Simulated brokers under a real controller: in the end they agree with ZooKeeper, under every controller."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION, ensure_kafka
from lab.testbed.controller import ShunterController
from lab.testbed.kafka import KafkaBroker
from lab.testbed.server import Server
from lab.testbed.simulated_brokers.phases import Phases
from lab.testbed.simulated_brokers.seeding import seeded_yard
from lab.testbed.simulated_brokers.yard import SimulatedYard
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.formats.znodes import paths as znodes
from shunter.model.partition import TopicPartition

BROKERS = tuple(range(1, 9))
TOPICS, EACH = 40, 5
BOUND_S = 60.0


@asynccontextmanager
async def yard_of(connect: str) -> AsyncIterator[SimulatedYard]:
    async with seeded_yard(connect, BROKERS, topics=TOPICS, partitions_each=EACH) as yard:
        assert len(yard.catalogue.places) == TOPICS * EACH
        yield yard


@pytest.fixture(params=["shunter", pytest.param("apache", marks=pytest.mark.long)])
def controller(request: pytest.FixtureRequest, work_dir: Path, zookeeper: ZooKeeperServer, chroot: str) -> Server:
    connect = zookeeper.connect_string + chroot
    if request.param == "shunter":
        return ShunterController(work_dir / "shunter", connect)
    ensure_kafka(ZOOKEEPER_MODE_VERSION)
    properties = {"auto.leader.rebalance.enable": "false", "offsets.topic.replication.factor": 1}
    return KafkaBroker(1000, connect, work_dir / "apache", heap_mib=256, properties=properties)


async def test_every_broker_ends_with_the_truth(controller: Server, zookeeper: ZooKeeperServer, chroot: str) -> None:
    async with yard_of(zookeeper.connect_string + chroot) as yard:
        controller.launch()  # Without a wait: the brokers live in this loop, and a controller asks one first.
        try:
            phases = Phases(yard, controller.process.pid or 0, bound_s=BOUND_S)
            seen = [
                await phases.start_up(),
                await phases.failover(),
                await phases.kill(),
                await phases.revive(),
                await phases.reassign(60),
                await phases.kill_amid(60, after_s=0.05),
                await phases.revive(),
                await phases.cancel(50),
            ]
            assert [figures.phase for figures in seen if not figures.complete] == []
            assert [(figures.phase, figures.differences) for figures in seen if figures.differences] == []
            assert all(figures.all_requests > 0 for figures in seen)
            killed = seen[2]
            assert 0 < killed.leaders_s <= killed.ends_s
            assert seen[-1].codes.keys() <= {0, 85}
            assert yard.catalogue.unknown_partitions == 0
            strays = await check_hosted(yard)
            if isinstance(controller, ShunterController):
                assert strays == set(), "what was dropped while its broker was dead is deleted when it returns"
        finally:
            controller.stop()


async def check_hosted(yard: SimulatedYard) -> set[tuple[int, TopicPartition]]:
    """Check that every broker hosts the replicas that topics assign to it; gives the further replicas that it hosts."""
    found = await yard.reader.cluster()
    strays: set[tuple[int, TopicPartition]] = set()
    for broker in yard.living():
        mine = {
            TopicPartition(topic.topic.name, number)
            for topic in found.snapshot.topics
            for number, assignment in topic.topic.assignments.items()
            if broker in assignment.replicas
        }
        assert mine <= yard.hosted[broker], f"broker {broker} was not told of replicas of its own"
        strays.update((broker, tp) for tp in yard.hosted[broker] - mine)
    return strays


async def test_a_broker_refuses_older_epochs_and_takes_newer_ones(
    work_dir: Path, zookeeper: ZooKeeperServer, chroot: str
) -> None:
    connect = zookeeper.connect_string + chroot
    async with yard_of(connect) as yard:
        first = yard.brokers[3].epoch
        await yard.kill(3)
        await yard.revive(3)
        assert yard.brokers[3].epoch > first
        controller = ShunterController(work_dir, connect)
        with contextlib.ExitStack() as stack:
            stack.callback(controller.stop)
            controller.launch()  # As above.
            phases = Phases(yard, controller.process.pid or 0, bound_s=BOUND_S)
            started = await phases.start_up()
            assert started.complete
            assert started.refusals == {}
            (registered,) = (await yard.client.get_many((f"{znodes.BROKER_IDS}/3",)))[0]
            assert registered is not None
            assert registered.czxid == yard.brokers[3].epoch
