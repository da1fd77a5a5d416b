"""A cluster in the middle of an upgrade: brokers of different `inter.broker.protocol.version` share the lowest release.

Source: docs/decisions/0034-one-release.md; Apache's `testReassignmentCompletionDuringPartialUpgrade`.
"""

import json
from contextlib import ExitStack

import pytest
from kafka import KafkaProducer
from kazoo.client import KazooClient

from lab.testbed.controller import ShunterController
from lab.testbed.kafka import KafkaBroker
from lab.testbed.probes import brokers_known_at
from lab.testbed.tools import REASSIGN_PARTITIONS, TOPICS, kafka_tool
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.formats.znodes import paths as znodes

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

BOUND_S = 90
IDS = (1, 2, 3)
OLD = "2.7"
TOPIC = "t"


class Upgrade:
    """Brokers of one Kafka version that are all set to an old protocol, and can be restarted without that setting."""

    def __init__(self, folder, stack, version):
        self.folder, self.version = folder, version
        self.zookeeper = stack.enter_context(ZooKeeperServer(folder / "zookeeper"))
        self.controller = stack.enter_context(ShunterController(folder / "controller", self.zookeeper.connect_string))
        self.brokers = {}
        stack.callback(lambda: [broker.kill() for broker in self.brokers.values()])
        for id_ in IDS:
            self.launch(id_, OLD)
        self.wait_together()
        self.zk = KazooClient(self.zookeeper.connect_string)
        self.zk.start()
        stack.callback(self.zk.close)
        stack.callback(self.zk.stop)

    def launch(self, id_, protocol):
        self.brokers[id_] = KafkaBroker(
            id_,
            self.zookeeper.connect_string,
            self.folder / str(id_),
            version=self.version,
            heap_mib=144,
            properties={} if protocol is None else {"inter.broker.protocol.version": protocol},
        )
        self.brokers[id_].launch()

    def wait_together(self):
        for broker in self.brokers.values():
            broker.wait_ready()
        for broker in self.brokers.values():
            wait_until(
                lambda broker=broker: set(IDS) <= brokers_known_at(broker.port),
                what=f"{broker.name} knows all",
                timeout_s=BOUND_S,
            )

    def restart(self, id_):
        """Restart a broker with the protocol of its software, as in the last round of an upgrade."""
        self.brokers[id_].stop()
        self.launch(id_, None)
        self.wait_together()

    @property
    def bootstrap(self):
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def topics(self, *arguments):
        done = kafka_tool(TOPICS, "--bootstrap-server", self.brokers[1].bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def produce(self, value):
        """Send a record that all replicas in sync acknowledge."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        producer.send(TOPIC, value).get(timeout=BOUND_S)
        producer.close()

    def topic_id(self):
        return json.loads(self.zk.get(znodes.topic(TOPIC))[0]).get("topic_id")

    def ids_beside_logs(self):
        """Brokers that have written the topic's id beside its log. The file stays after a downgrade."""
        return {
            id_
            for id_, broker in self.brokers.items()
            if (broker.data_folder / f"{TOPIC}-0" / "partition.metadata").exists()
        }

    def wait_isr(self, expected):
        def isr():
            state = json.loads(self.zk.get(znodes.state(TOPIC, 0))[0])
            assignment = json.loads(self.zk.get(znodes.topic(TOPIC))[0])
            return sorted(state["isr"]), assignment["partitions"]["0"], assignment.get("adding_replicas")

        wait_until(
            lambda: isr() == (sorted(expected), list(expected), {}),
            what=f"the replicas are {expected}, in sync",
            timeout_s=BOUND_S,
        )

    def move(self, *replicas):
        shunter = self.controller.bootstrap
        plan = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": list(replicas)}]}
        file = self.folder / "plan.json"
        file.write_text(json.dumps(plan))
        arguments = ("--bootstrap-server", shunter, "--reassignment-json-file", str(file), "--execute")
        done = kafka_tool(REASSIGN_PARTITIONS, *arguments)
        assert "Successfully started" in done.stdout, done.stdout + done.stderr
        self.wait_isr(replicas)


HAVE_IDS = {"3.9.2": {1, 3}, "3.4.1": {1, 3}, "2.8.2": {1}}
"""Brokers that have written the id beside the log. A broker of 2.8 does not for a log that exists at its start."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", sorted(HAVE_IDS))
def test_a_protocol_is_upgraded_one_broker_after_the_other(tmp_path, version):
    """Between two protocols topics have no ids; replication and moves go on. At the end every topic has an id."""
    with ExitStack() as stack:
        upgrade = Upgrade(tmp_path, stack, version)
        upgrade.topics("--create", "--topic", TOPIC, "--replica-assignment", "1:2")
        upgrade.produce(b"one")
        upgrade.wait_isr((1, 2))
        assert upgrade.topic_id() is None
        assert upgrade.ids_beside_logs() == set()

        upgrade.restart(1)
        upgrade.wait_isr((1, 2))
        upgrade.produce(b"two")
        upgrade.move(3, 1)  # Broker 1 supports ids, and has to fetch from broker 3, which does not.
        upgrade.produce(b"three")
        assert upgrade.topic_id() is None

        upgrade.restart(2)
        upgrade.restart(3)
        wait_until(lambda: upgrade.topic_id() is not None, what="the topic has an id", timeout_s=BOUND_S)
        upgrade.wait_isr((3, 1))
        upgrade.produce(b"four")
        wait_until(
            lambda: HAVE_IDS[version] <= upgrade.ids_beside_logs(), what="its replicas know it", timeout_s=BOUND_S
        )
        upgrade.move(1, 2)
        upgrade.produce(b"five")
