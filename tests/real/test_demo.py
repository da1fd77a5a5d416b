"""All demos, as a visitor runs them: their exit status says whether all their claims held."""

import sys
from pathlib import Path

import pytest

from lab.testbed.process import run_bounded

pytestmark = pytest.mark.timeout(620)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="controller"),
        pytest.param(("--kraft",), id="executor", marks=pytest.mark.long),
        pytest.param(("--secured",), id="secured", marks=pytest.mark.long),
        pytest.param(("--serve",), id="service", marks=pytest.mark.long),
    ],
)
def test_all_that_the_demo_claims_is_true(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = run_bounded([sys.executable, "-m", "lab.demo", *options], timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of it held" in done.stdout
    assert list(tmp_path.iterdir()) == [], "a demo that held leaves no folder behind"
