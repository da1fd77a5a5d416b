"""The real parts start, serve, survive kills and pauses by tests, and end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kazoo.client import KazooClient

from lab.testbed import ports, tools
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.failures import PartFailed, PortStolen
from lab.testbed.kafka import KafkaBroker
from lab.testbed.kraft import KRaftCluster
from lab.testbed.probes import brokers_known_at, kafka_answers, zookeeper_answers
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.real

BOUND_S = 60.0


@contextmanager
def zookeeper_client(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def has_ended(pid: int) -> bool:
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout.strip()[:1] in ("", "Z")


def topic_lines(cluster: ZooKeeperCluster, topic: str) -> list[str]:
    """TopicCommand's description of a topic's partitions."""
    done = cluster.kafka_tool(
        tools.TOPICS, "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", topic, timeout_s=BOUND_S
    )
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stdout.splitlines() if "Partition: " in line]


def create_topic(bootstrap: str, topic: NewTopic) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics([topic])


class TestZooKeeper:
    def test_data_and_port_outlive_a_kill(self, work_dir: Path) -> None:
        with ZooKeeperServer(work_dir) as server:
            address = server.connect_string
            with zookeeper_client(address) as client:
                client.create("/kept", b"value")
            server.kill()
            assert not zookeeper_answers(server.port)
            server.restart()
            assert server.connect_string == address
            with zookeeper_client(address) as client:
                assert client.get("/kept")[0] == b"value"
            pid = server.process.pid
        assert pid is not None
        assert has_ended(pid)

    def test_a_frozen_server_does_not_answer_until_it_goes_on(self, work_dir: Path) -> None:
        with ZooKeeperServer(work_dir) as server:
            server.pause()
            assert server.alive
            assert not zookeeper_answers(server.port)
            server.resume()
            wait_until(lambda: zookeeper_answers(server.port), what="the server goes on", timeout_s=BOUND_S)

    def test_a_setting_that_it_refuses_is_told_with_its_log(self, work_dir: Path) -> None:
        server = ZooKeeperServer(work_dir, properties={"tickTime": "often"})
        with pytest.raises(PartFailed, match=r'(?s)zookeeper ended with status 2.*NumberFormatException.*"often"'):
            server.start()
        assert not server.alive

    def test_a_port_taken_in_between_is_left_for_another(self, work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server((ports.LOOPBACK, 0)) as thief:
            stolen = thief.getsockname()[1]
            named = iter([stolen])
            monkeypatch.setattr("lab.testbed.server.free_port", lambda: next(named, None) or ports.free_port())
            with ZooKeeperServer(work_dir) as server:
                assert server.port != stolen
            with pytest.raises(PortStolen):
                ZooKeeperServer(work_dir, port=stolen).start()

    def test_it_ends_with_a_parent_that_was_killed(self, work_dir: Path) -> None:
        script = (
            "import sys; from pathlib import Path; from lab.testbed.zookeeper import ZooKeeperServer\n"
            "server = ZooKeeperServer(Path(sys.argv[1])); server.start(); print(server.process.pid, flush=True)\n"
            "sys.stdin.read()"
        )
        command = [sys.executable, "-c", script, str(work_dir)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert not has_ended(pid)
            os.kill(parent.pid, signal.SIGKILL)
            wait_until(lambda: has_ended(pid), what="the server has ended", timeout_s=BOUND_S)


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    with ZooKeeperCluster(
        tmp_path_factory.mktemp("pair"),
        broker_ids=(1, 2),
        zookeeper=zookeeper,
        chroot="/yards/pair",
        racks={1: "north", 2: "south"},
        broker_properties={2: {"num.replica.fetchers": 3}},
    ) as pair:
        yield pair


class TestZooKeeperMode:
    def test_clients_and_tools_see_the_same_topic(self, cluster: ZooKeeperCluster) -> None:
        create_topic(cluster.bootstrap, NewTopic("seen", 2, 2))
        partitions = topic_lines(cluster, "seen")
        assert [line.split("\t")[1] for line in partitions] == ["Partition: 0", "Partition: 1"]
        listed = cluster.kafka_tool(tools.TOPICS, "--bootstrap-server", cluster.bootstrap, "--list")
        assert "seen" in listed.stdout.split()

    def test_brokers_live_below_the_chroot_with_what_was_asked(self, cluster: ZooKeeperCluster) -> None:
        with zookeeper_client(cluster.zookeeper.connect_string) as client:
            assert sorted(client.get_children("/yards/pair/brokers/ids")) == ["1", "2"]
            assert b'"rack":"north"' in client.get("/yards/pair/brokers/ids/1")[0]
            assert b'"rack":"south"' in client.get("/yards/pair/brokers/ids/2")[0]
        assert "num.replica.fetchers=3" in (cluster.brokers[2].folder / "server.properties").read_text()

    def test_a_killed_broker_comes_back_with_its_data(self, cluster: ZooKeeperCluster) -> None:
        create_topic(cluster.bootstrap, NewTopic("kept", 1, 2))
        produced = cluster.kafka_tool(
            tools.CONSOLE_PRODUCER,
            *("--bootstrap-server", cluster.bootstrap, "--topic", "kept", "--producer-property", "acks=all"),
            input_text="one\ntwo\nthree\n",
        )
        assert produced.returncode == 0, produced.stderr
        broker = cluster.brokers[1]
        address = broker.bootstrap
        broker.kill()
        assert cluster.bootstrap == cluster.brokers[2].bootstrap
        broker.restart()
        assert broker.bootstrap == address
        cluster.wait_for_metadata()
        wait_until(
            lambda: "Isr: 1,2" in topic_lines(cluster, "kept")[0] or "Isr: 2,1" in topic_lines(cluster, "kept")[0],
            what="both replicas are in sync again",
            timeout_s=BOUND_S,
        )
        consumed = cluster.kafka_tool(
            tools.CONSOLE_CONSUMER,
            *("--bootstrap-server", cluster.bootstrap, "--topic", "kept", "--from-beginning"),
            *("--max-messages", "3", "--timeout-ms", "20000"),
        )
        assert consumed.stdout.split() == ["one", "two", "three"], consumed.stderr

    def test_a_frozen_broker_does_not_answer_until_it_goes_on(self, cluster: ZooKeeperCluster) -> None:
        broker = cluster.brokers[2]
        broker.pause()
        assert not kafka_answers(broker.port)
        broker.resume()
        wait_until(lambda: kafka_answers(broker.port), what="the broker goes on", timeout_s=BOUND_S)
        cluster.wait_for_metadata()

    def test_a_setting_that_a_broker_refuses_is_told_with_its_log(
        self, cluster: ZooKeeperCluster, work_dir: Path
    ) -> None:
        broker = KafkaBroker(3, cluster.zookeeper_connect, work_dir, properties={"num.io.threads": 0})
        with pytest.raises(PartFailed, match=r"(?s)broker-3 ended with status 1.*num\.io\.threads"):
            broker.start()
        assert not broker.alive


def test_a_controller_of_ours_comes_after_zookeeper_and_before_the_brokers(work_dir: Path) -> None:
    seen: dict[str, object] = {}

    def before_brokers(cluster: ZooKeeperCluster, stack: ExitStack) -> None:
        client = stack.enter_context(zookeeper_client(cluster.zookeeper_connect))
        seen["registered before"] = client.exists("/brokers/ids/7")
        stack.callback(lambda: seen.update({"registered after": client.exists("/brokers/ids/7")}))
        stack.callback(lambda: seen.update({"alive after": cluster.brokers[7].alive}))

    with ZooKeeperCluster(work_dir, broker_ids=(7,), chroot="/own", before_brokers=before_brokers) as cluster:
        processes = [cluster.zookeeper.process, cluster.brokers[7].process]
        assert all(process.alive for process in processes)
        assert brokers_known_at(cluster.brokers[7].port) == {7}
    assert seen == {"registered before": None, "alive after": False, "registered after": None}
    assert not any(process.alive for process in processes)


@pytest.mark.long
def test_brokers_of_several_versions_form_one_cluster(work_dir: Path) -> None:
    elder = {"inter.broker.protocol.version": "2.8"}
    with ZooKeeperCluster(work_dir, versions={1: "2.8.2", 2: "3.4.1"}, properties=elder) as cluster:
        create_topic(cluster.bootstrap, NewTopic("shared", 3, 3))
        wait_until(
            lambda: all(line.count(",") == 4 for line in topic_lines(cluster, "shared")),
            what="three replicas of each partition are in sync",
            timeout_s=BOUND_S,
        )


def test_a_cluster_that_does_not_start_leaves_nothing_running(work_dir: Path) -> None:
    cluster = ZooKeeperCluster(work_dir, broker_ids=(1, 2), broker_properties={2: {"num.io.threads": 0}})
    with pytest.raises(PartFailed, match="broker-2 ended with status 1"):
        cluster.start()
    processes = [cluster.zookeeper.process, *(broker.process for broker in cluster.brokers.values())]
    assert not any(process.alive for process in processes)


class TestKRaft:
    def test_one_node_serves_and_comes_back(self, work_dir: Path) -> None:
        with KRaftCluster(work_dir) as cluster:
            create_topic(cluster.bootstrap, NewTopic("alone", 1, 1))
            cluster.nodes[1].kill()
            cluster.nodes[1].restart()
            with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
                assert "alone" in admin.list_topics()
            process = cluster.nodes[1].process
        assert not process.alive

    @pytest.mark.long
    def test_three_nodes_form_one_cluster(self, work_dir: Path) -> None:
        with KRaftCluster(work_dir, node_ids=(1, 2, 3), racks={1: "a", 2: "b", 3: "c"}) as cluster:
            for node in cluster.nodes.values():
                wait_until(
                    lambda node=node: brokers_known_at(node.port) == {1, 2, 3},
                    what=f"{node.name} knows all three",
                    timeout_s=BOUND_S,
                )
            create_topic(cluster.bootstrap, NewTopic("shared", 1, 3))
            cluster.nodes[2].kill()
            with closing(KafkaAdminClient(bootstrap_servers=cluster.nodes[3].bootstrap)) as admin:
                # The node learns of the topic, and of the next controller, a moment later.
                wait_until(
                    lambda: "shared" in admin.list_topics(), what="the third node has the topic", timeout_s=BOUND_S
                )
