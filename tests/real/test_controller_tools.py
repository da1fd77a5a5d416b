"""Apache's own tools and common clients against a cluster that Shunter controls."""

import json
import uuid

import pytest
from yard import TOPICS, plan_of

from lab.testbed.tools import LOG_DIRS
from lab.testbed.waiting import wait_until
from shunter.drivers.admin.inventory import take_inventory
from shunter.formats.znodes import paths as znodes
from shunter.model.broker import CONTROLLERS_LOG_DIR
from shunter.model.partition import TopicPartition

# kafka-python leaves its socket to the garbage collector when a broker dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.long
def test_topic_command(yard, topic):
    """Create, describe, grow, delete: as against any controller. For `./test --matrix`: test_topic_requests.py has it all."""
    at = ("--bootstrap-server", yard.bootstrap)
    made = yard.cluster.kafka_tool(
        TOPICS, *at, "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "3"
    )
    assert made.returncode == 0, made.stderr
    again = yard.cluster.kafka_tool(TOPICS, *at, "--create", "--topic", topic, "--partitions", "1")
    assert again.returncode == 1
    assert "already exists" in again.stdout + again.stderr
    grown = yard.cluster.kafka_tool(TOPICS, *at, "--alter", "--topic", topic, "--partitions", "5")
    assert grown.returncode == 0, grown.stderr
    described = yard.cluster.kafka_tool(TOPICS, *at, "--describe", "--topic", topic).stdout
    assert "PartitionCount: 5" in described
    assert described.count("Leader: ") == 5
    assert "Leader: none" not in described
    gone = yard.cluster.kafka_tool(TOPICS, *at, "--delete", "--topic", topic)
    assert gone.returncode == 0, gone.stderr
    wait_until(
        lambda: topic not in yard.cluster.kafka_tool(TOPICS, *at, "--list").stdout, what="it is gone", timeout_s=20
    )


@pytest.mark.long
def test_reassign_partitions_command(yard, topic):
    """Execute, list, cancel, execute, verify. For `./test --matrix`: test_reassign_tools.py has a whole reassignment."""
    partitions = yard.create(topic, (1, 2, 3), partitions=2)
    with yard.traffic(partitions, records=40):
        # The tool begins the move before its throttle has reached all brokers: another one is in force before.
        yard.throttle(topic, 50_000)
        plan = plan_of(partitions, (4, 3, 2))
        begun = yard.reassign_tool(plan, "--execute", "--throttle", "50000")
        assert begun.returncode == 0, begun.stderr
        assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in begun.stdout
        at = ("--bootstrap-server", yard.bootstrap)
        listed = yard.cluster.kafka_tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *at, "--list")
        assert f"{topic}-0: replicas: " in listed.stdout
        assert "adding: 4. removing: 1." in listed.stdout
        cancelled = yard.reassign_tool(plan, "--cancel")
        assert cancelled.returncode == 0, cancelled.stdout + cancelled.stderr
        yard.wait_moved(partitions, (1, 2, 3))
        again = yard.reassign_tool(plan, "--execute", "--throttle", "50000000")
        assert again.returncode == 0, again.stderr
        yard.wait_moved(partitions, (4, 3, 2))
        verified = yard.reassign_tool(plan, "--verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert f"Reassignment of partition {topic}-0 is completed." in verified.stdout
        assert "Clearing broker-level throttles on brokers 1,2,3,4,1000" in verified.stdout


def test_log_dirs_command(yard, topic):
    """Asked of all nodes, the tool shows every broker, and the controller as a node without replicas."""
    yard.create(topic, (1, 2))
    at = ("--bootstrap-server", yard.bootstrap)
    shown = yard.cluster.kafka_tool(LOG_DIRS, *at, "--describe", "--topic-list", topic)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    [described] = [json.loads(line) for line in shown.stdout.splitlines() if line.startswith("{")]
    found = {broker["broker"]: broker["logDirs"] for broker in described["brokers"]}
    assert found[1000] == [{"partitions": [], "error": None, "logDir": CONTROLLERS_LOG_DIR}]
    held = {broker for broker, dirs in found.items() if any(log_dir["partitions"] for log_dir in dirs)}
    assert held == {1, 2}
    taken = take_inventory({"bootstrap_servers": yard.bootstrap})
    assert 1000 not in {broker.id for broker in taken.brokers}, "the controller is no place for replicas"
    assert {found.cleanup_policy for found in taken.partitions if found.topic == topic} == {"delete"}


def test_a_topics_id_outlives_a_tool_that_knows_no_ids(yard, topic, zk):
    """A tool older than 2.8 adds a partition by writing the whole znode. Replicas refuse any other id (KAFKA-14190)."""
    (known,) = yard.create(topic, (1, 2), partitions=1)
    path = znodes.topic(topic)
    before = json.loads(zk.get(path)[0])
    partitions = {"0": [1, 2], "1": [2, 1]}
    zk.set(path, json.dumps({"version": 1, "partitions": partitions}).encode())

    def mended():
        after = json.loads(zk.get(path)[0])
        return after.get("topic_id") == before["topic_id"] and after["partitions"] == partitions

    wait_until(mended, what="the id is in the znode again", timeout_s=40)
    both = [known, TopicPartition(topic, 1)]
    yard.move(both, (2, 3))
    yard.wait_moved(both, (2, 3))


def test_librdkafka_clients(yard, topic):
    """confluent-kafka: admin, producer, consumer in a group, bootstrapped at the controller alone."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    here = {"bootstrap.servers": yard.controller.address}
    admin = AdminClient(here)
    admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(20)
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3
    producer = Producer({**here, "enable.idempotence": True})
    for number in range(300):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    consumer = Consumer({**here, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = set()
    wait_until(
        lambda: found.update(int(m.value()) for m in consumer.consume(100, 1.0) if not m.error()) or len(found) == 300,
        what="all records are consumed",
        timeout_s=60,
    )
    consumer.close()


def test_an_internal_topic_is_never_placed_on_us(yard):
    """A broker assigns `__consumer_offsets` and may name Shunter. Shunter corrects that before it elects leaders."""
    from lab.demo.proof import Leftovers

    test_group = f"g-{uuid.uuid4().hex[:6]}"
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=yard.bootstrap, group_id=test_group)
    consumer.subscribe(["no-such-topic-here"])
    consumer.poll(timeout_ms=3000)
    consumer.close()
    leftovers = Leftovers(yard.cluster.zookeeper_connect)
    found = leftovers.assignments(["__consumer_offsets"])
    leftovers.close()
    assert found
    assert all(1000 not in assignment.replicas for assignment in found.values())
    assert TopicPartition("__consumer_offsets", 0) in found
