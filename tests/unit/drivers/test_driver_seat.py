"""One executor per cluster and host."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.drivers.driver_seat import DriverSeat, SeatTaken

SITTING = """
import sys, pathlib
from shunter.drivers.driver_seat import DriverSeat
seat = DriverSeat(pathlib.Path(sys.argv[1]), "c1", "first.journal")
print("sits", flush=True)
sys.stdin.read()
"""


def test_a_second_one_is_refused_and_told_who_sits_there(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SITTING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "sits\n"
        with pytest.raises(SeatTaken, match=f"driven by process {first.pid} under journal first.journal"):
            DriverSeat(tmp_path, "c1", "second.journal")
        DriverSeat(tmp_path, "c2", "second.journal").leave()
        first.send_signal(signal.SIGKILL)
        first.wait(30)
        DriverSeat(tmp_path, "c1", "second.journal").leave()


def test_a_seat_that_was_left_is_free(tmp_path: Path) -> None:
    DriverSeat(tmp_path, "c1", "first.journal").leave()
    DriverSeat(tmp_path, "c1", "second.journal").leave()
