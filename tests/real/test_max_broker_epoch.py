"""The KIP on the max broker epoch, on running brokers: one epoch for all fences decisions from before a restart.

"In order for this to work, ZK and the controller must work together to ensure Message 5 carries the info e0 → e1 → e2."
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from test_simulated_brokers import BOUND_S, yard_of

from lab.testbed import tools
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.simulated_brokers.phases import Phases
from lab.testbed.simulated_brokers.yard import SimulatedYard
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.drivers.brokers.connection import BrokerConnection
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.reader import ClusterReader
from shunter.errors import ErrorCode
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import decode_controller_epoch
from shunter.model.broker import Broker, Endpoint
from shunter.wire.answers import decode_control_response
from shunter.wire.control import (
    leader_and_isr_body,
    live_brokers_fragment,
    stop_replica_body,
    update_metadata_parts,
)
from shunter.wire.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

CONTROLLER_ID = 1000


def two_passes(folder: Path, connect: str, *options: str) -> tuple[ShunterController, Path]:
    """A controller in the first pass of the upgrade, and its settings file."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "controller.toml"
    settings.write_text('control_request_epoch = "per-broker"\n')
    return ShunterController(folder / "shunter", connect, options=("--config", str(settings), *options)), settings


def switch(controller: ShunterController, settings: Path, word: str) -> None:
    """Write another pass into the file, and let the running controller read it."""
    settings.write_text(f'control_request_epoch = "{word}"\n')
    pid = controller.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGHUP)
    wait_until(
        lambda: f"settings read again: control_request_epoch is {word}" in controller.log_tail(400),
        what=f"the controller decides by {word}",
        timeout_s=BOUND_S,
    )
    assert controller.process.pid == pid


async def heard(yard: SimulatedYard, phases: Phases) -> dict[int, int]:
    """Make the controller send every broker a request; the BrokerEpoch that each broker got in it."""
    moved = await phases.reassign(10)
    assert moved.complete
    assert moved.refusals == {}
    assert moved.differences == 0
    return {broker: yard.brokers[broker].epoch_heard for broker in yard.living()}


async def test_the_passes_are_switched_at_run_time(work_dir: Path, zookeeper: ZooKeeperServer, chroot: str) -> None:
    connect = zookeeper.connect_string + chroot
    async with yard_of(connect) as yard:
        controller, settings = two_passes(work_dir, connect)
        with contextlib.ExitStack() as stack:
            stack.callback(controller.stop)
            controller.launch()  # Without a wait: the brokers live in this loop, and a controller asks one first.
            phases = Phases(yard, controller.process.pid or 0, bound_s=BOUND_S)
            assert (await phases.start_up()).complete
            own = {broker: yard.brokers[broker].epoch for broker in yard.living()}
            assert await heard(yard, phases) == own
            greatest = max(own.values())
            switch(controller, settings, "max")
            assert set((await heard(yard, phases)).values()) == {greatest}
            switch(controller, settings, "per-broker")
            assert await heard(yard, phases) == own


class RealCluster(NamedTuple):
    """Two brokers of Kafka 3.9 under a controller in the first pass."""

    cluster: ZooKeeperCluster
    controller: ShunterController
    settings: Path


@pytest.fixture(scope="module")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("max-epoch")
    controllers: list[tuple[ShunterController, Path]] = []

    def lead(cluster: ZooKeeperCluster, stack: ExitStack) -> None:
        controllers.append(two_passes(folder, cluster.zookeeper_connect))
        stack.enter_context(controllers[0][0])

    with ZooKeeperCluster(folder, broker_ids=(1, 2), before_brokers=lead) as cluster:
        yield RealCluster(cluster, *controllers[0])


def create_topic(real: RealCluster, name: str) -> None:
    """Make a topic with Apache's own tool, and wait until both brokers describe it with a leader."""
    done = real.cluster.kafka_tool(
        tools.TOPICS, "--bootstrap-server", real.cluster.bootstrap, "--create", "--topic", name,
        "--replica-assignment", "1:2,2:1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for broker in real.cluster.brokers.values():

        def described(address: str = broker.bootstrap) -> bool:
            told = real.cluster.kafka_tool(
                tools.TOPICS, "--bootstrap-server", address, "--describe", "--topic", name
            ).stdout
            return told.count("Leader: 1") + told.count("Leader: 2") == 2

        wait_until(described, what=f"{broker.name} describes {name}", timeout_s=BOUND_S, interval_s=0.5)


class Moment(NamedTuple):
    """A controller's knowledge when it decides: all brokers by one consistent read, and its own epoch."""

    brokers: tuple[Broker, ...]
    controller_epoch: int

    @property
    def greatest(self) -> int:
        return max(broker.epoch for broker in self.brokers)


async def read_moment(connect: str, controller: ShunterController) -> Moment:
    client = ZooKeeperClient(connect)
    await client.start()
    try:
        found = await ClusterReader(client).brokers()
        epoch = await client.get(znodes.CONTROLLER_EPOCH)
        assert epoch is not None
        # The controller is not registered, because no broker needs that. It names itself with an epoch that is unused.
        ours = Broker(CONTROLLER_ID, 0, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", controller.port),))
        brokers = (*found.brokers, ours)
        return Moment(brokers, decode_controller_epoch(epoch.data))
    finally:
        await client.close()


def decided_at(moment: Moment) -> dict[int, tuple[int, bytes]]:
    """Message 5 as each kind of request, with harmless contents: by API the version and the body."""
    head = {
        "controller_id": CONTROLLER_ID,
        "controller_epoch": moment.controller_epoch,
        "broker_epoch": moment.greatest,
    }
    live = live_brokers_fragment(8, moment.brokers)
    return {
        UPDATE_METADATA: (8, b"".join(update_metadata_parts(8, **head, topics=(), live=live, offline={}, cache=None))),
        LEADER_AND_ISR: (
            7,
            leader_and_isr_body(7, **head, leaders=(), listener="PLAINTEXT", topics=(), new=(), full=False, cache=None),
        ),
        STOP_REPLICA: (4, stop_replica_body(4, **head, partitions=())),
    }


async def answers(broker: Broker, decided: dict[int, tuple[int, bytes]]) -> dict[int, int]:
    """Send requests to a broker; gives the error of each, by API."""
    connection = await BrokerConnection.open(broker.endpoints[0])
    errors: dict[int, int] = {}
    try:
        for api_key, (version, body) in decided.items():
            await connection.send(api_key, version, connection.next_correlation_id(), body)
            frames: list[bytes] = []
            while not frames:
                frames = await connection.receive()
            errors[api_key] = int(decode_control_response(api_key, version, frames[0], dict)[1])
    finally:
        connection.close()
    return errors


async def test_a_request_decided_before_a_restart_is_refused_after_it(real_cluster: RealCluster) -> None:
    connect = real_cluster.cluster.zookeeper_connect
    before = await read_moment(connect, real_cluster.controller)
    assert {broker.id for broker in before.brokers} == {1, 2, CONTROLLER_ID}
    decided = decided_at(before)
    by_id = {broker.id: broker for broker in before.brokers}
    fine = dict.fromkeys(decided, 0)
    assert await answers(by_id[1], decided) == fine, "until then it is as good as any"

    real_cluster.cluster.brokers[1].restart()
    after = await read_moment(connect, real_cluster.controller)
    back = {broker.id: broker for broker in after.brokers}
    assert back[1].epoch > before.greatest, "e2 is later than all that was known at e1"
    refused = dict.fromkeys(decided, ErrorCode.STALE_BROKER_EPOCH.value)
    assert await answers(back[1], decided) == refused
    assert await answers(back[2], decided) == fine, "it did not restart: to it nothing is obsolete"
    assert await answers(back[1], decided_at(after)) == fine
    assert await answers(back[2], decided_at(after)) == fine, "a greater epoch than one's own is taken"


def test_real_brokers_are_led_in_both_passes_without_a_restart(real_cluster: RealCluster) -> None:
    create_topic(real_cluster, "first-pass")
    switch(real_cluster.controller, real_cluster.settings, "max")
    create_topic(real_cluster, "second-pass")
    switch(real_cluster.controller, real_cluster.settings, "per-broker")
    create_topic(real_cluster, "back-again")
    assert "STALE_BROKER_EPOCH" not in real_cluster.controller.log_tail(2_000)
