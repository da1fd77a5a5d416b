"""A tiered topic: a move copies what is on the leader's disk, and sizes, plans and figures say so."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from executor_process import Cluster, Shunter, write_plan
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from tidying import end_all

from lab.testbed.artifacts import TIERED_VERSION, local_tiered_storage
from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.kraft, pytest.mark.long, pytest.mark.timeout(600)]

TOPIC = "tiered"
SEGMENT = 1024 * 1024
RECORDS = 64
"""Records of 128 KiB: eight segments."""


@pytest.fixture
def tiered(tmp_path: Path) -> Iterator[KRaftCluster]:
    """Two brokers with Apache's tiered storage in a local folder."""
    properties = {
        "remote.log.storage.system.enable": True,
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": local_tiered_storage(),
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": tmp_path / "remote",
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
        "remote.log.manager.task.interval.ms": 500,
        "log.retention.check.interval.ms": 500,
    }
    with KRaftCluster(tmp_path, node_ids=(1, 2), version=TIERED_VERSION, properties=properties) as cluster:
        yield cluster
        end_all()


def on_disk(cluster: Cluster, broker: int) -> int:
    """Bytes of the partition on a broker's disk, as DescribeLogDirs tells; 0: it is not there."""
    (told,) = cluster.admin.describe_log_dirs({TOPIC: [0]}, brokers=[broker])
    return sum(
        part["partition_size"] for each in told["log_dirs"] for topic in each["topics"] for part in topic["partitions"]
    )


def test_a_move_copies_what_is_on_disk(tiered: KRaftCluster, tmp_path: Path) -> None:
    settings = {"remote.storage.enable": "true", "segment.bytes": str(SEGMENT), "local.retention.bytes": str(SEGMENT)}
    with closing(Cluster(tiered.bootstrap)) as cluster:
        cluster.admin.create_topics([NewTopic(TOPIC, replica_assignments={0: [1]}, topic_configs=settings)])
        cluster.admin.wait_for_topics([TOPIC], timeout_ms=30_000)
        with closing(KafkaProducer(bootstrap_servers=tiered.bootstrap.split(","), acks="all")) as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, value=bytes([number]) * (SEGMENT // 8), partition=0).get(30)
        wait_until(lambda: 0 < on_disk(cluster, 1) < 4 * SEGMENT, what="segments are in the remote tier", timeout_s=120)
        shunter = Shunter(tiered.bootstrap, tmp_path / "moves.journal")
        plan = str(write_plan(tmp_path / "plan.json", TOPIC, {0: (2,)}))
        done = shunter.run("execute", plan, "--yes", "--json")
        assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
        history = json.loads(shunter.run("history", "--output", "json").stdout.splitlines()[0])
        assert 0 < history["copied_bytes"] < 4 * SEGMENT, "not the eight segments of the whole log"
        assert on_disk(cluster, 2) < 4 * SEGMENT
    with closing(KafkaConsumer(bootstrap_servers=tiered.bootstrap.split(","), group_id=None)) as consumer:
        whole = TopicPartition(TOPIC, 0)
        consumer.assign([whole])
        assert (consumer.beginning_offsets([whole])[whole], consumer.end_offsets([whole])[whole]) == (0, RECORDS)
