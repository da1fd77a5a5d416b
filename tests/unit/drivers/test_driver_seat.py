"""One executor per cluster and host."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shunter.drivers.journal.host_lock import DriverSeat, SeatTaken, StillDriver, standing_still
from shunter.drivers.journal.journals import LEASE_MS
from shunter.model.execution import LeaseHolder

HOST = socket.gethostname()
NOW = 1_800_000_000_000

SITTING = """
import sys, pathlib
from shunter.drivers.journal.host_lock import DriverSeat
seat = DriverSeat(pathlib.Path(sys.argv[1]), "c1", "first.journal")
print("sits", flush=True)
sys.stdin.read()
"""


@contextmanager
def sitting(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the seat of c1 under first.journal."""
    with subprocess.Popen(
        [sys.executable, "-c", SITTING, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sits\n"
        yield process


def test_a_second_one_is_refused_and_told_who_sits_there(tmp_path: Path) -> None:
    with sitting(tmp_path) as first:
        with pytest.raises(SeatTaken, match=f"driven by process {first.pid} under journal first.journal"):
            DriverSeat(tmp_path, "c1", "second.journal")
        DriverSeat(tmp_path, "c2", "second.journal").leave()
        first.send_signal(signal.SIGKILL)
        first.wait(30)
        DriverSeat(tmp_path, "c1", "second.journal").leave()


def test_a_seat_that_was_left_is_free(tmp_path: Path) -> None:
    DriverSeat(tmp_path, "c1", "first.journal").leave()
    DriverSeat(tmp_path, "c1", "second.journal").leave()


def test_who_has_the_seat_and_a_lease_that_has_run_out_stands_still(tmp_path: Path) -> None:
    mine = LeaseHolder("o", HOST, os.getpid(), NOW)
    assert standing_still(tmp_path, "a.journal", mine, HOST, NOW) is None, "nobody has the seat"
    seat = DriverSeat(tmp_path, "c1", "a.journal")
    found = standing_still(tmp_path, "a.journal", mine, HOST, NOW)
    assert found == StillDriver(os.getpid(), NOW - LEASE_MS, stopped=False)
    assert f"process {os.getpid()} has not renewed its lease since 2027-01-15 07:59:45 UTC" in str(found)
    for lease in (
        None,
        mine._replace(expires_at_ms=NOW + 1),
        mine._replace(host="elsewhere"),
        mine._replace(process=os.getpid() + 1),
    ):
        assert standing_still(tmp_path, "a.journal", lease, HOST, NOW) is None
    assert standing_still(tmp_path, "b.journal", mine, HOST, NOW) is None, "it has another journal"
    seat.leave()
    assert standing_still(tmp_path, "a.journal", mine, HOST, NOW) is None, "it has left, and lives on"


def test_who_was_killed_does_not_stand_still(tmp_path: Path) -> None:
    with sitting(tmp_path) as first:
        lease = LeaseHolder("o", HOST, first.pid, NOW)
        assert standing_still(tmp_path, "first.journal", lease, HOST, NOW) is not None
        first.kill()
        first.wait(30)
    assert standing_still(tmp_path, "first.journal", lease, HOST, NOW) is None


@pytest.mark.parametrize("told", ["", "process 7 under journal x", "[]", '{"process": 7}'])
def test_a_file_that_does_not_say_who_locked_it_names_nobody(tmp_path: Path, told: str) -> None:
    (tmp_path / "c1.driver").write_text(told)
    assert standing_still(tmp_path, "x", LeaseHolder("o", HOST, 7, NOW), HOST, NOW) is None
