"""The pipeline's job by spark-submit, on a standalone master with two workers without an installed Shunter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from lab.testbed.spark import SparkStandalone
from shunter.pipeline.session import SMALL_JAVA

pyspark = pytest.importorskip("pyspark")

# Long: more than two minutes of processor time.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(500)]

HOME = Path(pyspark.__file__).parent


def python_without_shunter(folder: Path) -> Path:
    """A Python with the dependencies but without Shunter: it ignores editable installs in a folder that a .pth adds."""
    venv.create(folder, with_pip=False)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import numpy, pyarrow, shunter"], capture_output=True, text=True, check=False
    )
    assert "No module named 'shunter'" in found.stderr
    return python


@pytest.fixture
def standalone(work_dir: Path, monkeypatch: pytest.MonkeyPatch):
    """(master's URL, a Python without Shunter)."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = python_without_shunter(work_dir / "bare")
    with SparkStandalone(work_dir / "spark", memory_per_worker_mib=512) as cluster:
        yield cluster.url, python


def samples(path: Path, cluster: str) -> None:
    rows = [
        {
            "cluster_id": cluster, "topic": "t", "partition": number, "broker_id": broker, "role": role,
            "window_start": f"2025-02-01T{hour:02}:00:00Z", "window_seconds": 3600, "bytes_in": 3600 * (number + 1),
            "size_bytes": 1000 * (number + 1),
        }
        for number in range(20)
        for hour in range(3)
        for broker, role in ((1, "leader"), (2 + number % 2, "follower"))
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_ingest_model_and_plan_run_where_shunter_is_not_installed(work_dir: Path, standalone) -> None:
    from shunter.pipeline.packaging import package

    url, python = standalone
    environment = os.environ | {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_DRIVER_PYTHON": str(python),
    }
    archive, _, main = package(work_dir / "package", environment=False)
    for cluster in ("north", "south"):
        samples(work_dir / f"{cluster}.json", cluster)

    def submit(*arguments: str) -> str:
        settings = {
            "spark.executor.memory": "512m",
            "spark.pyspark.python": str(python),
            "spark.driver.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.codegen.wholeStage": "false",
            "spark.executor.extraJavaOptions": SMALL_JAVA,
        }
        conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = [str(HOME / "bin" / "spark-submit"), "--master", url, "--py-files", str(archive), *conf, str(main)]
        ended = subprocess.run(
            [*command, "--root", str(work_dir / "lake"), *arguments],
            env=environment, cwd=work_dir, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
        return ended.stdout

    paths = [str(work_dir / f"{cluster}.json") for cluster in ("north", "south")]
    assert "240 rows taken, 0 put aside" in submit("ingest", *paths, "--kind", "json")
    assert "80 replicas, 80 with rates" in submit("model")
    told = submit("plan", "--out", str(work_dir / "plans"))
    assert "north: " in told
    assert "copies" in told
    for cluster in ("north", "south"):
        plan = json.loads((work_dir / "plans" / f"{cluster}.json").read_text())
        assert plan["partitions"]
        assert {broker for row in plan["partitions"] for broker in row["replicas"]} == {1, 2, 3}
    assert len([*(work_dir / "spark").rglob("app-*/*/shunter.zip")]) >= 2, "Shunter came with the job, to both workers"


def test_the_documents_way_works_on_machines_that_have_nothing(work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of docs/pipeline.md, word for word, except for the master, the folder, and the stage."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    page = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text().partition("## On a fleet's Spark")[2]
    written, submitted = page.partition("```\n")[2].partition("```")[0].replace("\\\n", " ").splitlines()
    venv.create(work_dir / "machine", with_pip=False)
    python = work_dir / "machine" / "bin" / "python3"
    ended = subprocess.run([python, "-c", "import click"], capture_output=True, text=True, check=False)
    assert "No module named 'click'" in ended.stderr
    # This command runs on the machine that has Shunter.
    made = subprocess.run(
        [sys.executable, "-m", *written.split()], cwd=work_dir, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    told = made.stdout.split("package/shunter_pipeline.py")[0].split()
    assert told[1:] == submitted.split("package/shunter_pipeline.py")[0].split()[3:], "as the documents say"
    samples(work_dir / "north.json", "north")
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL", "PYSPARK"))}
    bare |= {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    bare["PATH"] = f"{python.parent}:{HOME / 'bin'}:/usr/bin:/bin:{Path(shutil.which('java') or '').parent}"

    # Workers start the `python3` of their own PATH.
    monkeypatch.setenv("PATH", bare["PATH"])

    def submit(url: str, *arguments: str) -> str:
        words = submitted.split()
        words = words[: words.index("hdfs:///shunter")]
        words[words.index("spark://master:7077")] = url
        for name, value in SMALL.items():
            words[1:1] = ["--conf", f"{name}={value}"]
        ended = subprocess.run(
            [*words, str(work_dir / "lake"), *arguments],
            env=bare,
            cwd=work_dir,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
        return ended.stdout

    with SparkStandalone(work_dir / "spark", memory_per_worker_mib=512) as cluster:
        assert "120 rows taken, 0 put aside" in submit(
            cluster.url, "ingest", str(work_dir / "north.json"), "--kind", "json"
        )
        assert "40 replicas, 40 with rates" in submit(cluster.url, "model")
        assert "north: " in submit(cluster.url, "plan", "--out", "plans")
    assert json.loads((work_dir / "plans" / "north.json").read_text())["partitions"]


SMALL = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.executor.extraJavaOptions": SMALL_JAVA,
}
