"""What brokers and their clients are told of Shunter's listeners, if brokers have one more than Shunter, and if not.

Source: docs/decisions/0025-ourselves.md; Apache's `ZkMetadataCache.updateMetadata`.
"""

import pytest
from yard import TOPICS, cli

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.kafka import PORT
from lab.testbed.ports import LOOPBACK, free_ports
from lab.testbed.probes import brokers_known_at
from lab.testbed.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

VERSIONS = {1: "2.8.2", 2: "3.9.2"}
COMPLAINT = "Listeners are not identical across brokers"
BOUND_S = 120


def complaints(broker):
    return broker.log_tail(1_000_000).count(COMPLAINT)


def create(cluster, at, topic):
    """Make a topic of which each broker leads a partition; the tool returns once that is so."""
    return cluster.kafka_tool(
        TOPICS, "--bootstrap-server", at, "--create", "--topic", topic, "--replica-assignment", "1:2,2:1", timeout_s=BOUND_S
    )  # fmt: skip


def test_brokers_complain_of_the_listener_that_we_lack_and_of_none_otherwise(tmp_path):
    ours, ours_outside, *outside = free_ports(4)
    at_outside = dict(zip(VERSIONS, outside, strict=True))

    def controller(*listeners):
        options = ("--takeover", "preempt")
        return ShunterController(
            tmp_path / "controller", cluster.zookeeper_connect, listeners=listeners, options=options
        )

    def lead(_, stack):
        started.append(stack.enter_context(controller(f"PLAINTEXT://{LOOPBACK}:{ours}")))

    started = []
    cluster = ZooKeeperCluster(
        tmp_path / "cluster",
        broker_ids=tuple(VERSIONS),
        versions=VERSIONS,
        properties={
            "inter.broker.protocol.version": "2.8",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        },
        broker_properties={
            id_: {"listeners": f"PLAINTEXT://{LOOPBACK}:{PORT},OUTSIDE://{LOOPBACK}:{port}"}
            for id_, port in at_outside.items()
        },
        before_brokers=lead,
    )
    with cluster:
        assert create(cluster, f"{LOOPBACK}:{ours}", "early").returncode == 0
        assert [complaints(broker) > 0 for broker in cluster.brokers.values()] == [True, True]
        assert [brokers_known_at(port) for port in outside] == [set(VERSIONS), set(VERSIONS)]
        at = ("--zookeeper", cluster.zookeeper_connect, "--listener", f"PLAINTEXT://{LOOPBACK}:0", "--broker-id", "77")
        status, said = cli("controller", "--check", *at)
        assert status == 0, said
        assert "by listener OUTSIDE would not see the controller" in " ".join(said.split())

        started[0].stop()
        with controller(f"PLAINTEXT://{LOOPBACK}:{ours}", f"OUTSIDE://{LOOPBACK}:{ours_outside}"):
            for port in outside:
                wait_until(
                    lambda port=port: brokers_known_at(port) == {*VERSIONS, 1000},
                    what="clients outside see the controller",
                    timeout_s=BOUND_S,
                )
            before = {id_: complaints(broker) for id_, broker in cluster.brokers.items()}
            done = create(cluster, f"{LOOPBACK}:{outside[0]}", "late")
            assert done.returncode == 0, done.stdout + done.stderr
            assert {id_: complaints(broker) for id_, broker in cluster.brokers.items()} == before
