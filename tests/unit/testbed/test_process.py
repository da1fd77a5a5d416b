"""Child processes end when they should; their figures; and waits for conditions."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.testbed import waiting
from lab.testbed.failures import PartFailed, PortStolen
from lab.testbed.process import ManagedProcess, run_bounded
from lab.testbed.process_figures import cpu_seconds, peak_mib, resident_mib
from lab.testbed.waiting import stays, wait_until

BOUND_S = 20.0
DEAF = "trap '' TERM; echo deaf; while :; do read -r _ </dev/zero || :; done"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no /proc")
BENCHMARKS = Path(__file__).parents[3] / "lab" / "benchmarks"


def state_of(pid: int) -> str:
    """The kernel's letter for a process: S sleeping, T stopped, Z ended but not yet waited for; empty if gone."""
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout.strip()[:1]


def is_gone(pid: int) -> bool:
    return state_of(pid) in ("", "Z")


@pytest.fixture
def patient(work_dir: Path) -> Iterator[ManagedProcess]:
    """A process that does nothing for a long time."""
    with ManagedProcess("patient", ["sleep", "300"], work_dir) as process:
        yield process


def test_a_process_lives_until_it_is_stopped(patient: ManagedProcess) -> None:
    assert patient.alive
    assert patient.exit_status is None
    patient.stop()
    assert not patient.alive
    assert patient.exit_status == -signal.SIGTERM


def test_a_process_can_be_killed_and_started_again(patient: ManagedProcess) -> None:
    first = patient.pid
    patient.kill()
    assert patient.exit_status == -signal.SIGKILL
    patient.start()
    assert patient.alive
    assert patient.pid != first


def test_a_process_is_not_started_twice(patient: ManagedProcess) -> None:
    with pytest.raises(PartFailed, match=f"patient runs already as process {patient.pid}"):
        patient.start()


def test_a_frozen_process_lives_and_can_still_be_stopped(patient: ManagedProcess) -> None:
    assert patient.pid is not None
    patient.pause()
    wait_until(lambda: state_of(patient.pid) == "T", what="the process is frozen", timeout_s=BOUND_S)
    assert patient.alive
    patient.resume()
    wait_until(lambda: state_of(patient.pid) == "S", what="the process goes on", timeout_s=BOUND_S)
    patient.pause()
    patient.stop()
    assert patient.exit_status == -signal.SIGTERM


def test_what_does_not_hear_is_killed_after_the_bound(work_dir: Path) -> None:
    with ManagedProcess("deaf", ["/bin/sh", "-c", DEAF], work_dir) as process:
        process.wait_ready(lambda: "deaf" in process.log_tail(), what="it listens no more", timeout_s=BOUND_S)
        process.stop(timeout_s=0.2)
        assert process.exit_status == -signal.SIGKILL


def test_what_a_process_started_goes_with_it(work_dir: Path) -> None:
    script = "sleep 300 & echo child $!; exit 0"
    with ManagedProcess("parent", ["/bin/sh", "-c", script], work_dir) as process:
        assert process.wait(BOUND_S) == 0
    child = int(process.log_tail().split()[-1])
    wait_until(lambda: is_gone(child), what="the grandchild has ended", timeout_s=BOUND_S)


def test_a_process_that_ends_too_soon_is_told_with_its_log(work_dir: Path) -> None:
    with (
        ManagedProcess("hasty", ["/bin/sh", "-c", "echo no such luck >&2; exit 3"], work_dir) as process,
        pytest.raises(PartFailed, match=r"(?s)hasty ended with status 3 before it serves.*hasty\.log\nno such luck"),
    ):
        process.wait_ready(lambda: False, what="it serves", timeout_s=BOUND_S)


def test_a_process_that_is_not_ready_in_time_is_told_with_its_log(work_dir: Path) -> None:
    with (
        ManagedProcess("slow", ["/bin/sh", "-c", "echo thinking; exec sleep 300"], work_dir) as process,
        pytest.raises(PartFailed, match=r"(?s)bound 0\.3 s\) in vain for slow until it serves.*thinking"),
    ):
        process.wait_ready(lambda: False, what="it serves", timeout_s=0.3)


def test_a_stolen_port_is_told_from_other_failures(work_dir: Path) -> None:
    script = "echo java.net.BindException: Address already in use; exit 1"
    with (
        ManagedProcess("late", ["/bin/sh", "-c", script], work_dir) as process,
        pytest.raises(PortStolen),
    ):
        process.wait_ready(lambda: False, what="it serves", timeout_s=BOUND_S)


def test_the_log_is_kept_over_lives_and_the_tail_is_the_last_life(work_dir: Path) -> None:
    process = ManagedProcess("twice", ["/bin/sh", "-c", "echo life $$"], work_dir)
    lives = []
    for _ in range(2):
        process.start()
        process.wait(BOUND_S)
        lives.append(f"life {process.pid}")
    assert process.log_path.read_text().splitlines() == lives
    assert process.log_tail() == lives[1]


def test_a_bounded_run_gives_back_what_was_written() -> None:
    done = run_bounded(["/bin/sh", "-c", "cat; echo aside >&2; exit 4"], timeout_s=BOUND_S, input_text="to be read")
    assert (done.returncode, done.stdout, done.stderr) == (4, "to be read", "aside\n")


def test_a_bounded_run_ends_at_its_bound() -> None:
    with pytest.raises(PartFailed, match=r"(?s)still ran after 0\.5 s and was killed.*started"):
        run_bounded(["/bin/sh", "-c", "echo started; exec sleep 300"], timeout_s=0.5)


PARENT = """
import signal, sys, threading
from pathlib import Path
from lab.testbed.process import ManagedProcess
# Under nohup SIGHUP is ignored, and in the background of a shell SIGINT is; both have to end this process.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
children = [ManagedProcess(name, ["sleep", "300"], Path(sys.argv[1])) for name in ("walking", "frozen")]
# The children are started by a thread that ends at once: they must not end with that thread.
starter = threading.Thread(target=lambda: [child.start() for child in children])
starter.start()
starter.join()
children[1].pause()
print(*(child.pid for child in children), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent(work_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another Python process that starts two children and then waits for the end of its input."""
    command = [sys.executable, "-c", PARENT, str(work_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def children_of(parent: subprocess.Popen[str]) -> list[int]:
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    return pids


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_children_end_when_the_parent_is_ended_by_a_signal(
    parent: subprocess.Popen[str], number: signal.Signals
) -> None:
    pids = children_of(parent)
    assert not any(is_gone(pid) for pid in pids)
    os.kill(parent.pid, number)
    wait_until(lambda: all(is_gone(pid) for pid in pids), what=f"{pids} have ended", timeout_s=BOUND_S)


def test_children_end_when_the_parent_just_ends(parent: subprocess.Popen[str]) -> None:
    pids = children_of(parent)
    assert parent.stdin is not None
    parent.stdin.close()
    assert parent.wait(BOUND_S) == 0
    wait_until(lambda: all(is_gone(pid) for pid in pids), what=f"{pids} have ended", timeout_s=BOUND_S)


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


def test_a_bound_is_told_when_it_is_reached(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 1)
    with pytest.raises(PartFailed, match=r"bound 0\.01 s\) in vain until pigs fly"):
        wait_until(lambda: False, what="pigs fly", timeout_s=0.01, interval_s=0.001)


def test_what_holds_at_every_look_stays():
    looks = []
    assert stays(lambda: not looks.append(1), for_s=0.01, interval_s=0.001)
    assert len(looks) > 1


def test_what_fails_once_does_not_stay():
    looks = iter([True, True, False, True])
    assert not stays(lambda: next(looks), for_s=60, interval_s=0.001)


def test_patience_makes_bounds_longer_and_no_watch(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 1_000)
    looks = []
    assert stays(lambda: not looks.append(1), for_s=0, interval_s=0.001)
    assert len(looks) == 1
