"""A command's start: what asks no cluster and draws nothing does not wait for the libraries that do."""

from __future__ import annotations

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
