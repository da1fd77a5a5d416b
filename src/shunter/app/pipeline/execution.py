"""Carries out a pipeline's plan by the executor, and returns its journal.

The executor is a process of its own: a failure of Spark or of this process must not affect a move. Its journal keeps
the state of the moves.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from shunter.app.executor.journal_export import export_journal
from shunter.errors import DriverError


def executor_for(
    bootstrap: str, properties: Path | None, throttle: float | None, out: Path
) -> Callable[[Path, str], Path]:
    """An `Execute` for `run`: `shunter execute` on the same cluster, its journal in `out`."""

    def execute(reassignment: Path, plan_id: str) -> Path:
        journal = out / f"{reassignment.stem}.journal"
        command = [sys.executable, "-m", "shunter", "execute", str(reassignment), "--bootstrap-server", bootstrap]
        command += ["--journal", str(journal), "--yes"]
        if properties is not None:
            command += ["--command-config", str(properties)]
        if throttle is not None:
            command += ["--throttle", str(int(throttle))]
        # The executor's output goes to standard error; standard output is for the report's path.
        ended = subprocess.run(command, stdout=sys.stderr, check=False)
        if not journal.exists():
            raise DriverError(f"the execution ended with {ended.returncode} before it had a journal", retriable=True)
        return export_journal(journal, out / f"{plan_id}.jsonl", plan_id=plan_id)

    return execute
