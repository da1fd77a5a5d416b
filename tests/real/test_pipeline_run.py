"""`shunter pipeline run` on a live cluster: collects, models, plans, schedules, executes, accounts, reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from lab.testbed.kraft import KRaftCluster
from shunter.formats.inventory_files import decode_inventory
from shunter.pipeline.session import SMALL_JAVA

DeltaTable = pytest.importorskip("deltalake").DeltaTable

# Long: with these 65 s Spark's share of the default run would exceed four minutes. `./demo` shows the command, too.
pytestmark = [pytest.mark.kraft, pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(600)]

PARTITIONS = 9


class Traffic:
    """Writes to all partitions until it is stopped, so that two snapshots differ."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()
        self._producer.close()

    def _write(self) -> None:
        number = 0
        while not self._over.wait(0.02):
            for partition in range(PARTITIONS):
                self._producer.send("orders", bytes(2_000), partition=partition)
            number += 1


def rows_of(folder: Path, table: str) -> list[dict]:
    return DeltaTable(folder / "lake" / table).to_pyarrow_table().to_pylist()


def test_from_a_live_cluster_to_its_report(work_dir: Path) -> None:
    racks = {1: "a", 2: "b", 3: "c"}
    with KRaftCluster(work_dir / "kraft", node_ids=(1, 2, 3), racks=racks, heap_mib=192) as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        # No replica of this topic is on broker 3, so a plan has moves.
        assignments = {number: [1 + number % 2, 2 - number % 2] for number in range(PARTITIONS)}
        admin.create_topics({"orders": {"assignments": assignments}})
        with Traffic(cluster.bootstrap):
            out = work_dir / "out"
            java = f"spark.driver.extraJavaOptions={SMALL_JAVA}"
            command = [
                sys.executable, "-m", "shunter", "pipeline", "--root", str(work_dir / "lake"), "--master", "local[2]",
                "--memory", "512m", "--conf", "spark.sql.shuffle.partitions=2", "--conf", java, "--conf",
                "spark.sql.codegen.wholeStage=false", "--conf", "spark.log.level=ERROR", "--conf",
                "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1", "run",
                "--bootstrap-server", cluster.bootstrap, "--out", str(out), "--snapshots", "3", "--every", "2s",
                "--throttle", "50000000", "--headroom-percent", "0",
            ]  # fmt: skip
            environment = os.environ | {"SHUNTER_STATE": str(work_dir / "state")}
            ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
        (topic,) = admin.describe_topics(["orders"])
        admin.close()
    held = [broker for partition in topic["partitions"] for broker in partition["replica_nodes"]]
    assert len(held) == 2 * PARTITIONS
    assert 5 <= held.count(3) <= 7
    snapshots = sorted((out / "snapshots").glob("*.jsonl"))
    assert len(snapshots) == 3
    taken = decode_inventory(snapshots[0].read_bytes(), "snapshot")
    assert [broker.rack for broker in taken.brokers] == ["a", "b", "c"]
    assert taken.unanswered == ()
    model = [row for row in rows_of(work_dir, "load_model") if row["topic"] == "orders"]
    assert len(model) == 2 * PARTITIONS
    assert {row["basis"] for row in model} == {"rates"}
    assert all(row["bytes_in_max"] > 10_000 for row in model if row["role"] == "leader")
    (plan,) = rows_of(work_dir, "account_plans")
    assert plan["moves"] == plan["done"] > 0
    assert plan["eta_error"] is not None
    page = (out / "report.html").read_text()
    assert ended.stdout.strip().endswith("report.html")
    for heading in ("Load per broker", "Moves as flows", "Timeline of moves", "Planned against real duration"):
        assert heading in page
    (reassignment,) = out.glob("*.json")
    assert json.loads(reassignment.read_text())["version"] == 1
