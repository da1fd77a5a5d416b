"""Brokers and the controller find one another by IPv6."""

import json
import socket
from contextlib import ExitStack

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kazoo.client import KazooClient

from lab.testbed.controller import ShunterController
from lab.testbed.kafka import KafkaBroker
from lab.testbed.ports import free_ports
from lab.testbed.probes import brokers_known_at
from lab.testbed.tools import REASSIGN_PARTITIONS, TOPICS, kafka_tool
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.formats.znodes import paths as znodes

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

BOUND_S = 120
PARTITIONS = 4


class Land:
    """A cluster that a test uses through its brokers."""

    def __init__(self, zookeeper_connect, bootstrap, folder, stack):
        self.bootstrap, self.folder = bootstrap, folder
        self.zk = KazooClient(zookeeper_connect)
        self.zk.start()
        stack.callback(self.zk.close)
        stack.callback(self.zk.stop)

    def create(self, topic, assignment):
        done = kafka_tool(
            TOPICS, "--bootstrap-server", self.bootstrap, "--create", "--topic", topic,
            "--replica-assignment", ",".join([assignment] * PARTITIONS), timeout_s=BOUND_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def move(self, topic, replicas):
        """Begin to move all partitions of a topic."""
        moves = [{"topic": topic, "partition": number, "replicas": replicas} for number in range(PARTITIONS)]
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        done = kafka_tool(
            REASSIGN_PARTITIONS, "--bootstrap-server", self.bootstrap,
            "--reassignment-json-file", str(plan), "--execute", timeout_s=BOUND_S,
        )  # fmt: skip
        assert "Successfully started" in done.stdout, done.stdout + done.stderr

    def produce(self, topic):
        """Send one record to each partition, acknowledged by all replicas in sync."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap.split(","), acks="all")
        try:
            for number in range(PARTITIONS):
                producer.send(topic, b"x" * 1_000, partition=number).get(timeout=BOUND_S)
        finally:
            producer.close()

    def wait_settled(self, topic, replicas):
        """Wait until all partitions are on these brokers, in sync, and no record of a move is left."""

        def settled():
            read = json.loads(self.zk.get(znodes.topic(topic))[0])
            states = [json.loads(self.zk.get(znodes.state(topic, n))[0]) for n in range(PARTITIONS)]
            moving = self.zk.exists(znodes.topic_reassignments(topic))
            return (
                all(each == replicas for each in read["partitions"].values())
                and not read["adding_replicas"]
                and all(sorted(state["isr"]) == sorted(replicas) for state in states)
                and (moving is None or not self.zk.get_children(znodes.topic_reassignments(topic)))
            )

        wait_until(settled, what=f"{topic} is on {replicas}", timeout_s=BOUND_S, interval_s=0.2)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as six:
            six.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this kernel has no IPv6 on its loopback")
def test_brokers_and_controller_find_one_another_by_ipv6(tmp_path):
    """The inter-broker listener and Shunter's are at [::1] alone; clients use IPv4."""
    ports = free_ports(5)
    with ExitStack() as stack:
        server = stack.enter_context(ZooKeeperServer(tmp_path / "zookeeper"))
        ours = ("--listener", f"SIX://[::1]:{ports[4]}")
        stack.enter_context(ShunterController(tmp_path / "controller", server.connect_string, options=ours))
        brokers = [six_broker(number, ports[number - 1], ports[number + 1], server, tmp_path) for number in (1, 2)]
        for broker in brokers:
            stack.callback(broker.stop)
            broker.launch()
        for broker in brokers:
            broker.wait_ready()
            wait_until(lambda b=broker: {1, 2} <= brokers_known_at(b.port), what="it knows both", timeout_s=BOUND_S)
        land = Land(server.connect_string, brokers[0].bootstrap, tmp_path, stack)
        land.create("six", "1:2")
        land.produce("six")
        land.move("six", [2, 1])
        land.wait_settled("six", [2, 1])
        admin = KafkaAdminClient(bootstrap_servers=brokers[0].bootstrap)
        admin.delete_topics(["six"])
        admin.close()
        wait_until(lambda: land.zk.exists(znodes.topic("six")) is None, what="the topic is gone", timeout_s=BOUND_S)
        brokers[1].stop()  # A controlled shutdown reaches Shunter at [::1] as well.
        assert "Controlled shutdown request returned successfully" in brokers[1].log_tail(10_000)


def six_broker(number, port, six, server, folder):
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SIX://[::1]:{six}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT",
        "inter.broker.listener.name": "SIX",
    }
    place = folder / f"broker-{number}"
    return KafkaBroker(number, server.connect_string, place, port=port, heap_mib=144, properties=properties)
