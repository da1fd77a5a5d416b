"""The examples of docs/examples, run whole by a real Airflow and a real Dagster; all stages share one Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from locked_programs import ROOT, binaries

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2_400)]

EXAMPLES = ROOT / "docs" / "examples"
PARTITIONS = 6
MINUTES = 40
BYTES = 100
"""The size of a message."""


def messages(partition: int) -> int:
    """Messages a minute."""
    return 600 * (partition + 1)


def made_landing(folder: Path, now: int) -> None:
    """Snapshots and Prometheus' answer for three brokers, of which broker 1 leads everything: 40 minutes until now."""
    begin = now - 60 * MINUTES
    (folder / "snapshots").mkdir(parents=True)
    (folder / "prometheus").mkdir()
    for minute in (0, 20, MINUTES):
        known = {"version": 1, "cluster_id": "yard", "taken_at_ms": (begin + 60 * minute) * 1000}
        brokers = [
            {"id": n, "host": f"kafka{n}", "rack": f"r{n}", "disk_total_bytes": 10**12, "disk_usable_bytes": 9 * 10**11}
            for n in (1, 2, 3)
        ]
        lines = [{"kind": "cluster", **known, "brokers": brokers, "unanswered": [], "partitions": PARTITIONS}]
        for n in range(PARTITIONS):
            end = messages(n) * minute
            of_partition = {"topic": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partition": n}
            held = {
                "replicas": [1, 2],
                "isr": [1, 2],
                "leader": 1,
                "start_offset": 0,
                "end_offset": end,
                "min_insync": 1,
                "cleanup_policy": "delete",
            }
            sizes = [{"broker": broker, "bytes": end * BYTES} for broker in (1, 2)]
            lines.append({"kind": "partition", **known, **of_partition, **held, "sizes": sizes})
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "snapshots" / f"yard-{minute}.jsonl").write_text(text)
    answer = {"status": "success", "data": {"resultType": "matrix", "result": series_of_brokers(begin)}}
    (folder / "prometheus" / "answer.json").write_text(json.dumps(answer))


def series_of_brokers(begin: int) -> list[dict[str, object]]:
    """The series of the JMX exporters of brokers 1 and 2, by the minute."""
    found: list[dict[str, object]] = []

    def series(name: str, broker: int, value: Callable[[int], int], **labels: str) -> None:
        metric = {"__name__": name, "instance": f"kafka{broker}:7071", "topic": "orders", **labels}
        values = [[begin + 60 * minute, str(value(minute))] for minute in range(MINUTES + 1)]
        found.append({"metric": metric, "values": values})

    total = sum(messages(n) for n in range(PARTITIONS)) * BYTES
    series("kafka_server_brokertopicmetrics_bytesin_total", 1, lambda minute: total * minute)
    series("kafka_server_brokertopicmetrics_bytesout_total", 1, lambda minute: 3 * total * minute)
    for n in range(PARTITIONS):
        for broker in (1, 2):
            of_partition = {"partition": str(n)}
            led = 2 if broker == 1 else 0
            series("kafka_log_log_size", broker, lambda minute, n=n: messages(n) * minute * BYTES, **of_partition)
            series("kafka_log_log_logendoffset", broker, lambda minute, n=n: messages(n) * minute, **of_partition)
            series("kafka_cluster_partition_insyncreplicascount", broker, lambda _, led=led: led, **of_partition)
    return found


def run(command: Sequence[str | Path], folder: Path, home: dict[str, str]) -> str:
    """Run a scheduler on a landing folder; returns its output."""
    landing, plans = folder / "landing", folder / "plans"
    made_landing(landing, int(time.time()) // 60 * 60)
    plans.mkdir()
    shunter = folder / "shunter"
    shunter.write_text(f'#!/bin/sh\nexec {sys.executable} -m shunter "$@"\n')
    shunter.chmod(0o700)
    environment = {
        **os.environ,
        **home,
        "SHUNTER": str(shunter),
        "SHUNTER_OPTIONS": "--master local[2] --memory 1g",
        "SHUNTER_LAKE": str(folder / "lake"),
        "SHUNTER_LANDING": str(landing),
        "SHUNTER_CLUSTER": "yard",
        "SHUNTER_BROKERS": "--broker kafka1:7071=1 --broker kafka2:7071=2",
        "SHUNTER_PLANS": str(plans),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1_200, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-8_000:]
    return told


def check(folder: Path) -> None:
    """The model has each partition's real rates, and every stage left its result."""
    rows = pq.read_table(folder / "lake" / "load_model" / "cluster_id=yard").to_pylist()
    leaders = {row["partition"]: row for row in rows if row["role"] == "leader"}
    assert sorted(leaders) == list(range(PARTITIONS))
    for n, row in leaders.items():
        rate = messages(n) * BYTES / 60
        assert row["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
        assert (row["bytes_in_p95"], row["bytes_out_p95"]) == (pytest.approx(rate), pytest.approx(3 * rate))
    plan = json.loads((folder / "plans" / "yard.json").read_text())
    # Broker 1 led and held everything: a plan brings replicas to broker 3.
    assert any(3 in row["replicas"] for row in plan["partitions"])
    assert "<html" in (folder / "plans" / "report.html").read_text()
    for table in ("hourly", "daily", "data_quality", "plans", "schedules"):
        assert list((folder / "lake" / table).rglob("*.parquet")), table


def test_airflow_runs_the_whole_dag(tmp_path: Path) -> None:
    airflow = binaries("airflow") / "airflow"
    home = {"AIRFLOW_HOME": str(tmp_path / "home"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    environment = os.environ | home
    subprocess.run([airflow, "db", "migrate"], env=environment, capture_output=True, timeout=300, check=True)
    dags = tmp_path / "home" / "dags"
    dags.mkdir(exist_ok=True)
    shutil.copy(EXAMPLES / "airflow_shunter.py", dags)
    told = run([airflow, "dags", "test", "shunter_pipeline"], tmp_path, home)
    check(tmp_path)
    assert told.count("[DAG TEST] end task") == 1


def test_dagster_runs_the_whole_job(tmp_path: Path) -> None:
    dagster = binaries("dagster") / "dagster"
    (tmp_path / "home").mkdir()
    home = {"DAGSTER_HOME": str(tmp_path / "home"), "DAGSTER_DISABLE_TELEMETRY": "1"}
    example = EXAMPLES / "dagster_shunter.py"
    told = run([dagster, "job", "execute", "-f", example, "-j", "shunter_pipeline"], tmp_path, home)
    check(tmp_path)
    assert told.count("STEP_SUCCESS") == 1
