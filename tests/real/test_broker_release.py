"""`inter.broker.protocol.version` as brokers of 3.9.2 report it, and the control requests that each is sent for it.

Source: Apache Kafka 3.9, ControllerChannelManager: versions of LeaderAndIsr, UpdateMetadata and StopReplica by release.
"""

import asyncio
from contextlib import ExitStack

from lab.testbed.kafka import KafkaBroker
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.drivers.brokers.connection import BrokerConnection
from shunter.drivers.brokers.release import release_of
from shunter.model.broker import Endpoint
from shunter.wire.versions import common_control_versions

RELEASES = {
    1: ("2.7", (4, 6, 3)),
    2: ("2.8", (5, 7, 3)),
    3: ("3.0", (5, 7, 3)),
    4: ("3.4", (7, 8, 4)),
    5: (None, (7, 8, 4)),
}
"""By broker: its setting (None: the default of 3.9.2), and versions of LeaderAndIsr, UpdateMetadata and StopReplica."""


async def told(broker):
    connection = await BrokerConnection.open(Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", broker.port))
    try:
        return await release_of(connection, broker.broker_id), common_control_versions((connection.ranges,))
    finally:
        connection.close()


def test_brokers_tell_the_release_that_they_speak(tmp_path):
    """ApiVersions says the same for all of them; topic ids begin with LeaderAndIsr 5, and the KRaft flag with 7."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperServer(tmp_path / "zookeeper"))
        brokers = [
            KafkaBroker(
                id_,
                zookeeper.connect_string,
                tmp_path / str(id_),
                heap_mib=128,
                properties={} if release is None else {"inter.broker.protocol.version": release},
            )
            for id_, (release, _) in RELEASES.items()
        ]
        for broker in brokers:
            stack.callback(broker.kill)
            broker.launch()
        for broker in brokers:
            broker.wait_ready()
        for broker in brokers:
            release, served = asyncio.run(told(broker))
            assert served[1:] == (7, 8, 4)
            assert release is not None
            assert release.versions[1:] == RELEASES[broker.broker_id][1], RELEASES[broker.broker_id]
