"""`shunter bundle` is made with a network, and installed and run without one."""

import subprocess
import sys
from pathlib import Path

import pytest

from shunter.app.bundle import SHA256SUMS, dependencies, locked_lines
from shunter.errors import SettingsError

pytestmark = pytest.mark.kraft

ROOT = Path(__file__).parents[2]
STREAMS = (
    "from shunter.pipeline.session import *\n"
    "import sys; from pathlib import Path\n"
    "spark = open_session(SessionSettings(master='local[1]', packages=(KAFKA_SOURCE,), ivy_cache=Path(sys.argv[1])))\n"
    "spark.readStream.format('kafka').option('subscribe', 't').option('kafka.bootstrap.servers', 'x:1').load()\n"
    "spark.stop(); print('streams')\n"
)


def offline(*command: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a network namespace that has the loopback alone."""
    whole = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *map(str, command)]
    return subprocess.run(whole, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(2_400)
def test_a_bundle_is_installed_and_runs_without_a_network(tmp_path: Path) -> None:
    if offline("true").returncode != 0:
        pytest.skip("this machine gives nobody a network of his own (unshare -rn)")
    out, environment = tmp_path / "bundle", tmp_path / "environment"
    command = [sys.executable, "-m", "shunter", "bundle", str(out), "--source", str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=2_000, check=False)
    assert made.returncode == 0, made.stderr
    assert (
        offline(sys.executable, "-c", "import socket; socket.create_connection(('pypi.org', 443), 5)").returncode == 1
    )
    installed = offline("env", f"PYTHON={sys.executable}", "sh", out / "install.sh", environment)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    python, cache = environment / "bin" / "python", out / "cache"
    steps = offline(
        environment / "bin" / "shunter", "steps", "--replicas", "0,1,2", "--target", "3,4,5", "--leader", "0"
    )
    assert "4 steps, 3 replicas copied." in steps.stdout, steps.stderr
    assert "No module named 'lab'" in offline(python, "-c", "import lab").stderr, "the wheel has no lab"
    streamed = offline(python, "-c", STREAMS, cache / "ivy")
    assert "streams" in streamed.stdout, streamed.stderr[-3_000:]
    (out / "wheels" / "planted.whl").write_text("x")
    (out / "requirements.txt").write_text((out / "requirements.txt").read_text() + "\n")
    assert "requirements.txt" in (out / SHA256SUMS).read_text()
    refused = offline("sh", out / "install.sh", tmp_path / "other")
    assert refused.returncode != 0
    assert "requirements.txt: FAILED" in refused.stdout


def test_what_a_bundle_has_is_what_is_locked() -> None:
    names = dependencies(["kazoo", "pyjwt[crypto]", 'x; extra == "no"'])
    assert {"kazoo", "pyjwt"} <= set(names)
    lines = locked_lines((ROOT / "requirements.lock").read_text(), ["kazoo", "pyjwt"])
    assert list(lines) == ["kazoo", "pyjwt"]
    for name, text in lines.items():
        assert text.startswith(f"{name}==")
        assert "--hash=sha256:" in text
        assert "# via" not in text
    lock = "numpy==2.4.6 ; python_version < '3.12' \\\n    --hash=sha256:a\nnumpy==2.5.0 \\\n    --hash=sha256:b\n    # via x\n"
    assert locked_lines(lock, ["numpy"])["numpy"].count("numpy==") == 2, "pip takes the one that is for its Python"
    with pytest.raises(SettingsError, match="has no nobody: run scripts/lock"):
        locked_lines((ROOT / "requirements.lock").read_text(), ["nobody"])
