"""Shunter's executor as a process of its own, as an operator runs it, and its JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from lab.testbed.process import ManagedProcess, run_bounded
from shunter.errors import DriverError

COMMAND_TIMEOUT_S = 60.0


class ExecutorProcess:
    """`shunter execute` and similar verbs against one cluster and one journal; one process after another."""

    def __init__(self, folder: Path, bootstrap: str, options: Sequence[str] = ()) -> None:
        """Describe it; nothing starts yet. `folder` is for its journal and its logs; each command gets `options`."""
        self._options = tuple(options)
        self.journal = folder / "demo.journal"
        self._folder = folder
        self._bootstrap = bootstrap
        self._lives = 0
        self._process: ManagedProcess | None = None
        self._read = 0
        self._latest: dict[str, Any] | None = None

    def start(self, verb: str, *arguments: str) -> None:
        """Start a process: `execute PLAN`, or `resume`."""
        self._lives += 1
        name = f"{verb}-{self._lives}"
        self._process = ManagedProcess(name, self._command(verb, *arguments, "--json"), self._folder)
        self._read, self._latest = 0, None
        self._process.start()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()

    @property
    def process(self) -> ManagedProcess:
        """The process of the last start.

        Raises:
            DriverError: no process was started.
        """
        if self._process is None:
            raise DriverError("the executor was not started", retriable=False)
        return self._process

    def look(self) -> dict[str, Any] | None:
        """The latest view of the execution; None before the process has written its first.

        Raises:
            DriverError: no process was started.
        """
        process = self.process
        with process.log_path.open("rb") as log:
            log.seek(self._read)
            whole, newline, _torn = log.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in whole.splitlines():
            if line.startswith(b'{"event":"progress"'):
                self._latest = orjson.loads(line)
        return self._latest

    def ended(self) -> int | None:
        """The exit status; None while the process runs."""
        return self.process.exit_status

    def log_tail(self) -> str:
        """The last lines of its log."""
        return self.process.log_tail(5)

    def order(self, verb: str, *arguments: str) -> dict[str, Any]:
        """Run a command as from another shell; returns its answer.

        Raises:
            DriverError: it printed no answer.
        """
        done = run_bounded(self._command(verb, *arguments, "--json"), timeout_s=COMMAND_TIMEOUT_S)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            told = f"shunter {verb} ended with {done.returncode}: {done.stdout}{done.stderr}"
            raise DriverError(told, retriable=False)
        answer: dict[str, Any] = orjson.loads(lines[-1])
        return answer

    def _command(self, verb: str, *arguments: str) -> Sequence[str]:
        where = ("--bootstrap-server", self._bootstrap, "--journal", str(self.journal), *self._options)
        return [sys.executable, "-m", "shunter", verb, *arguments, *where]
