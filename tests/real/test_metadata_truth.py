"""Metadata from brokers and Apache's own tools, about partitions that move and about dead brokers."""

import re
from contextlib import suppress

import pytest
from kafka.admin import NewTopic
from kafka.errors import KafkaError, RequestTimedOutError
from yard import TOPICS, cli, znode

from lab.testbed.failures import PartFailed
from lab.testbed.probes import brokers_known_at
from lab.testbed.waiting import wait_until
from shunter.drivers.admin.client import PinnedAdminClient

# kafka-python leaves its socket to the garbage collector when a broker dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def described(yard, topic, *options):
    """The output of Apache's tool, compared with that of Shunter's tool where it has the same options."""
    at = ("--bootstrap-server", yard.bootstrap, "--describe", "--topic", topic)
    apache = yard.cluster.kafka_tool(TOPICS, *at, *options)
    assert apache.returncode == 0, apache.stderr
    if not options:
        assert factors(cli("kafka-topics", *at)[1]) == factors(apache.stdout)
    return apache.stdout


def factors(text):
    return re.findall(r"ReplicationFactor: (\d+)", text)


def under_replicated(yard, topic):
    text = described(yard, topic, "--under-replicated-partitions")
    return {int(number) for number in re.findall(r"Partition: (\d+)", text)}


def test_a_moving_partition_has_its_replication_factor_and_is_called_what_it_is(yard, topic):
    """During an incremental, a pending and a superseded move, with all in sync and with one broker dead.

    `TopicCommand` computes both from response 46: |replicas| - |adding|, and whether the ISR is smaller than that.
    """
    first, second = yard.create(topic, (1, 2), partitions=2)
    with yard.settings(reassignment_max_concurrent=1), yard.traffic([first, second], records=60):
        yard.throttle(topic, 20_000)
        yard.move([first], (3, 4))
        yard.move([second], (3, 4))
        assert yard.moving() == {first, second}
        text = described(yard, topic)
        assert factors(text) == ["2"], text
        assert "Adding Replicas: 3,4\tRemoving Replicas: 1,2" in text, text.splitlines()
        assert under_replicated(yard, topic) == set()
        yard.move([first], (4, 2))
        text = described(yard, topic)
        assert factors(text) == ["2"], text
        assert "Adding Replicas: 4\tRemoving Replicas: 1" in text, text.splitlines()
        assert under_replicated(yard, topic) == set()
        yard.cluster.brokers[1].stop()
        wait_until(lambda: under_replicated(yard, topic) == {0, 1}, what="both lack a replica", timeout_s=60)
        yard.cluster.brokers[1].start()
        # A broker that returns catches up under the throttle too, and the traffic may be faster than the throttle.
        yard.throttle(topic, None)
        wait_until(lambda: under_replicated(yard, topic) == set(), what="nothing is lacking", timeout_s=60)
        yard.wait_moved([first], (4, 2))
        yard.wait_moved([second], (3, 4))


def offline_replicas(yard, topic):
    """Offline replicas by partition in each live broker's metadata, without brokers that do not answer."""
    told = {}
    client = PinnedAdminClient(bootstrap_servers=yard.bootstrap)
    try:
        for broker in (id_ for id_, server in yard.cluster.brokers.items() if server.alive):
            with suppress(KafkaError):
                (found,) = client._manager.run(client._metadata_from, broker, [topic])["topics"]
                told[broker] = {each["partition_index"]: each["offline_replicas"] for each in found["partitions"]}
    finally:
        client.close()
    return told


def partitions_told(yard, topic):
    """Numbers of a topic's partitions by node, the controller included, without nodes that do not answer."""
    told = {}
    client = PinnedAdminClient(bootstrap_servers=yard.bootstrap)
    nodes = [id_ for id_, server in yard.cluster.brokers.items() if server.alive]
    if yard.controller.alive:
        nodes.append(yard.controller.broker_id)
    try:
        for node in nodes:
            with suppress(KafkaError):
                (found,) = client._manager.run(client._metadata_from, node, [topic])["topics"]
                told[node] = sorted(each["partition_index"] for each in found["partitions"])
    finally:
        client.close()
    return told


def test_a_partition_that_never_had_a_leader_is_told_by_no_node(yard, topic, zk):
    """Its topic was made while its broker was dead. Apache's brokers hear of it with its first leader; so do clients."""
    placed = {0: [1], 1: [3], 2: [2]}

    def all_say(numbers, nodes):
        return partitions_told(yard, topic) == dict.fromkeys(nodes, numbers)

    ours = yard.controller.broker_id
    yard.cluster.brokers[3].stop()
    try:
        yard.asked(lambda admin: admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=placed)]))
        wait_until(lambda: all_say([0, 2], (1, 2, 4, ours)), what="the nodes agree", timeout_s=30)
        apaches = f"{topic}-apache"
        yard.controller.stop()
        try:
            wait_until(lambda: apache_leads(yard, zk), what="a broker is the controller", timeout_s=30)
            ports = [broker.port for broker in yard.cluster.brokers.values() if broker.alive]
            wait_until(
                lambda: not any(ours in brokers_known_at(port) for port in ports), what="brokers know it", timeout_s=30
            )
            assert partitions_told(yard, topic) == {broker: [0, 2] for broker in (1, 2, 4)}
            new = NewTopic(apaches, -1, -1, replica_assignments=placed)
            with suppress(RequestTimedOutError):  # Apache's broker answers when it knows a leader of each partition.
                yard.asked(lambda admin: admin.create_topics([new], timeout_ms=1000))
            wait_until(
                lambda: partitions_told(yard, apaches) == {broker: [0, 2] for broker in (1, 2, 4)},
                what="the same under an Apache controller",
                timeout_s=30,
            )
        finally:
            yard.controller.start()
    finally:
        yard.cluster.brokers[3].start()
    wait_until(lambda: all_say([0, 1, 2], (1, 2, 3, 4, ours)), what="the first leader is told", timeout_s=60)


def apache_leads(yard, zk):
    return (znode(zk, "/controller") or {}).get("brokerid") in yard.cluster.brokers


def after_a_clean_stop(yard, topic):
    """Stop broker 3 as an operator does, so that it leaves every ISR first. The others' answers about its replicas."""
    told = {}

    def all_say(expected, brokers):
        told.clear()
        told.update(offline_replicas(yard, topic))
        return told == dict.fromkeys(brokers, expected)

    yard.cluster.brokers[3].stop()
    try:
        with suppress(PartFailed):
            wait_until(
                lambda: all_say({0: [3], 1: [3], 2: []}, (1, 2, 4)), what="its replicas are offline", timeout_s=20
            )
        return dict(told)
    finally:
        yard.cluster.brokers[3].start()
        online = {0: [], 1: [], 2: []}
        wait_until(lambda: all_say(online, (1, 2, 3, 4)), what="all replicas are online again", timeout_s=60)


def test_replicas_of_a_broker_that_left_are_offline_in_metadata(yard, topic, zk):
    """The same under Shunter's controller and under an Apache broker's."""
    placed = {0: [1, 3], 1: [3, 1], 2: [1, 2]}
    yard.asked(lambda admin: admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=placed)]))
    ours = after_a_clean_stop(yard, topic)
    yard.controller.stop()
    try:
        wait_until(lambda: apache_leads(yard, zk), what="a broker is the controller", timeout_s=30)
        apaches = after_a_clean_stop(yard, topic)
    finally:
        yard.controller.start()
    assert ours == apaches == {broker: {0: [3], 1: [3], 2: []} for broker in (1, 2, 4)}
