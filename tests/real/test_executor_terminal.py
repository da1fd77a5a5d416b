"""Ctrl-C at a terminal: once asks what to do, twice leaves everything running under the journal."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_process import Shunter
from executor_scenarios import ORIGINAL, Yard
from tidying import remember

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode

pytestmark = [pytest.mark.kraft, pytest.mark.long, pytest.mark.timeout(300)]


class Terminal:
    """A command on a pseudo-terminal, as if a person used it."""

    def __init__(self, command: list[str]) -> None:
        """Start it."""
        self._ours, theirs = os.openpty()
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm", "COLUMNS": "120"}
        )
        remember(self.process)
        os.close(theirs)
        self.shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                found = os.read(self._ours, 65_536)
            except OSError:  # A terminal's error after the last process closed its other end.
                return
            self.shown += found

    def wait_for(self, text: bytes) -> None:
        wait_until(
            lambda: text in self.shown or self.process.poll() is not None, what=f"{text!r} is shown", timeout_s=90
        )
        assert text in self.shown, self.shown[-2000:]

    def type(self, text: bytes) -> None:
        os.write(self._ours, text)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        try:
            return self.process.wait(120)
        finally:
            self.process.kill()
            self._reader.join(10)
            os.close(self._ours)


@pytest.fixture
def yard(kraft: KRaftCluster, tmp_path: Path) -> Iterator[Yard]:
    made = Yard(kraft.bootstrap, tmp_path)
    yield made
    made.close()


def begun(shunter: Shunter, plan: str) -> Terminal:
    terminal = Terminal(shunter.command("execute", plan, "--throttle", "100K"))
    terminal.wait_for(b"Begin?")
    terminal.type(b"y\n")
    terminal.wait_for(b"catches up")
    return terminal


def test_ctrl_c_once_asks_and_does_what_is_said(yard: Yard) -> None:
    terminal = begun(yard.shunter, yard.plan)
    terminal.interrupt()
    terminal.wait_for(b"[c]ontinue?")
    assert b"a rollback would copy" in terminal.shown
    terminal.type(b"r\n")
    assert terminal.end() == ExitCode.TURNED, terminal.shown[-2000:]
    assert b"moves are rolled back" in terminal.shown
    yard.ended_in(ORIGINAL)


def test_ctrl_c_twice_leaves_everything_running_under_the_journal(yard: Yard) -> None:
    terminal = begun(yard.shunter, yard.plan)
    terminal.interrupt()
    terminal.wait_for(b"[c]ontinue?")
    terminal.interrupt()
    assert terminal.end() == ExitCode.LEFT, terminal.shown[-2000:]
    assert b"`shunter resume` goes on" in terminal.shown
    assert yard.cluster.ongoing() > 0
    assert yard.shunter.run("rollback", "--yes").returncode == ExitCode.DONE
    yard.ended_in(ORIGINAL)
