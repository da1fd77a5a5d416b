"""The wheel in empty environments: its size without extras, and each part's verbs with that part's extra alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASE_MIB = 160

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=1200, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built = run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT
    )
    assert built.returncode == 0, built.stderr
    return next(folder.glob("shunter-*.whl"))


def installed(wheel: Path, folder: Path, extra: str) -> Path:
    """The folder of commands of an environment that has the wheel with one extra, or with none."""
    assert run(sys.executable, "-m", "venv", folder).returncode == 0
    done = run(folder / "bin" / "pip", "install", "--quiet", f"{wheel}{extra}")
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def size_mib(folder: Path) -> float:
    """What `pip install` brought: packages without the tools that every environment has."""
    tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    files = (path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] not in tools)
    return sum(path.stat().st_size for path in files) / 2**20


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("", ["plan", "--from", "yard.json"]),
        ("[controller]", ["controller", "--zookeeper", "127.0.0.1:1", "--broker-id", "9", "--check"]),
        ("[service]", ["serve", "run", "policy.toml", "--once"]),
        ("[pipeline]", ["pipeline", "quality", "--lake", "nothing"]),
    ],
)
def test_the_verbs_of_a_part_run_with_its_extra_alone(
    wheel: Path, tmp_path: Path, extra: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    Path("yard.json").write_text(page.split("```json\n")[1].split("```")[0], encoding="utf-8")
    Path("policy.toml").write_text('version = 1\n[cluster.one]\nbootstrap_servers = "127.0.0.1:1"\n', encoding="utf-8")
    commands = installed(wheel, tmp_path / "environment", extra)
    done = run(commands / "shunter", *words)
    told = done.stdout + done.stderr
    assert "Traceback" not in told
    assert "is not installed" not in told
    if not extra:
        assert (done.returncode, "4 replicas to copy" in told) == (0, True), told
        assert size_mib(next((tmp_path / "environment").glob("lib/python*/site-packages"))) <= BASE_MIB
        assert "shunter[pipeline]" in run(commands / "shunter", "pipeline", "model").stderr
