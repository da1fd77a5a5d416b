"""docs/examples/dump_cruise_control.py against a broker: after several runs each sample is in a file once."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from lab.testbed.kraft import KRaftCluster

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parent.parent.parent / "docs" / "examples" / "dump_cruise_control.py"
OF_PARTITIONS, OF_BROKERS = "__KafkaCruiseControlPartitionMetricSamples", "__KafkaCruiseControlModelTrainingSamples"


def test_each_sample_is_dumped_once(tmp_path):
    folder = tmp_path / "dumped"

    def dumped(bootstrap):
        ended = subprocess.run(
            [sys.executable, str(SCRIPT), bootstrap, str(folder)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return ended.returncode, (ended.stdout + ended.stderr).strip()

    def values():
        tables = [pq.read_table(path) for path in folder.glob("*.parquet")]
        return sorted(value for table in tables for value in table.column("value").to_pylist())

    with KRaftCluster(tmp_path / "kraft", node_ids=(1,), heap_mib=200) as cluster:
        assert dumped(cluster.bootstrap) == (
            1,
            f"none of {OF_PARTITIONS}, {OF_BROKERS} is there: does Cruise Control keep its samples in Kafka?",
        )
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        admin.create_topics([NewTopic(OF_PARTITIONS, 3, 1), NewTopic(OF_BROKERS, 2, 1)])
        admin.close()
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)

        def write(topic, *records):
            for number, record in enumerate(records):
                producer.send(topic, value=record, key=b"k", partition=number % 2)
            producer.flush()

        write(OF_PARTITIONS, b"\x01a", b"\x01b", b"\x01c")
        write(OF_BROKERS, b"\x05d", None)
        assert dumped(cluster.bootstrap) == (0, "4 records"), "a deleted record has no value"
        assert dumped(cluster.bootstrap) == (0, "0 records")
        write(OF_BROKERS, b"\x05e")
        producer.close()
        assert dumped(cluster.bootstrap) == (0, "1 records")
    assert values() == [b"\x01a", b"\x01b", b"\x01c", b"\x05d", b"\x05e"]
    assert [path.suffix for path in folder.iterdir()] == [".parquet"] * 2
