"""Real brokers' reactions to what the controller tells them about topics and about one another.

The cluster begins empty: three brokers with a rack each, of which broker 1 has a log dir that failed at its start.
"""

import json
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.probes import broker_hosts_at
from lab.testbed.waiting import wait_until
from shunter.formats.znodes import paths as znodes

# kafka-python leaves its socket to the garbage collector when a broker dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

BOUND_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("announcements")
    failed = folder / "failed-log-dir"
    failed.write_text("A log dir that is no folder has failed, to a broker.")

    def start_controller(cluster, stack: ExitStack):
        stack.enter_context(ShunterController(folder / "controller", cluster.zookeeper_connect))

    with ZooKeeperCluster(
        folder,
        before_brokers=start_controller,
        racks={1: "a", 2: "b", 3: "c"},
        broker_properties={1: {"log.dirs": f"{folder / 'broker-1' / 'data'},{failed}"}},
        heap_mib=160,
    ) as started:
        yield started


@pytest.fixture
def zk(cluster):
    client = KazooClient(cluster.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


def wait_in_sync(zk, topic, partitions, brokers=(1, 2, 3)):
    """Wait until each partition's ISR has all brokers."""

    def isrs():
        read = [zk.exists(znodes.state(topic, number)) and zk.get(znodes.state(topic, number)) for number in partitions]
        return [sorted(json.loads(found[0])["isr"]) if found else [] for found in read]

    wait_until(lambda: isrs() == [list(brokers)] * len(partitions), what=f"{topic} is in sync", timeout_s=BOUND_S)


def wait_hosted(cluster, topic, partitions):
    """Wait until broker 1 has logs of all partitions on the log dir that works, and reports no failed one."""
    data = cluster.brokers[1].data_folder
    wait_until(
        lambda: all((data / f"{topic}-{number}").is_dir() for number in partitions),
        what=f"broker 1 has made logs for {topic}",
        timeout_s=BOUND_S,
    )


def topics_tool(cluster, *arguments):
    done = cluster.kafka_tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.brokers[2].bootstrap, *arguments
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_broker_with_a_failed_log_dir_takes_new_replicas(cluster, zk, topic):
    """Topics made by request, partitions added to them, and topics that a tool wrote into ZooKeeper."""
    assert "Failed to create or validate data directory" in cluster.brokers[1].process.log_path.read_text()
    topics_tool(cluster, "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "3")
    wait_hosted(cluster, topic, range(3))
    wait_in_sync(zk, topic, range(3))
    topics_tool(cluster, "--alter", "--topic", topic, "--partitions", "5")
    wait_hosted(cluster, topic, range(5))
    wait_in_sync(zk, topic, range(5))
    written = f"{topic}-w"
    zk.create(znodes.config("topics", written), b'{"version":1,"config":{}}')
    zk.create(znodes.topic(written), b'{"version":1,"partitions":{"0":[1,2,3],"1":[2,1]}}')
    wait_hosted(cluster, written, (0, 1))
    wait_in_sync(zk, written, (0,))


def test_another_address_of_a_live_broker_reaches_the_others(cluster):
    """Advertised listeners are dynamic configuration: the broker rewrites its registration without a restart."""
    broker = cluster.brokers[3]
    for name in ("localhost", "127.0.0.1"):
        changed = cluster.kafka_tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", cluster.brokers[2].bootstrap, "--alter",
            "--entity-type", "brokers", "--entity-name", "3",
            "--add-config", f"advertised.listeners=PLAINTEXT://{name}:{broker.port}",
        )  # fmt: skip
        assert changed.returncode == 0, changed.stdout + changed.stderr
        for other in (1, 2):
            wait_until(
                lambda other=other, name=name: broker_hosts_at(cluster.brokers[other].port).get(3) == name,
                what=f"broker {other} tells clients that broker 3 is at {name}",
                timeout_s=BOUND_S,
            )


def test_consumer_groups_work_on_an_empty_cluster_with_racks(cluster, zk, topic):
    """The first group makes a broker place `__consumer_offsets`. It counts Shunter as a broker, for racks and replicas.

    A broker places nothing while some live brokers have a rack and others none. Tested with kafka-python and Apache's
    consumer.
    """
    from kafka import KafkaConsumer

    assert zk.exists(znodes.topic("__consumer_offsets")) is None, "this test has to be the first to use a group"
    topics_tool(cluster, "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "3")
    consumer = KafkaConsumer(topic, bootstrap_servers=cluster.brokers[2].bootstrap, group_id=topic)

    def assigned():
        consumer.poll(timeout_ms=200)
        return len(consumer.assignment()) == 3

    wait_until(assigned, what="the group has its assignment", timeout_s=BOUND_S)
    consumer.close()
    offsets = json.loads(zk.get(znodes.topic("__consumer_offsets"))[0])["partitions"]
    assert {tuple(sorted(replicas)) for replicas in offsets.values()} == {(1, 2, 3)}
    wait_in_sync(zk, "__consumer_offsets", offsets)
    at = ("--bootstrap-server", cluster.brokers[2].bootstrap, "--topic", topic, "--max-messages", "30")
    produced = cluster.kafka_tool("org.apache.kafka.tools.VerifiableProducer", *at, "--acks", "-1")
    assert produced.stdout.count('"name":"producer_send_success"') == 30, produced.stdout[-500:]
    consumed = cluster.kafka_tool(
        "org.apache.kafka.tools.VerifiableConsumer", *at, "--group-id", f"{topic}-java", "--reset-policy", "earliest"
    )
    counts = [json.loads(line)["count"] for line in consumed.stdout.splitlines() if "records_consumed" in line]
    assert sum(counts) == 30


def test_our_registration_goes_where_no_broker_needs_it(cluster, zk):
    """Brokers from 3.0 on find the controller in their metadata, so a reader of ZooKeeper sees only real brokers."""
    wait_until(
        lambda: sorted(zk.get_children(znodes.BROKER_IDS)) == ["1", "2", "3"],
        what="the brokers alone are registered",
        timeout_s=BOUND_S,
    )
    for broker in cluster.brokers.values():
        assert 1000 in broker_hosts_at(broker.port)


@pytest.mark.long
def test_our_registration_stays_for_brokers_older_than_3_0(tmp_path):
    """A broker of 2.8 looks the controller's address up in ZooKeeper when it stops, and would stop uncontrolled."""

    def start_controller(cluster, stack: ExitStack):
        stack.enter_context(ShunterController(tmp_path / "controller", cluster.zookeeper_connect))

    with ZooKeeperCluster(
        tmp_path, broker_ids=(1, 2), version="2.8.2", before_brokers=start_controller, heap_mib=160
    ) as old:
        topics = "kafka.admin.TopicCommand"
        made = old.kafka_tool(
            topics, "--bootstrap-server", old.bootstrap, "--create", "--topic", "t", "--replication-factor", "2"
        )
        assert made.returncode == 0, made.stderr
        client = KazooClient(old.zookeeper_connect)
        client.start()
        try:
            assert sorted(client.get_children(znodes.BROKER_IDS)) == ["1", "1000", "2"]
        finally:
            client.stop()
            client.close()
        broker = old.brokers[2]
        broker.stop()
        told = broker.process.log_path.read_text()
        assert "Controlled shutdown succeeded" in told
        assert "Retrying controlled shutdown" not in told
