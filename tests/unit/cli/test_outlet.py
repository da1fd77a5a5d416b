"""What becomes of a command whose output nobody reads, or for which there is no room."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.app.exit_codes import ExitCode
from shunter.cli.outlet import Outlet

SHUNTER = [sys.executable, "-m", "shunter"]
HELP = [*SHUNTER, "--help"]
FULL = Path("/dev/full")


def broken_pipe() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("command", [HELP, [*SHUNTER, "execute", "--help"]], ids=["help", "help of a verb"])
def test_a_reader_that_had_enough_is_no_failure(command: list[str]) -> None:
    writing = broken_pipe()
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (ExitCode.DONE, "")


def test_a_command_that_fails_keeps_its_status_where_nobody_reads() -> None:
    writing = broken_pipe()
    command = [*SHUNTER, "status", "--offline", "--journal", "/nowhere/x.journal"]
    done = subprocess.run(command, stdout=writing, stderr=writing, timeout=60, check=False)
    os.close(writing)
    assert done.returncode == ExitCode.JOURNAL


@pytest.mark.skipif(not FULL.exists(), reason="a device of Linux")
def test_output_for_which_there_is_no_room_is_a_failure_that_says_so() -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(HELP, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        ExitCode.PARTLY,
        "shunter: the output can't be written: No space left on device\n",
    )


def test_without_any_output_a_command_works() -> None:
    command = 'exec "$0" -m shunter --help >&- 2>&-'
    assert subprocess.run(["/bin/sh", "-c", command, sys.executable], timeout=60, check=False).returncode == 0


def test_what_goes_on_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    writing = broken_pipe()
    outlet = Outlet(writing)
    outlet.going_on = True
    with io.TextIOWrapper(io.BufferedWriter(outlet), encoding="utf-8") as stream:
        for _line in range(3):
            stream.write("a line\n")
            stream.flush()
    os.close(writing)
    assert capsys.readouterr().err == "shunter: nobody reads the output any more: this goes on without it\n"
    assert outlet.reader_left


def test_nothing_is_lost_while_somebody_reads() -> None:
    reading, writing = os.pipe()
    with io.TextIOWrapper(io.BufferedWriter(Outlet(writing)), encoding="utf-8") as stream:
        stream.write("a line\n")
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as received:
        assert received.read() == "a line\n"
