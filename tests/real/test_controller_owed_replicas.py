"""Real brokers count the controller as a broker when they place internal topics. Here two of three brokers are up."""

import json
from contextlib import ExitStack

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kazoo.client import KazooClient

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.waiting import wait_until
from shunter.formats.znodes import paths as znodes

# kafka-python leaves its socket to the garbage collector when a broker dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

BOUND_S = 60
OFFSETS = "__consumer_offsets"
AUTO = "made-by-a-broker"


def test_a_topic_that_was_placed_on_us_gets_all_its_replicas(tmp_path):
    """`__consumer_offsets` and an auto-created topic begin with two replicas of three; the third comes with broker 3."""
    held = {}

    def start_controller(cluster, stack: ExitStack):
        held["controller"] = stack.enter_context(ShunterController(tmp_path / "controller", cluster.zookeeper_connect))

    three = {"offsets.topic.replication.factor": 3, "default.replication.factor": 3, "num.partitions": 4}
    with ZooKeeperCluster(
        tmp_path,
        broker_ids=(1, 2),
        before_brokers=start_controller,
        racks={1: "a", 2: "b", 3: "c"},
        properties={**three, "auto.create.topics.enable": True},
        heap_mib=160,
    ) as cluster:
        zk = KazooClient(cluster.zookeeper_connect)
        zk.start()

        def replicas(topic):
            return {tuple(sorted(each)) for each in json.loads(zk.get(znodes.topic(topic))[0])["partitions"].values()}

        def in_sync(topic):
            states = (
                zk.get(znodes.state(topic, int(number)))[0] for number in zk.get_children(znodes.partitions(topic))
            )
            return {tuple(sorted(json.loads(state)["isr"])) for state in states}

        consumer = KafkaConsumer(AUTO, bootstrap_servers=cluster.bootstrap, group_id="g", auto_offset_reset="earliest")
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
        try:
            producer.send(AUTO, b"1").get(timeout=BOUND_S)
            found = []

            def consumed():
                found.extend(each for batch in consumer.poll(timeout_ms=500).values() for each in batch)
                return bool(found)

            wait_until(consumed, what="the group works with two brokers", timeout_s=BOUND_S)
            for topic in (OFFSETS, AUTO):
                assert replicas(topic) == {(1, 2)}
                assert zk.exists(znodes.owed_replicas(topic)) is not None
            assert "replica-owed" in held["controller"].log_tail(500)
            held["controller"].kill()
            held["controller"].start()
            cluster.add_brokers(3)
            for topic in (OFFSETS, AUTO):
                wait_until(
                    lambda topic=topic: replicas(topic) == in_sync(topic) == {(1, 2, 3)},
                    what=f"{topic} has three replicas in sync",
                    timeout_s=BOUND_S,
                )
                assert zk.exists(znodes.owed_replicas(topic)) is None
            assert (cluster.brokers[3].data_folder / f"{AUTO}-0").is_dir()
        finally:
            producer.close()
            consumer.close()
            zk.stop()
            zk.close()
