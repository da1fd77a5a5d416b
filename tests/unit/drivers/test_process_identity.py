"""A process is called dead only where that is proven."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shunter.drivers.process_identity import is_dead, this_process

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no /proc")


def test_we_live():
    assert not is_dead(this_process())


def test_a_process_that_ended_is_dead():
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from shunter.drivers.process_identity import this_process; print(*this_process(), sep='\\n')",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    ended = type(this_process())(told[0], told[1], int(told[2]), int(told[3]))
    assert ended[:2] == this_process()[:2]
    assert is_dead(ended)


def test_another_process_with_our_pid_but_another_start_was_somebody_else():
    assert is_dead(this_process()._replace(started=1))


@pytest.mark.parametrize("field", ["boot_id", "pid_namespace"])
def test_nobody_knows_about_processes_elsewhere(field):
    assert not is_dead(this_process()._replace(started=1, **{field: "elsewhere"}))
