"""A process counts as dead only if that is proven."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shunter.drivers.host.process_identity import is_alive_here, is_dead, is_stopped, this_process

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no /proc")


def test_we_live():
    assert not is_dead(this_process())


def test_nobody_is_called_alive_who_is_elsewhere_or_somebody_else():
    us = this_process()
    assert is_alive_here(us)
    for changed in (
        {"boot_id": "elsewhere"},
        {"pid_namespace": "elsewhere"},
        {"started": 1},
        {"pid": 0},
        {"pid": 1 << 70},
    ):
        assert not is_alive_here(us._replace(**changed)), changed


@pytest.mark.parametrize(("state", "stopped"), [("T", True), ("t", True), ("S", False), ("D", False), ("Z", None)])
def test_who_is_stopped_is_told_by_proc(tmp_path, state, stopped):
    us = this_process()
    for name, text in (
        ("sys/kernel/random/boot_id", us.boot_id),
        (f"{us.pid}/stat", f"7 (a) b) {state} {'0 ' * 18}{us.started}"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to(us.pid_namespace)
    assert is_stopped(us, tmp_path) is stopped
    assert is_stopped(us._replace(started=1), tmp_path) is None
    assert is_stopped(us) is False


def test_a_process_that_ended_is_dead():
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from shunter.drivers.host.process_identity import this_process; print(*this_process(), sep='\\n')",
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


def test_a_process_that_proc_hides_is_not_taken_for_dead(tmp_path):
    """Mounted with `hidepid=2`, `/proc` has no folder for another user's process, even though it runs."""
    for shown in ("sys/kernel/random/boot_id", "self/ns/pid"):
        (tmp_path / shown).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
    (tmp_path / "self/ns/pid").symlink_to(Path("/proc/self/ns/pid").readlink())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as hidden:
        process = this_process()._replace(pid=hidden.pid)
        assert not is_dead(process, tmp_path)
        hidden.communicate(b"\n")
    assert is_dead(process, tmp_path), "with hidepid too, a process that has ended is known to be dead"


@pytest.mark.parametrize("pid", [0, -1, 1 << 70])
def test_a_number_that_is_no_pid_proves_nothing(pid):
    assert not is_dead(this_process()._replace(pid=pid))
