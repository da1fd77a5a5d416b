"""The commands by themselves: Delta's jars are fetched once, and a batch that is given again changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.pipeline.session import SMALL_JAVA

pytest.importorskip("pyspark")

# Long: it fetches Delta's jars the first time.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1_200)]


def samples(path: Path, hours: range) -> str:
    rows = [
        {
            "cluster_id": "yard", "topic": "t", "partition": number, "broker_id": 1, "role": "leader",
            "window_start": f"2025-02-01T{hour:02}:00:00Z", "window_seconds": 3600, "bytes_in": 3600,
        }
        for number in range(5)
        for hour in hours
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": SMALL_JAVA,
}


def test_two_batches_one_again_and_a_model(work_dir: Path) -> None:
    def pipeline(*arguments: str) -> str:
        settings = [part for name, value in CONF.items() for part in ("--conf", f"{name}={value}")]
        command = [
            sys.executable,
            "-m",
            "shunter",
            "pipeline",
            "--root",
            str(work_dir / "lake"),
        ]
        command += ["--master", "local[2]", "--memory", "512m", *settings, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
        return ended.stdout + ended.stderr

    first, second = samples(work_dir / "a.json", range(3)), samples(work_dir / "b.json", range(2, 4))
    assert "15 rows taken, 0 put aside" in pipeline("ingest", first, "--kind", "json")
    told = pipeline("ingest", first, second, "--kind", "json")
    assert "a.json: taken before, skipped" in told
    assert "5 rows taken, 5 put aside" in told
    assert "already_ingested: 5" in told
    assert (work_dir / "lake" / "samples" / "_delta_log").is_dir()
    assert "rolled up by commit compact-" in pipeline("compact")
    assert "5 replicas, 5 with rates" in pipeline("model")
