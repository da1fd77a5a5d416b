"""What a verb says where its extra is not installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("missing", "words", "told"),
    [
        ("pyspark", ["pipeline", "model"], "shunter: pyspark is not installed: pip install 'shunter[pipeline]'\n"),
        (
            "pydantic",
            ["controller", "--zookeeper", "zk:2181", "--broker-id", "9"],
            "shunter: pydantic is not installed: pip install 'shunter[controller]'\n",
        ),
        (
            "scipy",
            ["plan", "--from", "yard.json", "--bound", "lp"],
            "shunter: scipy is not installed: pip install 'scipy'",
        ),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_brings_it(
    missing: str, words: list[str], told: str, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    (tmp_path / "yard.json").write_text(page.split("```json\n")[1].split("```")[0], encoding="utf-8")
    program = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['shunter', *{words!r}]\n"
        "from shunter.cli import main; main(prog_name='shunter')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert told in done.stderr


def test_the_wheel_without_extras_has_neither_spark_nor_a_web_server() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not {"pyspark", "pandas", "pyarrow", "scipy", "fastapi"} & {
        name.split(">")[0] for name in project["dependencies"]
    }
    named = ",".join(
        sorted(set(project["optional-dependencies"]) - {"all", "msk"}, key=["controller", "service", "pipeline"].index)
    )
    assert project["optional-dependencies"]["all"] == [f"shunter[{named}]"]
