"""A process's processor time and memory, read in one place for the testbed and all benchmarks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.testbed.process_figures import cpu_seconds, peak_mib, resident_mib

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no /proc")

BENCHMARKS = Path(__file__).parents[3] / "lab" / "benchmarks"


def test_processor_seconds_are_those_that_the_process_counts_itself() -> None:
    before = time.process_time()
    assert before - 0.05 <= cpu_seconds(os.getpid()) <= time.process_time() + 0.05


def test_a_name_with_blanks_and_parentheses_is_no_figure(tmp_path: Path) -> None:
    command = tmp_path / "a) 9 (b"
    shutil.copy(shutil.which("sleep") or "", command)
    with subprocess.Popen([command, "60"]) as process:
        try:
            assert cpu_seconds(process.pid) < 5
        finally:
            process.kill()


def test_memory_is_in_mib_and_its_peak_is_not_below_it() -> None:
    assert 1 < resident_mib(os.getpid()) <= peak_mib(os.getpid()) < 100_000


def test_a_process_that_is_gone_is_an_error() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    for figure in (cpu_seconds, resident_mib, peak_mib):
        with pytest.raises(OSError, match=r"."):
            figure(process.pid)


def test_benchmarks_do_not_read_a_process_s_seconds_by_code_of_their_own() -> None:
    own = [path.name for path in BENCHMARKS.rglob("*.py") if re.search(r"/proc/.*/stat\b", path.read_text())]
    assert own == []
