"""Dumps Cruise Control's sample store as `shunter pipeline ingest --kind cruise-control` reads it. Needs no Spark.

    python dump_cruise_control.py kafka1:9092 cruise-control

If it runs again, by a timer or by hand, it goes on where it stopped (by a consumer group of its own, `shunter-dump`). It runs in the
environment in which Shunter is installed. It needs Read on both topics, and Read on the group. If the store's topics have other names
(`partition.metric.sample.store.topic`, `broker.metric.sample.store.topic`), name them after the folder.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from kafka import KafkaConsumer, TopicPartition

TOPICS = ["__KafkaCruiseControlPartitionMetricSamples", "__KafkaCruiseControlModelTrainingSamples"]
MOST = 100_000
"""Records in one file."""


def dump(bootstrap: str, folder: Path, topics: list[str]) -> int:
    """Write the records since the last run, and return their number. An offset is committed after its file is written."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id="shunter-dump",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    partitions = [
        TopicPartition(topic, number)
        for topic in topics
        for number in sorted(consumer.partitions_for_topic(topic) or ())
    ]
    if not partitions:
        raise SystemExit(f"none of {', '.join(topics)} is there: does Cruise Control keep its samples in Kafka?")
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    folder.mkdir(parents=True, exist_ok=True)
    values: list[bytes] = []
    written = 0

    def write() -> None:
        nonlocal written
        if not values:
            return
        path = folder / f"{time.time_ns()}.parquet"
        # Spark ignores names that begin with a dot, so it does not ingest an unfinished file.
        unfinished = folder / f".{path.name}"
        pq.write_table(pa.table({"value": pa.array(values, pa.binary())}), unfinished)
        unfinished.rename(path)
        consumer.commit()
        written += len(values)
        values.clear()

    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        for records in consumer.poll(timeout_ms=1_000).values():
            # A record without a value marks a deletion, because the store may be compacted.
            values += [record.value for record in records if record.value is not None]
        if len(values) >= MOST:
            write()
    write()
    consumer.close()
    return written


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit("usage: python dump_cruise_control.py HOST:PORT[,…] FOLDER [TOPIC…]")
    print(f"{dump(sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or TOPICS):,} records")
