"""A command's start: what asks no cluster and draws nothing does not wait for the libraries that do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = ("kafka", "kio", "numpy", "pandas", "pyspark", "pydantic", "rich", "scipy")


@pytest.mark.parametrize(
    "module",
    [
        "shunter.cli.execution.execute",
        "shunter.cli.execution.turn",
        "shunter.cli.execution.look",
        "shunter.cli.execution.throttles",
        "shunter.cli.execution.history",
        "shunter.cli.service.serve",
    ],
)
def test_orders_and_status_start_without_the_client_library(module: str) -> None:
    told = f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    "setting", [{}, {"_SHUNTER_COMPLETE": "bash_complete", "COMP_WORDS": "shunter s", "COMP_CWORD": "1"}]
)
def test_help_and_completion_import_no_verb(setting: dict[str, str]) -> None:
    """The help of all verbs took a second of processor time: each verb was imported for its first sentence."""
    program = (
        "import sys, shunter.cli; sys.argv = ['shunter', '--help']\n"
        "try:\n    shunter.cli.main(prog_name='shunter')\n"
        "finally:\n    print(*sorted(name for name in sys.modules if name.startswith('shunter.')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ, **setting}
    )
    assert "status" in done.stdout
    allowed = (
        "shunter.errors",
        "shunter.app",
        "shunter.app.access",
        "shunter.app.access.private_files",
        "shunter.app.exit_codes",
    )
    imported = [name for name in done.stderr.split() if not name.startswith("shunter.cli") and name not in allowed]
    assert imported == []
    assert "shunter.cli.execution" not in done.stderr.split()
