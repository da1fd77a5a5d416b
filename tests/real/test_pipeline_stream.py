"""A stream of samples from a topic on a real broker: though it is killed in the middle, each sample is stored once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from lab.testbed.kraft import KRaftCluster
from shunter.pipeline.session import SMALL_JAVA

deltalake = pytest.importorskip("deltalake")

pytestmark = [pytest.mark.kraft, pytest.mark.spark, pytest.mark.timeout(600)]

T0 = 1_738_368_000
SAMPLES = 3_000


def sample(number: int) -> bytes:
    row = {
        "cluster_id": "yard", "topic": "orders", "partition": number % 50, "broker_id": number % 3, "role": "leader",
        "window_start": T0 + 60 * (number // 50), "window_seconds": 60, "bytes_in": number,
    }  # fmt: skip
    return json.dumps(row).encode()


def start_stream(bootstrap: str, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    # Small queries: compiling them costs more than running them.
    java = f"spark.driver.extraJavaOptions={SMALL_JAVA}"
    command = [
        sys.executable, "-m", "shunter", "pipeline", "--root", str(folder / "lake"), "--master", "local[2]",
        "--memory", "512m", "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.bindAddress=127.0.0.1",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", java, "--conf",
        "spark.sql.codegen.wholeStage=false", "--conf", "spark.log.level=ERROR", "ingest", "--bootstrap-server", bootstrap, "--topic", "samples",
        "--checkpoint", str(folder / "checkpoint"), "--every", "1s", "--records-per-batch", "400", *more,
    ]  # fmt: skip
    with (folder / "stream.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def committed(folder: Path) -> dict[str, dict]:
    """Batches that count, by their id."""
    try:
        table = deltalake.DeltaTable(folder / "lake" / "batches")
    except deltalake.exceptions.TableNotFoundError:  # There is no commit yet.
        return {}
    return {one["ingest_id"]: one for one in table.to_pyarrow_table().to_pylist()}


def wait_for(condition, process: subprocess.Popen[bytes], folder: Path, within: float) -> None:
    until = time.monotonic() + within
    gate = __import__("threading").Event()
    while not condition():
        ended = process.poll()
        assert ended is None, f"the stream ended with {ended}: {(folder / 'stream.log').read_text()[-3000:]}"
        assert time.monotonic() < until, f"not within {within} s: {(folder / 'stream.log').read_text()[-3000:]}"
        gate.wait(0.2)


def rows_of(folder: Path, verdict: str) -> list[dict]:
    table = folder / "lake" / "samples"
    if not table.exists():
        return []
    alive = set(committed(folder))
    rows = deltalake.DeltaTable(table).to_pyarrow_table().to_pylist()
    return [row for row in rows if row["ingest_id"] in alive and row["verdict"] == verdict]


@pytest.mark.long
def test_killed_in_the_middle_each_sample_is_there_once(work_dir: Path) -> None:
    with KRaftCluster(work_dir / "kraft") as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        admin.create_topics({"samples": {"num_partitions": 3, "replication_factor": 1}})
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)

        def send(values: list[bytes]) -> None:
            # One partition keeps the order of time, so a sample is late because of its own window alone.
            for value in values:
                producer.send("samples", value, partition=0)
            producer.flush()

        send([sample(number) for number in range(SAMPLES)])
        first = start_stream(cluster.bootstrap, work_dir)
        try:
            wait_for(lambda: len(committed(work_dir)) >= 2, first, work_dir, 250.0)
        finally:
            os.killpg(first.pid, signal.SIGKILL)
            first.wait()
        before = len(committed(work_dir))
        assert before < -(-SAMPLES // 400), "it was killed in the middle"
        again = [sample(0)]
        late = [json.dumps({**json.loads(sample(0)), "window_start": T0 - 7_200}).encode()]
        send([*again, *late, b"{broken"])
        second = start_stream(cluster.bootstrap, work_dir, "--until-caught-up")
        try:
            wait_for(lambda: second.poll() == 0, _Patient(second), work_dir, 250.0)
        finally:
            if second.poll() is None:
                os.killpg(second.pid, signal.SIGKILL)
            second.wait()
        producer.close()
        admin.close()
    good = rows_of(work_dir, "good")
    assert len(good) == SAMPLES
    assert sorted(row["bytes_in"] for row in good) == list(range(SAMPLES))
    assert sorted(row["rule"] for row in rows_of(work_dir, "rejected")) == ["already_ingested", "late", "not_readable"]
    batches = committed(work_dir)
    assert len({batch["stream"]["query"] for batch in batches.values()}) == 1, "one query, whose batches count on"
    assert sum(batch["good"] for batch in batches.values()) == SAMPLES


class _Patient:
    """A process whose exit status 0 is not a failure."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.poll() or None
